// PageRank until the ranks' change is small: the sum of changes is read in every iteration, two arrays take turns.
#include <utility>

#include "../support.cuh"

constexpr int BLOCK = 128;

__global__ void spread(const int *offsets, const int *sources, const int *degrees, const float *rank, float *next,
                       int n, float damping) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) {
        return;
    }
    float sum = 0;
    for (int edge = offsets[node]; edge < offsets[node + 1]; ++edge) {
        sum += rank[sources[edge]] / degrees[sources[edge]];
    }
    next[node] = (1 - damping) / n + damping * sum;
}

__global__ void change(const float *rank, const float *next, float *result, int n) {
    __shared__ float shared[BLOCK];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        sum += fabsf(rank[i] - next[i]);
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int width = BLOCK / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            shared[threadIdx.x] += shared[threadIdx.x + width];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *result = shared[0];
    }
}

int main() {
    const int n = 1000;
    const float damping = 0.85f, tolerance = 1e-5f;
    Random random(77);
    std::vector<int> offsets(1, 0), sources, degrees(n, 1);
    for (int node = 0; node < n; ++node) {
        sources.push_back((node + n - 1) % n);  // a ring, so that each node has an edge
        for (int edge = random.below(6); edge > 0; --edge) {
            int source = static_cast<int>(random.below(n));
            sources.push_back(source);
            degrees[source]++;
        }
        offsets.push_back(static_cast<int>(sources.size()));
    }
    std::vector<float> ranks(n, 1.0f / n);
    DeviceArray<int> device_offsets(offsets), device_sources(sources), device_degrees(degrees);
    DeviceArray<float> first(ranks), second(ranks), sum(1);
    float *rank = first.get(), *next = second.get();
    float difference = 1;
    int iterations = 0;
    do {
        spread<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(device_offsets.get(), device_sources.get(), device_degrees.get(),
                                                   rank, next, n, damping);
        change<<<1, BLOCK>>>(rank, next, sum.get(), n);
        CHECK(cudaMemcpy(&difference, sum.get(), sizeof(float), cudaMemcpyDeviceToHost));
        std::swap(rank, next);
        ++iterations;
    } while (difference > tolerance && iterations < 500);
    CHECK(cudaMemcpy(ranks.data(), rank, n * sizeof(float), cudaMemcpyDeviceToHost));

    std::vector<double> expected(n, 1.0 / n), other(n);
    for (int step = 0; step < 200; ++step) {
        for (int node = 0; node < n; ++node) {
            double total = 0;
            for (int edge = offsets[node]; edge < offsets[node + 1]; ++edge) {
                total += expected[sources[edge]] / degrees[sources[edge]];
            }
            other[node] = 0.15 / n + 0.85 * total;
        }
        expected.swap(other);
    }
    Verdict verdict;
    double total = 0;
    for (int node = 0; node < n; ++node) {
        verdict.expect(std::fabs(ranks[node] - expected[node]) < 1e-5, "a rank");
        total += ranks[node];
    }
    verdict.expect(std::fabs(total - 1) < 1e-3, "the sum of ranks");
    verdict.expect(iterations > 5 && iterations < 200, "a plausible number of iterations");
    std::printf("pagerank converged\n");
    return verdict.finish();
}
