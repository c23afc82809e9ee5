// Calls that are not known when compiling: pointers to device functions in tables and parameters, virtual functions, recursion.
#include "../support.cuh"

typedef float (*Operation)(float, float);

__device__ __noinline__ float add(float a, float b) { return a + b; }
__device__ __noinline__ float subtract(float a, float b) { return a - b; }
__device__ __noinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ Operation table[3] = {add, subtract, larger};
__device__ Operation chosen = larger;

struct Shape {
    __device__ virtual ~Shape() {}
    __device__ virtual int area() const = 0;
};
struct Square : Shape {
    int side;
    __device__ explicit Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
};
struct Strip : Square {
    __device__ explicit Strip(int side) : Square(side) {}
    __device__ int area() const override { return 3 * side; }
};

__global__ void by_table(const float *a, const float *b, float *out, Operation given) {
    const int i = threadIdx.x;
    out[i] = table[i % 3](a[i], b[i]) + 0.5f * given(b[i], a[i]);
}

__global__ void by_virtual_functions(int *out) {
    const int i = threadIdx.x;
    Shape *shape = i % 2 ? static_cast<Shape *>(new Square(i)) : new Strip(i);
    out[i] = shape->area();
    delete shape;
}

__device__ __noinline__ int ways(int steps) { return steps < 2 ? 1 : ways(steps - 1) + ways(steps - 2); }

__device__ __noinline__ int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

__global__ void recursive(int *out) { out[threadIdx.x] = ways(threadIdx.x % 12) * 100 + gcd(threadIdx.x * 6 + 6, 84); }

int main() {
    Verdict verdict;
    const int n = 96;
    std::vector<float> a(n), b(n), expected(n);
    for (int i = 0; i < n; ++i) {
        a[i] = float(i), b[i] = float(2 * n - 3 * i);
        const float own = i % 3 == 0 ? a[i] + b[i] : i % 3 == 1 ? a[i] - b[i] : std::fmax(a[i], b[i]);
        expected[i] = own + 0.5f * std::fmax(a[i], b[i]);
    }
    Operation given;
    CHECK(cudaMemcpyFromSymbol(&given, chosen, sizeof(given)));
    DeviceArray<float> device_a(a), device_b(b), out(n);
    by_table<<<1, n>>>(device_a.get(), device_b.get(), out.get(), given);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "table");

    std::vector<int> areas(n), numbers(n);
    for (int i = 0; i < n; ++i) {
        areas[i] = i % 2 ? i * i : 3 * i;
        int one = 1, two = 1, x = i * 6 + 6, y = 84;
        for (int k = 1; k < i % 12; ++k) {
            const int next = one + two;
            one = two, two = next;
        }
        while (y) {
            const int rest = x % y;
            x = y, y = rest;
        }
        numbers[i] = two * 100 + x;
    }
    DeviceArray<int> integers(n);
    by_virtual_functions<<<1, n>>>(integers.get());
    CHECK_LAUNCH();
    verdict.equal(integers.download(), areas, "areas");
    recursive<<<1, n>>>(integers.get());
    CHECK_LAUNCH();
    verdict.equal(integers.download(), numbers, "numbers");
    std::printf("pointers_to_functions\n");
    return verdict.finish();
}
