// Dynamic parallelism: kernels that launch kernels. A recursive quicksort; a parent with children for each block and a tail launch that adds up
// what they left, in a loop; streams, copies and sets of a block, in order; a chain of nested grids; launches that are refused, and the device's errors.
#include "../support.cuh"

#include <algorithm>

constexpr int SMALL = 24;
constexpr int BLOCKS = 6;
constexpr int PART = 40;

__global__ void quicksort(int *data, int left, int right, int depth) {
    if (depth == 12 || right - left <= SMALL) {
        for (int i = left + 1; i <= right; ++i) {
            int value = data[i], j = i - 1;
            for (; j >= left && data[j] > value; --j) {
                data[j + 1] = data[j];
            }
            data[j + 1] = value;
        }
        return;
    }
    int low = left, high = right, pivot = data[(left + right) / 2];
    while (low <= high) {
        while (data[low] < pivot) {
            ++low;
        }
        while (data[high] > pivot) {
            --high;
        }
        if (low <= high) {
            int value = data[low];
            data[low++] = data[high];
            data[high--] = value;
        }
    }
    if (left < high) {
        cudaStream_t stream;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        quicksort<<<1, 1, 0, stream>>>(data, left, high, depth + 1);
        cudaStreamDestroy(stream);
    }
    if (low < right) {
        quicksort<<<1, 1, 0, cudaStreamFireAndForget>>>(data, low, right, depth + 1);
    }
}

struct Piece {
    const int *from;
    int length;
    double weight;
    char tag;
};

__global__ void weigh(Piece piece, int *sum) {
    extern __shared__ int shared[];
    int value = threadIdx.x < piece.length ? static_cast<int>(piece.from[threadIdx.x] * piece.weight) + piece.tag : 0;
    shared[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int i = 0; i < blockDim.x; ++i) {
            total += shared[i];
        }
        *sum = total;
    }
}

__global__ void add_up(const int *sums, int count, long long *total) {
    for (int i = 0; i < count; ++i) {
        *total += sums[i];
    }
}

__global__ void parent(const int *data, int *sums, long long *total, double weight) {
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            add_up<<<1, 1, 0, cudaStreamTailLaunch>>>(sums, gridDim.x, total);
        }
        Piece piece{data + blockIdx.x * PART, PART, weight, static_cast<char>(blockIdx.x)};
        weigh<<<1, 64, 64 * sizeof(int)>>>(piece, sums + blockIdx.x);
    }
}

__global__ void step(int *value, int factor, int addend) { *value = *value * factor + addend; }

__global__ void in_order(int *values) {
    __shared__ cudaStream_t stream;
    int *value = values + 2 * blockIdx.x;
    if (threadIdx.x == 0) {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaMemsetAsync(value, 0, 2 * sizeof(int), stream);
        step<<<1, 1, 0, stream>>>(value, 3, 1 + blockIdx.x);
    }
    __syncthreads();
    if (threadIdx.x == 33) {
        step<<<1, 1, 0, stream>>>(value, 5, 2);
        cudaMemcpyAsync(value + 1, value, sizeof(int), cudaMemcpyDeviceToDevice, stream);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        cudaEvent_t event;
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        cudaEventRecord(event, stream);
        cudaStreamWaitEvent(stream, event, 0);
        cudaEventDestroy(event);
        step<<<1, 1, 0, stream>>>(value, 7, 3);
        cudaStreamDestroy(stream);
    }
}

__global__ void chain(int *reached, int depth) {
    *reached = depth;
    if (depth < 20) {
        chain<<<1, 1>>>(reached, depth + 1);
    }
}

// Rows and slices: sets and copies whose ranges have gaps.
__global__ void shapes(char *bytes, int *codes) {
    codes[0] = cudaMemset2DAsync(bytes, 64, 7, 10, 5, 0);
    codes[1] = cudaMemcpy2DAsync(bytes + 512, 32, bytes, 64, 10, 5, cudaMemcpyDeviceToDevice, 0);
    codes[2] = cudaMemset3DAsync(cudaPitchedPtr{bytes + 1024, 32, 20, 4}, 9, cudaExtent{16, 3, 2}, 0);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = cudaPitchedPtr{bytes + 1024, 32, 20, 4};
    copy.srcPos = cudaPos{1, 1, 0};
    copy.dstPtr = cudaPitchedPtr{bytes + 1536, 24, 24, 4};
    copy.dstPos = cudaPos{2, 0, 1};
    copy.extent = cudaExtent{15, 2, 2};
    copy.kind = cudaMemcpyDeviceToDevice;
    codes[3] = cudaMemcpy3DAsync(&copy, 0);
    codes[4] = cudaMemcpy2DAsync(bytes, 8, bytes + 64, 64, 10, 5, cudaMemcpyDeviceToDevice, 0);
    codes[5] = cudaMemcpy2DAsync(bytes, 64, bytes + 64, 64, 10, 5, cudaMemcpyHostToDevice, 0);
    codes[6] = cudaMemset2DAsync(bytes, 64, 1, 0, 5, 0);
}

__global__ void refused(int *found) {
    step<<<1, 5000>>>(found, 1, 1);
    found[1] = cudaPeekAtLastError();
    found[2] = cudaGetLastError();
    found[3] = cudaGetLastError();
    step<<<0, 1>>>(found, 1, 1);
    found[4] = cudaGetLastError();
    int device = -1, threads = 0;
    found[5] = cudaGetDevice(&device);
    found[6] = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device);
    found[7] = threads;
    printf("%s: %s\n", cudaGetErrorName(cudaErrorInvalidConfiguration), cudaGetErrorString(cudaErrorInvalidConfiguration));
}

__global__ void count(int *counted) { atomicAdd(counted, 1); }

__global__ void many(int *counted, int *good) {
    count<<<1, 1, 0, cudaStreamTailLaunch>>>(counted);
    if (cudaGetLastError() == cudaSuccess) {
        atomicAdd(good, 1);
    }
}

int main() {
    bool right = true;
    Random random(5);

    std::vector<int> values(700);
    for (int &value : values) {
        value = static_cast<int>(random.below(1000));
    }
    int *data;
    CHECK(cudaMalloc(&data, values.size() * sizeof(int)));
    CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(int), cudaMemcpyHostToDevice));
    quicksort<<<1, 1>>>(data, 0, static_cast<int>(values.size()) - 1, 0);
    CHECK_LAUNCH();
    std::vector<int> sorted(values.size());
    CHECK(cudaMemcpy(sorted.data(), data, sorted.size() * sizeof(int), cudaMemcpyDeviceToHost));
    std::sort(values.begin(), values.end());
    right &= sorted == values;
    std::printf("sorted %d\n", sorted == values);

    int *sums;
    long long *total, expected = 0, got = 0;
    CHECK(cudaMalloc(&sums, BLOCKS * sizeof(int)));
    CHECK(cudaMalloc(&total, sizeof(long long)));
    CHECK(cudaMemset(total, 0, sizeof(long long)));
    for (int i = 0; i < 12; ++i) {
        parent<<<BLOCKS, 32>>>(data, sums, total, 0.5 * i);
        for (int block = 0; block < BLOCKS; ++block) {
            for (int j = 0; j < PART; ++j) {
                expected += static_cast<int>(values[block * PART + j] * (0.5 * i)) + block;
            }
        }
    }
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(&got, total, sizeof got, cudaMemcpyDeviceToHost));
    right &= got == expected;
    std::printf("tail launches added up %lld of %lld\n", got, expected);

    int steps[8];
    in_order<<<4, 64>>>(data);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(steps, data, sizeof steps, cudaMemcpyDeviceToHost));
    for (int block = 0; block < 4; ++block) {
        int middle = (1 + block) * 5 + 2;
        right &= steps[2 * block] == middle * 7 + 3 && steps[2 * block + 1] == middle;
        std::printf("block %d: %d %d\n", block, steps[2 * block], steps[2 * block + 1]);
    }

    char *bytes;
    int codes[7];
    std::vector<char> filled(2048), shaped(2048);
    CHECK(cudaMalloc(&bytes, shaped.size()));
    CHECK(cudaMemset(bytes, 0, shaped.size()));
    shapes<<<1, 1>>>(bytes, data);
    CHECK(cudaMemcpy(shaped.data(), bytes, shaped.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(codes, data, sizeof codes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(bytes));
    for (int y = 0; y < 5; ++y) {
        std::fill_n(&filled[64 * y], 10, 7);
        std::fill_n(&filled[512 + 32 * y], 10, 7);
    }
    for (int z = 0; z < 2; ++z) {
        for (int y = 0; y < 3; ++y) {
            std::fill_n(&filled[1024 + 32 * (4 * z + y)], 16, 9);
        }
        for (int y = 0; y < 2; ++y) {
            std::fill_n(&filled[1536 + 24 * (4 * (z + 1) + y) + 2], 15, 9);
        }
    }
    right &= shaped == filled && codes[0] == 0 && codes[1] == 0 && codes[2] == 0 && codes[3] == 0 && codes[6] == 0;
    right &= codes[4] == cudaErrorInvalidPitchValue && codes[5] == cudaErrorInvalidMemcpyDirection;
    std::printf("rows and slices: %d\n", shaped == filled);

    int reached = 0;
    chain<<<1, 1>>>(data, 0);
    CHECK(cudaMemcpy(&reached, data, sizeof reached, cudaMemcpyDeviceToHost));
    right &= reached == 20;
    std::printf("nested %d deep\n", reached);

    int found[8];
    CHECK(cudaMemset(data, 0, sizeof found));
    refused<<<1, 1>>>(data);
    CHECK(cudaMemcpy(found, data, sizeof found, cudaMemcpyDeviceToHost));
    right &= found[0] == 0 && found[1] == cudaErrorInvalidConfiguration && found[2] == found[1] && found[3] == 0;
    right &= found[4] == cudaErrorInvalidConfiguration && found[5] == 0 && found[6] == 0 && found[7] == 1024;
    std::printf("refused %d %d, then %d; %d\n", found[1], found[2], found[3], found[4]);

    CHECK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 40));
    CHECK(cudaMemset(data, 0, 2 * sizeof(int)));
    many<<<2, 32>>>(data, data + 1);
    CHECK(cudaMemcpy(found, data, 2 * sizeof(int), cudaMemcpyDeviceToHost));
    right &= found[0] == found[1] && found[0] > 0;
    std::printf("every launch that was accepted ran: %d\n", found[0] == found[1]);

    CHECK(cudaFree(data));
    CHECK(cudaFree(sums));
    CHECK(cudaFree(total));
    std::printf(right ? "PASS\n" : "FAIL\n");
    return right ? 0 : 1;
}
