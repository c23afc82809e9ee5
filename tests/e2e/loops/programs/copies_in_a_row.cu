// Copies to the host in a row, none looked at before the last, and what looks like it and is not. A scenario prints what
// it has read.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#ifdef HANDLER
#include <csignal>
#endif
#ifdef THREADS
#include <thread>
#endif

#define CHECK(call)                                                          \
    do {                                                                     \
        cudaError_t code_ = (call);                                          \
        if (code_ != cudaSuccess) {                                          \
            fprintf(stderr, "%s\n", cudaGetErrorString(code_));              \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

#ifdef DRIVER
// The same copies, by the driver API.
#include <cuda.h>
#define cudaMemcpy(to, from, bytes, kind) COPY_##kind(to, from, bytes)
#define COPY_cudaMemcpyDeviceToHost(to, from, bytes) (cudaError_t)cuMemcpyDtoH(to, (CUdeviceptr)(from), bytes)
#define COPY_cudaMemcpyHostToDevice(to, from, bytes) (cudaError_t)cuMemcpyHtoD((CUdeviceptr)(to), from, bytes)
#define cudaMemcpyAsync(to, from, bytes, kind, ...) \
    (cudaError_t)cuMemcpyDtoHAsync(to, (CUdeviceptr)(from), bytes, STREAM(__VA_ARGS__ __VA_OPT__(, ) nullptr))
#define STREAM(first, ...) (CUstream)(first)
#define cudaStreamSynchronize(stream) (cudaError_t)cuStreamSynchronize((CUstream)(stream))
#endif

#define SCENARIO(name) __attribute__((noinline, noipa)) static void name(float *x, float *y, float *z, int n)

template <typename T>
void check(T result, char const *const function, const char *const file, int const line) {
    if (result) {
        fprintf(stderr, "CUDA error at %s:%d code=%d \"%s\" \n", file, line, static_cast<unsigned int>(result), function);
        exit(EXIT_FAILURE);
    }
}
#define checkCudaErrors(val) check((val), #val, __FILE__, __LINE__)

constexpr size_t BYTES = 400;
float global_a[100], global_b[100], *global_pointer, *other_pointer;
size_t global_size = BYTES;
__device__ float variable[100], second_variable[100];

__global__ void fill(float *x, float by, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = by * i, variable[i] = 10 + i, second_variable[i] = 20 - i;
}

static float sum(const float *values, int n) {
    float found = 0;
    for (int i = 0; i < n; ++i) found += values[i] * (i % 7 + 1);
    return found;
}

SCENARIO(two_blocks) {
    float *a = (float *)malloc(BYTES), *b = (float *)malloc(BYTES);
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(a, n), sum(b, n));
    free(a);
    free(b);
}

SCENARIO(three_kinds) {
    float *a = (float *)malloc(BYTES), b[100];
    std::vector<float> c(100);
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(c.data(), z, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g %g\n", sum(a, n), sum(b, n), sum(c.data(), n));
    free(a);
}

SCENARIO(five_values) {
    float a, b, c, d, e;
    checkCudaErrors(cudaMemcpy(&a, x + 1, 4, cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(&b, x + 2, 4, cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(&c, y + 3, 4, cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(&d, y + 4, 4, cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(&e, z + 5, 4, cudaMemcpyDeviceToHost));
    printf("%g %g %g %g %g\n", a, b, c, d, e);
}

SCENARIO(globals) {
    cudaMemcpy(global_a, x, BYTES, cudaMemcpyDeviceToHost);
    cudaMemcpy(global_b, y, BYTES, cudaMemcpyDeviceToHost);
    printf("%g %g\n", sum(global_a, n), sum(global_b, n));
}

__attribute__((noinline, noipa)) static void download(float *a, float *b, float *c, float *x, float *y, float *z) {
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(c, z, BYTES, cudaMemcpyDeviceToHost));
}

SCENARIO(parameters) {
    std::vector<float> a(100), b(100), c(100);
    download(a.data(), b.data(), c.data(), x, y, z);
    printf("%g %g %g\n", sum(a.data(), n), sum(b.data(), n), sum(c.data(), n));
}

// All three arrive, in the order of the calls: the last one's bytes stay.
SCENARIO(same_destination) {
    std::vector<float> a(100);
    download(a.data(), a.data(), a.data() + 0, x, y, z);
    printf("%g\n", sum(a.data(), n));
}

SCENARIO(asynchronous) {
    float a[100], b[100];
    CHECK(cudaMemcpyAsync(a, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyAsync(b, y, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaStreamSynchronize(0));
    printf("%g %g\n", sum(a, n), sum(b, n));
}

SCENARIO(other_stream) {
    float a[100], b[100];
    cudaStream_t stream, idle;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyAsync(a, x, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(b, y, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(idle));  // nothing is pending there
    printf("%g %g\n", sum(a, n), sum(b, n));
}

SCENARIO(from_symbols) {
    float a[100], b[100];
    CHECK(cudaMemcpyFromSymbol(a, variable, BYTES));
    CHECK(cudaMemcpyFromSymbol(b, second_variable, BYTES));
    printf("%g %g\n", sum(a, n), sum(b, n));
}

SCENARIO(planes) {
    float a[100], b[100];
    memset(a, 0, sizeof a), memset(b, 0, sizeof b);
    CHECK(cudaMemcpy2D(a, 40, x, 80, 32, 5, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy2D(b, 40, y, 80, 32, 5, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(a, n), sum(b, n));
}

// Each copy sees what was there when it was made.
SCENARIO(written_between) {
    float a[100], b[100], c[100];
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    fill<<<1, 128>>>(x, 50, n);
    CHECK(cudaMemcpy(b, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(x, 0, BYTES));
    CHECK(cudaMemcpy(c, x, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g %g\n", sum(a, n), sum(b, n), sum(c, n));
    fill<<<1, 128>>>(x, 1, n);
}

// What one copy brings goes back to the device before the next.
SCENARIO(back_again) {
    CHECK(cudaMemcpy(global_a, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(z, global_a, BYTES, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(global_b, z, BYTES, cudaMemcpyDeviceToHost));
    printf("%g\n", sum(global_b, n));
    fill<<<1, 128>>>(z, 3, n);
}

SCENARIO(in_a_loop) {
    float a[100], b[100], total = 0;
    for (int i = 0; i < 10; ++i) {
        fill<<<1, 128>>>(x, i, n);
        CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
        total += sum(a, n) + sum(b, n) + strlen(getenv("PATH") ? "path" : "");
    }
    printf("%g\n", total);
    fill<<<1, 128>>>(x, 1, n);
}

// The traps: what must wait, or must not be noticed.

SCENARIO(looks_between) {
    float a[100], b[100];
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    size_t bytes = a[1] > 0 ? BYTES : 4;
    CHECK(cudaMemcpy(b, y, bytes, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(a, n), sum(b, n));
}

// The destination holds the next copy's size: only the addresses tell.
__attribute__((noinline, noipa)) static void by_the_size(void *to, float *b, const void *size, const float *y) {
    CHECK(cudaMemcpy(to, size, sizeof(size_t), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b, y, global_size, cudaMemcpyDeviceToHost));
}

SCENARIO(the_next_size) {
    size_t bytes = 40;
    void *size;
    CHECK(cudaMalloc(&size, sizeof bytes));
    CHECK(cudaMemcpy(size, &bytes, sizeof bytes, cudaMemcpyHostToDevice));
    memset(global_b, 0, sizeof global_b);
    by_the_size(&global_size, global_b, size, y);
    printf("%g %zu\n", sum(global_b, n), global_size);
    global_size = BYTES;
}

// The same code, and the destination is elsewhere.
SCENARIO(another_size) {
    size_t bytes = 40;
    void *size;
    CHECK(cudaMalloc(&size, sizeof bytes));
    CHECK(cudaMemcpy(size, &bytes, sizeof bytes, cudaMemcpyHostToDevice));
    by_the_size(global_a, global_b, size, y);
    printf("%g %zu\n", sum(global_b, n), *(size_t *)global_a);
}

SCENARIO(through_a_pointer) {
    global_pointer = (float *)malloc(BYTES);
    other_pointer = global_pointer;
    CHECK(cudaMemcpy(global_pointer, x, BYTES, cudaMemcpyDeviceToHost));
    global_b[0] = other_pointer[1];
    CHECK(cudaMemcpy(global_a, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g\n", global_b[0], sum(global_a, n));
    free(global_pointer);
}

SCENARIO(frees_between) {
    float *a = (float *)malloc(1 << 20), b[100];
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    free(a);
    float *c = (float *)malloc(1 << 20);
    memset(c, 0, BYTES);
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(c, n), sum(b, n));
    free(c);
}

__attribute__((noinline, noipa)) static int returns_early(float *a, float *b, float *x, float *y, int n) {
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    if (n > 10) return 1;
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    return 2;
}

SCENARIO(early_return) {
    float a[100], b[100];
    int found = returns_early(a, b, x, y, n);
    printf("%d %g\n", found, sum(a, n));
}

SCENARIO(code_counted) {
    float a[100], b[100];
    int failures = cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost) + 1;
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%d %g %g\n", failures, sum(a, n), sum(b, n));
}

SCENARIO(some_ways) {
    float a[100], b[100];
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    if (n < 1000) printf("%g\n", a[3]);
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(a, n), sum(b, n));
}

SCENARIO(written_by_the_host) {
    float a[100], b[100];
    CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
    a[7] = 1000;
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(a, n), sum(b, n));
}

static volatile int ready;

// Who waits for `ready` may look at what was copied before it was set.
SCENARIO(flag_for_others) {
    CHECK(cudaMemcpy(global_a, x, BYTES, cudaMemcpyDeviceToHost));
    ready = 1;
    CHECK(cudaMemcpy(global_b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g %d\n", sum(global_a, n), sum(global_b, n), ready);
}

SCENARIO(in_pinned_memory) {
    float *a, *b;
    CHECK(cudaMallocHost(&a, BYTES));
    CHECK(cudaMallocHost(&b, BYTES));
    CHECK(cudaMemcpyAsync(a, x, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g\n", sum(a, n), sum(b, n));
    CHECK(cudaFreeHost(a));
    CHECK(cudaFreeHost(b));
}

#ifdef EXCEPTIONS
__attribute__((noinline, noipa)) static void throws(int n) {
    if (n > 10) throw n;
}

SCENARIO(thrown_between) {
    float a[100], b[100];
    try {
        CHECK(cudaMemcpy(a, x, BYTES, cudaMemcpyDeviceToHost));
        throws(n);
        CHECK(cudaMemcpy(b, y, BYTES, cudaMemcpyDeviceToHost));
        printf("%g\n", sum(b, n));
    } catch (int found) {
        printf("%d %g\n", found, sum(a, n));
    }
}
#endif

#ifdef HANDLER
static void handler(int) {
    global_b[99] = global_a[1];
}

SCENARIO(handled) {
    signal(SIGUSR1, handler);
    CHECK(cudaMemcpy(global_a, x, BYTES, cudaMemcpyDeviceToHost));
    raise(SIGUSR1);
    float seen = global_b[99];
    CHECK(cudaMemcpy(global_b, y, BYTES, cudaMemcpyDeviceToHost));
    printf("%g %g %g\n", seen, sum(global_a, n), sum(global_b, n));
}
#endif

#ifdef THREADS
SCENARIO(beside_a_thread) {
    float *more;
    std::thread other([&] { CHECK(cudaMalloc(&more, BYTES)); });
    other.join();
    CHECK(cudaFree(more));
    more = nullptr;
    bool done = false;
    std::thread alive([&] {
        CHECK(cudaMalloc(&more, BYTES));
        while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) std::this_thread::yield();
    });
    while (!__atomic_load_n((void **)&more, __ATOMIC_ACQUIRE)) std::this_thread::yield();
    globals(x, y, z, n);
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    alive.join();
}
#endif

int main(int count, char **arguments) {
    struct {
        const char *name;
        void (*run)(float *, float *, float *, int);
    } scenarios[] = {
#define ROW(name) {#name, name}
        ROW(two_blocks), ROW(three_kinds), ROW(five_values), ROW(globals), ROW(parameters), ROW(same_destination),
        ROW(asynchronous), ROW(other_stream), ROW(from_symbols), ROW(planes), ROW(written_between), ROW(back_again),
        ROW(in_a_loop), ROW(looks_between), ROW(the_next_size), ROW(another_size), ROW(through_a_pointer),
        ROW(frees_between), ROW(early_return), ROW(code_counted), ROW(some_ways), ROW(written_by_the_host),
        ROW(flag_for_others), ROW(in_pinned_memory),
#ifdef EXCEPTIONS
        ROW(thrown_between),
#endif
#ifdef HANDLER
        ROW(handled),
#endif
#ifdef THREADS
        ROW(beside_a_thread),
#endif
    };
    float *x, *y, *z;
    CHECK(cudaMalloc(&x, BYTES));
    CHECK(cudaMalloc(&y, BYTES));
    CHECK(cudaMalloc(&z, BYTES));
    fill<<<1, 128>>>(x, 1, 100);
    fill<<<1, 128>>>(y, 2, 100);
    fill<<<1, 128>>>(z, 3, 100);
    CHECK(cudaDeviceSynchronize());
    for (auto &each : scenarios)
        if (count > 1 && !strcmp(arguments[1], each.name)) each.run(x, y, z, 100);
}
