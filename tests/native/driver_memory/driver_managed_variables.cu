// Managed variables of loaded modules and libraries: the program reads and writes them where kernels do, and they end with what has them.
#include <cuda_runtime.h>

#include "../driver.h"

// step(): counter += table[tid]; table[tid] += beside
static const char* TEXT = PTX_HEADER
    ".visible .global .align 4 .u32 beside = 7;\n.global .attribute(.managed) .align 4 .u32 counter = 40;\n"
    ".visible .global .attribute(.managed) .align 4 .b8 table[12000] = {1, 0, 0, 0, 2};\n"
    ".visible .entry step()\n{\n.reg .b32 %r<6>;\n.reg .b64 %rd<8>;\n"
    "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nmov.u64 %rd2, table;\nadd.s64 %rd3, %rd2, %rd1;\nld.global.u32 %r2, [%rd3];\n"
    "atom.global.add.u32 %r3, [counter], %r2;\nld.global.u32 %r4, [beside];\nadd.s32 %r4, %r4, %r2;\nst.global.u32 [%rd3], %r4;\nret;\n}\n";

static void step(CUfunction function) {
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuCtxSynchronize());
}

static void of_a_library() {
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr place;
    size_t bytes = 0;
    OK(cuLibraryLoadData(&library, TEXT, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&kernel, library, "step"));
    step((CUfunction)kernel);
    OK(cuLibraryGetManaged(&place, &bytes, library, "counter"));
    volatile int* counter = (volatile int*)place;
    EXPECT(bytes == 4 && *counter == 43);
    OK(cuLibraryGetManaged(&place, nullptr, library, "table"));
    volatile int* table = (volatile int*)place;
    EXPECT(table[0] == 8 && table[1] == 9 && table[31] == 7 && table[2999] == 0);
    *counter = 0;
    for (int i = 0; i < 32; ++i) table[i] = i;
    step((CUfunction)kernel);
    EXPECT(*counter == 496 && table[31] == 38);
    int managed = 0;
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)counter));
    EXPECT(managed == 1);
    OK(cuMemsetD32((CUdeviceptr)counter, 5, 1));
    EXPECT(*counter == 5);
    OK(cuLibraryGetManaged(nullptr, &bytes, library, "table"));
    EXPECT(bytes == 12000);
    FAILS(cuLibraryGetManaged(nullptr, nullptr, library, "table"), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLibraryGetManaged(&place, &bytes, library, "beside"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuLibraryGetManaged(&place, &bytes, library, "absent"), CUDA_ERROR_NOT_FOUND);
    void *again, *other;
    EXPECT(cudaLibraryGetManaged(&again, &bytes, (cudaLibrary_t)library, "counter") == cudaSuccess && again == (void*)counter);
    EXPECT(cudaLibraryGetManaged(&other, &bytes, (cudaLibrary_t)library, "beside") == cudaErrorSymbolNotFound);
    OK(cuLibraryUnload(library));
}

static int* of_module(CUmodule module, const char* name) {
    CUdeviceptr place;
    OK(cuModuleGetGlobal(&place, nullptr, module, name));
    return (int*)place;
}

static void of_modules() {
    CUmodule one, two;
    CUfunction function;
    OK(cuModuleLoadData(&one, TEXT));
    OK(cuModuleLoadData(&two, TEXT));
    int *first = of_module(one, "counter"), *second = of_module(two, "counter");
    EXPECT(first != second && *first == 40 && *second == 40);
    OK(cuModuleGetFunction(&function, two, "step"));
    step(function);
    EXPECT(*first == 40 && *second == 43 && of_module(two, "table")[1] == 9);
    OK(cuModuleUnload(one));
    step(function);
    EXPECT(*second == 43 + 8 + 9 + 30 * 7);
    OK(cuModuleUnload(two));
}

int main() {
    CUdevice device = begin();
    // What is loaded later may lie where something has ended.
    for (int round = 0; round < 3; ++round) {
        of_a_library();
        of_modules();
    }
    // A context of its own has variables of its own.
    CUcontext created = create(device);
    of_a_library();
    CUmodule module;
    OK(cuModuleLoadData(&module, TEXT));
    EXPECT(*of_module(module, "counter") == 40);
    OK(cuCtxDestroy(created));
    of_modules();
    printf("PASS\n");
    return 0;
}
