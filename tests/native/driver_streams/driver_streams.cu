// Streams of the driver API: priorities, flags, contexts, numbers, attributes, destroyed handles.
#include "../driver.h"

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstream plain, ranked, waiting;
    int least = 0, greatest = 0, priority = 1;
    unsigned flags = 7;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuStreamCreate(&plain, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreateWithPriority(&ranked, CU_STREAM_NON_BLOCKING, greatest - 9));
    OK(cuStreamGetPriority(ranked, &priority));
    EXPECT(priority == greatest);
    OK(cuStreamGetPriority(plain, &priority));
    EXPECT(priority == least);
    OK(cuStreamGetFlags(plain, &flags));
    EXPECT(flags == CU_STREAM_DEFAULT);
    OK(cuStreamGetFlags(ranked, &flags));
    EXPECT(flags == CU_STREAM_NON_BLOCKING);
    CUcontext of_stream = nullptr;
    OK(cuStreamGetCtx(plain, &of_stream));
    EXPECT(of_stream == context);
    unsigned long long one = 0, two = 0;
    OK(cuStreamGetId(plain, &one));
    OK(cuStreamGetId(ranked, &two));
    EXPECT(one != two);
    CUstreamAttrValue value, found;
    memset(&value, 0, sizeof value);
    value.syncPolicy = CU_SYNC_POLICY_YIELD;
    OK(cuStreamSetAttribute(plain, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    OK(cuStreamCopyAttributes(ranked, plain));
    OK(cuStreamGetAttribute(ranked, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &found));
    EXPECT(found.syncPolicy == CU_SYNC_POLICY_YIELD);
    if (on_farlane()) EXPECT(cuStreamSetAttribute(plain, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, nullptr) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamGetAttribute(plain, (CUstreamAttrID)77, &found) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamCreate(&plain, 8) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamGetFlags(plain, nullptr) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamGetCtx(plain, nullptr) == CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(plain));
    OK(cuStreamQuery(plain));
    OK(cuStreamDestroy(plain));
    if (on_farlane()) EXPECT(cuStreamDestroy(plain) == CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) EXPECT(cuStreamQuery(plain) == CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) EXPECT(cuStreamGetCtx(plain, &of_stream) == CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamDestroy(CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    printf("PASS\n");
    return 0;
}
