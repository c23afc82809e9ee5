// Lists of copies of bytes and of boxes, copies with attributes, lists of prefetches and discards: what they do, and what is refused.
#include "../driver.h"
#include <vector>

// Functions that the oldest headers lack are asked for by name.
typedef CUresult (*Bytes)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream);
typedef CUresult (*OldBytes)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream);
typedef CUresult (*Boxes)(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
typedef CUresult (*OldBoxes)(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream);
typedef CUresult (*Line)(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
typedef CUresult (*Box)(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
typedef CUresult (*Prefetch)(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream);
typedef CUresult (*Discard)(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);

template <class F>
static F function(const char *name, int version) {
    void *found = nullptr;
    OK(cuGetProcAddress(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    EXPECT(found != nullptr);
    return (F)found;
}

static CUmemcpy3DOperand memory_at(const void *start, size_t row, size_t layer) {
    CUmemcpy3DOperand operand = {};
    operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr.ptr = (CUdeviceptr)start, operand.op.ptr.rowLength = row, operand.op.ptr.layerHeight = layer;
    return operand;
}

static CUmemcpy3DOperand array_at(CUarray array, size_t x, size_t y, size_t z) {
    CUmemcpy3DOperand operand = {};
    operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    operand.op.array.array = array;
    operand.op.array.offset.x = x, operand.op.array.offset.y = y, operand.op.array.offset.z = z;
    return operand;
}

static CUDA_MEMCPY3D_BATCH_OP box(CUmemcpy3DOperand dst, CUmemcpy3DOperand src, size_t width, size_t height, size_t depth) {
    CUDA_MEMCPY3D_BATCH_OP op = {};
    op.dst = dst, op.src = src, op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    op.extent.width = width, op.extent.height = height, op.extent.depth = depth;
    return op;
}

static void lines(CUstream stream) {
    Bytes bytes = function<Bytes>("cuMemcpyBatchAsync", 13000);
    OldBytes old_bytes = function<OldBytes>("cuMemcpyBatchAsync", 12080);
    Line line = function<Line>("cuMemcpyWithAttributesAsync", 13020);
    std::vector<int> from(512), back(512, -1);
    for (int i = 0; i < 512; ++i) from[i] = 3 * i + 1;
    CUdeviceptr device;
    OK(cuMemAlloc(&device, 2048));
    CUmemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY, attributes[1].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    size_t sizes[] = {1024, 512, 512}, firsts[] = {0, 2}, failed = 0;
    CUdeviceptr to[] = {device, device + 1024, device + 1536};
    CUdeviceptr sources[] = {(CUdeviceptr)from.data(), (CUdeviceptr)&from[256], (CUdeviceptr)&from[384]};
    OK(bytes(to, sources, sizes, 3, attributes, firsts, 2, stream));
    // Memory that was to be read during the call is the program's again; the rest is read in order.
    std::vector<int> expected = from;
    for (int i = 0; i < 384; ++i) from[i] = 0;
    OK(cuStreamSynchronize(stream));
    OK(line((CUdeviceptr)back.data(), device, 2048, &attributes[1], stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(back == expected);

    // What fails, and which of them.
    sizes[1] = 0;
    FAILS(old_bytes(to, sources, sizes, 3, attributes, firsts, 2, &failed, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 1);
    sizes[1] = 512, firsts[1] = 3;
    FAILS(old_bytes(to, sources, sizes, 3, attributes, firsts, 2, &failed, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == SIZE_MAX);
    FAILS(bytes(to, sources, sizes, 3, attributes, firsts, 2, stream), CUDA_ERROR_INVALID_VALUE);
    firsts[1] = 2, attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    FAILS(bytes(to, sources, sizes, 3, attributes, firsts, 2, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(line(device, sources[0], 4, &attributes[1], stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(line(device, sources[0], 4, nullptr, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(bytes(to, sources, sizes, 3, attributes, firsts, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(device));
}

static void boxes(CUstream stream) {
    Boxes boxes_now = function<Boxes>("cuMemcpy3DBatchAsync", 13000);
    OldBoxes old_boxes = function<OldBoxes>("cuMemcpy3DBatchAsync", 12080);
    Box one = function<Box>("cuMemcpy3DWithAttributesAsync", 13020);
    std::vector<int> from(16 * 8 * 4), back(6 * 4 * 2, -1), middle(5 * 3 * 2, -1);
    for (size_t i = 0; i < from.size(); ++i) from[i] = 7 * (int)i + 5;
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR wanted = {};
    wanted.Width = 16, wanted.Height = 8, wanted.Depth = 4, wanted.Format = CU_AD_FORMAT_SIGNED_INT32, wanted.NumChannels = 1;
    OK(cuArray3DCreate(&array, &wanted));
    CUdeviceptr device;
    OK(cuMemAlloc(&device, 8192));
    OK(cuMemsetD8Async(device, 0, 8192, stream));

    // All of the array, and the same bytes as rows of the device: lengths of memory count elements, which are bytes without an array.
    CUDA_MEMCPY3D_BATCH_OP whole[] = {
        box(array_at(array, 0, 0, 0), memory_at(from.data(), 0, 0), 16, 8, 4),
        box(memory_at((void *)device, 128, 16), memory_at(from.data(), 64, 8), 64, 8, 4),
    };
    whole[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    OK(boxes_now(2, whole, 0, stream));
    // A part of each: from the array's middle, and from the device's.
    CUDA_MEMCPY3D_BATCH_OP parts[] = {
        box(memory_at(back.data(), 6, 4), array_at(array, 3, 2, 1), 6, 4, 2),
        box(memory_at(middle.data(), 0, 0), memory_at((void *)(device + 2 * 16 * 128 + 128 + 8), 128, 16), 20, 3, 2),
    };
    size_t failed = 0;
    OK(old_boxes(2, parts, &failed, 0, stream));
    OK(cuStreamSynchronize(stream));
    for (int z = 0; z < 2; ++z)
        for (int y = 0; y < 4; ++y)
            for (int x = 0; x < 6; ++x) EXPECT(back[(z * 4 + y) * 6 + x] == from[((z + 1) * 8 + y + 2) * 16 + x + 3]);
    for (int z = 0; z < 2; ++z)
        for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 5; ++x) EXPECT(middle[(z * 3 + y) * 5 + x] == from[((z + 2) * 8 + y + 1) * 16 + x + 2]);

    // One copy within the array, and back.
    CUDA_MEMCPY3D_BATCH_OP inside = box(array_at(array, 0, 0, 0), array_at(array, 8, 4, 2), 6, 4, 2);
    OK(one(&inside, 0, stream));
    parts[0].src = array_at(array, 0, 0, 0);
    OK(one(&parts[0], 0, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(back[0] == from[(2 * 8 + 4) * 16 + 8] && back[47] == from[(3 * 8 + 7) * 16 + 13]);

    parts[1].src.op.ptr.rowLength = 19;
    FAILS(old_boxes(2, parts, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 1);
    FAILS(old_boxes(2, parts, &failed, 1, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == SIZE_MAX);
    FAILS(boxes_now(0, parts, 0, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(boxes_now(1, nullptr, 0, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(boxes_now(1, parts, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(one(&parts[0], 1, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(one(nullptr, 0, stream), CUDA_ERROR_INVALID_VALUE);
    parts[0].extent.depth = 0;
    FAILS(one(&parts[0], 0, stream), CUDA_ERROR_INVALID_VALUE);
    parts[0].extent.depth = 2, parts[0].src = array_at(array, 11, 2, 1);
    FAILS(one(&parts[0], 0, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(stream));
    OK(cuArrayDestroy(array));
    OK(cuMemFree(device));
}

static int last_prefetch(CUdeviceptr start, size_t size) {
    int place = -5;
    OK(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, start, size));
    return place;
}

static void managed(CUstream stream) {
    Prefetch prefetch = function<Prefetch>("cuMemPrefetchBatchAsync", 13000);
    Prefetch both = function<Prefetch>("cuMemDiscardAndPrefetchBatchAsync", 13000);
    Discard discard = function<Discard>("cuMemDiscardBatchAsync", 13000);
    const size_t page = 65536;
    CUdeviceptr memory, plain;
    OK(cuMemAllocManaged(&memory, 4 * page, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&plain, page));
    int *words = (int *)memory;
    for (size_t i = 0; i < page; ++i) words[i] = (int)i;
    CUmemLocation places[2] = {};
    places[0].type = CU_MEM_LOCATION_TYPE_DEVICE, places[1].type = CU_MEM_LOCATION_TYPE_HOST;
    CUdeviceptr starts[] = {memory, memory + page, memory + 2 * page};
    size_t sizes[] = {page, page, 2 * page}, firsts[] = {0, 2};
    OK(prefetch(starts, sizes, 3, places, firsts, 2, 0, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(last_prefetch(memory, 2 * page) == 0);
    EXPECT(last_prefetch(memory + 2 * page, 2 * page) == CU_DEVICE_CPU);
    // A prefetch changes no bytes; what is discarded is the program's to write again.
    for (size_t i = 0; i < page; ++i) EXPECT(words[i] == (int)i);
    OK(discard(starts, sizes, 2, 0, stream));
    OK(cuMemsetD32Async(memory, 17, page / 2, stream));
    firsts[1] = 1;
    OK(both(starts + 2, sizes + 2, 1, places, firsts, 1, 0, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(words[0] == 17 && words[page / 2 - 1] == 17 && last_prefetch(memory + 2 * page, 2 * page) == 0);
    words[page / 2] = 4;
    EXPECT(words[page / 2] == 4);

    FAILS(prefetch(starts, sizes, 3, places, firsts, 2, 1, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(prefetch(starts, sizes, 3, places, firsts, 2, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(prefetch(starts, sizes, 0, places, firsts, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(prefetch(starts, sizes, 1, places, firsts, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(discard(starts, sizes, 3, 1, stream), CUDA_ERROR_INVALID_VALUE);
    // A list is taken whole or not at all.
    places[1].type = CU_MEM_LOCATION_TYPE_INVALID, places[0].type = CU_MEM_LOCATION_TYPE_HOST;
    FAILS(prefetch(starts, sizes, 3, places, firsts, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(last_prefetch(memory, page) == 0);
    starts[2] = plain, sizes[2] = page;
    FAILS(discard(starts, sizes, 3, 0, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(memory));
    OK(cuMemFree(plain));
}

int main() {
    begin();
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    lines(stream);
    boxes(stream);
    managed(stream);
    printf("PASS\n");
    return 0;
}
