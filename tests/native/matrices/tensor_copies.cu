// Tensor copies (TMA) through libcu++: tiles of matrices and volumes, with edges, in and out; maps as parameters, constants and in global memory;
// reductions into a tensor; a swizzled transposition.
#include <cuda/barrier>
#include <cuda/ptx>

#include <cudaTypedefs.h>

#include "tensor_maps.cuh"

#pragma nv_diag_suppress 1444  // the short forms of <cuda/barrier>, which most programs use

namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;

constexpr int ROWS = 100, COLUMNS = 84, TILE_ROWS = 16, TILE_COLUMNS = 32;

// One thread asks for a copy of so many bytes; all wait until it is there (the programming guide's example).
template <typename Copy>
__device__ void receive(barrier &bar, size_t bytes, Copy copy) {
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        copy();
        token = cuda::device::barrier_arrive_tx(bar, 1, bytes);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
}

// Adds one to a tile: in by one copy, out by another.
__global__ void add_one(const __grid_constant__ CUtensorMap map) {
    __shared__ alignas(128) int tile[TILE_ROWS][TILE_COLUMNS];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    int x = blockIdx.x * TILE_COLUMNS, y = blockIdx.y * TILE_ROWS;
    receive(bar, sizeof(tile), [&] { cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, x, y, bar); });
    for (int i = threadIdx.x; i < TILE_ROWS * TILE_COLUMNS; i += blockDim.x) {
        tile[i / TILE_COLUMNS][i % TILE_COLUMNS] += 1;
    }
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&map, x, y, &tile);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
        bar.~barrier();
    }
}

// A stencil over a volume: each block loads its box with a border of one, which may lie outside.
constexpr int BOX = 8;

__constant__ CUtensorMap volume;

__global__ void neighbours(float *out, int width, int height, int depth) {
    __shared__ alignas(128) float box[BOX + 2][BOX + 2][BOX + 4];
    __shared__ barrier bar;
    int x0 = blockIdx.x * BOX, y0 = blockIdx.y * BOX, z0 = blockIdx.z * BOX;
    receive(bar, sizeof(box), [&] { cde::cp_async_bulk_tensor_3d_global_to_shared(&box, &volume, x0 - 1, y0 - 1, z0 - 1, bar); });
    for (int i = threadIdx.x; i < BOX * BOX * BOX; i += blockDim.x) {
        int x = i % BOX, y = i / BOX % BOX, z = i / BOX / BOX;
        if (x0 + x < width && y0 + y < height && z0 + z < depth) {
            float sum = box[z + 1][y + 1][x] + box[z + 1][y + 1][x + 2] + box[z + 1][y][x + 1] + box[z + 1][y + 2][x + 1] +
                        box[z][y + 1][x + 1] + box[z + 2][y + 1][x + 1];
            out[((z0 + z) * height + y0 + y) * width + x0 + x] = sum - 6 * box[z + 1][y + 1][x + 1];
        }
    }
}

// Transposes tiles of 32 x 32 words through shared memory whose rows are swizzled; the maps lie in global memory.
__global__ void transpose(const CUtensorMap *maps) {
    __shared__ alignas(1024) int4 in[32][8];
    __shared__ alignas(1024) int out[32][32];
    __shared__ barrier bar;
    receive(bar, sizeof(in), [&] { cde::cp_async_bulk_tensor_2d_global_to_shared(&in, &maps[0], blockIdx.x * 32, blockIdx.y * 32, bar); });
    for (int i = threadIdx.x; i < 32 * 8; i += blockDim.x) {
        int y = i / 8, x = i % 8;
        int4 four = in[y][y % 8 ^ x];
        out[4 * x][y] = four.x, out[4 * x + 1][y] = four.y, out[4 * x + 2][y] = four.z, out[4 * x + 3][y] = four.w;
    }
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&maps[1], blockIdx.y * 32, blockIdx.x * 32, &out);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}

// All blocks add tiles that overlap to one tensor.
__global__ void accumulate(const __grid_constant__ CUtensorMap map) {
    __shared__ alignas(128) int tile[8][8];
    tile[threadIdx.x / 8][threadIdx.x % 8] = blockIdx.x * 64 + threadIdx.x;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        const int where[2] = {(int)blockIdx.x * 3 - 4, (int)blockIdx.x * 2 - 3};
        ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &map, where, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}

int main() {
    if (!encode_tiled()) {
        std::printf("no tensor maps\nFAIL\n");
        return 1;
    }
    Random random(3);
    bool good = true;

    // The rows have 84 elements, and 96 bytes more.
    const int pitch = COLUMNS * 4 + 96;
    std::vector<int> matrix(ROWS * pitch / 4), result(matrix.size());
    for (int &value : matrix) {
        value = random.below(1000);
    }
    dim3 grid((COLUMNS + TILE_COLUMNS - 1) / TILE_COLUMNS, (ROWS + TILE_ROWS - 1) / TILE_ROWS);
    for (int kind = 0; kind < 3; ++kind) {  // memory of the device, managed memory, pinned memory of the program
        int *memory;
        size_t bytes = matrix.size() * 4;
        CHECK(kind == 0 ? cudaMalloc(&memory, bytes) : kind == 1 ? cudaMallocManaged(&memory, bytes) : cudaMallocHost(&memory, bytes));
        CHECK(cudaMemcpy(memory, matrix.data(), bytes, cudaMemcpyDefault));
        CUtensorMap map = tiled(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, memory, {COLUMNS, ROWS}, {TILE_COLUMNS, TILE_ROWS}, CU_TENSOR_MAP_SWIZZLE_NONE, pitch);
        for (int round = 0; round < 10; ++round) {
            add_one<<<grid, 128>>>(map);
        }
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(result.data(), memory, bytes, cudaMemcpyDefault));
        for (size_t i = 0; i < matrix.size(); ++i) {
            good = good && result[i] == matrix[i] + (int)(i % (pitch / 4)) / COLUMNS * -10 + 10;
        }
    }
    std::printf("add_one %s\n", good ? "right" : "wrong");

    const int width = 28, height = 19, depth = 13;
    std::vector<float> field(width * height * depth), laplacian(field.size());
    for (float &value : field) {
        value = random.below(64);
    }
    float *in, *out;
    CHECK(cudaMalloc(&in, field.size() * 4));
    CHECK(cudaMalloc(&out, field.size() * 4));
    CHECK(cudaMemcpy(in, field.data(), field.size() * 4, cudaMemcpyHostToDevice));
    CUtensorMap map = tiled(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, in, {width, height, depth}, {BOX + 4, BOX + 2, BOX + 2});
    CHECK(cudaMemcpyToSymbol(volume, &map, sizeof(map)));
    neighbours<<<dim3(4, 3, 2), 64>>>(out, width, height, depth);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(laplacian.data(), out, field.size() * 4, cudaMemcpyDeviceToHost));
    auto at = [&](int x, int y, int z) {
        return x < 0 || y < 0 || z < 0 || x >= width || y >= height || z >= depth ? 0.0f : field[(z * height + y) * width + x];
    };
    bool stencil = true;
    for (int z = 0; z < depth; ++z) {
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
                float want = at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) + at(x, y + 1, z) + at(x, y, z - 1) + at(x, y, z + 1) - 6 * at(x, y, z);
                stencil = stencil && laplacian[(z * height + y) * width + x] == want;
            }
        }
    }
    std::printf("neighbours %s\n", stencil ? "right" : "wrong");

    const int side = 96, other = 70 * 4;
    std::vector<int> words(side * other), turned(words.size());
    for (int &word : words) {
        word = (int)random.next();
    }
    int *from, *to;
    CUtensorMap *maps;
    CHECK(cudaMalloc(&from, words.size() * 4));
    CHECK(cudaMalloc(&to, words.size() * 4));
    CHECK(cudaMalloc(&maps, 2 * sizeof(map)));
    CHECK(cudaMemcpy(from, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
    CUtensorMap both[2] = {tiled(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, from, {other, side}, {32, 32}, CU_TENSOR_MAP_SWIZZLE_128B),
                           tiled(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, to, {side, other}, {32, 32})};
    CHECK(cudaMemcpy(maps, both, sizeof(both), cudaMemcpyHostToDevice));
    transpose<<<dim3((other + 31) / 32, (side + 31) / 32), 64>>>(maps);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(turned.data(), to, words.size() * 4, cudaMemcpyDeviceToHost));
    bool swapped = true;
    for (int y = 0; y < side; ++y) {
        for (int x = 0; x < other; ++x) {
            swapped = swapped && turned[x * side + y] == words[y * other + x];
        }
    }
    std::printf("transpose %s\n", swapped ? "right" : "wrong");

    const int sums_width = 40, sums_height = 20;
    std::vector<int> sums(sums_width * sums_height), expected(sums.size());
    int *total;
    CHECK(cudaMalloc(&total, sums.size() * 4));
    CHECK(cudaMemset(total, 0, sums.size() * 4));
    accumulate<<<16, 64>>>(tiled(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, total, {sums_width, sums_height}, {8, 8}));
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(sums.data(), total, sums.size() * 4, cudaMemcpyDeviceToHost));
    for (int block = 0; block < 16; ++block) {
        for (int i = 0; i < 64; ++i) {
            int x = block * 3 - 4 + i % 8, y = block * 2 - 3 + i / 8;
            if (x >= 0 && y >= 0 && x < sums_width && y < sums_height) {
                expected[y * sums_width + x] += block * 64 + i;
            }
        }
    }
    std::printf("accumulate %s\n", sums == expected ? "right" : "wrong");
    good = good && stencil && swapped && sums == expected;
    std::printf("%s\n", good ? "PASS" : "FAIL");
    return !good;
}
