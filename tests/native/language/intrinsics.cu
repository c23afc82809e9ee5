// Integer and bit intrinsics, SIMD in a word, roundings and conversions: each against a plain definition on the host.
#include "../support.cuh"

constexpr int RESULTS = 20;

__global__ void compute(const uint32_t *a, const uint32_t *b, uint32_t *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const uint32_t x = a[i], y = b[i];
    const float f = __uint_as_float((x & 0x007FFFFF) | 0x41000000 | (y & 0x80000000));  // 8 <= |f| < 16
    uint32_t *r = out + i * RESULTS;
    *r++ = __popc(x);
    *r++ = __clz(int(x >> (y & 31)));
    *r++ = __ffs(int(x << (y & 31)));
    *r++ = __brev(x);
    *r++ = __byte_perm(x, y, 0x3715);
    *r++ = __funnelshift_l(x, y, x & 31);
    *r++ = __funnelshift_r(x, y, 5);
    *r++ = __umulhi(x, y);
    *r++ = uint32_t(__mulhi(int(x), int(y)));
    *r++ = __usad(x, y, 3);
    *r++ = __vadd4(x, y);
    *r++ = __vmaxu2(x, y);
    *r++ = __vcmpeq4(x & 0x03030303, y & 0x03030303);
    *r++ = uint32_t(__dp4a(int(x), int(y), 9));
    *r++ = __uhadd(x, y);
    *r++ = uint32_t(__float2int_rd(f));
    *r++ = uint32_t(__float2int_ru(f));
    *r++ = uint32_t(__float2int_rn(f));
    *r++ = __float_as_uint(__int2float_rz(int(x)));
    *r++ = __float_as_uint(__fadd_ru(f, 1e-3f)) - __float_as_uint(__fadd_rd(f, 1e-3f));
}

static uint32_t byte(uint32_t v, int k) { return v >> 8 * k & 255; }

int main() {
    Verdict verdict;
    const int n = 1000;
    std::vector<uint32_t> a(n), b(n), expected;
    Random random(17);
    for (int i = 0; i < n; ++i) {
        const uint32_t x = a[i] = uint32_t(random.next() >> i % 29), y = b[i] = uint32_t(random.next());
        const uint64_t wide = uint64_t(y) << 32 | x;
        const int selectors[4] = {5, 1, 7, 3};
        uint32_t reversed = 0, clz = 32, ffs = 0, permuted = 0, added = 0, equal = 0, dot = 9;
        for (int k = 0; k < 32; ++k) {
            reversed |= (x >> k & 1) << (31 - k);
            clz = (x >> (y & 31)) >> k & 1 ? 31 - k : clz;
            ffs = ffs == 0 && (x << (y & 31)) >> k & 1 ? k + 1 : ffs;
        }
        for (int k = 0; k < 4; ++k) {
            permuted |= uint32_t(wide >> 8 * selectors[k] & 255) << 8 * k;
            added |= (byte(x, k) + byte(y, k) & 255) << 8 * k;
            equal |= ((byte(x, k) & 3) == (byte(y, k) & 3) ? 255u : 0) << 8 * k;
            dot += uint32_t(int8_t(byte(x, k)) * int8_t(byte(y, k)));
        }
        const uint32_t bits = (x & 0x007FFFFF) | 0x41000000 | (y & 0x80000000);
        float f;
        memcpy(&f, &bits, 4);
        const int64_t whole = int32_t(x);
        float toward = float(std::fabs(double(whole)));
        if (double(toward) > std::fabs(double(whole))) {
            toward = std::nextafterf(toward, 0.0f);
        }
        toward = std::copysign(toward, float(whole));
        uint32_t toward_bits;
        memcpy(&toward_bits, &toward, 4);
        const uint32_t high = std::max(x >> 16, y >> 16), low = std::max(x & 0xFFFF, y & 0xFFFF);
        const uint32_t ups = f < 0 ? 0xFFFFFFFFu : 1u;  // neighbours; the bits of negative numbers count the other way
        const uint32_t own[RESULTS] = {
            uint32_t(__builtin_popcount(x)), clz, ffs, reversed, permuted, uint32_t((wide << (x & 31)) >> 32),
            uint32_t(wide >> 5), uint32_t(uint64_t(x) * y >> 32), uint32_t(int64_t(int32_t(x)) * int32_t(y) >> 32),
            (x > y ? x - y : y - x) + 3, added, high << 16 | low, equal, dot, uint32_t((uint64_t(x) + y) >> 1),
            uint32_t(int(std::floor(f))), uint32_t(int(std::ceil(f))), uint32_t(int(std::nearbyint(f))), toward_bits, ups};
        expected.insert(expected.end(), own, own + RESULTS);
    }
    DeviceArray<uint32_t> device_a(a), device_b(b), out(size_t(n) * RESULTS);
    compute<<<(n + 127) / 128, 128>>>(device_a.get(), device_b.get(), out.get(), n);
    CHECK_LAUNCH();
    verdict.equal(out.download(), expected, "results");
    print_checksum("intrinsics", expected);
    return verdict.finish();
}
