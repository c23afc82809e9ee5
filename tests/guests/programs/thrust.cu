// Thrust: algorithms on device, host and universal vectors, with functors, fancy iterators and streams, beside std's.

#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <thrust/universal_vector.h>

#include <numeric>

#include "check.h"

struct Square {
    __host__ __device__ float operator()(float value) const { return value * value; }
};
struct Odd {
    __host__ __device__ bool operator()(int value) const { return value & 1; }
};
struct ByLastDigit {
    __host__ __device__ bool operator()(int left, int right) const { return left % 10 < right % 10; }
};
struct Sum3 {
    __host__ __device__ float operator()(thrust::tuple<int, float, float> item) const {
        return float(thrust::get<0>(item)) + thrust::get<1>(item) * thrust::get<2>(item);
    }
};

template <class T>
std::vector<T> back(const thrust::device_vector<T>& values, size_t count = size_t(-1)) {
    thrust::host_vector<T> there = values;
    return {there.begin(), there.begin() + std::min(count, there.size())};
}

static std::vector<int> integers(size_t count, int below) {
    std::vector<int> values(count);
    std::uniform_int_distribution<int> digit(0, below - 1);
    for (int& value : values) value = digit(generator);
    return values;
}

static void sorting(size_t count) {
    auto keys = integers(count, 1000), values = integers(count, 1 << 30);
    thrust::device_vector<int> on_keys = keys, on_values = values;
    thrust::stable_sort_by_key(on_keys.begin(), on_keys.end(), on_values.begin());
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    std::vector<int> right(count);
    for (size_t at = 0; at < count; at++) right[at] = values[order[at]];
    equal("stable_sort_by_key", back(on_values), right);

    auto sorted = keys;
    thrust::device_vector<int> mine = keys;
    thrust::sort(mine.begin(), mine.end(), thrust::greater<int>());
    std::sort(sorted.begin(), sorted.end(), std::greater<int>());
    equal("sort, downwards", back(mine), sorted);
    mine = keys;
    sorted = keys;
    thrust::stable_sort(mine.begin(), mine.end(), ByLastDigit());
    std::stable_sort(sorted.begin(), sorted.end(), ByLastDigit());
    equal("stable_sort by a comparison of one's own", back(mine), sorted);

    auto doubles = random_values<double>(count);
    thrust::device_vector<double> on_doubles = doubles;
    thrust::sort(on_doubles.begin(), on_doubles.end());
    std::sort(doubles.begin(), doubles.end());
    equal("sort of doubles", back(on_doubles), doubles);
}

static void reductions(size_t count) {
    auto values = integers(count, 1000);
    thrust::device_vector<int> there = values;
    require("reduce", thrust::reduce(there.begin(), there.end()) == std::accumulate(values.begin(), values.end(), 0));
    require("reduce to the largest", thrust::reduce(there.begin(), there.end(), -1, thrust::maximum<int>()) == (count ? *std::max_element(values.begin(), values.end()) : -1));
    long squares = 0;
    for (int value : values) squares += long(value) * value;
    auto wide_ones = thrust::make_transform_iterator(there.begin(), [] __host__ __device__(int value) { return long(value) * value; });
    require("reduce of a transform iterator", thrust::reduce(wide_ones, wide_ones + count, 0L) == squares);
    require("inner_product", thrust::inner_product(there.begin(), there.end(), there.begin(), 0L) == squares);
    require("count_if", thrust::count_if(there.begin(), there.end(), Odd()) == std::count_if(values.begin(), values.end(), Odd()));
    require("max_element", thrust::max_element(there.begin(), there.end()) - there.begin() == std::max_element(values.begin(), values.end()) - values.begin());
    require("min_element", thrust::min_element(there.begin(), there.end()) - there.begin() == std::min_element(values.begin(), values.end()) - values.begin());
    auto reals = random_values<float>(count);
    thrust::device_vector<float> on_reals = reals;
    double right = 0;
    for (float value : reals) right += double(value) * value;
    close("transform_reduce", std::vector<double>{thrust::transform_reduce(on_reals.begin(), on_reals.end(), Square(), 0.0F, thrust::plus<float>())}, std::vector<double>{right}, 1e-4);

    auto keys = integers(count, 3);
    thrust::device_vector<int> on_keys = keys, out_keys(count), out_values(count);
    auto ends = thrust::reduce_by_key(on_keys.begin(), on_keys.end(), there.begin(), out_keys.begin(), out_values.begin());
    std::vector<int> right_keys, right_values;
    for (size_t at = 0; at < count; at++) {
        if (at == 0 || keys[at] != keys[at - 1]) {
            right_keys.push_back(keys[at]);
            right_values.push_back(0);
        }
        right_values.back() += values[at];
    }
    equal("reduce_by_key", back(out_keys, ends.first - out_keys.begin()), right_keys);
    equal("reduce_by_key", back(out_values, ends.second - out_values.begin()), right_values);
}

static void scans(size_t count) {
    auto values = integers(count, 1000), keys = integers(count, 4);
    std::sort(keys.begin(), keys.end());
    thrust::device_vector<int> there = values, on_keys = keys, found(count);
    std::vector<int> right(count);
    thrust::inclusive_scan(there.begin(), there.end(), found.begin());
    std::partial_sum(values.begin(), values.end(), right.begin());
    equal("inclusive_scan", back(found), right);
    thrust::exclusive_scan(there.begin(), there.end(), found.begin(), 7);
    for (size_t at = 0, sum = 7; at < count; at++) {
        right[at] = int(sum);
        sum += values[at];
    }
    equal("exclusive_scan", back(found), right);
    thrust::inclusive_scan(there.begin(), there.end(), found.begin(), thrust::maximum<int>());
    for (size_t at = 0; at < count; at++) right[at] = at ? std::max(right[at - 1], values[at]) : values[at];
    equal("inclusive_scan of the largest", back(found), right);
    thrust::inclusive_scan_by_key(on_keys.begin(), on_keys.end(), there.begin(), found.begin());
    for (size_t at = 0; at < count; at++) right[at] = values[at] + (at && keys[at] == keys[at - 1] ? right[at - 1] : 0);
    equal("inclusive_scan_by_key", back(found), right);
    thrust::adjacent_difference(there.begin(), there.end(), found.begin());
    std::adjacent_difference(values.begin(), values.end(), right.begin());
    equal("adjacent_difference", back(found), right);
}

static void selections(size_t count) {
    auto values = integers(count, 20);
    thrust::device_vector<int> there = values, found(2 * count);
    auto end = thrust::copy_if(there.begin(), there.end(), found.begin(), Odd());
    std::vector<int> right;
    std::copy_if(values.begin(), values.end(), std::back_inserter(right), Odd());
    equal("copy_if", back(found, end - found.begin()), right);
    auto mine = there;
    auto last = thrust::remove_if(mine.begin(), mine.end(), Odd());
    right = values;
    right.erase(std::remove_if(right.begin(), right.end(), Odd()), right.end());
    equal("remove_if", back(mine, last - mine.begin()), right);
    mine = there;
    last = thrust::unique(mine.begin(), mine.end());
    right = values;
    right.erase(std::unique(right.begin(), right.end()), right.end());
    equal("unique", back(mine, last - mine.begin()), right);
    mine = there;
    last = thrust::stable_partition(mine.begin(), mine.end(), Odd());
    right = values;
    require("stable_partition, where", last - mine.begin() == std::stable_partition(right.begin(), right.end(), Odd()) - right.begin());
    equal("stable_partition", back(mine), right);

    auto first = integers(count, 5000), second = integers(count / 2, 5000);
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    thrust::device_vector<int> on_first = first, on_second = second;
    right.clear();
    std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(right));
    end = thrust::merge(on_first.begin(), on_first.end(), on_second.begin(), on_second.end(), found.begin());
    equal("merge", back(found, end - found.begin()), right);
    right.clear();
    std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(right));
    end = thrust::set_intersection(on_first.begin(), on_first.end(), on_second.begin(), on_second.end(), found.begin());
    equal("set_intersection", back(found, end - found.begin()), right);
    thrust::device_vector<int> places(second.size());
    thrust::lower_bound(on_first.begin(), on_first.end(), on_second.begin(), on_second.end(), places.begin());
    right.clear();
    for (int value : second) right.push_back(int(std::lower_bound(first.begin(), first.end(), value) - first.begin()));
    equal("lower_bound", back(places), right);
}

static void iterators(size_t count) {
    auto x = random_values<float>(count), y = random_values<float>(count);
    thrust::device_vector<float> on_x = x, on_y = y, found(count);
    auto begin = thrust::make_zip_iterator(thrust::make_tuple(thrust::counting_iterator<int>(0), on_x.begin(), on_y.begin()));
    thrust::transform(begin, begin + count, found.begin(), Sum3());
    std::vector<float> right(count);
    for (size_t at = 0; at < count; at++) right[at] = float(at) + x[at] * y[at];
    close("transform of zipped iterators", back(found), right, 1e-6);
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), generator);
    thrust::device_vector<int> on_order = order;
    thrust::gather(on_order.begin(), on_order.end(), on_x.begin(), found.begin());
    for (size_t at = 0; at < count; at++) right[at] = x[order[at]];
    equal("gather", back(found), right);
    auto permuted = thrust::make_permutation_iterator(on_x.begin(), on_order.begin());
    float largest = thrust::reduce(permuted, permuted + count, -2.0F, thrust::maximum<float>());
    require("permutation iterator", largest == (count ? *std::max_element(x.begin(), x.end()) : -2.0F));
    thrust::scatter(on_x.begin(), on_x.end(), on_order.begin(), found.begin());
    for (size_t at = 0; at < count; at++) right[order[at]] = x[at];
    equal("scatter", back(found), right);
    thrust::device_vector<int> numbers(count);
    thrust::sequence(numbers.begin(), numbers.end(), 5, 3);
    thrust::for_each(numbers.begin(), numbers.end(), [] __device__(int& value) { value *= 2; });
    std::vector<int> expected(count);
    for (size_t at = 0; at < count; at++) expected[at] = 2 * (5 + 3 * int(at));
    equal("sequence, for_each", back(numbers), expected);
}

static void policies() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    thrust::device_vector<int> values(5000, 3);
    thrust::fill(thrust::cuda::par_nosync.on(stream), values.begin(), values.begin() + 1000, 5);
    require("reduce on a stream", thrust::reduce(thrust::cuda::par.on(stream), values.begin(), values.end()) == 1000 * 5 + 4000 * 3);
    Device<int> raw(1000);
    thrust::sequence(thrust::device, raw.as<int>(), raw.as<int>() + 1000);
    require("device policy on raw pointers", thrust::reduce(thrust::device, raw.as<int>(), raw.as<int>() + 1000) == 999 * 500);
    thrust::universal_vector<int> shared(100, 2);
    thrust::transform(shared.begin(), shared.end(), shared.begin(), Square());
    CHECK(cudaDeviceSynchronize());
    require("universal vector", std::accumulate(shared.begin(), shared.end(), 0) == 400);
    values[17] = 12;
    require("one element", int(values[17]) == 12 && int(values[18]) == 5);
    CHECK(cudaStreamDestroy(stream));
    bool thrown = false;
    try {
        thrust::device_vector<char> too_much(size_t(1) << 50);
    } catch (const std::bad_alloc&) {
        thrown = true;
    }
    require("an allocation that cannot be", thrown);
}

int main() {
    for (size_t count : {0, 1, 33, 1000, 100000}) {
        if (count) sorting(count);
        reductions(count);
        scans(count);
        selections(count);
        iterators(count);
        std::printf("%zu\n", count);
    }
    policies();
    std::printf("PASS\n");
}
