// Random copies and sets of every shape, in several streams, against a model in host memory: `copies_model SEED STEPS`.
// The model is exact because every step that another stream's steps could race with is ordered by an event first. Device memory and its
// model are compared whole from time to time, through a randomly chosen way of reading.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#define OK(call)                                                                                           \
    do {                                                                                                   \
        cudaError_t got = (call);                                                                          \
        if (got != cudaSuccess) {                                                                          \
            std::printf("step %d, line %d: %s: %s\n", step, __LINE__, #call, cudaGetErrorString(got));      \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

static const size_t PITCH = 512, ROWS = 16, SLICES = 12, SLICE = PITCH * ROWS, SMALL = SLICE * SLICES;
static const size_t LARGE = (5 << 20) + 77;
static const size_t SYMBOL = 3000;

__device__ unsigned char symbol[SYMBOL];

__global__ void add(unsigned char *bytes, size_t n, unsigned char value) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) bytes[i] += value;
}

static int step = -1;
static std::mt19937_64 generator;
static size_t below(size_t bound) { return generator() % bound; }

struct Memory {
    unsigned char *device;
    std::vector<unsigned char> model;
};

static std::vector<cudaStream_t> streams;
static cudaEvent_t latest;
static size_t current = 0;

// Some stream, ordered behind everything that was done in the one before.
static cudaStream_t next_stream() {
    size_t chosen = below(streams.size());
    if (chosen != current) {
        OK(cudaEventRecord(latest, streams[current]));
        OK(cudaStreamWaitEvent(streams[chosen], latest, 0));
        current = chosen;
    }
    return streams[chosen];
}

// The default stream waits for one of the blocking streams by itself, not for the other.
static void join_default_stream() {
    OK(cudaEventRecord(latest, streams[current]));
    OK(cudaStreamWaitEvent(nullptr, latest, 0));
    current = 0;
}

static std::vector<unsigned char> noise(size_t size) {
    std::vector<unsigned char> bytes(size);
    unsigned char seed = (unsigned char)generator();
    for (size_t i = 0; i < size; ++i) bytes[i] = (unsigned char)(seed + i * 7 + (i >> 8) * 3);
    return bytes;
}

static void expect(const unsigned char *got, const unsigned char *model, size_t size, const char *what) {
    for (size_t i = 0; i < size; ++i) {
        if (got[i] != model[i]) {
            std::printf("step %d: %s: byte %zu is %d, not %d\n", step, what, i, got[i], model[i]);
            std::exit(1);
        }
    }
}

struct Box {
    size_t x, y, z, width, height, depth;
    size_t offset() const { return z * SLICE + y * PITCH + x; }
    static Box random() {
        Box box;
        box.width = 1 + below(PITCH), box.height = 1 + below(ROWS), box.depth = 1 + below(SLICES);
        if (below(4) == 0) box.width = PITCH;
        if (below(4) == 0) box.height = ROWS;
        box.x = below(PITCH - box.width + 1), box.y = below(ROWS - box.height + 1), box.z = below(SLICES - box.depth + 1);
        return box;
    }
    template <typename Row>
    void each(Row row) const {
        for (size_t k = 0; k < depth; ++k)
            for (size_t j = 0; j < height; ++j) row(offset() + k * SLICE + j * PITCH, (k * height + j) * width);
    }
};

static void line(Memory &memory, std::vector<unsigned char> &symbol_model, unsigned char *pinned) {
    size_t size = memory.model.size(), offset = below(size), count = 1 + below(size - offset);
    bool async = below(2);
    cudaStream_t stream = next_stream();
    if (!async) join_default_stream(), stream = nullptr;
    unsigned char *model = &memory.model[offset], value = (unsigned char)generator();
    switch (below(7)) {
        case 0:
            OK(async ? cudaMemsetAsync(memory.device + offset, value, count, stream) : cudaMemset(memory.device + offset, value, count));
            std::memset(model, value, count);
            break;
        case 1: {
            std::vector<unsigned char> source = noise(count);
            std::memcpy(model, source.data(), count);
            cudaMemcpyKind kind = below(2) ? cudaMemcpyDefault : cudaMemcpyHostToDevice;
            OK(async ? cudaMemcpyAsync(memory.device + offset, source.data(), count, kind, stream)
                     : cudaMemcpy(memory.device + offset, source.data(), count, kind));
            std::memset(source.data(), 0xee, count);  // captured: this is too late
            break;
        }
        case 2: {
            std::vector<unsigned char> target(count);
            OK(async ? cudaMemcpyAsync(target.data(), memory.device + offset, count, cudaMemcpyDeviceToHost, stream)
                     : cudaMemcpy(target.data(), memory.device + offset, count, cudaMemcpyDeviceToHost));
            expect(target.data(), model, count, "copy to pageable memory");
            break;
        }
        case 3: {
            // To pinned memory and from there to another place of the device, without a synchronization in between.
            std::memset(pinned, 0xee, count);
            OK(cudaMemcpyAsync(pinned, memory.device + offset, count, cudaMemcpyDeviceToHost, stream));
            size_t to = below(size - count + 1);
            OK(cudaMemcpyAsync(memory.device + to, pinned, count, cudaMemcpyHostToDevice, stream));
            std::memmove(&memory.model[to], model, count);
            break;
        }
        case 4: {
            // Ranges that do not overlap.
            size_t half = size / 2, length = 1 + below(half), from = below(half - length + 1), to = half + below(half - length + 1);
            if (below(2)) std::swap(from, to);
            OK(async ? cudaMemcpyAsync(memory.device + to, memory.device + from, length, cudaMemcpyDeviceToDevice, stream)
                     : cudaMemcpy(memory.device + to, memory.device + from, length, cudaMemcpyDeviceToDevice));
            std::memcpy(&memory.model[to], &memory.model[from], length);
            break;
        }
        case 5:
            add<<<(count + 255) / 256, 256, 0, stream>>>(memory.device + offset, count, value);
            OK(cudaGetLastError());
            for (size_t i = 0; i < count; ++i) model[i] += value;
            break;
        case 6: {
            size_t at = below(SYMBOL), length = 1 + below(SYMBOL - at);
            if (length > count) length = count;
            if (below(2)) {
                OK(async ? cudaMemcpyToSymbolAsync(symbol, memory.device + offset, length, at, cudaMemcpyDeviceToDevice, stream)
                         : cudaMemcpyToSymbol(symbol, memory.device + offset, length, at, cudaMemcpyDeviceToDevice));
                std::memcpy(&symbol_model[at], model, length);
            } else {
                std::vector<unsigned char> target(length);
                OK(async ? cudaMemcpyFromSymbolAsync(target.data(), symbol, length, at, cudaMemcpyDeviceToHost, stream)
                         : cudaMemcpyFromSymbol(target.data(), symbol, length, at));
                expect(target.data(), &symbol_model[at], length, "copy from a variable");
            }
            break;
        }
    }
}

static void box(Memory &memory, unsigned char *pinned) {
    Box at = Box::random();
    bool async = below(2), flat = at.depth == 1;
    cudaStream_t stream = next_stream();
    if (!async) join_default_stream(), stream = nullptr;
    unsigned char value = (unsigned char)generator(), *start = memory.device + at.offset();
    size_t bytes = at.width * at.height * at.depth;
    cudaPitchedPtr device = make_cudaPitchedPtr(memory.device, PITCH, PITCH, ROWS);
    cudaMemcpy3DParms copy = {};
    copy.extent = make_cudaExtent(at.width, at.height, at.depth);
    switch (below(3)) {
        case 0:
            if (flat) {
                OK(async ? cudaMemset2DAsync(start, PITCH, value, at.width, at.height, stream)
                         : cudaMemset2D(start, PITCH, value, at.width, at.height));
            } else {
                cudaPitchedPtr corner = make_cudaPitchedPtr(start, PITCH, PITCH, ROWS);
                OK(async ? cudaMemset3DAsync(corner, value, copy.extent, stream) : cudaMemset3D(corner, value, copy.extent));
            }
            at.each([&](size_t offset, size_t) { std::memset(&memory.model[offset], value, at.width); });
            break;
        case 1: {
            std::vector<unsigned char> source = noise(bytes);
            at.each([&](size_t offset, size_t packed) { std::memcpy(&memory.model[offset], &source[packed], at.width); });
            if (flat) {
                OK(async ? cudaMemcpy2DAsync(start, PITCH, source.data(), at.width, at.width, at.height, cudaMemcpyHostToDevice, stream)
                         : cudaMemcpy2D(start, PITCH, source.data(), at.width, at.width, at.height, cudaMemcpyHostToDevice));
            } else {
                copy.srcPtr = make_cudaPitchedPtr(source.data(), at.width, at.width, at.height);
                copy.dstPtr = device, copy.dstPos = make_cudaPos(at.x, at.y, at.z), copy.kind = cudaMemcpyHostToDevice;
                OK(async ? cudaMemcpy3DAsync(&copy, stream) : cudaMemcpy3D(&copy));
            }
            break;
        }
        case 2: {
            std::vector<unsigned char> pageable(bytes, 0xee);
            unsigned char *target = below(2) ? pinned : pageable.data();
            if (flat) {
                OK(async ? cudaMemcpy2DAsync(target, at.width, start, PITCH, at.width, at.height, cudaMemcpyDeviceToHost, stream)
                         : cudaMemcpy2D(target, at.width, start, PITCH, at.width, at.height, cudaMemcpyDefault));
            } else {
                copy.srcPtr = device, copy.srcPos = make_cudaPos(at.x, at.y, at.z), copy.kind = cudaMemcpyDeviceToHost;
                copy.dstPtr = make_cudaPitchedPtr(target, at.width, at.width, at.height);
                OK(async ? cudaMemcpy3DAsync(&copy, stream) : cudaMemcpy3D(&copy));
            }
            if (async && target == pinned) OK(cudaStreamSynchronize(stream));
            at.each([&](size_t offset, size_t packed) {
                expect(target + packed, &memory.model[offset], at.width, flat ? "rows" : "box");
            });
            break;
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    generator.seed(std::atoi(argv[1]));
    int steps = std::atoi(argv[2]);
    cudaStream_t made[3];
    OK(cudaStreamCreate(&made[0]));
    OK(cudaStreamCreateWithFlags(&made[1], cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&made[2], cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&latest, cudaEventDisableTiming));
    streams = {nullptr, made[0], made[1], made[2]};
    unsigned char *pinned = nullptr;
    OK(cudaMallocHost(&pinned, LARGE));
    Memory memories[2];
    std::vector<unsigned char> symbol_model(SYMBOL, 0);
    for (size_t i = 0; i < 2; ++i) {
        memories[i].model = noise(i ? SMALL : LARGE);
        OK(cudaMalloc(&memories[i].device, memories[i].model.size()));
        OK(cudaMemcpy(memories[i].device, memories[i].model.data(), memories[i].model.size(), cudaMemcpyHostToDevice));
    }
    for (step = 0; step < steps; ++step) {
        if (below(2)) line(memories[below(8) ? 1 : 0], symbol_model, pinned);
        else box(memories[1], pinned);
        if (below(20) && step + 1 < steps) continue;
        OK(cudaDeviceSynchronize());
        for (Memory &memory : memories) {
            std::vector<unsigned char> all(memory.model.size());
            OK(cudaMemcpy(all.data(), memory.device, all.size(), cudaMemcpyDeviceToHost));
            expect(all.data(), memory.model.data(), all.size(), "all of it");
        }
    }
    OK(cudaFreeHost(pinned));
    for (Memory &memory : memories) OK(cudaFree(memory.device));
    std::puts("PASS");
    return 0;
}
