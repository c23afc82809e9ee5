// Mipmapped arrays: levels filled by copies and by kernels through surfaces, sampled by level and by gradient, filtered between levels; also what other
// textures do not have here: sRGB colours, and borders of integers.
#include <cstring>

#include "../../../native/support.cuh"

static const int width = 16, height = 8, levels = 5;

__global__ void halve(cudaTextureObject_t from, cudaSurfaceObject_t to, int columns, int rows) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < columns && y < rows) {
        float u = (x + 0.5f) / columns, v = (y + 0.5f) / rows;  // between four texels of the level before
        surf2Dwrite(tex2D<float>(from, u, v), to, x * 4, y);
    }
}

__global__ void look(cudaTextureObject_t texture, float *out) {
    int i = threadIdx.x;
    float level = i * 0.125f - 0.53f;
    out[i] = tex2DLod<float>(texture, 0.3f, 0.6f, level);
    float step = exp2f(level) / width;
    out[blockDim.x + i] = tex2DGrad<float>(texture, 0.3f, 0.6f, make_float2(step, 0), make_float2(0, step / 4));
}

__global__ void colours(cudaTextureObject_t texture, cudaTextureObject_t whole, float4 *out, uint4 *outside) {
    out[threadIdx.x] = tex2D<float4>(texture, threadIdx.x + 0.5f, 0.5f);
    outside[threadIdx.x] = tex2D<uint4>(whole, threadIdx.x - 1 + 0.5f, 0.5f);
}

static cudaResourceDesc of_array(cudaArray_t array) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    return resource;
}

static void pyramid(Verdict &verdict) {
    std::vector<std::vector<float>> expected = {std::vector<float>(width * height)};
    for (int i = 0; i < width * height; ++i) {
        expected[0][i] = static_cast<float>((i * 37) % 64 * 256);  // means of four, four times, are exact
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t array;
    cudaExtent extent = make_cudaExtent(width, height, 0);
    CHECK(cudaMallocMipmappedArray(&array, &format, extent, 99, cudaArraySurfaceLoadStore));
    cudaArray_t level;
    verdict.expect(cudaGetMipmappedArrayLevel(&level, array, levels) == cudaErrorInvalidValue, "a level that is not there");
    cudaGetLastError();
    CHECK(cudaGetMipmappedArrayLevel(&level, array, 0));
    verdict.expect(cudaFreeArray(level) == cudaErrorInvalidValue, "a level does not end alone");
    cudaGetLastError();
    CHECK(cudaMemcpy2DToArray(level, 0, 0, expected[0].data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    cudaTextureDesc wanted = {};
    wanted.addressMode[0] = wanted.addressMode[1] = cudaAddressModeClamp;
    wanted.filterMode = cudaFilterModeLinear;
    wanted.normalizedCoords = 1;
    for (int number = 1; number < levels; ++number) {
        cudaArray_t next;
        CHECK(cudaGetMipmappedArrayLevel(&next, array, number));
        cudaExtent size;
        CHECK(cudaArrayGetInfo(nullptr, &size, nullptr, next));
        int columns = width >> number, rows = (height >> number) ? height >> number : 1;
        verdict.expect(size.width == columns && size.height == rows && size.depth == 0, "a level's size");
        cudaResourceDesc from = of_array(level), to = of_array(next);
        cudaTextureObject_t read;
        cudaSurfaceObject_t written;
        CHECK(cudaCreateTextureObject(&read, &from, &wanted, nullptr));
        CHECK(cudaCreateSurfaceObject(&written, &to));
        halve<<<1, dim3(width, height)>>>(read, written, columns, rows);
        CHECK_LAUNCH();
        std::vector<float> seen(columns * rows), means(columns * rows);
        CHECK(cudaMemcpy2DFromArray(seen.data(), columns * 4, next, 0, 0, columns * 4, rows, cudaMemcpyDeviceToHost));
        int before = columns * 2, tall = number == 4 ? 1 : 2;
        for (int i = 0; i < columns * rows; ++i) {
            int x = i % columns * 2, y = i / columns * tall;
            const std::vector<float> &last = expected.back();
            float upper = last[y * before + x] + last[y * before + x + 1];
            float lower = last[(y + tall - 1) * before + x] + last[(y + tall - 1) * before + x + 1];
            means[i] = (upper + lower) / 4;
        }
        verdict.equal(seen, means, "a level of means");
        expected.push_back(means);
        CHECK(cudaDestroyTextureObject(read));
        CHECK(cudaDestroySurfaceObject(written));
        level = next;
    }

    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = array;
    wanted.filterMode = cudaFilterModePoint;
    wanted.maxMipmapLevelClamp = 3.5f;
    const int n = 40;
    for (cudaTextureFilterMode filter : {cudaFilterModePoint, cudaFilterModeLinear}) {
        wanted.mipmapFilterMode = filter;
        cudaTextureObject_t texture;
        CHECK(cudaCreateTextureObject(&texture, &resource, &wanted, nullptr));
        DeviceArray<float> out(2 * n);
        look<<<1, n>>>(texture, out.get());
        CHECK_LAUNCH();
        std::vector<float> seen = out.download(), values(2 * n);
        for (int i = 0; i < n; ++i) {
            float asked = std::min(std::max(i * 0.125f - 0.53f, 0.0f), 3.5f);
            int first = static_cast<int>(filter == cudaFilterModeLinear ? asked : asked + 0.5f);
            auto at = [&](int number) {
                int columns = width >> number, rows = std::max(height >> number, 1);
                return expected[number][static_cast<int>(0.6f * rows) * columns + static_cast<int>(0.3f * columns)];
            };
            float part = filter == cudaFilterModeLinear ? asked - first : 0.0f;
            values[i] = values[n + i] = at(first) * (1 - part) + (part > 0 ? at(first + 1) * part : 0.0f);
        }
        verdict.near(seen, values, 2e-2, "levels of detail");  // a gradient's level is rounded, and one bit of a weight is 64 of 16384
        CHECK(cudaDestroyTextureObject(texture));
    }
    CHECK(cudaFreeMipmappedArray(array));
}

static void bytes(Verdict &verdict) {
    const int count = 8;
    std::vector<uchar4> texels(count);
    for (int i = 0; i < count; ++i) {
        texels[i] = make_uchar4(i * 36, 255 - i, i, i * 30);
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, count, 1));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, texels.data(), count * 4, count * 4, 1, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = of_array(array);
    cudaTextureDesc wanted = {};
    wanted.addressMode[0] = wanted.addressMode[1] = cudaAddressModeBorder;
    cudaTextureObject_t shares, whole;
    const unsigned border[4] = {7, 8, 9, 4000000000u};
    std::memcpy(wanted.borderColor, border, sizeof border);
    CHECK(cudaCreateTextureObject(&whole, &resource, &wanted, nullptr));
    wanted.readMode = cudaReadModeNormalizedFloat;
    wanted.sRGB = 1;
    CHECK(cudaCreateTextureObject(&shares, &resource, &wanted, nullptr));
    DeviceArray<float4> out(count);
    DeviceArray<uint4> outside(count);
    colours<<<1, count>>>(shares, whole, out.get(), outside.get());
    CHECK_LAUNCH();
    auto linear = [](int stored) {
        double share = stored / 255.0;
        return static_cast<float>(share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4));
    };
    std::vector<float4> seen = out.download();
    std::vector<uint4> numbers = outside.download();
    std::vector<float> values, expected;
    for (int i = 0; i < count; ++i) {
        values.insert(values.end(), {seen[i].x, seen[i].y, seen[i].z, seen[i].w});
        expected.insert(expected.end(), {linear(texels[i].x), linear(texels[i].y), linear(texels[i].z), texels[i].w / 255.0f});
    }
    verdict.near(values, expected, 1e-2, "sRGB");  // a GPU may round
    verdict.expect(numbers[0].x == 7 && numbers[0].y == 8 && numbers[0].z == 9 && numbers[0].w == 4000000000u, "a border of integers");
    verdict.expect(numbers[1].y == 255 && numbers[2].x == 36, "integers inside");
    CHECK(cudaDestroyTextureObject(shares));
    CHECK(cudaDestroyTextureObject(whole));
    CHECK(cudaFreeArray(array));
}

int main() {
    Verdict verdict;
    pyramid(verdict);
    bytes(verdict);
    return verdict.finish();
}
