// Arrays, mipmapped arrays, texture and surface objects of the driver API, read and written by kernels that the runtime API launches.
#include "../driver.h"
#include <cuda_runtime.h>
#include <vector>

__global__ void read(cudaTextureObject_t texture, float *out, int width, int height) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) out[y * width + x] = tex2D<float>(texture, x + 0.5f, y + 0.5f);
}

__global__ void read_line(cudaTextureObject_t texture, unsigned *out, int count) {
    if (threadIdx.x < count) out[threadIdx.x] = tex1Dfetch<unsigned>(texture, threadIdx.x);
}

__global__ void write(cudaSurfaceObject_t surface, int width, int height) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) surf2Dwrite<float>(100.0f * y + x, surface, x * 4, y);
}

static const int WIDTH = 12, HEIGHT = 7;

int main() {
    CUdevice device;
    CUcontext context;
    EXPECT(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    EXPECT(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR wanted = {}, known = {};
    wanted.Width = WIDTH, wanted.Height = HEIGHT, wanted.Format = CU_AD_FORMAT_FLOAT, wanted.NumChannels = 1;
    wanted.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    EXPECT(cuArray3DCreate(&array, &wanted) == CUDA_SUCCESS && cuArray3DGetDescriptor(&known, array) == CUDA_SUCCESS);
    EXPECT(known.Width == WIDTH && known.Height == HEIGHT && known.Format == CU_AD_FORMAT_FLOAT && known.NumChannels == 1);
    EXPECT(known.Depth == 0 && known.Flags == CUDA_ARRAY3D_SURFACE_LDST);
    wanted.NumChannels = 3;
    CUarray none;
    EXPECT(cuArray3DCreate(&none, &wanted) == CUDA_ERROR_INVALID_VALUE && cuArrayDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);

    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    CUsurfObject surface;
    EXPECT(cuSurfObjectCreate(&surface, &resource) == CUDA_SUCCESS);
    write<<<1, dim3(16, 16)>>>(surface, WIDTH, HEIGHT);
    CUDA_TEXTURE_DESC how = {}, how_known = {};
    how.addressMode[0] = how.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    how.filterMode = CU_TR_FILTER_MODE_POINT;
    CUtexObject texture;
    EXPECT(cuTexObjectCreate(&texture, &resource, &how, nullptr) == CUDA_SUCCESS);
    EXPECT(cuTexObjectCreate(&texture, nullptr, &how, nullptr) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuTexObjectCreate(&texture, &resource, &how, nullptr) == CUDA_SUCCESS);
    float *out;
    std::vector<float> host(WIDTH * HEIGHT);
    EXPECT(cudaMalloc(&out, host.size() * 4) == cudaSuccess);
    read<<<1, dim3(16, 16)>>>(texture, out, WIDTH, HEIGHT);
    EXPECT(cuMemcpyDtoH(host.data(), (CUdeviceptr)out, host.size() * 4) == CUDA_SUCCESS);
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x) EXPECT(host[y * WIDTH + x] == 100.0f * y + x);
    CUDA_RESOURCE_DESC resource_known = {};
    EXPECT(cuTexObjectGetResourceDesc(&resource_known, texture) == CUDA_SUCCESS && resource_known.res.array.hArray == array);
    EXPECT(cuTexObjectGetTextureDesc(&how_known, texture) == CUDA_SUCCESS && how_known.addressMode[0] == CU_TR_ADDRESS_MODE_CLAMP);
    if (on_farlane()) EXPECT(cuTexObjectDestroy(texture) == CUDA_SUCCESS && cuTexObjectDestroy(texture) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuSurfObjectDestroy(surface) == CUDA_SUCCESS && cuArrayDestroy(array) == CUDA_SUCCESS);
    if (on_farlane()) EXPECT(cuArrayDestroy(array) == CUDA_ERROR_INVALID_HANDLE);

    // Linear memory of integers that are read as they are.
    unsigned numbers[20];
    for (unsigned i = 0; i < 20; ++i) numbers[i] = i * i;
    CUdeviceptr linear;
    EXPECT(cuMemAlloc(&linear, sizeof numbers) == CUDA_SUCCESS && cuMemcpyHtoD(linear, numbers, sizeof numbers) == CUDA_SUCCESS);
    resource = {};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = linear, resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    resource.res.linear.numChannels = 1, resource.res.linear.sizeInBytes = sizeof numbers;
    how = {};
    how.flags = CU_TRSF_READ_AS_INTEGER;
    EXPECT(cuTexObjectCreate(&texture, &resource, &how, nullptr) == CUDA_SUCCESS);
    read_line<<<1, 32>>>(texture, (unsigned *)out, 20);
    unsigned seen[20];
    EXPECT(cuMemcpyDtoH(seen, (CUdeviceptr)out, sizeof seen) == CUDA_SUCCESS);
    for (unsigned i = 0; i < 20; ++i) EXPECT(seen[i] == i * i);
    EXPECT(cuTexObjectDestroy(texture) == CUDA_SUCCESS);

    CUmipmappedArray levels;
    CUarray level;
    wanted = {};
    wanted.Width = 16, wanted.Height = 8, wanted.Format = CU_AD_FORMAT_UNSIGNED_INT8, wanted.NumChannels = 4;
    EXPECT(cuMipmappedArrayCreate(&levels, &wanted, 3) == CUDA_SUCCESS);
    EXPECT(cuMipmappedArrayGetLevel(&level, levels, 2) == CUDA_SUCCESS && cuArray3DGetDescriptor(&known, level) == CUDA_SUCCESS);
    EXPECT(known.Width == 4 && known.Height == 2 && known.Format == CU_AD_FORMAT_UNSIGNED_INT8 && known.NumChannels == 4);
    EXPECT(cuMipmappedArrayGetLevel(&level, levels, 3) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMipmappedArrayDestroy(levels) == CUDA_SUCCESS);
    printf("PASS\n");
    return 0;
}
