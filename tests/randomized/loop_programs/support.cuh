// What every generated program uses: kernels, checks, output. Compiled with nvcc or clang against CUDA, or with a C++ compiler
// against emulated.h, whose output is the expectation.
//
// The kernels only use unsigned integers. Each maps old contents to new ones by x -> odd * x + value, so that a lost, repeated
// or reordered call changes everything after it. None has a race: a thread writes its own element only, or one thread writes.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#ifdef EMULATED
#include "emulated.h"
#define LAUNCH(kernel, grid, block, shared, stream, ...) emulated::launch(kernel, grid, block, shared, stream, __VA_ARGS__)
#define DYNAMIC_SHARED(name) u32 *name = emulated::shared_memory
#else
#include <cuda_runtime.h>
#define LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define DYNAMIC_SHARED(name) extern __shared__ u32 name[]
#endif

#define APART __attribute__((noinline))
#define EACH(n)                                      \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i >= (n)) return;
#define ONE_THREAD \
    if ((blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x | threadIdx.y | threadIdx.z) != 0) return;

constexpr u32 COEFFICIENTS = 16;
__constant__ u32 coefficients[COEFFICIENTS];

struct Parameters {
    u32 *target;
    u32 n;
    u16 small;
    u64 key;
};

__global__ void fill(u32 *d, u32 n, u32 v) { EACH(n) d[i] = v + 2654435761u * i; }
__global__ void add(u32 *d, u32 n, u32 v) { EACH(n) d[i] = d[i] * 3u + v + i; }
__global__ void twist(u32 *d, u32 n) { EACH(n) d[i] = d[i] * 2891336453u + 7u * i + 1u; }
__global__ void blend(u32 *y, const u32 *x, u32 n, u32 a) { EACH(n) y[i] = y[i] * 5u + a * x[i]; }
__global__ void gather(const u32 *in, u32 *out, u32 n, u32 shift) {
    EACH(n) out[i] = out[i] * 11u + in[(i + shift % n) % n];
}
__global__ void stencil(const u32 *in, u32 *out, u32 n) {
    EACH(n) out[i] = out[i] * 7u + in[i] * 5u + in[i == 0 ? n - 1 : i - 1] * 3u + in[i + 1 == n ? 0 : i + 1] + 1u;
}
__global__ void poke(u32 *d, u32 index, u32 v) { ONE_THREAD d[index] = d[index] * 31u + v; }
__global__ void shape(u32 *d, u32 index) {
    ONE_THREAD d[index] = d[index] * 13u + gridDim.x + 37u * gridDim.y + 1031u * blockDim.x + 70001u * blockDim.y;
}
__global__ void digest(const u32 *d, u32 n, u32 *result, u32 index) {
    ONE_THREAD u32 h = 2166136261u;
    for (u32 k = 0; k < n; ++k) h = (h ^ d[k]) * 16777619u;
    result[index] = result[index] * 23u + h;
}
__global__ void total(const u32 *d, u32 n, u32 *sum) { EACH(n) atomicAdd(sum, d[i]); }
__global__ void widths(u32 *d, u32 n, u16 a, u8 b, u64 c, float f) {
    EACH(n) d[i] = d[i] * 7u + a + b * 65536u + u32(c >> 13) + u32(f);
}
__global__ void structure(Parameters p, u32 v) {
    EACH(p.n) p.target[i] = p.target[i] * 17u + p.small + u32(p.key) + u32(p.key >> 32) * 3u + v;
}
__global__ void constant_memory(u32 *d, u32 n) { EACH(n) d[i] = d[i] * 9u + coefficients[i % COEFFICIENTS]; }
__global__ void scratch(u32 *d, u32 n, u32 v) {
    DYNAMIC_SHARED(own);
    EACH(n) own[threadIdx.x] = d[i] + v;
    d[i] = own[threadIdx.x] * 19u;
}
__global__ void decide(u32 *flag, const u32 *d, u32 index, u32 modulus) { ONE_THREAD *flag = d[index] % modulus == 0u; }

// A program's output: printed at once, or kept until its thread has ended.
class Out {
  public:
    explicit Out(bool keep = false) : keep(keep) {}
    template <typename... Values> void line(const char *format, Values... values) {
        char text[256];
        std::snprintf(text, sizeof text, format, values...);
        if (keep) {
            kept += text;
        } else {
            std::fputs(text, stdout);
        }
    }
    void print_kept() const { std::fputs(kept.c_str(), stdout); }

  private:
    bool keep;
    std::string kept;
};

static APART u32 hash_of(const u32 *values, u32 n) {
    u32 h = 2166136261u;
    for (u32 i = 0; i < n; ++i) h = (h ^ values[i]) * 16777619u;
    return h;
}

// What a function of the host works on that is called in a stream.
struct Folded {
    const u32 *values;
    u32 n, sum;
};
static APART void fold(void *data) {
    Folded *folded = static_cast<Folded *>(data);
    folded->sum = folded->sum * 31u + hash_of(folded->values, folded->n);
}

// The compiler cannot know what it returns.
static APART u32 opaque(u32 value) {
    static volatile u32 zero;
    return value + zero;
}

static inline u32 next_random(u32 &state) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static APART u32 mixed(u32 value) { return (value ^ value >> 15) * 2246822519u; }

static APART void failed(int line, cudaError_t error) {
    std::printf("line %d: %s\n", line, cudaGetErrorName(error));
    std::fflush(stdout);
    std::exit(1);
}

#define CHECK(call)                                          \
    do {                                                     \
        cudaError_t error = (call);                          \
        if (error != cudaSuccess) failed(__LINE__, error);   \
    } while (0)

static inline void check_apart(cudaError_t error, int line) {
    if (error != cudaSuccess) failed(line, error);
}
#define CHECK_APART(call) check_apart(call, __LINE__)
