// cuBLAS, levels 1 to 3, batched and strided, and GemmEx in half, bfloat16, TF32 and bytes.

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

template <class T>
struct Blas;
#define BLAS(T, N, L, REAL, NORM, SUM, DOT, GER, LARGEST, SMALLEST)                  \
    template <>                                                                      \
    struct Blas<T> {                                                                 \
        using Own = N;                                                               \
        using Real = REAL;                                                           \
        static constexpr const char* letter = #L;                                    \
        static constexpr auto axpy = cublas##L##axpy;                                \
        static constexpr auto scal = cublas##L##scal;                                \
        static constexpr auto copy = cublas##L##copy;                                \
        static constexpr auto swap = cublas##L##swap;                                \
        static constexpr auto norm = NORM;                                           \
        static constexpr auto sum = SUM;                                             \
        static constexpr auto dot = DOT;                                             \
        static constexpr auto largest = LARGEST;                            \
        static constexpr auto smallest = SMALLEST;                           \
        static constexpr auto gemv = cublas##L##gemv;                                \
        static constexpr auto gbmv = cublas##L##gbmv;                                \
        static constexpr auto symv = cublas##L##symv;                                \
        static constexpr auto trmv = cublas##L##trmv;                                \
        static constexpr auto trsv = cublas##L##trsv;                                \
        static constexpr auto ger = GER;                                             \
        static constexpr auto gemm = cublas##L##gemm;                                \
        static constexpr auto symm = cublas##L##symm;                                \
        static constexpr auto syrk = cublas##L##syrk;                                \
        static constexpr auto trmm = cublas##L##trmm;                                \
        static constexpr auto trsm = cublas##L##trsm;                                \
        static constexpr auto geam = cublas##L##geam;                                \
        static constexpr auto dgmm = cublas##L##dgmm;                                \
        static constexpr auto batched = cublas##L##gemmBatched;                      \
        static constexpr auto strided = cublas##L##gemmStridedBatched;               \
        static constexpr auto getrf = cublas##L##getrfBatched;                       \
        static constexpr auto getri = cublas##L##getriBatched;                       \
    };
BLAS(float, float, S, float, cublasSnrm2, cublasSasum, cublasSdot, cublasSger, cublasIsamax, cublasIsamin)
BLAS(double, double, D, double, cublasDnrm2, cublasDasum, cublasDdot, cublasDger, cublasIdamax, cublasIdamin)
BLAS(std::complex<float>, cuComplex, C, float, cublasScnrm2, cublasScasum, cublasCdotu, cublasCgeru, cublasIcamax, cublasIcamin)
BLAS(std::complex<double>, cuDoubleComplex, Z, double, cublasDznrm2, cublasDzasum, cublasZdotu, cublasZgeru, cublasIzamax, cublasIzamin)

struct Shape {
    int rows, columns, inner;
};

template <class T>
class Tests {
    using B = Blas<T>;
    using N = typename B::Own;
    cublasHandle_t handle;
    const double allowed = tolerance<T>() * 20;
    alignas(16) const T alpha = Random<T>::value();  // the library loads cuDoubleComplex at once
    alignas(16) const T beta = Random<T>::value();
    const N *a = reinterpret_cast<const N*>(&alpha), *b = reinterpret_cast<const N*>(&beta);

    static std::string name(const char* call) { return std::string(B::letter) + call; }
    static Matrix<Wide> combined(Wide alpha, const Matrix<Wide>& x, Wide beta, const Matrix<Wide>& y) {
        return x.mapped(x.rows, x.columns, [&](int i, int j) { return alpha * x.at(i, j) + beta * y.at(i, j); });
    }
    static Matrix<T> operand(const Matrix<T>& matrix, cublasOperation_t operation) {
        return operation == CUBLAS_OP_N ? matrix : operation == CUBLAS_OP_T ? matrix.transposed() : matrix.adjoint();
    }

public:
    explicit Tests(cublasHandle_t handle) : handle(handle) {}

    void level1() {
        const int count = 1000;
        auto x = random_values<T>(count), y = random_values<T>(count);
        Device<T> on_x(x), on_y(y);
        CHECK(B::axpy(handle, count, a, on_x.template as<N>(), 1, on_y.template as<N>(), 1));
        auto right = y;
        for (int i = 0; i < count; i++) right[i] += alpha * x[i];
        close(name("axpy"), on_y.get(), right, allowed);
        CHECK(B::scal(handle, count / 2, b, on_y.template as<N>(), 2));
        for (int i = 0; i < count; i += 2) right[i] *= beta;
        close(name("scal"), on_y.get(), right, allowed);
        CHECK(B::swap(handle, count, on_x.template as<N>(), 1, on_y.template as<N>(), 1));
        close(name("swap"), on_x.get(), right, allowed);
        CHECK(B::copy(handle, count, on_x.template as<N>(), 1, on_y.template as<N>(), 1));
        equal(name("copy"), on_y.get(), on_x.get());

        x = on_x.get();
        double squares = 0, sizes = 0;
        Wide products = 0;
        auto size = [&](int i) { return std::abs(wide(x[i]).real()) + std::abs(wide(x[i]).imag()); };
        int largest = 0, smallest = 0;
        for (int i = 0; i < count; i++) {
            squares += std::norm(wide(x[i]));
            sizes += size(i);
            products += wide(x[i]) * wide(x[i]);
            largest = size(i) > size(largest) ? i : largest;
            smallest = size(i) < size(smallest) ? i : smallest;
        }
        typename B::Real norm, sum;
        T product;
        int index;
        CHECK(B::norm(handle, count, on_x.template as<N>(), 1, &norm));
        CHECK(B::sum(handle, count, on_x.template as<N>(), 1, &sum));
        CHECK(B::dot(handle, count, on_x.template as<N>(), 1, on_y.template as<N>(), 1, reinterpret_cast<N*>(&product)));
        close(name("nrm2, asum, dot"), std::vector<Wide>{norm, sum, wide(product)}, std::vector<Wide>{std::sqrt(squares), sizes, products}, allowed);
        CHECK(B::largest(handle, count, on_x.template as<N>(), 1, &index));
        require(name("amax"), index == largest + 1);
        CHECK(B::smallest(handle, count, on_x.template as<N>(), 1, &index));
        require(name("amin"), index == smallest + 1);

        CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
        Device<T> there(1);
        CHECK(B::dot(handle, count, on_x.template as<N>(), 1, on_y.template as<N>(), 1, there.template as<N>()));
        CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
        close(name("dot, result on the device"), there.get(), std::vector<Wide>{products}, allowed);
    }

    void level2() {
        const int rows = 37, columns = 23;
        auto matrix = Matrix<T>::random(rows, columns);
        Device<T> on_matrix(matrix.values);
        for (auto operation : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
            auto given = operand(matrix, operation).wide();
            auto x = Matrix<T>::random(given.columns, 1), y = Matrix<T>::random(given.rows, 1);
            Device<T> on_x(x.values), on_y(y.values);
            CHECK(B::gemv(handle, operation, rows, columns, a, on_matrix.template as<N>(), rows, on_x.template as<N>(), 1, b, on_y.template as<N>(), 1));
            close(name("gemv"), on_y.get(), combined(wide(alpha), given * x.wide(), wide(beta), y.wide()).values, allowed);
        }
        auto x = Matrix<T>::random(rows, 1), y = Matrix<T>::random(columns, 1);
        Device<T> on_x(x.values), on_y(y.values);
        CHECK(B::ger(handle, rows, columns, a, on_x.template as<N>(), 1, on_y.template as<N>(), 1, on_matrix.template as<N>(), rows));
        close(name("ger"), on_matrix.get(), combined(wide(alpha), x.wide() * y.transposed().wide(), 1, matrix.wide()).values, allowed);

        const int side = 29, below = 2, above = 1;
        auto square = Matrix<T>::random(side, side).heavy();
        auto band = square.mapped(side, side, [&](int i, int j) { return i - j <= below && j - i <= above ? square.at(i, j) : T(0); });
        Matrix<T> packed(below + above + 1, side);
        for (int j = 0; j < side; j++)
            for (int i = std::max(0, j - above); i <= std::min(side - 1, j + below); i++) packed.at(above + i - j, j) = band.at(i, j);
        auto v = Matrix<T>::random(side, 1), w = Matrix<T>::random(side, 1);
        Device<T> on_square(square.values), on_packed(packed.values), on_v(v.values), on_w(w.values);
        CHECK(B::gbmv(handle, CUBLAS_OP_N, side, side, below, above, a, on_packed.template as<N>(), packed.rows, on_v.template as<N>(), 1, b, on_w.template as<N>(), 1));
        close(name("gbmv"), on_w.get(), combined(wide(alpha), band.wide() * v.wide(), wide(beta), w.wide()).values, allowed);
        auto symmetric = square.mapped(side, side, [&](int i, int j) { return i >= j ? square.at(i, j) : square.at(j, i); });
        Device<T> on_other(w.values);
        CHECK(B::symv(handle, CUBLAS_FILL_MODE_LOWER, side, a, on_square.template as<N>(), side, on_v.template as<N>(), 1, b, on_other.template as<N>(), 1));
        close(name("symv"), on_other.get(), combined(wide(alpha), symmetric.wide() * v.wide(), wide(beta), w.wide()).values, allowed);
        Device<T> solved(v.values);
        CHECK(B::trmv(handle, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, side, on_square.template as<N>(), side, solved.template as<N>(), 1));
        close(name("trmv"), solved.get(), (square.upper().wide() * v.wide()).values, allowed);
        CHECK(B::trsv(handle, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, side, on_square.template as<N>(), side, solved.template as<N>(), 1));
        close(name("trsv"), solved.get(), v.values, allowed);
    }

    void level3() {
        for (auto [rows, columns, inner] : {Shape{1, 1, 1}, {7, 5, 3}, {64, 64, 64}, {65, 33, 40}, {130, 70, 150}})
            for (auto left : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C})
                for (auto right : {CUBLAS_OP_N, CUBLAS_OP_C}) gemm(rows, columns, inner, left, right);

        const int side = 31, others = 18;
        auto square = Matrix<T>::random(side, side).heavy(), wide_one = Matrix<T>::random(side, others), sum = Matrix<T>::random(side, others);
        Device<T> on_square(square.values), on_wide(wide_one.values), on_sum(sum.values);
        auto symmetric = square.mapped(side, side, [&](int i, int j) { return i <= j ? square.at(i, j) : square.at(j, i); });
        CHECK(B::symm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, side, others, a, on_square.template as<N>(), side, on_wide.template as<N>(), side, b, on_sum.template as<N>(), side));
        close(name("symm"), on_sum.get(), combined(wide(alpha), symmetric.wide() * wide_one.wide(), wide(beta), sum.wide()).values, allowed);
        Device<T> on_product(square.values);
        CHECK(B::syrk(handle, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, side, others, a, on_wide.template as<N>(), side, b, on_product.template as<N>(), side));
        auto product = combined(wide(alpha), wide_one.wide() * wide_one.transposed().wide(), wide(beta), square.wide());
        product = product.mapped(side, side, [&](int i, int j) { return i >= j ? product.at(i, j) : wide(square.at(i, j)); });
        close(name("syrk"), on_product.get(), product.values, allowed);
        Device<T> made(size_t(side) * others);
        CHECK(B::trmm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_C, CUBLAS_DIAG_NON_UNIT, side, others, a, on_square.template as<N>(), side, on_wide.template as<N>(), side, made.template as<N>(), side));
        auto triangle = square.lower().adjoint().wide() * wide_one.wide();
        close(name("trmm"), made.get(), combined(wide(alpha), triangle, 0, triangle).values, allowed);
        const T one = 1;
        CHECK(B::trsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_C, CUBLAS_DIAG_NON_UNIT, side, others, reinterpret_cast<const N*>(&one), on_square.template as<N>(), side, made.template as<N>(), side));
        close(name("trsm"), made.get(), combined(wide(alpha), wide_one.wide(), 0, wide_one.wide()).values, allowed);
        CHECK(B::geam(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, others, a, on_wide.template as<N>(), side, b, on_sum.template as<N>(), side, made.template as<N>(), side));
        close(name("geam"), made.get(), combined(wide(alpha), wide_one.wide(), wide(beta), Matrix<T>::of(side, others, on_sum.get()).wide()).values, allowed);
        auto scales = random_values<T>(others);
        Device<T> on_scales(scales);
        CHECK(B::dgmm(handle, CUBLAS_SIDE_RIGHT, side, others, on_wide.template as<N>(), side, on_scales.template as<N>(), 1, made.template as<N>(), side));
        close(name("dgmm"), made.get(), wide_one.mapped(side, others, [&](int i, int j) { return wide_one.at(i, j) * scales[j]; }).values, allowed);
    }

    void gemm(int rows, int columns, int inner, cublasOperation_t left, cublasOperation_t right) {
        auto x = left == CUBLAS_OP_N ? Matrix<T>::random(rows, inner) : Matrix<T>::random(inner, rows);
        auto y = right == CUBLAS_OP_N ? Matrix<T>::random(inner, columns) : Matrix<T>::random(columns, inner);
        auto z = Matrix<T>::random(rows, columns);
        Device<T> on_x(x.values), on_y(y.values), on_z(z.values);
        CHECK(B::gemm(handle, left, right, rows, columns, inner, a, on_x.template as<N>(), x.rows, on_y.template as<N>(), y.rows, b, on_z.template as<N>(), rows));
        close(name("gemm"), on_z.get(), combined(wide(alpha), operand(x, left).wide() * operand(y, right).wide(), wide(beta), z.wide()).values, allowed);
    }

    void batched() {
        const int side = 12, count = 5, size = side * side;
        std::vector<T> x, y;
        std::vector<Wide> right;
        for (int at = 0; at < count; at++) {
            auto p = Matrix<T>::random(side, side).heavy(), q = Matrix<T>::random(side, side);
            x.insert(x.end(), p.values.begin(), p.values.end());
            y.insert(y.end(), q.values.begin(), q.values.end());
            auto product = p.wide() * q.wide();
            for (auto value : product.values) right.push_back(wide(alpha) * value);
        }
        Device<T> on_x(x), on_y(y), strided(x.size()), by_pointers(x.size());
        const T zero = 0;
        auto none = reinterpret_cast<const N*>(&zero);
        CHECK(B::strided(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, a, on_x.template as<N>(), side, size, on_y.template as<N>(), side, size, none, strided.template as<N>(), side, size, count));
        close(name("gemmStridedBatched"), strided.get(), right, allowed);
        std::vector<N*> first, second, third;
        for (int at = 0; at < count; at++) {
            first.push_back(on_x.template as<N>() + at * size);
            second.push_back(on_y.template as<N>() + at * size);
            third.push_back(by_pointers.template as<N>() + at * size);
        }
        Device<N*> on_first(first), on_second(second), on_third(third);
        CHECK(B::batched(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, a, on_first, side, on_second, side, none, on_third, side, count));
        close(name("gemmBatched"), by_pointers.get(), right, allowed);

        Device<int> pivots(side * count), information(count);
        CHECK(B::getrf(handle, side, on_first, side, pivots, information, count));
        CHECK(B::getri(handle, side, on_first, side, pivots, on_third, side, information, count));
        equal(name("getriBatched"), information.get(), std::vector<int>(count));
        auto inverses = by_pointers.get();
        for (int at = 0; at < count; at++) {
            auto given = Matrix<T>::of(side, side, {x.begin() + at * size, x.begin() + (at + 1) * size});
            auto inverse = Matrix<T>::of(side, side, {inverses.begin() + at * size, inverses.begin() + (at + 1) * size});
            close(name("getriBatched"), (given.wide() * inverse.wide()).values, identity(side).values, allowed);
        }
    }

    void all() {
        level1();
        level2();
        level3();
        batched();
        std::printf("%s\n", B::letter);
    }
};

// A product of small integers, which every type holds exactly: alpha 1, beta 0.
template <class In, class Out>
void gemm_ex(cublasHandle_t handle, const char* name, cudaDataType in, cudaDataType out, cublasComputeType_t compute, int side) {
    Matrix<In> x(side, side), y(side, side);
    std::uniform_int_distribution<int> digit(-3, 3);
    for (auto* matrix : {&x, &y})
        for (auto& value : matrix->values) value = In(float(digit(generator)));
    auto doubles = [](const Matrix<In>& matrix) {
        Matrix<Wide> made(matrix.rows, matrix.columns);
        for (size_t at = 0; at < matrix.values.size(); at++) made.values[at] = double(float(matrix.values[at]));
        return made;
    };
    Device<In> on_x(x.values), on_y(y.values);
    Device<Out> on_z(x.values.size());
    union {
        int32_t integer;
        float real;
        __half half;
    } one{}, zero{};
    if (compute == CUBLAS_COMPUTE_32I) one.integer = 1;
    else if (compute == CUBLAS_COMPUTE_16F) one.half = __float2half(1);
    else one.real = 1;
    auto status = cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, side, side, side, &one, on_x, in, side, on_y, in, side, &zero, on_z, out, side, compute, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) {
        std::printf("%s, %d: %s\n", name, side, cublasGetStatusName(status));
        return;
    }
    std::vector<double> found;
    for (auto value : on_z.get()) found.push_back(double(float(value)));
    close(name, found, (doubles(x).transposed() * doubles(y)).values, 0);
    std::printf("%s, %d: right\n", name, side);
}

int main() {
    cublasHandle_t handle;
    CHECK(cublasCreate(&handle));
    Tests<float>(handle).all();
    Tests<double>(handle).all();
    Tests<std::complex<float>>(handle).all();
    Tests<std::complex<double>>(handle).all();
    for (int side : {7, 8, 64}) {
        gemm_ex<__half, __half>(handle, "half, sums in half", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F, side);
        gemm_ex<__half, float>(handle, "half, sums in float", CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, side);
        gemm_ex<__half, float>(handle, "half, pedantic", CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC, side);
        gemm_ex<__nv_bfloat16, float>(handle, "bfloat16, sums in float", CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, side);
        gemm_ex<__nv_bfloat16, float>(handle, "bfloat16, pedantic", CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC, side);
        gemm_ex<float, float>(handle, "TF32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, side);
        gemm_ex<int8_t, int32_t>(handle, "bytes", CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, side);
    }
    gemm_ex<int8_t, int32_t>(handle, "bytes", CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, 128);
    CHECK(cublasDestroy(handle));
    std::printf("PASS\n");
}
