// Arrays of one API in texture and surface objects of the other.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void copy(cudaTextureObject_t from, cudaSurfaceObject_t to, int width, int height) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) surf2Dwrite(tex2D<float>(from, x + 0.5f, y + 0.5f) * 2 + 1, to, x * 4, y);
}

static const int WIDTH = 16, HEIGHT = 9;

static void check(const float* actual, float factor, float shift) {
    for (int i = 0; i < WIDTH * HEIGHT; ++i) EXPECT(actual[i] == i * factor + shift);
}

int main() {
    begin();
    float host[WIDTH * HEIGHT], back[WIDTH * HEIGHT];
    for (int i = 0; i < WIDTH * HEIGHT; ++i) host[i] = i;
    // The source is the driver's array, the target the runtime's.
    CUarray source;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    descriptor.Width = WIDTH, descriptor.Height = HEIGHT, descriptor.Format = CU_AD_FORMAT_FLOAT, descriptor.NumChannels = 1;
    descriptor.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    OK(cuArray3DCreate(&source, &descriptor));
    cudaArray_t target;
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
    EXPECT(cudaMallocArray(&target, &channels, WIDTH, HEIGHT, cudaArraySurfaceLoadStore) == cudaSuccess);
    // What is known of the one's array by the other.
    cudaExtent extent;
    unsigned flags = 0;
    EXPECT(cudaArrayGetInfo(&channels, &extent, &flags, (cudaArray_t)source) == cudaSuccess);
    EXPECT(extent.width == WIDTH && extent.height == HEIGHT && flags == cudaArraySurfaceLoadStore && channels.x == 32 && channels.f == cudaChannelFormatKindFloat);
    CUDA_ARRAY3D_DESCRIPTOR known = {};
    OK(cuArray3DGetDescriptor(&known, (CUarray)target));
    EXPECT(known.Width == WIDTH && known.Height == HEIGHT && known.Format == CU_AD_FORMAT_FLOAT && known.NumChannels == 1);

    EXPECT(cudaMemcpy2DToArray((cudaArray_t)source, 0, 0, host, WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice) == cudaSuccess);
    // A texture of the driver's, a surface of the runtime's.
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = source;
    CUDA_TEXTURE_DESC how = {};
    how.addressMode[0] = how.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    CUtexObject texture;
    OK(cuTexObjectCreate(&texture, &resource, &how, nullptr));
    cudaResourceDesc runtime_resource = {};
    runtime_resource.resType = cudaResourceTypeArray, runtime_resource.res.array.array = target;
    cudaSurfaceObject_t surface;
    EXPECT(cudaCreateSurfaceObject(&surface, &runtime_resource) == cudaSuccess);
    copy<<<1, dim3(16, 16)>>>(texture, surface, WIDTH, HEIGHT);
    CUDA_MEMCPY2D down = {};
    down.srcMemoryType = CU_MEMORYTYPE_ARRAY, down.srcArray = (CUarray)target;
    down.dstMemoryType = CU_MEMORYTYPE_HOST, down.dstHost = back, down.dstPitch = WIDTH * 4;
    down.WidthInBytes = WIDTH * 4, down.Height = HEIGHT;
    OK(cuMemcpy2D(&down));
    check(back, 2, 1);
    cudaResourceDesc told = {};
    EXPECT(cudaGetTextureObjectResourceDesc(&told, texture) == cudaSuccess && told.res.array.array == (cudaArray_t)source);
    EXPECT(cudaDestroyTextureObject(texture) == cudaSuccess);
    if (on_farlane()) FAILS(cuTexObjectDestroy(texture), CUDA_ERROR_INVALID_VALUE);
    OK(cuSurfObjectDestroy(surface));
    if (on_farlane()) EXPECT(cudaDestroySurfaceObject(surface) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);

    // And back: a texture of the runtime's on its array, a surface of the driver's on its own.
    cudaTextureDesc runtime_how = {};
    runtime_how.addressMode[0] = runtime_how.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t runtime_texture;
    EXPECT(cudaCreateTextureObject(&runtime_texture, &runtime_resource, &runtime_how, nullptr) == cudaSuccess);
    CUsurfObject driver_surface;
    OK(cuSurfObjectCreate(&driver_surface, &resource));
    copy<<<1, dim3(16, 16)>>>(runtime_texture, driver_surface, WIDTH, HEIGHT);
    EXPECT(cudaMemcpy2DFromArray(back, WIDTH * 4, (cudaArray_t)source, 0, 0, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToHost) == cudaSuccess);
    check(back, 4, 3);
    OK(cuTexObjectDestroy(runtime_texture));
    EXPECT(cudaDestroySurfaceObject(driver_surface) == cudaSuccess);
    OK(cuArrayDestroy((CUarray)target));
    EXPECT(cudaFreeArray((cudaArray_t)source) == cudaSuccess);
    if (on_farlane()) FAILS(cuArrayDestroy(source), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cudaGetLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
