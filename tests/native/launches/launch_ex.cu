// Launching without <<<>>>: cudaLaunchKernel and cudaLaunchKernelExC with parameters of many sizes, and big grids.
#include <cstring>

#include "../support.cuh"

struct Mixed {
    char a;
    double b;
    short c;
};

__global__ void mixed(char c, short s, int i, long long l, float f, double d, Mixed m, const int *in, double *out) {
    if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        out[0] = c + s + i + static_cast<double>(l) + f + d + m.a + m.b + m.c + in[0];
    }
}

// Every thread of a three-dimensional grid of three-dimensional blocks says once that it was there.
__global__ void mark(unsigned *visits) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    atomicAdd(&visits[block * threads + thread], 1 + thread % 7);
}

__global__ void no_parameters() {}

__device__ int last_parameter;
struct Large {
    int values[900];
};
__global__ void large(Large by_value) { last_parameter = by_value.values[threadIdx.x + 890]; }

int main() {
    Verdict verdict;
    char c = -3;
    short s = 300;
    int i = -70000;
    long long l = 1ll << 40;
    float f = 0.25f;
    double d = 1e-3;
    Mixed m;
    std::memset(&m, 0xEE, sizeof m);  // padding is not zero
    m.a = 5;
    m.b = -2.5;
    m.c = 77;
    DeviceArray<int> in(std::vector<int>{11});
    DeviceArray<double> out(1);
    const int *in_pointer = in.get();
    double *out_pointer = out.get();
    const double expected = c + s + i + static_cast<double>(l) + f + d + m.a + m.b + m.c + 11;
    void *arguments[] = {&c, &s, &i, &l, &f, &d, &m, &in_pointer, &out_pointer};

    CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(mixed), dim3(2), dim3(32), arguments, 0, nullptr));
    verdict.near(out.download(), {expected}, 1e-15, "cudaLaunchKernel");

    out.zero();
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1, 2, 3);
    config.blockDim = dim3(4, 3, 2);
    config.dynamicSmemBytes = 128;
    config.stream = stream;
    CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(mixed), arguments));
    CHECK(cudaStreamSynchronize(stream));
    verdict.near(out.download(), {expected}, 1e-15, "cudaLaunchKernelExC");

    out.zero();
    mixed<<<1, 1>>>(c, s, i, l, f, d, m, in_pointer, out_pointer);
    CHECK_LAUNCH();
    verdict.near(out.download(), {expected}, 1e-15, "<<<>>>");

    out.zero();
    CHECK(cudaLaunchKernelEx(&config, mixed, c, s, i, l, f, d, m, in_pointer, out_pointer));
    CHECK(cudaStreamSynchronize(stream));
    verdict.near(out.download(), {expected}, 1e-15, "cudaLaunchKernelEx");

    const dim3 grids[] = {dim3(5, 4, 3), dim3(300, 1, 1), dim3(1, 1, 70), dim3(1, 90, 1)};
    const dim3 blocks[] = {dim3(7, 3, 2), dim3(1, 1, 1), dim3(1, 1, 33), dim3(100, 2, 1)};
    for (int shape = 0; shape < 4; ++shape) {
        dim3 g = grids[shape], b = blocks[shape];
        unsigned threads = b.x * b.y * b.z, total = g.x * g.y * g.z * threads;
        DeviceArray<unsigned> visits(total);
        visits.zero();
        unsigned *pointer = visits.get();
        void *mark_arguments[] = {&pointer};
        CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(mark), g, b, mark_arguments, 0, stream));
        CHECK(cudaStreamSynchronize(stream));
        std::vector<unsigned> expected_visits(total);
        for (unsigned k = 0; k < total; ++k) {
            expected_visits[k] = 1 + k % threads % 7;
        }
        verdict.equal(visits.download(), expected_visits, "visits");
    }

    CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(no_parameters), dim3(1), dim3(1), nullptr, 0, nullptr));
    Large by_value;
    for (int k = 0; k < 900; ++k) {
        by_value.values[k] = k * k;
    }
    large<<<1, 1>>>(by_value);
    by_value.values[890] = 0;  // the launch has taken its copy
    CHECK_LAUNCH();
    int last = 0;
    CHECK(cudaMemcpyFromSymbol(&last, last_parameter, sizeof last));
    verdict.expect(last == 890 * 890, "a parameter of 3600 bytes");
    CHECK(cudaStreamDestroy(stream));
    std::printf("launch_ex %.4f\n", expected);
    return verdict.finish();
}
