// Copies to the device of bytes that were sent before, that were not, and that compress.
//   payloads SCENARIO [COUNT]; prints "ok" when every byte on the device was what had been copied there.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define OK(call)                                                                                      \
    do {                                                                                              \
        cudaError_t got = (call);                                                                     \
        if (got != cudaSuccess) {                                                                     \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(got));       \
            std::exit(1);                                                                             \
        }                                                                                             \
    } while (0)

using Bytes = std::vector<unsigned char>;

static Bytes noise(size_t length, uint64_t seed) {
    Bytes bytes(length);
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (auto &byte : bytes) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        byte = (unsigned char)(state >> 32);
    }
    return bytes;
}

static void expect(const void *device, const Bytes &bytes, const char *what) {
    Bytes found(bytes.size());
    OK(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost));
    if (found != bytes) {
        std::fprintf(stderr, "%s: other bytes came back\n", what);
        std::exit(1);
    }
}

// The same buffer again and again, the device's copy spoilt in between.
static void again(int count) {
    const size_t size = 1 << 20;
    Bytes bytes = noise(size, 1);
    char *device;
    OK(cudaMalloc(&device, size));
    for (int i = 0; i < count; i++) {
        OK(cudaMemset(device, i, size));
        OK(cudaMemcpy(device, bytes.data(), size, cudaMemcpyHostToDevice));
    }
    expect(device, bytes, "again");
}

// The same bytes, from other host memory, to other addresses.
static void elsewhere(int count) {
    const size_t size = 300000;
    Bytes bytes = noise(size, 2);
    std::vector<char *> devices(count);
    for (auto &device : devices) {
        OK(cudaMalloc(&device, size));
        Bytes copy = bytes;
        OK(cudaMemcpy(device, copy.data(), size, cudaMemcpyHostToDevice));
    }
    for (auto device : devices) expect(device, bytes, "elsewhere");
}

// One byte is another each time: nothing may be taken for something else.
static void fresh(int count) {
    const size_t size = 64 << 10;
    Bytes bytes = noise(size, 3);
    char *device;
    OK(cudaMalloc(&device, size));
    for (int i = 0; i < count; i++) {
        bytes[(i * 7919) % size] ^= 1 + i % 255;
        OK(cudaMemcpy(device, bytes.data(), size, cudaMemcpyHostToDevice));
        if (i % 16 == 0) expect(device, bytes, "fresh");
    }
    expect(device, bytes, "fresh");
}

// More different payloads than the host keeps, in turn, so that each is dropped before it comes again.
static void turnover(int count) {
    const size_t size = 1 << 20;
    char *device;
    OK(cudaMalloc(&device, size));
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < count; i++) {
            Bytes bytes = noise(size, 100 + i);
            OK(cudaMemcpy(device, bytes.data(), size, cudaMemcpyHostToDevice));
            if (i % 32 == 0) expect(device, bytes, "turnover");
        }
}

// Bytes that compress.
static void zeros(int count) {
    const size_t size = 1 << 20;
    char *device;
    OK(cudaMalloc(&device, size));
    for (int i = 0; i < count; i++) {
        Bytes bytes(size, 0);
        std::memcpy(bytes.data() + 5000, &i, sizeof i);
        OK(cudaMemcpy(device, bytes.data(), size, cudaMemcpyHostToDevice));
        expect(device, bytes, "zeros");
    }
}

// Rows with gaps on both sides.
static void rows(int count) {
    const size_t width = 100, height = 200, host = 128;
    Bytes bytes = noise(host * height, 5);
    char *device;
    size_t pitch;
    OK(cudaMallocPitch(&device, &pitch, width, height));
    Bytes found(host * height);
    for (int i = 0; i < count; i++) {
        OK(cudaMemset2D(device, pitch, 0, width, height));
        OK(cudaMemcpy2D(device, pitch, bytes.data(), host, width, height, cudaMemcpyHostToDevice));
    }
    OK(cudaMemcpy2D(found.data(), host, device, pitch, width, height, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < height; y++)
        if (std::memcmp(&found[y * host], &bytes[y * host], width)) std::exit(1);
}

int main(int argc, char **argv) {
    std::string name = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? std::atoi(argv[2]) : 1;
    if (name == "again") again(count);
    else if (name == "elsewhere") elsewhere(count);
    else if (name == "fresh") fresh(count);
    else if (name == "turnover") turnover(count);
    else if (name == "zeros") zeros(count);
    else if (name == "rows") rows(count);
    else return 2;
    std::puts("ok");
}
