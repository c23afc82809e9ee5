// cuRAND's host interface: generators and distributions, by moments, repeatable by seed; the plain Sobol sequence by value.
// With "slow", MT19937 as well, whose start takes long.

#include <curand.h>

#include <cstring>

#include "check.h"

static const size_t COUNT = 20000;

static void moments(const std::string& name, const std::vector<double>& values, double mean, double variance, double fourth) {
    double sum = 0, squares = 0;
    for (double value : values) sum += value;
    double found = sum / values.size();
    for (double value : values) squares += (value - mean) * (value - mean);
    // Five standard deviations of the mean and of the variance.
    close(name + ", mean", std::vector<double>{found - mean}, std::vector<double>{0}, 5 * std::sqrt(variance / values.size()));
    close(name + ", variance", std::vector<double>{squares / values.size() - variance}, std::vector<double>{0}, 5 * std::sqrt((fourth - variance * variance) / values.size()));
}

template <class T, class F>
std::vector<double> made(F call, size_t count = COUNT) {
    Device<T> there(count);
    CHECK(call(there.template as<T>(), count));
    auto values = there.get();
    return {values.begin(), values.end()};
}

static curandGenerator_t created(curandRngType_t type, bool quasi) {
    curandGenerator_t generator;
    CHECK(curandCreateGenerator(&generator, type));
    if (!quasi) CHECK(curandSetPseudoRandomGeneratorSeed(generator, 4321));
    return generator;
}

static void test(const char* name, curandRngType_t type, bool quasi, bool wide_bits) {
    auto generator = created(type, quasi);
    auto label = [&](const char* what) { return std::string(name) + " " + what; };
    auto uniform = made<float>([&](float* to, size_t count) { return curandGenerateUniform(generator, to, count); });
    for (double value : uniform) require(label("uniform, range"), value > 0 && value <= 1);
    moments(label("uniform"), uniform, 0.5, 1.0 / 12, 1.0 / 80);
    moments(label("uniform double"), made<double>([&](double* to, size_t count) { return curandGenerateUniformDouble(generator, to, count); }), 0.5, 1.0 / 12, 1.0 / 80);
    moments(label("normal"), made<float>([&](float* to, size_t count) { return curandGenerateNormal(generator, to, count, 3, 2); }), 3, 4, 48);
    moments(label("normal double"), made<double>([&](double* to, size_t count) { return curandGenerateNormalDouble(generator, to, count, -1, 0.5); }), -1, 0.25, 0.1875);
    auto logs = made<float>([&](float* to, size_t count) { return curandGenerateLogNormal(generator, to, count, 0.5F, 0.25F); });
    for (double& value : logs) value = std::log(value);
    moments(label("log-normal"), logs, 0.5, 0.0625, 3 * 0.0625 * 0.0625);
    auto poisson = made<unsigned>([&](unsigned* to, size_t count) { return curandGeneratePoisson(generator, to, count, 7.5); });
    moments(label("Poisson"), poisson, 7.5, 7.5, 7.5 * (1 + 3 * 7.5));
    std::vector<double> bits;
    if (wide_bits) {
        for (double value : made<unsigned long long>([&](unsigned long long* to, size_t count) { return curandGenerateLongLong(generator, to, count); }))
            bits.push_back(value / 18446744073709551616.0);
    } else {
        for (double value : made<unsigned>([&](unsigned* to, size_t count) { return curandGenerate(generator, to, count); }))
            bits.push_back(value / 4294967296.0);
    }
    moments(label("bits"), bits, 0.5, 1.0 / 12, 1.0 / 80);
    CHECK(curandDestroyGenerator(generator));

    generator = created(type, quasi);
    equal(label("again"), made<float>([&](float* to, size_t count) { return curandGenerateUniform(generator, to, count); }), uniform);
    CHECK(curandDestroyGenerator(generator));
    std::printf("%s\n", name);
}

// The first dimension of Sobol's sequence is van der Corput's in base 2, in the order of Gray's code.
static void sobol() {
    curandGenerator_t generator;
    CHECK(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32));
    CHECK(curandSetQuasiRandomGeneratorDimensions(generator, 4));
    const size_t points = 256;
    Device<unsigned> there(points * 4);
    CHECK(curandGenerate(generator, there, points * 4));
    auto values = there.get();
    std::vector<unsigned> first(values.begin(), values.begin() + points), right;
    for (unsigned at = 0; at < points; at++) {
        unsigned gray = at ^ (at >> 1), reversed = 0;
        for (int bit = 0; bit < 32; bit++)
            if (gray >> bit & 1) reversed |= 1U << (31 - bit);
        right.push_back(reversed);
    }
    equal("Sobol, first dimension", first, right);
    for (int dimension = 0; dimension < 4; dimension++) {  // each dimension has one point in each 256th
        std::vector<int> seen(points);
        for (size_t at = 0; at < points; at++) seen[values[dimension * points + at] >> 24]++;
        equal("Sobol, strata", seen, std::vector<int>(points, 1));
    }
    CHECK(curandDestroyGenerator(generator));
    std::printf("Sobol's points\n");
}

int main(int count, char** arguments) {
    test("XORWOW", CURAND_RNG_PSEUDO_XORWOW, false, false);
    test("MRG32k3a", CURAND_RNG_PSEUDO_MRG32K3A, false, false);
    test("MTGP32", CURAND_RNG_PSEUDO_MTGP32, false, false);
    test("Philox", CURAND_RNG_PSEUDO_PHILOX4_32_10, false, false);
    test("Sobol 32", CURAND_RNG_QUASI_SOBOL32, true, false);
    test("scrambled Sobol 32", CURAND_RNG_QUASI_SCRAMBLED_SOBOL32, true, false);
    test("Sobol 64", CURAND_RNG_QUASI_SOBOL64, true, true);
    test("scrambled Sobol 64", CURAND_RNG_QUASI_SCRAMBLED_SOBOL64, true, true);
    if (count > 1 && std::strcmp(arguments[1], "slow") == 0) test("MT19937", CURAND_RNG_PSEUDO_MT19937, false, false);
    sobol();
    std::printf("PASS\n");
}
