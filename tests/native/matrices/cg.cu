// Conjugate gradient in double for a sparse symmetric system (CSR): the host reads dot products in every iteration.
#include "../support.cuh"

constexpr int BLOCK = 128;

__global__ void multiply(const int *offsets, const int *columns, const double *values, const double *x, double *y,
                         int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        double sum = 0.0;
        for (int k = offsets[row]; k < offsets[row + 1]; ++k) {
            sum += values[k] * x[columns[k]];
        }
        y[row] = sum;
    }
}

// One block, so that the order of additions, and with it the result, is always the same.
__global__ void dot(const double *a, const double *b, double *result, int n) {
    __shared__ double shared[BLOCK];
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        sum += a[i] * b[i];
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int width = BLOCK / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            shared[threadIdx.x] += shared[threadIdx.x + width];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *result = shared[0];
    }
}

__global__ void add_scaled(double *y, const double *x, double factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += factor * x[i];
    }
}

__global__ void scale_add(double *y, const double *x, double factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] + factor * y[i];
    }
}

static double device_dot(const DeviceArray<double> &a, const DeviceArray<double> &b, DeviceArray<double> &result) {
    dot<<<1, BLOCK>>>(a.get(), b.get(), result.get(), static_cast<int>(a.size()));
    CHECK_LAUNCH();
    double value;
    CHECK(cudaMemcpy(&value, result.get(), sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

int main() {
    // The five-point Laplacian on a square with a varying diagonal: symmetric and positive definite.
    const int side = 40, n = side * side;
    std::vector<int> offsets(n + 1), columns;
    std::vector<double> values;
    for (int i = 0; i < n; ++i) {
        int x = i % side, y = i / side;
        offsets[i] = static_cast<int>(columns.size());
        auto entry = [&](int column, double value) {
            columns.push_back(column);
            values.push_back(value);
        };
        if (y > 0) entry(i - side, -1.0);
        if (x > 0) entry(i - 1, -1.0);
        entry(i, 4.0 + 0.01 * (i % 7));
        if (x < side - 1) entry(i + 1, -1.0);
        if (y < side - 1) entry(i + side, -1.0);
    }
    offsets[n] = static_cast<int>(columns.size());
    Random random(11);
    std::vector<double> solution(n), right(n);
    for (double &value : solution) {
        value = random.real() * 2.0 - 1.0;
    }
    for (int i = 0; i < n; ++i) {
        for (int k = offsets[i]; k < offsets[i + 1]; ++k) {
            right[i] += values[k] * solution[columns[k]];
        }
    }

    DeviceArray<int> device_offsets(offsets), device_columns(columns);
    DeviceArray<double> device_values(values), x(n), residual(right), direction(right), product(n), scalar(1);
    x.zero();
    const int blocks = (n + BLOCK - 1) / BLOCK;
    double square = device_dot(residual, residual, scalar);
    const double target = square * 1e-20;
    int iterations = 0;
    while (square > target && iterations < 500) {
        multiply<<<blocks, BLOCK>>>(device_offsets.get(), device_columns.get(), device_values.get(), direction.get(),
                                    product.get(), n);
        double alpha = square / device_dot(direction, product, scalar);
        add_scaled<<<blocks, BLOCK>>>(x.get(), direction.get(), alpha, n);
        add_scaled<<<blocks, BLOCK>>>(residual.get(), product.get(), -alpha, n);
        double next = device_dot(residual, residual, scalar);
        scale_add<<<blocks, BLOCK>>>(direction.get(), residual.get(), next / square, n);
        square = next;
        ++iterations;
    }
    CHECK_LAUNCH();

    Verdict verdict;
    verdict.expect(square <= target, "convergence");
    verdict.near(x.download(), solution, 1e-7, "solution");
    verdict.expect(iterations > 20 && iterations < 200, "a plausible number of iterations");
    std::printf("cg converged\n");
    return verdict.finish();
}
