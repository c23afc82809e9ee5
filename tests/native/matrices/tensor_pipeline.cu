// A matrix product as kernels for tensor copies are written: one warp keeps four stages of tiles on their way, the others multiply them with
// ldmatrix and mma from swizzled shared memory; in clusters of two blocks, each of which loads half of the tile that both need and sends it to both.
#include <cuda_fp16.h>
#include <cudaTypedefs.h>

#include "tensor_maps.cuh"

constexpr int TILE = 64, DEPTH = 64, STAGES = 4, CONSUMERS = 4;

struct Stage {
    __half a[TILE][DEPTH], b[TILE][DEPTH];
};

struct Shared {
    Stage stages[STAGES];
    unsigned long long full[STAGES], empty[STAGES];
};

__device__ unsigned address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__device__ void wait(unsigned long long *barrier, int parity) {
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(address(barrier)),
                 "r"(parity)
                 : "memory");
}

// An arrival at the barrier of each block of the cluster that a mask names.
__device__ void arrive_everywhere(unsigned long long *barrier, int blocks) {
    for (int rank = 0; rank < blocks; ++rank) {
        asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(
                         address(barrier)),
                     "r"(rank)
                     : "memory");
    }
}

template <bool MULTICAST>
__device__ void load(void *to, const CUtensorMap *map, int x, int y, unsigned long long *barrier) {
    if (MULTICAST) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
                address(to)),
            "l"(map), "r"(x), "r"(y), "r"(address(barrier)), "h"((short)3)
            : "memory");
    } else {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(address(to)),
                     "l"(map), "r"(x), "r"(y), "r"(address(barrier))
                     : "memory");
    }
}

// Four 8 x 8 matrices of a tile whose rows of 128 bytes are swizzled.
__device__ void matrices(unsigned (&out)[4], const __half (*tile)[DEPTH], int row, int column) {
    int chunk = column / 8 ^ row % 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address(&tile[row][chunk * 8]))
                 : "memory");
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c[m][n] = sum of a[m][k] b[n][k]. With clusters, two blocks beside each other along n share a's tile.
template <int BLOCKS>
__global__ void product(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float *c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Shared &shared = *reinterpret_cast<Shared *>(raw);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rounds = (k + DEPTH - 1) / DEPTH;
    int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    int rank = 0;
    if (BLOCKS > 1) {
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    }
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&shared.full[stage])));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(&shared.empty[stage])), "r"(CONSUMERS * BLOCKS));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (BLOCKS > 1) {
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
        __syncthreads();
    }
    if (warp == CONSUMERS) {
        if (lane == 0) {
            for (int round = 0; round < rounds; ++round) {
                int stage = round % STAGES;
                wait(&shared.empty[stage], round / STAGES % 2 ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&shared.full[stage])), "r"((int)sizeof(Stage)));
                Stage &tiles = shared.stages[stage];
                int part = TILE / BLOCKS * rank;
                load<(BLOCKS > 1)>(tiles.a[part], &a_map, round * DEPTH, row0 + part, &shared.full[stage]);
                load<false>(tiles.b, &b_map, round * DEPTH, column0, &shared.full[stage]);
            }
        }
    } else {
        float sums[TILE / 8][4] = {};
        for (int round = 0; round < rounds; ++round) {
            int stage = round % STAGES;
            wait(&shared.full[stage], round / STAGES % 2);
            const Stage &tiles = shared.stages[stage];
            for (int step = 0; step < DEPTH; step += 16) {
                unsigned a[4];
                matrices(a, tiles.a, warp * 16 + lane % 16, step + lane / 16 * 8);
                for (int column = 0; column < TILE; column += 16) {
                    unsigned b[4];
                    matrices(b, tiles.b, column + lane / 16 * 8 + lane % 8, step + lane / 8 % 2 * 8);
                    multiply(sums[column / 8], a, b[0], b[1]);
                    multiply(sums[column / 8 + 1], a, b[2], b[3]);
                }
            }
            __syncwarp();
            if (lane == 0) {
                arrive_everywhere(&shared.empty[stage], BLOCKS);
            }
        }
        for (int column = 0; column < TILE; column += 8) {
            for (int i = 0; i < 4; ++i) {
                int y = row0 + warp * 16 + lane / 4 + i / 2 * 8, x = column0 + column + lane % 4 * 2 + i % 2;
                if (y < m && x < n) {
                    c[y * n + x] = sums[column / 8][i];
                }
            }
        }
    }
    if (BLOCKS > 1) {  // nobody leaves while others may still signal here
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
}

static bool check(const char *name, const std::vector<float> &got, const std::vector<float> &want) {
    bool same = got == want;
    std::printf("%s %s\n", name, same ? "right" : "wrong");
    return same;
}

int main() {
    const int m = 150, n = 200, k = 328;
    Random random(9);
    std::vector<__half> a(m * k), b(n * k);
    for (auto *values : {&a, &b}) {
        for (__half &value : *values) {
            value = __float2half((int)random.below(17) - 8);
        }
    }
    std::vector<float> want(m * n), got(m * n);
    for (int y = 0; y < m; ++y) {
        for (int x = 0; x < n; ++x) {
            float sum = 0;
            for (int i = 0; i < k; ++i) {
                sum += __half2float(a[y * k + i]) * __half2float(b[x * k + i]);
            }
            want[y * n + x] = sum;
        }
    }
    __half *a_memory, *b_memory;
    float *c_memory;
    CHECK(cudaMalloc(&a_memory, a.size() * 2));
    CHECK(cudaMalloc(&b_memory, b.size() * 2));
    CHECK(cudaMalloc(&c_memory, got.size() * 4));
    CHECK(cudaMemcpy(a_memory, a.data(), a.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b_memory, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
    auto map = [&](__half *memory, int rows, int box) {
        return tiled(CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, memory, {(cuuint64_t)k, (cuuint64_t)rows}, {DEPTH, (cuuint32_t)box}, CU_TENSOR_MAP_SWIZZLE_128B);
    };
    dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    int bytes = sizeof(Shared);
    CHECK(cudaFuncSetAttribute(product<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CHECK(cudaFuncSetAttribute(product<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    product<1><<<grid, 32 * (CONSUMERS + 1), bytes>>>(map(a_memory, m, TILE), map(b_memory, n, TILE), c_memory, m, n, k);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(got.data(), c_memory, got.size() * 4, cudaMemcpyDeviceToHost));
    bool good = check("alone", got, want);
    CHECK(cudaMemset(c_memory, 0, got.size() * 4));
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = 32 * (CONSUMERS + 1), config.dynamicSmemBytes = bytes, config.attrs = &attribute, config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, product<2>, map(a_memory, m, TILE / 2), map(b_memory, n, TILE), c_memory, m, n, k));
    CHECK(cudaMemcpy(got.data(), c_memory, got.size() * 4, cudaMemcpyDeviceToHost));
    good = check("clusters", got, want) && good;
    std::printf("%s\n", good ? "PASS" : "FAIL");
    return !good;
}
