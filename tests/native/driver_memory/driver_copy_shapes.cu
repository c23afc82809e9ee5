// Copies of boxes between every two kinds of end, with places, pitches and heights by chance; each is compared with a copy on the CPU.
#include "../driver.h"

#include <vector>

static unsigned seed = 2463534242u;
static size_t below(size_t bound) {
    seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
    return seed % bound;
}

// A box of bytes somewhere, and what the CPU says is in it.
struct End {
    CUmemorytype type;
    size_t pitch, height, depth;  // of what holds the box: pitch is a row's bytes
    CUdeviceptr device = 0;
    CUarray array = nullptr;
    std::vector<unsigned char> host, expected;

    End(CUmemorytype type, size_t width, size_t height, size_t depth) : type(type), height(height), depth(depth) {
        pitch = type == CU_MEMORYTYPE_ARRAY ? width : width + below(3) * 4;
        expected.resize(pitch * height * depth);
        for (unsigned char& byte : expected) byte = (unsigned char)below(251);
        if (type == CU_MEMORYTYPE_HOST) {
            host = expected;
        } else if (type == CU_MEMORYTYPE_ARRAY) {
            CUDA_ARRAY3D_DESCRIPTOR wanted = {};
            wanted.Width = width / 4, wanted.Height = height, wanted.Depth = depth;
            wanted.Format = CU_AD_FORMAT_UNSIGNED_INT16, wanted.NumChannels = 2;
            OK(cuArray3DCreate(&array, &wanted));
            CUDA_MEMCPY3D all = {};
            all.srcMemoryType = CU_MEMORYTYPE_HOST, all.srcHost = expected.data(), all.srcPitch = pitch, all.srcHeight = height;
            all.dstMemoryType = CU_MEMORYTYPE_ARRAY, all.dstArray = array;
            all.WidthInBytes = pitch, all.Height = height, all.Depth = depth;
            OK(cuMemcpy3D(&all));
        } else {
            OK(cuMemAlloc(&device, expected.size()));
            OK(cuMemcpyHtoD(device, expected.data(), expected.size()));
        }
        OK(cuCtxSynchronize());  // the stream waits for no other
    }

    ~End() {
        if (array) OK(cuArrayDestroy(array));
        if (device) OK(cuMemFree(device));
    }

    void check() {
        if (type == CU_MEMORYTYPE_ARRAY) {
            host.assign(expected.size(), 0);
            CUDA_MEMCPY3D all = {};
            all.srcMemoryType = CU_MEMORYTYPE_ARRAY, all.srcArray = array;
            all.dstMemoryType = CU_MEMORYTYPE_HOST, all.dstHost = host.data(), all.dstPitch = pitch, all.dstHeight = height;
            all.WidthInBytes = pitch, all.Height = height, all.Depth = depth;
            OK(cuMemcpy3D(&all));
        } else if (type != CU_MEMORYTYPE_HOST) {
            host.resize(expected.size());
            OK(cuMemcpyDtoH(host.data(), device, host.size()));
        }
        EXPECT(host == expected);
    }
};

static unsigned long long one(CUmemorytype from, CUmemorytype to, bool flat, CUstream stream) {
    const size_t width = 4 * (1 + below(12)), rows = 1 + below(6), slices = flat ? 1 : 1 + below(4);
    End source{from, width + 4 * below(4), rows + below(3), flat ? 1 : slices + below(3)};
    End target{to, width + 4 * below(4), rows + below(3), flat ? 1 : slices + below(3)};
    CUDA_MEMCPY3D box = {};
    auto place = [&](const End& end) { return 4 * below((end.pitch - width) / 4 + 1); };
    box.srcMemoryType = from, box.srcHost = source.host.data(), box.srcDevice = source.device, box.srcArray = source.array;
    box.srcPitch = source.pitch, box.srcHeight = source.height;
    box.srcXInBytes = place(source), box.srcY = below(source.height - rows + 1), box.srcZ = below(source.depth - slices + 1);
    box.dstMemoryType = to, box.dstHost = target.host.data(), box.dstDevice = target.device, box.dstArray = target.array;
    box.dstPitch = target.pitch, box.dstHeight = target.height;
    box.dstXInBytes = place(target), box.dstY = below(target.height - rows + 1), box.dstZ = below(target.depth - slices + 1);
    box.WidthInBytes = width, box.Height = rows, box.Depth = slices;
    for (size_t z = 0; z < slices; ++z)
        for (size_t y = 0; y < rows; ++y)
            for (size_t x = 0; x < width; ++x)
                target.expected[((box.dstZ + z) * target.height + box.dstY + y) * target.pitch + box.dstXInBytes + x] =
                    source.expected[((box.srcZ + z) * source.height + box.srcY + y) * source.pitch + box.srcXInBytes + x];
    if (flat) {
        CUDA_MEMCPY2D part = {};
        part.srcMemoryType = from, part.srcHost = box.srcHost, part.srcDevice = box.srcDevice, part.srcArray = box.srcArray;
        part.srcPitch = box.srcPitch, part.srcXInBytes = box.srcXInBytes, part.srcY = box.srcY;
        part.dstMemoryType = to, part.dstHost = box.dstHost, part.dstDevice = box.dstDevice, part.dstArray = box.dstArray;
        part.dstPitch = box.dstPitch, part.dstXInBytes = box.dstXInBytes, part.dstY = box.dstY;
        part.WidthInBytes = width, part.Height = rows;
        if (below(2))
            OK(cuMemcpy2DAsync(&part, stream));
        else
            OK(below(2) ? cuMemcpy2D(&part) : cuMemcpy2DUnaligned(&part));
    } else if (below(2)) {
        OK(cuMemcpy3DAsync(&box, stream));
    } else {
        OK(cuMemcpy3D(&box));
    }
    OK(cuStreamSynchronize(stream));
    source.check();
    target.check();
    unsigned long long sum = 0;
    for (unsigned char byte : target.expected) sum = sum * 31 + byte;
    return sum;
}

int main() {
    begin();
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUmemorytype types[] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_ARRAY};
    unsigned long long sum = 0;
    for (int round = 0; round < 3; ++round)
        for (CUmemorytype from : types)
            for (CUmemorytype to : types)
                for (bool flat : {true, false}) sum = sum * 33 + one(from, to, flat, stream);
    // What does not fit, and what is no copy.
    CUdeviceptr memory;
    unsigned char row[64] = {0};
    OK(cuMemAlloc(&memory, 64));
    CUDA_MEMCPY2D bad = {};
    bad.srcMemoryType = CU_MEMORYTYPE_HOST, bad.srcHost = row, bad.srcPitch = 16;
    bad.dstMemoryType = CU_MEMORYTYPE_DEVICE, bad.dstDevice = memory, bad.dstPitch = 16;
    bad.WidthInBytes = 16, bad.Height = 5;
    FAILS(cuMemcpy2D(&bad), CUDA_ERROR_INVALID_VALUE);  // beyond the memory
    bad.Height = 4, bad.dstXInBytes = 8;
    FAILS(cuMemcpy2D(&bad), CUDA_ERROR_INVALID_VALUE);  // beyond the pitch
    bad.dstXInBytes = 0, bad.Height = 0;
    OK(cuMemcpy2D(&bad));
    bad.Height = 4;
    FAILS(cuMemcpy2DAsync(&bad, (CUstream)row), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
    printf("driver_copy_shapes %016llx\nPASS\n", sum);
    return 0;
}
