// Constant memory and __device__ variables, set and read by name from the host and used by kernels.
#include "../support.cuh"

struct Setup {
    int shift;
    double factor;
    char tag[8];
};

__constant__ float coefficients[16];
__constant__ Setup setup;
__constant__ int initialised_constant[4] = {3, 1, 4, 1};
__device__ int counter = 40;
__device__ int table[64];
__device__ double initialised_table[3] = {0.5, -1.25, 1e100};
static __device__ unsigned char small = 7;

__global__ void polynomial(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = 0.0f;
        for (int k = 15; k >= 0; --k) {
            value = value * x[i] + coefficients[k];
        }
        y[i] = value;
    }
}

__global__ void touch(double *out) {
    int i = threadIdx.x;
    atomicAdd(&counter, 1);
    table[i] = i * initialised_constant[i % 4] + small;
    if (i < 3) {
        out[i] = initialised_table[i] * setup.factor + setup.shift + setup.tag[i];
    }
}

__global__ void through_pointer(int *values, int n) {
    int i = threadIdx.x;
    if (i < n) {
        values[i] += 1000;
    }
}

int main() {
    Verdict verdict;
    float host_coefficients[16];
    for (int k = 0; k < 16; ++k) {
        host_coefficients[k] = static_cast<float>(k % 5 - 2);
    }
    CHECK(cudaMemcpyToSymbol(coefficients, host_coefficients, 8 * sizeof(float)));
    CHECK(cudaMemcpyToSymbol(coefficients, host_coefficients + 8, 8 * sizeof(float), 8 * sizeof(float)));

    const int n = 1000;
    std::vector<float> x(n), expected(n);
    for (int i = 0; i < n; ++i) {
        x[i] = static_cast<float>(i % 3 - 1);  // -1, 0, 1: every value is exact
        for (int k = 15; k >= 0; --k) {
            expected[i] = expected[i] * x[i] + host_coefficients[k];
        }
    }
    DeviceArray<float> device_x(x), device_y(n);
    polynomial<<<8, 128>>>(device_x.get(), device_y.get(), n);
    CHECK_LAUNCH();
    verdict.equal(device_y.download(), expected, "polynomial");

    Setup host_setup = {5, 2.0, "abc"};
    CHECK(cudaMemcpyToSymbol(setup, &host_setup, sizeof host_setup));
    DeviceArray<double> out(3);
    touch<<<1, 64>>>(out.get());
    CHECK_LAUNCH();
    verdict.equal(out.download(), {0.5 * 2.0 + 5 + 'a', -1.25 * 2.0 + 5 + 'b', 1e100 * 2.0 + 5 + 'c'}, "touch");

    int host_counter = 0;
    CHECK(cudaMemcpyFromSymbol(&host_counter, counter, sizeof host_counter));
    verdict.expect(host_counter == 104, "counter after 64 additions to 40");
    host_counter = -64;
    CHECK(cudaMemcpyToSymbol(counter, &host_counter, sizeof host_counter));
    unsigned char host_small = 100;
    CHECK(cudaMemcpyToSymbol(small, &host_small, 1));
    touch<<<1, 64>>>(out.get());
    CHECK(cudaMemcpyFromSymbol(&host_counter, counter, sizeof host_counter));
    verdict.expect(host_counter == 0, "counter after it was set");

    int part[4];
    CHECK(cudaMemcpyFromSymbol(part, table, sizeof part, 10 * sizeof(int)));
    bool right = true;
    const int digits[4] = {3, 1, 4, 1};
    for (int i = 0; i < 4; ++i) {
        right = right && part[i] == (10 + i) * digits[(10 + i) % 4] + 100;
    }
    verdict.expect(right, "part of a table");

    void *address = nullptr;
    size_t size = 0;
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaGetSymbolSize(&size, table));
    verdict.expect(size == sizeof table, "size of a symbol");
    through_pointer<<<1, 64>>>(static_cast<int *>(address), 64);
    CHECK_LAUNCH();
    int by_pointer[64], by_symbol[64];
    CHECK(cudaMemcpy(by_pointer, address, sizeof by_pointer, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyFromSymbol(by_symbol, table, sizeof by_symbol));
    verdict.expect(by_pointer[12] == 12 * 3 + 100 + 1000, "a variable changed through its address");
    verdict.expect(checksum(by_pointer, sizeof by_pointer) == checksum(by_symbol, sizeof by_symbol), "both ways agree");

    // Device to device through symbols, and asynchronously.
    DeviceArray<int> copy(64);
    CHECK(cudaMemcpyFromSymbolAsync(copy.get(), table, sizeof table, 0, cudaMemcpyDeviceToDevice, 0));
    std::vector<int> copied = copy.download();
    verdict.expect(checksum(copied.data(), sizeof by_symbol) == checksum(by_symbol, sizeof by_symbol), "symbol copied");
    CHECK(cudaMemcpyToSymbolAsync(table, copy.get(), 32, 32, cudaMemcpyDeviceToDevice, 0));
    CHECK(cudaMemcpyFromSymbol(by_symbol, table, sizeof by_symbol));
    verdict.expect(by_symbol[8] == copied[0] && by_symbol[15] == copied[7], "part of a symbol overwritten");

    verdict.expect(cudaMemcpyToSymbol(table, copied.data(), sizeof table, 4) == cudaErrorInvalidValue,
                   "a copy beyond the end of a symbol");
    cudaGetLastError();
    std::printf("constants ");
    print_checksum("table", copied);
    return verdict.finish();
}
