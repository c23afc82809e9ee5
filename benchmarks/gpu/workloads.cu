// The workloads of `make bench-gpu`: each times its own region, which ends with a synchronization, and prints milliseconds and a checksum.
// usage: workloads NAME [SCALE]
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));            \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

static double scale = 1.0;

static int scaled(int n) { return std::max(1, static_cast<int>(n * scale)); }

template <typename T> T *on_device(size_t count) {
    T *pointer;
    CHECK(cudaMalloc(&pointer, count * sizeof(T)));
    CHECK(cudaMemset(pointer, 0, count * sizeof(T)));
    return pointer;
}

template <typename T> T *uploaded(const std::vector<T> &values) {
    T *pointer;
    CHECK(cudaMalloc(&pointer, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

// Milliseconds from its making to `stop`, with a synchronization before each.
struct Timer {
    Timer() {
        CHECK(cudaDeviceSynchronize());
        begin = std::chrono::steady_clock::now();
    }

    double stop() const {
        CHECK(cudaDeviceSynchronize());
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }

    std::chrono::steady_clock::time_point begin;
};

static double timed(const std::function<void()> &region) {
    Timer timer;
    region();
    return timer.stop();
}

__global__ void bump(float *x, float by) { x[threadIdx.x] += by; }

// 10,000 launches of next to nothing.
static double launches(double *sum) {
    float *x = on_device<float>(32), first[32];
    auto region = [&] {
        for (int i = 0; i < scaled(10000); ++i) {
            bump<<<1, 32>>>(x, 1.0f);
        }
    };
    timed(region);
    double time = timed(region);
    CHECK(cudaMemcpy(first, x, sizeof first, cudaMemcpyDeviceToHost));
    *sum = first[0];
    return time;
}

// The same with an argument that changes: what a graph must be told anew.
static double changing(double *sum) {
    float *x = on_device<float>(32), first[32];
    auto region = [&] {
        for (int i = 0; i < scaled(10000); ++i) {
            bump<<<1, 32>>>(x, static_cast<float>(i % 7));
        }
    };
    timed(region);
    double time = timed(region);
    CHECK(cudaMemcpy(first, x, sizeof first, cudaMemcpyDeviceToHost));
    *sum = first[0];
    return time;
}

// A launch and a synchronization, 1,000 times: what waiting for the GPU costs.
static double synced(double *sum) {
    float *x = on_device<float>(32), first[32];
    auto region = [&] {
        for (int i = 0; i < scaled(1000); ++i) {
            bump<<<1, 32>>>(x, 1.0f);
            CHECK(cudaDeviceSynchronize());
        }
    };
    timed(region);
    double time = timed(region);
    CHECK(cudaMemcpy(first, x, sizeof first, cudaMemcpyDeviceToHost));
    *sum = first[0];
    return time;
}

// Four bytes are read in each of 1,000 iterations, and decide whether there is another.
static double reading(double *sum) {
    float *x = on_device<float>(32), last = 0;
    int most = scaled(1000);
    bump<<<1, 32>>>(x, 0.0f);
    Timer timer;
    for (int i = 0; i < most && last < 1e6f; ++i) {
        bump<<<1, 32>>>(x, 1.0f);
        CHECK(cudaMemcpy(&last, x, sizeof last, cudaMemcpyDeviceToHost));
    }
    *sum = last;
    return timer.stop();
}

// Pageable memory one way, 64 MiB at a time, other bytes each time.
static double one_way(double *sum, bool up) {
    size_t count = static_cast<size_t>(scaled(16 << 20));
    std::vector<uint32_t> values(count);
    uint32_t *x = on_device<uint32_t>(count);
    auto region = [&] {
        for (int round = 0; round < 8; ++round) {
            if (up) {
                for (size_t i = 0; i < count; i += 1024) {
                    values[i] = round + static_cast<uint32_t>(i);
                }
                CHECK(cudaMemcpy(x, values.data(), count * 4, cudaMemcpyHostToDevice));
            } else {
                CHECK(cudaMemcpy(values.data(), x, count * 4, cudaMemcpyDeviceToHost));
            }
        }
    };
    timed(region);
    double time = timed(region);
    CHECK(cudaMemcpy(values.data(), x, count * 4, cudaMemcpyDeviceToHost));
    *sum = values[1024] + values[count - 1024];
    return time;
}

static double upload(double *sum) { return one_way(sum, true); }
static double download(double *sum) { return one_way(sum, false); }

// Pageable memory to the device and back, 64 MiB at a time.
static double copies(double *sum) {
    size_t count = static_cast<size_t>(scaled(16 << 20));
    std::vector<uint32_t> values(count), back(count);
    for (size_t i = 0; i < count; ++i) {
        values[i] = static_cast<uint32_t>(i * 2654435761u);
    }
    uint32_t *x = on_device<uint32_t>(count);
    double time = timed([&] {
        for (int round = 0; round < 4; ++round) {
            values[0] = round;
            CHECK(cudaMemcpy(x, values.data(), count * 4, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(back.data(), x, count * 4, cudaMemcpyDeviceToHost));
        }
    });
    *sum = back[0] + back[count - 1];
    return time;
}

__global__ void multiply(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        }
        __syncthreads();
    }
    c[row * n + column] = sum;
}

static double matmul(double *sum) {
    int n = std::max(16, static_cast<int>(4096 * std::cbrt(scale)) / 16 * 16);
    std::vector<float> values(static_cast<size_t>(n) * n);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % 13) - 6;
    }
    float *a = uploaded(values), *b = uploaded(values), *c = on_device<float>(values.size());
    dim3 grid(n / 16, n / 16), block(16, 16);
    auto region = [&] {
        for (int i = 0; i < 10; ++i) {
            multiply<<<grid, block>>>(a, b, c, n);
        }
    };
    timed(region);
    double time = timed(region);
    CHECK(cudaMemcpy(values.data(), c, values.size() * 4, cudaMemcpyDeviceToHost));
    *sum = values[1] + values[values.size() - 1];
    return time;
}

__global__ void laplace(const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.5 * x[i] - (i ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0);
    }
}

__global__ void dot(const double *a, const double *b, double *result, int n) {
    __shared__ double part[256];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        sum += a[i] * b[i];
    }
    part[threadIdx.x] = sum;
    for (int width = 128; width; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width) {
            part[threadIdx.x] += part[threadIdx.x + width];
        }
    }
    if (!threadIdx.x) {
        *result = part[0];
    }
}

__global__ void axpy(double *y, const double *x, double factor, double keep, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = keep * y[i] + factor * x[i];
    }
}

// Conjugate gradient; the host reads two dot products in each iteration.
static double cg(double *sum) {
    int n = 1 << 16, blocks = n / 256, iterations = scaled(300);
    std::vector<double> right(n);
    for (int i = 0; i < n; ++i) {
        right[i] = 1 + i % 5;
    }
    double *x = on_device<double>(n), *r = uploaded(right), *p = uploaded(right), *q = on_device<double>(n);
    double *result = on_device<double>(1);
    Timer timer;
    double old, curvature, now;
    dot<<<1, 256>>>(r, r, result, n);
    CHECK(cudaMemcpy(&old, result, 8, cudaMemcpyDeviceToHost));
    for (int i = 0; i < iterations && old > 1e-12; ++i) {
        laplace<<<blocks, 256>>>(p, q, n);
        dot<<<1, 256>>>(p, q, result, n);
        CHECK(cudaMemcpy(&curvature, result, 8, cudaMemcpyDeviceToHost));
        double alpha = old / curvature;
        axpy<<<blocks, 256>>>(x, p, alpha, 1, n);
        axpy<<<blocks, 256>>>(r, q, -alpha, 1, n);
        dot<<<1, 256>>>(r, r, result, n);
        CHECK(cudaMemcpy(&now, result, 8, cudaMemcpyDeviceToHost));
        axpy<<<blocks, 256>>>(p, r, 1, now / old, n);
        old = now;
    }
    double time = timer.stop();
    CHECK(cudaMemcpy(right.data(), x, n * 8, cudaMemcpyDeviceToHost));
    *sum = right[n / 2];
    return time;
}

__global__ void relax(const float *from, float *to, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
        to[y * n + x] = 0.25f * (from[y * n + x - 1] + from[y * n + x + 1] + from[(y - 1) * n + x] + from[(y + 1) * n + x]);
    }
}

// Two fields in turns.
static double stencil(double *sum) {
    int n = 1024;
    std::vector<float> field(n * n);
    for (int i = 0; i < n; ++i) {
        field[i] = 100;
    }
    float *from = uploaded(field), *to = uploaded(field);
    dim3 grid(n / 32, n / 8), block(32, 8);
    double time = timed([&] {
        for (int i = 0; i < scaled(2000); ++i) {
            relax<<<grid, block>>>(from, to, n);
            std::swap(from, to);
        }
    });
    CHECK(cudaMemcpy(field.data(), from, field.size() * 4, cudaMemcpyDeviceToHost));
    *sum = field[3 * n + n / 2];
    return time;
}

__global__ void expand(const int *offsets, const int *targets, int *level, int depth, int *changed, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < n && level[node] == depth) {
        for (int k = offsets[node]; k < offsets[node + 1]; ++k) {
            if (level[targets[k]] < 0) {
                level[targets[k]] = depth + 1;
                *changed = 1;
            }
        }
    }
}

// Breadth-first search; the host reads a flag after each level.
static double bfs(double *sum) {
    int n = 1 << 16, degree = 4;
    std::vector<int> offsets(n + 1), targets(static_cast<size_t>(n) * degree), level(n, -1);
    for (int i = 0; i <= n; ++i) {
        offsets[i] = i * degree;
    }
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < degree; ++k) {
            targets[i * degree + k] = k < 2 ? (i + k * 2 - 1 + n) % n : (i + 97 * k) % n;
        }
    }
    level[0] = 0;
    int *o = uploaded(offsets), *t = uploaded(targets), *l = uploaded(level), *flag = on_device<int>(1);
    Timer timer;
    for (int depth = 0, changed = 1; changed; ++depth) {
        changed = 0;
        CHECK(cudaMemset(flag, 0, 4));
        expand<<<n / 256, 256>>>(o, t, l, depth, flag, n);
        CHECK(cudaMemcpy(&changed, flag, 4, cudaMemcpyDeviceToHost));
    }
    double time = timer.stop();
    CHECK(cudaMemcpy(level.data(), l, n * 4, cudaMemcpyDeviceToHost));
    for (int each : level) {
        *sum += each;
    }
    return time;
}

// From nothing to the first kernel's end.
static double first(double *sum) {
    auto begin = std::chrono::steady_clock::now();
    float *x = on_device<float>(32), values[32];
    bump<<<1, 32>>>(x, 1.0f);
    CHECK(cudaMemcpy(values, x, sizeof values, cudaMemcpyDeviceToHost));
    *sum = values[0];
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

int main(int count, char **arguments) {
    struct {
        const char *name;
        double (*run)(double *);
    } table[] = {
        {"launches", launches}, {"changing", changing}, {"synced", synced},   {"reading", reading}, {"upload", upload},
        {"download", download}, {"copies", copies},     {"matmul", matmul},   {"cg", cg},           {"stencil", stencil},
        {"bfs", bfs},           {"first", first},
    };
    scale = count > 2 ? std::atof(arguments[2]) : 1.0;
    for (auto &entry : table) {
        if (count > 1 && !std::strcmp(entry.name, arguments[1])) {
            double sum = 0, time = entry.run(&sum);
            CHECK(cudaDeviceSynchronize());
            std::printf("{\"milliseconds\": %.6f, \"checksum\": %.10g}\n", time, sum);
            return 0;
        }
    }
    std::fprintf(stderr, "usage: workloads NAME [SCALE]\n");
    return 2;
}
