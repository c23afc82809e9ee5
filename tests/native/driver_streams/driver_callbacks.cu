// Callbacks and host functions of the driver API run in the order of their stream.
#include "../driver.h"

struct Seen {
    int calls;
    CUresult status;
    CUstream stream;
};

void CUDA_CB callback(CUstream stream, CUresult status, void* data) {
    Seen* seen = (Seen*)data;
    seen->calls++;
    seen->status = status;
    seen->stream = stream;
}

void CUDA_CB function(void* data) { ((Seen*)data)->calls++; }

int main() {
    begin();
    CUstream stream;
    CUdeviceptr memory;
    unsigned char host[16] = {0};
    Seen seen = {0, CUDA_ERROR_UNKNOWN, nullptr};
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc(&memory, sizeof host));
    OK(cuMemsetD8Async(memory, 7, sizeof host, stream));
    OK(cuStreamAddCallback(stream, callback, &seen, 0));
    OK(cuLaunchHostFunc(stream, function, &seen));
    OK(cuStreamSynchronize(stream));
    EXPECT(seen.calls == 2 && seen.status == CUDA_SUCCESS && seen.stream == stream);
    EXPECT(cuStreamAddCallback(stream, nullptr, &seen, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamAddCallback(stream, callback, &seen, 1) == CUDA_ERROR_INVALID_VALUE);
    // With a mode of waiting, by the name that has it since CUDA 13.1.
    CUresult (*in_mode)(CUstream, CUhostFn, void*, unsigned) = nullptr;
    OK(cuGetProcAddress("cuLaunchHostFunc", (void**)&in_mode, 13010, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    OK(in_mode(stream, function, &seen, 0));
    OK(in_mode(stream, function, &seen, 1));
    OK(cuStreamSynchronize(stream));
    EXPECT(seen.calls == 4);
    seen.calls = 2;
    EXPECT(in_mode(stream, function, &seen, 2) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(in_mode(stream, nullptr, &seen, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchHostFunc(stream, nullptr, &seen) == CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(stream));
    EXPECT(cuStreamAddCallback(stream, callback, &seen, 0) == CUDA_ERROR_INVALID_HANDLE);
    EXPECT(seen.calls == 2);
    printf("PASS\n");
    return 0;
}
