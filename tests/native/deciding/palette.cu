// The colours that stand best for the pixels of a picture, as k-means finds them: the colours are in a vector, the sums
// that the host reads on the heap, how many pixels took each in a global array.
#include "../support.cuh"

constexpr int COLOURS = 8;
int taken[COLOURS];

__global__ void assign(const float *pixels, const float *colours, int n, int *sums, int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    float least = 1e30f;
    int nearest = 0;
    for (int c = 0; c < COLOURS; ++c) {
        float distance = 0;
        for (int k = 0; k < 3; ++k) {
            float difference = pixels[3 * i + k] - colours[3 * c + k];
            distance = __fadd_rn(distance, __fmul_rn(difference, difference));
        }
        if (distance < least) {
            least = distance;
            nearest = c;
        }
    }
    for (int k = 0; k < 3; ++k) {
        atomicAdd(&sums[3 * nearest + k], static_cast<int>(pixels[3 * i + k]));  // whole numbers: sums are exact
    }
    atomicAdd(&counts[nearest], 1);
}

static void nearest_of(const std::vector<float> &pixels, const std::vector<float> &colours, int *sums, int *counts) {
    for (size_t i = 0; i < pixels.size(); i += 3) {
        float least = 1e30f;
        int nearest = 0;
        for (int c = 0; c < COLOURS; ++c) {
            volatile float distance = 0, square;  // no fused operations
            for (int k = 0; k < 3; ++k) {
                square = (pixels[i + k] - colours[3 * c + k]) * (pixels[i + k] - colours[3 * c + k]);
                distance = distance + square;
            }
            if (distance < least) {
                least = distance;
                nearest = c;
            }
        }
        for (int k = 0; k < 3; ++k) {
            sums[3 * nearest + k] += static_cast<int>(pixels[i + k]);
        }
        counts[nearest]++;
    }
}

int main() {
    const int n = 2000, most = 200;
    Random random(7);
    std::vector<float> pixels(3 * n);
    for (int i = 0; i < 3 * n; ++i) {
        pixels[i] = static_cast<float>(random.below(120) + i / 3 % COLOURS * 17);
    }
    std::vector<float> colours(3 * COLOURS), expected(3 * COLOURS);
    for (int c = 0; c < 3 * COLOURS; ++c) {
        colours[c] = expected[c] = pixels[c];
    }
    int steps = 0;
    for (float moved = 1; moved > 0 && steps < most; ++steps) {
        int sums[3 * COLOURS] = {}, counts[COLOURS] = {};
        nearest_of(pixels, expected, sums, counts);
        moved = 0;
        for (int c = 0; c < 3 * COLOURS; ++c) {
            if (counts[c / 3] > 0) {
                float next = static_cast<float>(sums[c]) / static_cast<float>(counts[c / 3]);
                moved += std::fabs(next - expected[c]);
                expected[c] = next;
            }
        }
    }

    float *device_pixels, *device_colours;
    int *device_sums, *device_counts, *sums = new int[3 * COLOURS];
    CHECK(cudaMalloc(&device_pixels, 3 * n * sizeof(float)));
    CHECK(cudaMalloc(&device_colours, 3 * COLOURS * sizeof(float)));
    CHECK(cudaMalloc(&device_sums, 3 * COLOURS * sizeof(int)));
    CHECK(cudaMalloc(&device_counts, sizeof taken));
    CHECK(cudaMemcpy(device_pixels, pixels.data(), 3 * n * sizeof(float), cudaMemcpyHostToDevice));
    int iterations = 0;
    float moved = 1;
    while (moved > 0 && iterations < most) {
        CHECK(cudaMemcpy(device_colours, colours.data(), 3 * COLOURS * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(device_sums, 0, 3 * COLOURS * sizeof(int)));
        CHECK(cudaMemset(device_counts, 0, sizeof taken));
        assign<<<(n + 127) / 128, 128>>>(device_pixels, device_colours, n, device_sums, device_counts);
        CHECK(cudaMemcpy(sums, device_sums, 3 * COLOURS * sizeof(int), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(taken, device_counts, sizeof taken, cudaMemcpyDeviceToHost));
        moved = 0;
        for (int c = 0; c < 3 * COLOURS; ++c) {
            if (taken[c / 3] > 0) {
                float next = static_cast<float>(sums[c]) / static_cast<float>(taken[c / 3]);
                moved += std::fabs(next - colours[c]);
                colours[c] = next;
            }
        }
        ++iterations;
    }
    delete[] sums;
    Verdict verdict;
    verdict.expect(iterations == steps, "as many iterations as on the host");
    verdict.equal(colours, expected, "colours");
    std::printf("palette %d iterations\n", iterations);
    return verdict.finish();
}
