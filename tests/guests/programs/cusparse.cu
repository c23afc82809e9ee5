// cuSPARSE: products with vectors and matrices, products of sparse matrices, triangular solves and conversions.

#include <cusparse.h>

#include "check.h"

template <class T>
struct Types;
#define TYPES(T, KIND, NAME)                            \
    template <>                                         \
    struct Types<T> {                                   \
        static constexpr cudaDataType kind = KIND;      \
        static constexpr const char* name = NAME;       \
    };
TYPES(float, CUDA_R_32F, "S")
TYPES(double, CUDA_R_64F, "D")
TYPES(std::complex<float>, CUDA_C_32F, "C")
TYPES(std::complex<double>, CUDA_C_64F, "Z")

// A sparse matrix in the host's memory: by rows, by columns and by coordinates.
template <class T>
struct Sparse {
    Matrix<T> dense;
    std::vector<int> row_starts{0}, rows, columns, column_starts{0}, rows_by_column;
    std::vector<T> values, values_by_column;

    explicit Sparse(Matrix<T> given) : dense(std::move(given)) {
        for (int i = 0; i < dense.rows; i++) {
            for (int j = 0; j < dense.columns; j++)
                if (dense.at(i, j) != T(0)) {
                    rows.push_back(i);
                    columns.push_back(j);
                    values.push_back(dense.at(i, j));
                }
            row_starts.push_back(int(columns.size()));
        }
        for (int j = 0; j < dense.columns; j++) {
            for (int i = 0; i < dense.rows; i++)
                if (dense.at(i, j) != T(0)) {
                    rows_by_column.push_back(i);
                    values_by_column.push_back(dense.at(i, j));
                }
            column_starts.push_back(int(rows_by_column.size()));
        }
    }
    static Sparse random(int rows, int columns, double density) {
        auto made = Matrix<T>::random(rows, columns);
        std::uniform_real_distribution<double> chance(0, 1);
        for (auto& value : made.values)
            if (chance(generator) > density) value = 0;
        return Sparse(made);
    }
};

// The same on the device.
template <class T>
struct There {
    Device<int> row_starts, rows, columns, column_starts, rows_by_column;
    Device<T> values, values_by_column;
    cusparseSpMatDescr_t csr, csc, coo;

    explicit There(const Sparse<T>& given)
        : row_starts(given.row_starts), rows(given.rows), columns(given.columns), column_starts(given.column_starts),
          rows_by_column(given.rows_by_column), values(given.values), values_by_column(given.values_by_column) {
        const auto i32 = CUSPARSE_INDEX_32I;
        const auto zero = CUSPARSE_INDEX_BASE_ZERO;
        int64_t m = given.dense.rows, n = given.dense.columns, count = int64_t(given.values.size());
        CHECK(cusparseCreateCsr(&csr, m, n, count, row_starts.as<int>(), columns.as<int>(), values.template as<T>(), i32, i32, zero, Types<T>::kind));
        CHECK(cusparseCreateCsc(&csc, m, n, count, column_starts.as<int>(), rows_by_column.as<int>(), values_by_column.template as<T>(), i32, i32, zero, Types<T>::kind));
        CHECK(cusparseCreateCoo(&coo, m, n, count, rows.as<int>(), columns.as<int>(), values.template as<T>(), i32, zero, Types<T>::kind));
    }
    ~There() {
        for (auto matrix : {csr, csc, coo}) CHECK(cusparseDestroySpMat(matrix));
    }
};

template <class T>
class Tests {
    cusparseHandle_t handle;
    const cudaDataType kind = Types<T>::kind;
    const double allowed = tolerance<T>() * 10;
    alignas(16) const T alpha = Random<T>::value();  // the library loads cuDoubleComplex at once
    alignas(16) const T beta = Random<T>::value();

    static std::string name(const char* what) { return std::string(Types<T>::name) + " " + what; }
    Matrix<Wide> combined(const Matrix<Wide>& x, const Matrix<Wide>& y) const {
        return x.mapped(x.rows, x.columns, [&](int i, int j) { return wide(alpha) * x.at(i, j) + wide(beta) * y.at(i, j); });
    }

public:
    explicit Tests(cusparseHandle_t handle) : handle(handle) {}

    void products_with_dense() {
        auto matrix = Sparse<T>::random(60, 45, 0.2);
        There<T> there(matrix);
        for (auto operation : {CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE})
            for (auto form : {there.csr, there.csc, there.coo})
                for (int width : {1, 12}) {
                    auto given = operation == CUSPARSE_OPERATION_NON_TRANSPOSE ? matrix.dense : matrix.dense.transposed();
                    auto x = Matrix<T>::random(given.columns, width), y = Matrix<T>::random(given.rows, width);
                    auto right = combined(given.wide() * x.wide(), y.wide());
                    Device<T> on_x(x.values), on_y(y.values);
                    size_t bytes = 0;
                    if (width == 1) {
                        cusparseDnVecDescr_t in, out;
                        CHECK(cusparseCreateDnVec(&in, x.rows, on_x.template as<T>(), kind));
                        CHECK(cusparseCreateDnVec(&out, y.rows, on_y.template as<T>(), kind));
                        CHECK(cusparseSpMV_bufferSize(handle, operation, &alpha, form, in, &beta, out, kind, CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
                        Device<char> buffer(bytes);
                        CHECK(cusparseSpMV(handle, operation, &alpha, form, in, &beta, out, kind, CUSPARSE_SPMV_ALG_DEFAULT, buffer.as<char>()));
                        close(name("SpMV"), on_y.get(), right.values, allowed);
                        CHECK(cusparseDestroyDnVec(in));
                        CHECK(cusparseDestroyDnVec(out));
                    } else {
                        cusparseDnMatDescr_t in, out;
                        const auto none = CUSPARSE_OPERATION_NON_TRANSPOSE;
                        CHECK(cusparseCreateDnMat(&in, x.rows, width, x.rows, on_x.template as<T>(), kind, CUSPARSE_ORDER_COL));
                        CHECK(cusparseCreateDnMat(&out, y.rows, width, y.rows, on_y.template as<T>(), kind, CUSPARSE_ORDER_COL));
                        CHECK(cusparseSpMM_bufferSize(handle, operation, none, &alpha, form, in, &beta, out, kind, CUSPARSE_SPMM_ALG_DEFAULT, &bytes));
                        Device<char> buffer(bytes);
                        CHECK(cusparseSpMM(handle, operation, none, &alpha, form, in, &beta, out, kind, CUSPARSE_SPMM_ALG_DEFAULT, buffer.as<char>()));
                        close(name("SpMM"), on_y.get(), right.values, allowed);
                        CHECK(cusparseDestroyDnMat(in));
                        CHECK(cusparseDestroyDnMat(out));
                    }
                }
    }

    void product_of_sparse() {
        auto a = Sparse<T>::random(40, 30, 0.2), b = Sparse<T>::random(30, 50, 0.2);
        There<T> on_a(a), on_b(b);
        const auto none = CUSPARSE_OPERATION_NON_TRANSPOSE;
        const T zero = 0;
        Device<int> starts(41);
        cusparseSpMatDescr_t c;
        CHECK(cusparseCreateCsr(&c, 40, 50, 0, starts.as<int>(), nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kind));
        cusparseSpGEMMDescr_t product;
        CHECK(cusparseSpGEMM_createDescr(&product));
        const auto way = CUSPARSE_SPGEMM_DEFAULT;
        size_t first = 0, second = 0;
        CHECK(cusparseSpGEMM_workEstimation(handle, none, none, &alpha, on_a.csr, on_b.csr, &zero, c, kind, way, product, &first, nullptr));
        Device<char> buffer1(first);
        CHECK(cusparseSpGEMM_workEstimation(handle, none, none, &alpha, on_a.csr, on_b.csr, &zero, c, kind, way, product, &first, buffer1.as<char>()));
        CHECK(cusparseSpGEMM_compute(handle, none, none, &alpha, on_a.csr, on_b.csr, &zero, c, kind, way, product, &second, nullptr));
        Device<char> buffer2(second);
        CHECK(cusparseSpGEMM_compute(handle, none, none, &alpha, on_a.csr, on_b.csr, &zero, c, kind, way, product, &second, buffer2.as<char>()));
        int64_t rows, columns, count;
        CHECK(cusparseSpMatGetSize(c, &rows, &columns, &count));
        Device<int> indices(count);
        Device<T> values(count);
        CHECK(cusparseCsrSetPointers(c, starts.as<int>(), indices.as<int>(), values.template as<T>()));
        CHECK(cusparseSpGEMM_copy(handle, none, none, &alpha, on_a.csr, on_b.csr, &zero, c, kind, way, product));
        Matrix<T> found(40, 50);
        auto row_starts = starts.get(), places = indices.get();
        auto numbers = values.get();
        for (int i = 0; i < 40; i++)
            for (int at = row_starts[i]; at < row_starts[i + 1]; at++) found.at(i, places[at]) += numbers[at];
        auto right = a.dense.wide() * b.dense.wide();
        for (auto& value : right.values) value *= wide(alpha);
        close(name("SpGEMM"), found.values, right.values, allowed);
        CHECK(cusparseSpGEMM_destroyDescr(product));
        CHECK(cusparseDestroySpMat(c));
    }

    void solves() {
        const int side = 40, width = 5;
        const auto none = CUSPARSE_OPERATION_NON_TRANSPOSE;
        for (bool lower : {true, false}) {
            auto heavy = Sparse<T>::random(side, side, 0.2).dense.heavy();
            Sparse<T> matrix(lower ? heavy.lower() : heavy.upper());
            There<T> there(matrix);
            auto fill = lower ? CUSPARSE_FILL_MODE_LOWER : CUSPARSE_FILL_MODE_UPPER;
            auto diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
            CHECK(cusparseSpMatSetAttribute(there.csr, CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill));
            CHECK(cusparseSpMatSetAttribute(there.csr, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal));
            auto b = Matrix<T>::random(side, width);
            Matrix<Wide> right = b.wide();
            for (auto& value : right.values) value *= wide(alpha);
            Device<T> on_b(b.values), on_x(b.values.size());
            size_t bytes = 0;

            cusparseDnMatDescr_t in, out;
            CHECK(cusparseCreateDnMat(&in, side, width, side, on_b.template as<T>(), kind, CUSPARSE_ORDER_COL));
            CHECK(cusparseCreateDnMat(&out, side, width, side, on_x.template as<T>(), kind, CUSPARSE_ORDER_COL));
            cusparseSpSMDescr_t many;
            CHECK(cusparseSpSM_createDescr(&many));
            CHECK(cusparseSpSM_bufferSize(handle, none, none, &alpha, there.csr, in, out, kind, CUSPARSE_SPSM_ALG_DEFAULT, many, &bytes));
            Device<char> buffer(bytes);
            CHECK(cusparseSpSM_analysis(handle, none, none, &alpha, there.csr, in, out, kind, CUSPARSE_SPSM_ALG_DEFAULT, many, buffer.as<char>()));
            CHECK(cusparseSpSM_solve(handle, none, none, &alpha, there.csr, in, out, kind, CUSPARSE_SPSM_ALG_DEFAULT, many));
            auto solved = Matrix<T>::of(side, width, on_x.get());
            close(name("SpSM"), (matrix.dense.wide() * solved.wide()).values, right.values, allowed);
            CHECK(cusparseSpSM_destroyDescr(many));
            CHECK(cusparseDestroyDnMat(in));
            CHECK(cusparseDestroyDnMat(out));

            cusparseDnVecDescr_t from, to;
            CHECK(cusparseCreateDnVec(&from, side, on_b.template as<T>(), kind));
            CHECK(cusparseCreateDnVec(&to, side, on_x.template as<T>(), kind));
            cusparseSpSVDescr_t one;
            CHECK(cusparseSpSV_createDescr(&one));
            CHECK(cusparseSpSV_bufferSize(handle, none, &alpha, there.csr, from, to, kind, CUSPARSE_SPSV_ALG_DEFAULT, one, &bytes));
            Device<char> other(bytes);
            CHECK(cusparseSpSV_analysis(handle, none, &alpha, there.csr, from, to, kind, CUSPARSE_SPSV_ALG_DEFAULT, one, other.as<char>()));
            CHECK(cusparseSpSV_solve(handle, none, &alpha, there.csr, from, to, kind, CUSPARSE_SPSV_ALG_DEFAULT, one));
            auto vector = on_x.get();
            vector.resize(side);
            right.values.resize(side);
            close(name("SpSV"), (matrix.dense.wide() * Matrix<T>::of(side, 1, vector).wide()).values, right.values, allowed);
            CHECK(cusparseSpSV_destroyDescr(one));
            CHECK(cusparseDestroyDnVec(from));
            CHECK(cusparseDestroyDnVec(to));
        }
    }

    void conversions() {
        auto matrix = Sparse<T>::random(33, 27, 0.3);
        There<T> there(matrix);
        size_t bytes = 0;
        Device<T> dense(matrix.dense.values.size());
        cusparseDnMatDescr_t whole;
        CHECK(cusparseCreateDnMat(&whole, 33, 27, 33, dense.template as<T>(), kind, CUSPARSE_ORDER_COL));
        for (auto form : {there.csr, there.csc, there.coo}) {
            CHECK(cusparseSparseToDense_bufferSize(handle, form, whole, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, &bytes));
            Device<char> buffer(bytes);
            CHECK(cudaMemset(dense, 0xff, matrix.dense.values.size() * sizeof(T)));
            CHECK(cusparseSparseToDense(handle, form, whole, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, buffer.as<char>()));
            equal(name("SparseToDense"), dense.get(), matrix.dense.values);
        }
        Device<int> starts(34), indices(matrix.values.size());
        Device<T> values(matrix.values.size());
        cusparseSpMatDescr_t made;
        CHECK(cusparseCreateCsr(&made, 33, 27, 0, starts.as<int>(), nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, kind));
        CHECK(cusparseDenseToSparse_bufferSize(handle, whole, made, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, &bytes));
        Device<char> buffer(bytes);
        CHECK(cusparseDenseToSparse_analysis(handle, whole, made, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer.as<char>()));
        CHECK(cusparseCsrSetPointers(made, starts.as<int>(), indices.as<int>(), values.template as<T>()));
        CHECK(cusparseDenseToSparse_convert(handle, whole, made, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer.as<char>()));
        equal(name("DenseToSparse"), starts.get(), matrix.row_starts);
        equal(name("DenseToSparse"), indices.get(), matrix.columns);
        equal(name("DenseToSparse"), values.get(), matrix.values);
        CHECK(cusparseDestroySpMat(made));
        CHECK(cusparseDestroyDnMat(whole));

        Device<int> column_starts(28), rows(matrix.values.size());
        Device<T> by_column(matrix.values.size());
        int count = int(matrix.values.size());
        const auto zero = CUSPARSE_INDEX_BASE_ZERO;
        CHECK(cusparseCsr2cscEx2_bufferSize(handle, 33, 27, count, there.values.template as<T>(), there.row_starts, there.columns, by_column.template as<T>(), column_starts, rows, kind, CUSPARSE_ACTION_NUMERIC, zero, CUSPARSE_CSR2CSC_ALG_DEFAULT, &bytes));
        Device<char> other(bytes);
        CHECK(cusparseCsr2cscEx2(handle, 33, 27, count, there.values.template as<T>(), there.row_starts, there.columns, by_column.template as<T>(), column_starts, rows, kind, CUSPARSE_ACTION_NUMERIC, zero, CUSPARSE_CSR2CSC_ALG_DEFAULT, other.as<char>()));
        equal(name("Csr2cscEx2"), column_starts.get(), matrix.column_starts);
        equal(name("Csr2cscEx2"), rows.get(), matrix.rows_by_column);
        equal(name("Csr2cscEx2"), by_column.get(), matrix.values_by_column);
        Device<int> again(34);
        CHECK(cusparseXcoo2csr(handle, there.rows, count, 33, again, zero));
        equal(name("Xcoo2csr"), again.get(), matrix.row_starts);
    }

    void all() {
        products_with_dense();
        product_of_sparse();
        solves();
        conversions();
        std::printf("%s\n", Types<T>::name);
    }
};

int main() {
    cusparseHandle_t handle;
    CHECK(cusparseCreate(&handle));
    Tests<float>(handle).all();
    Tests<double>(handle).all();
    Tests<std::complex<float>>(handle).all();
    Tests<std::complex<double>>(handle).all();
    CHECK(cusparseDestroy(handle));
    std::printf("PASS\n");
}
