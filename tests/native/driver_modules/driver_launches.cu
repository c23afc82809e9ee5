// The forms of a launch: parameters by pointers and in a buffer, attributes, clusters, cooperative; what is refused, and with which code.
#include "../driver.h"

static const char* TEXT = PTX_HEADER PTX_FILL PTX_SCALE ".visible .entry nothing()\n{\nret;\n}\n";

int main() {
    begin();
    CUmodule module;
    CUfunction fill, nothing;
    OK(cuModuleLoadData(&module, TEXT));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuModuleGetFunction(&nothing, module, "nothing"));
    CUdeviceptr data;
    int ints[64], value = 1;
    OK(cuMemAlloc(&data, sizeof ints));
    void* parameters[] = {&data, &value};

    struct { CUdeviceptr data; int value; } packed = {data, 500};
    size_t size = 12;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[0] == 500 && ints[63] == 563);
    FAILS(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters, extra), CUDA_ERROR_INVALID_VALUE);
    size = 8;
    if (on_farlane()) FAILS(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));

    CUlaunchAttribute attributes[2] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim.x = 2;
    attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    CUlaunchConfig config = {};
    config.gridDimX = 4;
    config.blockDimX = 16;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.attrs = attributes;
    config.numAttrs = 2;
    value = 7;
    OK(cuLaunchKernelEx(&config, fill, parameters, nullptr));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[63] == 70);
    config.gridDimX = 3;
    FAILS(cuLaunchKernelEx(&config, fill, parameters, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    FAILS(cuLaunchKernelEx(nullptr, fill, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[0].value.cooperative = 1;
    OK(cuLaunchKernelEx(&config, fill, parameters, nullptr));
    value = 9;
    OK(cuLaunchCooperativeKernel(fill, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters));
    OK(cuMemcpyDtoH(ints, data, sizeof ints));
    EXPECT(ints[63] == 72);
    FAILS(cuLaunchCooperativeKernel(fill, 1 << 20, 1, 1, 1024, 1, 1, 0, nullptr, parameters), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);

    FAILS(cuLaunchKernel(fill, 0, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 1 << 30, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(nullptr, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuLaunchKernel((CUfunction)&data, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) FAILS(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, (CUstream)&data, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
