// Thread block clusters: blocks that read and write each other's shared memory and wait for each other, with clusters of the kernel's own and
// of the launch's choice; what the runtime says of them, and what it refuses.
#include <cooperative_groups.h>

#include "../support.cuh"

namespace cg = cooperative_groups;

constexpr int BINS = 512;

// A histogram whose bins are spread over the shared memory of a cluster's blocks.
__global__ void histogram(const unsigned *input, int count, unsigned *bins, int bins_per_block) {
    extern __shared__ unsigned mine[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) {
        mine[i] = 0;
    }
    cluster.sync();
    for (int i = cg::this_grid().thread_rank(); i < count; i += gridDim.x * blockDim.x) {
        unsigned bin = input[i] % BINS;
        unsigned *theirs = cluster.map_shared_rank(mine, bin / bins_per_block);
        atomicAdd(theirs + bin % bins_per_block, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) {
        atomicAdd(&bins[cluster.block_rank() * bins_per_block + i], mine[i]);
    }
}

// Each block of a 2 x 2 cluster has a tile's quarter; the border comes from the neighbours' shared memory, and wraps round within the cluster.
constexpr int TILE = 16;

__global__ void __cluster_dims__(2, 2, 1) blur(const float *in, float *out, int width) {
    __shared__ float tile[TILE][TILE];
    cg::cluster_group cluster = cg::this_cluster();
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    cluster.sync();
    float sum = 0;
    dim3 block = cluster.block_index();
    for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
            int tx = block.x * TILE + threadIdx.x + dx, ty = block.y * TILE + threadIdx.y + dy;
            tx = (tx + 2 * TILE) % (2 * TILE);
            ty = (ty + 2 * TILE) % (2 * TILE);
            float(*theirs)[TILE] = cluster.map_shared_rank(tile, tx / TILE + 2 * (ty / TILE));
            sum += theirs[ty % TILE][tx % TILE];
        }
    }
    out[y * width + x] = sum;
    cluster.sync();  // until the neighbours have read
}

// Sums of floats that all blocks add to the first one's memory, in the order of a split barrier; and where every block is.
struct Place {
    unsigned rank, blocks, cluster, clusters, own;
    float sum;
};

__global__ void places(Place *out) {
    __shared__ float sum;
    __shared__ int token;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) {
        sum = 0;
        token = -1;
    }
    cluster.sync();
    float *first = cluster.map_shared_rank(&sum, 0);
    atomicAdd(first, 0.1f * (threadIdx.x + 1) * (cluster.block_rank() + 1));
    auto arrival = cluster.barrier_arrive();
    int last = cluster.num_blocks() - 1 - cluster.block_rank();
    cluster.barrier_wait(std::move(arrival));
    if (threadIdx.x == 0) {
        *cluster.map_shared_rank(&token, last) = cluster.block_rank();
    }
    cluster.sync();
    if (threadIdx.x == 0) {
        Place &place = out[blockIdx.x + gridDim.x * blockIdx.y];
        dim3 clusters = cg::this_grid().dim_clusters();
        dim3 index = cg::this_grid().cluster_index();
        place.rank = cluster.block_rank();
        place.blocks = cluster.num_blocks();
        place.cluster = index.x + clusters.x * index.y;
        place.clusters = clusters.x * clusters.y * clusters.z;
        place.own = cluster.query_shared_rank(first) == 0 && token == last && cluster.dim_threads().x == cluster.dim_blocks().x * blockDim.x;
        place.sum = *first;
    }
    cluster.sync();
}

__global__ void plain(int *out) { out[blockIdx.x] = cg::this_cluster().num_blocks(); }

static cudaLaunchConfig_t config_of(dim3 grid, dim3 block, cudaLaunchAttribute *attribute, dim3 cluster) {
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = cluster.x;
    attribute->val.clusterDim.y = cluster.y;
    attribute->val.clusterDim.z = cluster.z;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}

static void check_histogram(Verdict &verdict) {
    Random random(5);
    std::vector<unsigned> input(40000), expected(BINS);
    for (unsigned &value : input) {
        value = static_cast<unsigned>(random.next());
        ++expected[value % BINS];
    }
    DeviceArray<unsigned> in(input), bins(BINS);
    for (int blocks : {1, 2, 4, 8}) {
        cudaLaunchAttribute attribute;
        cudaLaunchConfig_t config = config_of(dim3(16), dim3(128), &attribute, dim3(blocks));
        config.dynamicSmemBytes = BINS / blocks * sizeof(unsigned);
        bins.zero();
        CHECK(cudaLaunchKernelEx(&config, histogram, static_cast<const unsigned *>(in.get()), 40000, bins.get(), BINS / blocks));
        verdict.equal(bins.download(), expected, "histogram");
    }
    print_checksum("histogram", expected);
}

static void check_blur(Verdict &verdict) {
    constexpr int width = 64;
    std::vector<float> input(width * width), expected(width * width);
    for (int i = 0; i < width * width; ++i) {
        input[i] = static_cast<float>(i * 7 % 101);
    }
    constexpr int span = 2 * TILE;
    for (int y = 0; y < width; ++y) {
        for (int x = 0; x < width; ++x) {
            float sum = 0;
            for (int dy = -1; dy <= 1; ++dy) {
                for (int dx = -1; dx <= 1; ++dx) {
                    sum += input[(y / span * span + (y % span + dy + span) % span) * width + x / span * span + (x % span + dx + span) % span];
                }
            }
            expected[y * width + x] = sum;
        }
    }
    DeviceArray<float> in(input), out(width * width);
    blur<<<dim3(4, 4), dim3(TILE, TILE)>>>(in.get(), out.get(), width);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "blur");
    print_checksum("blur", expected);
}

static void check_places(Verdict &verdict) {
    constexpr int grid_x = 8, grid_y = 6, threads = 40;
    DeviceArray<Place> out(grid_x * grid_y);
    for (dim3 shape : {dim3(1, 1, 1), dim3(2, 1, 1), dim3(4, 2, 1), dim3(2, 3, 1), dim3(8, 2, 1)}) {
        unsigned blocks = shape.x * shape.y;
        bool large = blocks > 8;
        cudaLaunchAttribute attribute;
        cudaLaunchConfig_t config = config_of(dim3(grid_x, grid_y), dim3(threads), &attribute, shape);
        if (large) {
            verdict.expect(cudaLaunchKernelEx(&config, places, out.get()) == cudaErrorInvalidClusterSize, "too large a cluster");
            verdict.expect(cudaGetLastError() == cudaErrorInvalidClusterSize, "the last error");
            CHECK(cudaFuncSetAttribute(places, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
        }
        CHECK(cudaLaunchKernelEx(&config, places, out.get()));
        float sum = 0;
        for (unsigned rank = 0; rank < blocks; ++rank) {
            for (int thread = 0; thread < threads; ++thread) {
                sum += 0.1f * (thread + 1) * (rank + 1);
            }
        }
        std::vector<Place> found = out.download();
        for (unsigned y = 0; y < grid_y; ++y) {
            for (unsigned x = 0; x < grid_x; ++x) {
                const Place &place = found[x + grid_x * y];
                bool right = place.rank == x % shape.x + shape.x * (y % shape.y) && place.blocks == blocks && place.own == 1;
                right = right && place.cluster == x / shape.x + grid_x / shape.x * (y / shape.y) && place.clusters == grid_x * grid_y / blocks;
                verdict.expect(right, "a block's place");
                verdict.expect(std::fabs(place.sum - sum) <= 1e-4f * sum, "the sum of a cluster");
            }
        }
    }
}

static void check_what_is_refused(Verdict &verdict) {
    DeviceArray<float> memory(1 << 12);
    DeviceArray<int> sizes(8);
    blur<<<dim3(3, 4), dim3(TILE, TILE)>>>(memory.get(), memory.get(), 64);
    verdict.expect(cudaGetLastError() == cudaErrorInvalidClusterSize, "a grid that is not made of clusters");
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = config_of(dim3(4, 4), dim3(TILE, TILE), &attribute, dim3(4, 1, 1));
    const float *in = memory.get();
    verdict.expect(cudaLaunchKernelEx(&config, blur, in, memory.get(), 64) == cudaErrorInvalidClusterSize, "another cluster than the kernel's");
    config = config_of(dim3(8), dim3(1), &attribute, dim3(3, 1, 1));
    verdict.expect(cudaLaunchKernelEx(&config, plain, sizes.get()) == cudaErrorInvalidClusterSize, "a part of a cluster");
    cudaGetLastError();
    config = config_of(dim3(8), dim3(1), &attribute, dim3(4, 1, 1));
    for (int i = 0; i < 10; ++i) {
        CHECK(cudaLaunchKernelEx(&config, plain, sizes.get()));
    }
    verdict.equal(sizes.download(), std::vector<int>(8, 4), "blocks of a cluster");
    plain<<<8, 1>>>(sizes.get());
    verdict.equal(sizes.download(), std::vector<int>(8, 1), "blocks of no cluster");
}

static void check_queries(Verdict &verdict) {
    int supported = 0, size = 0, clusters = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, 0));
    verdict.expect(supported == 1, "cudaDevAttrClusterLaunch");
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, blur));
    verdict.expect(attributes.requiredClusterWidth == 2 && attributes.requiredClusterHeight == 2 && attributes.requiredClusterDepth == 1, "blur's cluster");
    CHECK(cudaFuncGetAttributes(&attributes, plain));
    verdict.expect(attributes.requiredClusterWidth == 0 && attributes.nonPortableClusterSizeAllowed == 0, "no cluster");
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = config_of(dim3(16), dim3(128), &attribute, dim3(2, 1, 1));
    CHECK(cudaOccupancyMaxPotentialClusterSize(&size, plain, &config));
    verdict.expect(size == 8, "the largest cluster");
    CHECK(cudaFuncSetAttribute(plain, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CHECK(cudaOccupancyMaxPotentialClusterSize(&size, plain, &config));
    verdict.expect(size >= 8 && size <= 16, "the largest cluster of this device");
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, plain, &config));
    int pairs = clusters;
    attribute.val.clusterDim.x = 4;
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, plain, &config));
    verdict.expect(clusters >= 1 && clusters <= pairs, "clusters at once");
}

// A cluster that the program requires of all launches of a kernel.
static void check_required(Verdict &verdict) {
    DeviceArray<int> sizes(12);
    CHECK(cudaFuncSetAttribute(plain, cudaFuncAttributeRequiredClusterWidth, 4));
    plain<<<12, 1>>>(sizes.get());
    verdict.expect(cudaGetLastError() == cudaErrorInvalidClusterSize, "extents that were not all set");
    CHECK(cudaFuncSetAttribute(plain, cudaFuncAttributeRequiredClusterHeight, 1));
    CHECK(cudaFuncSetAttribute(plain, cudaFuncAttributeRequiredClusterDepth, 1));
    for (int i = 0; i < 3; ++i) {
        plain<<<12, 1>>>(sizes.get());
        CHECK_LAUNCH();
    }
    verdict.equal(sizes.download(), std::vector<int>(12, 4), "blocks of a required cluster");
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, plain));
    verdict.expect(attributes.requiredClusterWidth == 4 && attributes.requiredClusterDepth == 1, "a required cluster is told");
    plain<<<10, 1>>>(sizes.get());
    verdict.expect(cudaGetLastError() == cudaErrorInvalidClusterSize, "a part of a required cluster");
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = config_of(dim3(12), dim3(1), &attribute, dim3(2, 1, 1));
    verdict.expect(cudaLaunchKernelEx(&config, plain, sizes.get()) == cudaErrorInvalidClusterSize, "another than the required one");
    verdict.expect(cudaFuncSetAttribute(blur, cudaFuncAttributeRequiredClusterWidth, 2) == cudaErrorNotPermitted, "a kernel that was compiled for one");
    verdict.expect(cudaFuncSetAttribute(plain, cudaFuncAttributeRequiredClusterWidth, -1) == cudaErrorInvalidValue, "no extent");
    cudaGetLastError();
    for (cudaFuncAttribute extent : {cudaFuncAttributeRequiredClusterWidth, cudaFuncAttributeRequiredClusterHeight, cudaFuncAttributeRequiredClusterDepth}) {
        CHECK(cudaFuncSetAttribute(plain, extent, 0));
    }
    plain<<<12, 1>>>(sizes.get());
    verdict.equal(sizes.download(), std::vector<int>(12, 1), "none is required any more");
}

// A captured launch keeps its cluster.
static void check_graph(Verdict &verdict) {
    DeviceArray<int> sizes(8);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = config_of(dim3(8), dim3(1), &attribute, dim3(2, 1, 1));
    config.stream = stream;
    CHECK(cudaLaunchKernelEx(&config, plain, sizes.get()));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.equal(sizes.download(), std::vector<int>(8, 2), "a graph's cluster");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    Verdict verdict;
    check_histogram(verdict);
    check_blur(verdict);
    check_places(verdict);
    check_what_is_refused(verdict);
    check_required(verdict);
    check_queries(verdict);
    check_graph(verdict);
    return verdict.finish();
}
