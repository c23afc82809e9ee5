// A fast Fourier transform in place, radix 2, a launch for each stage, and its inverse. Argument: the number of stages.
#include <cmath>

#include "check.cuh"

__global__ void stage(float2 *data, int half, float sign) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int low = thread % half, first = (thread - low) * 2 + low;
    float sine, cosine;
    sincospif(sign * low / half, &sine, &cosine);
    float2 a = data[first], b = data[first + half];
    float2 sum = make_float2(a.x + b.x, a.y + b.y), difference = make_float2(a.x - b.x, a.y - b.y);
    data[first] = sum;
    data[first + half] = make_float2(difference.x * cosine - difference.y * sine, difference.x * sine + difference.y * cosine);
}

__global__ void back(float2 *data, int half, float sign) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int low = thread % half, first = (thread - low) * 2 + low;
    float sine, cosine;
    sincospif(sign * low / half, &sine, &cosine);
    float2 a = data[first], b = data[first + half];
    float2 turned = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    data[first] = make_float2(0.5f * (a.x + turned.x), 0.5f * (a.y + turned.y));
    data[first + half] = make_float2(0.5f * (a.x - turned.x), 0.5f * (a.y - turned.y));
}

int main(int count, char **words) {
    int stages = argument(count, words, 1, 19), n = 1 << stages;
    Random random{5};
    std::vector<float2> values(n);
    double power = 0;
    for (float2 &value : values) {
        value = make_float2(random() % 64, random() % 64);
        power += double(value.x) * value.x + double(value.y) * value.y;
    }
    float2 *data = to_device(values);
    for (int half = n / 2; half; half /= 2) stage<<<n / 512, 256>>>(data, half, -1.0f);
    std::vector<float2> spectrum = from_device(data, n);
    double there = 0;
    for (const float2 &value : spectrum) there += double(value.x) * value.x + double(value.y) * value.y;
    bool right = std::fabs(there / n / power - 1) < 1e-3;
    for (int half = 1; half < n; half *= 2) back<<<n / 512, 256>>>(data, half, 1.0f);
    std::vector<float2> found = from_device(data, n);
    for (int index = 0; index < n; ++index)
        right &= std::fabs(found[index].x - values[index].x) < 0.05f && std::fabs(found[index].y - values[index].y) < 0.05f;
    return finish(right);
}
