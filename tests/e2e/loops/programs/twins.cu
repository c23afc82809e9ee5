// One loop a run, by the runtime API or (with DRIVER) by the driver API: the calls are the same, one for one, so are the round trips.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef DRIVER
#include <cuda.h>
using Pointer = CUdeviceptr;
static const char *const image = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry put(.param .u64 to, .param .u32 at, .param .u32 value)
{
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [to];
    ld.param.u32 %r1, [at];
    ld.param.u32 %r2, [value];
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    mad.lo.s32 %r3, %r2, 3, 1;
    st.global.u32 [%d3], %r3;
    ret;
}
)";
static CUfunction kernel;
#define SUCCESS CUDA_SUCCESS
#define Code CUresult
static void start() {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) exit(3);
    if (cuModuleLoadData(&module, image) || cuModuleGetFunction(&kernel, module, "put")) exit(4);
}
#define ALLOCATE(where, bytes) cuMemAlloc(where, bytes)
#define TO_HOST(to, from, bytes) cuMemcpyDtoH(to, from, bytes)
#define TO_DEVICE(to, from, bytes) cuMemcpyHtoD(to, from, bytes)
#define WAIT() cuCtxSynchronize()
#define WAIT_STREAM() cuStreamSynchronize(nullptr)
#define LAUNCH(to, at, value)                                                         \
    do {                                                                              \
        unsigned at_ = at, value_ = value;                                            \
        void *parameters[] = {&to, &at_, &value_};                                    \
        check(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr)); \
    } while (0)
#else
#include <cuda_runtime.h>
using Pointer = int *;
__global__ void put(int *to, unsigned at, unsigned value) { to[at] = value * 3 + 1; }
#define SUCCESS cudaSuccess
#define Code cudaError_t
static void start() {}
#define ALLOCATE(where, bytes) cudaMalloc(where, bytes)
#define TO_HOST(to, from, bytes) cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost)
#define TO_DEVICE(to, from, bytes) cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice)
#define WAIT() cudaDeviceSynchronize()
#define WAIT_STREAM() cudaStreamSynchronize(nullptr)
#define LAUNCH(to, at, value) put<<<1, 1>>>(to, at, value)
#endif

static void check(Code code) {
    if (code != SUCCESS) {
        std::printf("error %d\n", int(code));
        std::exit(1);
    }
}

static unsigned long checksum(const int *values, int count) {
    unsigned long sum = 0;
    for (int i = 0; i < count; ++i) sum = sum * 31 + unsigned(values[i]);
    return sum;
}

// Launches alone, two in an iteration.
static void launches(int n, Pointer device) {
    for (int i = 0; i < n; ++i) {
        LAUNCH(device, i % 64, i);
        LAUNCH(device, 64 + i % 32, 2 * i + 1);
    }
    std::vector<int> values(128);
    check(TO_HOST(values.data(), device, 128 * sizeof(int)));
    std::printf("%lu\n", checksum(values.data(), 128));
}

// What an iteration's later launch is passed is known at its first.
static void predicted(int n, Pointer device) {
    for (int i = 0; i < n; ++i) {
        LAUNCH(device, 3, i);
        LAUNCH(device, 5, 2 * i + 1);
    }
    int values[8];
    check(TO_HOST(values, device, sizeof values));
    std::printf("%d %d\n", values[3], values[5]);
}

// What is copied to the host is looked at behind the loop.
static void reads(int n, Pointer device) {
    int *values = static_cast<int *>(std::calloc(n, sizeof(int)));
    for (int i = 0; i < n; ++i) {
        LAUNCH(device, 0, i);
        check(TO_HOST(values + i, device, sizeof(int)));
    }
    std::printf("%lu\n", checksum(values, n));
    std::free(values);
}

// What is copied to the host is looked at at once.
static void read_at_once(int n, Pointer device) {
    int value = 0;
    unsigned long sum = 0;
    for (int i = 0; i < n; ++i) {
        LAUNCH(device, 0, i);
        check(TO_HOST(&value, device, sizeof value));
        sum = sum * 31 + unsigned(value);
    }
    std::printf("%lu\n", sum);
}

// What is copied to the host is what the next kernel is passed.
static void passed_on(int n, Pointer device) {
    int value = 0;
    for (int i = 0; i < n; ++i) {
        LAUNCH(device, 0, value & 0xffff);
        check(TO_HOST(&value, device, sizeof value));
    }
    std::printf("%d\n", value);
}

// Results are checked, synchronizations too.
static void checks(int n, Pointer device) {
    for (int i = 0; i < n; ++i) {
        LAUNCH(device, i % 64, i);
        check(WAIT());
    }
    std::vector<int> values(64);
    check(TO_HOST(values.data(), device, 64 * sizeof(int)));
    std::printf("%lu\n", checksum(values.data(), 64));
}

// The inner loop's copies wait for its end, the outer one's synchronization for its own.
static void nested(int n, Pointer device) {
    int *row = static_cast<int *>(std::calloc(8, sizeof(int)));
    unsigned long sum = 0;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < 8; ++j) {
            LAUNCH(device, j, i + j);
            check(TO_HOST(row, device, 8 * sizeof(int)));
        }
        check(WAIT_STREAM());
        sum = sum * 31 + checksum(row, 8);
    }
    std::printf("%lu\n", sum);
    std::free(row);
}

// One kernel in a helper that many programs have.
static void __attribute__((noinline)) step(Pointer to, int at, int value) { LAUNCH(to, at, value); }

static void in_a_helper(int n, Pointer device) {
    std::vector<int> sent(64);
    for (int i = 0; i < n; ++i) {
        check(TO_DEVICE(device, sent.data(), 64 * sizeof(int)));
        step(device, i % 64, i);
    }
    std::vector<int> values(64);
    check(TO_HOST(values.data(), device, 64 * sizeof(int)));
    std::printf("%lu\n", checksum(values.data(), 64));
}

int main(int argc, char **argv) {
    struct {
        const char *name;
        void (*run)(int, Pointer);
    } scenarios[] = {{"launches", launches}, {"predicted", predicted}, {"reads", reads},   {"read_at_once", read_at_once}, {"passed_on", passed_on},
                     {"checks", checks},     {"nested", nested}, {"in_a_helper", in_a_helper}};
    if (argc != 3) return 2;
    start();
    Pointer device;
    check(ALLOCATE(&device, 4096));
    check(WAIT());
    for (auto &scenario : scenarios)
        if (!std::strcmp(scenario.name, argv[1])) scenario.run(std::atoi(argv[2]), device);
    return 0;
}
