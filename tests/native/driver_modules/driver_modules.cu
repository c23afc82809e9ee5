// Modules from PTX text: functions by name, several modules with the same names, globals, enumeration, unloading.
#include "../driver.h"

static const char* FIRST = PTX_HEADER ".visible .global .align 4 .u32 counter = 7;\n.visible .const .align 4 .f32 weights[4];\n" PTX_SCALE PTX_FILL;
static const char* SECOND = PTX_HEADER PTX_FILL;

int main() {
    begin();
    CUmodule first, second, again;
    CUfunction scale, fill, other, same;
    // The text may change as soon as it is loaded.
    char* text = strdup(FIRST);
    OK(cuModuleLoadData(&first, text));
    memset(text, 'x', strlen(text));
    free(text);
    OK(cuModuleLoadDataEx(&second, SECOND, 0, nullptr, nullptr));
    EXPECT(first != second);
    OK(cuModuleGetFunction(&scale, first, "scale"));
    OK(cuModuleGetFunction(&fill, first, "fill"));
    OK(cuModuleGetFunction(&same, first, "fill"));
    OK(cuModuleGetFunction(&other, second, "fill"));
    EXPECT(fill == same && fill != other);
    FAILS(cuModuleGetFunction(&same, first, "nothing"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuModuleGetFunction(&same, second, "scale"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuModuleGetFunction(nullptr, first, "scale"), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuModuleGetFunction(&same, first, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuModuleGetFunction(&same, nullptr, "scale"), CUDA_ERROR_INVALID_HANDLE);
    OK(cuFuncGetModule(&again, scale));
    EXPECT(again == first);

    CUdeviceptr data;
    OK(cuMemAlloc(&data, 64 * sizeof(float)));
    int value = 100, count = 64;
    void* parameters[] = {&data, &value};
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    int ints[64];
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    for (int i = 0; i < 64; i++) EXPECT(ints[i] == 100 + i);
    float floats[64], factor = 1.5f;
    for (int i = 0; i < 64; i++) floats[i] = i;
    OK(cuMemcpyHtoD(data, floats, sizeof floats));
    void* scaling[] = {&data, &factor, &count};
    OK(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, nullptr, scaling, nullptr));
    OK(cuMemcpyDtoH(floats, data, sizeof floats));
    for (int i = 0; i < 64; i++) EXPECT(floats[i] == i * 1.5f);
    OK(cuLaunchKernel(other, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[63] == 163);

    CUdeviceptr counter, weights;
    size_t bytes = 0;
    OK(cuModuleGetGlobal(&counter, &bytes, first, "counter"));
    EXPECT(bytes == 4);
    int read = 0;
    OK(cuMemcpyDtoH(&read, counter, 4));
    EXPECT(read == 7);
    OK(cuModuleGetGlobal(&weights, nullptr, first, "weights"));
    OK(cuModuleGetGlobal(nullptr, &bytes, first, "weights"));
    EXPECT(bytes == 16 && weights);
    FAILS(cuModuleGetGlobal(&weights, &bytes, second, "counter"), CUDA_ERROR_NOT_FOUND);

    unsigned functions = 0;
    CUfunction all[4] = {};
    OK(cuModuleGetFunctionCount(&functions, first));
    EXPECT(functions == 2);
    OK(cuModuleEnumerateFunctions(all, 4, first));
    if (on_farlane()) EXPECT(all[0] == fill && all[1] == scale && !all[2]);

    OK(cuModuleUnload(first));
    FAILS(cuModuleUnload(first), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleGetFunction(&same, first, "scale"), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, nullptr, scaling, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLaunchKernel(other, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuModuleUnload(second));
    OK(cuCtxSynchronize());
    CUmoduleLoadingMode mode;
    OK(cuModuleGetLoadingMode(&mode));
    printf("lazy %d\nPASS\n", mode == CU_MODULE_LAZY_LOADING);
    return 0;
}
