// Matrix multiplication, one thread for each element, two-dimensional blocks that do not divide the matrix.
#include "../support.cuh"

__global__ void multiply(const float *a, const float *b, float *c, int rows, int inner, int columns) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || column >= columns) {
        return;
    }
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k) {
        sum += a[row * inner + k] * b[k * columns + column];
    }
    c[row * columns + column] = sum;
}

int main() {
    const int rows = 150, inner = 200, columns = 170;
    Random random(2);
    std::vector<float> a(rows * inner), b(inner * columns), expected(rows * columns);
    // Small integers: every sum is exact in float, in any order, fused or not.
    for (float &value : a) {
        value = static_cast<float>(static_cast<int>(random.below(33)) - 16);
    }
    for (float &value : b) {
        value = static_cast<float>(static_cast<int>(random.below(33)) - 16);
    }
    for (int i = 0; i < rows; ++i) {
        for (int k = 0; k < inner; ++k) {
            for (int j = 0; j < columns; ++j) {
                expected[i * columns + j] += a[i * inner + k] * b[k * columns + j];
            }
        }
    }
    DeviceArray<float> device_a(a), device_b(b), device_c(rows * columns);
    dim3 block(16, 16);
    dim3 grid((columns + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
    multiply<<<grid, block>>>(device_a.get(), device_b.get(), device_c.get(), rows, inner, columns);
    CHECK_LAUNCH();
    std::vector<float> c = device_c.download();

    Verdict verdict;
    verdict.equal(c, expected, "c");
    print_checksum("matmul_naive", c);
    return verdict.finish();
}
