// CUB: device-wide algorithms, and those of blocks and warps inside kernels.

#include <cub/cub.cuh>

#include <numeric>

#include "check.h"

// Calls an algorithm of a device twice, as CUB wants it: for the size of its work space, and with it.
template <class F>
void twice(F call) {
    size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    Device<char> space(bytes);
    CHECK(call(space.as<char>(), bytes));
    CHECK(cudaDeviceSynchronize());
}

static std::vector<int> integers(size_t count, int below) {
    std::vector<int> values(count);
    std::uniform_int_distribution<int> digit(0, below - 1);
    for (int& value : values) value = digit(generator);
    return values;
}

struct Even {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};
struct Smaller {
    __host__ __device__ bool operator()(int left, int right) const { return left < right; }
};
struct Largest {
    __host__ __device__ int operator()(int left, int right) const { return left < right ? right : left; }
};

static void whole_device(int count) {
    auto values = integers(count, 1000);
    Device<int> in(values), out(count), other(count), one(1);
    std::vector<int> right(count);

    twice([&](void* space, size_t& bytes) { return cub::DeviceReduce::Sum(space, bytes, in.as<int>(), one.as<int>(), count); });
    equal("DeviceReduce::Sum", one.get(), {std::accumulate(values.begin(), values.end(), 0)});
    twice([&](void* space, size_t& bytes) { return cub::DeviceReduce::Reduce(space, bytes, in.as<int>(), one.as<int>(), count, Largest(), -1); });
    equal("DeviceReduce::Reduce", one.get(), {*std::max_element(values.begin(), values.end())});
    Device<int64_t> place(1);
    twice([&](void* space, size_t& bytes) { return cub::DeviceReduce::ArgMin(space, bytes, in.as<int>(), one.as<int>(), place.as<int64_t>(), int64_t(count)); });
    require("DeviceReduce::ArgMin", place.get()[0] == std::min_element(values.begin(), values.end()) - values.begin());
    twice([&](void* space, size_t& bytes) { return cub::DeviceScan::ExclusiveSum(space, bytes, in.as<int>(), out.as<int>(), count); });
    for (int at = 0, sum = 0; at < count; sum += values[at++]) right[at] = sum;
    equal("DeviceScan::ExclusiveSum", out.get(), right);
    twice([&](void* space, size_t& bytes) { return cub::DeviceScan::InclusiveScan(space, bytes, in.as<int>(), out.as<int>(), Largest(), count); });
    for (int at = 0; at < count; at++) right[at] = at ? std::max(right[at - 1], values[at]) : values[at];
    equal("DeviceScan::InclusiveScan", out.get(), right);

    std::vector<int> order(count), numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    order = numbers;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] < values[b]; });
    Device<int> items(numbers);
    twice([&](void* space, size_t& bytes) { return cub::DeviceRadixSort::SortPairs(space, bytes, in.as<int>(), out.as<int>(), items.as<int>(), other.as<int>(), count); });
    equal("DeviceRadixSort::SortPairs", other.get(), order);
    Device<int> mine(values);
    twice([&](void* space, size_t& bytes) { return cub::DeviceMergeSort::StableSortKeys(space, bytes, mine.as<int>(), count, Smaller()); });
    right = values;
    std::sort(right.begin(), right.end());
    equal("DeviceMergeSort::StableSortKeys", mine.get(), right);
    auto reals = random_values<float>(count);
    Device<float> on_reals(reals), sorted(count);
    twice([&](void* space, size_t& bytes) { return cub::DeviceRadixSort::SortKeysDescending(space, bytes, on_reals.as<float>(), sorted.as<float>(), count); });
    std::sort(reals.begin(), reals.end(), std::greater<float>());
    equal("DeviceRadixSort::SortKeysDescending of floats", sorted.get(), reals);

    twice([&](void* space, size_t& bytes) { return cub::DeviceSelect::If(space, bytes, in.as<int>(), out.as<int>(), one.as<int>(), count, Even()); });
    right.clear();
    std::copy_if(values.begin(), values.end(), std::back_inserter(right), Even());
    auto found = out.get();
    found.resize(one.get()[0]);
    equal("DeviceSelect::If", found, right);
    twice([&](void* space, size_t& bytes) { return cub::DevicePartition::If(space, bytes, in.as<int>(), out.as<int>(), one.as<int>(), count, Even()); });
    found = out.get();
    found.resize(one.get()[0]);
    equal("DevicePartition::If", found, right);
    auto few = integers(count, 3);
    Device<int> on_few(few), lengths(count);
    twice([&](void* space, size_t& bytes) { return cub::DeviceRunLengthEncode::Encode(space, bytes, on_few.as<int>(), out.as<int>(), lengths.as<int>(), one.as<int>(), count); });
    std::vector<int> runs, sizes;
    for (int value : few) {
        if (runs.empty() || runs.back() != value) {
            runs.push_back(value);
            sizes.push_back(0);
        }
        sizes.back()++;
    }
    found = out.get();
    found.resize(one.get()[0]);
    equal("DeviceRunLengthEncode::Encode, values", found, runs);
    found = lengths.get();
    found.resize(runs.size());
    equal("DeviceRunLengthEncode::Encode, lengths", found, sizes);

    Device<int> bins(10);
    twice([&](void* space, size_t& bytes) { return cub::DeviceHistogram::HistogramEven(space, bytes, in.as<int>(), bins.as<int>(), 11, 0, 1000, count); });
    right.assign(10, 0);
    for (int value : values) right[value / 100]++;
    equal("DeviceHistogram::HistogramEven", bins.get(), right);

    std::vector<int> starts;
    for (int at = 0; at < count; at += 1 + at % 37) starts.push_back(at);
    starts.push_back(count);
    int segments = int(starts.size()) - 1;
    Device<int> on_starts(starts), sums(segments);
    twice([&](void* space, size_t& bytes) { return cub::DeviceSegmentedReduce::Sum(space, bytes, in.as<int>(), sums.as<int>(), segments, on_starts.as<int>(), on_starts.as<int>() + 1); });
    right.clear();
    for (int at = 0; at < segments; at++) right.push_back(std::accumulate(values.begin() + starts[at], values.begin() + starts[at + 1], 0));
    equal("DeviceSegmentedReduce::Sum", sums.get(), right);
    twice([&](void* space, size_t& bytes) { return cub::DeviceSegmentedSort::SortKeys(space, bytes, in.as<int>(), out.as<int>(), count, segments, on_starts.as<int>(), on_starts.as<int>() + 1); });
    right = values;
    for (int at = 0; at < segments; at++) std::sort(right.begin() + starts[at], right.begin() + starts[at + 1]);
    equal("DeviceSegmentedSort::SortKeys", out.get(), right);
    std::printf("%d\n", count);
}

const int THREADS = 128, ITEMS = 4, TILE = THREADS * ITEMS;

__global__ void of_a_block(const int* in, int* sorted, int* scanned, int* sums, int* warps) {
    using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<int, THREADS, ITEMS>;
    using Scan = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    using Reduce = cub::BlockReduce<int, THREADS>;
    using Warp = cub::WarpReduce<int>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
        typename Warp::TempStorage warp[THREADS / 32];
    } space;
    int keys[ITEMS], prefixes[ITEMS];
    Load(space.load).Load(in + blockIdx.x * TILE, keys);
    __syncthreads();
    Scan(space.scan).ExclusiveSum(keys, prefixes);
    __syncthreads();
    Store(space.store).Store(scanned + blockIdx.x * TILE, prefixes);
    __syncthreads();
    int sum = Reduce(space.reduce).Sum(keys);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    __syncthreads();
    int largest = Warp(space.warp[threadIdx.x / 32]).Reduce(keys[0], Largest());
    if (threadIdx.x % 32 == 0) warps[blockIdx.x * (THREADS / 32) + threadIdx.x / 32] = largest;
    __syncthreads();
    Sort(space.sort).Sort(keys);
    __syncthreads();
    Store(space.store).Store(sorted + blockIdx.x * TILE, keys);
}

static void in_blocks() {
    const int blocks = 7;
    auto values = integers(blocks * TILE, 1 << 20);
    Device<int> in(values), sorted(values.size()), scanned(values.size()), sums(blocks), warps(blocks * THREADS / 32);
    of_a_block<<<blocks, THREADS>>>(in, sorted, scanned, sums, warps);
    CHECK(cudaDeviceSynchronize());
    std::vector<int> right_scanned, right_sums, right_warps;
    for (int block = 0; block < blocks; block++) {
        int sum = 0;
        for (int at = 0; at < TILE; at++) {
            right_scanned.push_back(sum);
            sum += values[block * TILE + at];
        }
        right_sums.push_back(sum);
        for (int warp = 0; warp < THREADS / 32; warp++) {
            int largest = 0;
            for (int lane = 0; lane < 32; lane++) largest = std::max(largest, values[block * TILE + (warp * 32 + lane) * ITEMS]);
            right_warps.push_back(largest);
        }
    }
    equal("BlockScan", scanned.get(), right_scanned);
    equal("BlockReduce", sums.get(), right_sums);
    equal("WarpReduce", warps.get(), right_warps);
    for (int block = 0; block < blocks; block++) std::sort(values.begin() + block * TILE, values.begin() + (block + 1) * TILE);
    equal("BlockRadixSort", sorted.get(), values);
    std::printf("in blocks\n");
}

int main() {
    for (int count : {1, 100, 5000, 200000}) whole_device(count);
    in_blocks();
    std::printf("PASS\n");
}
