// What random kernels with warp- and block-wide steps use: a thread's variables, and on the host all threads of a block.
#pragma once
#include "support.cuh"

struct Lane {
    u32 a, b, c;
    s32 p;
    u64 w;
    s64 q;
    f32 f;
    f64 g;
    u16 h;
    u8 k;
};
constexpr u32 LANE_WORDS = 10, CELLS = 8;

BOTH inline Lane begun(u64 seed) {
    Lane v;
    v.a = u32(drawn(seed)), v.b = u32(seed), v.c = u32(drawn(seed + 1)), v.p = s32(drawn(seed + 2));
    v.w = drawn(seed + 3), v.q = s64(drawn(seed + 4)), v.f = f32(s32(v.a)), v.g = f64(v.q);
    v.h = u16(drawn(seed + 5)), v.k = u8(seed);
    return v;
}
BOTH inline void leave(const Lane &v, u64 *out) {
    out[0] = v.a, out[1] = v.b, out[2] = v.c, out[3] = u64(s64(v.p)), out[4] = v.w, out[5] = u64(v.q);
    out[6] = bits(v.f), out[7] = bits(v.g), out[8] = v.h, out[9] = v.k;
}
// The lane that a shuffle reads: CUDA's description of the four forms. A lane outside of the segment: the own one.
BOTH inline u32 source(u32 form, u32 lane, u32 by, u32 width) {
    u32 segment = lane & ~(width - 1), inside = lane & (width - 1);
    switch (form) {
        case 0: return segment | (by & (width - 1));
        case 1: return inside >= by ? lane - by : lane;
        case 2: return inside + by < width ? lane + by : lane;
        default: return ((lane ^ by) & ~(width - 1)) <= segment ? lane ^ by : lane;
    }
}
template <typename T> BOTH inline T combined(u32 operation, T x, T y) {
    switch (operation) {
        case 0: return add(x, y);
        case 1: return x < y ? x : y;
        case 2: return x > y ? x : y;
        case 3: return T(x & y);
        case 4: return T(x | y);
        default: return T(x ^ y);
    }
}

#ifdef __CUDACC__
template <typename T> __device__ inline T shuffled(u32 mask, T x, u32 form, u32 by, u32 width) {
    switch (form) {
        case 0: return __shfl_sync(mask, x, by, width);
        case 1: return __shfl_up_sync(mask, x, by, width);
        case 2: return __shfl_down_sync(mask, x, by, width);
        default: return __shfl_xor_sync(mask, x, by, width);
    }
}
template <typename T> __device__ inline T reduced(u32 mask, u32 operation, T x) {
#if __CUDA_ARCH__ >= 800
    switch (operation) {
        case 0: return __reduce_add_sync(mask, x);
        case 1: return __reduce_min_sync(mask, x);
        case 2: return __reduce_max_sync(mask, x);
        case 3: return T(__reduce_and_sync(mask, u32(x)));
        case 4: return T(__reduce_or_sync(mask, u32(x)));
        default: return T(__reduce_xor_sync(mask, u32(x)));
    }
#else
    u32 first_lane = __ffs(mask) - 1;
    T result = __shfl_sync(mask, x, first_lane);
    for (u32 rest = mask & (mask - 1); rest; rest &= rest - 1) {
        result = combined(operation, result, __shfl_sync(mask, x, __ffs(rest) - 1));
    }
    return result;
#endif
}
template <typename T> __device__ inline void atomically(T *cell, u32 operation, T x, bool by_swapping) {
    if (by_swapping) {
        T old = *(volatile T *)cell;
        for (;;) {
            T seen = atomicCAS(cell, old, combined(operation, old, x));
            if (seen == old) return;
            old = seen;
        }
    }
    switch (operation) {
        case 0: atomicAdd(cell, x); return;
        case 1: atomicMin(cell, x); return;
        case 2: atomicMax(cell, x); return;
        case 3: atomicAnd(cell, x); return;
        case 4: atomicOr(cell, x); return;
        default: atomicXor(cell, x); return;
    }
}
#endif

// Threads of a block by their warps' masks.
struct Mask {
    std::vector<u32> of;
    bool has(u32 t) const { return of[t / 32] >> t % 32 & 1; }
    u32 operator[](u32 warp) const { return of[warp]; }
    bool none() const {
        for (u32 m : of) {
            if (m) return false;
        }
        return true;
    }
};
inline Mask everyone(u32 threads) {
    Mask m{std::vector<u32>((threads + 31) / 32, 0)};
    for (u32 t = 0; t < threads; ++t) m.of[t / 32] |= 1u << t % 32;
    return m;
}
template <typename F> Mask those(const Mask &mask, u32 threads, F wanted) {
    Mask m{std::vector<u32>(mask.of.size(), 0)};
    for (u32 t = 0; t < threads; ++t) {
        if (mask.has(t) && wanted(t)) m.of[t / 32] |= 1u << t % 32;
    }
    return m;
}
inline Mask without(const Mask &mask, const Mask &those) {
    Mask m = mask;
    for (size_t k = 0; k < m.of.size(); ++k) m.of[k] &= ~those.of[k];
    return m;
}
#define EACH(mask) \
    for (u32 t = 0; t < T; ++t) \
        if (mask.has(t))
#define THREAD \
    Lane &v = lanes[t]; \
    const u32 lane = t % 32, warp = t / 32; \
    (void)v, (void)lane, (void)warp;
