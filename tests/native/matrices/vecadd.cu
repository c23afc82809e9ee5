// Vector addition: one launch, a partial last block, copies both ways.
#include "../support.cuh"

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

int main() {
    const int n = 100003;
    Random random(1);
    std::vector<float> a(n), b(n), expected(n);
    for (int i = 0; i < n; ++i) {
        a[i] = static_cast<float>(random.real()) - 0.5f;
        b[i] = static_cast<float>(random.real()) * 1000.0f;
        expected[i] = a[i] + b[i];
    }
    DeviceArray<float> device_a(a), device_b(b), device_c(n);
    add<<<(n + 255) / 256, 256>>>(device_a.get(), device_b.get(), device_c.get(), n);
    CHECK_LAUNCH();
    std::vector<float> c = device_c.download();

    Verdict verdict;
    verdict.equal(c, expected, "c");
    print_checksum("vecadd", c);
    return verdict.finish();
}
