// What the translation units of `linked` know of each other.
#pragma once

#include "../support.cuh"

using Operation = int (*)(int, int);

extern __device__ int twice(int value);
extern __device__ int second_own(int value);
extern __device__ int third_own(int value);
extern __device__ int recursive_sum(int n);
extern __device__ int bump_counter();
extern __device__ void shared_in_unit(int *out);
extern __device__ void say(const char *text);
void second(int *out);
int read_elsewhere(int index);

template <int factor> __device__ __noinline__ int scaled(int value) { return factor * value; }
template <typename T> __global__ void template_kernel(T *out, T value) { out[0] = scaled<2>(value); }
