// SHA-256 of one block per thread, and wide integers by carry chains in PTX: brute force for a nonce, products of 128 bits.
#include "../support.cuh"

__constant__ uint32_t device_rounds[64];

__host__ __device__ inline uint32_t turn(uint32_t v, int n) { return v >> n | v << (32 - n); }

__host__ __device__ void compress(const uint32_t *rounds, const uint32_t *message, uint32_t *state) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; ++i) {
        w[i] = message[i];
    }
    for (int i = 16; i < 64; ++i) {
        const uint32_t s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    for (int i = 0; i < 8; ++i) {
        v[i] = state[i];
    }
    for (int i = 0; i < 64; ++i) {
        const uint32_t s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25), choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t one = v[7] + s1 + choice + rounds[i] + w[i];
        const uint32_t s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22), most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        for (int k = 7; k > 0; --k) {
            v[k] = v[k - 1];
        }
        v[4] += one;
        v[0] = one + s0 + most;
    }
    for (int i = 0; i < 8; ++i) {
        state[i] += v[i];
    }
}

struct Start {
    uint32_t state[8], message[16];
};

__global__ void search(Start start, uint32_t *digests, unsigned *best) {
    const unsigned nonce = blockIdx.x * blockDim.x + threadIdx.x;
    start.message[3] = nonce;
    compress(device_rounds, start.message, start.state);
    digests[nonce] = start.state[7];
    if (__clz(int(start.state[0])) >= 8) {
        atomicMin(best, nonce);
    }
}

__global__ void multiply(const uint64_t *a, const uint64_t *b, uint64_t *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        uint64_t low, high, carry;
        asm("mul.lo.u64 %0, %3, %4; mul.hi.u64 %1, %3, %4; add.cc.u64 %0, %0, %3; addc.cc.u64 %1, %1, %4; addc.u64 %2, 0, 0;"
            : "=&l"(low), "=&l"(high), "=&l"(carry)
            : "l"(a[i]), "l"(b[i]));
        out[3 * i] = low, out[3 * i + 1] = high, out[3 * i + 2] = carry + __umul64hi(a[i], 3);
    }
}

int main() {
    Verdict verdict;
    uint32_t rounds[64];
    Start start = {};
    Random random(256);
    for (uint32_t &round : rounds) {
        round = uint32_t(random.next());
    }
    for (uint32_t &word : start.state) {
        word = uint32_t(random.next());
    }
    for (uint32_t &word : start.message) {
        word = uint32_t(random.next());
    }
    CHECK(cudaMemcpyToSymbol(device_rounds, rounds, sizeof(rounds)));
    const unsigned count = 2048;
    std::vector<uint32_t> expected(count);
    unsigned first = count;
    for (unsigned nonce = 0; nonce < count; ++nonce) {
        Start own = start;
        own.message[3] = nonce;
        compress(rounds, own.message, own.state);
        expected[nonce] = own.state[7];
        first = own.state[0] >> 24 == 0 && nonce < first ? nonce : first;
    }
    DeviceArray<uint32_t> digests(count);
    DeviceArray<unsigned> best(std::vector<unsigned>{count});
    search<<<count / 128, 128>>>(start, digests.get(), best.get());
    CHECK_LAUNCH();
    verdict.equal(digests.download(), expected, "digests");
    verdict.expect(best.download()[0] == first, "the first nonce");

    std::vector<uint64_t> a(500), b(500), products;
    for (size_t i = 0; i < a.size(); ++i) {
        a[i] = random.next() | (i % 3 ? 0 : 0xFFFFFFFF00000000ull), b[i] = i % 7 ? random.next() : ~0ull;
        const unsigned __int128 product = (unsigned __int128)a[i] * b[i];
        const unsigned __int128 low = (unsigned __int128)uint64_t(product) + a[i];
        const unsigned __int128 high = (unsigned __int128)uint64_t(product >> 64) + b[i] + uint64_t(low >> 64);
        products.insert(products.end(), {uint64_t(low), uint64_t(high), uint64_t(high >> 64) + uint64_t((unsigned __int128)a[i] * 3 >> 64)});
    }
    DeviceArray<uint64_t> device_a(a), device_b(b), out(3 * a.size());
    multiply<<<4, 128>>>(device_a.get(), device_b.get(), out.get(), int(a.size()));
    CHECK_LAUNCH();
    verdict.equal(out.download(), products, "products");
    std::printf("hashing %u\n", first);
    return verdict.finish();
}
