// Jacobi's method on a square until the largest change is small: two arrays take turns, the change is read in
// every iteration.
#include "../support.cuh"

__global__ void sweep(const float *from, float *to, int side, int *largest) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= side - 1 || y >= side - 1) {
        return;
    }
    int i = y * side + x;
    float next = 0.25f * ((from[i - 1] + from[i + 1]) + (from[i - side] + from[i + side]));
    to[i] = next;
    atomicMax(largest, __float_as_int(fabsf(next - from[i])));  // positive floats are ordered as their bits
}

int main() {
    const int side = 24, n = side * side, most = 2000;
    const float tolerance = 1e-3f;
    std::vector<float> field(n, 0.0f);
    for (int x = 0; x < side; ++x) {
        field[x] = 100.0f;
    }
    std::vector<float> expected(field), other(field);
    int sweeps = 0;
    for (float change = 1e30f; change > tolerance && sweeps < most; ++sweeps) {
        change = 0;
        for (int y = 1; y < side - 1; ++y) {
            for (int x = 1; x < side - 1; ++x) {
                int i = y * side + x;
                other[i] = 0.25f * ((expected[i - 1] + expected[i + 1]) + (expected[i - side] + expected[i + side]));
                change = std::fmax(change, std::fabs(other[i] - expected[i]));
            }
        }
        expected.swap(other);
    }

    float *from, *to, change = 1e30f;
    int *largest;
    CHECK(cudaMalloc(&from, n * sizeof(float)));
    CHECK(cudaMalloc(&to, n * sizeof(float)));
    CHECK(cudaMalloc(&largest, sizeof(int)));
    CHECK(cudaMemcpy(from, field.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(to, field.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    const dim3 block(8, 8), grid((side + 7) / 8, (side + 7) / 8);
    int iterations = 0;
    while (change > tolerance && iterations < most) {
        CHECK(cudaMemset(largest, 0, sizeof(int)));
        sweep<<<grid, block>>>(from, to, side, largest);
        CHECK_LAUNCH();
        CHECK(cudaMemcpy(&change, largest, sizeof change, cudaMemcpyDeviceToHost));
        float *kept = from;
        from = to;
        to = kept;
        ++iterations;
        if (iterations % 200 == 0) {
            std::printf("after %d sweeps the largest change is %.6f\n", iterations, change);
        }
    }
    CHECK(cudaMemcpy(field.data(), from, n * sizeof(float), cudaMemcpyDeviceToHost));
    Verdict verdict;
    verdict.expect(iterations == sweeps, "as many sweeps as on the host");
    verdict.equal(field, expected, "field");
    std::printf("jacobi %d sweeps\n", iterations);
    print_checksum("jacobi", field);
    return verdict.finish();
}
