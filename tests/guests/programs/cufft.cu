// cuFFT: one to three dimensions, complex and real, batched and strided, lengths with large prime factors.

#include <cufft.h>

#include "check.h"

// The discrete Fourier transform by its definition, along one axis of an array of `before` x `length` x `after`.
static std::vector<Wide> along(const std::vector<Wide>& x, int before, int length, int after, int sign) {
    std::vector<Wide> roots(length), found(x.size());
    for (int k = 0; k < length; k++) roots[k] = std::polar(1.0, sign * 2 * M_PI * k / length);
    for (int i = 0; i < before; i++)
        for (int j = 0; j < after; j++)
            for (int k = 0; k < length; k++) {
                Wide sum = 0;
                for (int n = 0, turn = 0; n < length; n++) {
                    sum += x[(size_t(i) * length + n) * after + j] * roots[turn];
                    turn += k;
                    if (turn >= length) turn -= length;
                }
                found[(size_t(i) * length + k) * after + j] = sum;
            }
    return found;
}

static std::vector<Wide> transformed(std::vector<Wide> x, int batch, const std::vector<int>& lengths, int sign) {
    int all = 1, before = batch;
    for (int length : lengths) all *= length;
    int after = all;
    for (int length : lengths) {
        after /= length;
        x = along(x, before, length, after, sign);
        before *= length;
    }
    return x;
}

// The half that a transform of real values keeps of the last dimension.
static std::vector<Wide> halved(const std::vector<Wide>& x, int length) {
    std::vector<Wide> found;
    for (size_t at = 0; at < x.size(); at++)
        if (int(at % length) <= length / 2) found.push_back(x[at]);
    return found;
}

template <class R>
struct Types;
template <>
struct Types<float> {
    static constexpr cufftType complex = CUFFT_C2C, forward = CUFFT_R2C, backward = CUFFT_C2R;
    using Own = cufftComplex;
    static cufftResult run(cufftHandle plan, Own* in, Own* out, int way) { return cufftExecC2C(plan, in, out, way); }
    static cufftResult run(cufftHandle plan, float* in, Own* out) { return cufftExecR2C(plan, in, out); }
    static cufftResult run(cufftHandle plan, Own* in, float* out) { return cufftExecC2R(plan, in, out); }
};
template <>
struct Types<double> {
    static constexpr cufftType complex = CUFFT_Z2Z, forward = CUFFT_D2Z, backward = CUFFT_Z2D;
    using Own = cufftDoubleComplex;
    static cufftResult run(cufftHandle plan, Own* in, Own* out, int way) { return cufftExecZ2Z(plan, in, out, way); }
    static cufftResult run(cufftHandle plan, double* in, Own* out) { return cufftExecD2Z(plan, in, out); }
    static cufftResult run(cufftHandle plan, Own* in, double* out) { return cufftExecZ2D(plan, in, out); }
};

template <class R>
void test(int batch, std::vector<int> lengths) {
    using T = Types<R>;
    using C = std::complex<R>;
    using Own = typename T::Own;
    const double allowed = std::is_same_v<R, float> ? 3e-6 : 1e-13;
    int all = 1;
    std::string name = std::to_string(batch);
    for (int length : lengths) {
        all *= length;
        name += " x " + std::to_string(length);
    }
    auto plan_of = [&](cufftType type) {
        cufftHandle plan;
        CHECK(cufftPlanMany(&plan, int(lengths.size()), lengths.data(), nullptr, 1, 0, nullptr, 1, 0, type, batch));
        return plan;
    };
    auto x = random_values<C>(size_t(batch) * all);
    Device<C> on_x(x), there(x.size());
    cufftHandle plan = plan_of(T::complex);
    for (int way : {CUFFT_FORWARD, CUFFT_INVERSE}) {
        CHECK(T::run(plan, on_x.template as<Own>(), there.template as<Own>(), way));
        close(name, there.get(), transformed(widened(x), batch, lengths, way), allowed * std::sqrt(all));
    }
    CHECK(T::run(plan, on_x.template as<Own>(), on_x.template as<Own>(), CUFFT_FORWARD));
    close(name + ", in place", on_x.get(), transformed(widened(x), batch, lengths, CUFFT_FORWARD), allowed * std::sqrt(all));
    CHECK(cufftDestroy(plan));

    auto real = random_values<R>(size_t(batch) * all);
    auto half = halved(transformed(widened(real), batch, lengths, CUFFT_FORWARD), lengths.back());
    Device<R> on_real(real), again(real.size());
    Device<C> on_half(half.size());
    plan = plan_of(T::forward);
    CHECK(T::run(plan, on_real.template as<R>(), on_half.template as<Own>()));
    close(name + ", real", on_half.get(), half, allowed * std::sqrt(all));
    CHECK(cufftDestroy(plan));
    plan = plan_of(T::backward);
    CHECK(T::run(plan, on_half.template as<Own>(), again.template as<R>()));
    auto scaled = again.get();
    for (auto& value : scaled) value /= R(all);
    close(name + ", back to real", scaled, real, allowed * std::sqrt(all));
    CHECK(cufftDestroy(plan));
    std::printf("%s\n", name.c_str());
}

// Every third value of a row, rows apart by a gap: cufftPlanMany's advanced layout.
static void strided() {
    const int length = 60, stride = 3, apart = 200, batch = 4;
    auto x = random_values<std::complex<float>>(apart * batch);
    Device<std::complex<float>> on_x(x), there(length * batch);
    std::vector<Wide> picked;
    for (int i = 0; i < batch; i++)
        for (int j = 0; j < length; j++) picked.push_back(wide(x[i * apart + j * stride]));
    cufftHandle plan;
    int lengths[] = {length}, embedded[] = {length};
    CHECK(cufftPlanMany(&plan, 1, lengths, embedded, stride, apart, embedded, 1, length, CUFFT_C2C, batch));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cufftSetStream(plan, stream));
    CHECK(cufftExecC2C(plan, on_x.as<cufftComplex>(), there.as<cufftComplex>(), CUFFT_FORWARD));
    CHECK(cudaStreamSynchronize(stream));
    close("strided", there.get(), transformed(picked, batch, {length}, CUFFT_FORWARD), 2e-5);
    CHECK(cufftDestroy(plan));
    CHECK(cudaStreamDestroy(stream));
    std::printf("strided\n");
}

template <class R>
void all() {
    for (int length : {1, 2, 8, 60, 1000, 1021, 1024, 2187, 3125}) test<R>(3, {length});
    test<R>(1, {8191});  // a prime: Bluestein's way
    test<R>(1, {4096});
    test<R>(2, {24, 36});
    test<R>(1, {17, 64});
    test<R>(2, {8, 12, 10});
    test<R>(1, {16, 16, 16});
}

int main() {
    all<float>();
    all<double>();
    strided();
    std::printf("PASS\n");
}
