// 128-bit integers: each operation of the language, of many magnitudes, against the host's.
#include <cstdint>

#include "../support.cuh"

using Signed = __int128;
using Unsigned = unsigned __int128;

constexpr int threads = 128, kinds = 12;

__host__ __device__ static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

// A number of about `width` bits.
__host__ __device__ static Unsigned drawn(uint64_t seed, int width) {
    const Unsigned all = static_cast<Unsigned>(mixed(seed)) << 64 | mixed(seed + 0x9e3779b97f4a7c15u);
    return all >> (128 - width);
}

__host__ __device__ static void compute(int index, Unsigned *out) {
    const Unsigned x = drawn(index, 128 - index % 40), y = drawn(index + 1000, 1 + index) | 1;
    const Signed a = static_cast<Signed>(x), b = static_cast<Signed>(index % 2 ? y : -y);
    const uint64_t modulus = mixed(index) | 1;
    out[0] = x + y;
    out[1] = x - y;
    out[2] = x * y;
    out[3] = x / y;
    out[4] = x % y;
    out[5] = static_cast<Unsigned>(a / b);
    out[6] = static_cast<Unsigned>(a % b);
    out[7] = x << index;
    out[8] = static_cast<Unsigned>(a >> index);
    out[9] = static_cast<Unsigned>(a < b) << 1 | (x < y);
    out[10] = static_cast<Unsigned>(static_cast<uint64_t>(x)) * static_cast<uint64_t>(y) % modulus;
    out[11] = x / modulus % 1000003;
}

__global__ void operations(Unsigned *out) { compute(threadIdx.x, out + threadIdx.x * kinds); }

int main() {
    Verdict verdict;
    DeviceArray<Unsigned> out(threads * kinds);
    operations<<<1, threads>>>(out.get());
    CHECK_LAUNCH();
    const std::vector<Unsigned> results = out.download();
    uint64_t digest = 0;
    int wrong[kinds] = {};
    for (int index = 0; index < threads; ++index) {
        Unsigned expected[kinds];
        compute(index, expected);
        for (int kind = 0; kind < kinds; ++kind) {
            const Unsigned result = results[index * kinds + kind];
            wrong[kind] += result != expected[kind];
            digest = mixed(digest ^ static_cast<uint64_t>(result) ^ mixed(static_cast<uint64_t>(result >> 64)));
        }
    }
    for (int kind = 0; kind < kinds; ++kind) {
        if (wrong[kind] != 0) {
            std::printf("operation %d: %d of %d wrong\n", kind, wrong[kind], threads);
        }
        verdict.expect(wrong[kind] == 0, "an operation is the host's");
    }
    std::printf("wide_integers %016llx\n", static_cast<unsigned long long>(digest));
    return verdict.finish();
}
