// One mistake a run, for the tests of `farlane run --check`: the argument names it. Prints the address of its allocation.
#include <cstdio>
#include <cstring>

#define N 96

__global__ void store(int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = i;
}

__global__ void odd(char *out, int by) { *reinterpret_cast<int *>(out + 4 * threadIdx.x + by) = 7; }

__global__ void beyond_shared(int *out, int by)
{
    __shared__ int tile[64];
    tile[threadIdx.x + by] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void reversed(int *out, bool synchronized)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    if (synchronized)
        __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

// Right: the rows belong to warps, the flag has one value, the counter is atomic, each byte is one thread's.
__global__ void careful(int *out)
{
    __shared__ int rows[2][32], counter, flag;
    __shared__ char bytes[64];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        counter = 0;
    __syncthreads();
    rows[warp][lane] = lane;
    bytes[threadIdx.x] = lane;
    flag = 1;
    __syncwarp();
    atomicAdd(&counter, rows[warp][31 - lane] + bytes[threadIdx.x]);
    __syncthreads();
    out[threadIdx.x] = counter + flag + bytes[63 - threadIdx.x];
}

__global__ void sum(const int *in, int *out, int n)
{
    int total = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        total += in[i];
    atomicAdd(out, total);
}

__global__ void block_of_heap(int *out, int n)
{
    char *bytes = static_cast<char *>(malloc(10));
    for (int i = 0; i < n; i++)
        bytes[i] = i;
    out[0] = bytes[n / 2];
    free(bytes);
}

// Lanes of one warp, and one variable: nothing orders the writes.
__global__ void careless(int *out)
{
    __shared__ int row[32], last;
    row[threadIdx.x % 32] = threadIdx.x;
    if (threadIdx.x < 32)
        out[threadIdx.x] = row[31 - threadIdx.x];
    __syncthreads();
    last = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] += last;
}

static int result(const char *what)
{
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return std::strcmp(what, "clean") == 0 && error != cudaSuccess;
}

int main(int, char **argv)
{
    const char *what = argv[1];
    int *out, *in;
    cudaMalloc(&out, N * sizeof(int));
    cudaMalloc(&in, N * sizeof(int));
    printf("%p %p\n", static_cast<void *>(out), static_cast<void *>(in));
    cudaMemset(out, 0, N * sizeof(int));
    auto is = [&](const char *name) { return std::strcmp(what, name) == 0; };
    if (is("after"))
        store<<<2, 64>>>(out, N + 2);
    else if (is("odd"))
        odd<<<1, 2>>>(reinterpret_cast<char *>(out), 2);
    else if (is("shared"))
        beyond_shared<<<1, 64>>>(out, 1);
    else if (is("race"))
        reversed<<<2, 64>>>(out, false);
    else if (is("warp"))
        careless<<<1, 64>>>(out);
    else if (is("init")) {
        cudaMemset(in, 0, (N - 3) * sizeof(int));
        sum<<<1, 32>>>(in, out, N);
    } else if (is("heap"))
        block_of_heap<<<1, 1>>>(out, 11);
    else if (is("freed")) {
        cudaFree(in);
        sum<<<1, 1>>>(in, out, N);
        return result(what);
    } else if (is("leak")) {
        cudaFree(out);
        return result(what);
    } else {
        cudaMemcpy(in, out, N * sizeof(int), cudaMemcpyDeviceToDevice);
        store<<<2, 64>>>(out, N);
        beyond_shared<<<1, 64>>>(out, 0);
        reversed<<<2, 64>>>(out, true);
        careful<<<3, 64>>>(out);
        sum<<<4, 32>>>(in, out, N);
        block_of_heap<<<2, 1>>>(out, 10);
    }
    int bad = result(what);
    cudaFree(out);
    cudaFree(in);
    return bad;
}
