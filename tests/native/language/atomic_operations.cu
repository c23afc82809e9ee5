// Every atomic operation on the types that have it, in global and shared memory, with and without results; minima of doubles by hand.
#include <limits>

#include "../support.cuh"

struct Totals {
    int sum, low, high, swapped;
    unsigned up, down, low_u, high_u, all, any, odd;
    unsigned long long long_sum, long_high, long_any;
    float float_sum;
    double double_sum, least;
};

__device__ void lower(double *place, double value) {
    unsigned long long *bits = reinterpret_cast<unsigned long long *>(place), old = *bits, seen;
    do {
        seen = old;
        if (__longlong_as_double(seen) <= value) {
            return;
        }
        old = atomicCAS(bits, seen, __double_as_longlong(value));
    } while (old != seen);
}

__device__ void everything(Totals *t, int value) {
    atomicAdd(&t->sum, value);
    atomicMin(&t->low, value);
    atomicMax(&t->high, value);
    atomicInc(&t->up, 99);
    atomicDec(&t->down, 77);
    atomicMin(&t->low_u, unsigned(value));
    atomicMax(&t->high_u, unsigned(value));
    atomicAnd(&t->all, ~(1u << (value & 7)));
    atomicOr(&t->any, 1u << (value & 31));
    atomicXor(&t->odd, unsigned(value));
    atomicAdd(&t->long_sum, 1ull << 33);
    atomicMax(&t->long_high, (unsigned long long)(unsigned)value << 20);
    atomicOr(&t->long_any, 1ull << (value & 63));
    atomicAdd(&t->float_sum, float(value & 15));
    atomicAdd(&t->double_sum, value * 0.25);
    lower(&t->least, value * 0.5);
    atomicExch(&t->swapped, 5);
}

__global__ void global(Totals *totals, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        everything(totals, i * 37 % 1009 - 300);
    }
}

__global__ void shared(Totals *totals, int n) {
    __shared__ Totals own;
    if (threadIdx.x == 0) {
        own = totals[0];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        everything(&own, i * 37 % 1009 - 300);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        totals[0] = own;
    }
}

__global__ void tickets(int *counter, int *seen, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&seen[atomicAdd(counter, 1)], 1);
    }
}

int main() {
    Verdict verdict;
    const int n = 2000;
    Totals empty = {};
    empty.low = 1 << 30, empty.high = -empty.low, empty.low_u = ~0u, empty.all = ~0u;
    empty.least = std::numeric_limits<double>::infinity();
    Totals expected = empty;
    for (int i = 0; i < n; ++i) {
        const int value = i * 37 % 1009 - 300;
        Totals &t = expected;
        t.sum += value, t.low = std::min(t.low, value), t.high = std::max(t.high, value), t.swapped = 5;
        t.up = t.up >= 99 ? 0 : t.up + 1, t.down = t.down == 0 || t.down > 77 ? 77 : t.down - 1;
        t.low_u = std::min(t.low_u, unsigned(value)), t.high_u = std::max(t.high_u, unsigned(value));
        t.all &= ~(1u << (value & 7)), t.any |= 1u << (value & 31), t.odd ^= unsigned(value);
        t.long_sum += 1ull << 33, t.long_high = std::max(t.long_high, (unsigned long long)(unsigned)value << 20);
        t.long_any |= 1ull << (value & 63), t.float_sum += float(value & 15), t.double_sum += value * 0.25;
        t.least = std::min(t.least, value * 0.5);
    }
    for (int where = 0; where < 2; ++where) {
        DeviceArray<Totals> totals(std::vector<Totals>{empty});
        if (where == 0) {
            global<<<(n + 127) / 128, 128>>>(totals.get(), n);
        } else {
            shared<<<1, 128>>>(totals.get(), n);
        }
        CHECK_LAUNCH();
        const Totals t = totals.download()[0], &e = expected;
        verdict.expect(t.sum == e.sum && t.low == e.low && t.high == e.high && t.swapped == e.swapped, "int");
        verdict.expect(t.up == e.up && t.down == e.down && t.low_u == e.low_u && t.high_u == e.high_u, "unsigned");
        verdict.expect(t.all == e.all && t.any == e.any && t.odd == e.odd, "bits");
        verdict.expect(t.long_sum == e.long_sum && t.long_high == e.long_high && t.long_any == e.long_any, "long");
        verdict.expect(t.float_sum == e.float_sum && t.double_sum == e.double_sum && t.least == e.least, "floats");
    }
    DeviceArray<int> counter(1), seen(n);
    counter.zero();
    seen.zero();
    tickets<<<(n + 63) / 64, 64>>>(counter.get(), seen.get(), n);
    CHECK_LAUNCH();
    verdict.equal(seen.download(), std::vector<int>(n, 1), "tickets");
    std::printf("atomic_operations %d %u\n", expected.sum, expected.odd);
    return verdict.finish();
}
