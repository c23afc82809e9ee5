// Mathematical functions in float and double against the C library, integer intrinsics, conversions and rounding.
#include <cstring>

#include "../support.cuh"

template <typename T> __global__ void functions(const T *x, T *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    T v = x[i], positive = fabs(v) + T(0.01);
    T *row = out + i * 16;
    row[0] = sin(v);
    row[1] = cos(v);
    row[2] = tan(v * T(0.1));
    row[3] = exp(v * T(0.3));
    row[4] = log(positive);
    row[5] = pow(positive, v * T(0.25));
    row[6] = sqrt(positive);
    row[7] = atan2(v, positive);
    row[8] = tanh(v);
    row[9] = floor(v) + T(2) * ceil(v);
    row[10] = fmod(v, T(1.7));
    row[11] = T(1) / positive;
    row[12] = erf(v);
    row[13] = cbrt(v);
    row[14] = log2(positive) + exp2(v * T(0.5));
    row[15] = hypot(v, T(3));
}

template <typename T> static void reference(T v, T *row) {
    T positive = std::fabs(v) + T(0.01);
    row[0] = std::sin(v);
    row[1] = std::cos(v);
    row[2] = std::tan(v * T(0.1));
    row[3] = std::exp(v * T(0.3));
    row[4] = std::log(positive);
    row[5] = std::pow(positive, v * T(0.25));
    row[6] = std::sqrt(positive);
    row[7] = std::atan2(v, positive);
    row[8] = std::tanh(v);
    row[9] = std::floor(v) + T(2) * std::ceil(v);
    row[10] = std::fmod(v, T(1.7));
    row[11] = T(1) / positive;
    row[12] = std::erf(v);
    row[13] = std::cbrt(v);
    row[14] = std::log2(positive) + std::exp2(v * T(0.5));
    row[15] = std::hypot(v, T(3));
}

__global__ void integers(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    unsigned v = in[i];
    unsigned *row = out + i * 8;
    row[0] = __popc(v);
    row[1] = __clz(v);
    row[2] = __ffs(v);
    row[3] = __brev(v);
    row[4] = __umulhi(v, 0x9E3779B9u);
    row[5] = v / (i % 13 + 1) * 7 + v % (i % 29 + 3);
    row[6] = static_cast<unsigned>(static_cast<int>(v) / -(i % 11 + 1)) ^ (v << (i % 32)) ^ (v >> (31 - i % 32));
    row[7] = __byte_perm(v, ~v, 0x5140);
}

static void integer_reference(unsigned v, int i, unsigned *row) {
    row[0] = __builtin_popcount(v);
    row[1] = v ? __builtin_clz(v) : 32;
    row[2] = __builtin_ffs(static_cast<int>(v));
    row[3] = 0;
    for (int bit = 0; bit < 32; ++bit) {
        row[3] |= (v >> bit & 1u) << (31 - bit);
    }
    row[4] = static_cast<unsigned>(static_cast<unsigned long long>(v) * 0x9E3779B9ull >> 32);
    row[5] = v / (i % 13 + 1) * 7 + v % (i % 29 + 3);
    row[6] = static_cast<unsigned>(static_cast<int>(v) / -(i % 11 + 1)) ^ (v << (i % 32)) ^ (v >> (31 - i % 32));
    // Bytes 0, 4, 1, 5 of the pair (v, ~v), lowest first: selector 0x5140.
    row[7] = (v & 0xFF) | (~v & 0xFF) << 8 | (v >> 8 & 0xFF) << 16 | (~v >> 8 & 0xFF) << 24;
}

__global__ void conversions(const double *in, long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    double v = in[i];
    long long *row = out + i * 6;
    row[0] = static_cast<int>(v);
    row[1] = static_cast<long long>(v * 1e6);
    row[2] = __double2int_rn(v);
    row[3] = __float2int_ru(static_cast<float>(v));
    row[4] = static_cast<long long>(static_cast<float>(static_cast<int>(v * 1000.0)));
    row[5] = __double_as_longlong(rint(v)) ^ __float_as_int(truncf(static_cast<float>(v)));
}

int main() {
    const int n = 600;
    Verdict verdict;
    std::vector<float> x_float(n), expected_float(n * 16);
    std::vector<double> x_double(n), expected_double(n * 16);
    Random random(14);
    for (int i = 0; i < n; ++i) {
        x_double[i] = (random.real() - 0.5) * 20.0;
        x_float[i] = static_cast<float>(x_double[i]);
        reference(x_double[i], &expected_double[i * 16]);
        reference(x_float[i], &expected_float[i * 16]);
    }
    DeviceArray<float> device_float(x_float), out_float(n * 16);
    DeviceArray<double> device_double(x_double), out_double(n * 16);
    functions<<<(n + 63) / 64, 64>>>(device_float.get(), out_float.get(), n);
    functions<<<(n + 63) / 64, 64>>>(device_double.get(), out_double.get(), n);
    CHECK_LAUNCH();
    verdict.near(out_float.download(), expected_float, 2e-5, "float");
    verdict.near(out_double.download(), expected_double, 1e-12, "double");

    std::vector<unsigned> values(n), expected_integers(n * 8);
    std::vector<long long> expected_conversions(n * 6);
    for (int i = 0; i < n; ++i) {
        values[i] = i == 0 ? 0u : static_cast<unsigned>(random.next() >> (i % 30));
        integer_reference(values[i], i, &expected_integers[i * 8]);
        double v = x_double[i];
        float f = static_cast<float>(v), truncated = std::trunc(f);
        double rounded = std::rint(v);
        long long *row = &expected_conversions[i * 6];
        row[0] = static_cast<int>(v);
        row[1] = static_cast<long long>(v * 1e6);
        row[2] = std::lrint(v);
        row[3] = static_cast<int>(std::ceil(f));
        row[4] = static_cast<long long>(static_cast<float>(static_cast<int>(v * 1000.0)));
        long long rounded_bits;
        int truncated_bits;
        std::memcpy(&rounded_bits, &rounded, sizeof rounded_bits);
        std::memcpy(&truncated_bits, &truncated, sizeof truncated_bits);
        row[5] = rounded_bits ^ truncated_bits;
    }
    DeviceArray<unsigned> device_values(values), out_integers(n * 8);
    DeviceArray<long long> out_conversions(n * 6);
    integers<<<(n + 63) / 64, 64>>>(device_values.get(), out_integers.get(), n);
    conversions<<<(n + 63) / 64, 64>>>(device_double.get(), out_conversions.get(), n);
    CHECK_LAUNCH();
    std::vector<unsigned> integer_results = out_integers.download();
    verdict.equal(integer_results, expected_integers, "integer");
    verdict.equal(out_conversions.download(), expected_conversions, "conversion");
    print_checksum("doubles_and_math integers", integer_results);
    return verdict.finish();
}
