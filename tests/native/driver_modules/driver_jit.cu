// A small JIT: a kernel's PTX is written for each size (unrolled, its constants in the text), compiled once for a size, kept, and thrown away.
#include "../driver.h"

#include <map>
#include <string>
#include <vector>

// polynomial(float* out, const float* in, int count): out[i] = c[0] + c[1] x + ... by Horner's rule, a multiply-add for each coefficient.
static std::string polynomial(const std::vector<float>& coefficients) {
    char line[160];
    std::string text = PTX_HEADER
        ".visible .entry polynomial(.param .u64 out, .param .u64 in, .param .u32 count)\n{\n"
        ".reg .pred %p<2>;\n.reg .f32 %f<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n"
        "ld.param.u64 %rd1, [out];\nld.param.u64 %rd2, [in];\nld.param.u32 %r1, [count];\n"
        "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"
        "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"
        "setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra DONE;\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd2, %rd3;\nadd.s64 %rd5, %rd1, %rd3;\n"
        "ld.global.f32 %f1, [%rd4];\n";
    unsigned bits;
    for (size_t i = coefficients.size(); i-- > 0;) {
        memcpy(&bits, &coefficients[i], 4);
        if (i + 1 == coefficients.size())
            snprintf(line, sizeof line, "mov.f32 %%f2, 0f%08X;\n", bits);
        else
            snprintf(line, sizeof line, "mul.rn.f32 %%f2, %%f2, %%f1;\nadd.rn.f32 %%f2, %%f2, 0f%08X;\n", bits);
        text += line;
    }
    return text + "st.global.f32 [%rd5], %f2;\nDONE:\nret;\n}\n";
}

class Compiler {
  public:
    CUfunction get(const std::vector<float>& coefficients) {
        auto found = kernels.find(coefficients);
        if (found != kernels.end()) return found->second.function;
        std::string text = polynomial(coefficients);
        char info[512], error[512];
        CUjit_option options[] = {CU_JIT_MAX_REGISTERS,  CU_JIT_OPTIMIZATION_LEVEL,         CU_JIT_TARGET_FROM_CUCONTEXT, CU_JIT_INFO_LOG_BUFFER,
                                  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME};
        void* values[] = {(void*)64, (void*)4, nullptr, info, (void*)sizeof info, error, (void*)sizeof error, nullptr};
        Kernel made;
        OK(cuModuleLoadDataEx(&made.module, text.c_str(), 8, options, values));
        EXPECT((size_t)values[6] == 0);
        OK(cuModuleGetFunction(&made.function, made.module, "polynomial"));
        ++compiled;
        return (kernels[coefficients] = made).function;
    }

    void forget() {
        for (auto& kernel : kernels) OK(cuModuleUnload(kernel.second.module));
        kernels.clear();
    }

    int compiled = 0;

  private:
    struct Kernel {
        CUmodule module;
        CUfunction function;
    };
    std::map<std::vector<float>, Kernel> kernels;
};

int main() {
    begin();
    const int count = 1000;
    std::vector<float> in(count), out(count);
    for (int i = 0; i < count; ++i) in[i] = (i - 500) / 256.0f;
    CUdeviceptr device_in, device_out;
    OK(cuMemAlloc(&device_in, count * sizeof(float)));
    OK(cuMemAlloc(&device_out, count * sizeof(float)));
    OK(cuMemcpyHtoD(device_in, in.data(), count * sizeof(float)));
    Compiler compiler;
    double sum = 0;
    for (int round = 0; round < 3; ++round) {
        for (int degree = 1; degree <= 16; degree *= 2) {
            std::vector<float> coefficients;
            for (int i = 0; i <= degree; ++i) coefficients.push_back(float(i % 3 - 1) + 0.125f * degree);
            CUfunction kernel = compiler.get(coefficients);
            int n = count;
            void* parameters[] = {&device_out, &device_in, &n};
            OK(cuLaunchKernel(kernel, (count + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
            OK(cuMemcpyDtoH(out.data(), device_out, count * sizeof(float)));
            for (int i = 0; i < count; ++i) {
                volatile float value = coefficients[degree];
                for (int k = degree; k-- > 0;) {
                    value = value * in[i];
                    value = value + coefficients[k];
                }
                EXPECT(out[i] == value);
                sum += degree == 4 ? value : 0;
            }
        }
    }
    EXPECT(compiler.compiled == 5);
    compiler.forget();
    CUfunction anew = compiler.get({1.0f, 2.0f});
    EXPECT(compiler.compiled == 6 && anew);
    compiler.forget();
    FAILS(cuLaunchKernel(anew, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(device_in));
    OK(cuMemFree(device_out));
    printf("driver_jit %.3f\nPASS\n", sum);
    return 0;
}
