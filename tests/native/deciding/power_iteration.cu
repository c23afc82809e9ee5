// The largest eigenvalue by power iteration: the host reads a square, takes its root, passes the inverse, and
// ends when the value stands.
#include "system.cuh"

__global__ void scale(double *y, const double *x, double factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = factor * x[i];
    }
}

static double eigenvalue(double *v, double *w, double *square, double diagonal, int side, int *iterations) {
    const int n = side * side, blocks = (n + BLOCK - 1) / BLOCK;
    double value = 0, last, norm;
    int k = 0;
    do {
        last = value;
        multiply<<<blocks, BLOCK>>>(v, w, diagonal, side);
        dot<<<1, BLOCK>>>(w, w, square, n);
        CHECK(cudaMemcpy(&norm, square, sizeof norm, cudaMemcpyDeviceToHost));
        value = std::sqrt(norm);
        scale<<<blocks, BLOCK>>>(v, w, 1.0 / value, n);
    } while (std::fabs(value - last) > 1e-9 * value && ++k < 2000);
    *iterations = k;
    return value;
}

int main() {
    const int side = 10, n = side * side;
    std::vector<double> first = chosen_solution(n);
    double length = 0;
    for (double value : first) {
        length += value * value;
    }
    for (double &value : first) {
        value /= std::sqrt(length);
    }
    DeviceArray<double> v(first), w(n), square(1);
    int iterations;
    double value = eigenvalue(v.get(), w.get(), square.get(), 4.0, side, &iterations);
    double expected = 4 + 4 * std::cos(std::acos(-1.0) / (side + 1));
    Verdict verdict;
    verdict.expect(std::fabs(value - expected) < 1e-5, "the eigenvalue");
    verdict.expect(iterations > 50 && iterations < 1900, "a plausible number of iterations");
    std::printf("power_iteration %.4f\n", value);
    return verdict.finish();
}
