#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <stdexcept>
#include <string>
static void check(cudaError_t e, const char *what) { if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e)); }
__global__ void hist(const unsigned char *in, unsigned *h, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[in[i]], 1u); }
template <typename T> class Buffer {
    T *p = nullptr; size_t n;
public:
    explicit Buffer(size_t n) : n(n) { check(cudaMalloc(&p, n * sizeof(T)), "malloc"); }
    ~Buffer() { cudaFree(p); }
    T *get() const { return p; }
    void upload(const T *from) { check(cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice), "upload"); }
    void download(T *to) const { check(cudaMemcpy(to, p, n * sizeof(T), cudaMemcpyDeviceToHost), "download"); }
    void clear() { check(cudaMemset(p, 0, n * sizeof(T)), "clear"); }
};
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 20, repeat = argc > 2 ? atoi(argv[2]) : 10;
    try {
        std::vector<unsigned char> host(n);
        for (auto &c : host) c = rand();
        Buffer<unsigned char> in(n); Buffer<unsigned> out(256);
        in.upload(host.data());
        double total = 0;
        for (int i = 0; i < repeat; i++) {
            out.clear();
            check(cudaDeviceSynchronize(), "sync");
            auto t0 = std::chrono::high_resolution_clock::now();
            hist<<<256, 256>>>(in.get(), out.get(), n);
            check(cudaGetLastError(), "launch");
            check(cudaDeviceSynchronize(), "sync");
            auto t1 = std::chrono::high_resolution_clock::now();
            total += std::chrono::duration<double>(t1 - t0).count();
        }
        std::vector<unsigned> h(256);
        out.download(h.data());
        for (int step = 1; step <= 16; step *= 2) {
            out.clear();
            hist<<<64 * step, 256>>>(in.get(), out.get(), n / step);
        }
        unsigned sum = 0;
        for (unsigned v : h) sum += v;
        printf("%u %s %f\n", sum, (int)sum == n ? "PASS" : "FAIL", total / repeat);
    } catch (const std::exception &e) { fprintf(stderr, "%s\n", e.what()); return 1; }
    return 0;
}
