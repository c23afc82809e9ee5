// Lanes of a warp that wait for each other in functions that no compiler inlines: virtual ones, ones that a table points to, ones that call themselves.
#include "../support.cuh"

#include <new>

constexpr int ROUNDS = 3;

struct Lock {
    int taken = 0;

    __device__ virtual void lock() {
        while (atomicCAS(&taken, 0, 1)) {
        }
        __threadfence();
    }

    __device__ virtual void unlock() {
        __threadfence();
        atomicExch(&taken, 0);
    }
};

struct Ticket : Lock {
    unsigned next = 0, serving = 0;

    __device__ void lock() override {
        unsigned mine = atomicAdd(&next, 1);
        while (*static_cast<volatile unsigned *>(&serving) != mine) {
        }
        __threadfence();
    }

    __device__ void unlock() override {
        __threadfence();
        *static_cast<volatile unsigned *>(&serving) = serving + 1;
    }
};

__global__ void make(Lock *plain, Ticket *ticket) {
    new (plain) Lock();
    new (ticket) Ticket();
}

// Behind the lock all lanes vote.
__global__ void by_virtual_calls(Lock *lock, int *count, int *voted) {
    for (int round = 0; round < ROUNDS; ++round) {
        lock->lock();
        *static_cast<volatile int *>(count) = *count + 1;
        lock->unlock();
    }
    int lanes = __popc(__ballot_sync(~0u, threadIdx.x % 3 != 0));
    if (threadIdx.x % 32 == 0) {
        atomicAdd(voted, lanes);
    }
}

using Action = void (*)(int *, int *, int);

__device__ __noinline__ void add(int *lock, int *value, int amount) {
    while (atomicCAS(lock, 0, 1)) {
    }
    *static_cast<volatile int *>(value) = *value + amount;
    __threadfence();
    atomicExch(lock, 0);
}

__device__ __noinline__ void subtract(int *lock, int *value, int amount) { add(lock, value, -amount); }

__device__ Action actions[] = {add, subtract};

__global__ void by_pointers(int *lock, int *value) { actions[threadIdx.x % 2](lock, value, threadIdx.x); }

// Locks within locks.
__device__ __noinline__ int descend(int *locks, int *count, int depth) {
    if (depth == 0) {
        *static_cast<volatile int *>(count) = *count + 1;
        return 0;
    }
    while (atomicCAS(locks + depth, 0, 1)) {
    }
    __threadfence();
    int below = descend(locks, count, depth - 1);
    __threadfence();
    atomicExch(locks + depth, 0);
    return below + 1;
}

__global__ void by_recursion(int *locks, int *count, int *depths) { depths[threadIdx.x] = descend(locks, count, 4); }

int main() {
    Verdict verdict;
    DeviceArray<long long> memory(16);
    DeviceArray<int> counters(8), depths(96);
    Lock *locks[] = {reinterpret_cast<Lock *>(memory.get()), reinterpret_cast<Lock *>(memory.get() + 8)};
    make<<<1, 1>>>(locks[0], static_cast<Ticket *>(locks[1]));
    for (Lock *lock : locks) {
        counters.zero();
        by_virtual_calls<<<3, 64>>>(lock, counters.get(), counters.get() + 1);
        std::vector<int> counted = counters.download();
        verdict.expect(counted[0] == 3 * 64 * ROUNDS && counted[1] == 3 * 42, "virtual calls");
    }

    counters.zero();
    by_pointers<<<1, 64>>>(counters.get(), counters.get() + 1);
    verdict.expect(counters.download()[1] == -32, "calls by pointers");

    counters.zero();
    by_recursion<<<1, 96>>>(counters.get(), counters.get() + 7, depths.get());
    verdict.expect(counters.download()[7] == 96, "locks within locks");
    verdict.equal(depths.download(), std::vector<int>(96, 4), "depths");
    std::printf("waits_in_functions\n");
    return verdict.finish();
}
