// Tensor maps of the driver API: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col refuse, maps whose address is replaced, images read as the columns
// of a convolution, NaN outside of a tensor.
#include "../driver.h"
#include <cuda_runtime.h>
#include <vector>

// The reduced forms of the encoders: everything but what a check changes is right.
struct Tiled {
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    cuuint32_t rank = 3;
    void *address = nullptr;
    cuuint64_t sizes[5] = {64, 32, 16, 8, 4}, strides[4] = {256, 8192, 131072, 1048576};
    cuuint32_t box[5] = {16, 4, 2, 2, 2}, steps[5] = {1, 1, 1, 1, 1};
    CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

    CUresult encode(CUtensorMap *map) const {
        return cuTensorMapEncodeTiled(map, type, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill);
    }
};

struct Images {
    cuuint32_t rank = 4;
    void *address = nullptr;
    cuuint64_t sizes[5] = {16, 9, 7, 3, 1}, strides[4] = {32, 288, 2016, 6048};
    int lower[3] = {-1, -1, 0}, upper[3] = {-1, -1, 0};
    cuuint32_t channels = 16, pixels = 64, steps[5] = {1, 1, 1, 1, 1};
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;

    CUresult encode(CUtensorMap *map) const {
        return cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, rank, address, sizes, strides, lower, upper, channels, pixels, steps,
                                       CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
};

template <class Change>
static CUresult tiled(CUtensorMap *map, Change change) {
    Tiled given;
    change(given);
    return given.encode(map);
}

template <class Change>
static CUresult images(CUtensorMap *map, Change change) {
    Images given;
    change(given);
    return given.encode(map);
}

static void refusals(CUtensorMap *map) {
    const CUresult bad = CUDA_ERROR_INVALID_VALUE;
    OK(tiled(map, [](Tiled &) {}));
    FAILS(tiled(nullptr, [](Tiled &) {}), bad);
    FAILS(tiled((CUtensorMap *)((char *)map + 32), [](Tiled &) {}), bad);
    for (cuuint32_t rank = 0; rank < 8; ++rank) {
        CUresult result = tiled(map, [&](Tiled &t) { t.rank = rank; });
        EXPECT((result == CUDA_SUCCESS) == (rank >= 1 && rank <= 5));
    }
    FAILS(tiled(map, [](Tiled &t) { t.type = (CUtensorMapDataType)16; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.type = (CUtensorMapDataType)-1; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.address = (void *)8; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.sizes[2] = 0; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.sizes[0] = (1ull << 32) + 1; }), bad);
    OK(tiled(map, [](Tiled &t) { t.sizes[0] = 1ull << 31; }));
    FAILS(tiled(map, [](Tiled &t) { t.strides[0] = 264; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.strides[1] = 1ull << 40; }), bad);
    OK(tiled(map, [](Tiled &t) { t.strides[2] = 7; }));  // not one of three axes
    FAILS(tiled(map, [](Tiled &t) { t.box[1] = 0; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.box[1] = 257; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.box[0] = 6; }), bad);  // 24 bytes
    FAILS(tiled(map, [](Tiled &t) { t.steps[1] = 0; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.steps[2] = 9; }), bad);
    OK(tiled(map, [](Tiled &t) { t.steps[0] = 0; }));  // has no meaning
    FAILS(tiled(map, [](Tiled &t) { t.interleave = (CUtensorMapInterleave)3; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.interleave = CU_TENSOR_MAP_INTERLEAVE_16B, t.rank = 2; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; }), bad);  // needs a swizzle of 32 bytes
    FAILS(tiled(map, [](Tiled &t) { t.swizzle = (CUtensorMapSwizzle)7; }), bad);
    for (int swizzle = 1; swizzle < 4; ++swizzle) {
        for (cuuint32_t elements = 4; elements <= 64; elements *= 2) {
            CUresult result = tiled(map, [&](Tiled &t) { t.swizzle = (CUtensorMapSwizzle)swizzle, t.box[0] = elements; });
            EXPECT((result == CUDA_SUCCESS) == (elements * 4 <= 16u << swizzle));
        }
    }
    FAILS(tiled(map, [](Tiled &t) { t.promotion = (CUtensorMapL2promotion)4; }), bad);
    FAILS(tiled(map, [](Tiled &t) { t.fill = (CUtensorMapFloatOOBfill)2; }), bad);
    OK(tiled(map, [](Tiled &t) { t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }));
    FAILS(tiled(map, [](Tiled &t) { t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA, t.type = CU_TENSOR_MAP_DATA_TYPE_INT32; }), bad);
    Tiled given;
    FAILS(cuTensorMapEncodeTiled(map, given.type, 2, nullptr, nullptr, given.strides, given.box, given.steps, given.interleave, given.swizzle,
                                 given.promotion, given.fill), bad);

    OK(images(map, [](Images &) {}));
    for (cuuint32_t rank = 1; rank < 7; ++rank) {
        CUresult result = images(map, [&](Images &i) { i.rank = rank; });
        EXPECT((result == CUDA_SUCCESS) == (rank >= 3 && rank <= 5));
    }
    FAILS(images(map, [](Images &i) { i.lower[0] = -129; }), bad);
    FAILS(images(map, [](Images &i) { i.upper[1] = 128; }), bad);
    OK(images(map, [](Images &i) { i.lower[0] = -129, i.rank = 3; }));
    FAILS(images(map, [](Images &i) { i.lower[2] = -17, i.rank = 5; }), bad);
    FAILS(images(map, [](Images &i) { i.lower[1] = 6; }), bad);  // nothing is left of seven
    FAILS(images(map, [](Images &i) { i.channels = 0; }), bad);
    FAILS(images(map, [](Images &i) { i.channels = 264; }), bad);
    FAILS(images(map, [](Images &i) { i.pixels = 1025; }), bad);
    FAILS(images(map, [](Images &i) { i.channels = 64, i.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }), bad);

    FAILS(cuTensorMapReplaceAddress(nullptr, nullptr), bad);
    FAILS(cuTensorMapReplaceAddress(map, (void *)24), bad);
    CUtensorMap none = {};
    FAILS(cuTensorMapReplaceAddress(&none, nullptr), bad);
#if CUDA_VERSION >= 13050
    CUtensorMapAllocClass effective = CU_TENSOR_MAP_ALLOC_CLASS_AUTO;
    CUtensorMap before = *map;
    OK(cuTensorMapSetAllocationClass(map, CU_TENSOR_MAP_ALLOC_CLASS_LARGE, &effective));
    EXPECT(effective == CU_TENSOR_MAP_ALLOC_CLASS_SMALL && !memcmp(&before, map, sizeof(before)));
    FAILS(cuTensorMapSetAllocationClass(map, (CUtensorMapAllocClass)3, nullptr), bad);
#endif
}

__device__ unsigned address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__device__ void receive(unsigned long long *barrier) {
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(address(barrier)) : "memory");
}

__device__ void expect(unsigned long long *barrier, int bytes) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}

// The first 64 floats of a row, wherever the map says that the tensor is.
__global__ void row(const __grid_constant__ CUtensorMap map, float *out, int at) {
    __shared__ alignas(128) float values[64];
    __shared__ unsigned long long barrier;
    expect(&barrier, sizeof(values));
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(address(values)),
                     "l"(&map), "r"(0), "r"(at), "r"(address(&barrier)) : "memory");
    }
    receive(&barrier);
    out[threadIdx.x] = values[threadIdx.x];
}

// One output pixel of a 3 x 3 convolution per thread: for each place of the filter the block's 32 pixels are one copy.
constexpr int CHANNELS = 16, PIXELS = 32;

__global__ void convolve(const __grid_constant__ CUtensorMap map, const unsigned short *filter, unsigned *out, int width, int height, int count) {
    __shared__ alignas(128) unsigned short pixels[9][PIXELS][CHANNELS];
    __shared__ unsigned long long barrier;
    int first = blockIdx.x * PIXELS, image = first / (width * height), y = first / width % height, x = first % width;
    expect(&barrier, sizeof(pixels));
    if (threadIdx.x == 0) {
        for (int place = 0; place < 9; ++place) {
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
                    address(pixels[place])),
                "l"(&map), "r"(0), "r"(x - 1), "r"(y - 1), "r"(image), "r"(address(&barrier)), "h"((short)(place % 3)), "h"((short)(place / 3)) : "memory");
        }
    }
    receive(&barrier);
    unsigned sum = 0;
    for (int place = 0; place < 9; ++place) {
        for (int channel = 0; channel < CHANNELS; ++channel) {
            sum += pixels[place][threadIdx.x][channel] * filter[place * CHANNELS + channel];
        }
    }
    if (first + threadIdx.x < count) out[first + threadIdx.x] = sum;
}

static void convolution() {
    const int width = 9, height = 7, batch = 3, count = width * height * batch;
    std::vector<unsigned short> image(count * CHANNELS), filter(9 * CHANNELS);
    for (size_t i = 0; i < image.size(); ++i) image[i] = i * 2654435761u >> 20;
    for (size_t i = 0; i < filter.size(); ++i) filter[i] = i * 40503u >> 3 & 255;
    CUdeviceptr pixels, weights, out;
    OK(cuMemAlloc(&pixels, image.size() * 2));
    OK(cuMemAlloc(&weights, filter.size() * 2));
    OK(cuMemAlloc(&out, count * 4));
    OK(cuMemcpyHtoD(pixels, image.data(), image.size() * 2));
    OK(cuMemcpyHtoD(weights, filter.data(), filter.size() * 2));
    CUtensorMap map;
    OK(images(&map, [&](Images &i) { i.address = (void *)pixels, i.pixels = PIXELS; }));
    convolve<<<(count + PIXELS - 1) / PIXELS, PIXELS>>>(map, (const unsigned short *)weights, (unsigned *)out, width, height, count);
    std::vector<unsigned> got(count);
    OK(cuMemcpyDtoH(got.data(), out, count * 4));
    for (int n = 0; n < batch; ++n) {
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
                unsigned sum = 0;
                for (int place = 0; place < 9; ++place) {
                    int px = x + place % 3 - 1, py = y + place / 3 - 1;
                    for (int c = 0; c < CHANNELS && px >= 0 && px < width && py >= 0 && py < height; ++c) {
                        sum += image[((n * height + py) * width + px) * CHANNELS + c] * filter[place * CHANNELS + c];
                    }
                }
                EXPECT(got[(n * height + y) * width + x] == sum);
            }
        }
    }
}

int main() {
    CUdevice device = begin();
    int supported = 0;
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, device));
    EXPECT(supported == 1);
    alignas(128) static CUtensorMap map;
    refusals(&map);
    convolution();

    // One map, whose address moves from one tensor to the next; a row that is outside is NaN.
    CUdeviceptr tensors[2], out;
    std::vector<float> values(64 * 4), got(64);
    OK(cuMemAlloc(&out, 256));
    OK(tiled(&map, [&](Tiled &t) { t.rank = 2, t.sizes[1] = 4, t.box[0] = 64, t.box[1] = 1, t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }));
    for (int i = 0; i < 2; ++i) {
        OK(cuMemAlloc(&tensors[i], values.size() * 4));
        for (size_t j = 0; j < values.size(); ++j) values[j] = 1000 * i + j;
        OK(cuMemcpyHtoD(tensors[i], values.data(), values.size() * 4));
        OK(cuTensorMapReplaceAddress(&map, (void *)tensors[i]));
        for (int y = -1; y < 5; ++y) {
            row<<<1, 64>>>(map, (float *)out, y);
            OK(cuMemcpyDtoH(got.data(), out, 256));
            for (int x = 0; x < 64; ++x) EXPECT(y < 0 || y > 3 ? got[x] != got[x] : got[x] == 1000 * i + y * 64 + x);
        }
    }
    printf("rows and columns\n");

    printf("PASS\n");
    return 0;
}
