// Source of parameters.ptx and parameters.sm_75.cubin. To rebuild, with nvcc 13.0 in the path:
//   nvcc -arch=compute_75 -ptx parameters.cu && nvcc -arch=sm_75 -cubin -o parameters.sm_75.cubin parameters.cu
struct Mixed { char c; double d; int a[3]; };
struct alignas(16) Wide { float x, y, z, w; };
struct Large { char bytes[20000]; };
struct Odd { char bytes[5]; };

__device__ int counter;
__constant__ float table[16];
__constant__ double factors[3];

__device__ __noinline__ int shared_by_callee(int n)
{
    __shared__ int scratch[33];
    scratch[threadIdx.x % 33] = n;
    __syncthreads();
    return scratch[(n + 1) % 33];
}

__device__ __noinline__ int outer_callee(int n) { return n > 0 ? shared_by_callee(n) + 1 : 0; }

extern "C" {

__global__ void nothing() { counter = 1; }

__global__ void __launch_bounds__(128, 2) mixed(float *p, int n, Mixed s, char c, short h, long long l)
{
    __shared__ float tile[64];
    extern __shared__ int dynamic[];
    tile[threadIdx.x & 63] = n;
    dynamic[threadIdx.x] = n;
    __syncthreads();
    p[threadIdx.x] = tile[(n + 1) & 63] + s.d + table[c & 15] + h + l + dynamic[0] + factors[n % 3];
}

__global__ void aligned(char a, Wide q, char b, float4 f, double3 d) { counter = a + b + q.x + f.y + d.z; }

__global__ void large(int *p, Large big, Odd odd, char c) { p[0] = big.bytes[p[1]] + odd.bytes[p[2]] + c; }

__global__ void indirect(int *p) { p[threadIdx.x] = outer_callee(p[0]); }

__global__ void two_tiles(const double *in, double *out)
{
    __shared__ char first[3];
    __shared__ double second[8];
    first[threadIdx.x % 3] = 1;
    second[threadIdx.x % 8] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = second[(threadIdx.x + 1) % 8] + first[0];
}

}
