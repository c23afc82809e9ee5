// Managed and mapped memory: kernels and the program use the same addresses, in turns, through pointers, files and copies.
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <unistd.h>

#include "../support.cuh"

__global__ void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += a * x[i];
    }
}

struct Node {
    Node *next;
    long value;
};

__global__ void sum_list(const Node *node, long *sum) {
    for (*sum = 0; node != nullptr; node = node->next) {
        *sum += node->value;
    }
}

static sigjmp_buf back;

static void caught(int, siginfo_t *, void *) { siglongjmp(back, 1); }

static void prefetch(void *pointer, size_t bytes, bool to_device) {
#if CUDART_VERSION >= 13000
    cudaMemLocation location = {};
    location.type = to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
    CHECK(cudaMemPrefetchAsync(pointer, bytes, location, 0, 0));
    CHECK(cudaMemAdvise(pointer, bytes, cudaMemAdviseSetReadMostly, location));
#else
    int place = to_device ? 0 : cudaCpuDeviceId;
    CHECK(cudaMemPrefetchAsync(pointer, bytes, place, 0));
    CHECK(cudaMemAdvise(pointer, bytes, cudaMemAdviseSetReadMostly, place));
#endif
}

static void advice(Verdict &verdict, float *x, size_t bytes) {
    int read_mostly = -7, place = -7, devices[2] = {-7, -7};
    CHECK(cudaMemRangeGetAttribute(&read_mostly, sizeof(int), cudaMemRangeAttributeReadMostly, x, bytes));
    CHECK(cudaMemRangeGetAttribute(&place, sizeof(int), cudaMemRangeAttributeLastPrefetchLocation, x, bytes));
    verdict.expect(read_mostly == 0 && place == cudaInvalidDeviceId, "nothing was said of the memory");
    prefetch(x, bytes, true);
    void *data[] = {&read_mostly, &place, devices};
    size_t sizes[] = {sizeof(int), sizeof(int), sizeof devices};
    cudaMemRangeAttribute which[] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributeLastPrefetchLocation,
                                     cudaMemRangeAttributeAccessedBy};
    CHECK(cudaMemRangeGetAttributes(data, sizes, which, 3, x, bytes));
    verdict.expect(read_mostly == 1 && place == 0 && devices[0] == cudaInvalidDeviceId, "what was said of the memory");
    prefetch(x, bytes / 2, false);
    CHECK(cudaMemRangeGetAttribute(&place, sizeof(int), cudaMemRangeAttributeLastPrefetchLocation, x, bytes));
    verdict.expect(place == cudaInvalidDeviceId, "halves in two places");
    CHECK(cudaMemRangeGetAttribute(&place, sizeof(int), cudaMemRangeAttributeLastPrefetchLocation, x, bytes / 2));
    verdict.expect(place == cudaCpuDeviceId, "one half");
#if CUDART_VERSION >= 13000
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaMemLocation location = {};
    location.type = cudaMemLocationTypeDevice;
    void *start = x;
    size_t first = 0, half = bytes / 2;
    CHECK(cudaMemDiscardBatchAsync(&start, &half, 1, 0, stream));
    CHECK(cudaMemPrefetchBatchAsync(&start, &half, 1, &location, &first, 1, 0, stream));
    CHECK(cudaMemRangeGetAttribute(&place, sizeof(int), cudaMemRangeAttributeLastPrefetchLocation, x, bytes / 2));
    verdict.expect(place == 0, "prefetched as a list");
    CHECK(cudaStreamDestroy(stream));
#endif
}

static void arrays(Verdict &verdict) {
    const int n = 300000;
    float *x, *y;
    CHECK(cudaMallocManaged(&x, n * sizeof(float)));
    CHECK(cudaMallocManaged(&y, n * sizeof(float)));
    advice(verdict, x, n * sizeof(float));
    for (int i = 0; i < n; ++i) {
        x[i] = static_cast<float>(i % 100);
        y[i] = 1.0f;
    }
    for (int round = 0; round < 3; ++round) {
        axpy<<<(n + 255) / 256, 256>>>(2.0f, x, y, n);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        y[round * 100000] += 0.5f;  // one page goes there and back
    }
    bool right = true;
    for (int i = 0; i < n; ++i) {
        right = right && y[i] == 1.0f + 6.0f * static_cast<float>(i % 100) + (i % 100000 == 0 ? 0.5f : 0.0f);
    }
    verdict.expect(right, "axpy in managed memory");
    prefetch(y, n * sizeof(float), true);
    axpy<<<(n + 255) / 256, 256>>>(-6.0f, x, y, n);
    prefetch(y, n * sizeof(float), false);
    CHECK(cudaDeviceSynchronize());
    std::printf("arrays %.1f %.1f %.1f\n", y[0], y[1], y[n - 1]);

    // Copies and sets see what the program wrote, and the program what they wrote.
    std::vector<float> seen(n);
    y[17] = 123.0f;
    CHECK(cudaMemcpy(seen.data(), y, n * sizeof(float), cudaMemcpyDefault));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    x[5] = 5.0f;
    CHECK(cudaMemcpy(y, x, 10 * sizeof(float), cudaMemcpyDeviceToDevice));
    std::printf("copies %.1f %.1f %.1f %.1f\n", seen[17], x[4], y[5], y[17]);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, y + 100));
    verdict.expect(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == y + 100, "a managed pointer");
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    CHECK(cudaMallocManaged(&x, 100));
    verdict.expect(x[3] == 0.0f, "new memory");
    CHECK(cudaFree(x));
}

static void lists(Verdict &verdict) {
    Node *first = nullptr;
    long *sum, expected = 0;
    CHECK(cudaMallocManaged(&sum, sizeof(long)));
    std::vector<Node *> nodes;
    for (int i = 0; i < 50; ++i) {
        Node *node;
        CHECK(cudaMallocManaged(&node, sizeof(Node)));
        node->next = first;
        node->value = i * i;
        expected += node->value;
        first = node;
        nodes.push_back(node);
    }
    sum_list<<<1, 1>>>(first, sum);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    std::printf("list %ld\n", *sum);
    verdict.expect(*sum == expected, "the sum of a list");
    for (Node *node : nodes) {
        CHECK(cudaFree(node));
    }
    CHECK(cudaFree(sum));
}

// System calls do not fault: they would fail.
static void files(Verdict &verdict) {
    const size_t bytes = 200000;
    char *text;
    CHECK(cudaMallocManaged(&text, bytes));
    CHECK(cudaMemset(text, 'a', bytes));
    std::FILE *file = std::tmpfile();
    verdict.expect(std::fwrite(text, 1, bytes, file) == bytes, "written from managed memory");
    CHECK(cudaMemset(text, 'b', bytes));
    std::rewind(file);
    verdict.expect(std::fread(text, 1, bytes / 2, file) == bytes / 2, "read into managed memory");
    int ends[2];
    verdict.expect(pipe(ends) == 0, "a pipe");
    CHECK(cudaMemset(text + 150000, 'c', 10));
    verdict.expect(write(ends[1], text + 150000, 10) == 10, "written to a pipe");
    CHECK(cudaMemset(text, 'd', 10));
    verdict.expect(read(ends[0], text + 20, 10) == 10, "read from a pipe");
    std::printf("files %c %c %c %c %c\n", text[0], text[25], text[50], text[150005], text[bytes - 1]);
    std::fclose(file);
    CHECK(cudaFree(text));
}

static void mapped(Verdict &verdict) {
    const int n = 5000;
    float *host, *device;
    const unsigned flags = cudaHostAllocMapped | cudaHostAllocPortable | cudaHostAllocWriteCombined;
    unsigned told;
    CHECK(cudaHostAlloc(&host, n * sizeof(float), flags));
    CHECK(cudaHostGetFlags(&told, host));
    verdict.expect(told == flags, "flags of mapped memory");
    CHECK(cudaHostGetDevicePointer(&device, host, 0));
    for (int i = 0; i < n; ++i) {
        host[i] = static_cast<float>(i);
    }
    axpy<<<(n + 255) / 256, 256>>>(1.0f, device, device, n);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    std::printf("mapped %.1f %.1f\n", host[1], host[n - 1]);
    verdict.expect(host[0] == 0.0f, "the first");
    CHECK(cudaFreeHost(host));
}

int main() {
    struct sigaction action = {};
    action.sa_sigaction = caught;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    Verdict verdict;
    arrays(verdict);
    lists(verdict);
    files(verdict);
    mapped(verdict);
    // A fault that is the program's own reaches the program's own handler.
    if (sigsetjmp(back, 1) == 0) {
        *static_cast<volatile int *>(nullptr) = 1;
        verdict.expect(false, "a fault");
    } else {
        std::printf("own fault\n");
    }
    return verdict.finish();
}
