// Programs that use more memory than a small device has, and print a checksum of all of it.
//
// usage: reuse <scenario> <megabytes>
//   mixing    kernels on pairs of many buffers, in rounds
//   layers    forward through layers and back, with gradients, as in training
//   pointers  kernels find their buffers through a table in device memory
//   whole     single kernels that need everything at once
#include <cstring>

#include "../../../native/support.cuh"

constexpr int WORDS = 64 << 10;  // of a buffer: 256 KiB
constexpr int BLOCK = 256;

__global__ void mix(uint32_t *to, const uint32_t *from, uint32_t key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = to[i] * 5 + (from[i ^ (key & 63)] ^ key);
}

__global__ void layer(uint32_t *out, const uint32_t *in, const uint32_t *weights) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * weights[(i * 17) % WORDS] + 3;
}

__global__ void back(uint32_t *gradient_in, const uint32_t *gradient_out, const uint32_t *in, uint32_t *weights) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    gradient_in[i] = gradient_out[i] * weights[i];
    weights[i] += gradient_out[i] * in[i];
}

__global__ void through(uint32_t **table, int count, int step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t *to = table[(step * 5 + 1) % count], *from = table[(step * 3) % count];
    if (to != from) to[i] += from[WORDS - 1 - i] ^ step;
}

__global__ void everything(uint32_t *data, uint32_t words, uint32_t stride) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t other = (uint64_t(i) * stride + 12345) % words;
    if (i < words && i % 2 == 0) data[i] = data[i] * 3 + data[other | 1];
}

static uint64_t checksum(const std::vector<uint32_t *> &buffers) {
    std::vector<uint32_t> host(WORDS);
    uint64_t sum = 1469598103934665603ull;
    for (uint32_t *buffer : buffers) {
        CHECK(cudaMemcpy(host.data(), buffer, WORDS * 4, cudaMemcpyDeviceToHost));
        for (uint32_t word : host) sum = (sum ^ word) * 1099511628211ull;
    }
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *scenario = argv[1];
    int count = atoi(argv[2]) * 4;
    std::vector<uint32_t> host(WORDS);
    std::vector<uint32_t *> buffers(count);
    if (!strcmp(scenario, "whole")) {
        CHECK(cudaMalloc(&buffers[0], size_t(count) * WORDS * 4));
        for (int k = 1; k < count; k++) buffers[k] = buffers[0] + size_t(k) * WORDS;
    } else {
        for (uint32_t *&buffer : buffers) CHECK(cudaMalloc(&buffer, WORDS * 4));
    }
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < WORDS; i++) host[i] = i * 2654435761u + k;
        CHECK(cudaMemcpy(buffers[k], host.data(), WORDS * 4, cudaMemcpyHostToDevice));
    }
    const int grid = WORDS / BLOCK;
    if (!strcmp(scenario, "mixing")) {
        for (int round = 0; round < 3; round++)
            for (int k = 0; k < count; k++)
                mix<<<grid, BLOCK>>>(buffers[k], buffers[(k * 7 + round + 1) % count], round * 1000 + k);
    } else if (!strcmp(scenario, "layers")) {
        int depth = (count - 2) / 3;  // activations, gradients and weights
        uint32_t **activations = &buffers[0], **gradients = &buffers[depth + 1], **weights = &buffers[2 * depth + 2];
        for (int round = 0; round < 2; round++) {
            for (int k = 0; k < depth; k++) layer<<<grid, BLOCK>>>(activations[k + 1], activations[k], weights[k]);
            CHECK(cudaMemcpy(gradients[depth], activations[depth], WORDS * 4, cudaMemcpyDeviceToDevice));
            for (int k = depth - 1; k >= 0; k--)
                back<<<grid, BLOCK>>>(gradients[k], gradients[k + 1], activations[k], weights[k]);
        }
    } else if (!strcmp(scenario, "pointers")) {
        uint32_t **table;
        CHECK(cudaMalloc(&table, count * sizeof(uint32_t *)));
        CHECK(cudaMemcpy(table, buffers.data(), count * sizeof(uint32_t *), cudaMemcpyHostToDevice));
        for (int step = 0; step < 2 * count; step++) through<<<grid, BLOCK>>>(table, count, step);
    } else if (!strcmp(scenario, "whole")) {
        uint32_t words = uint32_t(count) * WORDS;
        everything<<<words / BLOCK, BLOCK>>>(buffers[0], words, 1);
        everything<<<words / BLOCK, BLOCK>>>(buffers[0], words, 5);
    } else {
        return 2;
    }
    CHECK(cudaDeviceSynchronize());
    printf("%s %016llx\n", scenario, (unsigned long long)checksum(buffers));
    return 0;
}
