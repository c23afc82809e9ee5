// Matrix transpose: naive, through padded shared memory, and for 1-, 2-, 8- and 16-byte elements.
#include "../support.cuh"

constexpr int TILE = 32;
constexpr int ROWS = 8;

template <typename T> __global__ void transpose_naive(const T *input, T *output, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        output[x * height + y] = input[y * width + x];
    }
}

template <typename T> __global__ void transpose_tiled(const T *input, T *output, int width, int height) {
    __shared__ T tile[TILE][TILE + 1];  // the padding keeps columns out of one bank
    int x = blockIdx.x * TILE + threadIdx.x;
    for (int row = threadIdx.y; row < TILE; row += ROWS) {
        int y = blockIdx.y * TILE + row;
        if (x < width && y < height) {
            tile[row][threadIdx.x] = input[y * width + x];
        }
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    for (int row = threadIdx.y; row < TILE; row += ROWS) {
        int y = blockIdx.x * TILE + row;
        if (x < height && y < width) {
            output[y * height + x] = tile[threadIdx.x][row];
        }
    }
}

static inline bool operator==(const int4 &a, const int4 &b) {
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

template <typename T> static void fill(T &value, Random &random) { value = static_cast<T>(random.next()); }
static void fill(int4 &value, Random &random) {
    value.x = random.below(1000);
    value.y = random.below(1000);
    value.z = random.below(1000);
    value.w = random.below(1000);
}

template <typename T> static void run(const char *name, int width, int height, Verdict &verdict) {
    Random random(9);
    std::vector<T> input(width * height), expected(width * height);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            fill(input[y * width + x], random);
            expected[x * height + y] = input[y * width + x];
        }
    }
    DeviceArray<T> device_input(input), device_output(input.size());
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);

    transpose_naive<<<grid, dim3(TILE, TILE)>>>(device_input.get(), device_output.get(), width, height);
    CHECK_LAUNCH();
    verdict.expect(device_output.download() == expected, "naive transpose");

    device_output.zero();
    transpose_tiled<<<grid, dim3(TILE, ROWS)>>>(device_input.get(), device_output.get(), width, height);
    CHECK_LAUNCH();
    std::vector<T> output = device_output.download();
    verdict.expect(output == expected, "tiled transpose");
    print_checksum(name, output);
}

int main() {
    Verdict verdict;
    run<float>("float", 200, 130, verdict);
    run<unsigned char>("char", 96, 64, verdict);
    run<short>("short", 33, 129, verdict);
    run<double>("double", 100, 70, verdict);
    run<int4>("int4", 65, 31, verdict);
    return verdict.finish();
}
