// cuBLASLt: products whose epilogue adds a bias and applies a function.

#include <cublasLt.h>

#include "check.h"

int main() {
    cublasLtHandle_t handle;
    CHECK(cublasLtCreate(&handle));
    const int rows = 48, columns = 32, inner = 40;
    auto x = Matrix<float>::random(rows, inner), y = Matrix<float>::random(inner, columns);
    auto bias = random_values<float>(rows);
    auto product = x.wide() * y.wide();
    Device<float> on_x(x.values), on_y(y.values), on_z(size_t(rows) * columns), on_bias(bias);
    Device<char> workspace(1 << 20);

    auto relu = [](double v) { return std::max(v, 0.0); };
    auto gelu = [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); };
    struct Case {
        const char* name;
        cublasLtEpilogue_t epilogue;
        bool biased;
        double (*function)(double);
    };
    const Case cases[] = {
        {"none", CUBLASLT_EPILOGUE_DEFAULT, false, [](double v) { return v; }},
        {"bias", CUBLASLT_EPILOGUE_BIAS, true, [](double v) { return v; }},
        {"ReLU", CUBLASLT_EPILOGUE_RELU, false, relu},
        {"ReLU and bias", CUBLASLT_EPILOGUE_RELU_BIAS, true, relu},
        {"GELU", CUBLASLT_EPILOGUE_GELU, false, gelu},
        {"GELU and bias", CUBLASLT_EPILOGUE_GELU_BIAS, true, gelu},
    };
    for (const auto& one : cases) {
        cublasLtMatmulDesc_t operation;
        CHECK(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &one.epilogue, sizeof one.epilogue));
        const void* pointer = on_bias.as<float>();
        if (one.biased) CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer));
        cublasLtMatrixLayout_t left, right, result;
        CHECK(cublasLtMatrixLayoutCreate(&left, CUDA_R_32F, rows, inner, rows));
        CHECK(cublasLtMatrixLayoutCreate(&right, CUDA_R_32F, inner, columns, inner));
        CHECK(cublasLtMatrixLayoutCreate(&result, CUDA_R_32F, rows, columns, rows));
        cublasLtMatmulPreference_t preference;
        CHECK(cublasLtMatmulPreferenceCreate(&preference));
        size_t most = 1 << 20;
        CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most));
        cublasLtMatmulHeuristicResult_t found;
        int count = 0;
        CHECK(cublasLtMatmulAlgoGetHeuristic(handle, operation, left, right, result, result, preference, 1, &found, &count));
        require(one.name, count == 1);
        const float alpha = 1.5F, beta = 0;
        CHECK(cublasLtMatmul(handle, operation, &alpha, on_x.as<float>(), left, on_y.as<float>(), right, &beta, on_z.as<float>(), result, on_z.as<float>(), result, &found.algo, workspace.as<char>(), most, nullptr));
        auto wanted = product.mapped(rows, columns, [&](int i, int j) { return Wide(one.function(1.5 * product.at(i, j).real() + (one.biased ? bias[i] : 0.F))); });
        close(one.name, on_z.get(), wanted.values, 2e-4);
        std::printf("%s\n", one.name);
        CHECK(cublasLtMatmulPreferenceDestroy(preference));
        for (auto layout : {left, right, result}) CHECK(cublasLtMatrixLayoutDestroy(layout));
        CHECK(cublasLtMatmulDescDestroy(operation));
    }
    CHECK(cublasLtDestroy(handle));
    std::printf("PASS\n");
}
