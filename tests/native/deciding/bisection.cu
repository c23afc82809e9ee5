// A root by bisection: the device integrates up to a bound, the host halves the interval by the sign of what it reads.
#include "../support.cuh"

constexpr int BLOCK = 128;

// The integral of 3 t^2 from 0 to x by the middle of 1024 strips, less 2.
__global__ void integrate(double x, double *result) {
    __shared__ double shared[BLOCK];
    double sum = 0, strip = x / 1024;
    for (int i = threadIdx.x; i < 1024; i += BLOCK) {
        double t = (i + 0.5) * strip;
        sum += 3 * t * t * strip;
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
        *result = shared[0] - 2;
    }
}

int main() {
    double *device_value, low = 0, high = 4;
    CHECK(cudaMalloc(&device_value, sizeof(double)));
    int steps = 0;
    while (high - low > 1e-12) {
        double middle = low + (high - low) / 2, value;
        integrate<<<1, BLOCK>>>(middle, device_value);
        CHECK(cudaMemcpy(&value, device_value, sizeof value, cudaMemcpyDeviceToHost));
        if (value == 0) {
            low = high = middle;
        } else if (value < 0) {
            low = middle;
        } else {
            high = middle;
        }
        ++steps;
    }
    Verdict verdict;
    verdict.expect(std::fabs(low - std::cbrt(2.0)) < 1e-6, "the root");
    std::printf("bisection %.5f in %d steps\n", low, steps);
    return verdict.finish();
}
