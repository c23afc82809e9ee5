// An open-addressing hash table in global memory: inserting with atomicCAS, counting duplicates, looking up, chaining through a lock.
#include <map>

#include "../support.cuh"

constexpr unsigned EMPTY = 0xFFFFFFFF, SLOTS = 1 << 13;

__device__ __host__ unsigned mix(unsigned key) {
    key = (key ^ key >> 16) * 0x7FEB352Du;
    key = (key ^ key >> 15) * 0x846CA68Bu;
    return key ^ key >> 16;
}

__global__ void insert(const unsigned *keys, int count, unsigned *slots, unsigned *counts) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    for (unsigned place = mix(keys[i]) % SLOTS;; place = (place + 1) % SLOTS) {
        const unsigned found = atomicCAS(&slots[place], EMPTY, keys[i]);
        if (found == EMPTY || found == keys[i]) {
            atomicAdd(&counts[place], 1);
            return;
        }
    }
}

__global__ void lookup(const unsigned *keys, int count, const unsigned *slots, const unsigned *counts, unsigned *found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    unsigned place = mix(keys[i]) % SLOTS;
    while (slots[place] != keys[i] && slots[place] != EMPTY) {
        place = (place + 1) % SLOTS;
    }
    found[i] = slots[place] == keys[i] ? counts[place] : 0;
}

// One lane of each warp at a time holds the lock and changes the record as a whole.
__global__ void locked(int *lock, unsigned *record) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            volatile unsigned *own = record;
            own[0] = own[0] + 1;
            own[1] = own[1] + own[0];
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

int main() {
    Verdict verdict;
    const int count = 6000;
    std::vector<unsigned> keys(count), expected(count);
    std::map<unsigned, unsigned> reference;
    Random random(3);
    for (unsigned &key : keys) {
        ++reference[key = random.below(3000)];
    }
    for (int i = 0; i < count; ++i) {
        keys[i] += i % 3 == 2 ? 5000 : 0;  // every third is not there; inserted below were the others
    }
    reference.clear();
    std::vector<unsigned> there;
    for (int i = 0; i < count; ++i) {
        if (i % 3 != 2) {
            there.push_back(keys[i]);
            ++reference[keys[i]];
        }
    }
    for (int i = 0; i < count; ++i) {
        expected[i] = reference.count(keys[i]) ? reference[keys[i]] : 0;
    }
    DeviceArray<unsigned> device_keys(keys), inserted(there), slots(SLOTS), counts(SLOTS), found(count);
    CHECK(cudaMemset(slots.get(), 0xFF, SLOTS * 4));
    counts.zero();
    insert<<<(int(there.size()) + 127) / 128, 128>>>(inserted.get(), int(there.size()), slots.get(), counts.get());
    lookup<<<(count + 127) / 128, 128>>>(device_keys.get(), count, slots.get(), counts.get(), found.get());
    CHECK_LAUNCH();
    verdict.equal(found.download(), expected, "counts");

    DeviceArray<int> lock(1);
    DeviceArray<unsigned> record(2);
    lock.zero();
    record.zero();
    locked<<<4, 48>>>(lock.get(), record.get());
    CHECK_LAUNCH();
    verdict.equal(record.download(), std::vector<unsigned>{192, 192 * 193 / 2}, "record");
    std::printf("hash_table %zu keys\n", reference.size());
    return verdict.finish();
}
