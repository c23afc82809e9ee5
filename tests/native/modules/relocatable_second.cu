// The device function that `relocatable` calls.
__device__ int twice(int value) { return 2 * value; }
