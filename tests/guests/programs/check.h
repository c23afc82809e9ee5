// What the programs of NVIDIA's libraries share: statuses that end the program, arrays on the device, and the comparison
// of results with a reference in double, computed here by the definition of the operation.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        if (auto status = (call); int(status) != 0) {                                           \
            std::printf("%s:%d: %s: status %d\n", __FILE__, __LINE__, #call, int(status));      \
            std::exit(1);                                                                       \
        }                                                                                       \
    } while (false)

using Wide = std::complex<double>;

// An array on the device. Copies of it are not made.
template <class T>
class Device {
public:
    explicit Device(size_t count) : count_(count) { CHECK(cudaMalloc(&data_, std::max<size_t>(count, 1) * sizeof(T))); }
    explicit Device(const std::vector<T>& values) : Device(values.size()) {
        CHECK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device() { cudaFree(data_); }

    template <class As = T>
    As* as() const { return reinterpret_cast<As*>(data_); }
    operator T*() const { return data_; }
    std::vector<T> get() const {
        std::vector<T> values(count_);
        CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

private:
    T* data_ = nullptr;
    size_t count_;
};

inline std::mt19937_64 generator(20);

template <class T>
struct Random {
    static T value() { return T(std::uniform_real_distribution<double>(-1, 1)(generator)); }
};
template <class R>
struct Random<std::complex<R>> {
    static std::complex<R> value() {
        R real = Random<R>::value();
        return {real, Random<R>::value()};
    }
};
template <class T>
std::vector<T> random_values(size_t count) {
    std::vector<T> values(count);
    for (auto& value : values) value = Random<T>::value();
    return values;
}

// How far a value of a type may be from a sum of a few dozen products of numbers below 1.
template <class T>
constexpr double tolerance() {
    return std::is_same_v<T, double> || std::is_same_v<T, Wide> ? 1e-12 : 2e-5;
}

template <class T>
Wide wide(T value) { return Wide(double(value), 0); }
template <class R>
Wide wide(std::complex<R> value) { return Wide(value.real(), value.imag()); }

template <class T>
T conjugate(T value) { return value; }
template <class R>
std::complex<R> conjugate(std::complex<R> value) { return std::conj(value); }

template <class T>
std::vector<Wide> widened(const std::vector<T>& values) {
    std::vector<Wide> found;
    for (const auto& value : values) found.push_back(wide(value));
    return found;
}

// Ends the program if a value is further from its reference than `allowed` times the largest reference (at least 1).
template <class Found, class Right>
void close(const std::string& name, const std::vector<Found>& found, const std::vector<Right>& right, double allowed) {
    double scale = 1, worst = 0;
    for (const auto& value : right) scale = std::max(scale, std::abs(wide(value)));
    bool same = found.size() == right.size();
    for (size_t at = 0; same && at < found.size(); at++) {
        double off = std::abs(wide(found[at]) - wide(right[at]));
        worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
    if (!same || worst > allowed * scale) {
        std::printf("%s: off by %g of %g, %zu values of %zu\n", name.c_str(), worst, allowed * scale, found.size(), right.size());
        std::exit(1);
    }
}

template <class T>
void equal(const std::string& name, const std::vector<T>& found, const std::vector<T>& right) {
    if (found != right) {
        std::printf("%s: other values\n", name.c_str());
        std::exit(1);
    }
}

inline void require(const std::string& name, bool holds) {
    if (!holds) {
        std::printf("%s: does not hold\n", name.c_str());
        std::exit(1);
    }
}

// Matrices by columns, as BLAS has them.
template <class T>
struct Matrix {
    int rows, columns;
    std::vector<T> values;

    Matrix(int rows, int columns) : rows(rows), columns(columns), values(size_t(rows) * columns) {}
    static Matrix random(int rows, int columns) {
        Matrix made(rows, columns);
        made.values = random_values<T>(made.values.size());
        return made;
    }
    static Matrix of(int rows, int columns, std::vector<T> values) {
        Matrix made(rows, columns);
        made.values = std::move(values);
        return made;
    }
    T& at(int row, int column) { return values[size_t(column) * rows + row]; }
    const T& at(int row, int column) const { return values[size_t(column) * rows + row]; }

    template <class F>
    Matrix mapped(int rows_, int columns_, F value) const {
        Matrix made(rows_, columns_);
        for (int j = 0; j < columns_; j++)
            for (int i = 0; i < rows_; i++) made.at(i, j) = value(i, j);
        return made;
    }
    Matrix transposed() const { return mapped(columns, rows, [&](int i, int j) { return at(j, i); }); }
    Matrix adjoint() const { return mapped(columns, rows, [&](int i, int j) { return conjugate(at(j, i)); }); }
    Matrix lower() const { return mapped(rows, columns, [&](int i, int j) { return i >= j ? at(i, j) : T(0); }); }
    Matrix upper() const { return mapped(rows, columns, [&](int i, int j) { return i <= j ? at(i, j) : T(0); }); }
    // Far from singular.
    Matrix heavy() const { return mapped(rows, columns, [&](int i, int j) { return at(i, j) + (i == j ? T(2 * rows) : T(0)); }); }
    Matrix<Wide> wide() const { return Matrix<Wide>::of(rows, columns, widened(values)); }
};

inline Matrix<Wide> operator*(const Matrix<Wide>& a, const Matrix<Wide>& b) {
    Matrix<Wide> product(a.rows, b.columns);
    for (int j = 0; j < b.columns; j++)
        for (int k = 0; k < a.columns; k++)
            for (int i = 0; i < a.rows; i++) product.at(i, j) += a.at(i, k) * b.at(k, j);
    return product;
}

inline Matrix<Wide> identity(int side) {
    Matrix<Wide> made(side, side);
    for (int i = 0; i < side; i++) made.at(i, i) = 1;
    return made;
}
