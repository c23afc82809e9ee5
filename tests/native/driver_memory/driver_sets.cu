// Sets of 8, 16 and 32 bits, in lines and rows, at once and in streams, in memory of every kind; compared with the same on the CPU.
#include "../driver.h"

#include <vector>

static const size_t BYTES = 4096;
static unsigned seed = 88172645u;
static unsigned below(unsigned bound) {
    seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
    return seed % bound;
}

template <typename T> static void set(std::vector<unsigned char>& bytes, size_t at, T value, size_t count) {
    for (size_t i = 0; i < count; ++i) memcpy(&bytes[at + i * sizeof(T)], &value, sizeof value);
}

// Sets by chance in BYTES of `memory`, which hold `bytes`; returns when they were compared.
static unsigned long long compare(CUdeviceptr memory, CUstream stream) {
    std::vector<unsigned char> bytes(BYTES, 0xEE), back(BYTES);
    OK(cuMemsetD8(memory, 0xEE, BYTES));
    for (int i = 0; i < 120; ++i) {
        const unsigned width = 1u << below(3), value = below(1u << 31) * 2 + below(2);
        const bool wait = below(2);
        if (below(2)) {
            const size_t count = 1 + below(200), at = below((BYTES - count * width) / width + 1) * width;
            if (width == 1) {
                OK(wait ? cuMemsetD8(memory + at, value, count) : cuMemsetD8Async(memory + at, value, count, stream));
                set<unsigned char>(bytes, at, value, count);
            } else if (width == 2) {
                OK(wait ? cuMemsetD16(memory + at, value, count) : cuMemsetD16Async(memory + at, value, count, stream));
                set<unsigned short>(bytes, at, value, count);
            } else {
                OK(wait ? cuMemsetD32(memory + at, value, count) : cuMemsetD32Async(memory + at, value, count, stream));
                set<unsigned>(bytes, at, value, count);
            }
        } else {
            const size_t pitch = 64 + 4 * below(32), count = 1 + below(64 / width), rows = 1 + below(16);
            const size_t at = below((BYTES - pitch * (rows - 1) - count * width) / width + 1) * width;
            const CUdeviceptr to = memory + at;
            if (width == 1)
                OK(wait ? cuMemsetD2D8(to, pitch, value, count, rows) : cuMemsetD2D8Async(to, pitch, value, count, rows, stream));
            else if (width == 2)
                OK(wait ? cuMemsetD2D16(to, pitch, value, count, rows) : cuMemsetD2D16Async(to, pitch, value, count, rows, stream));
            else
                OK(wait ? cuMemsetD2D32(to, pitch, value, count, rows) : cuMemsetD2D32Async(to, pitch, value, count, rows, stream));
            for (size_t row = 0; row < rows; ++row) {
                if (width == 1) set<unsigned char>(bytes, at + row * pitch, value, count);
                if (width == 2) set<unsigned short>(bytes, at + row * pitch, value, count);
                if (width == 4) set<unsigned>(bytes, at + row * pitch, value, count);
            }
        }
        if (wait) OK(cuCtxSynchronize());  // sets of device memory do not wait for themselves
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(back.data(), memory, BYTES));
    EXPECT(back == bytes);
    unsigned long long sum = 0;
    for (unsigned char byte : bytes) sum = sum * 31 + byte;
    return sum;
}

int main() {
    begin();
    CUdeviceptr device, managed, mapped, pooled;
    void* pinned;
    // One stream for all: sets without one are in the legacy stream, which this one waits for.
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&device, BYTES));
    OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&pinned, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&mapped, pinned, 0));
    OK(cuMemAllocAsync(&pooled, BYTES, stream));
    unsigned long long sum = 0;
    for (CUdeviceptr memory : {device, managed, mapped, pooled}) sum = sum * 33 + compare(memory, stream);

    FAILS(cuMemsetD16(device + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemsetD32(device + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemsetD2D32(device, 62, 0, 8, 2), CUDA_ERROR_INVALID_VALUE);  // the pitch is no multiple of a word
    FAILS(cuMemsetD2D8(device, 16, 0, 17, 2), CUDA_ERROR_INVALID_VALUE);  // a row is longer than the pitch
    FAILS(cuMemsetD8(device + BYTES - 4, 0, 8), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemsetD8(0, 0, 8), CUDA_ERROR_INVALID_VALUE);
    if (on_farlane()) FAILS(cuMemsetD8Async(device, 0, 8, (CUstream)&device), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemsetD8(device, 0, 0));
    OK(cuMemsetD2D8(device, 64, 0, 0, 5));
    OK(cuMemsetD2D8(device, 64, 0, 5, 0));
    OK(cuMemFreeAsync(pooled, stream));
    OK(cuStreamDestroy(stream));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(managed));
    OK(cuMemFree(device));
    printf("driver_sets %016llx\nPASS\n", sum);
    return 0;
}
