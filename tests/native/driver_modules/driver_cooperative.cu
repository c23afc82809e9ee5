// Blocks that wait for each other: a grid's barrier made of atomics under a cooperative launch, and a cluster's shared memory in a launch with clusters.
#include "../driver.h"

// prefix(int* data, int* total, int* arrived): block b waits until all blocks have added up, then adds the total to its elements.
static const char* GRID = PTX_HEADER
    ".visible .entry whole(.param .u64 data, .param .u64 total, .param .u64 arrived)\n{\n"
    ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd1, [data];\nld.param.u64 %rd2, [total];\nld.param.u64 %rd3, [arrived];\n"
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmov.u32 %r4, %nctaid.x;\nmad.lo.s32 %r5, %r1, %r2, %r3;\n"
    "mul.wide.s32 %rd4, %r5, 4;\nadd.s64 %rd5, %rd1, %rd4;\nld.global.u32 %r6, [%rd5];\natom.global.add.u32 %r7, [%rd2], %r6;\n"
    "bar.sync 0;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra WAITED;\n"
    "membar.gl;\natom.global.add.u32 %r8, [%rd3], 1;\nAGAIN:\nld.volatile.global.u32 %r9, [%rd3];\nsetp.lt.u32 %p2, %r9, %r4;\n@%p2 bra AGAIN;\n"
    "WAITED:\nbar.sync 0;\nld.volatile.global.u32 %r10, [%rd2];\nadd.s32 %r11, %r10, %r6;\nst.global.u32 [%rd5], %r11;\nret;\n}\n";

// ring(int* out): each block's first thread reads the shared word of the next block of its cluster.
static const char* CLUSTER = ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry ring(.param .u64 out)\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<5>;\n.shared .align 4 .u32 word;\n"
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, %cluster_nctarank;\n"
    "mul.lo.u32 %r4, %r1, 100;\nmov.u32 %r5, word;\nst.shared.u32 [%r5], %r4;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
    "add.u32 %r6, %r2, 1;\nrem.u32 %r6, %r6, %r3;\nmapa.shared::cluster.u32 %r7, %r5, %r6;\nld.shared::cluster.u32 %r8, [%r7];\n"
    "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
    "add.u32 %r9, %r8, %r2;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r9;\nret;\n}\n";

static long long grid(CUdevice device) {
    int supported = 0;
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device));
    EXPECT(supported == 1);
    CUmodule module;
    CUfunction whole;
    CUdeviceptr data, counters;
    OK(cuModuleLoadData(&module, GRID));
    OK(cuModuleGetFunction(&whole, module, "whole"));
    const int threads = 64;
    int per_processor = 0, processors = 0;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, whole, threads, 0));
    OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    const int blocks = 8, count = blocks * threads;
    EXPECT(blocks <= per_processor * processors);
    int ints[512], total = 0;
    for (int i = 0; i < count; ++i) total += ints[i] = i % 37;
    OK(cuMemAlloc(&data, sizeof ints));
    OK(cuMemAlloc(&counters, 8));
    long long sum = 0;
    for (int round = 0; round < 3; ++round) {
        OK(cuMemcpyHtoD(data, ints, sizeof ints));
        OK(cuMemsetD32(counters, 0, 2));
        CUdeviceptr arrived = counters + 4;
        void* parameters[] = {&data, &counters, &arrived};
        if (round == 0) {
            OK(cuLaunchCooperativeKernel(whole, blocks, 1, 1, threads, 1, 1, 0, nullptr, parameters));
        } else {
            CUlaunchAttribute cooperative = {};
            cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative.value.cooperative = 1;
            CUlaunchConfig config = {};
            config.gridDimX = blocks, config.blockDimX = threads;
            config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
            config.attrs = &cooperative, config.numAttrs = 1;
            OK(cuLaunchKernelEx(&config, whole, parameters, nullptr));
        }
        int back[512];
        OK(cuMemcpyDtoH(back, data, sizeof back));
        for (int i = 0; i < count; ++i) {
            EXPECT(back[i] == total + i % 37);
            sum += back[i];
        }
    }
    void* parameters[] = {&data, &counters, &counters};
    FAILS(cuLaunchCooperativeKernel(whole, per_processor * processors + 1, 1, 1, threads, 1, 1, 0, nullptr, parameters),
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(cuMemFree(data));
    OK(cuMemFree(counters));
    OK(cuModuleUnload(module));
    return sum;
}

static long long cluster() {
    CUmodule module;
    CUfunction ring;
    CUdeviceptr out;
    OK(cuModuleLoadData(&module, CLUSTER));
    OK(cuModuleGetFunction(&ring, module, "ring"));
    const unsigned blocks = 16;
    OK(cuMemAlloc(&out, blocks * 4));
    void* parameters[] = {&out};
    CUlaunchAttribute size = {};
    size.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    size.value.clusterDim.y = size.value.clusterDim.z = 1;
    CUlaunchConfig config = {};
    config.gridDimX = blocks, config.blockDimX = 1;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &size, config.numAttrs = 1;
    long long sum = 0;
    for (unsigned width = 1; width <= 8; width *= 2) {
        unsigned words[blocks];
        int active = 0;
        size.value.clusterDim.x = width;
        OK(cuOccupancyMaxActiveClusters(&active, ring, &config));
        EXPECT(active > 0);
        OK(cuLaunchKernelEx(&config, ring, parameters, nullptr));
        OK(cuMemcpyDtoH(words, out, sizeof words));
        for (unsigned i = 0; i < blocks; ++i) {
            const unsigned rank = i % width, next = i - rank + (rank + 1) % width;
            EXPECT(words[i] == next * 100 + rank);
            sum += words[i];
        }
    }
    size.value.clusterDim.x = 3;  // no divisor of the grid
    FAILS(cuLaunchKernelEx(&config, ring, parameters, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(cuMemFree(out));
    OK(cuModuleUnload(module));
    return sum;
}

int main() {
    CUdevice device = begin();
    long long one = grid(device), two = cluster();
    printf("driver_cooperative %lld %lld\nPASS\n", one, two);
    return 0;
}
