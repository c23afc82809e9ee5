// The runtime API on the CPU, for the expected output of generated programs: every call is done before it returns. Device
// memory is the C library's, so a sanitizer sees a kernel that leaves its buffer, and fresh memory is filled with a pattern.
#pragma once

#define __global__ static
#define __constant__ static
#define __device__ static

struct dim3 {
    u32 x, y, z;
    constexpr dim3(u32 x = 1, u32 y = 1, u32 z = 1) : x(x), y(y), z(z) {}
};

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
// A stream keeps what is captured in it, until that becomes a graph.
typedef std::vector<std::function<void()>> *cudaGraph_t, *cudaGraphExec_t;
typedef struct EmulatedStream {
    cudaGraph_t captured = nullptr;
} *cudaStream_t;
typedef struct EmulatedEvent *cudaEvent_t;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocMapped = 2;

static thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace emulated {
static thread_local u32 shared_memory[1024];
static thread_local cudaError_t last_error = cudaSuccess;

static inline cudaError_t noted(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

// What a shim that loses or repeats a call would do, for the test that such a thing is seen: the launch of that number, counted from
// 0 in all threads, is left out (EMULATED_LOSE) or done twice (EMULATED_REPEAT). EMULATED_COUNT prints how many there were.
static std::atomic<long> launches{0};

static inline long chosen(const char *name) {
    const char *text = std::getenv(name);
    return text ? std::atol(text) : -1;
}

static struct Counter {
    ~Counter() {
        if (std::getenv("EMULATED_COUNT")) std::fprintf(stderr, "%ld\n", launches.load());
    }
} counter;

template <typename... P, typename... A>
void launch_once(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t, A... arguments) {
    if (u64(block.x) * block.y * block.z > 1024 || block.x == 0 || grid.x == 0 || shared > sizeof shared_memory) {
        noted(cudaErrorInvalidConfiguration);
        return;
    }
    gridDim = grid;
    blockDim = block;
    for (u32 b = 0; b < grid.x * grid.y * grid.z; ++b) {
        blockIdx = dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
        for (u32 t = 0; t < block.x * block.y * block.z; ++t) {
            threadIdx = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
            kernel(arguments...);
        }
    }
}

// Does it, or captures it.
template <typename F> cudaError_t issue(cudaStream_t stream, F work) {
    if (stream && stream->captured) {
        stream->captured->push_back(work);
    } else {
        work();
    }
    return cudaSuccess;
}

template <typename... P, typename... A>
void launch_now(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A... arguments) {
    static const long lost = chosen("EMULATED_LOSE"), repeated = chosen("EMULATED_REPEAT");
    const long number = launches++;
    if (number == lost) return;
    launch_once(kernel, grid, block, shared, stream, arguments...);
    if (number == repeated) launch_once(kernel, grid, block, shared, stream, arguments...);
}

template <typename... P, typename... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A... arguments) {
    issue(stream, [=] { launch_now(kernel, grid, block, shared, stream, arguments...); });
}
}  // namespace emulated

static inline u32 atomicAdd(u32 *where, u32 value) { return (*where += value) - value; }

static inline const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    }
    return "?";
}
static inline cudaError_t cudaGetLastError() { return std::exchange(emulated::last_error, cudaSuccess); }
static inline cudaError_t cudaPeekAtLastError() { return emulated::last_error; }

template <typename T> cudaError_t cudaMalloc(T **pointer, size_t size) {
    if (size > size_t(1) << 40) return emulated::noted(cudaErrorMemoryAllocation);
    *pointer = static_cast<T *>(std::malloc(size));
    std::memset(static_cast<void *>(*pointer), 0xCD, size);
    return cudaSuccess;
}
template <typename T> cudaError_t cudaMallocHost(T **pointer, size_t size) { return cudaMalloc(pointer, size); }
template <typename T> cudaError_t cudaMallocManaged(T **pointer, size_t size) { return cudaMalloc(pointer, size); }
template <typename T> cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned) { return cudaMalloc(pointer, size); }
template <typename T> cudaError_t cudaHostGetDevicePointer(T **there, T *pointer, unsigned) { return *there = pointer, cudaSuccess; }
template <typename T> cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t) { return cudaMalloc(pointer, size); }
static inline cudaError_t cudaFree(void *pointer) { return std::free(pointer), cudaSuccess; }
static inline cudaError_t cudaFreeHost(void *pointer) { return cudaFree(pointer); }
static inline cudaError_t cudaFreeAsync(void *pointer, cudaStream_t) { return cudaFree(pointer); }

static inline cudaError_t cudaMemset(void *to, int value, size_t size) { return std::memset(to, value, size), cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream = 0) {
    return emulated::issue(stream, [=] { std::memset(to, value, size); });
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
    return std::memcpy(to, from, size), cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t stream = 0) {
    return emulated::issue(stream, [=] { std::memcpy(to, from, size); });
}
static inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *data) {
    return emulated::issue(stream, [=] { function(data); });
}
static inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                       size_t height, cudaMemcpyKind) {
    for (size_t row = 0; row < height; ++row) {
        std::memcpy(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width);
    }
    return cudaSuccess;
}
template <typename T> cudaError_t cudaMemcpyToSymbol(T &symbol, const void *from, size_t size, size_t offset = 0) {
    return std::memcpy(reinterpret_cast<char *>(&symbol) + offset, from, size), cudaSuccess;
}

static inline cudaError_t cudaStreamCreate(cudaStream_t *stream) { return *stream = new EmulatedStream, cudaSuccess; }
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return cudaStreamCreate(stream); }
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    return stream->captured = new std::vector<std::function<void()>>, cudaSuccess;
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    return *graph = std::exchange(stream->captured, nullptr), cudaSuccess;
}
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    return *exec = new std::vector<std::function<void()>>(*graph), cudaSuccess;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete exec, cudaSuccess; }
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    for (const auto &work : *exec) work();
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = nullptr, cudaSuccess; }
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
static inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = 0) { return cudaSuccess; }
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
    return *milliseconds = 0.0f, cudaSuccess;
}
