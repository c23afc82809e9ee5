// One scenario for each row of the round-trip table (architecture page): `round_trips NAME` does what the name says and ends.
// The counts are in the report that the shim writes at exit; this program only checks that every call returns what CUDA
// documents. "before" lines say what was called before the calls that a scenario is about.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define EXPECT(expected, call)                                                                             \
    do {                                                                                                   \
        cudaError_t got = (call);                                                                          \
        if (got != (expected)) {                                                                           \
            std::printf("line %d: %s is %d (%s)\n", __LINE__, #call, int(got), cudaGetErrorString(got));    \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)
#define OK(call) EXPECT(cudaSuccess, call)
#define TRUE(condition)                                                \
    do {                                                               \
        if (!(condition)) {                                            \
            std::printf("line %d: not %s\n", __LINE__, #condition);     \
            std::exit(1);                                              \
        }                                                              \
    } while (0)

__constant__ int constant[64];
__device__ int variable[64];

__global__ void kernel(int *data, int n, float scale, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = int(data[i] * scale) + offset + constant[0] + variable[0];
}

static const size_t MIB = 1 << 20;

static int *allocate(size_t bytes) {
    int *memory = nullptr;
    OK(cudaMalloc(&memory, bytes));
    TRUE(memory != nullptr);
    return memory;
}

static cudaStream_t stream(unsigned flags) {
    cudaStream_t made = nullptr;
    OK(cudaStreamCreateWithFlags(&made, flags));
    return made;
}

static void launches(int count, int *memory, cudaStream_t on = nullptr) {
    for (int i = 0; i < count; ++i) kernel<<<1, 32, 0, on>>>(memory, 32, 1.0f, 0);
    OK(cudaGetLastError());
}

// Start -----------------------------------------------------------------------------------------------------------

static void nothing() { OK(cudaFree(nullptr)); }
static void first_kernel() { launches(1, allocate(4096)); }

// Launches --------------------------------------------------------------------------------------------------------

static void launches_then_synchronize(int count) {
    launches(count, allocate(4096));
    OK(cudaDeviceSynchronize());
}
static void one_launch() { launches_then_synchronize(1); }
static void many_launches() { launches_then_synchronize(10000); }

static void mixed() {
    int *memory = allocate(4096);
    int source[32] = {1, 2, 3};
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    for (int i = 0; i < 500; ++i) {
        OK(cudaMemcpy(memory, source, sizeof source, cudaMemcpyHostToDevice));
        OK(cudaMemsetAsync(memory + 32, i, 128));
        launches(1, memory);
        OK(cudaMemcpyAsync(memory + 64, memory, 128, cudaMemcpyDeviceToDevice));
        OK(cudaEventRecord(event));
    }
    OK(cudaDeviceSynchronize());
}

// Deferred calls --------------------------------------------------------------------------------------------------

static void allocate_and_free() {
    std::vector<int *> all;
    for (int i = 0; i < 50; ++i) all.push_back(allocate(i * 1000 + 1));
    all.push_back(allocate(3 * MIB));
    for (int *memory : all) OK(cudaFree(memory));
    int *memory = nullptr;
    OK(cudaMallocAsync(&memory, 100, nullptr));
    OK(cudaFreeAsync(memory, nullptr));
    size_t pitch = 0;
    OK(cudaMallocPitch(&memory, &pitch, 100, 10));
    TRUE(pitch >= 100 && pitch % 32 == 0);
    OK(cudaFree(memory));
}

static void sets() {
    char *memory = reinterpret_cast<char *>(allocate(MIB));
    OK(cudaMemset(memory, 1, MIB));
    OK(cudaMemset2D(memory, 512, 2, 100, 20));
    OK(cudaMemsetAsync(memory, 3, 0));
    OK(cudaMemset3D(make_cudaPitchedPtr(memory, 512, 100, 8), 4, make_cudaExtent(100, 4, 3)));
}

static void copies_to_the_device() {
    char *memory = reinterpret_cast<char *>(allocate(5 * MIB + 3));
    std::vector<char> source(5 * MIB + 3, 7);
    OK(cudaMemcpy(memory, source.data(), 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(memory, source.data(), source.size(), cudaMemcpyHostToDevice));
    OK(cudaMemcpyAsync(memory, source.data(), MIB, cudaMemcpyDefault));
    OK(cudaMemcpy2D(memory, 512, source.data(), 100, 100, 40, cudaMemcpyHostToDevice));
    OK(cudaMemcpyToSymbol(variable, source.data(), 64, 16));
    OK(cudaMemcpy(memory + MIB, memory, MIB, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(source.data(), source.data() + 100, 100, cudaMemcpyHostToHost));
}

static void streams_and_events() {
    cudaStream_t one = stream(cudaStreamDefault), two = stream(cudaStreamNonBlocking);
    int *memory = allocate(4096);
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaStreamWaitEvent(two, event, 0));
    launches(1, memory, one);
    OK(cudaEventRecord(event, one));
    OK(cudaStreamWaitEvent(two, event, 0));
    launches(1, memory, two);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(one));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventSynchronize(event));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventRecord(nullptr));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(nullptr));
}

// Local answers ---------------------------------------------------------------------------------------------------

static void queries() {
    int count = 0, value = 0, blocks = 0, threads = 0;
    OK(cudaGetDeviceCount(&count));
    TRUE(count == 1);
    OK(cudaSetDevice(0));
    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, 0));
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0));
    TRUE(value == properties.maxThreadsPerBlock && value >= 256);
    size_t before = 0, after = 0, total = 0;
    OK(cudaMemGetInfo(&before, &total));
    int *memory = allocate(4 * MIB);
    OK(cudaMemGetInfo(&after, &total));
    TRUE(before - after == 4 * MIB && before <= total);
    EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&memory, total + 1));
    EXPECT(cudaErrorMemoryAllocation, cudaPeekAtLastError());
    EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
    OK(cudaGetLastError());
    TRUE(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 0));
    OK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, kernel));
    cudaFuncAttributes function;
    OK(cudaFuncGetAttributes(&function, kernel));
    cudaPointerAttributes pointer;
    OK(cudaPointerGetAttributes(&pointer, memory));
    TRUE(pointer.type == cudaMemoryTypeDevice && pointer.device == 0 && pointer.devicePointer == memory);
    OK(cudaPointerGetAttributes(&pointer, &value));
    TRUE(pointer.type == cudaMemoryTypeUnregistered);
    cudaStreamCaptureStatus capture;
    OK(cudaStreamIsCapturing(nullptr, &capture));
    TRUE(capture == cudaStreamCaptureStatusNone);
}

static void pinned_memory() {
    int *memory = nullptr;
    OK(cudaMallocHost(&memory, 4096));
    std::memset(memory, 0, 4096);
    cudaPointerAttributes pointer;
    OK(cudaPointerGetAttributes(&pointer, memory + 5));
    TRUE(pointer.type == cudaMemoryTypeHost && pointer.hostPointer == memory + 5);
    unsigned flags = 99;
    OK(cudaHostGetFlags(&flags, memory));
    OK(cudaMemset2D(memory, 64, 3, 4, 2));
    TRUE(memory[0] == 0x03030303 && memory[1] == 0 && memory[16] == 0x03030303);
    OK(cudaFreeHost(memory));
    EXPECT(cudaErrorInvalidValue, cudaFreeHost(memory));
    static int own[1024];
    OK(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    OK(cudaHostUnregister(own));
    EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
}

static void refused() {
    char *memory = reinterpret_cast<char *>(allocate(1000)), bytes[64];
    EXPECT(cudaErrorInvalidValue, cudaMemset(memory, 0, 1001));
    EXPECT(cudaErrorInvalidValue, cudaMemset(bytes, 0, 10));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(memory + 990, bytes, 11, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(bytes, memory + 1000, 1, cudaMemcpyDeviceToHost));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(nullptr, bytes, 1, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy(memory, bytes, 1, cudaMemcpyKind(9)));
    EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(memory, 8, bytes, 4, 6, 2, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
    OK(cudaFree(memory));
    EXPECT(cudaErrorInvalidValue, cudaFree(memory));
    EXPECT(cudaErrorInvalidValue, cudaFree(bytes));
    int *none = reinterpret_cast<int *>(bytes);
    OK(cudaMalloc(&none, 0));
    TRUE(none == nullptr);
}

// Synchronizations ------------------------------------------------------------------------------------------------

static void idle() {
    cudaStream_t made = stream(cudaStreamDefault);
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    allocate(4096);
    OK(cudaDeviceSynchronize());
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaStreamSynchronize(made));
    OK(cudaStreamQuery(made));
    OK(cudaEventSynchronize(event));
    OK(cudaEventQuery(event));
}

static void synchronize_twice() {
    launches(3, allocate(4096));
    OK(cudaDeviceSynchronize());
    OK(cudaDeviceSynchronize());
    OK(cudaStreamSynchronize(nullptr));
}

static void synchronize_a_stream() {
    cudaStream_t one = stream(cudaStreamNonBlocking), two = stream(cudaStreamNonBlocking);
    launches(5, allocate(4096), one);
    OK(cudaStreamSynchronize(two));
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaStreamSynchronize(one));
    OK(cudaStreamSynchronize(one));
    OK(cudaDeviceSynchronize());
}

static void synchronize_two_streams() {
    cudaStream_t one = stream(cudaStreamNonBlocking), two = stream(cudaStreamNonBlocking);
    int *memory = allocate(4096);
    launches(5, memory, one);
    launches(5, memory, two);
    OK(cudaStreamSynchronize(one));
    OK(cudaStreamSynchronize(two));
    OK(cudaDeviceSynchronize());
}

static void synchronize_behind_the_default_stream() {
    cudaStream_t one = stream(cudaStreamDefault);
    int *memory = allocate(4096);
    OK(cudaMemset(memory, 0, 4096));
    launches(1, memory, one);
    OK(cudaStreamSynchronize(one));
    OK(cudaDeviceSynchronize());
}

static void synchronize_an_event() {
    cudaStream_t one = stream(cudaStreamNonBlocking);
    cudaEvent_t event, other;
    OK(cudaEventCreate(&event));
    OK(cudaEventCreate(&other));
    launches(2, allocate(4096), one);
    OK(cudaEventRecord(event, one));
    OK(cudaEventSynchronize(event));
    OK(cudaEventSynchronize(event));
    OK(cudaEventQuery(event));
    OK(cudaEventSynchronize(other));
}

static void events_of_a_synchronized_stream() {
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    launches(2, allocate(4096));
    OK(cudaEventRecord(event));
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaEventSynchronize(event));
    OK(cudaEventQuery(event));
}

static void elapsed_time() {
    cudaEvent_t start, end, untimed;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    float first = -1, second = -1;
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&first, start, end));
    EXPECT(cudaErrorInvalidResourceHandle, cudaGetLastError());
    OK(cudaEventRecord(start));
    launches(2, allocate(4096));
    OK(cudaEventRecord(end));
    OK(cudaEventRecord(untimed));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&first, start, untimed));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&first, start, end));
    TRUE(first >= 0);
    OK(cudaEventElapsedTime(&second, start, end));
    TRUE(first == second);
}

static void threads() {
    // Each thread waits for its own stream; nobody's wait stands for another's.
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i) {
        all.emplace_back([] {
            cudaStream_t own = stream(cudaStreamNonBlocking);
            launches(50, allocate(4096), own);
            OK(cudaStreamSynchronize(own));
            OK(cudaStreamSynchronize(own));
        });
    }
    for (std::thread &thread : all) thread.join();
    OK(cudaDeviceSynchronize());
}

static void reset() {
    cudaStream_t made = stream(cudaStreamDefault);
    launches(3, allocate(4096), made);
    OK(cudaDeviceReset());
    OK(cudaDeviceSynchronize());
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(made));
    EXPECT(cudaErrorInvalidResourceHandle, cudaGetLastError());
    size_t available = 0, total = 0;
    OK(cudaMemGetInfo(&available, &total));
    TRUE(available == total);
    launches(3, allocate(4096));
    OK(cudaDeviceSynchronize());
}

static void host_function(void *counter) { ++*static_cast<int *>(counter); }
static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *counter) { *static_cast<int *>(counter) += status == cudaSuccess; }

static void host_functions() {
    int counter = 0;
    OK(cudaLaunchHostFunc(nullptr, host_function, &counter));
    launches(2, allocate(4096));
    OK(cudaLaunchHostFunc(nullptr, host_function, &counter));
    OK(cudaStreamAddCallback(nullptr, callback, &counter, 0));
    OK(cudaDeviceSynchronize());
    TRUE(counter == 3);
}

// Copies to the host ----------------------------------------------------------------------------------------------

static void copy_to_the_host(size_t bytes) {
    int *memory = allocate(bytes);
    std::vector<char> target(bytes, 1);
    OK(cudaMemset(memory, 0, bytes));
    launches(1, memory);
    OK(cudaMemcpy(target.data(), memory, bytes, cudaMemcpyDeviceToHost));
    OK(cudaDeviceSynchronize());
}
static void copy_4_bytes() { copy_to_the_host(128); }
static void copy_5_mib() { copy_to_the_host(5 * MIB + 1); }

static void copy_rows() {
    char *memory = reinterpret_cast<char *>(allocate(512 * 64));
    static char target[100 * 64];
    OK(cudaMemset(memory, 1, 512 * 64));
    OK(cudaMemcpy2D(target, 100, memory, 512, 90, 64, cudaMemcpyDeviceToHost));
    OK(cudaStreamSynchronize(nullptr));
}

static void copy_a_box() {
    // Slices with gaps between them, on both sides.
    char *memory = reinterpret_cast<char *>(allocate(512 * 8 * 6));
    static char target[64 * 5 * 6];
    OK(cudaMemset(memory, 1, 512 * 8 * 6));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(memory, 512, 512, 8);
    copy.dstPtr = make_cudaPitchedPtr(target, 64, 64, 5);
    copy.extent = make_cudaExtent(60, 4, 6);
    copy.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&copy));
    OK(cudaDeviceSynchronize());
}

static void copy_a_variable() {
    int values[64] = {4, 5, 6}, back[64] = {};
    OK(cudaMemcpyToSymbol(variable, values, sizeof values));
    OK(cudaMemcpyFromSymbol(back, variable, sizeof back));
}

static void copies_to_pinned_memory() {
    // An asynchronous copy to pinned memory is there when its stream is synchronized; a copy from there sees it.
    const int parts = 20;
    int *memory = allocate(parts * 4096), *pinned = nullptr, *other = nullptr, value = 0;
    cudaStream_t one = stream(cudaStreamNonBlocking);
    OK(cudaMallocHost(&pinned, parts * 4096));
    OK(cudaMallocHost(&other, 4096));
    std::memset(pinned, 0x55, parts * 4096);
    OK(cudaMemsetAsync(memory, 0, parts * 4096, one));
    for (int part = 0; part < parts; ++part) {
        OK(cudaMemcpyAsync(pinned + part * 1024, memory + part * 1024, 4096, cudaMemcpyDeviceToHost, one));
    }
    OK(cudaStreamSynchronize(one));
    for (int i = 0; i < parts * 1024; ++i) TRUE(pinned[i] == 0);
    OK(cudaStreamSynchronize(one));
    // Captured at the call, hence waited for: one round trip.
    OK(cudaMemsetAsync(memory, 1, 4096, one));
    OK(cudaMemcpyAsync(other, memory, 4096, cudaMemcpyDeviceToHost, one));
    OK(cudaMemcpyAsync(memory + 1024, other, 4096, cudaMemcpyHostToDevice, one));
    // Waits for nothing: another range.
    OK(cudaMemcpyAsync(memory, pinned, 4096, cudaMemcpyHostToDevice, one));
    OK(cudaMemcpyAsync(&value, memory + 1024, 4, cudaMemcpyDeviceToHost, one));
    // Released only when nothing is on its way: one round trip.
    OK(cudaMemcpyAsync(pinned, memory, 4096, cudaMemcpyDeviceToHost, one));
    OK(cudaFreeHost(pinned));
    OK(cudaFreeHost(other));
}

static void copies_wait_for_streams() {
    // A copy in the default stream waits for blocking streams, and for no others.
    cudaStream_t blocking = stream(cudaStreamDefault), other = stream(cudaStreamNonBlocking);
    int *memory = allocate(4096), value = 0;
    launches(1, memory, blocking);
    launches(1, memory, other);
    OK(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost));
    OK(cudaStreamSynchronize(blocking));
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaStreamSynchronize(other));
    OK(cudaDeviceSynchronize());
}

struct Scenario {
    const char *name;
    void (*run)();
};

#define SCENARIO(name) {#name, name}
static const Scenario scenarios[] = {
    SCENARIO(nothing), SCENARIO(first_kernel), SCENARIO(one_launch), SCENARIO(many_launches), SCENARIO(mixed),
    SCENARIO(allocate_and_free), SCENARIO(sets), SCENARIO(copies_to_the_device), SCENARIO(streams_and_events),
    SCENARIO(queries), SCENARIO(pinned_memory), SCENARIO(refused), SCENARIO(idle), SCENARIO(synchronize_twice),
    SCENARIO(synchronize_a_stream), SCENARIO(synchronize_two_streams), SCENARIO(synchronize_behind_the_default_stream),
    SCENARIO(synchronize_an_event), SCENARIO(events_of_a_synchronized_stream), SCENARIO(elapsed_time),
    SCENARIO(threads), SCENARIO(reset), SCENARIO(host_functions), SCENARIO(copy_4_bytes), SCENARIO(copy_5_mib), SCENARIO(copy_rows), SCENARIO(copy_a_box), SCENARIO(copy_a_variable),
    SCENARIO(copies_to_pinned_memory), SCENARIO(copies_wait_for_streams),
};

int main(int argc, char **argv) {
    for (const Scenario &scenario : scenarios) {
        if (argc == 2 && std::strcmp(scenario.name, argv[1]) == 0) {
            scenario.run();
            std::puts("PASS");
            return 0;
        }
    }
    std::printf("no such scenario\n");
    return 2;
}
