// What CUDA C++ and OpenCL C call differently, for kernels.inc.
#ifdef __OPENCL_VERSION__
#define KERNEL(name) __kernel void name
#define DEVICE
#define GLOBAL __global
#define SHARED __local
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define LOCAL_X ((int)get_local_id(0))
#define LOCAL_Y ((int)get_local_id(1))
#define BLOCK_X ((int)get_group_id(0))
#define GLOBAL_X ((int)get_global_id(0))
#define GLOBAL_Y ((int)get_global_id(1))
#define GLOBAL_SIZE_X ((int)get_global_size(0))
#define FLOAT4 float4
#define MAKE_FLOAT4(x, y, z, w) (float4)(x, y, z, w)
#define RSQRT rsqrt
#define SQRT sqrt
#define EXP exp
#define LOG log
#define ABS fabs
#define ADD_SHARED(place, value) atomic_add(place, value)
#define ADD_GLOBAL(place, value) atomic_add(place, value)
#else
#define KERNEL(name) extern "C" __global__ void name
#define DEVICE static __device__
#define GLOBAL
#define SHARED __shared__
#define BARRIER __syncthreads()
#define LOCAL_X ((int)threadIdx.x)
#define LOCAL_Y ((int)threadIdx.y)
#define BLOCK_X ((int)blockIdx.x)
#define GLOBAL_X ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define GLOBAL_Y ((int)(blockIdx.y * blockDim.y + threadIdx.y))
#define GLOBAL_SIZE_X ((int)(gridDim.x * blockDim.x))
#define FLOAT4 float4
#define MAKE_FLOAT4 make_float4
#define RSQRT rsqrtf
#define SQRT sqrtf
#define EXP expf
#define LOG logf
#define ABS fabsf
#define ADD_SHARED(place, value) atomicAdd(place, value)
#define ADD_GLOBAL(place, value) atomicAdd(place, value)
#define HAS_SHUFFLE
#define SHUFFLE_UP(value, distance) __shfl_up_sync(0xffffffffu, value, distance)
#endif
