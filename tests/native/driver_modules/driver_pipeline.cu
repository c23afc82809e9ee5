// A pipeline of chunks through pinned buffers: streams with priorities copy up, compute and copy down; host functions take what has arrived, in order.
#include "../driver.h"

#include <vector>

struct Slot {
    float* host;
    CUdeviceptr device;
    CUstream stream;
    CUevent done;
};

struct Arrival {
    const float* host;
    int chunk;
    std::vector<int>* order;
    double* sum;
};

static const int CHUNK = 4096, CHUNKS = 24;

// Takes a chunk out of its pinned buffer, behind the copy that filled it.
static void CUDA_CB arrived(void* data) {
    Arrival* arrival = (Arrival*)data;
    arrival->order->push_back(arrival->chunk);
    for (int i = 0; i < CHUNK; ++i) *arrival->sum += arrival->host[i] * (1 + i % 3);
}

int main() {
    begin();
    CUmodule module;
    CUfunction scale;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_SCALE));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    int least = 0, greatest = 0;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    Slot slots[3];
    for (int i = 0; i < 3; ++i) {
        Slot& slot = slots[i];
        OK(cuMemHostAlloc((void**)&slot.host, CHUNK * sizeof(float), 0));
        OK(cuMemAlloc(&slot.device, CHUNK * sizeof(float)));
        OK(cuStreamCreateWithPriority(&slot.stream, CU_STREAM_NON_BLOCKING, i == 0 ? greatest : least));
        OK(cuEventCreate(&slot.done, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
    }
    std::vector<int> order;
    std::vector<Arrival> arrivals(CHUNKS);
    double sum = 0, expected = 0;
    int count = CHUNK;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        Slot& slot = slots[chunk % 3];
        OK(cuEventSynchronize(slot.done));  // the buffer's last use; an event that was never recorded is done
        for (int i = 0; i < CHUNK; ++i) slot.host[i] = float((chunk * 31 + i) % 101);
        float factor = 1 + chunk % 4;
        for (int i = 0; i < CHUNK; ++i) expected += double(slot.host[i]) * factor * (1 + i % 3);
        OK(cuMemcpyHtoDAsync(slot.device, slot.host, CHUNK * sizeof(float), slot.stream));
        void* parameters[] = {&slot.device, &factor, &count};
        OK(cuLaunchKernel(scale, CHUNK / 256, 1, 1, 256, 1, 1, 0, slot.stream, parameters, nullptr));
        OK(cuMemcpyDtoHAsync(slot.host, slot.device, CHUNK * sizeof(float), slot.stream));
        arrivals[chunk] = {slot.host, chunk, &order, &sum};
        OK(cuLaunchHostFunc(slot.stream, arrived, &arrivals[chunk]));
        OK(cuEventRecord(slot.done, slot.stream));
    }
    OK(cuCtxSynchronize());
    EXPECT(order.size() == CHUNKS && sum == expected);
    // Chunks of one stream arrive in its order.
    for (int slot = 0; slot < 3; ++slot) {
        int last = -1;
        for (int chunk : order) {
            if (chunk % 3 != slot) continue;
            EXPECT(chunk > last);
            last = chunk;
        }
    }
    for (Slot& slot : slots) {
        int priority = 99;
        OK(cuStreamGetPriority(slot.stream, &priority));
        EXPECT(priority == (&slot == slots ? greatest : least));
        OK(cuStreamDestroy(slot.stream));
        OK(cuEventDestroy(slot.done));
        OK(cuMemFree(slot.device));
        OK(cuMemFreeHost(slot.host));
    }
    printf("driver_pipeline %.0f\nPASS\n", sum);
    return 0;
}
