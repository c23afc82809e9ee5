// What textures have beside places: cube maps and layers of them, gathers of four texels, border colours, levels and gradients where there is one level.
#include <cstring>

#include "../support.cuh"

static const int width = 4, cubes = 2;

__device__ float3 direction(int face, float u, float v) {
    switch (face) {
    case 0:
        return make_float3(1, -v, -u);
    case 1:
        return make_float3(-1, -v, u);
    case 2:
        return make_float3(u, 1, v);
    case 3:
        return make_float3(u, -1, -v);
    case 4:
        return make_float3(u, -v, 1);
    default:
        return make_float3(-u, -v, -1);
    }
}

__global__ void cube(cudaTextureObject_t one, cudaTextureObject_t many, float *out) {
    int x = threadIdx.x, y = threadIdx.y, face = blockIdx.x, layer = blockIdx.y;
    float3 at = direction(face, (x + 0.5f) / width * 2 - 1, (y + 0.5f) / width * 2 - 1);
    int place = ((layer * 6 + face) * width + y) * width + x;
    out[place] = texCubemapLayered<float>(many, at.x, at.y, at.z, layer);
    if (layer == 0) {
        out[place] += 1000 * texCubemap<float>(one, at.x, at.y, at.z);
    }
}

__global__ void others(cudaTextureObject_t flat, float4 *out) {
    out[0] = tex2Dgather<float4>(flat, 2.0f, 1.0f, 0);
    out[1].x = tex2DLod<float>(flat, 2.5f, 1.5f, 0.0f);
    out[1].y = tex2DGrad<float>(flat, 0.5f, 2.5f, make_float2(1, 0), make_float2(0, 1));
    out[1].z = tex2D<float>(flat, -1.0f, 0.5f);
    out[1].w = tex2D<float>(flat, 0.5f, 0.0f);  // half a texel, half the border
}

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureAddressMode mode, bool normalized) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc wanted = {};
    wanted.addressMode[0] = wanted.addressMode[1] = wanted.addressMode[2] = mode;
    wanted.filterMode = cudaFilterModeLinear;
    wanted.normalizedCoords = normalized;
    wanted.borderColor[0] = 64;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, nullptr));
    return texture;
}

static cudaArray_t array_of(const std::vector<float> &texels, cudaExtent extent, unsigned flags) {
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, extent, flags));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<float *>(texels.data()), extent.width * 4, extent.width, extent.height);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(extent.width, extent.height, extent.depth ? extent.depth : 1);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    return array;
}

int main() {
    Verdict verdict;
    const int face = width * width;
    std::vector<float> texels(cubes * 6 * face), expected(texels.size());
    for (size_t i = 0; i < texels.size(); ++i) {
        texels[i] = static_cast<float>(i);
        expected[i] = i < 6 * face ? 1001.0f * texels[i] : texels[i];
    }
    cudaArray_t one = array_of(texels, make_cudaExtent(width, width, 6), cudaArrayCubemap);
    cudaArray_t many = array_of(texels, make_cudaExtent(width, width, 6 * cubes), cudaArrayCubemap | cudaArrayLayered);
    cudaTextureObject_t objects[3] = {texture_of(one, cudaAddressModeWrap, true), texture_of(many, cudaAddressModeWrap, true)};
    DeviceArray<float> out(texels.size());
    cube<<<dim3(6, cubes), dim3(width, width)>>>(objects[0], objects[1], out.get());
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "cube maps");

    cudaArray_t flat = array_of(texels, make_cudaExtent(width, width, 0), cudaArrayTextureGather);
    objects[2] = texture_of(flat, cudaAddressModeBorder, false);
    DeviceArray<float4> seen(2);
    others<<<1, 1>>>(objects[2], seen.get());
    CHECK_LAUNCH();
    for (float4 value : seen.download()) {
        std::printf("%g %g %g %g\n", value.x, value.y, value.z, value.w);
    }
    for (cudaTextureObject_t object : objects) {
        CHECK(cudaDestroyTextureObject(object));
    }
    for (cudaArray_t array : {one, many, flat}) {
        CHECK(cudaFreeArray(array));
    }
    return verdict.finish();
}
