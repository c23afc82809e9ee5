// Textures and surfaces: linear memory, pitched memory, arrays of one to three dimensions and layered ones; point and linear filters; all address
// modes; floats, integers and normalized bytes; compared with a reference on the CPU.
#include <cstring>

#include "../support.cuh"

__global__ void fetch_1d(cudaTextureObject_t texture, const int *at, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = tex1Dfetch<float>(texture, at[i]);
    }
}

__global__ void sample_2d(cudaTextureObject_t texture, const float2 *at, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = tex2D<float>(texture, at[i].x, at[i].y);
    }
}

__global__ void sample_bytes(cudaTextureObject_t texture, const float2 *at, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = tex2D<float4>(texture, at[i].x, at[i].y);
    }
}

__global__ void sample_3d(cudaTextureObject_t texture, const float4 *at, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = tex3D<float>(texture, at[i].x, at[i].y, at[i].z);
    }
}

__global__ void layers(cudaTextureObject_t flat, cudaTextureObject_t lines, int *out) {
    int x = threadIdx.x, layer = blockIdx.x;
    out[layer * 8 + x] = tex2DLayered<int>(flat, x + 0.5f, 1.5f, layer) * 1000 + tex1DLayered<short>(lines, x + 0.5f, layer);
}

__global__ void surfaces(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    float left = surf2Dread<float>(from, (x - 1) * 4, y, cudaBoundaryModeZero);
    float here = surf2Dread<float>(from, x * 4, y, cudaBoundaryModeClamp);
    surf2Dwrite(left + here, to, x * 4, y, cudaBoundaryModeZero);  // also outside of it
}

__global__ void fill_volume(cudaSurfaceObject_t volume) {
    uchar4 value = make_uchar4(threadIdx.x, threadIdx.y, blockIdx.x, 9);
    surf3Dwrite(value, volume, threadIdx.x * 4, threadIdx.y, blockIdx.x);
}

static const int width = 17, height = 9, depth = 5, n = 4000;

static int wrapped(int i, int size, cudaTextureAddressMode mode, bool &inside) {
    inside = true;
    switch (mode) {
    case cudaAddressModeWrap:
        return ((i % size) + size) % size;
    case cudaAddressModeMirror:
        i = ((i % (2 * size)) + 2 * size) % (2 * size);
        return i < size ? i : 2 * size - 1 - i;
    case cudaAddressModeBorder:
        inside = i >= 0 && i < size;
        return inside ? i : 0;
    default:
        return i < 0 ? 0 : i >= size ? size - 1 : i;
    }
}

struct Sampler {
    const float *data;
    int size[3];
    cudaTextureAddressMode mode;
    bool linear, normalized;

    float texel(int x, int y, int z) const {
        bool in[3];
        x = wrapped(x, size[0], mode, in[0]);
        y = wrapped(y, size[1], mode, in[1]);
        z = wrapped(z, size[2], mode, in[2]);
        return in[0] && in[1] && in[2] ? data[(z * size[1] + y) * size[0] + x] : 0.0f;
    }

    float at(float x, float y, float z) const {
        float p[3] = {x, y, z};
        int low[3];
        float weight[3];
        for (int axis = 0; axis < 3; ++axis) {
            float scaled = normalized ? p[axis] * static_cast<float>(size[axis]) : p[axis];
            float shifted = linear ? scaled - 0.5f : scaled;
            low[axis] = static_cast<int>(std::floor(shifted));
            weight[axis] = linear ? shifted - std::floor(shifted) : 0.0f;
        }
        float sum = 0.0f;
        for (int corner = 0; corner < 8; ++corner) {
            float part = 1.0f;
            int at_[3];
            for (int axis = 0; axis < 3; ++axis) {
                int high = corner >> axis & 1;
                part *= high ? weight[axis] : 1.0f - weight[axis];
                at_[axis] = low[axis] + high;
            }
            if (part != 0.0f) {
                sum += part * texel(at_[0], at_[1], at_[2]);
            }
        }
        return sum;
    }
};

static cudaTextureDesc description(cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized) {
    cudaTextureDesc description = {};
    for (cudaTextureAddressMode &axis : description.addressMode) {
        axis = mode;
    }
    description.filterMode = filter;
    description.normalizedCoords = normalized;
    return description;
}

static void planes(Verdict &verdict) {
    Random random(5);
    std::vector<float> image(width * height);
    for (float &value : image) {
        value = static_cast<float>(random.below(1000));
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, width, height));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    std::vector<float> back(width * height);
    CHECK(cudaMemcpy2DFromArray(back.data(), width * 4, array, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    verdict.equal(back, image, "an array copied back");
    cudaArray_t other;
    CHECK(cudaMallocArray(&other, &format, width, height));
    const size_t row = width * 4, bytes = row * height;
    CHECK(cudaMemcpyToArrayAsync(other, 0, 0, image.data() + width, bytes - row, cudaMemcpyHostToDevice, nullptr));
    CHECK(cudaMemcpyArrayToArray(other, 0, height - 1, array, 0, 0, row, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpyFromArrayAsync(back.data() + width, other, 0, 0, bytes - row, cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaMemcpyFromArrayAsync(back.data(), other, 0, height - 1, row, cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    verdict.equal(back, image, "rows in a circle");
    CHECK(cudaFreeArray(other));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    int combinations = 0;
    for (int mode = cudaAddressModeWrap; mode <= cudaAddressModeBorder; ++mode) {
        for (bool linear : {false, true}) {
            for (bool normalized : {false, true}) {
                auto address = static_cast<cudaTextureAddressMode>(mode);
                if (!normalized && (address == cudaAddressModeWrap || address == cudaAddressModeMirror)) {
                    continue;
                }
                auto wanted = description(address, linear ? cudaFilterModeLinear : cudaFilterModePoint, normalized);
                cudaTextureObject_t texture;
                CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, nullptr));
                std::vector<float2> at(n);
                std::vector<float> expected(n);
                Sampler sampler = {image.data(), {width, height, 1}, address, linear, normalized};
                sampler.size[2] = 1;
                for (int i = 0; i < n; ++i) {
                    // Sixteenths of a texel off the borders: no rounding decides.
                    float x = static_cast<float>(random.below(16 * 3 * width)) / 16.0f - width + 1.0f / 32.0f;
                    float y = static_cast<float>(random.below(16 * 3 * height)) / 16.0f - height + 1.0f / 32.0f;
                    at[i] = normalized ? make_float2(x / width, y / height) : make_float2(x, y);
                    Sampler flat = sampler;
                    flat.mode = address;
                    float z = linear ? 0.5f : 0.0f;
                    expected[i] = flat.at(at[i].x, at[i].y, normalized ? z : z);
                }
                DeviceArray<float2> places(at);
                DeviceArray<float> out(n);
                sample_2d<<<(n + 127) / 128, 128>>>(texture, places.get(), out.get(), n);
                CHECK_LAUNCH();
                // Weights have 8 bits.
                verdict.near(out.download(), expected, linear ? 0.02 : 0.0, "a sampled plane");
                CHECK(cudaDestroyTextureObject(texture));
                ++combinations;
            }
        }
    }
    std::printf("planes %d\n", combinations);
    CHECK(cudaFreeArray(array));
}

static void memory(Verdict &verdict) {
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i) * 0.5f;
    }
    DeviceArray<float> data(values), out(64);
    std::vector<int> at(64);
    std::vector<float> expected(64);
    for (int i = 0; i < 64; ++i) {
        at[i] = i * 17 - 20;
        expected[i] = at[i] < 0 || at[i] >= 1000 ? 0.0f : values[at[i]];
    }
    size_t most = 0;
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&most, &floats, 0));
    verdict.expect(most >= (1u << 27), "the width of linear textures");
    DeviceArray<int> places(at);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = data.get();
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = 1000 * sizeof(float);
    cudaTextureDesc plain = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &plain, nullptr));
    fetch_1d<<<1, 64>>>(texture, places.get(), out.get(), 64);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "linear memory");
    CHECK(cudaDestroyTextureObject(texture));

    // Bytes in pitched memory, read as [0, 1].
    std::vector<uchar4> bytes(16 * 4);
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = make_uchar4(i, 2 * i, 255 - i, 255);
    }
    void *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, 16 * sizeof(uchar4), 4));
    CHECK(cudaMemcpy2D(pitched, pitch, bytes.data(), 64, 64, 4, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pitched;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<uchar4>();
    resource.res.pitch2D.width = 16;
    resource.res.pitch2D.height = 4;
    resource.res.pitch2D.pitchInBytes = pitch;
    plain = description(cudaAddressModeClamp, cudaFilterModeLinear, false);
    plain.readMode = cudaReadModeNormalizedFloat;
    CHECK(cudaCreateTextureObject(&texture, &resource, &plain, nullptr));
    std::vector<float2> corners = {{0.5f, 0.5f}, {3.0f, 0.5f}, {15.5f, 3.5f}, {-9.0f, 99.0f}};
    DeviceArray<float2> where(corners);
    DeviceArray<float4> colours(4);
    sample_bytes<<<1, 4>>>(texture, where.get(), colours.get(), 4);
    CHECK_LAUNCH();
    for (float4 colour : colours.download()) {
        std::printf("colour %.3f %.3f %.3f %.3f\n", colour.x, colour.y, colour.z, colour.w);
    }
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(pitched));
}

static void volumes(Verdict &verdict) {
    Random random(9);
    std::vector<float> box(width * height * depth);
    for (float &value : box) {
        value = static_cast<float>(random.below(256));
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(box.data(), width * sizeof(float), width, height);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(width, height, depth);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc wanted = description(cudaAddressModeMirror, cudaFilterModeLinear, true);
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, nullptr));
    Sampler sampler = {box.data(), {width, height, depth}, cudaAddressModeMirror, true, true};
    std::vector<float4> at(500);
    std::vector<float> expected(500);
    for (int i = 0; i < 500; ++i) {
        at[i] = make_float4(random.real() * 3 - 1, random.real() * 3 - 1, random.real() * 3 - 1, 0);
        expected[i] = sampler.at(at[i].x, at[i].y, at[i].z);
    }
    DeviceArray<float4> places(at);
    DeviceArray<float> out(500);
    sample_3d<<<4, 128>>>(texture, places.get(), out.get(), 500);
    CHECK_LAUNCH();
    verdict.near(out.download(), expected, 0.05, "a sampled volume");
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));
    std::printf("volume\n");
}

static void layered(Verdict &verdict) {
    std::vector<int> flat(8 * 3 * 4);
    std::vector<short> lines(8 * 4);
    for (size_t i = 0; i < flat.size(); ++i) {
        flat[i] = static_cast<int>(i) - 50;
    }
    for (size_t i = 0; i < lines.size(); ++i) {
        lines[i] = static_cast<short>(i);
    }
    cudaChannelFormatDesc ints = cudaCreateChannelDesc<int>(), shorts = cudaCreateChannelDesc<short>();
    cudaArray_t arrays[2];
    CHECK(cudaMalloc3DArray(&arrays[0], &ints, make_cudaExtent(8, 3, 4), cudaArrayLayered));
    CHECK(cudaMalloc3DArray(&arrays[1], &shorts, make_cudaExtent(8, 0, 4), cudaArrayLayered));
    cudaTextureObject_t textures[2];
    for (int i = 0; i < 2; ++i) {
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = i == 0 ? make_cudaPitchedPtr(flat.data(), 32, 8, 3) : make_cudaPitchedPtr(lines.data(), 16, 8, 1);
        copy.dstArray = arrays[i];
        copy.extent = make_cudaExtent(8, i == 0 ? 3 : 1, 4);
        copy.kind = cudaMemcpyHostToDevice;
        CHECK(cudaMemcpy3D(&copy));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = arrays[i];
        cudaTextureDesc wanted = description(cudaAddressModeClamp, cudaFilterModePoint, false);
        CHECK(cudaCreateTextureObject(&textures[i], &resource, &wanted, nullptr));
    }
    DeviceArray<int> out(32);
    layers<<<4, 8>>>(textures[0], textures[1], out.get());
    CHECK_LAUNCH();
    std::vector<int> expected(32);
    for (int layer = 0; layer < 4; ++layer) {
        for (int x = 0; x < 8; ++x) {
            expected[layer * 8 + x] = flat[layer * 24 + 8 + x] * 1000 + lines[layer * 8 + x];
        }
    }
    verdict.equal(out.download(), expected, "layers");
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaDestroyTextureObject(textures[i]));
        CHECK(cudaFreeArray(arrays[i]));
    }
    std::printf("layers\n");
}

static void written(Verdict &verdict) {
    std::vector<float> image(width * height), expected(width * height);
    for (int i = 0; i < width * height; ++i) {
        image[i] = static_cast<float>(i);
        expected[i] = i % width == 0 ? image[i] : image[i] + image[i] - 1;
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>(), colour = cudaCreateChannelDesc<uchar4>();
    cudaArray_t arrays[3];
    cudaSurfaceObject_t objects[3];
    for (int i = 0; i < 3; ++i) {
        if (i < 2) {
            CHECK(cudaMallocArray(&arrays[i], &format, width, height, cudaArraySurfaceLoadStore));
        } else {
            CHECK(cudaMalloc3DArray(&arrays[i], &colour, make_cudaExtent(4, 3, 2), cudaArraySurfaceLoadStore));
        }
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = arrays[i];
        CHECK(cudaCreateSurfaceObject(&objects[i], &resource));
    }
    CHECK(cudaMemcpy2DToArray(arrays[0], 0, 0, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    surfaces<<<dim3(1, height + 2), 32>>>(objects[0], objects[1], width, height);
    CHECK_LAUNCH();
    std::vector<float> result(width * height);
    CHECK(cudaMemcpy2DFromArray(result.data(), width * 4, arrays[1], 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    verdict.equal(result, expected, "a surface");
    fill_volume<<<2, dim3(4, 3)>>>(objects[2]);
    CHECK_LAUNCH();
    std::vector<uchar4> volume(24);
    cudaMemcpy3DParms copy = {};
    copy.srcArray = arrays[2];
    copy.dstPtr = make_cudaPitchedPtr(volume.data(), 16, 4, 3);
    copy.extent = make_cudaExtent(4, 3, 2);
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    uchar4 last = volume[23];
    std::printf("surface %d %d %d %d\n", last.x, last.y, last.z, last.w);
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaDestroySurfaceObject(objects[i]));
        CHECK(cudaFreeArray(arrays[i]));
    }
}

int main() {
    Verdict verdict;
    planes(verdict);
    memory(verdict);
    volumes(verdict);
    layered(verdict);
    written(verdict);
    return verdict.finish();
}
