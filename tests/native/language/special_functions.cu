// The mathematics library in double precision on ordinary and special arguments, against the host's.
#include "../support.cuh"

constexpr int RESULTS = 16;

__global__ void compute(const double *in, double *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const double x = in[i];
        double *r = out + i * RESULTS, whole;
        int exponent;
        r[0] = erf(x), r[1] = tgamma(x + 3.5), r[2] = lgamma(x + 4.25), r[3] = cbrt(x);
        r[4] = atan2(x, 1.5), r[5] = sinh(x), r[6] = log1p(x * x), r[7] = expm1(x);
        r[8] = hypot(x, 2.0), r[9] = fmod(x * 7, 1.75), r[10] = modf(x, &whole) + 10 * whole, r[11] = frexp(x, &exponent) + exponent;
        r[12] = ldexp(x, 5), r[13] = remainder(x * 7, 1.75), r[14] = cos(x * 1e5), r[15] = pow(fabs(x), 2.75);
    }
}

__global__ void special(float *out) {
    const float zero = out[0], huge = 3e38f + zero;
    out[1] = isnan(sqrtf(-1.0f + zero)) && isinf(huge * 10) && !isfinite(logf(zero)) && signbit(-zero);
    out[2] = fminf(nanf(""), 2.0f) + fmaxf(3.0f, nanf(""));
    out[3] = nextafterf(1.0f, 2.0f) - 1.0f;
    out[4] = rintf(2.5f) + roundf(2.5f) + truncf(-2.5f) + floorf(-2.5f) + ceilf(-2.5f);
    out[5] = copysignf(4.0f, -zero);
}

int main() {
    Verdict verdict;
    const int n = 300;
    std::vector<double> in(n), expected;
    for (int i = 0; i < n; ++i) {
        const double x = in[i] = (i - 150) * 0.02 + 0.003;
        double whole;
        int exponent;
        const double fraction = std::modf(x, &whole), mantissa = std::frexp(x, &exponent);
        const double own[RESULTS] = {std::erf(x), std::tgamma(x + 3.5), std::lgamma(x + 4.25), std::cbrt(x), std::atan2(x, 1.5),
                                     std::sinh(x), std::log1p(x * x), std::expm1(x), std::hypot(x, 2.0), std::fmod(x * 7, 1.75),
                                     fraction + 10 * whole, mantissa + exponent, std::ldexp(x, 5), std::remainder(x * 7, 1.75),
                                     std::cos(x * 1e5), std::pow(std::fabs(x), 2.75)};
        expected.insert(expected.end(), own, own + RESULTS);
    }
    DeviceArray<double> device(in), out(size_t(n) * RESULTS);
    compute<<<(n + 63) / 64, 64>>>(device.get(), out.get(), n);
    CHECK_LAUNCH();
    verdict.near(out.download(), expected, 1e-13, "values");
    DeviceArray<float> specials(6);
    specials.zero();
    special<<<1, 1>>>(specials.get());
    CHECK_LAUNCH();
    verdict.equal(specials.download(), {0, 1, 5, 0x1p-23f, 2 + 3 - 2 - 3 - 2, -4}, "special values");
    std::printf("special_functions\n");
    return verdict.finish();
}
