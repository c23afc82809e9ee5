// k-means in two dimensions: the device assigns points and adds them up, the host reads the sums and computes
// the centres, until none moves.
#include "../support.cuh"

constexpr int CLUSTERS = 5;

__global__ void assign(const float *points, const float *centres, int n, int *sums, int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    float x = points[2 * i], y = points[2 * i + 1], least = 1e30f;
    int nearest = 0;
    for (int c = 0; c < CLUSTERS; ++c) {
        float dx = x - centres[2 * c], dy = y - centres[2 * c + 1];
        float distance = __fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy));
        if (distance < least) {
            least = distance;
            nearest = c;
        }
    }
    atomicAdd(&sums[2 * nearest], static_cast<int>(x));  // points have whole coordinates, so that sums are exact
    atomicAdd(&sums[2 * nearest + 1], static_cast<int>(y));
    atomicAdd(&counts[nearest], 1);
}

int main() {
    const int n = 3000, most = 100;
    Random random(41);
    std::vector<float> points(2 * n);
    for (int i = 0; i < n; ++i) {
        int cluster = i % CLUSTERS;
        points[2 * i] = static_cast<float>(cluster * 900 + static_cast<int>(random.below(1500)));
        points[2 * i + 1] = static_cast<float>(cluster % 2 * 1100 + static_cast<int>(random.below(1500)));
    }
    float centres[2 * CLUSTERS], expected[2 * CLUSTERS];
    for (int c = 0; c < 2 * CLUSTERS; ++c) {
        centres[c] = expected[c] = points[c];
    }

    int steps = 0;
    for (float moved = 1; moved > 0 && steps < most; ++steps) {
        int sums[2 * CLUSTERS] = {}, counts[CLUSTERS] = {};
        for (int i = 0; i < n; ++i) {
            float x = points[2 * i], y = points[2 * i + 1], least = 1e30f;
            int nearest = 0;
            for (int c = 0; c < CLUSTERS; ++c) {
                volatile float xx = (x - expected[2 * c]) * (x - expected[2 * c]);  // no fused operations
                volatile float yy = (y - expected[2 * c + 1]) * (y - expected[2 * c + 1]);
                if (xx + yy < least) {
                    least = xx + yy;
                    nearest = c;
                }
            }
            sums[2 * nearest] += static_cast<int>(x);
            sums[2 * nearest + 1] += static_cast<int>(y);
            counts[nearest]++;
        }
        moved = 0;
        for (int c = 0; c < CLUSTERS; ++c) {
            for (int d = 0; d < 2 && counts[c] > 0; ++d) {
                float next = static_cast<float>(sums[2 * c + d]) / static_cast<float>(counts[c]);
                moved += std::fabs(next - expected[2 * c + d]);
                expected[2 * c + d] = next;
            }
        }
    }

    float *device_points, *device_centres;
    int *device_sums, *device_counts;
    CHECK(cudaMalloc(&device_points, 2 * n * sizeof(float)));
    CHECK(cudaMalloc(&device_centres, sizeof centres));
    CHECK(cudaMalloc(&device_sums, 2 * CLUSTERS * sizeof(int)));
    CHECK(cudaMalloc(&device_counts, CLUSTERS * sizeof(int)));
    CHECK(cudaMemcpy(device_points, points.data(), 2 * n * sizeof(float), cudaMemcpyHostToDevice));
    int iterations = 0;
    float moved = 1;
    while (moved > 0 && iterations < most) {
        int sums[2 * CLUSTERS], counts[CLUSTERS];
        CHECK(cudaMemcpy(device_centres, centres, sizeof centres, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(device_sums, 0, sizeof sums));
        CHECK(cudaMemset(device_counts, 0, sizeof counts));
        assign<<<(n + 127) / 128, 128>>>(device_points, device_centres, n, device_sums, device_counts);
        CHECK(cudaMemcpy(sums, device_sums, sizeof sums, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(counts, device_counts, sizeof counts, cudaMemcpyDeviceToHost));
        moved = 0;
        for (int c = 0; c < CLUSTERS; ++c) {
            for (int d = 0; d < 2 && counts[c] > 0; ++d) {
                float next = static_cast<float>(sums[2 * c + d]) / static_cast<float>(counts[c]);
                moved += std::fabs(next - centres[2 * c + d]);
                centres[2 * c + d] = next;
            }
        }
        ++iterations;
    }
    Verdict verdict;
    verdict.expect(iterations == steps, "as many iterations as on the host");
    for (int c = 0; c < 2 * CLUSTERS; ++c) {
        verdict.expect(centres[c] == expected[c], "a centre");
    }
    std::printf("kmeans %d iterations\n", iterations);
    return verdict.finish();
}
