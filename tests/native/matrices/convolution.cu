// Separable convolution of an image: weights in constant memory, rows and columns in shared memory with aprons; 2-D blocks.
#include "../support.cuh"

constexpr int RADIUS = 4, W = 144, H = 100, TILE = 32;
__constant__ float weights[2 * RADIUS + 1];

__global__ void rows(const float *in, float *out) {
    __shared__ float line[4][TILE + 2 * RADIUS];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    for (int k = threadIdx.x; k < TILE + 2 * RADIUS; k += TILE) {
        const int from = int(blockIdx.x) * TILE + k - RADIUS;
        line[threadIdx.y][k] = from >= 0 && from < W && y < H ? in[y * W + from] : 0;
    }
    __syncthreads();
    if (x < W && y < H) {
        float sum = 0;
#pragma unroll
        for (int k = -RADIUS; k <= RADIUS; ++k) {
            sum += weights[k + RADIUS] * line[threadIdx.y][threadIdx.x + RADIUS + k];
        }
        out[y * W + x] = sum;
    }
}

__global__ void columns(const float *in, float *out) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) {
        return;
    }
    float sum = 0;
    for (int k = -RADIUS; k <= RADIUS; ++k) {
        if (y + k >= 0 && y + k < H) {
            sum += weights[k + RADIUS] * __ldg(&in[(y + k) * W + x]);
        }
    }
    out[y * W + x] = sum;
}

int main() {
    Verdict verdict;
    float host[2 * RADIUS + 1];
    for (int k = 0; k <= 2 * RADIUS; ++k) {
        host[k] = float(1 + RADIUS - std::abs(k - RADIUS));  // whole numbers: every order of adding gives the same
    }
    CHECK(cudaMemcpyToSymbol(weights, host, sizeof(host)));
    std::vector<float> image(W * H), between(W * H), expected(W * H);
    Random random(14);
    for (float &pixel : image) {
        pixel = float(random.below(256));
    }
    for (int pass = 0; pass < 2; ++pass) {
        for (int y = 0; y < H; ++y) {
            for (int x = 0; x < W; ++x) {
                float sum = 0;
                for (int k = -RADIUS; k <= RADIUS; ++k) {
                    const int xx = pass ? x : x + k, yy = pass ? y + k : y;
                    if (xx >= 0 && xx < W && yy >= 0 && yy < H) {
                        sum += host[k + RADIUS] * (pass ? between : image)[yy * W + xx];
                    }
                }
                (pass ? expected : between)[y * W + x] = sum;
            }
        }
    }
    DeviceArray<float> in(image), middle(W * H), out(W * H);
    rows<<<dim3((W + TILE - 1) / TILE, (H + 3) / 4), dim3(TILE, 4)>>>(in.get(), middle.get());
    columns<<<dim3((W + 19) / 20, (H + 9) / 10), dim3(20, 10)>>>(middle.get(), out.get());
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "image");
    print_checksum("convolution", expected);
    return verdict.finish();
}
