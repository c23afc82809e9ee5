// A program with much host code that reaches CUDA: a loop with many of Thrust's algorithms, for several types of elements.
// benchmarks/analyzer.py compiles and analyzes it; it is never run.
#pragma once

#include <thrust/adjacent_difference.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <cstdlib>

template <class T> struct Below {
    T bound;
    __host__ __device__ bool operator()(T value) const { return value < bound; }
};

template <class T> struct Step {
    T by;
    __host__ __device__ T operator()(T value) const { return value * by + by; }
};

template <class T> double rounds(int count, int size) {
    thrust::host_vector<T> input(size);
    for (int i = 0; i < size; i++) input[i] = T(i * 7 % 31);
    thrust::device_vector<T> a = input, b(size), c(2 * size);
    thrust::device_vector<int> keys(size), values(size);
    double total = 0;
    for (int round = 0; round < count; round++) {
        thrust::transform(a.begin(), a.end(), b.begin(), Step<T>{T(round)});
        thrust::sort(b.begin(), b.end());
        thrust::stable_sort(a.begin(), a.end(), thrust::greater<T>());
        thrust::sequence(keys.begin(), keys.end());
        thrust::sort_by_key(keys.begin(), keys.end(), a.begin());
        thrust::inclusive_scan(a.begin(), a.end(), b.begin());
        thrust::exclusive_scan(b.begin(), b.end(), a.begin());
        thrust::inclusive_scan_by_key(keys.begin(), keys.end(), a.begin(), b.begin());
        thrust::reduce_by_key(keys.begin(), keys.end(), a.begin(), values.begin(), b.begin());
        thrust::adjacent_difference(a.begin(), a.end(), b.begin());
        thrust::merge(a.begin(), a.end(), b.begin(), b.end(), c.begin());
        thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), c.begin());
        thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), c.begin());
        thrust::copy_if(a.begin(), a.end(), b.begin(), Below<T>{T(round)});
        thrust::partition(a.begin(), a.end(), Below<T>{T(3)});
        thrust::unique(b.begin(), b.end());
        thrust::remove_if(b.begin(), b.end(), Below<T>{T(5)});
        thrust::fill(c.begin(), c.end(), T(round));
        total += thrust::reduce(a.begin(), a.end(), T(0));
        total += thrust::inner_product(a.begin(), a.end(), b.begin(), T(0));
        total += thrust::count_if(a.begin(), a.end(), Below<T>{T(7)});
        total += thrust::max_element(a.begin(), a.end()) - a.begin();
        total += thrust::minmax_element(b.begin(), b.end()).second - b.begin();
    }
    thrust::copy(a.begin(), a.end(), input.begin());
    return total + double(input[0]);
}

template <class... T> double all(int count, int size) { return (rounds<T>(count, size) + ... + 0.0); }

double second(int count, int size);
