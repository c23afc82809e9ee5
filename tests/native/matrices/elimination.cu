// Gaussian elimination with a launch for each column, pivots found by a block and read by the host, and a triangular solve by one block.
#include "../support.cuh"

__global__ void pivot(const double *matrix, int n, int column, int *best) {
    __shared__ double value[128];
    __shared__ int place[128];
    double largest = -1;
    int where = column;
    for (int row = column + threadIdx.x; row < n; row += blockDim.x) {
        const double found = fabs(matrix[row * (n + 1) + column]);
        if (found > largest) {
            largest = found, where = row;
        }
    }
    value[threadIdx.x] = largest, place[threadIdx.x] = where;
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step && value[threadIdx.x + step] > value[threadIdx.x]) {
            value[threadIdx.x] = value[threadIdx.x + step], place[threadIdx.x] = place[threadIdx.x + step];
        }
    }
    if (threadIdx.x == 0) {
        *best = place[0];
    }
}

__global__ void exchange(double *matrix, int n, int a, int b) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k <= n) {
        const double kept = matrix[a * (n + 1) + k];
        matrix[a * (n + 1) + k] = matrix[b * (n + 1) + k];
        matrix[b * (n + 1) + k] = kept;
    }
}

__global__ void eliminate(double *matrix, const double *factors, int n, int column) {
    const int k = column + blockIdx.x * blockDim.x + threadIdx.x, row = column + 1 + blockIdx.y;
    if (k <= n) {
        matrix[row * (n + 1) + k] -= factors[row] * matrix[column * (n + 1) + k];
    }
}

__global__ void divide(const double *matrix, double *factors, int n, int column) {
    const int row = column + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        factors[row] = matrix[row * (n + 1) + column] / matrix[column * (n + 1) + column];
    }
}

__global__ void solve(const double *matrix, double *x, int n) {
    extern __shared__ double rest[];
    rest[threadIdx.x] = matrix[threadIdx.x * (n + 1) + n];
    for (int row = n - 1; row >= 0; --row) {
        __syncthreads();
        const double value = rest[row] / matrix[row * (n + 1) + row];
        if (int(threadIdx.x) == row) {
            x[row] = value;
        }
        if (int(threadIdx.x) < row) {
            rest[threadIdx.x] -= value * matrix[threadIdx.x * (n + 1) + row];
        }
    }
}

int main() {
    Verdict verdict;
    const int n = 60;
    std::vector<double> matrix(n * (n + 1)), expected(n);
    Random random(40);
    for (int i = 0; i < n; ++i) {
        expected[i] = i - 25;
    }
    for (int row = 0; row < n; ++row) {
        for (int k = 0; k < n; ++k) {
            matrix[row * (n + 1) + k] = random.real() - 0.5 + (k == (row + 1) % n ? 3 : 0);
            matrix[row * (n + 1) + n] += matrix[row * (n + 1) + k] * expected[k];
        }
    }
    DeviceArray<double> device(matrix), factors(n), x(n);
    DeviceArray<int> best(1);
    int exchanges = 0;
    for (int column = 0; column < n - 1; ++column) {
        pivot<<<1, 128>>>(device.get(), n, column, best.get());
        const int row = best.download()[0];
        if (row != column) {
            exchange<<<1, 64>>>(device.get(), n, row, column);
            ++exchanges;
        }
        divide<<<1, 64>>>(device.get(), factors.get(), n, column);
        eliminate<<<dim3((n + 1 - column + 31) / 32, n - 1 - column), 32>>>(device.get(), factors.get(), n, column);
    }
    solve<<<1, n, n * sizeof(double)>>>(device.get(), x.get(), n);
    CHECK_LAUNCH();
    verdict.near(x.download(), expected, 1e-9, "solution");
    std::printf("elimination %s exchanges\n", exchanges > n / 2 ? "many" : "few");
    return verdict.finish();
}
