// Resource views: layers and levels of arrays as textures of their own, and texels read in another format of their size. And what kernels ask about
// textures and surfaces (txq, suq; CUDA C++ has no functions for that).
#include <cstring>

#include "../../../native/support.cuh"

constexpr int width = 16, height = 8, layers = 5, levels = 4;

#define ASK(function, instruction)                                          \
    __device__ int function(unsigned long long object) {                    \
        int answer;                                                         \
        asm(instruction " %0, [%1];" : "=r"(answer) : "l"(object));         \
        return answer;                                                      \
    }
ASK(texture_width, "txq.width.b32")
ASK(texture_height, "txq.height.b32")
ASK(texture_layers, "txq.array_size.b32")
ASK(texture_levels, "txq.num_mipmap_levels.b32")
ASK(texture_normalized, "txq.normalized_coords.b32")
ASK(surface_width, "suq.width.b32")
ASK(surface_height, "suq.height.b32")

__global__ void ask(cudaTextureObject_t texture, cudaSurfaceObject_t surface, int *out) {
    out[0] = texture_width(texture);
    out[1] = texture_height(texture);
    out[2] = texture_layers(texture);
    out[3] = texture_levels(texture);
    out[4] = texture_normalized(texture);
    out[5] = surface ? surface_width(surface) : 0;
    out[6] = surface ? surface_height(surface) : 0;
}

__global__ void read_layers(cudaTextureObject_t texture, unsigned *out, int count) {
    int x = threadIdx.x % width, y = threadIdx.x / width;
    for (int layer = 0; layer < count; ++layer) {
        out[layer * width * height + threadIdx.x] = tex2DLayered<unsigned>(texture, x + 0.5f, y + 0.5f, layer);
    }
}

__global__ void read_levels(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = tex2DLod<float>(texture, 0.5f, 0.5f, threadIdx.x); }

__global__ void fill(cudaSurfaceObject_t surface, float value, int columns) { surf2Dwrite(value, surface, threadIdx.x % columns * 4, threadIdx.x / columns); }

static std::vector<int> answers(cudaTextureObject_t texture, cudaSurfaceObject_t surface) {
    DeviceArray<int> out(7);
    ask<<<1, 1>>>(texture, surface, out.get());
    CHECK_LAUNCH();
    return out.download();
}

static void layers_in_another_format(Verdict &verdict) {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    cudaExtent extent = make_cudaExtent(width, height, layers);
    CHECK(cudaMalloc3DArray(&array, &format, extent, cudaArrayLayered));
    std::vector<unsigned> texels(width * height * layers);
    for (size_t i = 0; i < texels.size(); ++i) {
        texels[i] = static_cast<unsigned>(i) * 2654435761u;
    }
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(texels.data(), width * 4, width, height);
    copy.dstArray = array;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc wanted = {};
    cudaResourceViewDesc view = {};
    view.format = cudaResViewFormatUnsignedInt1;
    view.width = width;
    view.height = height;
    view.depth = layers;
    view.firstLayer = 2;
    view.lastLayer = 3;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, &view));
    DeviceArray<unsigned> out(width * height * 2);
    read_layers<<<1, width * height>>>(texture, out.get(), 2);
    CHECK_LAUNCH();
    auto begin = texels.begin() + 2 * width * height;
    verdict.equal(out.download(), std::vector<unsigned>(begin, begin + 2 * width * height), "layers 2 and 3 as words");
    verdict.equal(answers(texture, 0), std::vector<int>{width, height, 2, 1, 0, 0, 0}, "what a view says of itself");
    cudaResourceViewDesc told = {};
    CHECK(cudaGetTextureObjectResourceViewDesc(&told, texture));
    verdict.expect(told.format == view.format && told.firstLayer == 2 && told.lastLayer == 3 && told.width == width, "the view's description");
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, nullptr));
    verdict.expect(cudaGetTextureObjectResourceViewDesc(&told, texture) == cudaErrorInvalidValue, "no view");
    cudaGetLastError();
    verdict.equal(answers(texture, 0), std::vector<int>{width, height, layers, 1, 0, 0, 0}, "what a texture says of itself");
    CHECK(cudaDestroyTextureObject(texture));
    view.lastLayer = layers;
    verdict.expect(cudaCreateTextureObject(&texture, &resource, &wanted, &view) == cudaErrorInvalidValue, "a layer that is not there");
    view.lastLayer = 3;
    view.format = cudaResViewFormatUnsignedInt2;
    verdict.expect(cudaCreateTextureObject(&texture, &resource, &wanted, &view) == cudaErrorInvalidValue, "texels of another size");
    cudaGetLastError();
    CHECK(cudaFreeArray(array));
}

static void levels_of_a_pyramid(Verdict &verdict) {
    cudaMipmappedArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocMipmappedArray(&array, &format, make_cudaExtent(width, height, 0), levels, cudaArraySurfaceLoadStore));
    for (int number = 0; number < levels; ++number) {
        cudaArray_t level;
        CHECK(cudaGetMipmappedArrayLevel(&level, array, number));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = level;
        cudaSurfaceObject_t surface;
        CHECK(cudaCreateSurfaceObject(&surface, &resource));
        int columns = width >> number, rows = height >> number;
        fill<<<1, columns * rows>>>(surface, 10.0f + number, columns);
        cudaTextureDesc wanted = {};
        cudaTextureObject_t texture;
        CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, nullptr));
        verdict.equal(answers(texture, surface), std::vector<int>{columns, rows, 1, 1, 0, columns, rows}, "a level and its surface");
        CHECK(cudaDestroyTextureObject(texture));
        CHECK(cudaDestroySurfaceObject(surface));
    }
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = array;
    cudaTextureDesc wanted = {};
    wanted.normalizedCoords = 1;
    wanted.maxMipmapLevelClamp = 10;
    cudaResourceViewDesc view = {};
    view.format = cudaResViewFormatFloat1;
    view.width = width;
    view.height = height;
    view.firstMipmapLevel = 1;
    view.lastMipmapLevel = 2;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, &view));
    DeviceArray<float> out(4);
    read_levels<<<1, 4>>>(texture, out.get());
    CHECK_LAUNCH();
    verdict.equal(out.download(), std::vector<float>{11, 12, 12, 12}, "levels 1 and 2");
    verdict.equal(answers(texture, 0), std::vector<int>{width / 2, height / 2, 1, 2, 1, 0, 0}, "what a view of levels says of itself");
    CHECK(cudaDestroyTextureObject(texture));
    view.lastMipmapLevel = levels;
    verdict.expect(cudaCreateTextureObject(&texture, &resource, &wanted, &view) == cudaErrorInvalidValue, "a level that is not there");
    cudaGetLastError();
    CHECK(cudaFreeMipmappedArray(array));
}

int main() {
    Verdict verdict;
    layers_in_another_format(verdict);
    levels_of_a_pyramid(verdict);
    return verdict.finish();
}
