// Bitonic sorting: steps over global memory, and the short ones of a tile in dynamic shared memory. Keys with values.
#include <algorithm>

#include "../support.cuh"

constexpr int TILE = 512;

__device__ void order(unsigned &ka, unsigned &va, unsigned &kb, unsigned &vb, bool up) {
    if ((ka > kb) == up) {
        unsigned k = ka, v = va;
        ka = kb, va = vb, kb = k, vb = v;
    }
}

__global__ void step(unsigned *keys, unsigned *values, int count, int stride, int size) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = 2 * stride * (pair / stride) + pair % stride;
    if (i + stride < count) {
        order(keys[i], values[i], keys[i + stride], values[i + stride], (i & size) == 0);
    }
}

__global__ void tile(unsigned *keys, unsigned *values, int first, int last) {
    extern __shared__ unsigned shared[];
    unsigned *k = shared, *v = shared + TILE;
    const int base = blockIdx.x * TILE;
    for (int i = threadIdx.x; i < TILE; i += blockDim.x) {
        k[i] = keys[base + i], v[i] = values[base + i];
    }
    for (int size = first; size <= last; size *= 2) {
        for (int stride = min(size / 2, TILE / 2); stride > 0; stride /= 2) {
            __syncthreads();
            const int i = 2 * stride * (threadIdx.x / stride) + threadIdx.x % stride;
            order(k[i], v[i], k[i + stride], v[i + stride], ((base + i) & size) == 0);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE; i += blockDim.x) {
        keys[base + i] = k[i], values[base + i] = v[i];
    }
}

int main() {
    Verdict verdict;
    const int count = 8192;
    std::vector<unsigned> keys(count), values(count);
    Random random(8);
    for (int i = 0; i < count; ++i) {
        keys[i] = unsigned(random.next()), values[i] = keys[i] * 3 + 1;
    }
    DeviceArray<unsigned> device_keys(keys), device_values(values);
    const size_t shared = 2 * TILE * sizeof(unsigned);
    tile<<<count / TILE, TILE / 2, shared>>>(device_keys.get(), device_values.get(), 2, TILE);
    for (int size = 2 * TILE; size <= count; size *= 2) {
        for (int stride = size / 2; stride >= TILE; stride /= 2) {
            step<<<count / 2 / 256, 256>>>(device_keys.get(), device_values.get(), count, stride, size);
        }
        tile<<<count / TILE, TILE / 2, shared>>>(device_keys.get(), device_values.get(), size, size);
    }
    CHECK_LAUNCH();
    std::sort(keys.begin(), keys.end());
    for (int i = 0; i < count; ++i) {
        values[i] = keys[i] * 3 + 1;
    }
    verdict.equal(device_keys.download(), keys, "keys");
    verdict.equal(device_values.download(), values, "values");
    print_checksum("bitonic_sort", keys);
    return verdict.finish();
}
