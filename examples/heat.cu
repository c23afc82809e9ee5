// Heat spreading over a metal plate: an ordinary CUDA program that knows nothing of Farlane.
//
// A plate with a hot disc and a cold rim is stepped forward in time with a five-point stencil. Two buffers change places
// after every step. Every REPORT_EVERY steps a reduction sums the plate's heat and finds the hottest point, and the host
// prints both. At the end the CPU computes the same and the results are compared.
//
//     nvcc -O3 -cudart shared heat.cu -o heat
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

constexpr int WIDTH = 192, HEIGHT = 128, CELLS = WIDTH * HEIGHT;
constexpr int STEPS = 400, REPORT_EVERY = 100;
constexpr float CONDUCTION = 0.2f;
constexpr int THREADS = 256;

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        cudaError_t error = (call);                                                                   \
        if (error != cudaSuccess) {                                                                   \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));       \
            std::exit(1);                                                                             \
        }                                                                                             \
    } while (0)

// One cell, one step. The rim is kept at its temperature.
__host__ __device__ inline float stepped(const float *plate, int x, int y) {
    int i = y * WIDTH + x;
    if (x == 0 || y == 0 || x == WIDTH - 1 || y == HEIGHT - 1) {
        return plate[i];
    }
    float flow = plate[i - 1] + plate[i + 1] + plate[i - WIDTH] + plate[i + WIDTH] - 4.0f * plate[i];
    return plate[i] + CONDUCTION * flow;
}

__global__ void step(const float *from, float *to) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < WIDTH && y < HEIGHT) {
        to[y * WIDTH + x] = stepped(from, x, y);
    }
}

// Each block's sum and maximum, by a tree in shared memory.
__global__ void summarise(const float *plate, double *sums, float *maxima) {
    __shared__ double sum[THREADS];
    __shared__ float maximum[THREADS];
    int t = threadIdx.x;
    sum[t] = 0.0;
    maximum[t] = 0.0f;
    for (int i = blockIdx.x * THREADS + t; i < CELLS; i += gridDim.x * THREADS) {
        sum[t] += plate[i];
        maximum[t] = fmaxf(maximum[t], plate[i]);
    }
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sum[t] += sum[t + half];
            maximum[t] = fmaxf(maximum[t], maximum[t + half]);
        }
    }
    if (t == 0) {
        sums[blockIdx.x] = sum[0];
        maxima[blockIdx.x] = maximum[0];
    }
}

static std::vector<float> hot_disc() {
    std::vector<float> plate(CELLS, 0.0f);
    for (int y = 0; y < HEIGHT; ++y) {
        for (int x = 0; x < WIDTH; ++x) {
            float dx = x - WIDTH * 0.4f, dy = y - HEIGHT * 0.5f;
            if (dx * dx + dy * dy < 900.0f) {
                plate[y * WIDTH + x] = 100.0f;
            }
        }
    }
    return plate;
}

static void draw(const std::vector<float> &plate) {
    const char shades[] = " .:-=+*#%@";
    for (int y = 4; y < HEIGHT; y += 8) {
        for (int x = 2; x < WIDTH; x += 4) {
            std::putchar(shades[static_cast<int>(std::fmin(plate[y * WIDTH + x] / 10.0f, 9.0f))]);
        }
        std::putchar('\n');
    }
}

int main() {
    const std::vector<float> start = hot_disc();
    const size_t bytes = CELLS * sizeof(float);
    const int blocks = 24;
    float *current, *next, *maxima;
    double *sums;
    CHECK(cudaMalloc(&current, bytes));
    CHECK(cudaMalloc(&next, bytes));
    CHECK(cudaMalloc(&sums, blocks * sizeof(double)));
    CHECK(cudaMalloc(&maxima, blocks * sizeof(float)));
    CHECK(cudaMemcpy(current, start.data(), bytes, cudaMemcpyHostToDevice));

    const dim3 block(32, 8), grid((WIDTH + 31) / 32, (HEIGHT + 7) / 8);
    for (int t = 1; t <= STEPS; ++t) {
        step<<<grid, block>>>(current, next);
        CHECK(cudaGetLastError());
        std::swap(current, next);
        if (t % REPORT_EVERY == 0) {
            double block_sums[blocks], heat = 0.0;
            float block_maxima[blocks], hottest = 0.0f;
            summarise<<<blocks, THREADS>>>(current, sums, maxima);
            CHECK(cudaMemcpy(block_sums, sums, sizeof block_sums, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(block_maxima, maxima, sizeof block_maxima, cudaMemcpyDeviceToHost));
            for (int i = 0; i < blocks; ++i) {
                heat += block_sums[i];
                hottest = std::fmax(hottest, block_maxima[i]);
            }
            std::printf("step %3d: heat %.1f, hottest point %.2f\n", t, heat, hottest);
        }
    }
    std::vector<float> plate(CELLS);
    CHECK(cudaMemcpy(plate.data(), current, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(current));
    CHECK(cudaFree(next));
    CHECK(cudaFree(sums));
    CHECK(cudaFree(maxima));
    draw(plate);

    std::vector<float> expected = start, other(CELLS);
    for (int t = 0; t < STEPS; ++t) {
        for (int i = 0; i < CELLS; ++i) {
            other[i] = stepped(expected.data(), i % WIDTH, i / WIDTH);
        }
        std::swap(expected, other);
    }
    float difference = 0.0f;
    for (int i = 0; i < CELLS; ++i) {
        float d = std::fabs(plate[i] - expected[i]);
        difference = d > difference || std::isnan(d) ? d : difference;
    }
    bool right = difference < 0.001f;  // the GPU fuses multiplications and additions, the CPU does not
    std::printf("%s the CPU's result\n", right ? "agrees with" : "DIFFERS from");
    return right ? 0 : 1;
}
