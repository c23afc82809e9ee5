// What the programs of the driver API share: a check that ends the program, and a context.
#pragma once
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                \
    do {                                                                 \
        if (!(condition)) {                                              \
            printf("line %d: %s does not hold\n", __LINE__, #condition); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

#define OK(call)                                                              \
    do {                                                                      \
        CUresult result_ = (call);                                            \
        if (result_ != CUDA_SUCCESS) {                                        \
            printf("line %d: %s returned %d\n", __LINE__, #call, (int)result_); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

#define FAILS(call, code)                                                                           \
    do {                                                                                            \
        CUresult result_ = (call);                                                                  \
        if (result_ != (code)) {                                                                    \
            printf("line %d: %s returned %d, not %d\n", __LINE__, #call, (int)result_, (int)(code)); \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

// What NVIDIA's driver (580, an H100) takes or does not survive, where Farlane answers an error: only Farlane is asked. It reads through handles
// and pointers that are none.
static inline bool on_farlane() {
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "farlane");
}

// Initializes the driver and makes the primary context current.
static inline CUdevice begin() {
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return device;
}

// A context beside the primary one, current from then on. CUDA 13 has another cuCtxCreate.
static inline CUcontext create(CUdevice device) {
    CUcontext created;
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&created, nullptr, 0, device));
#else
    OK(cuCtxCreate(&created, 0, device));
#endif
    return created;
}

#define PTX_HEADER ".version 7.5\n.target sm_75\n.address_size 64\n"

// scale(float* data, float factor, int count): data[i] *= factor.
#define PTX_SCALE                                                                                      \
    ".visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 count)\n{\n"              \
    ".reg .pred %p<2>;\n.reg .f32 %f<4>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<5>;\n"                       \
    "ld.param.u64 %rd1, [data];\nld.param.f32 %f1, [factor];\nld.param.u32 %r1, [count];\n"            \
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n" \
    "setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra DONE;\n"                                                     \
    "cvta.to.global.u64 %rd2, %rd1;\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"          \
    "ld.global.f32 %f2, [%rd4];\nmul.f32 %f3, %f2, %f1;\nst.global.f32 [%rd4], %f3;\nDONE:\nret;\n}\n"

// fill(int* data, int value): data[thread] = value + thread.
#define PTX_FILL                                                                                        \
    ".visible .entry fill(.param .u64 data, .param .u32 value)\n{\n"                                    \
    ".reg .b32 %r<6>;\n.reg .b64 %rd<5>;\n"                                                             \
    "ld.param.u64 %rd1, [data];\nld.param.u32 %r1, [value];\n"                                          \
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n" \
    "cvta.to.global.u64 %rd2, %rd1;\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"           \
    "add.s32 %r5, %r5, %r1;\nst.global.u32 [%rd4], %r5;\nret;\n}\n"
