// The loops of `farlane bench roundtrips`: ordinary CUDA code, each function one pattern. Each prints a checksum of what the
// device holds at the end, which must be the same in every mode.
//
//     loops PATTERN
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

constexpr int N = 1024, BLOCK = 128, GRID = N / BLOCK;
constexpr size_t BYTES = N * sizeof(float);

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        cudaError_t error = (call);                                                                  \
        if (error != cudaSuccess) {                                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));      \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)

__global__ void accumulate(float *data, int amount, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = data[i] * 0.5f + static_cast<float>(amount);
}

__global__ void smooth(const float *from, float *to, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float left = i > 0 ? from[i - 1] : 0.0f, right = i + 1 < count ? from[i + 1] : 1.0f;
        to[i] = 0.25f * left + 0.5f * from[i] + 0.25f * right;
    }
}

// The largest change, as the bits of a float that is not negative.
__global__ void difference(const float *a, const float *b, unsigned *largest, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicMax(largest, __float_as_uint(fabsf(a[i] - b[i])));
}

__global__ void multiply(const double *x, double *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        double sum = 2.01 * x[i];
        if (i > 0) sum -= x[i - 1];
        if (i + 1 < count) sum -= x[i + 1];
        y[i] = sum;
    }
}

// One block, so that the order of additions is always the same.
__global__ void dot(const double *a, const double *b, double *result, int count) {
    __shared__ double shared[BLOCK];
    double sum = 0.0;
    for (int i = threadIdx.x; i < count; i += BLOCK) sum += a[i] * b[i];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int width = BLOCK / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) shared[threadIdx.x] += shared[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = shared[0];
}

__global__ void add_scaled(double *y, const double *x, double factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] += factor * x[i];
}

__global__ void scale_add(double *y, const double *x, double factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] + factor * y[i];
}

// The same with factors that stay on the device: sign * above / below.
__global__ void add_quotient(double *y, const double *x, const double *above, const double *below, double sign, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] += sign * *above / *below * x[i];
}

__global__ void quotient_add(double *y, const double *x, const double *above, const double *below, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] + *above / *below * y[i];
}

static uint64_t checksum(const void *bytes, size_t size) {
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const unsigned char *>(bytes)[i]) * 1099511628211ull;
    return hash;
}

static float *made() {
    float *data;
    CHECK(cudaMalloc(&data, BYTES));
    CHECK(cudaMemset(data, 0, BYTES));
    return data;
}

static void finish(float *data) {
    float host[N];
    CHECK(cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(data));
    std::printf("%016llx\n", static_cast<unsigned long long>(checksum(host, BYTES)));
}

static void repeated() {
    float *data = made();
    for (int i = 0; i < 4000; ++i) accumulate<<<GRID, BLOCK>>>(data, 7, N);
    finish(data);
}

static void affine() {
    float *data = made();
    for (int i = 0; i < 2000; ++i) {
        cudaMemsetAsync(data + i % N / 2, 0, 4, 0);
        accumulate<<<GRID, BLOCK>>>(data, 3 * i + 1, N);
    }
    finish(data);
}

static void stepping() {
    float *data = made();
    for (int i = 0; i < 3000; i += 1) accumulate<<<1, 32>>>(data + i / 4, i, 32);
    finish(data);
}

static void allocating() {
    float *data = made();
    for (int i = 0; i < 500; ++i) {
        float *fresh;
        CHECK(cudaMalloc(&fresh, BYTES));
        CHECK(cudaMemsetAsync(fresh, 0, BYTES, 0));
        smooth<<<GRID, BLOCK>>>(data, fresh, N);
        smooth<<<GRID, BLOCK>>>(fresh, data, N);
        CHECK(cudaFree(fresh));
    }
    finish(data);
}

static void mixed() {
    float *buffers[4] = {made(), made(), made(), made()};
    int amounts[16];
    for (int i = 0; i < 16; ++i) amounts[i] = i * i * 7 % 31;
    for (int i = 0; i < 800; ++i) {
        float *fresh;
        CHECK(cudaMalloc(&fresh, BYTES));
        accumulate<<<GRID, BLOCK>>>(buffers[i % 4], amounts[i % 16], N);
        smooth<<<GRID, BLOCK>>>(buffers[i % 4], fresh, N);
        CHECK(cudaMemcpyAsync(buffers[(i + 1) % 4], fresh, BYTES, cudaMemcpyDeviceToDevice, 0));
        CHECK(cudaFree(fresh));
    }
    for (float *buffer : buffers) finish(buffer);
}

static void nested() {
    float *data = made();
    for (int i = 0; i < 60; ++i)
        for (int j = 0; j < 32; ++j) accumulate<<<1, 32>>>(data + 32 * j, i, 32);
    finish(data);
}

static void triangular() {
    float *data = made();
    for (int i = 0; i < 60; ++i)
        for (int j = 0; j <= i; ++j) accumulate<<<1, 32>>>(data + 16 * j, i, 32);
    finish(data);
}

static void ping_pong() {
    float *from = made(), *to = made();
    for (int i = 0; i < 2000; ++i) {
        smooth<<<GRID, BLOCK>>>(from, to, N);
        std::swap(from, to);
    }
    finish(from);
    finish(to);
}

static void checked() {
    float *data = made();
    for (int i = 0; i < 1000; ++i) {
        accumulate<<<GRID, BLOCK>>>(data, i, N);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    finish(data);
}

static void unread() {
    float *data = made();
    std::vector<float> rows(1000);
    for (int i = 0; i < 1000; ++i) {
        accumulate<<<GRID, BLOCK>>>(data, i, N);
        CHECK(cudaMemcpy(&rows[i], data + i, sizeof(float), cudaMemcpyDeviceToHost));
    }
    std::printf("%016llx\n", static_cast<unsigned long long>(checksum(rows.data(), rows.size() * sizeof(float))));
    finish(data);
}

static void uploading() {
    float *data = made();
    std::vector<float> input(64 * N);
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 1000) * 0.25f;
    for (int epoch = 0; epoch < 10; ++epoch) {
        for (int batch = 0; batch < 64; ++batch) {
            float *fresh;
            CHECK(cudaMalloc(&fresh, BYTES));
            CHECK(cudaMemcpy(fresh, &input[batch * N], BYTES, cudaMemcpyHostToDevice));
            smooth<<<GRID, BLOCK>>>(fresh, data, N);
            CHECK(cudaFree(fresh));
        }
    }
    finish(data);
}

static void deciding() {
    float *data = made();
    float value = 1.0f;
    for (int i = 0; i < 300; ++i) {
        accumulate<<<GRID, BLOCK>>>(data, static_cast<int>(value) % 17 + i, N);
        CHECK(cudaMemcpy(&value, data + i % N, sizeof value, cudaMemcpyDeviceToHost));
    }
    finish(data);
}

static void converging() {
    float *from = made(), *to = made();
    unsigned *largest, bits = 0x3f800000u;
    CHECK(cudaMalloc(&largest, sizeof *largest));
    int iterations = 0;
    for (float change = 1.0f; change > 0.001f && iterations < 1000; ++iterations) {
        CHECK(cudaMemset(largest, 0, sizeof *largest));
        smooth<<<GRID, BLOCK>>>(from, to, N);
        difference<<<GRID, BLOCK>>>(from, to, largest, N);
        CHECK(cudaMemcpy(&bits, largest, sizeof bits, cudaMemcpyDeviceToHost));
        std::memcpy(&change, &bits, sizeof change);
        std::swap(from, to);
    }
    CHECK(cudaFree(largest));
    CHECK(cudaFree(to));
    std::printf("%d iterations\n", iterations);
    finish(from);
}

struct System {
    double *x, *residual, *direction, *product, *scalars;
    double right[N];

    System() {
        for (int i = 0; i < N; ++i) right[i] = 1.0 + 0.5 * (i * 37 % 11);
        for (double **vector : {&x, &residual, &direction, &product}) CHECK(cudaMalloc(vector, sizeof right));
        CHECK(cudaMalloc(&scalars, 3 * sizeof(double)));
        CHECK(cudaMemset(x, 0, sizeof right));
        CHECK(cudaMemcpy(residual, right, sizeof right, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(direction, right, sizeof right, cudaMemcpyHostToDevice));
    }

    void finish(int iterations) {
        CHECK(cudaMemcpy(right, x, sizeof right, cudaMemcpyDeviceToHost));
        for (double *vector : {x, residual, direction, product, scalars}) CHECK(cudaFree(vector));
        std::printf("%d iterations %016llx\n", iterations, static_cast<unsigned long long>(checksum(right, sizeof right)));
    }
};

// Conjugate gradient as textbooks have it: the host reads two dot products in every iteration.
static void cg_host() {
    System s;
    auto product_of = [&](const double *a, const double *b) {
        double value;
        dot<<<1, BLOCK>>>(a, b, s.scalars, N);
        CHECK(cudaMemcpy(&value, s.scalars, sizeof value, cudaMemcpyDeviceToHost));
        return value;
    };
    double square = product_of(s.residual, s.residual);
    const double target = square * 1e-20;
    int iterations = 0;
    for (; square > target && iterations < 500; ++iterations) {
        multiply<<<GRID, BLOCK>>>(s.direction, s.product, N);
        const double factor = square / product_of(s.direction, s.product);
        add_scaled<<<GRID, BLOCK>>>(s.x, s.direction, factor, N);
        add_scaled<<<GRID, BLOCK>>>(s.residual, s.product, -factor, N);
        const double next = product_of(s.residual, s.residual);
        scale_add<<<GRID, BLOCK>>>(s.direction, s.residual, next / square, N);
        square = next;
    }
    s.finish(iterations);
}

// The same with factors on the device: the host reads the residual in every iteration to see whether to stop.
static void cg_device() {
    System s;
    double *square = s.scalars, *next = s.scalars + 1, *curvature = s.scalars + 2;
    double value = 1.0;
    dot<<<1, BLOCK>>>(s.residual, s.residual, square, N);
    CHECK(cudaMemcpy(&value, square, sizeof value, cudaMemcpyDeviceToHost));
    const double target = value * 1e-20;
    int iterations = 0;
    for (; value > target && iterations < 500; ++iterations) {
        multiply<<<GRID, BLOCK>>>(s.direction, s.product, N);
        dot<<<1, BLOCK>>>(s.direction, s.product, curvature, N);
        add_quotient<<<GRID, BLOCK>>>(s.x, s.direction, square, curvature, 1.0, N);
        add_quotient<<<GRID, BLOCK>>>(s.residual, s.product, square, curvature, -1.0, N);
        dot<<<1, BLOCK>>>(s.residual, s.residual, next, N);
        quotient_add<<<GRID, BLOCK>>>(s.direction, s.residual, next, square, N);
        CHECK(cudaMemcpy(&value, next, sizeof value, cudaMemcpyDeviceToHost));
        std::swap(square, next);
    }
    s.finish(iterations);
}

// The same, looking at the residual every tenth time.
static void cg_tenth() {
    System s;
    double *square = s.scalars, *next = s.scalars + 1, *curvature = s.scalars + 2;
    double value = 1.0;
    dot<<<1, BLOCK>>>(s.residual, s.residual, square, N);
    CHECK(cudaMemcpy(&value, square, sizeof value, cudaMemcpyDeviceToHost));
    const double target = value * 1e-20;
    int iterations = 0;
    while (value > target && iterations < 500) {
        for (int inner = 0; inner < 10; ++inner, ++iterations) {
            multiply<<<GRID, BLOCK>>>(s.direction, s.product, N);
            dot<<<1, BLOCK>>>(s.direction, s.product, curvature, N);
            add_quotient<<<GRID, BLOCK>>>(s.x, s.direction, square, curvature, 1.0, N);
            add_quotient<<<GRID, BLOCK>>>(s.residual, s.product, square, curvature, -1.0, N);
            dot<<<1, BLOCK>>>(s.residual, s.residual, next, N);
            quotient_add<<<GRID, BLOCK>>>(s.direction, s.residual, next, square, N);
            std::swap(square, next);
        }
        CHECK(cudaMemcpy(&value, square, sizeof value, cudaMemcpyDeviceToHost));
    }
    s.finish(iterations);
}

int main(int count, char **arguments) {
    const struct {
        const char *name;
        void (*run)();
    } patterns[] = {
        {"repeated", repeated},     {"affine", affine},       {"stepping", stepping}, {"allocating", allocating},
        {"mixed", mixed},           {"nested", nested},       {"triangular", triangular}, {"ping-pong", ping_pong},
        {"checked", checked},       {"unread", unread},       {"uploading", uploading}, {"deciding", deciding},
        {"converging", converging}, {"cg-host", cg_host},     {"cg-device", cg_device}, {"cg-tenth", cg_tenth},
    };
    for (const auto &pattern : patterns) {
        if (count == 2 && !std::strcmp(arguments[1], pattern.name)) {
            pattern.run();
            return 0;
        }
    }
    std::fprintf(stderr, "usage: loops PATTERN\n");
    return 2;
}
