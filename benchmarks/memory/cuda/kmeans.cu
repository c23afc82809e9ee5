// k-means: each point to its nearest centre, the centres anew on the host, some rounds. Arguments: points, dimensions, centres, rounds.
#include "check.cuh"

__global__ void assign(const float *points, const float *centres, int *nearest, int count, int dimensions, int k) {
    int point = blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= count) return;
    float best = 3.4e38f;
    int found = 0;
    for (int centre = 0; centre < k; ++centre) {
        float sum = 0;
        for (int d = 0; d < dimensions; ++d) {
            float difference = points[d * count + point] - centres[centre * dimensions + d];
            sum += difference * difference;
        }
        if (sum < best) best = sum, found = centre;
    }
    nearest[point] = found;
}

int main(int words_count, char **words) {
    int count = argument(words_count, words, 1, 32768), dimensions = argument(words_count, words, 2, 32);
    int k = argument(words_count, words, 3, 6), rounds = argument(words_count, words, 4, 2);
    Random random{6};
    std::vector<float> points(size_t(count) * dimensions), centres(k * dimensions);
    for (float &value : points) value = random() % 32;
    for (float &value : centres) value = random() % 32;
    float *p = to_device(points);
    int *n = room<int>(count);
    bool right = true;
    for (int round = 0; round < rounds; ++round) {
        float *c = to_device(centres);
        assign<<<(count + 255) / 256, 256>>>(p, c, n, count, dimensions, k);
        std::vector<int> nearest = from_device(n, count);
        for (int probe = 0; probe < 256; ++probe) {
            int point = random() % count, found = 0;
            float best = 3.4e38f;
            for (int centre = 0; centre < k; ++centre) {
                float sum = 0;
                for (int d = 0; d < dimensions; ++d) {
                    float difference = points[size_t(d) * count + point] - centres[centre * dimensions + d];
                    sum += difference * difference;
                }
                if (sum < best) best = sum, found = centre;
            }
            right &= nearest[point] == found;
        }
        // Whole numbers, so that the order of additions and the compiler's contractions change nothing.
        std::vector<int> members(k);
        std::vector<float> sums(k * dimensions);
        for (int point = 0; point < count; ++point) {
            ++members[nearest[point]];
            for (int d = 0; d < dimensions; ++d) sums[nearest[point] * dimensions + d] += points[size_t(d) * count + point];
        }
        for (int centre = 0; centre < k; ++centre)
            for (int d = 0; d < dimensions; ++d)
                if (members[centre]) centres[centre * dimensions + d] = int(sums[centre * dimensions + d] / members[centre]);
        MUST(cudaFree(c));
    }
    return finish(right);
}
