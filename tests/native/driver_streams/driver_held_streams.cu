// Waits of streams for words that later calls, kernels, other threads or the program itself set, and everything behind such waits.
#include "../driver.h"
#include <thread>
#include <unistd.h>

static const char *ptx = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry add(.param .u64 place, .param .u32 value) {
    .reg .u64 %a; .reg .u32 %v, %w;
    ld.param.u64 %a, [place];
    ld.param.u32 %v, [value];
    ld.global.u32 %w, [%a];
    add.u32 %w, %w, %v;
    st.global.u32 [%a], %w;
    ret;
}
)";

static CUfunction function;

static void add(CUstream stream, CUdeviceptr place, unsigned value) {
    void *arguments[] = {&place, &value};
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
}

static unsigned word(CUdeviceptr place) {
    unsigned value;
    CUstream own;
    OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    OK(cuMemcpyDtoHAsync(&value, place, 4, own));
    OK(cuStreamSynchronize(own));
    OK(cuStreamDestroy(own));
    return value;
}

static void CUDA_CB called(void *data) { ++*(int *)data; }
static void CUDA_CB called_back(CUstream, CUresult status, void *data) {
    EXPECT(status == CUDA_SUCCESS);
    *(int *)data *= 10;
}

int main() {
    begin();
    CUmodule module;
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&function, module, "add"));
    CUstream one, two, three;
    CUdeviceptr memory;
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&three, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, 64));
    OK(cuMemsetD8(memory, 0, 64));
    OK(cuCtxSynchronize());
    CUdeviceptr flag = memory, first = memory + 4, second = memory + 8, third = memory + 12;

    // A write in another stream, called later.
    OK(cuStreamWaitValue32(one, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    add(one, first, 5);
    EXPECT(cuStreamQuery(one) == CUDA_ERROR_NOT_READY);
    EXPECT(word(first) == 0);
    OK(cuStreamWriteValue32(two, flag, 1, 0));
    OK(cuStreamSynchronize(one));
    EXPECT(word(first) == 5);

    // A kernel of another stream; streams that wait for an event behind the wait wait, too, and events are not ready.
    CUevent start, reached, after;
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&reached, 0));
    OK(cuEventCreate(&after, 0));
    OK(cuEventRecord(start, one));
    OK(cuStreamWaitValue32(one, flag, 2, CU_STREAM_WAIT_VALUE_GEQ));
    add(one, first, 7);
    OK(cuEventRecord(reached, one));
    OK(cuStreamWaitEvent(three, reached, 0));
    add(three, second, 3);
    OK(cuEventRecord(after, three));
    EXPECT(cuEventQuery(reached) == CUDA_ERROR_NOT_READY);
    EXPECT(cuEventQuery(after) == CUDA_ERROR_NOT_READY);
    EXPECT(cuStreamQuery(three) == CUDA_ERROR_NOT_READY);
    float time;
    EXPECT(cuEventElapsedTime(&time, start, reached) == CUDA_ERROR_NOT_READY);
    EXPECT(word(first) == 5 && word(second) == 0);
    add(two, flag, 1);
    OK(cuEventSynchronize(after));
    EXPECT(cuEventQuery(reached) == CUDA_SUCCESS);
    EXPECT(word(first) == 12 && word(second) == 3);
    OK(cuEventElapsedTime(&time, start, after));
    EXPECT(time >= 0);

    // A word of pinned memory that the program sets; what is copied is read and written when its turn comes.
    unsigned *pinned;
    OK(cuMemAllocHost((void **)&pinned, 64));
    memset(pinned, 0, 64);
    unsigned pageable = 100;
    int calls = 0;
    OK(cuStreamWaitValue32(one, (CUdeviceptr)&pinned[0], 9, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyHtoDAsync(third, &pinned[1], 4, one));
    add(one, third, 1);
    OK(cuMemcpyDtoHAsync(&pinned[2], third, 4, one));
    OK(cuMemcpyHtoDAsync(second, &pageable, 4, one));
    OK(cuMemsetD32Async(first, 77, 1, one));
    OK(cuLaunchHostFunc(one, called, &calls));
    OK(cuStreamAddCallback(one, called_back, &calls, 0));
    pageable = 200;
    pinned[1] = 41;
    EXPECT(cuStreamQuery(one) == CUDA_ERROR_NOT_READY);
    EXPECT(calls == 0 && pinned[2] == 0);
    pinned[0] = 9;
    OK(cuStreamSynchronize(one));
    EXPECT(calls == 10 && pinned[2] == 42);
    EXPECT(word(second) == 100 && word(first) == 77);

    // Another thread ends what this one waits for.
    OK(cuStreamWaitValue64(one, (CUdeviceptr)&pinned[4], 3, CU_STREAM_WAIT_VALUE_AND));
    add(one, first, 1);
    std::thread other([&] {
        usleep(20000);
        *(volatile unsigned long long *)&pinned[4] = 2;
    });
    OK(cuCtxSynchronize());
    other.join();
    EXPECT(word(first) == 78);

    // The legacy stream waits for blocking streams, and they for it; other streams go on.
    CUstream blocking, later;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&later, CU_STREAM_DEFAULT));
    OK(cuStreamWaitValue32(blocking, flag, 50, CU_STREAM_WAIT_VALUE_EQ));
    add(nullptr, first, 1);
    add(later, second, 1);
    add(two, third, 1);
    EXPECT(word(first) == 78 && word(second) == 100 && word(third) == 43);
    EXPECT(cuStreamQuery(later) == CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(two, flag, 50, 0));
    unsigned value;
    OK(cuMemcpyDtoH(&value, first, 4));
    EXPECT(value == 79);
    OK(cuStreamSynchronize(later));
    EXPECT(word(second) == 101);

    // Two streams that set each other's words in turn.
    OK(cuMemsetD8(memory, 0, 16));
    for (unsigned turn = 0; turn < 5; ++turn) {
        OK(cuStreamWaitValue32(one, flag, 2 * turn + 1, CU_STREAM_WAIT_VALUE_EQ));
        add(one, first, 1);
        OK(cuStreamWriteValue32(one, flag, 2 * turn + 2, 0));
    }
    EXPECT(word(first) == 0);
    for (unsigned turn = 0; turn < 5; ++turn) {
        OK(cuStreamWaitValue32(two, flag, 2 * turn, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuStreamWriteValue32(two, flag, 2 * turn + 1, 0));
    }
    OK(cuStreamSynchronize(two));
    OK(cuStreamSynchronize(one));
    EXPECT(word(first) == 5 && word(flag) == 10);

    // A graph with a wait in its middle, and a graph that is launched behind a wait.
    CUgraph graph, plain;
    CUgraphExec exec, plain_exec;
    OK(cuStreamBeginCapture(three, CU_STREAM_CAPTURE_MODE_RELAXED));
    add(three, first, 10);
    OK(cuStreamWaitValue32(three, flag, 11, CU_STREAM_WAIT_VALUE_EQ));
    add(three, first, 100);
    OK(cuStreamEndCapture(three, &graph));
    OK(cuStreamBeginCapture(three, CU_STREAM_CAPTURE_MODE_RELAXED));
    add(three, first, 1000);
    OK(cuStreamEndCapture(three, &plain));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphInstantiate(&plain_exec, plain, 0));
    OK(cuGraphLaunch(exec, one));
    OK(cuGraphLaunch(plain_exec, one));
    EXPECT(word(first) == 15);
    OK(cuStreamWriteValue32(two, flag, 11, 0));
    OK(cuStreamSynchronize(one));
    EXPECT(word(first) == 1115);

    // What is ended while it is held ends in its turn.
    CUdeviceptr lent;
    CUstream brief;
    CUevent mark;
    OK(cuStreamCreate(&brief, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAllocAsync(&lent, 256, brief));
    OK(cuStreamWaitValue32(brief, flag, 12, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemsetD32Async(lent, 6, 1, brief));
    OK(cuMemcpyDtoDAsync(second, lent, 4, brief));
    OK(cuMemFreeAsync(lent, brief));
    OK(cuEventRecord(mark, brief));
    OK(cuStreamWaitEvent(two, mark, 0));
    OK(cuEventDestroy(mark));
    OK(cuStreamDestroy(brief));
    OK(cuStreamWriteValue32(three, flag, 12, 0));
    OK(cuStreamSynchronize(two));
    EXPECT(word(second) == 6);

    int can = 0;
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    EXPECT(can == 1);
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
