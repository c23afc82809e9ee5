// Bodies that attract each other, integrated by two kernels of a library which cuLaunchKernelEx starts in streams that wait for each other.
#include "../driver.h"

#include <cmath>
#include <vector>

// A body is {x, y, z, mass}. The order of every operation is fixed, so the CPU's results are the same to the last bit.
static const char* TEXT = PTX_HEADER
    // accelerate(float4* out, const float4* bodies, int count)
    ".visible .entry accelerate(.param .u64 out, .param .u64 bodies, .param .u32 count)\n{\n"
    ".reg .pred %p<4>;\n.reg .f32 %f<32>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<12>;\n"
    "ld.param.u64 %rd1, [out];\nld.param.u64 %rd2, [bodies];\nld.param.u32 %r1, [count];\n"
    "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra DONE;\n"
    "mul.wide.s32 %rd3, %r5, 16;\nadd.s64 %rd4, %rd2, %rd3;\nadd.s64 %rd5, %rd1, %rd3;\n"
    "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];\n"
    "mov.f32 %f5, 0f00000000;\nmov.f32 %f6, 0f00000000;\nmov.f32 %f7, 0f00000000;\nmov.u32 %r6, 0;\n"
    "NEXT:\nld.global.v4.f32 {%f8, %f9, %f10, %f11}, [%rd2];\n"
    "sub.rn.f32 %f12, %f8, %f1;\nsub.rn.f32 %f13, %f9, %f2;\nsub.rn.f32 %f14, %f10, %f3;\n"
    "mul.rn.f32 %f15, %f12, %f12;\nfma.rn.f32 %f15, %f13, %f13, %f15;\nfma.rn.f32 %f15, %f14, %f14, %f15;\n"
    "add.rn.f32 %f15, %f15, 0f3C23D70A;\n"  // 0.01
    "sqrt.rn.f32 %f16, %f15;\nmul.rn.f32 %f17, %f16, %f15;\ndiv.rn.f32 %f18, %f11, %f17;\n"
    "fma.rn.f32 %f5, %f12, %f18, %f5;\nfma.rn.f32 %f6, %f13, %f18, %f6;\nfma.rn.f32 %f7, %f14, %f18, %f7;\n"
    "add.s64 %rd2, %rd2, 16;\nadd.s32 %r6, %r6, 1;\nsetp.lt.s32 %p2, %r6, %r1;\n@%p2 bra NEXT;\n"
    "st.global.v4.f32 [%rd5], {%f5, %f6, %f7, %f4};\nDONE:\nret;\n}\n"
    // move(float4* bodies, float4* velocities, const float4* accelerations, float step, int count)
    ".visible .entry move(.param .u64 bodies, .param .u64 velocities, .param .u64 accelerations, .param .f32 step, .param .u32 count)\n{\n"
    ".reg .pred %p<4>;\n.reg .f32 %f<24>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<12>;\n"
    "ld.param.u64 %rd1, [bodies];\nld.param.u64 %rd2, [velocities];\nld.param.u64 %rd3, [accelerations];\n"
    "ld.param.f32 %f1, [step];\nld.param.u32 %r1, [count];\n"
    "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\ncvta.to.global.u64 %rd3, %rd3;\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra DONE;\n"
    "mul.wide.s32 %rd4, %r5, 16;\nadd.s64 %rd5, %rd1, %rd4;\nadd.s64 %rd6, %rd2, %rd4;\nadd.s64 %rd7, %rd3, %rd4;\n"
    "ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd5];\nld.global.v4.f32 {%f6, %f7, %f8, %f9}, [%rd6];\n"
    "ld.global.v4.f32 {%f10, %f11, %f12, %f13}, [%rd7];\n"
    "fma.rn.f32 %f6, %f10, %f1, %f6;\nfma.rn.f32 %f7, %f11, %f1, %f7;\nfma.rn.f32 %f8, %f12, %f1, %f8;\n"
    "fma.rn.f32 %f2, %f6, %f1, %f2;\nfma.rn.f32 %f3, %f7, %f1, %f3;\nfma.rn.f32 %f4, %f8, %f1, %f4;\n"
    "st.global.v4.f32 [%rd5], {%f2, %f3, %f4, %f5};\nst.global.v4.f32 [%rd6], {%f6, %f7, %f8, %f9};\nDONE:\nret;\n}\n";

struct Four {
    float x, y, z, w;
};

static void step_on_cpu(std::vector<Four>& bodies, std::vector<Four>& velocities, float step) {
    std::vector<Four> forces(bodies.size());
    for (size_t i = 0; i < bodies.size(); ++i) {
        float ax = 0, ay = 0, az = 0;
        for (const Four& other : bodies) {
            const float x = other.x - bodies[i].x, y = other.y - bodies[i].y, z = other.z - bodies[i].z;
            volatile float first = x * x;
            volatile float distance = std::fmaf(z, z, std::fmaf(y, y, first));
            distance = distance + 0.01f;
            volatile float cube = std::sqrt((float)distance);
            cube = cube * distance;
            const float scale = other.w / cube;
            ax = std::fmaf(x, scale, ax), ay = std::fmaf(y, scale, ay), az = std::fmaf(z, scale, az);
        }
        forces[i] = {ax, ay, az, 0};
    }
    for (size_t i = 0; i < bodies.size(); ++i) {
        Four &v = velocities[i], &b = bodies[i];
        v.x = std::fmaf(forces[i].x, step, v.x), v.y = std::fmaf(forces[i].y, step, v.y), v.z = std::fmaf(forces[i].z, step, v.z);
        b.x = std::fmaf(v.x, step, b.x), b.y = std::fmaf(v.y, step, b.y), b.z = std::fmaf(v.z, step, b.z);
    }
}

int main() {
    begin();
    CUlibrary library;
    CUkernel accelerate, move;
    OK(cuLibraryLoadData(&library, TEXT, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&accelerate, library, "accelerate"));
    OK(cuLibraryGetKernel(&move, library, "move"));
    int count = 96;
    float step = 1.0f / 128;
    std::vector<Four> bodies(count), velocities(count), told(count);
    unsigned seed = 12345;
    auto random = [&] { return float(((seed = seed * 1664525u + 1013904223u) >> 16) % 2048) / 1024 - 1; };
    for (int i = 0; i < count; ++i) bodies[i] = {random(), random(), random(), 0.5f + 0.5f * std::fabs(random())}, velocities[i] = {random(), random(), 0, 0};
    const size_t bytes = count * sizeof(Four);
    CUdeviceptr where, speed, force;
    OK(cuMemAlloc(&where, bytes));
    OK(cuMemAlloc(&speed, bytes));
    OK(cuMemAlloc(&force, bytes));
    CUstream first, second;
    CUevent pushed, moved;
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&pushed, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&moved, CU_EVENT_DISABLE_TIMING));
    OK(cuMemcpyHtoDAsync(where, bodies.data(), bytes, first));
    OK(cuMemcpyHtoDAsync(speed, velocities.data(), bytes, first));
    OK(cuEventRecord(moved, first));

    CUlaunchAttribute priority = {};
    priority.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    CUlaunchConfig config = {};
    config.gridDimX = (count + 31) / 32, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32, config.blockDimY = config.blockDimZ = 1;
    config.attrs = &priority, config.numAttrs = 1;
    void* pushing[] = {&force, &where, &count};
    void* moving[] = {&where, &speed, &force, &step, &count};
    const int steps = 40;
    for (int i = 0; i < steps; ++i) {
        config.hStream = first;
        OK(cuStreamWaitEvent(first, moved, 0));
        OK(cuLaunchKernelEx(&config, (CUfunction)accelerate, pushing, nullptr));
        OK(cuEventRecord(pushed, first));
        config.hStream = second;
        OK(cuStreamWaitEvent(second, pushed, 0));
        OK(cuLaunchKernelEx(&config, (CUfunction)move, moving, nullptr));
        OK(cuEventRecord(moved, second));
        step_on_cpu(bodies, velocities, step);
    }
    OK(cuMemcpyDtoHAsync(told.data(), where, bytes, second));
    OK(cuStreamSynchronize(second));
    double sum = 0;
    for (int i = 0; i < count; ++i) {
        EXPECT(told[i].x == bodies[i].x && told[i].y == bodies[i].y && told[i].z == bodies[i].z && told[i].w == bodies[i].w);
        sum += told[i].x + 2 * told[i].y + 3 * told[i].z;
    }
    OK(cuEventDestroy(pushed));
    OK(cuEventDestroy(moved));
    OK(cuStreamDestroy(first));
    OK(cuStreamDestroy(second));
    OK(cuLibraryUnload(library));
    printf("driver_nbody %.4f\nPASS\n", sum);
    return 0;
}
