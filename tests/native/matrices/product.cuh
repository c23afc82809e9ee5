// The product of two square matrices of small whole numbers, which is exact: what programs that multiply compare with.
#pragma once
#include "../support.cuh"

struct Product {
    std::vector<float> a, b, expected;

    explicit Product(int n) : a(n * n), b(n * n), expected(n * n) {
        Random random(3);
        for (int i = 0; i < n * n; ++i) {
            a[i] = static_cast<float>(static_cast<int>(random.below(17)) - 8);
            b[i] = static_cast<float>(static_cast<int>(random.below(17)) - 8);
        }
        for (int i = 0; i < n; ++i) {
            for (int k = 0; k < n; ++k) {
                for (int j = 0; j < n; ++j) {
                    expected[i * n + j] += a[i * n + k] * b[k * n + j];
                }
            }
        }
    }
};
