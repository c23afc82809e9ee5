// Operations of random kernels: each is defined for all operands, and means the same on the device and on the host.
//
// On the device they are what CUDA offers (intrinsics, or the plain operator); on the host they are written out, from
// NVIDIA's documentation of the intrinsic. Compiled with -fmad=false: floats are rounded after each operation.
#pragma once
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define BOTH __host__ __device__
#define APART __host__ __device__ __noinline__
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef unsigned __int128 u128;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef long long s64;
typedef __int128 s128;
typedef float f32;
typedef double f64;
typedef __half f16;

template <typename T> struct Kind;
#define KIND(T, unsigned_type, bits, sign) \
    template <> struct Kind<T> { typedef unsigned_type U; static constexpr u32 width = bits; static constexpr bool is_signed = sign; };
KIND(u8, u8, 8, false)
KIND(s8, u8, 8, true)
KIND(u16, u16, 16, false)
KIND(s16, u16, 16, true)
KIND(u32, u32, 32, false)
KIND(s32, u32, 32, true)
KIND(u64, u64, 64, false)
KIND(s64, u64, 64, true)
KIND(u128, u128, 128, false)
KIND(s128, u128, 128, true)

template <typename T> BOTH constexpr T wide(u64 high, u64 low) { return T(u128(high) << 64 | low); }
template <typename T> BOTH constexpr T least() {
    return Kind<T>::is_signed ? T(typename Kind<T>::U(1) << (Kind<T>::width - 1)) : T(0);
}
template <typename T> BOTH constexpr T most() { return T(~least<T>()); }

// Arithmetic modulo 2^width. u16 would be promoted to int, whose product overflows: hence the detour over `unsigned`.
template <typename T> BOTH inline T add(T a, T b) { typedef typename Kind<T>::U U; return T(U(U(a) + U(b))); }
template <typename T> BOTH inline T sub(T a, T b) { typedef typename Kind<T>::U U; return T(U(U(a) - U(b))); }
template <typename T> BOTH inline T mul(T a, T b) { typedef typename Kind<T>::U U; return T(U(1u * U(a) * U(b))); }
template <typename T> BOTH inline T neg(T a) { return sub(T(0), a); }
template <typename T> BOTH inline T divide(T a, T b) {
    if (b == 0 || (Kind<T>::is_signed && a == least<T>() && b == T(-1))) return a;
    return T(a / b);
}
template <typename T> BOTH inline T modulo(T a, T b) {
    if (b == 0 || (Kind<T>::is_signed && b == T(-1))) return T(0);
    return T(a % b);
}
// Shifts as in PTX: by the width or more, all bits go.
template <typename T> BOTH inline T left(T a, u32 n) {
    typedef typename Kind<T>::U U;
    return n >= Kind<T>::width ? T(0) : T(U(U(a) << n));
}
template <typename T> BOTH inline T right(T a, u32 n) {
    return n >= Kind<T>::width ? (a < T(0) ? T(-1) : T(0)) : T(a >> n);
}
template <typename T> BOTH inline T left_masked(T a, u32 n) {
    typedef typename Kind<T>::U U;
    return T(U(U(a) << (n & (Kind<T>::width - 1))));
}
template <typename T> BOTH inline T right_masked(T a, u32 n) { return T(a >> (n & (Kind<T>::width - 1))); }
template <typename T> BOTH inline T rotate(T a, u32 n) {
    typedef typename Kind<T>::U U;
    constexpr u32 width = Kind<T>::width;
    return T(U(U(U(a) << (n & (width - 1))) | U(U(a) >> ((0u - n) & (width - 1)))));
}
template <typename T> BOTH inline T smaller(T a, T b) { return a < b ? a : b; }
template <typename T> BOTH inline T greater(T a, T b) { return a > b ? a : b; }
template <typename T> BOTH inline T magnitude(T a) { return a < T(0) ? neg(a) : a; }
template <typename T> BOTH inline T distance(T a, T b) { return a < b ? sub(b, a) : sub(a, b); }
template <typename T> BOTH inline T field(T a, u32 at, u32 length) {
    return right_masked(left_masked(a, at), length % Kind<T>::width);
}
template <typename T> BOTH inline T insert(T into, T what, u32 at, u32 length) {
    T mask = left(sub(left(T(1), length % (Kind<T>::width + 1)), T(1)), at % Kind<T>::width);
    return T((into & T(~mask)) | (left(what, at % Kind<T>::width) & mask));
}
// Without wrapping: what the compiler may assume of signed arithmetic.
template <typename T> BOTH inline T average(T a, T b) { return T((a >> 1) + (b >> 1)); }
template <typename T> BOTH inline T narrow_product(T a, T b) {
    constexpr u32 half = Kind<T>::width / 2;
    return T(1 * T(a >> half) * T((b >> half) / 2));
}
template <typename To, typename From> BOTH inline To saturate(From a) {
    typedef s128 W;
    if (sizeof(From) == 16 || sizeof(To) == 16) return To(a);
    W low = W(least<To>()), high = W(most<To>()), w = W(a);
    return w < low ? least<To>() : w > high ? most<To>() : To(a);
}
template <typename T> BOTH inline T add_saturated(T a, T b) {
    T sum = add(a, b);
    if (!Kind<T>::is_signed) return sum < a ? most<T>() : sum;
    if (b < T(0) ? sum > a : sum < a) return b < T(0) ? least<T>() : most<T>();
    return sum;
}

BOTH inline u32 ones(u32 a) {
#ifdef __CUDA_ARCH__
    return __popc(a);
#else
    return __builtin_popcount(a);
#endif
}
BOTH inline u32 ones(u64 a) {
#ifdef __CUDA_ARCH__
    return __popcll(a);
#else
    return __builtin_popcountll(a);
#endif
}
BOTH inline u32 leading(u32 a) {
#ifdef __CUDA_ARCH__
    return __clz(a);
#else
    return a ? __builtin_clz(a) : 32;
#endif
}
BOTH inline u32 leading(u64 a) {
#ifdef __CUDA_ARCH__
    return __clzll(a);
#else
    return a ? __builtin_clzll(a) : 64;
#endif
}
BOTH inline u32 first(u32 a) {
#ifdef __CUDA_ARCH__
    return __ffs(a);
#else
    return __builtin_ffs(a);
#endif
}
BOTH inline u32 first(u64 a) {
#ifdef __CUDA_ARCH__
    return __ffsll(a);
#else
    return __builtin_ffsll(a);
#endif
}
template <typename T> BOTH inline T reversed_bits(T a) {
    T r = 0;
    for (u32 i = 0; i < Kind<T>::width; ++i) r = T(r << 1 | (a >> i & 1));
    return r;
}
BOTH inline u32 reversed(u32 a) {
#ifdef __CUDA_ARCH__
    return __brev(a);
#else
    return reversed_bits(a);
#endif
}
BOTH inline u64 reversed(u64 a) {
#ifdef __CUDA_ARCH__
    return __brevll(a);
#else
    return reversed_bits(a);
#endif
}
BOTH inline u32 high(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
    return __umulhi(a, b);
#else
    return u32(u64(a) * b >> 32);
#endif
}
BOTH inline s32 high(s32 a, s32 b) {
#ifdef __CUDA_ARCH__
    return __mulhi(a, b);
#else
    return s32(s64(a) * b >> 32);
#endif
}
BOTH inline u64 high(u64 a, u64 b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return u64(u128(a) * b >> 64);
#endif
}
BOTH inline s64 high(s64 a, s64 b) {
#ifdef __CUDA_ARCH__
    return __mul64hi(a, b);
#else
    return s64(s128(a) * b >> 64);
#endif
}
// Without overflow: nvcc 13.0 takes a square of __mul24 for a number that is not negative.
BOTH inline u32 low24(u32 a, u32 b) {
    b %= 256;
#ifdef __CUDA_ARCH__
    return __umul24(a, b);
#else
    return u32(u64(a & 0xFFFFFF) * (b & 0xFFFFFF));
#endif
}
BOTH inline s32 low24(s32 a, s32 b) {
    b %= 128;
#ifdef __CUDA_ARCH__
    return __mul24(a, b);
#else
    return s32(u32(u64(s64(s32(u32(a) << 8) >> 8) * (s32(u32(b) << 8) >> 8))));
#endif
}
BOTH inline u32 sum_of_difference(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
    return __usad(a, b, c);
#else
    return (a < b ? b - a : a - b) + c;
#endif
}
BOTH inline u32 sum_of_difference(s32 a, s32 b, u32 c) {
#ifdef __CUDA_ARCH__
    return __sad(a, b, c);
#else
    return (a < b ? u32(b) - u32(a) : u32(a) - u32(b)) + c;
#endif
}
BOTH inline s32 middle(s32 a, s32 b, bool up) {
#ifdef __CUDA_ARCH__
    return up ? __rhadd(a, b) : __hadd(a, b);
#else
    return s32((s64(a) + b + up) >> 1);
#endif
}
BOTH inline u32 middle(u32 a, u32 b, bool up) {
#ifdef __CUDA_ARCH__
    return up ? __urhadd(a, b) : __uhadd(a, b);
#else
    return u32((u64(a) + b + up) >> 1);
#endif
}
BOTH inline u32 permuted(u32 a, u32 b, u32 selector) {
#ifdef __CUDA_ARCH__
    return __byte_perm(a, b, selector);
#else
    u64 data = u64(b) << 32 | a;
    u32 r = 0;
    for (u32 i = 0; i < 4; ++i) r |= u32(data >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return r;
#endif
}
BOTH inline u32 funnel(u32 low, u32 high, u32 n, u32 kind) {
#ifdef __CUDA_ARCH__
    switch (kind & 3) {
        case 0: return __funnelshift_l(low, high, n);
        case 1: return __funnelshift_lc(low, high, n);
        case 2: return __funnelshift_r(low, high, n);
        default: return __funnelshift_rc(low, high, n);
    }
#else
    u64 both = u64(high) << 32 | low;
    u32 amount = kind & 1 ? (n < 32 ? n : 32) : n & 31;
    return kind & 2 ? u32(both >> amount) : u32(both << amount >> 32);
#endif
}
template <typename A, typename B> BOTH inline u32 dot_bytes(u32 a, u32 b, u32 c) {
    for (u32 i = 0; i < 4; ++i) c += u32(s32(A(a >> 8 * i)) * s32(B(b >> 8 * i)));
    return c;
}
BOTH inline u32 dot(u32 a, u32 b, u32 c) {
#ifdef __CUDA_ARCH__
    return __dp4a(a, b, c);
#else
    return dot_bytes<u8, u8>(a, b, c);
#endif
}
BOTH inline s32 dot(s32 a, s32 b, s32 c) {
#ifdef __CUDA_ARCH__
    return __dp4a(a, b, c);
#else
    return s32(dot_bytes<s8, s8>(u32(a), u32(b), u32(c)));
#endif
}
BOTH inline s32 dot2(s32 a, s32 b, s32 c, bool upper) {
#ifdef __CUDA_ARCH__
    return upper ? __dp2a_hi(a, b, c) : __dp2a_lo(a, b, c);
#else
    u32 bytes = upper ? u32(b) >> 16 : u32(b);
    return s32(u32(c) + u32(s32(s16(a)) * s8(bytes)) + u32((a >> 16) * s8(bytes >> 8)));
#endif
}

// Packed bytes and half-words: one of CUDA's SIMD intrinsics, and its definition for one element.
template <typename E, typename F> inline u32 elementwise(u32 a, u32 b, F f) {
    u32 r = 0;
    constexpr u32 width = 8 * sizeof(E);
    for (u32 at = 0; at < 32; at += width) {
        r |= (u32(f(s32(E(a >> at)), s32(E(b >> at)))) & ((1u << width) - 1)) << at;
    }
    return r;
}
#define CLAMP(value, low, high) ((value) < (low) ? (low) : (value) > (high) ? (high) : (value))
#ifdef __CUDA_ARCH__
#define PACKED(name, intrinsic, E, expression) \
    BOTH inline u32 name(u32 a, u32 b) { return intrinsic(a, b); }
#else
#define PACKED(name, intrinsic, E, expression) \
    BOTH inline u32 name(u32 a, u32 b) { return elementwise<E>(a, b, [](s32 x, s32 y) -> s32 { return expression; }); }
#endif
PACKED(packed_add4, __vadd4, u8, x + y)
PACKED(packed_add2, __vadd2, u16, x + y)
PACKED(packed_sub4, __vsub4, u8, x - y)
PACKED(packed_sub2, __vsub2, u16, x - y)
PACKED(packed_addss4, __vaddss4, s8, CLAMP(x + y, -128, 127))
PACKED(packed_addus4, __vaddus4, u8, CLAMP(x + y, 0, 255))
PACKED(packed_addss2, __vaddss2, s16, CLAMP(x + y, -32768, 32767))
PACKED(packed_addus2, __vaddus2, u16, CLAMP(x + y, 0, 65535))
PACKED(packed_subss4, __vsubss4, s8, CLAMP(x - y, -128, 127))
PACKED(packed_subus4, __vsubus4, u8, CLAMP(x - y, 0, 255))
PACKED(packed_subss2, __vsubss2, s16, CLAMP(x - y, -32768, 32767))
PACKED(packed_subus2, __vsubus2, u16, CLAMP(x - y, 0, 65535))
PACKED(packed_absdiffs4, __vabsdiffs4, s8, x < y ? y - x : x - y)
PACKED(packed_absdiffu4, __vabsdiffu4, u8, x < y ? y - x : x - y)
PACKED(packed_absdiffs2, __vabsdiffs2, s16, x < y ? y - x : x - y)
PACKED(packed_absdiffu2, __vabsdiffu2, u16, x < y ? y - x : x - y)
PACKED(packed_avgu4, __vavgu4, u8, (x + y + 1) >> 1)
PACKED(packed_avgu2, __vavgu2, u16, (x + y + 1) >> 1)
PACKED(packed_havgu4, __vhaddu4, u8, (x + y) >> 1)
PACKED(packed_maxs4, __vmaxs4, s8, x > y ? x : y)
PACKED(packed_maxu2, __vmaxu2, u16, x > y ? x : y)
PACKED(packed_mins2, __vmins2, s16, x < y ? x : y)
PACKED(packed_minu4, __vminu4, u8, x < y ? x : y)
PACKED(packed_cmpeq4, __vcmpeq4, u8, x == y ? -1 : 0)
PACKED(packed_cmpgts4, __vcmpgts4, s8, x > y ? -1 : 0)
PACKED(packed_cmpleu2, __vcmpleu2, u16, x <= y ? -1 : 0)
PACKED(packed_setges2, __vsetges2, s16, x >= y ? 1 : 0)
PACKED(packed_setltu4, __vsetltu4, u8, x < y ? 1 : 0)
#define packed_abs4_of(a, b) __vabs4(a)
#define packed_absss2_of(a, b) __vabsss2(a)
#define packed_neg2_of(a, b) __vneg2(a)
PACKED(packed_abs4, packed_abs4_of, s8, (void(y), x < 0 ? -x : x))
PACKED(packed_absss2, packed_absss2_of, s16, (void(y), x == -32768 ? 32767 : x < 0 ? -x : x))
PACKED(packed_neg2, packed_neg2_of, s16, (void(y), -x))

#include "floats.cuh"

// What a thread leaves: words of any value, with the sum of all that went by.
struct Trace {
    u64 sum;
    template <typename T> BOTH void take(T value) { sum = sum * 0x9E3779B97F4A7C15ull + u64(value) + (sum >> 29); }
    BOTH void take(u128 value) { take(u64(value)), take(u64(value >> 64)); }
    BOTH void take(s128 value) { take(u128(value)); }
    BOTH void take(f32 value) { take(bits(value)); }
    BOTH void take(f64 value) { take(bits(value)); }
    BOTH void take(f16 value) { take(bits(value)); }
};
// Where a random value comes from: small numbers, edges of all widths and noise.
BOTH inline u64 noise(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
BOTH inline u64 drawn(u64 seed) {
    u64 x = noise(seed), y = noise(x);
    switch (x >> 59) {
        case 0: return y & 3;
        case 1: return 0 - (y & 3);
        case 2: return (1ull << (y & 63)) - (y >> 6 & 1);
        case 3: return 0x8000000080008080ull;
        case 4: return 0x7F7FFFFF7F800000ull + (y & 1);
        case 5: return (y & 1) << 63 | 0x3FF0000000000000ull | (y >> 12 & 0xF00) << 40;
        case 6: return 0x7FFFFFFF7FFF7F7Full;
        case 7: return y & 0x8007FF8000000000ull;
        case 8: case 9: case 10: case 11: return y >> 56;
        default: return y;
    }
}
