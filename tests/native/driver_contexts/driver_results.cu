// Names and texts of results: every code of cuda.h has both, they are its own, and numbers that are none have neither.
#include "../driver.h"

struct Known {
    CUresult code;
    const char* name;
};

#define KNOWN(code) {code, #code}
// Those of CUDA 12.0, as programs of any release that is supported can meet them.
static const Known RESULTS[] = {
    KNOWN(CUDA_SUCCESS), KNOWN(CUDA_ERROR_INVALID_VALUE), KNOWN(CUDA_ERROR_OUT_OF_MEMORY), KNOWN(CUDA_ERROR_NOT_INITIALIZED),
    KNOWN(CUDA_ERROR_DEINITIALIZED), KNOWN(CUDA_ERROR_STUB_LIBRARY), KNOWN(CUDA_ERROR_DEVICE_UNAVAILABLE), KNOWN(CUDA_ERROR_NO_DEVICE),
    KNOWN(CUDA_ERROR_INVALID_DEVICE), KNOWN(CUDA_ERROR_INVALID_IMAGE), KNOWN(CUDA_ERROR_INVALID_CONTEXT), KNOWN(CUDA_ERROR_MAP_FAILED),
    KNOWN(CUDA_ERROR_NO_BINARY_FOR_GPU), KNOWN(CUDA_ERROR_ECC_UNCORRECTABLE), KNOWN(CUDA_ERROR_UNSUPPORTED_LIMIT), KNOWN(CUDA_ERROR_INVALID_PTX),
    KNOWN(CUDA_ERROR_JIT_COMPILER_NOT_FOUND), KNOWN(CUDA_ERROR_UNSUPPORTED_PTX_VERSION), KNOWN(CUDA_ERROR_INVALID_SOURCE),
    KNOWN(CUDA_ERROR_FILE_NOT_FOUND), KNOWN(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND), KNOWN(CUDA_ERROR_OPERATING_SYSTEM),
    KNOWN(CUDA_ERROR_INVALID_HANDLE), KNOWN(CUDA_ERROR_ILLEGAL_STATE), KNOWN(CUDA_ERROR_NOT_FOUND), KNOWN(CUDA_ERROR_NOT_READY),
    KNOWN(CUDA_ERROR_ILLEGAL_ADDRESS), KNOWN(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), KNOWN(CUDA_ERROR_LAUNCH_TIMEOUT),
    KNOWN(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED), KNOWN(CUDA_ERROR_CONTEXT_IS_DESTROYED), KNOWN(CUDA_ERROR_ASSERT),
    KNOWN(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), KNOWN(CUDA_ERROR_ILLEGAL_INSTRUCTION), KNOWN(CUDA_ERROR_MISALIGNED_ADDRESS),
    KNOWN(CUDA_ERROR_LAUNCH_FAILED), KNOWN(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE), KNOWN(CUDA_ERROR_NOT_PERMITTED),
    KNOWN(CUDA_ERROR_NOT_SUPPORTED), KNOWN(CUDA_ERROR_SYSTEM_NOT_READY), KNOWN(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    KNOWN(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), KNOWN(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD), KNOWN(CUDA_ERROR_TIMEOUT),
    KNOWN(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE), KNOWN(CUDA_ERROR_INVALID_CLUSTER_SIZE), KNOWN(CUDA_ERROR_UNKNOWN),
};

int main() {
    // Before cuInit, and in any order.
    const char *name = nullptr, *text = nullptr;
    for (const Known& known : RESULTS) {
        OK(cuGetErrorName(known.code, &name));
        OK(cuGetErrorString(known.code, &text));
        if (strcmp(name, known.name)) printf("%d is %s\n", (int)known.code, name);
        EXPECT(!strcmp(name, known.name) && strlen(text) > 4 && strcmp(text, name));
    }
    // A result's number in the range of all has a name exactly when it has a text; names are different.
    int named = 0;
    const char* names[1100];
    for (int code = 0; code < 1100; ++code) {
        name = text = "left as it was";
        CUresult one = cuGetErrorName((CUresult)code, &name), other = cuGetErrorString((CUresult)code, &text);
        EXPECT(one == other && (one == CUDA_SUCCESS || one == CUDA_ERROR_INVALID_VALUE));
        if (one != CUDA_SUCCESS) {
            EXPECT(!name && !text);
            continue;
        }
        EXPECT(!strncmp(name, "CUDA_", 5));
        for (int i = 0; i < named; ++i) EXPECT(strcmp(names[i], name));
        names[named++] = name;
    }
    EXPECT(named >= 90);
    FAILS(cuGetErrorName((CUresult)-1, &name), CUDA_ERROR_INVALID_VALUE);
    if (on_farlane()) FAILS(cuGetErrorString(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);

    // The same results from calls that make them.
    CUdeviceptr memory = 0;
    CUmodule module;
    FAILS(cuMemAlloc(&memory, 16), CUDA_ERROR_NOT_INITIALIZED);
    begin();
    FAILS(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemAlloc(&memory, 1ull << 60), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuModuleLoad(&module, "/no/such/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    FAILS(cuStreamQuery((CUstream)&memory), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuCtxSetLimit((CUlimit)99, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&memory, 64));
    OK(cuMemsetD8Async(memory, 1, 32, nullptr));
    OK(cuMemsetD8Async(memory + 32, 1, 32, nullptr));
    OK(cuMemFree(memory));
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
