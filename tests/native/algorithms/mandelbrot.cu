// Escape times with strongly divergent loops, in float without contraction, so that the CPU agrees to the last pixel.
#include "../support.cuh"

__host__ __device__ inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);  // never fused into a multiply-add
#else
    volatile float result = a * b;
    return result;
#endif
}

__host__ __device__ inline int escape(float cx, float cy, int limit) {
    float x = 0.0f, y = 0.0f;
    for (int i = 0; i < limit; ++i) {
        float xx = product(x, x), yy = product(y, y), xy = product(x, y);
        if (xx + yy > 4.0f) {
            return i;
        }
        x = xx - yy + cx;
        y = xy + xy + cy;
    }
    return limit;
}

__host__ __device__ inline float coordinate(int pixel, int pixels, float low, float extent) {
    return low + product(extent / pixels, static_cast<float>(pixel));
}

__global__ void render(unsigned short *image, int width, int height, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float cx = coordinate(x, width, -2.25f, 3.0f);
        float cy = coordinate(y, height, -1.25f, 2.5f);
        image[y * width + x] = static_cast<unsigned short>(escape(cx, cy, limit));
    }
}

int main() {
    const int width = 200, height = 130, limit = 200;
    std::vector<unsigned short> expected(width * height);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            expected[y * width + x] = static_cast<unsigned short>(
                escape(coordinate(x, width, -2.25f, 3.0f), coordinate(y, height, -1.25f, 2.5f), limit));
        }
    }
    DeviceArray<unsigned short> device(width * height);
    dim3 block(16, 8);
    render<<<dim3((width + 15) / 16, (height + 7) / 8), block>>>(device.get(), width, height, limit);
    CHECK_LAUNCH();
    std::vector<unsigned short> image = device.download();

    Verdict verdict;
    verdict.equal(image, expected, "pixel");
    const char shades[] = " .:-=+*#%@";
    for (int y = 5; y < height; y += 10) {
        for (int x = 2; x < width; x += 4) {
            int value = image[y * width + x];
            std::putchar(value == limit ? '@' : shades[value < 18 ? value / 2 : 9]);
        }
        std::putchar('\n');
    }
    print_checksum("mandelbrot", image);
    return verdict.finish();
}
