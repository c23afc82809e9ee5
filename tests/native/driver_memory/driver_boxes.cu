// Copies of rows, boxes and arrays by the driver API: host, device, unified and array ends, places in them, contexts, batches.
#include "../driver.h"
#include <vector>

static std::vector<unsigned char> numbered(size_t size) {
    std::vector<unsigned char> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = (unsigned char)(i * 37 + i / 256);
    return bytes;
}

int main() {
    CUdevice device = begin();
    (void)device;
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    std::vector<unsigned char> host = numbered(4096), back(4096, 0);
    CUdeviceptr memory;
    size_t pitch;
    OK(cuMemAllocPitch(&memory, &pitch, 40, 20, 4));
    OK(cuMemsetD8(memory, 0, pitch * 20));

    // Ten rows of 24 bytes from the middle of the host's rows of 64 to the middle of the device's.
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = CU_MEMORYTYPE_HOST, rows.srcHost = host.data(), rows.srcPitch = 64, rows.srcXInBytes = 8, rows.srcY = 3;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE, rows.dstDevice = memory, rows.dstPitch = pitch, rows.dstXInBytes = 4, rows.dstY = 5;
    rows.WidthInBytes = 24, rows.Height = 10;
    OK(cuMemcpy2D(&rows));
    OK(cuMemcpyDtoH(back.data(), memory + 7 * pitch + 4, 24));
    for (int i = 0; i < 24; ++i) EXPECT(back[i] == host[(3 + 2) * 64 + 8 + i]);
    // And back, unified, in a stream.
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA_MEMCPY2D other = {};
    other.srcMemoryType = CU_MEMORYTYPE_UNIFIED, other.srcDevice = memory, other.srcPitch = pitch, other.srcXInBytes = 4, other.srcY = 5;
    other.dstMemoryType = CU_MEMORYTYPE_HOST, other.dstHost = back.data(), other.dstPitch = 24;
    other.WidthInBytes = 24, other.Height = 10;
    OK(cuMemcpy2DAsync(&other, stream));
    OK(cuStreamSynchronize(stream));
    for (int y = 0; y < 10; ++y)
        for (int x = 0; x < 24; ++x) EXPECT(back[y * 24 + x] == host[(3 + y) * 64 + 8 + x]);
    OK(cuMemcpy2DUnaligned(&other));
    other.dstPitch = 20;
    FAILS(cuMemcpy2D(&other), CUDA_ERROR_INVALID_VALUE);
    other.srcMemoryType = (CUmemorytype)9;
    FAILS(cuMemcpy2D(&other), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemcpy2D(nullptr), CUDA_ERROR_INVALID_VALUE);

    // A box to an array of float2 and back to another place.
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR wanted = {};
    wanted.Width = 8, wanted.Height = 6, wanted.Depth = 4, wanted.Format = CU_AD_FORMAT_FLOAT, wanted.NumChannels = 2;
    OK(cuArray3DCreate(&array, &wanted));
    CUDA_MEMCPY3D box = {};
    box.srcMemoryType = CU_MEMORYTYPE_HOST, box.srcHost = host.data(), box.srcPitch = 64, box.srcHeight = 6;
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY, box.dstArray = array;
    box.WidthInBytes = 64, box.Height = 6, box.Depth = 4;
    OK(cuMemcpy3D(&box));
    CUDA_MEMCPY3D part = {};
    part.srcMemoryType = CU_MEMORYTYPE_ARRAY, part.srcArray = array, part.srcXInBytes = 16, part.srcY = 2, part.srcZ = 1;
    part.dstMemoryType = CU_MEMORYTYPE_HOST, part.dstHost = back.data(), part.dstPitch = 32, part.dstHeight = 3;
    part.WidthInBytes = 32, part.Height = 3, part.Depth = 2;
    OK(cuMemcpy3DAsync(&part, stream));
    OK(cuStreamSynchronize(stream));
    for (int z = 0; z < 2; ++z)
        for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 32; ++x) EXPECT(back[(z * 3 + y) * 32 + x] == host[((1 + z) * 6 + 2 + y) * 64 + 16 + x]);
    part.srcXInBytes = 3;
    if (on_farlane()) FAILS(cuMemcpy3D(&part), CUDA_ERROR_INVALID_VALUE);
    part.srcXInBytes = 16, part.WidthInBytes = 64;
    FAILS(cuMemcpy3D(&part), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D_PEER peer = {};
    peer.srcMemoryType = CU_MEMORYTYPE_ARRAY, peer.srcArray = array, peer.srcContext = context;
    peer.dstMemoryType = CU_MEMORYTYPE_DEVICE, peer.dstDevice = memory, peer.dstPitch = pitch, peer.dstContext = context;
    peer.WidthInBytes = 40, peer.Height = 6, peer.Depth = 1;
    OK(cuMemcpy3DPeer(&peer));
    OK(cuMemcpyDtoH(back.data(), memory + 5 * pitch, 40));
    for (int x = 0; x < 40; ++x) EXPECT(back[x] == host[5 * 64 + x]);
    peer.dstContext = (CUcontext)0x10;
    if (on_farlane()) FAILS(cuMemcpy3DPeer(&peer), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuArrayDestroy(array));

    // Lines to and from one-dimensional arrays.
    CUDA_ARRAY_DESCRIPTOR line = {};
    line.Width = 100, line.Height = 0, line.Format = CU_AD_FORMAT_UNSIGNED_INT32, line.NumChannels = 1;
    CUarray first, second;
    OK(cuArrayCreate(&first, &line));
    OK(cuArrayCreate(&second, &line));
    OK(cuMemcpyHtoA(first, 40, host.data(), 200));
    OK(cuMemcpyAtoA(second, 0, first, 80, 160));
    OK(cuMemcpyAtoD(memory, second, 0, 40));
    OK(cuMemcpyDtoA(second, 160, memory, 40));
    OK(cuMemcpyAtoH(back.data(), second, 0, 200));
    for (int i = 0; i < 160; ++i) EXPECT(back[i] == host[40 + i]);
    for (int i = 0; i < 40; ++i) EXPECT(back[160 + i] == host[40 + i]);
    FAILS(cuMemcpyHtoA(first, 380, host.data(), 40), CUDA_ERROR_INVALID_VALUE);
    OK(cuArrayDestroy(first));
    OK(cuArrayDestroy(second));

    // Between contexts, and several at once.
    OK(cuMemcpyHtoD(memory, host.data(), 40));
    OK(cuMemcpyPeer(memory + 64, context, memory, context, 40));
    if (on_farlane()) FAILS(cuMemcpyPeer(memory + 64, context, memory, (CUcontext)0x20, 40), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemcpyDtoH(back.data(), memory + 64, 40));
    for (int i = 0; i < 40; ++i) EXPECT(back[i] == host[i]);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(memory));
    printf("PASS\n");
    return 0;
}
