// Pitched memory: cudaMallocPitch, 2-D copies in all directions with different pitches, 2-D memset.
#include <algorithm>

#include "../support.cuh"

__global__ void add_position(int *data, size_t pitch, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int *row = reinterpret_cast<int *>(reinterpret_cast<char *>(data) + y * pitch);
        row[x] += 1000 * y + x;
    }
}

// A list of copies: to the device, within it and back, in one call.
static void batch(Verdict &verdict) {
#if CUDART_VERSION >= 12080
    std::vector<int> from(500), back(500, -1);
    for (size_t i = 0; i < from.size(); ++i) {
        from[i] = static_cast<int>(i * i);
    }
    DeviceArray<int> a(500), b(500);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    size_t bytes = 500 * sizeof(int), sizes[] = {bytes / 2, bytes / 2, bytes, bytes}, first[] = {0, 2};
    cudaMemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    void *to[] = {a.get(), a.get() + 250, b.get(), back.data()};
    void *sources[] = {from.data(), from.data() + 250, a.get(), b.get()};
#if CUDART_VERSION >= 13000
    const void *const_sources[] = {sources[0], sources[1], sources[2], sources[3]};
    // The order within a batch is open: one for each step.
    CHECK(cudaMemcpyBatchAsync(to, const_sources, sizes, 2, attributes, first, 1, stream));
    CHECK(cudaMemcpyBatchAsync(to + 2, const_sources + 2, sizes + 2, 1, attributes + 1, first, 1, stream));
    CHECK(cudaMemcpyBatchAsync(to + 3, const_sources + 3, sizes + 3, 1, attributes + 1, first, 1, stream));
    cudaError_t legacy = cudaMemcpyBatchAsync(to, const_sources, sizes, 2, attributes, first, 1, nullptr);
#else
    size_t failed;
    CHECK(cudaMemcpyBatchAsync(to, sources, sizes, 2, attributes, first, 1, &failed, stream));
    CHECK(cudaMemcpyBatchAsync(to + 2, sources + 2, sizes + 2, 1, attributes + 1, first, 1, &failed, stream));
    CHECK(cudaMemcpyBatchAsync(to + 3, sources + 3, sizes + 3, 1, attributes + 1, first, 1, &failed, stream));
    cudaError_t legacy = cudaMemcpyBatchAsync(to, sources, sizes, 2, attributes, first, 1, &failed, nullptr);
#endif
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(back == from, "copies in batches");
    verdict.expect(legacy == cudaErrorInvalidValue, "no batches in the legacy stream");
    cudaGetLastError();

    // A list of one box: rows of 40 numbers of the device, 10 of each from the fifth on.
    std::vector<int> part(10 * 6, -1);
    cudaMemcpy3DBatchOp op = {};
    op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
    op.src.op.ptr.ptr = a.get() + 5, op.src.op.ptr.rowLength = 40 * sizeof(int);
    op.dst.op.ptr.ptr = part.data();
    op.extent = make_cudaExtent(10 * sizeof(int), 6, 1);
    op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
    CHECK(cudaMemcpy3DBatchAsync(1, &op, 0, stream));
#else
    CHECK(cudaMemcpy3DBatchAsync(1, &op, &failed, 0, stream));
#endif
    CHECK(cudaStreamSynchronize(stream));
    bool right = true;
    for (int i = 0; i < 60; ++i) {
        right &= part[i] == from[i / 10 * 40 + 5 + i % 10];
    }
    verdict.expect(right, "boxes in batches");
#if CUDART_VERSION >= 13020
    std::vector<int> again(60, -1);
    op.dst.op.ptr.ptr = again.data();
    CHECK(cudaMemcpy3DWithAttributesAsync(&op, 0, stream));
    CHECK(cudaMemcpyWithAttributesAsync(back.data(), part.data(), 60 * sizeof(int), &attributes[1], stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(again == part && std::equal(part.begin(), part.end(), back.begin()), "copies with attributes");
#endif
    CHECK(cudaStreamDestroy(stream));
#endif
}

int main() {
    const int width = 77, height = 41, stride = 80;
    const size_t row_bytes = width * sizeof(int);
    Verdict verdict;
    int *data = nullptr, *other = nullptr;
    size_t pitch = 0, other_pitch = 0;
    CHECK(cudaMallocPitch(&data, &pitch, row_bytes, height));
    CHECK(cudaMallocPitch(&other, &other_pitch, 2 * row_bytes, height));
    verdict.expect(pitch >= row_bytes && pitch % 32 == 0 && other_pitch >= 2 * row_bytes, "pitch");

    std::vector<int> source(stride * height), result(stride * height, -5);
    for (size_t i = 0; i < source.size(); ++i) {
        source[i] = static_cast<int>(i);
    }
    CHECK(cudaMemcpy2D(data, pitch, source.data(), stride * sizeof(int), row_bytes, height, cudaMemcpyHostToDevice));
    add_position<<<dim3(3, 6), dim3(32, 8)>>>(data, pitch, width, height);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy2D(other, other_pitch, data, pitch, row_bytes, height, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2D(result.data(), stride * sizeof(int), other, other_pitch, row_bytes, height,
                       cudaMemcpyDeviceToHost));
    bool right = true, untouched = true;
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < stride; ++x) {
            int i = y * stride + x;
            if (x < width) {
                right = right && result[i] == i + 1000 * y + x;
            } else {
                untouched = untouched && result[i] == -5;
            }
        }
    }
    verdict.expect(right, "values through three 2-D copies");
    verdict.expect(untouched, "the host's padding is not written");
    print_checksum("pitched", result);

    // A rectangle within: columns 10 to 29 of rows 5 to 14.
    CHECK(cudaMemset2D(reinterpret_cast<char *>(other) + 5 * other_pitch + 10 * sizeof(int), other_pitch, 0xAB,
                       20 * sizeof(int), 10));
    std::vector<int> after(stride * height, -5);
    CHECK(cudaMemcpy2DAsync(after.data(), stride * sizeof(int), other, other_pitch, row_bytes, height,
                            cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
    right = true;
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < stride; ++x) {
            int i = y * stride + x;
            bool inside = x >= 10 && x < 30 && y >= 5 && y < 15;
            right = right && after[i] == (inside ? static_cast<int>(0xABABABAB) : result[i]);
        }
    }
    verdict.expect(right, "2-D memset");

    verdict.expect(cudaMemcpy2D(data, row_bytes - 4, source.data(), row_bytes, row_bytes, 2, cudaMemcpyHostToDevice) ==
                       cudaErrorInvalidPitchValue,
                   "a pitch below the width");
    cudaGetLastError();
    CHECK(cudaFree(data));
    CHECK(cudaFree(other));
    batch(verdict);
    return verdict.finish();
}
