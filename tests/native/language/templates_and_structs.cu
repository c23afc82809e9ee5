// Kernels from templates, structs by value (padding, alignment, nesting, pointers inside), functors, device
// functions with recursion, local arrays indexed at run time, and a switch with many cases.
#include "../support.cuh"

struct Inner {
    char tag;
    short small;
};

struct alignas(16) Aligned {
    float x, y, z;
};

struct Parameters {
    char first;
    Inner inner;
    double scale;
    Aligned vector;
    const int *input;
    bool flag;
};

struct Empty {};

template <typename T> struct Affine {
    T factor, offset;
    __host__ __device__ T operator()(T value) const { return factor * value + offset; }
};

struct Square {
    template <typename T> __host__ __device__ T operator()(T value) const { return value * value; }
};

template <typename T, typename Function> __global__ void map(const T *in, T *out, int n, Function function) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = function(in[i]);
    }
}

template <int N> __global__ void power(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int value = 1;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            value *= in[i];
        }
        out[i] = value;
    }
}

__host__ __device__ inline int evaluate(const Parameters &p, int i) {
    int value = p.first + p.inner.tag * 2 + p.inner.small * 3 + static_cast<int>(p.scale * 8.0);
    value += static_cast<int>(p.vector.x + p.vector.y * 2.0f + p.vector.z * 4.0f);
    return p.flag ? value + p.input[i] : value;
}

__global__ void by_value(char before, Parameters p, Empty, char after, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = evaluate(p, i) + before * 1000 + after * 100000;
    }
}

__host__ __device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__global__ void recursion(int *out, int n) {
    int i = threadIdx.x;
    if (i < n) {
        out[i] = fibonacci(i % 12);
    }
}

// A local array with indices only known at run time, and a switch with many cases.
__host__ __device__ inline int interpret(unsigned program) {
    int stack[16];
    for (int k = 0; k < 16; ++k) {
        stack[k] = k * 3 + 1;
    }
    int top = program % 16;
    for (int step = 0; step < 12; ++step) {
        unsigned code = program % 7;
        program = program * 747796405u + 2891336453u;
        int other = (program >> 8) % 16;
        switch (code) {
        case 0: stack[top] += stack[other]; break;
        case 1: stack[top] -= stack[other]; break;
        case 2: stack[top] ^= stack[other] << 1; break;
        case 3: stack[other] = stack[top] / (other + 1); break;
        case 4: stack[other] = stack[top] % (other + 2); break;
        case 5: top = other; break;
        default: stack[top] = -stack[top]; break;
        }
    }
    int sum = 0;
    for (int k = 0; k < 16; ++k) {
        sum = sum * 31 + stack[k];
    }
    return sum;
}

__global__ void interpreter(const unsigned *programs, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = interpret(programs[i]);
    }
}

template <typename T, typename Function>
static void check_map(const char *name, Function function, Verdict &verdict, Random &random) {
    const int n = 777;
    std::vector<T> in(n), expected(n);
    for (int i = 0; i < n; ++i) {
        in[i] = static_cast<T>(static_cast<int>(random.below(200)) - 100);
        expected[i] = function(in[i]);
    }
    DeviceArray<T> device_in(in), device_out(n);
    map<<<7, 111>>>(device_in.get(), device_out.get(), n, function);
    CHECK_LAUNCH();
    verdict.equal(device_out.download(), expected, name);
}

int main() {
    Verdict verdict;
    Random random(12);
    check_map<int>("int affine", Affine<int>{3, -7}, verdict, random);
    check_map<float>("float affine", Affine<float>{0.5f, 4.0f}, verdict, random);
    check_map<double>("double affine", Affine<double>{0.125, -1.0}, verdict, random);
    check_map<long long>("long long affine", Affine<long long>{1ll << 33, 5}, verdict, random);
    check_map<short>("short square", Square(), verdict, random);
    check_map<double>("double square", Square(), verdict, random);

    const int n = 500;
    std::vector<int> values(n), expected(n);
    for (int i = 0; i < n; ++i) {
        values[i] = static_cast<int>(random.below(9)) - 4;
        expected[i] = values[i] * values[i] * values[i] * values[i] * values[i];
    }
    DeviceArray<int> in(values), out(n);
    power<5><<<4, 128>>>(in.get(), out.get(), n);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "fifth power");
    power<0><<<4, 128>>>(in.get(), out.get(), n);
    CHECK_LAUNCH();
    verdict.equal(out.download(), std::vector<int>(n, 1), "power of zero");

    Parameters p = {1, {2, -300}, 1.5, {}, values.data(), true};
    p.vector.x = 1.0f;
    p.vector.y = 2.0f;
    p.vector.z = 3.0f;
    for (int i = 0; i < n; ++i) {
        expected[i] = evaluate(p, i) + 9 * 1000 + -4 * 100000;
    }
    p.input = in.get();
    by_value<<<4, 128>>>(9, p, Empty(), -4, out.get(), n);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "struct by value");
    std::vector<int> structs = out.download();

    for (int i = 0; i < 64; ++i) {
        expected[i] = fibonacci(i % 12);
    }
    out.zero();
    recursion<<<1, 64>>>(out.get(), 64);
    CHECK_LAUNCH();
    expected.resize(64);
    verdict.equal(out.download(), expected, "recursion");

    std::vector<unsigned> programs(n);
    expected.resize(n);
    for (int i = 0; i < n; ++i) {
        programs[i] = static_cast<unsigned>(random.next());
        expected[i] = interpret(programs[i]);
    }
    DeviceArray<unsigned> device_programs(programs);
    interpreter<<<5, 100>>>(device_programs.get(), out.get(), n);
    CHECK_LAUNCH();
    std::vector<int> interpreted = out.download();
    verdict.equal(interpreted, expected, "interpreter");

    print_checksum("structs", structs);
    print_checksum("interpreted", interpreted);
    return verdict.finish();
}
