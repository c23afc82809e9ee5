// What every test program shares: error checks, reproducible data, checksums, and the final verdict.
//
// A program prints deterministic lines only (no times, addresses or device names), so that its whole output can be
// compared between modes, compilers and devices; it ends with "PASS" and status 0, or "FAIL" and status 1.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                                  \
    do {                                                                                                             \
        cudaError_t check_error = (call);                                                                            \
        if (check_error != cudaSuccess) {                                                                            \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error));              \
            std::printf("FAIL\n");                                                                                   \
            std::exit(1);                                                                                            \
        }                                                                                                            \
    } while (0)

// Checks a launch: what it reported at once. Execution errors surface at the next synchronizing call.
#define CHECK_LAUNCH() CHECK(cudaGetLastError())

// Reproducible pseudo-random numbers (splitmix64).
class Random {
  public:
    explicit Random(uint64_t seed) : state(seed) {}

    uint64_t next() {
        uint64_t value = (state += 0x9E3779B97F4A7C15ull);
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
        return value ^ (value >> 31);
    }

    uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }

    // Uniform in [0, 1).
    double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  private:
    uint64_t state;
};

// FNV-1a over the bytes.
inline uint64_t checksum(const void *data, size_t bytes) {
    uint64_t hash = 0xCBF29CE484222325ull;
    const unsigned char *byte = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ byte[i]) * 0x100000001B3ull;
    }
    return hash;
}

template <typename T> uint64_t checksum(const std::vector<T> &values) {
    return checksum(values.data(), values.size() * sizeof(T));
}

template <typename T> void print_checksum(const char *name, const std::vector<T> &values) {
    std::printf("%s %016llx\n", name, static_cast<unsigned long long>(checksum(values)));
}

// Collects failed expectations; the first few are printed.
class Verdict {
  public:
    bool expect(bool condition, const char *what) {
        if (!condition && ++failures <= 10) {
            std::printf("wrong: %s\n", what);
        }
        return condition;
    }

    template <typename T> bool equal(const std::vector<T> &actual, const std::vector<T> &expected, const char *what) {
        for (size_t i = 0; i < expected.size(); ++i) {
            if (!(actual[i] == expected[i])) {
                if (++failures <= 10) {
                    std::printf("wrong: %s[%zu] is %.17g, expected %.17g\n", what, i, static_cast<double>(actual[i]),
                                static_cast<double>(expected[i]));
                }
                return false;
            }
        }
        return true;
    }

    // |actual - expected| <= tolerance * max(1, |expected|), and no NaN.
    template <typename T>
    bool near(const std::vector<T> &actual, const std::vector<T> &expected, double tolerance, const char *what) {
        for (size_t i = 0; i < expected.size(); ++i) {
            double difference = std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
            if (!(difference <= tolerance * std::fmax(1.0, std::fabs(static_cast<double>(expected[i]))))) {
                if (++failures <= 10) {
                    std::printf("wrong: %s[%zu] is %.17g, expected %.17g\n", what, i, static_cast<double>(actual[i]),
                                static_cast<double>(expected[i]));
                }
                return false;
            }
        }
        return true;
    }

    int finish() const {
        std::printf(failures == 0 ? "PASS\n" : "FAIL\n");
        return failures == 0 ? 0 : 1;
    }

  private:
    int failures = 0;
};

// Device memory for `count` values, freed with the object.
template <typename T> class DeviceArray {
  public:
    explicit DeviceArray(size_t count) : count(count) { CHECK(cudaMalloc(&pointer, count * sizeof(T))); }
    explicit DeviceArray(const std::vector<T> &values) : DeviceArray(values.size()) { upload(values); }
    ~DeviceArray() { cudaFree(pointer); }
    DeviceArray(const DeviceArray &) = delete;
    DeviceArray &operator=(const DeviceArray &) = delete;

    void upload(const std::vector<T> &values) {
        CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    }

    std::vector<T> download() const {
        std::vector<T> values(count);
        CHECK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

    void zero() { CHECK(cudaMemset(pointer, 0, count * sizeof(T))); }
    T *get() const { return pointer; }
    size_t size() const { return count; }

  private:
    T *pointer = nullptr;
    size_t count;
};
