// Textures and surfaces in kernels of PTX text: arrays with layers of channels, levels of mipmapped arrays, memory in rows; every address mode by hand.
#include "../driver.h"

#include <vector>

static const char* TEXT = PTX_HEADER
    // paint(surface, int width, int height): element (x, y) = 10 y + x
    ".visible .entry paint(.param .u64 surface, .param .u32 width, .param .u32 height)\n{\n"
    ".reg .pred %p<3>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [surface];\nld.param.u32 %r1, [width];\nld.param.u32 %r2, [height];\n"
    "mov.u32 %r3, %tid.x;\nmov.u32 %r4, %tid.y;\nsetp.ge.u32 %p1, %r3, %r1;\n@%p1 bra DONE;\nsetp.ge.u32 %p2, %r4, %r2;\n@%p2 bra DONE;\n"
    "mad.lo.u32 %r5, %r4, 10, %r3;\nshl.b32 %r6, %r3, 2;\nsust.b.2d.b32.trap [%rd1, {%r6, %r4}], {%r5};\nDONE:\nret;\n}\n"
    // sample(int* out, texture, int first, int width): out[y * width + x] = the texture at (first + x, first + y)
    ".visible .entry sample(.param .u64 out, .param .u64 texture, .param .s32 first, .param .u32 width)\n{\n"
    ".reg .f32 %f<4>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<5>;\n"
    "ld.param.u64 %rd1, [out];\nld.param.u64 %rd2, [texture];\nld.param.s32 %r1, [first];\nld.param.u32 %r2, [width];\ncvta.to.global.u64 %rd1, %rd1;\n"
    "mov.u32 %r3, %tid.x;\nmov.u32 %r4, %tid.y;\nadd.s32 %r5, %r3, %r1;\nadd.s32 %r6, %r4, %r1;\n"
    "cvt.rn.f32.s32 %f1, %r5;\nadd.rn.f32 %f1, %f1, 0f3F000000;\ncvt.rn.f32.s32 %f2, %r6;\nadd.rn.f32 %f2, %f2, 0f3F000000;\n"
    "tex.2d.v4.s32.f32 {%r7, %r8, %r9, %r10}, [%rd2, {%f1, %f2}];\n"
    "mad.lo.u32 %r11, %r4, %r2, %r3;\nmul.wide.u32 %rd3, %r11, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], %r7;\nret;\n}\n";

static CUfunction paint, sample;

static void painted(CUarray array, unsigned width, unsigned height) {
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    CUsurfObject surface;
    OK(cuSurfObjectCreate(&surface, &resource));
    CUDA_RESOURCE_DESC told = {};
    OK(cuSurfObjectGetResourceDesc(&told, surface));
    EXPECT(told.resType == CU_RESOURCE_TYPE_ARRAY && told.res.array.hArray == array);
    void* parameters[] = {&surface, &width, &height};
    OK(cuLaunchKernel(paint, 1, 1, 1, 32, 32, 1, 0, nullptr, parameters, nullptr));
    OK(cuSurfObjectDestroy(surface));
    if (on_farlane()) FAILS(cuSurfObjectDestroy(surface), CUDA_ERROR_INVALID_VALUE);
}

static int outside(int at, int size, CUaddress_mode mode) {  // the element that is read, or -1 for the border
    if (at >= 0 && at < size) return at;
    return mode == CU_TR_ADDRESS_MODE_CLAMP ? (at < 0 ? 0 : size - 1) : -1;
}

// Reads 16 x 16 elements from (-3, -3) on, and compares them with what `paint` has written.
static long long compare(const CUDA_RESOURCE_DESC& resource, int width, int height, CUaddress_mode mode, CUdeviceptr out) {
    CUDA_TEXTURE_DESC how = {};
    how.addressMode[0] = how.addressMode[1] = mode, how.filterMode = CU_TR_FILTER_MODE_POINT, how.flags = CU_TRSF_READ_AS_INTEGER;
    CUtexObject texture;
    OK(cuTexObjectCreate(&texture, &resource, &how, nullptr));
    int first = -3, side = 16, ints[256];
    void* parameters[] = {&out, &texture, &first, &side};
    OK(cuLaunchKernel(sample, 1, 1, 1, side, side, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, out, sizeof ints));
    long long sum = 0;
    for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x) {
            const int column = outside(first + x, width, mode), row = outside(first + y, height, mode);
            EXPECT(ints[y * side + x] == (column < 0 || row < 0 ? 0 : 10 * row + column));
            sum += ints[y * side + x];
        }
    }
    OK(cuTexObjectDestroy(texture));
    return sum;
}

int main() {
    CUdevice device = begin();
    CUmodule module;
    OK(cuModuleLoadData(&module, TEXT));
    OK(cuModuleGetFunction(&paint, module, "paint"));
    OK(cuModuleGetFunction(&sample, module, "sample"));
    CUdeviceptr out;
    OK(cuMemAlloc(&out, 256 * sizeof(int)));
    const CUaddress_mode modes[] = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_BORDER};
    long long sum = 0;

    // An array, and the same content as rows of memory.
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR wanted = {};
    wanted.Width = 10, wanted.Height = 7, wanted.Format = CU_AD_FORMAT_SIGNED_INT32, wanted.NumChannels = 1;
    wanted.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    OK(cuArray3DCreate(&array, &wanted));
    painted(array, 10, 7);
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    for (CUaddress_mode mode : modes) sum += compare(resource, 10, 7, mode, out);
    CUdeviceptr rows;
    size_t pitch = 0;
    int alignment = 0;
    OK(cuMemAllocPitch(&rows, &pitch, 40, 7, 4));
    OK(cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device));
    EXPECT(alignment && pitch % alignment == 0);
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = array;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = rows, copy.dstPitch = pitch;
    copy.WidthInBytes = 40, copy.Height = 7;
    OK(cuMemcpy2D(&copy));
    CUDA_RESOURCE_DESC of_rows = {};
    of_rows.resType = CU_RESOURCE_TYPE_PITCH2D;
    of_rows.res.pitch2D.devPtr = rows, of_rows.res.pitch2D.pitchInBytes = pitch;
    of_rows.res.pitch2D.width = 10, of_rows.res.pitch2D.height = 7;
    of_rows.res.pitch2D.format = CU_AD_FORMAT_SIGNED_INT32, of_rows.res.pitch2D.numChannels = 1;
    for (CUaddress_mode mode : modes) sum += compare(of_rows, 10, 7, mode, out);
    OK(cuMemFree(rows));
    OK(cuArrayDestroy(array));

    // Each level of a mipmapped array is an array of its own.
    CUmipmappedArray levels;
    wanted.Width = 12, wanted.Height = 12;
    OK(cuMipmappedArrayCreate(&levels, &wanted, 3));
    for (unsigned i = 0; i < 3; ++i) {
        CUarray level;
        CUDA_ARRAY3D_DESCRIPTOR known;
        OK(cuMipmappedArrayGetLevel(&level, levels, i));
        OK(cuArray3DGetDescriptor(&known, level));
        EXPECT(known.Width == 12u >> i && known.Height == 12u >> i && known.Format == CU_AD_FORMAT_SIGNED_INT32);
        painted(level, 12 >> i, 12 >> i);
        resource.res.array.hArray = level;
        for (CUaddress_mode mode : modes) sum += compare(resource, 12 >> i, 12 >> i, mode, out);
    }
    CUarray none;
    FAILS(cuMipmappedArrayGetLevel(&none, levels, 3), CUDA_ERROR_INVALID_VALUE);
    OK(cuMipmappedArrayDestroy(levels));
    if (on_farlane()) FAILS(cuMipmappedArrayDestroy(levels), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(out));
    printf("driver_surfaces %lld\nPASS\n", sum);
    return 0;
}
