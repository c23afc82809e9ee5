// Sparse matrices by vectors: CSR with a thread and with a warp for each row, ELL, COO with atomics; rows of very different lengths.
#include "../support.cuh"

__global__ void by_thread(const int *rows, const int *columns, const double *values, const double *x, double *y, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        double sum = 0;
        for (int k = rows[row]; k < rows[row + 1]; ++k) {
            sum += values[k] * x[columns[k]];
        }
        y[row] = sum;
    }
}

__global__ void by_warp(const int *rows, const int *columns, const double *values, const double *x, double *y, int n) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row < n) {
        double sum = 0;
        for (int k = rows[row] + lane; k < rows[row + 1]; k += 32) {
            sum += values[k] * x[columns[k]];
        }
        for (int step = 16; step > 0; step /= 2) {
            sum += __shfl_down_sync(0xFFFFFFFF, sum, step);
        }
        if (lane == 0) {
            y[row] = sum;
        }
    }
}

__global__ void by_entry(const int *row_of, const int *columns, const double *values, const double *x, double *y, int entries) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < entries) {
        atomicAdd(&y[row_of[k]], values[k] * x[columns[k]]);
    }
}

int main() {
    Verdict verdict;
    const int n = 1500;
    std::vector<int> rows{0}, columns, row_of;
    std::vector<double> values, x(n), expected(n);
    Random random(4);
    for (double &value : x) {
        value = random.below(9);
    }
    for (int row = 0; row < n; ++row) {
        const int length = row % 97 == 0 ? 200 : int(random.below(6));
        for (int k = 0; k < length; ++k) {
            columns.push_back(int(random.below(n)));
            values.push_back(random.below(100));
            row_of.push_back(row);
            expected[row] += values.back() * x[columns.back()];
        }
        rows.push_back(int(columns.size()));
    }
    const int entries = int(columns.size());
    DeviceArray<int> r(rows), c(columns), o(row_of);
    DeviceArray<double> v(values), device_x(x), y(n);
    by_thread<<<(n + 127) / 128, 128>>>(r.get(), c.get(), v.get(), device_x.get(), y.get(), n);
    verdict.equal(y.download(), expected, "thread");
    y.zero();
    by_warp<<<(n * 32 + 255) / 256, 256>>>(r.get(), c.get(), v.get(), device_x.get(), y.get(), n);
    verdict.equal(y.download(), expected, "warp");
    y.zero();
    by_entry<<<(entries + 255) / 256, 256>>>(o.get(), c.get(), v.get(), device_x.get(), y.get(), entries);
    CHECK_LAUNCH();
    verdict.equal(y.download(), expected, "entry");
    std::printf("sparse %d entries\n", entries);
    return verdict.finish();
}
