// A matrix multiplication whose PTX is a file of the disk at run time: tiles in static and dynamic shared memory, sizes that no tile divides.
#include "../driver.h"

#include <string>
#include <vector>

// tiled(a, b, c, m, n, k): a block of 16 x 16 threads for a tile of c; tiles of a and b lie in `STORAGE`.
static std::string tiled(bool dynamic) {
    std::string storage = dynamic ? "memory" : "mine";
    std::string text = PTX_HEADER;
    if (dynamic) text += ".extern .shared .align 4 .b8 memory[];\n";
    text += ".visible .entry tiled(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 m, .param .u32 n, .param .u32 k)\n{\n"
            ".reg .pred %p<6>;\n.reg .f32 %f<6>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<12>;\n";
    if (!dynamic) text += ".shared .align 4 .b8 mine[2048];\n";
    text += "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [c];\n"
            "ld.param.u32 %r1, [m];\nld.param.u32 %r2, [n];\nld.param.u32 %r3, [k];\n"
            "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\ncvta.to.global.u64 %rd3, %rd3;\n"
            "mov.u32 %r4, %tid.x;\nmov.u32 %r5, %tid.y;\nmov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ctaid.y;\n"
            "mad.lo.s32 %r8, %r7, 16, %r5;\nmad.lo.s32 %r9, %r6, 16, %r4;\n"  // row, column
            "setp.lt.s32 %p1, %r8, %r1;\nsetp.lt.s32 %p2, %r9, %r2;\nmov.u32 %r20, ";
    text += storage + ";\nadd.s32 %r21, %r20, 1024;\n"
            "mad.lo.s32 %r10, %r5, 16, %r4;\nshl.b32 %r10, %r10, 2;\nadd.s32 %r11, %r20, %r10;\nadd.s32 %r12, %r21, %r10;\n"
            "shl.b32 %r13, %r5, 6;\nadd.s32 %r13, %r20, %r13;\nshl.b32 %r14, %r4, 2;\nadd.s32 %r14, %r21, %r14;\n"
            "mov.f32 %f1, 0f00000000;\nmov.u32 %r15, 0;\n"
            "NEXT:\nadd.s32 %r16, %r15, %r4;\nadd.s32 %r17, %r15, %r5;\n"
            "mov.f32 %f2, 0f00000000;\nmov.f32 %f3, 0f00000000;\n"
            "setp.lt.and.s32 %p3, %r16, %r3, %p1;\nmad.lo.s32 %r18, %r8, %r3, %r16;\nmul.wide.s32 %rd4, %r18, 4;\nadd.s64 %rd4, %rd1, %rd4;\n"
            "@%p3 ld.global.f32 %f2, [%rd4];\n"
            "setp.lt.and.s32 %p4, %r17, %r3, %p2;\nmad.lo.s32 %r19, %r17, %r2, %r9;\nmul.wide.s32 %rd5, %r19, 4;\nadd.s64 %rd5, %rd2, %rd5;\n"
            "@%p4 ld.global.f32 %f3, [%rd5];\n"
            "st.shared.f32 [%r11], %f2;\nst.shared.f32 [%r12], %f3;\nbar.sync 0;\n";
    char line[160];
    for (int i = 0; i < 16; ++i) {
        snprintf(line, sizeof line, "ld.shared.f32 %%f4, [%%r13+%d];\nld.shared.f32 %%f5, [%%r14+%d];\nfma.rn.f32 %%f1, %%f4, %%f5, %%f1;\n", 4 * i, 64 * i);
        text += line;
    }
    return text + "bar.sync 0;\nadd.s32 %r15, %r15, 16;\nsetp.lt.s32 %p5, %r15, %r3;\n@%p5 bra NEXT;\n"
                  "and.pred %p3, %p1, %p2;\n@!%p3 bra DONE;\nmad.lo.s32 %r22, %r8, %r2, %r9;\nmul.wide.s32 %rd6, %r22, 4;\nadd.s64 %rd6, %rd3, %rd6;\n"
                  "st.global.f32 [%rd6], %f1;\nDONE:\nret;\n}\n";
}

static CUmodule from_file(const std::string& text) {
    char path[] = "/tmp/farlane_matmul_XXXXXX";
    int file = mkstemp(path);
    EXPECT(file >= 0);
    FILE* out = fdopen(file, "w");
    EXPECT(fwrite(text.data(), 1, text.size(), out) == text.size() && !fclose(out));
    CUmodule module;
    OK(cuModuleLoad(&module, path));
    EXPECT(!remove(path));
    return module;
}

static double multiply(CUfunction kernel, int shared, int m, int n, int k) {
    std::vector<float> a(m * k), b(k * n), c(m * n);
    for (int i = 0; i < m * k; ++i) a[i] = float(i * 7 % 23 - 11);
    for (int i = 0; i < k * n; ++i) b[i] = float(i * 5 % 19 - 9) / 4;
    CUdeviceptr device_a, device_b, device_c;
    OK(cuMemAlloc(&device_a, a.size() * 4));
    OK(cuMemAlloc(&device_b, b.size() * 4));
    OK(cuMemAlloc(&device_c, c.size() * 4));
    OK(cuMemcpyHtoDAsync(device_a, a.data(), a.size() * 4, nullptr));
    OK(cuMemcpyHtoDAsync(device_b, b.data(), b.size() * 4, nullptr));
    OK(cuMemsetD32Async(device_c, 0x7fc00000, c.size(), nullptr));
    void* parameters[] = {&device_a, &device_b, &device_c, &m, &n, &k};
    OK(cuLaunchKernel(kernel, (n + 15) / 16, (m + 15) / 16, 1, 16, 16, 1, shared, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(c.data(), device_c, c.size() * 4));
    // All values are small multiples of 1/4: any order of summation is exact.
    double sum = 0;
    for (int row = 0; row < m; ++row) {
        for (int column = 0; column < n; ++column) {
            float expected = 0;
            for (int i = 0; i < k; ++i) expected += a[row * k + i] * b[i * n + column];
            EXPECT(c[row * n + column] == expected);
            sum += expected * (row % 7 - column % 5);
        }
    }
    OK(cuMemFree(device_a));
    OK(cuMemFree(device_b));
    OK(cuMemFree(device_c));
    return sum;
}

int main() {
    begin();
    CUmodule fixed = from_file(tiled(false)), dynamic = from_file(tiled(true));
    CUfunction own, given;
    OK(cuModuleGetFunction(&own, fixed, "tiled"));
    OK(cuModuleGetFunction(&given, dynamic, "tiled"));
    int bytes = -1;
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, own));
    EXPECT(bytes == 2048);
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, given));
    EXPECT(bytes == 0);
    const int sizes[][3] = {{1, 1, 1}, {16, 16, 16}, {17, 33, 5}, {64, 48, 80}, {100, 31, 70}};
    double sum = 0;
    for (auto& size : sizes) {
        double one = multiply(own, 0, size[0], size[1], size[2]), two = multiply(given, 2048, size[0], size[1], size[2]);
        EXPECT(one == two);
        sum += one;
    }
    OK(cuModuleUnload(fixed));
    OK(cuModuleUnload(dynamic));
    printf("driver_matmul %.2f\nPASS\n", sum);
    return 0;
}
