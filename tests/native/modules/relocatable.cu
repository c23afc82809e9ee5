// A kernel that calls a device function of another translation unit (relocatable device code).
#include "../support.cuh"

extern __device__ int twice(int value);

__global__ void kernel(int *out) { *out = twice(21); }

int main() {
    DeviceArray<int> out(1);
    kernel<<<1, 1>>>(out.get());
    CHECK_LAUNCH();
    Verdict verdict;
    verdict.expect(out.download()[0] == 42, "a device function of another unit");
    return verdict.finish();
}
