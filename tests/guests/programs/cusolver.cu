// cuSOLVER: factorizations and their solves, eigenvalues, singular values, and their batched forms.
//
// Results are multiplied together again: factors give the matrix, solutions the right side, vectors are orthonormal.

#include <cusolverDn.h>

#include "check.h"

template <class T>
struct Solver;
#define SOLVER(T, N, R, L, SY, OR)                                                              \
    template <>                                                                                 \
    struct Solver<T> {                                                                          \
        using Own = N;                                                                          \
        using Real = R;                                                                         \
        static constexpr const char* letter = #L;                                               \
        static constexpr auto getrf_size = cusolverDn##L##getrf_bufferSize;                     \
        static constexpr auto getrf = cusolverDn##L##getrf;                                     \
        static constexpr auto getrs = cusolverDn##L##getrs;                                     \
        static constexpr auto potrf_size = cusolverDn##L##potrf_bufferSize;                     \
        static constexpr auto potrf = cusolverDn##L##potrf;                                     \
        static constexpr auto potrs = cusolverDn##L##potrs;                                     \
        static constexpr auto potrf_batched = cusolverDn##L##potrfBatched;                      \
        static constexpr auto geqrf_size = cusolverDn##L##geqrf_bufferSize;                     \
        static constexpr auto geqrf = cusolverDn##L##geqrf;                                     \
        static constexpr auto orgqr_size = cusolverDn##L##OR##gqr_bufferSize;                   \
        static constexpr auto orgqr = cusolverDn##L##OR##gqr;                                   \
        static constexpr auto syevd_size = cusolverDn##L##SY##evd_bufferSize;                   \
        static constexpr auto syevd = cusolverDn##L##SY##evd;                                   \
        static constexpr auto syevj_size = cusolverDn##L##SY##evjBatched_bufferSize;            \
        static constexpr auto syevj = cusolverDn##L##SY##evjBatched;                            \
        static constexpr auto gesvd_size = cusolverDn##L##gesvd_bufferSize;                     \
        static constexpr auto gesvd = cusolverDn##L##gesvd;                                     \
        static constexpr auto gesvdj_size = cusolverDn##L##gesvdjBatched_bufferSize;            \
        static constexpr auto gesvdj = cusolverDn##L##gesvdjBatched;                            \
    };
SOLVER(float, float, float, S, sy, or)
SOLVER(double, double, double, D, sy, or)
SOLVER(std::complex<float>, cuComplex, float, C, he, un)
SOLVER(std::complex<double>, cuDoubleComplex, double, Z, he, un)

template <class T>
class Tests {
    using S = Solver<T>;
    using N = typename S::Own;
    using Real = typename S::Real;
    cusolverDnHandle_t handle;
    const double allowed = tolerance<T>() * 50;
    Device<int> information{8};

    static std::string name(const char* what) { return std::string(S::letter) + what; }
    void succeeded(const char* what, int count = 1) {
        auto codes = information.get();
        require(name(what) + ", its code", std::all_of(codes.begin(), codes.begin() + count, [](int code) { return code == 0; }));
    }
    static Matrix<T> definite(int side) {
        auto a = Matrix<T>::random(side, side);
        auto product = a.wide() * a.adjoint().wide();
        Matrix<T> made(side, side);
        for (int j = 0; j < side; j++)
            for (int i = 0; i < side; i++) made.at(i, j) = narrow(product.at(i, j) + (i == j ? Wide(side) : Wide(0)));
        return made;
    }
    static T narrow(Wide value) {
        if constexpr (std::is_floating_point_v<T>) return T(value.real());
        else return T(value);
    }
    static Matrix<T> part(const std::vector<T>& values, int at, int rows, int columns) {
        size_t size = size_t(rows) * columns;
        return Matrix<T>::of(rows, columns, {values.begin() + at * size, values.begin() + (at + 1) * size});
    }
    void orthonormal(const char* what, const Matrix<T>& q) {
        close(name(what) + ", orthonormal", (q.adjoint().wide() * q.wide()).values, identity(q.columns).values, allowed);
    }
    static Matrix<Wide> diagonal(const std::vector<Real>& values, int at, int count) {
        Matrix<Wide> made(count, count);
        for (int i = 0; i < count; i++) made.at(i, i) = values[at * count + i];
        return made;
    }

public:
    explicit Tests(cusolverDnHandle_t handle) : handle(handle) {}

    void lu(int side) {
        auto a = Matrix<T>::random(side, side), b = Matrix<T>::random(side, 3);
        Device<T> on_a(a.values), on_b(b.values);
        Device<int> pivots(side);
        int size;
        CHECK(S::getrf_size(handle, side, side, on_a.template as<N>(), side, &size));
        Device<T> work(size);
        CHECK(S::getrf(handle, side, side, on_a.template as<N>(), side, work.template as<N>(), pivots, information));
        succeeded("getrf");
        auto factors = Matrix<T>::of(side, side, on_a.get());
        auto product = factors.mapped(side, side, [&](int i, int j) { return i > j ? factors.at(i, j) : T(i == j); }).wide() * factors.upper().wide();
        auto order = pivots.get();
        for (int i = side - 1; i >= 0; i--)
            for (int j = 0; j < side; j++) std::swap(product.at(i, j), product.at(order[i] - 1, j));
        close(name("getrf"), product.values, a.wide().values, allowed);
        for (auto operation : {CUBLAS_OP_N, CUBLAS_OP_C}) {
            Device<T> solved(b.values);
            CHECK(S::getrs(handle, operation, side, 3, on_a.template as<N>(), side, pivots, solved.template as<N>(), side, information));
            auto x = Matrix<T>::of(side, 3, solved.get());
            close(name("getrs"), ((operation == CUBLAS_OP_N ? a : a.adjoint()).wide() * x.wide()).values, b.values, allowed * 20);
        }
    }

    void cholesky(int side) {
        auto a = definite(side), b = Matrix<T>::random(side, 3);
        Device<T> on_a(a.values), on_b(b.values);
        int size;
        CHECK(S::potrf_size(handle, CUBLAS_FILL_MODE_LOWER, side, on_a.template as<N>(), side, &size));
        Device<T> work(size);
        CHECK(S::potrf(handle, CUBLAS_FILL_MODE_LOWER, side, on_a.template as<N>(), side, work.template as<N>(), size, information));
        succeeded("potrf");
        auto factor = Matrix<T>::of(side, side, on_a.get()).lower();
        close(name("potrf"), (factor.wide() * factor.adjoint().wide()).values, a.values, allowed);
        CHECK(S::potrs(handle, CUBLAS_FILL_MODE_LOWER, side, 3, on_a.template as<N>(), side, on_b.template as<N>(), side, information));
        close(name("potrs"), (a.wide() * Matrix<T>::of(side, 3, on_b.get()).wide()).values, b.values, allowed);

        a.at(side / 2, side / 2) = -1;
        Device<T> other(a.values);
        CHECK(S::potrf(handle, CUBLAS_FILL_MODE_LOWER, side, other.template as<N>(), side, work.template as<N>(), size, information));
        require(name("potrf, not definite"), information.get()[0] == side / 2 + 1);
    }

    void cholesky_batched() {
        const int side = 8, count = 5;
        std::vector<T> all;
        for (int at = 0; at < count; at++) {
            auto a = definite(side);
            all.insert(all.end(), a.values.begin(), a.values.end());
        }
        Device<T> there(all);
        std::vector<N*> pointers;
        for (int at = 0; at < count; at++) pointers.push_back(there.template as<N>() + at * side * side);
        Device<N*> on_pointers(pointers);
        CHECK(S::potrf_batched(handle, CUBLAS_FILL_MODE_LOWER, side, on_pointers, side, information, count));
        succeeded("potrfBatched", count);
        auto factors = there.get();
        for (int at = 0; at < count; at++) {
            auto factor = part(factors, at, side, side).lower();
            close(name("potrfBatched"), (factor.wide() * factor.adjoint().wide()).values, part(all, at, side, side).values, allowed);
        }
    }

    void qr(int rows, int columns) {
        auto a = Matrix<T>::random(rows, columns);
        Device<T> on_a(a.values), scales(columns);
        int size, other;
        CHECK(S::geqrf_size(handle, rows, columns, on_a.template as<N>(), rows, &size));
        CHECK(S::orgqr_size(handle, rows, columns, columns, on_a.template as<N>(), rows, scales.template as<N>(), &other));
        size = std::max(size, other);
        Device<T> work(size);
        CHECK(S::geqrf(handle, rows, columns, on_a.template as<N>(), rows, scales.template as<N>(), work.template as<N>(), size, information));
        succeeded("geqrf");
        auto factors = Matrix<T>::of(rows, columns, on_a.get());
        auto r = factors.mapped(columns, columns, [&](int i, int j) { return i <= j ? factors.at(i, j) : T(0); });
        CHECK(S::orgqr(handle, rows, columns, columns, on_a.template as<N>(), rows, scales.template as<N>(), work.template as<N>(), size, information));
        auto q = Matrix<T>::of(rows, columns, on_a.get());
        orthonormal("geqrf", q);
        close(name("geqrf"), (q.wide() * r.wide()).values, a.values, allowed);
    }

    void eigenvalues(int side) {
        auto a = definite(side);
        Device<T> on_a(a.values);
        Device<Real> values(side);
        int size;
        const auto vector = CUSOLVER_EIG_MODE_VECTOR;
        CHECK(S::syevd_size(handle, vector, CUBLAS_FILL_MODE_LOWER, side, on_a.template as<N>(), side, values, &size));
        Device<T> work(size);
        CHECK(S::syevd(handle, vector, CUBLAS_FILL_MODE_LOWER, side, on_a.template as<N>(), side, values, work.template as<N>(), size, information));
        succeeded("syevd");
        auto found = values.get();
        require(name("syevd, in order"), std::is_sorted(found.begin(), found.end()));
        auto q = Matrix<T>::of(side, side, on_a.get());
        orthonormal("syevd", q);
        close(name("syevd"), (q.wide() * diagonal(found, 0, side) * q.adjoint().wide()).values, a.values, allowed);
    }

    void eigenvalues_batched() {
        const int side = 6, count = 3;
        std::vector<T> all;
        for (int at = 0; at < count; at++) {
            auto a = definite(side);
            all.insert(all.end(), a.values.begin(), a.values.end());
        }
        Device<T> there(all);
        Device<Real> values(side * count);
        syevjInfo_t settings;
        CHECK(cusolverDnCreateSyevjInfo(&settings));
        int size;
        const auto vector = CUSOLVER_EIG_MODE_VECTOR;
        CHECK(S::syevj_size(handle, vector, CUBLAS_FILL_MODE_LOWER, side, there.template as<N>(), side, values, &size, settings, count));
        Device<T> work(size);
        CHECK(S::syevj(handle, vector, CUBLAS_FILL_MODE_LOWER, side, there.template as<N>(), side, values, work.template as<N>(), size, information, settings, count));
        succeeded("syevjBatched", count);
        for (int at = 0; at < count; at++) {
            auto q = part(there.get(), at, side, side);
            orthonormal("syevjBatched", q);
            close(name("syevjBatched"), (q.wide() * diagonal(values.get(), at, side) * q.adjoint().wide()).values, part(all, at, side, side).values, allowed);
        }
        CHECK(cusolverDnDestroySyevjInfo(settings));
    }

    void singular_values(int rows, int columns) {
        auto a = Matrix<T>::random(rows, columns);
        Device<T> on_a(a.values), u(size_t(rows) * columns), v(size_t(columns) * columns);
        Device<Real> values(columns), rest(columns);
        int size;
        CHECK(S::gesvd_size(handle, rows, columns, &size));
        Device<T> work(size);
        CHECK(S::gesvd(handle, 'S', 'S', rows, columns, on_a.template as<N>(), rows, values, u.template as<N>(), rows, v.template as<N>(), columns, work.template as<N>(), size, rest, information));
        succeeded("gesvd");
        auto left = Matrix<T>::of(rows, columns, u.get()), right = Matrix<T>::of(columns, columns, v.get());
        orthonormal("gesvd", left);
        orthonormal("gesvd", right);
        auto found = values.get();
        require(name("gesvd, in order"), std::is_sorted(found.rbegin(), found.rend()));
        close(name("gesvd"), (left.wide() * diagonal(found, 0, columns) * right.wide()).values, a.values, allowed);
    }

    void singular_values_batched() {
        const int rows = 8, columns = 5, count = 3;
        auto all = random_values<T>(rows * columns * count);
        Device<T> there(all), u(rows * rows * count), v(columns * columns * count);
        Device<Real> values(columns * count);
        gesvdjInfo_t settings;
        CHECK(cusolverDnCreateGesvdjInfo(&settings));
        int size;
        const auto vector = CUSOLVER_EIG_MODE_VECTOR;
        CHECK(S::gesvdj_size(handle, vector, rows, columns, there.template as<N>(), rows, values, u.template as<N>(), rows, v.template as<N>(), columns, &size, settings, count));
        Device<T> work(size);
        CHECK(S::gesvdj(handle, vector, rows, columns, there.template as<N>(), rows, values, u.template as<N>(), rows, v.template as<N>(), columns, work.template as<N>(), size, information, settings, count));
        succeeded("gesvdjBatched", count);
        for (int at = 0; at < count; at++) {
            auto left = part(u.get(), at, rows, rows), right = part(v.get(), at, columns, columns);
            orthonormal("gesvdjBatched", left);
            orthonormal("gesvdjBatched", right);
            auto thin = left.mapped(rows, columns, [&](int i, int j) { return left.at(i, j); });
            close(name("gesvdjBatched"), (thin.wide() * diagonal(values.get(), at, columns) * right.adjoint().wide()).values, part(all, at, rows, columns).values, allowed);
        }
        CHECK(cusolverDnDestroyGesvdjInfo(settings));
    }

    void all() {
        for (int side : {1, 20, 70}) {
            lu(side);
            cholesky(side);
        }
        cholesky_batched();
        qr(40, 17);
        qr(90, 64);
        eigenvalues(24);
        eigenvalues_batched();
        singular_values(23, 12);
        singular_values_batched();
        std::printf("%s\n", S::letter);
    }
};

// The interface with sizes of 64 bits, which takes any type.
static void generic(cusolverDnHandle_t handle) {
    const int side = 33;
    auto a = Matrix<double>::random(side, side), b = Matrix<double>::random(side, 2);
    Device<double> on_a(a.values), on_b(b.values);
    Device<int64_t> pivots(side);
    Device<int> information(1);
    cusolverDnParams_t parameters;
    CHECK(cusolverDnCreateParams(&parameters));
    size_t on_device, on_host;
    CHECK(cusolverDnXgetrf_bufferSize(handle, parameters, side, side, CUDA_R_64F, on_a.as<double>(), side, CUDA_R_64F, &on_device, &on_host));
    Device<char> work(on_device);
    std::vector<char> host(on_host + 1);
    CHECK(cusolverDnXgetrf(handle, parameters, side, side, CUDA_R_64F, on_a.as<double>(), side, pivots, CUDA_R_64F, work.as<char>(), on_device, host.data(), on_host, information));
    CHECK(cusolverDnXgetrs(handle, parameters, CUBLAS_OP_N, side, 2, CUDA_R_64F, on_a.as<double>(), side, pivots, CUDA_R_64F, on_b.as<double>(), side, information));
    equal("Xgetrs", information.get(), {0});
    close("Xgetrs", (a.wide() * Matrix<double>::of(side, 2, on_b.get()).wide()).values, b.values, 1e-9);
    CHECK(cusolverDnDestroyParams(parameters));
    std::printf("X\n");
}

int main() {
    cusolverDnHandle_t handle;
    CHECK(cusolverDnCreate(&handle));
    Tests<float>(handle).all();
    Tests<double>(handle).all();
    Tests<std::complex<float>>(handle).all();
    Tests<std::complex<double>>(handle).all();
    generic(handle);
    CHECK(cusolverDnDestroy(handle));
    std::printf("PASS\n");
}
