// Black-Scholes and binomial pricing of options: float transcendentals against double on the host, a tree in shared memory.
#include "../support.cuh"

constexpr int STEPS = 63;

__device__ float normal(float d) { return 0.5f * erfcf(-d * 0.70710678f); }

__global__ void closed(const float *price, const float *strike, const float *years, float *call, float *put, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float rate = 0.02f, sigma = 0.3f, root = sqrtf(years[i]);
        const float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * sigma * sigma) * years[i]) / (sigma * root);
        const float d2 = d1 - sigma * root, later = expf(-rate * years[i]);
        call[i] = price[i] * normal(d1) - strike[i] * later * normal(d2);
        put[i] = strike[i] * later * normal(-d2) - price[i] * normal(-d1);
    }
}

__global__ void tree(const float *price, const float *strike, const float *years, float *call) {
    __shared__ float value[STEPS + 1];
    const int i = blockIdx.x, t = threadIdx.x;
    const float rate = 0.02f, sigma = 0.3f, dt = years[i] / STEPS, up = expf(sigma * sqrtf(dt));
    const float chance = (expf(rate * dt) - 1 / up) / (up - 1 / up), later = expf(-rate * dt);
    value[t] = fmaxf(price[i] * powf(up, float(2 * t - STEPS)) - strike[i], 0.0f);
    for (int step = STEPS; step > 0; --step) {
        __syncthreads();
        const float next = t < step ? later * (chance * value[t + 1] + (1 - chance) * value[t]) : 0;
        __syncthreads();
        if (t < step) {
            value[t] = next;
        }
    }
    if (t == 0) {
        call[i] = value[0];
    }
}

int main() {
    Verdict verdict;
    const int n = 200;
    std::vector<float> price(n), strike(n), years(n), calls(n), puts(n);
    Random random(9);
    for (int i = 0; i < n; ++i) {
        price[i] = float(10 + 90 * random.real()), strike[i] = float(10 + 90 * random.real());
        years[i] = float(0.25 + 5 * random.real());
        const double root = std::sqrt(years[i]), d1 = (std::log(double(price[i]) / strike[i]) + 0.065 * years[i]) / (0.3 * root);
        const double d2 = d1 - 0.3 * root, later = std::exp(-0.02 * years[i]);
        calls[i] = float(price[i] * 0.5 * std::erfc(-d1 * M_SQRT1_2) - strike[i] * later * 0.5 * std::erfc(-d2 * M_SQRT1_2));
        puts[i] = float(strike[i] * later * 0.5 * std::erfc(d2 * M_SQRT1_2) - price[i] * 0.5 * std::erfc(d1 * M_SQRT1_2));
    }
    DeviceArray<float> p(price), s(strike), y(years), call(n), put(n);
    closed<<<(n + 63) / 64, 64>>>(p.get(), s.get(), y.get(), call.get(), put.get(), n);
    verdict.near(call.download(), calls, 1e-4, "calls");
    verdict.near(put.download(), puts, 1e-4, "puts");
    tree<<<n, STEPS + 1>>>(p.get(), s.get(), y.get(), call.get());
    CHECK_LAUNCH();
    verdict.near(call.download(), calls, 0.2, "calls by trees");
    std::printf("options_pricing %d\n", n);
    return verdict.finish();
}
