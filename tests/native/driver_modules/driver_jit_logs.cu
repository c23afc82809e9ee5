// What a load says of PTX that is wrong, in the caller's log, and of what is no image.
#include <cuda_runtime.h>

#include "../driver.h"

static const char* WRONG = PTX_HEADER ".visible .entry broken(.param .u64 data)\n{\n.reg .b32 %r<3>;\nadd.s32 %r1, %nothing, 1;\nret;\n}\n";
static const char* RIGHT = PTX_HEADER PTX_FILL;
static const char* BOUNDED = PTX_HEADER ".visible .entry bounded(.param .u32 value)\n.maxnreg 24\n{\n.shared .align 4 .b8 room[256];\nret;\n}\n";

// Of a CUDA that is to come.
static const char* FUTURE = ".version 99.0\n.target sm_75\n.address_size 64\n" PTX_FILL;

int main() {
    begin();
    CUmodule module = nullptr;
    CUlibrary library;
    char errors[256], infos[64];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                              CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_MAX_REGISTERS};
    memset(errors, 'x', sizeof errors);
    void* values[] = {errors, (void*)sizeof errors, infos, (void*)sizeof infos, (void*)3, (void*)32};
    FAILS(cuModuleLoadDataEx(&module, WRONG, 6, options, values), CUDA_ERROR_INVALID_PTX);
    EXPECT((size_t)values[1] == strlen(errors) && strstr(errors, "line 7") && strstr(errors, "nothing"));
    EXPECT((size_t)values[3] == 0 && !module);
    // The log is cut where the buffer ends.
    values[1] = (void*)8;
    FAILS(cuLibraryLoadData(&library, WRONG, options, values, 2, nullptr, nullptr, 0), CUDA_ERROR_INVALID_PTX);
    EXPECT((size_t)values[1] == 7 && strlen(errors) == 7);
    values[1] = (void*)sizeof errors;
    OK(cuModuleLoadDataEx(&module, RIGHT, 6, options, values));
    EXPECT((size_t)values[1] == 0 && !errors[0]);
    // Without CU_JIT_LOG_VERBOSE there is nothing to say; with it, what kernels need, as far as there is room.
    EXPECT((size_t)values[3] == 0 && !infos[0]);
    options[4] = CU_JIT_LOG_VERBOSE, values[4] = (void*)1;
    char long_infos[512];
    values[1] = (void*)sizeof errors, values[2] = long_infos, values[3] = (void*)sizeof long_infos;
    OK(cuModuleLoadDataEx(&module, BOUNDED, 6, options, values));
    EXPECT((size_t)values[3] == strlen(long_infos) && strstr(long_infos, "'bounded': 4 bytes of parameters, 256 of shared memory"));
    EXPECT(strstr(long_infos, "at most 24 registers"));
    values[1] = (void*)sizeof errors, values[2] = infos, values[3] = (void*)sizeof infos;
    OK(cuLibraryLoadData(&library, RIGHT, options, values, 6, nullptr, nullptr, 0));
    EXPECT((size_t)values[3] == sizeof infos - 1 && strlen(infos) == sizeof infos - 1);
    options[4] = CU_JIT_OPTIMIZATION_LEVEL;
    FAILS(cuModuleLoadData(&module, WRONG), CUDA_ERROR_INVALID_PTX);
    values[1] = (void*)sizeof errors;
    FAILS(cuModuleLoadDataEx(&module, FUTURE, 2, options, values), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT(strstr(errors, "99.0") && strstr(errors, "newer"));
    FAILS(cuLibraryLoadData(&library, FUTURE, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    cudaLibrary_t loaded;
    EXPECT(cudaLibraryLoadData(&loaded, FUTURE, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaErrorUnsupportedPtxVersion);
    FAILS(cuModuleLoadData(&module, "no image at all, of a length that a header might have"), CUDA_ERROR_INVALID_IMAGE);
    FAILS(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuModuleLoadData(&module, (void*)64), CUDA_ERROR_INVALID_IMAGE);
    FAILS(cuModuleLoad(&module, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
    values[4] = (void*)9;
    FAILS(cuModuleLoadDataEx(&module, RIGHT, 6, options, values), CUDA_ERROR_INVALID_VALUE);
    options[0] = (CUjit_option)1000;
    FAILS(cuModuleLoadDataEx(&module, RIGHT, 1, options, values), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
