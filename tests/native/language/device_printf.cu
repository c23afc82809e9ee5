// Device-side printf: formats, order among the host's own output, what it returns.
#include "../support.cuh"

__device__ char from_device_memory[] = "device string";

__global__ void greet(int launch) {
    printf("launch %d, thread %d of block %d\n", launch, threadIdx.x, blockIdx.x);
}

__global__ void formats(const char *text, int width) {
    printf("[%d] [%5d] [%-5d] [%05d] [%+d] [%i] [%u]\n", -42, 42, 42, 42, 42, -1, 3000000000u);
    printf("[%x] [%#X] [%o] [%hd] [%hhd] [%c] [%5c] [%%]\n", 255, 255, 8, 70000, 300, 'q', 'r');
    printf("[%lld] [%llu] [%lx] [%ld]\n", -(1ll << 62), ~0ull, 1ul << 40, -5l);
    printf("[%f] [%.3f] [%10.2f] [%-10.1f] [%e] [%G] [%a]\n", 1.5, 3.14159, 2.71828, 0.05, 12345.678, 1e-10, 0.75);
    printf("[%f] [%f] [%5.1f]\n", INFINITY, -INFINITY, 0.1f);
    printf("[%s] [%20s] [%-6s] [%.3s] [%s]\n", text, "right", "left", "cut short", from_device_memory);
    printf("[%p] [%p]\n", (void *)0x1234, (void *)0);
    printf("[%*d] [%-*d] [%.*f]\n", width, 7, width, 8, width, 1.0 / 3);
    char local[16];
    for (int i = 0; i < 15; ++i) {
        local[i] = 'a' + (i + width) % 26;
    }
    local[15] = 0;
    printf("[%s] %d%%\n", local, 100);
}

__global__ void returned(int *out) {
    out[0] = printf("three %d %s %f\n", 1, "two", 3.0);
    out[1] = printf("none\n");
}

// Lanes part: each side prints by itself, a thread's own lines stay in order.
__global__ void divergent() {
    if (threadIdx.x % 2) {
        printf("odd %d\n", threadIdx.x);
    } else {
        printf("even %d\n", threadIdx.x);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        printf("after the barrier\n");
    }
}

__device__ __noinline__ void nested(int depth) {
    printf("depth %d\n", depth);
    if (depth < 3) {
        nested(depth + 1);
    }
}

__global__ void recursive() { nested(0); }

int main() {
    Verdict verdict;
    printf("host: before the first launch\n");
    greet<<<2, 2>>>(1);
    CHECK_LAUNCH();
    printf("host: launched, not synchronized\n");
    CHECK(cudaDeviceSynchronize());
    printf("host: synchronized\n");

    char *text;
    CHECK(cudaMalloc(&text, 16));
    CHECK(cudaMemcpy(text, "from cudaMalloc", 16, cudaMemcpyHostToDevice));
    formats<<<1, 1>>>(text, 6);
    printf("host: formats\n");
    CHECK(cudaDeviceSynchronize());

    // Each of these synchronizes, and shows what was printed before it.
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    int *out, values[2];
    CHECK(cudaMalloc(&out, 8));
    returned<<<1, 1>>>(out);
    printf("host: before cudaMemcpy\n");
    CHECK(cudaMemcpy(values, out, 8, cudaMemcpyDeviceToHost));
    printf("host: printf returned %d and %d\n", values[0], values[1]);
    greet<<<1, 1, 0, stream>>>(2);
    printf("host: before cudaStreamSynchronize\n");
    CHECK(cudaStreamSynchronize(stream));
    printf("host: before cudaEventSynchronize\n");
    greet<<<1, 1, 0, stream>>>(3);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    greet<<<1, 1>>>(4);
    printf("host: before a copy to the device\n");
    CHECK(cudaMemcpy(out, values, 8, cudaMemcpyHostToDevice));
    printf("host: after it\n");

    divergent<<<1, 4>>>();
    recursive<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());

    // Launches in a loop: nothing is lost, nothing out of order.
    for (int i = 10; i < 30; ++i) {
        greet<<<1, 1>>>(i);
    }
    printf("host: after the loop\n");
    CHECK(cudaDeviceSynchronize());
    for (int i = 30; i < 34; ++i) {
        printf("host: iteration %d\n", i);
        greet<<<1, 1>>>(i);
        CHECK(cudaDeviceSynchronize());
    }

    size_t limit = 0;
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
    verdict.expect(limit == 1 << 20, "the default size of the buffer");
    printf("host: the end\n");
    return verdict.finish();
}
