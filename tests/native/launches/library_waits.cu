// Threads that wait for each other through libcu++: semaphores, latches, barriers and atomics. Lanes of one warp are on both sides of each wait; without
// optimization every step of it is a function of its own.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
#include <new>

#include "../support.cuh"

using Semaphore = cuda::counting_semaphore<cuda::thread_scope_device, 8>;
using Turn = cuda::atomic<int, cuda::thread_scope_device>;
using Latch = cuda::latch<cuda::thread_scope_block>;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void prepare(Semaphore *semaphore) { new (semaphore) Semaphore(3); }

// At most three threads are between acquire and release.
__global__ void limited(Semaphore *semaphore, int *inside, int *most, int *through) {
    semaphore->acquire();
    atomicMax(most, atomicAdd(inside, 1) + 1);
    atomicAdd(through, 1);
    atomicSub(inside, 1);
    semaphore->release();
}

// Each thread waits for the one before it.
__global__ void in_turn(Turn *turn) {
    int mine = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    while (turn->load(cuda::memory_order_acquire) != mine) {
    }
    turn->store(mine + 1, cuda::memory_order_release);
    turn->notify_all();
}

// Even threads wait for odd ones.
__global__ void halves(int *out) {
    alignas(Latch) __shared__ char memory[sizeof(Latch)];
    __shared__ int sum;
    Latch *latch = reinterpret_cast<Latch *>(memory);
    if (threadIdx.x == 0) {
        new (latch) Latch(blockDim.x / 2);
        sum = 0;
    }
    __syncthreads();
    if (threadIdx.x % 2) {
        atomicAdd(&sum, static_cast<int>(threadIdx.x));
        latch->count_down();
    } else {
        latch->wait();
        out[threadIdx.x / 2] = sum;
    }
}

__global__ void rounds(int *out) {
    alignas(Barrier) __shared__ char memory[sizeof(Barrier)];
    __shared__ int values[128];
    Barrier *barrier = reinterpret_cast<Barrier *>(memory);
    if (threadIdx.x == 0) {
        init(barrier, blockDim.x);
    }
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < 5; ++round) {
        values[threadIdx.x] = static_cast<int>(threadIdx.x) + round;
        barrier->arrive_and_wait();
        sum += values[(threadIdx.x * 7 + round) % blockDim.x];
        barrier->wait(barrier->arrive());
    }
    out[threadIdx.x] = sum;
}

int main() {
    Verdict verdict;
    DeviceArray<int> counters(3), turn(1), sums(64), totals(128);
    DeviceArray<long long> place(4);
    counters.zero();
    turn.zero();
    Semaphore *semaphore = reinterpret_cast<Semaphore *>(place.get());
    prepare<<<1, 1>>>(semaphore);
    limited<<<2, 64>>>(semaphore, counters.get(), counters.get() + 1, counters.get() + 2);
    std::vector<int> counted = counters.download();
    verdict.expect(counted[0] == 0 && counted[1] >= 1 && counted[1] <= 3 && counted[2] == 128, "the semaphore");

    in_turn<<<2, 48>>>(reinterpret_cast<Turn *>(turn.get()));
    verdict.equal(turn.download(), std::vector<int>{96}, "turns");

    halves<<<1, 128>>>(sums.get());
    verdict.equal(sums.download(), std::vector<int>(64, 64 * 64), "the latch");

    rounds<<<1, 128>>>(totals.get());
    std::vector<int> expected(128);
    for (int thread = 0; thread < 128; ++thread) {
        for (int round = 0; round < 5; ++round) {
            expected[thread] += (thread * 7 + round) % 128 + round;
        }
    }
    verdict.equal(totals.download(), expected, "the barrier");
    print_checksum("library_waits", expected);
    return verdict.finish();
}
