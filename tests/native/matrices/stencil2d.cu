// Jacobi iteration on a 2-D grid with two buffers that change places, and the largest change after every few steps.
#include <cstring>
#include <utility>

#include "../support.cuh"

__global__ void step(const float *from, float *to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) {
        return;
    }
    int i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        to[i] = from[i];
    } else {
        to[i] = 0.25f * ((from[i - 1] + from[i + 1]) + (from[i - width] + from[i + width]));
    }
}

__global__ void largest_change(const float *a, const float *b, unsigned *largest, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // Floats that are not negative are ordered as their bits are.
        atomicMax(largest, __float_as_uint(fabsf(a[i] - b[i])));
    }
}

int main() {
    const int width = 150, height = 100, steps = 60, check_every = 20;
    Random random(7);
    std::vector<float> start(width * height);
    for (float &value : start) {
        value = static_cast<float>(random.below(1024));
    }
    std::vector<float> from = start, to(start.size());
    std::vector<float> expected_changes;
    for (int t = 1; t <= steps; ++t) {
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
                int i = y * width + x;
                bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
                to[i] = edge ? from[i]
                             : 0.25f * ((from[i - 1] + from[i + 1]) + (from[i - width] + from[i + width]));
            }
        }
        std::swap(from, to);
        if (t % check_every == 0) {
            float largest = 0.0f;
            for (size_t i = 0; i < from.size(); ++i) {
                largest = std::fmax(largest, std::fabs(from[i] - to[i]));
            }
            expected_changes.push_back(largest);
        }
    }

    DeviceArray<float> a(start), b(start.size());
    DeviceArray<unsigned> largest(1);
    float *current = a.get(), *next = b.get();
    dim3 block(32, 8);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    std::vector<float> changes;
    for (int t = 1; t <= steps; ++t) {
        step<<<grid, block>>>(current, next, width, height);
        std::swap(current, next);
        if (t % check_every == 0) {
            largest.zero();
            largest_change<<<(width * height + 127) / 128, 128>>>(current, next, largest.get(), width * height);
            unsigned bits = largest.download()[0];
            float change;
            memcpy(&change, &bits, sizeof change);
            changes.push_back(change);
            std::printf("after %d steps the largest change is %g\n", t, change);
        }
    }
    CHECK_LAUNCH();
    std::vector<float> result(start.size());
    CHECK(cudaMemcpy(result.data(), current, result.size() * sizeof(float), cudaMemcpyDeviceToHost));

    Verdict verdict;
    // Additions and a multiplication by a power of two: equal to the last bit.
    verdict.equal(result, from, "grid");
    verdict.equal(changes, expected_changes, "largest change");
    print_checksum("stencil2d", result);
    return verdict.finish();
}
