// Floats of random kernels: roundings, conversions to and from integers, and functions that CUDA documents as exact. Included by support.cuh.
#pragma once

// Floats. A NaN has one pattern here, whatever its bits are.
BOTH inline u32 bits(f32 a) {
    u32 r;
    memcpy(&r, &a, 4);
    return a != a ? 0x7FC00000u : r;
}
BOTH inline u64 bits(f64 a) {
    u64 r;
    memcpy(&r, &a, 8);
    return a != a ? 0x7FF8000000000000ull : r;
}
BOTH inline u16 bits(f16 a) {
    u16 r;
    memcpy(&r, &a, 2);
    return (r & 0x7FFF) > 0x7C00 ? 0x7E00 : r;
}
BOTH inline f32 float_of(u32 a) {
    f32 r;
    memcpy(&r, &a, 4);
    return r;
}
BOTH inline f64 double_of(u64 a) {
    f64 r;
    memcpy(&r, &a, 8);
    return r;
}
BOTH inline f16 half_of(u16 a) {
    f16 r;
    memcpy(&r, &a, 2);
    return r;
}
#ifdef __CUDA_ARCH__
#define ROUNDED(name, T, parameters, intrinsic, arguments, expression) \
    BOTH inline T name##_rn parameters { return intrinsic##_rn arguments; } \
    BOTH inline T name##_rz parameters { return intrinsic##_rz arguments; } \
    BOTH inline T name##_ru parameters { return intrinsic##_ru arguments; } \
    BOTH inline T name##_rd parameters { return intrinsic##_rd arguments; }
#else
struct Rounding {
    explicit Rounding(int mode) { std::fesetround(mode); }
    ~Rounding() { std::fesetround(FE_TONEAREST); }
};
#define ROUNDED_ONE(name, mode, T, parameters, expression) \
    __attribute__((noinline)) BOTH inline T name parameters { \
        Rounding rounding(mode); \
        volatile T r = expression; \
        return r; \
    }
#define ROUNDED(name, T, parameters, intrinsic, arguments, expression) \
    ROUNDED_ONE(name##_rn, FE_TONEAREST, T, parameters, expression) \
    ROUNDED_ONE(name##_rz, FE_TOWARDZERO, T, parameters, expression) \
    ROUNDED_ONE(name##_ru, FE_UPWARD, T, parameters, expression) \
    ROUNDED_ONE(name##_rd, FE_DOWNWARD, T, parameters, expression)
#endif
#define VOLATILE(x) (*const_cast<volatile decltype(x) *>(&x))
ROUNDED(sum, f32, (f32 a, f32 b), __fadd, (a, b), VOLATILE(a) + VOLATILE(b))
ROUNDED(product, f32, (f32 a, f32 b), __fmul, (a, b), VOLATILE(a) * VOLATILE(b))
ROUNDED(quotient, f32, (f32 a, f32 b), __fdiv, (a, b), VOLATILE(a) / VOLATILE(b))
ROUNDED(root, f32, (f32 a), __fsqrt, (a), std::sqrt(VOLATILE(a)))
ROUNDED(fused, f32, (f32 a, f32 b, f32 c), __fmaf, (a, b, c), std::fma(VOLATILE(a), VOLATILE(b), VOLATILE(c)))
ROUNDED(sum, f64, (f64 a, f64 b), __dadd, (a, b), VOLATILE(a) + VOLATILE(b))
ROUNDED(product, f64, (f64 a, f64 b), __dmul, (a, b), VOLATILE(a) * VOLATILE(b))
ROUNDED(quotient, f64, (f64 a, f64 b), __ddiv, (a, b), VOLATILE(a) / VOLATILE(b))
ROUNDED(root, f64, (f64 a), __dsqrt, (a), std::sqrt(VOLATILE(a)))
ROUNDED(fused, f64, (f64 a, f64 b, f64 c), __fma, (a, b, c), std::fma(VOLATILE(a), VOLATILE(b), VOLATILE(c)))
ROUNDED(narrowed, f32, (f64 a), __double2float, (a), f32(VOLATILE(a)))
ROUNDED(from_s32, f32, (s32 a), __int2float, (a), f32(VOLATILE(a)))
ROUNDED(from_u32, f32, (u32 a), __uint2float, (a), f32(VOLATILE(a)))
ROUNDED(from_s64, f32, (s64 a), __ll2float, (a), f32(VOLATILE(a)))
ROUNDED(double_from_s64, f64, (s64 a), __ll2double, (a), f64(VOLATILE(a)))
// Unsigned 64 bits: the host's conversion takes two steps, each of which would round.
#ifdef __CUDA_ARCH__
ROUNDED(from_u64, f32, (u64 a), __ull2float, (a), 0)
ROUNDED(double_from_u64, f64, (u64 a), __ull2double, (a), 0)
#else
template <typename T> inline T from_unsigned(u64 a, int mode) {
    Rounding rounding(mode);
    volatile long double exact = (long double)(a >> 32) * 4294967296.0L + (long double)(u32)a;
    volatile T r = T(exact);
    return r;
}
#define UNSIGNED(name, mode) \
    BOTH inline f32 from_u64_##name(u64 a) { return from_unsigned<f32>(a, mode); } \
    BOTH inline f64 double_from_u64_##name(u64 a) { return from_unsigned<f64>(a, mode); }
UNSIGNED(rn, FE_TONEAREST)
UNSIGNED(rz, FE_TOWARDZERO)
UNSIGNED(ru, FE_UPWARD)
UNSIGNED(rd, FE_DOWNWARD)
#endif

// Float to integer as PTX defines it: out of range gives the nearest, NaN 0, or the top bit where 64 bits are involved.
template <typename To, typename From> inline To converted(From a, int mode) {
    if (a != a) return sizeof(To) == 8 || sizeof(From) == 8 ? To(u64(1) << (8 * sizeof(To) - 1)) : To(0);
    From r = mode == 0 ? std::nearbyint(a) : mode == 1 ? std::trunc(a) : mode == 2 ? std::ceil(a) : std::floor(a);
    const From top = std::ldexp(From(1), 8 * sizeof(To) - Kind<To>::is_signed);
    if (r >= top) return most<To>();
    if (r < (Kind<To>::is_signed ? -top : From(0))) return least<To>();
    return To(r);
}
#ifdef __CUDA_ARCH__
#define CONVERSIONS(To, From, name, intrinsic) \
    BOTH inline To name(From a, u32 mode) { \
        switch (mode & 3) { \
            case 0: return intrinsic##_rn(a); \
            case 1: return intrinsic##_rz(a); \
            case 2: return intrinsic##_ru(a); \
            default: return intrinsic##_rd(a); \
        } \
    }
#else
#define CONVERSIONS(To, From, name, intrinsic) \
    BOTH inline To name(From a, u32 mode) { return converted<To>(a, mode & 3); }
#endif
CONVERSIONS(s32, f32, to_s32, __float2int)
CONVERSIONS(u32, f32, to_u32, __float2uint)
CONVERSIONS(s64, f32, to_s64, __float2ll)
CONVERSIONS(u64, f32, to_u64, __float2ull)
CONVERSIONS(s32, f64, to_s32, __double2int)
CONVERSIONS(u32, f64, to_u32, __double2uint)
CONVERSIONS(s64, f64, to_s64, __double2ll)
CONVERSIONS(u64, f64, to_u64, __double2ull)
// The plain conversion, where C++ defines it.
template <typename To, typename From> BOTH inline To truncated(From a) {
    if (!(a > From(-1e30)) || !(a < From(1e30))) return To(0);
    const From top = Kind<To>::width >= 100 ? From(1e30) : From(Kind<To>::is_signed ? most<To>() / 2 : most<To>() / 2);
    if (a > top || a < (Kind<To>::is_signed ? -top : From(0))) return To(1);
    return To(a);
}
BOTH inline f32 least_of(f32 a, f32 b) {
#ifdef __CUDA_ARCH__
    return fminf(a, b);
#else
    return a == b ? float_of(bits(a) | bits(b)) : a < b || b != b ? a : b;
#endif
}
BOTH inline f32 greatest_of(f32 a, f32 b) {
#ifdef __CUDA_ARCH__
    return fmaxf(a, b);
#else
    return a == b ? float_of(bits(a) & bits(b)) : a > b || b != b ? a : b;
#endif
}
BOTH inline f64 least_of(f64 a, f64 b) {
#ifdef __CUDA_ARCH__
    return fmin(a, b);
#else
    return a == b ? double_of(bits(a) | bits(b)) : a < b || b != b ? a : b;
#endif
}
BOTH inline f64 greatest_of(f64 a, f64 b) {
#ifdef __CUDA_ARCH__
    return fmax(a, b);
#else
    return a == b ? double_of(bits(a) & bits(b)) : a > b || b != b ? a : b;
#endif
}
// Functions that are exact by CUDA's documentation (0 ulp), whatever their operands.
template <typename T> BOTH inline T small(T a) { return fabs(a) < T(1e6) ? a : T(0.75); }
template <typename T> BOTH inline T exact(T a, T b, u32 which) {
    switch (which) {
        case 0: return floor(a);
        case 1: return ceil(a);
        case 2: return trunc(a);
        case 3: return rint(a);
        case 4: return round(a);
        case 5: return b == b && a == a ? fmod(a, b) : a;
        case 6: return b == b && a == a ? remainder(a, b) : b;
        case 7: return a == a && b == b ? T(nextafter(a, b)) : a;
        case 8: return scalbn(a, s32(truncated<s16>(b)) >> 5);
        case 9: return a == a ? T(logb(a)) : a;
        case 10: return a == a && b == b ? T(fdim(a, b)) : b;
        case 11: return b == b ? T(copysign(a, b)) : a;
        case 12: {
            int exponent = 0;
            T r = a - a == 0 ? T(frexp(a, &exponent)) : T(1);
            return r + T(exponent);
        }
        case 13: {
            T whole = trunc(small(a)), part = small(a) - whole;
            return whole - part;
        }
        case 14: {
            int quotient = 0;
            if (!(a - a == 0) || !(b - b == 0) || b == 0) return a;
            T r = remquo(a, b, &quotient);
            return r + T(quotient & 3);
        }
        default: return T(fabs(a));
    }
}
template <typename T> BOTH inline s32 integral(T a, u32 which) {
    switch (which) {
        case 0: return s32(lround(small(a)));
        case 1: return s32(lrint(small(a)));
        case 2: return s32(llround(small(a)));
        case 3: return a == a && a != 0 && a - a == 0 ? ilogb(a) : 3;
        case 4: return (a != a) * 8 + (a - a == 0) * 4 + (a == a && copysign(T(1), a) < 0);
        default: return a - a == 0 && fabs(a) >= T(1.2e-38);
    }
}
BOTH inline f16 fused_half(f16 a, f16 b, f16 c) {
#ifdef __CUDA_ARCH__
    return __hfma(a, b, c);
#else
    // Exact in double but for the sum's last rounding: to odd there, so that the second rounding is right.
    f64 x = f64(__half2float(a)) * f64(__half2float(b)), y = f64(__half2float(c)), s = x + y;
    if (s - s != 0 || s == 0) return __double2half(s);
    f64 t = s - x, error = (x - (s - t)) + (y - t);
    u64 pattern;
    memcpy(&pattern, &s, 8);
    if (error != 0 && !(pattern & 1)) pattern += (error > 0) == (s > 0) ? 1 : -1;
    memcpy(&s, &pattern, 8);
    return __double2half(s);
#endif
}
