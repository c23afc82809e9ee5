// A radix-2 FFT in shared memory, forwards and backwards, with float2 and sincospif; compared with the definition in double.
#include "../support.cuh"

constexpr int N = 256;

__global__ void fft(const float2 *in, float2 *out, int sign) {
    __shared__ float2 data[N];
    const int base = blockIdx.x * N;
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        data[__brev(unsigned(i)) >> 24] = in[base + i];
    }
    for (int half = 1; half < N; half *= 2) {
        __syncthreads();
        const int i = threadIdx.x / half * 2 * half + threadIdx.x % half;
        float s, c;
        sincospif(float(sign) * float(threadIdx.x % half) / float(half), &s, &c);
        const float2 a = data[i], b = data[i + half];
        const float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
        data[i] = make_float2(a.x + turned.x, a.y + turned.y);
        data[i + half] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        const float scale = sign > 0 ? 1.0f / N : 1.0f;
        out[base + i] = make_float2(data[i].x * scale, data[i].y * scale);
    }
}

int main() {
    Verdict verdict;
    const int batch = 5;
    std::vector<float2> signal(batch * N);
    Random random(2);
    for (float2 &value : signal) {
        value = make_float2(float(random.real() - 0.5), float(random.real() - 0.5));
    }
    DeviceArray<float2> in(signal), spectrum(batch * N), back(batch * N);
    fft<<<batch, N / 2>>>(in.get(), spectrum.get(), -1);
    fft<<<batch, N / 2>>>(spectrum.get(), back.get(), 1);
    CHECK_LAUNCH();
    std::vector<float> actual, expected, again, original;
    const std::vector<float2> result = spectrum.download(), returned = back.download();
    for (int k = 0; k < N; k += 7) {
        double re = 0, im = 0;
        for (int n = 0; n < N; ++n) {
            const double angle = -2 * M_PI * k * n / N;
            re += signal[N + n].x * cos(angle) - signal[N + n].y * sin(angle);
            im += signal[N + n].x * sin(angle) + signal[N + n].y * cos(angle);
        }
        expected.insert(expected.end(), {float(re), float(im)});
        actual.insert(actual.end(), {result[N + k].x, result[N + k].y});
    }
    for (int i = 0; i < batch * N; ++i) {
        original.insert(original.end(), {signal[i].x, signal[i].y});
        again.insert(again.end(), {returned[i].x, returned[i].y});
    }
    verdict.near(actual, expected, 1e-4, "spectrum");
    verdict.near(again, original, 1e-5, "signal");
    std::printf("fft %d of %d\n", batch, N);
    return verdict.finish();
}
