// Half precision: conversions both ways, arithmetic on half2, comparisons, bfloat16, dot products accumulated in float.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../support.cuh"

__global__ void axpy(const __half2 *x, __half2 *y, float a, int pairs) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) {
        y[i] = __hfma2(__float2half2_rn(a), x[i], y[i]);
    }
}

__global__ void dot(const __half *x, const __half *y, float *sum, int n) {
    float own = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        own += __half2float(x[i]) * __half2float(y[i]);
    }
    atomicAdd(sum, own);
}

__global__ void brain(const float *in, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const __nv_bfloat16 value = __float2bfloat16(in[i]);
        out[i] = __bfloat162float(value) + (__hgt(__float2half(in[i]), __float2half(2.0f)) ? 1000.0f : 0.0f);
    }
}

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits += 0x7FFF + (bits >> 16 & 1);
    bits &= 0xFFFF0000;
    memcpy(&value, &bits, 4);
    return value;
}

int main() {
    Verdict verdict;
    const int n = 4000;
    std::vector<__half> x(n), y(n);
    std::vector<float> expected(n), in(n), brains(n);
    Random random(1);
    float product = 0;
    for (int i = 0; i < n; ++i) {
        const float a = float(random.below(64)), b = float(random.below(32));  // exact in half precision throughout
        x[i] = __float2half(a), y[i] = __float2half(b);
        expected[i] = 0.5f * a + b;
        product += a * expected[i];
        in[i] = float(random.real() * 4 - 1);
        brains[i] = rounded(in[i]) + (__half2float(__float2half(in[i])) > 2.0f ? 1000.0f : 0.0f);
    }
    DeviceArray<__half> device_x(x), device_y(y);
    axpy<<<(n / 2 + 127) / 128, 128>>>((const __half2 *)device_x.get(), (__half2 *)device_y.get(), 0.5f, n / 2);
    DeviceArray<float> sum(1), from(in), to(n);
    sum.zero();
    dot<<<1, 128>>>(device_x.get(), device_y.get(), sum.get(), n);
    brain<<<(n + 127) / 128, 128>>>(from.get(), to.get(), n);
    CHECK_LAUNCH();
    std::vector<float> actual;
    for (__half value : device_y.download()) {
        actual.push_back(__half2float(value));
    }
    verdict.equal(actual, expected, "axpy");
    verdict.near(sum.download(), {product}, 1e-5, "dot");
    verdict.equal(to.download(), brains, "bfloat16");
    std::printf("half_precision\n");
    return verdict.finish();
}
