// C = A * B for square, row-major matrices whose side is a multiple of 128, as fast libraries write it for GPUs without tensor cores:
// a block of 256 threads computes 128x128 elements, each thread 8x8 of them in registers, in steps of 8 along k.
// Grid (n / 128, n / 128), block (256).

#define SIDE 128 // of a block's tile
#define DEPTH 8  // of a step along k
#define EACH 8   // rows and columns of a thread

__device__ __forceinline__ void multiply(float sum[EACH][EACH], const float left[EACH], const float right[EACH])
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            sum[i][j] += left[i] * right[j];
}

// Scalar accesses, one buffer: a thread's 8 rows and columns lie beside each other.
extern "C" __global__ void __launch_bounds__(256) tile_scalar(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[DEPTH][SIDE], right[DEPTH][SIDE];
    int row = threadIdx.x / 16 * EACH, column = threadIdx.x % 16 * EACH;
    a += blockIdx.y * SIDE * n;
    b += blockIdx.x * SIDE;
    float sum[EACH][EACH] = {};
    for (int k = 0; k < n; k += DEPTH) {
#pragma unroll
        for (int part = 0; part < 4; part++) {
            int here = part * 256 + threadIdx.x;
            left[here % DEPTH][here / DEPTH] = a[here / DEPTH * n + k + here % DEPTH];
            right[here / SIDE][here % SIDE] = b[(k + here / SIDE) * n + here % SIDE];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step++) {
            float x[EACH], y[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                x[i] = left[step][row + i];
                y[i] = right[step][column + i];
            }
            multiply(sum, x, y);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            c[(blockIdx.y * SIDE + row + i) * n + blockIdx.x * SIDE + column + j] = sum[i][j];
}

// The same for any n: every access asks whether it is inside of the matrix.
extern "C" __global__ void __launch_bounds__(256) tile_edges(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[DEPTH][SIDE], right[DEPTH][SIDE];
    int row = threadIdx.x / 16 * EACH, column = threadIdx.x % 16 * EACH;
    int first_row = blockIdx.y * SIDE, first_column = blockIdx.x * SIDE;
    float sum[EACH][EACH] = {};
    for (int k = 0; k < n; k += DEPTH) {
#pragma unroll
        for (int part = 0; part < 4; part++) {
            int here = part * 256 + threadIdx.x;
            int from = first_row + here / DEPTH, along = k + here % DEPTH;
            left[here % DEPTH][here / DEPTH] = from < n && along < n ? a[from * n + along] : 0.0f;
            int down = k + here / SIDE, to = first_column + here % SIDE;
            right[here / SIDE][here % SIDE] = down < n && to < n ? b[down * n + to] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step++)
            multiply(sum, &left[step][row], &right[step][column]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (first_row + row + i < n && first_column + column + j < n)
                c[(first_row + row + i) * n + first_column + column + j] = sum[i][j];
}

__device__ __forceinline__ void fragment(float to[EACH], const float *from, int half)
{
    *reinterpret_cast<float4 *>(to) = *reinterpret_cast<const float4 *>(from);
    *reinterpret_cast<float4 *>(to + 4) = *reinterpret_cast<const float4 *>(from + half);
}

// Writes a thread's 8x8 elements: two groups of four rows and columns, `rows` and `columns` apart.
__device__ __forceinline__ void finish(float *c, float sum[EACH][EACH], int n, int rows, int columns)
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j += 4)
            *reinterpret_cast<float4 *>(c + (i / 4 * rows + i % 4) * n + j / 4 * columns) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}

// float4 accesses, two buffers in shared memory and two sets of fragments, lanes of a warp 4x8 as CUTLASS and cuBLAS place them.
extern "C" __global__ void __launch_bounds__(256) tile_double(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[2][DEPTH][SIDE], right[2][DEPTH][SIDE];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = warp / 2 * 32 + lane / 16 * 8 + (lane & 1) * 4;       // and 16 further on
    int column = warp % 2 * 64 + (lane >> 1) % 8 * 4;               // and 32 further on
    int from_row = threadIdx.x / 2, from_k = threadIdx.x % 2 * 4;   // of A: four along k
    int from_line = threadIdx.x / 32, from_column = threadIdx.x % 32 * 4; // of B: four along a row
    const float *at_a = a + (blockIdx.y * SIDE + from_row) * n + from_k;
    const float *at_b = b + from_line * n + blockIdx.x * SIDE + from_column;
    float sum[EACH][EACH] = {}, x[2][EACH], y[2][EACH];

    float4 next_a = *reinterpret_cast<const float4 *>(at_a), next_b = *reinterpret_cast<const float4 *>(at_b);
#define STAGE(buffer)                                                                  \
    left[buffer][from_k][from_row] = next_a.x;                                         \
    left[buffer][from_k + 1][from_row] = next_a.y;                                     \
    left[buffer][from_k + 2][from_row] = next_a.z;                                     \
    left[buffer][from_k + 3][from_row] = next_a.w;                                     \
    *reinterpret_cast<float4 *>(&right[buffer][from_line][from_column]) = next_b
    STAGE(0);
    __syncthreads();
    fragment(x[0], &left[0][0][row], 16);
    fragment(y[0], &right[0][0][column], 32);
    int buffer = 0;
    for (int k = DEPTH; k <= n; k += DEPTH) {
        bool more = k < n;
        if (more) {
            next_a = *reinterpret_cast<const float4 *>(at_a + k);
            next_b = *reinterpret_cast<const float4 *>(at_b + k * n);
        }
#pragma unroll
        for (int step = 0; step < DEPTH - 1; step++) {
            fragment(x[(step + 1) % 2], &left[buffer][step + 1][row], 16);
            fragment(y[(step + 1) % 2], &right[buffer][step + 1][column], 32);
            multiply(sum, x[step % 2], y[step % 2]);
        }
        buffer ^= 1;
        if (more) {
            STAGE(buffer);
            __syncthreads();
            fragment(x[0], &left[buffer][0][row], 16);
            fragment(y[0], &right[buffer][0][column], 32);
        }
        multiply(sum, x[1], y[1]);
    }
    finish(c + (blockIdx.y * SIDE + row) * n + blockIdx.x * SIDE + column, sum, n, 16, 32);
}

template <int BYTES> __device__ __forceinline__ void copy_async(float *to, const float *from)
{
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from) : "memory");
}

// Two stages of cp.async: A by elements, since it is transposed on the way, B by 16 bytes.
extern "C" __global__ void __launch_bounds__(256) tile_async(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[2][DEPTH][SIDE], right[2][DEPTH][SIDE];
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4; // and 64 further on
    int from_row = threadIdx.x / 8, from_k = threadIdx.x % 8;
    int from_line = threadIdx.x / 32, from_column = threadIdx.x % 32 * 4;
    const float *at_a = a + (blockIdx.y * SIDE + from_row) * n + from_k;
    const float *at_b = b + from_line * n + blockIdx.x * SIDE + from_column;
    float sum[EACH][EACH] = {};
    auto stage = [&](int buffer, int k) {
#pragma unroll
        for (int part = 0; part < 4; part++)
            copy_async<4>(&left[buffer][from_k][from_row + part * 32], at_a + part * 32 * n + k);
        copy_async<16>(&right[buffer][from_line][from_column], at_b + k * n);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    stage(0, 0);
    int buffer = 0;
    for (int k = DEPTH; k <= n; k += DEPTH) {
        if (k < n) {
            stage(buffer ^ 1, k);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step++) {
            float x[EACH], y[EACH];
            fragment(x, &left[buffer][step][row], 64);
            fragment(y, &right[buffer][step][column], 64);
            multiply(sum, x, y);
        }
        __syncthreads();
        buffer ^= 1;
    }
    finish(c + (blockIdx.y * SIDE + row) * n + blockIdx.x * SIDE + column, sum, n, 64, 64);
}
