// Variables of modules: found, read, written, set; those of two modules with the same names are apart; linked units share theirs; unloading ends them.
#include "../driver.h"

// step(): total += table[tid] * factor, with `factor` in constant memory
static const char* TEXT = PTX_HEADER
    ".visible .global .align 8 .u64 total = 1000;\n.visible .const .align 4 .u32 factor = 2;\n"
    ".visible .global .align 4 .u32 table[32] = {1, 2, 3, 4, 5, 6, 7, 8};\n.global .align 4 .u32 hidden = 5;\n"
    ".visible .entry step()\n{\n.reg .b32 %r<6>;\n.reg .b64 %rd<8>;\n"
    "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nmov.u64 %rd2, table;\nadd.s64 %rd3, %rd2, %rd1;\nld.global.u32 %r2, [%rd3];\n"
    "ld.const.u32 %r3, [factor];\nmul.wide.u32 %rd4, %r2, %r3;\natom.global.add.u64 %rd5, [total], %rd4;\nret;\n}\n";

struct Loaded {
    CUmodule module;
    CUfunction step;
    CUdeviceptr total, factor, table;
};

static Loaded load() {
    Loaded loaded;
    size_t bytes = 0;
    OK(cuModuleLoadData(&loaded.module, TEXT));
    OK(cuModuleGetFunction(&loaded.step, loaded.module, "step"));
    OK(cuModuleGetGlobal(&loaded.total, &bytes, loaded.module, "total"));
    EXPECT(bytes == 8 && loaded.total % 8 == 0);
    OK(cuModuleGetGlobal(&loaded.factor, &bytes, loaded.module, "factor"));
    EXPECT(bytes == 4);
    OK(cuModuleGetGlobal(&loaded.table, &bytes, loaded.module, "table"));
    EXPECT(bytes == 128);
    return loaded;
}

static unsigned long long total(const Loaded& loaded) {
    unsigned long long value = 0;
    OK(cuMemcpyDtoH(&value, loaded.total, sizeof value));
    return value;
}

static void step(const Loaded& loaded) { OK(cuLaunchKernel(loaded.step, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr)); }

int main() {
    begin();
    Loaded one = load(), two = load();
    EXPECT(one.total != two.total && one.table != two.table && one.factor != two.factor);
    EXPECT(total(one) == 1000);
    for (int i = 0; i < 3; ++i) step(one);
    EXPECT(total(one) == 1000 + 3 * 36 * 2 && total(two) == 1000);
    // Constant memory and the table, written between launches.
    unsigned factor = 10, words[32];
    OK(cuMemcpyHtoD(two.factor, &factor, sizeof factor));
    for (unsigned i = 0; i < 32; ++i) words[i] = i;
    OK(cuMemcpyHtoDAsync(two.table, words, sizeof words, nullptr));
    step(two);
    OK(cuMemsetD32(two.table, 1, 32));
    step(two);
    OK(cuMemcpyDtoD(one.table, two.table, 64));
    step(one);
    EXPECT(total(two) == 1000 + 10 * 496 + 10 * 32 && total(one) == 1000 + 3 * 36 * 2 + 2 * 16);
    // A variable's range is its own.
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cuMemGetAddressRange(&base, &bytes, one.table + 4));
    EXPECT(base <= one.table && bytes >= 124);
    CUdeviceptr none;
    if (on_farlane()) FAILS(cuModuleGetGlobal(&none, &bytes, one.module, "step"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuModuleGetGlobal(&none, &bytes, one.module, "absent"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuModuleGetGlobal(&none, &bytes, one.module, nullptr), CUDA_ERROR_INVALID_VALUE);
    if (on_farlane()) FAILS(cuModuleGetGlobal(nullptr, nullptr, one.module, "absent"), CUDA_ERROR_NOT_FOUND);
    unsigned long long last = total(one) + total(two);
    OK(cuModuleUnload(one.module));
    FAILS(cuModuleGetGlobal(&none, &bytes, one.module, "total"), CUDA_ERROR_INVALID_HANDLE);
    step(two);
    EXPECT(total(two) == 1000 + 10 * 496 + 20 * 32);
    OK(cuModuleUnload(two.module));
    // Loaded again, variables begin again.
    one = load();
    step(one);
    EXPECT(total(one) == 1072);
    OK(cuModuleUnload(one.module));
    printf("driver_globals %llu\nPASS\n", last);
    return 0;
}
