// Copies to the host in loops. The name says what must be proven of the copy in the function's loop: `defer_...` may be deferred,
// `keep_...` must not be. Each function has one copy in one loop, but for those in callees. `sync_...` and `wait_...` say the same of a
// synchronization: it may be answered locally, or must not be.
#include <cuda_runtime.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#define PROGRAM extern "C" __attribute__((noinline, noipa)) void
#define APART __attribute__((noinline, noclone))

constexpr int COUNT = 1024;
constexpr size_t BYTES = COUNT * sizeof(float);
volatile double sink;
void (*volatile opaque)(void *) = [](void *) {};
int (*volatile number)() = [] { return 1; };
float *shared_pointer;
float global_array[COUNT];
float **table_of_pointers;

static __global__ void touch(float *data, int offset, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) data[index] += offset;
}

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t code_ = (call);                                                                      \
        if (code_ != cudaSuccess) {                                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(code_)); \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define COPY(host) cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost)
#define STEP touch<<<4, 256>>>(data, i, COUNT)

// ---- deferred ------------------------------------------------------------------------------------------------------

PROGRAM defer_classic(float *data, int rounds) {
    float *host = (float *)malloc(BYTES * rounds);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host + (size_t)i * COUNT);
    }
    for (int i = 0; i < COUNT * rounds; ++i) sink = sink + host[i];
    free(host);
}

PROGRAM defer_checked(float *data, int rounds) {
    float *host = new float[COUNT];
    for (int i = 0; i < rounds; ++i) {
        STEP;
        CHECK(cudaGetLastError());
        CHECK(COPY(host));
        CHECK(cudaDeviceSynchronize());
    }
    sink = host[3];
    delete[] host;
}

PROGRAM defer_nested(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < 7; ++j) STEP;
        COPY(host);
    }
    sink = host[0];
    free(host);
}

PROGRAM defer_vector(float *data, int rounds) {
    std::vector<float> host(COUNT);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host.data());
    }
    sink = host[COUNT - 1];
}

PROGRAM defer_own_array(float *data, int rounds) {
    float host[COUNT];
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
    }
    sink = host[rounds & 511];
}

PROGRAM defer_device_allocation(int rounds) {
    float *data, *host = (float *)malloc(BYTES);
    cudaMalloc(&data, BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
    }
    cudaFree(data);
    sink = host[0];
    free(host);
}

PROGRAM defer_pinned_async(float *data, int rounds, cudaStream_t stream) {
    float *host;
    cudaMallocHost(&host, BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpyAsync(host, data, BYTES, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
    }
    sink = host[0];
    cudaFreeHost(host);
}

PROGRAM defer_print_of_others(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        printf("round %d of %d, %g\n", i, rounds, i * 0.5);
    }
    sink = host[0];
    free(host);
}

// Only when the copy is reached again before the buffer is looked at.
PROGRAM defer_every_tenth_read(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        if (i % 10 == 9) sink = host[0];
    }
    free(host);
}

PROGRAM defer_two_buffers(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    float *other = (float *)malloc(BYTES);
    memset(other, 0, BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        other[i & 15] += 1;
        cudaMemcpy(data, other, BYTES, cudaMemcpyHostToDevice);
    }
    sink = host[0] + other[1];
    free(host), free(other);
}

static APART void fill(float *values, float value) {
    for (int i = 0; i < COUNT; ++i) values[i] = value;
}

PROGRAM defer_filled_before(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    fill(host, 3);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
    }
    sink = host[0];
    free(host);
}

PROGRAM defer_unsigned_and_down(float *data, unsigned rounds) {
    float *host = (float *)malloc(BYTES);
    int i = 0;
    for (unsigned left = rounds; left > 0; left -= 1) {
        STEP;
        COPY(host);
    }
    sink = host[0];
    free(host);
}

PROGRAM defer_until_settled(float *data) {
    float *host = (float *)malloc(BYTES);
    int i = 0;
    while (rand() % 9) {
        STEP;
        COPY(host);
    }
    cudaDeviceSynchronize();
    sink = host[0];
    free(host);
}

PROGRAM defer_stream_output(float *data, int rounds) {
    std::vector<float> host(COUNT);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host.data());
        std::cout << "round " << i << "\n";
    }
    sink = host[3];
}

PROGRAM defer_unique_pointer(float *data, int rounds) {
    auto host = std::make_unique<float[]>(COUNT);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host.get());
    }
    sink = host[3];
}

struct Big {
    float *first, *second;
    int numbers[20];
};

static __global__ void wide(Big big, float *data, int i, int j, int k, int l, int m, int n) {
    data[i] = big.numbers[j] + k + l + m + n;
}

PROGRAM defer_many_parameters(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    Big big = {data, data, {1, 2, 3}};
    for (int i = 0; i < rounds; ++i) {
        wide<<<1, 1>>>(big, data, i, 1, 2, 3, 4, 5);
        COPY(host);
    }
    sink = host[3];
    free(host);
}

PROGRAM defer_elements(float *data, int rounds) {
    float errors[10];
    for (int i = 0; i < 10; ++i) {
        STEP;
        cudaMemcpy(&errors[i], data, sizeof(float), cudaMemcpyDeviceToHost);
    }
    for (int i = 0; i < 10; ++i) printf("%g %d\n", errors[i], rounds);
}

PROGRAM defer_timed(float *data, int rounds) {
    float *host = (float *)malloc(BYTES), milliseconds;
    cudaEvent_t start, stop;
    cudaEventCreate(&start), cudaEventCreate(&stop);
    for (int i = 0; i < rounds; ++i) {
        cudaEventRecord(start);
        STEP;
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        cudaEventElapsedTime(&milliseconds, start, stop);
        COPY(host);
        printf("%f\n", milliseconds);
    }
    sink = host[1];
    free(host);
}

// ---- kept: aliases ---------------------------------------------------------------------------------------------------

PROGRAM keep_stored_pointer(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    table_of_pointers[1] = host;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = table_of_pointers[i][0];
    }
    free(host);
}

PROGRAM keep_pointer_in_own_struct(float *data, int rounds) {
    struct Node { float *values; Node *next; } last, first;
    last.values = (float *)malloc(BYTES), last.next = &first;
    first.values = (float *)malloc(BYTES), first.next = &last;
    Node *node = &first;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(last.values);
        sink = node->values[0];
        node = node->next;
    }
    free(last.values), free(first.values);
}

PROGRAM keep_union(float *data, int rounds) {
    union { float values[COUNT]; int numbers[COUNT]; } host;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host.values);
        sink = host.numbers[i & 31];
    }
}

PROGRAM keep_laundered(float *data, int rounds) {
    float *host = (float *)malloc(BYTES), *again = host;
    asm volatile("" : "+r"(again));
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = again[i];
    }
    free(host);
}

PROGRAM keep_laundered_number(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    uintptr_t hidden = (uintptr_t)host ^ 0x5555555555555555;
    asm volatile("" : "+r"(hidden));
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = *(float *)(hidden ^ 0x5555555555555555);
    }
    free(host);
}

PROGRAM keep_halves(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    volatile uint32_t low = (uint32_t)(uintptr_t)host, high = (uint32_t)((uintptr_t)host >> 32);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = *(float *)((uintptr_t)high << 32 | low);
    }
    free(host);
}

PROGRAM keep_negative_index(float *data, int rounds) {
    float host[64], other[64];
    float *end = other + 64;
    opaque(nullptr);
    memset(other, 0, sizeof other);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);
        sink = host[i & 63] + end[-1 - (i & 63)];
    }
}

PROGRAM keep_swapped(float *data, int rounds) {
    float *host = (float *)malloc(BYTES), *other = (float *)calloc(1, BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        std::swap(host, other);
        sink = host[0];
        sink = other[0];
    }
    free(host), free(other);
}

PROGRAM keep_last_round_read(float *data, int rounds) {
    float *buffers[2] = {(float *)calloc(1, BYTES), (float *)calloc(1, BYTES)};
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(buffers[i & 1]);
        sink = buffers[1 - (i & 1)][0];
    }
    free(buffers[0]), free(buffers[1]);
}

PROGRAM keep_realloc(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        host = (float *)realloc(host, BYTES * (i + 2));
    }
    sink = host[0];
    free(host);
}

PROGRAM keep_push_back(float *data, int rounds) {
    std::vector<float> host(COUNT);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host.data());
        host.push_back(i);
    }
    sink = host[0];
}

PROGRAM keep_scope_ends(float *data, int rounds) {
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        {
            float host[16];
            STEP;
            cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);
            sum += host[i & 15];
        }
    }
    sink = sum;
}

PROGRAM keep_alloca(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *host = (float *)alloca(rounds * 4 + 64);
        STEP;
        cudaMemcpy(host, data, 64, cudaMemcpyDeviceToHost);
        sink = host[0];
    }
}

PROGRAM keep_parameter(float *data, float *host, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = global_array[i];
    }
}

PROGRAM keep_global(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(global_array);
        opaque(nullptr);
    }
}

PROGRAM keep_into_kernel(float *data, int rounds) {
    float *host;
    cudaMallocHost(&host, BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(host, i, COUNT);
        COPY(host);
    }
    sink = host[0];
    cudaFreeHost(host);
}

// The kernel is given the buffer's address inside a structure.
PROGRAM keep_in_structure_to_kernel(float *data, int rounds) {
    float *host;
    cudaMallocHost(&host, BYTES);
    Big big = {data, data, {1, 2, 3}};
    big.second = host;
    for (int i = 0; i < rounds; ++i) {
        wide<<<1, 1>>>(big, data, i, 1, 2, 3, 4, 5);
        COPY(host);
    }
    sink = host[3];
    cudaFreeHost(host);
}

PROGRAM keep_string(float *data, int rounds) {
    std::string text(COUNT, 'x');
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(&text[0], data, COUNT, cudaMemcpyDeviceToHost);
        std::cout << text;
    }
}

PROGRAM keep_stream_output(float *data, int rounds) {
    float value;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
        std::cout << value << std::endl;
    }
}

// Host memory where the device's is expected: pinned memory is both.
PROGRAM keep_pinned_as_device(float *data, int rounds) {
    float *host;
    cudaMallocHost(&host, BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        cudaMemsetAsync(host, 0, BYTES);
    }
    sink = host[3];
    cudaFreeHost(host);
}

// ---- kept: what functions do --------------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) { return *(const float *)a < *(const float *)b; }

PROGRAM keep_qsort(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        qsort(host, COUNT, sizeof(float), by_value);
    }
    free(host);
}

static float *seen_by_comparison;
static int indirectly(const void *, const void *) { return seen_by_comparison[0] > 0; }

PROGRAM keep_callback_through_global(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    int keys[4] = {3, 1, 2, 0};
    seen_by_comparison = host;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        qsort(keys, 4, sizeof(int), indirectly);
    }
    sink = keys[0];
    free(host);
}

PROGRAM keep_unknown_function(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        opaque(nullptr);
    }
    sink = host[0];
    free(host);
}

PROGRAM keep_system_call(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        long result;
        STEP;
        COPY(host);
        asm volatile("syscall" : "=a"(result) : "a"(SYS_write), "D"(1), "S"(host), "d"(4) : "rcx", "r11", "memory");
    }
    free(host);
}

PROGRAM keep_memmove(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        memmove(host + 1, host, BYTES - 4);
    }
    sink = host[5];
    free(host);
}

PROGRAM keep_string_move(float *data, int rounds) {
    float *host = (float *)malloc(BYTES), *to = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        void *target = to, *source = host;
        size_t count = BYTES / 8;
        asm volatile("rep movsq" : "+D"(target), "+S"(source), "+c"(count) : : "memory");
    }
    sink = to[5];
    free(host), free(to);
}

PROGRAM keep_sent_back(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        cudaMemcpyAsync(data + COUNT, host, BYTES, cudaMemcpyHostToDevice);
    }
    free(host);
}

PROGRAM keep_pointer_sent_to_device(float *data, float ***device, int rounds) {
    float *host = (float *)malloc(BYTES), *back;
    cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(&back, device, sizeof back, cudaMemcpyDeviceToHost);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = back[0];
    }
    free(host);
}

// ---- kept: ways out -------------------------------------------------------------------------------------------------

PROGRAM keep_break(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        if (number() == 2) break;
    }
    sink = host[0];
    free(host);
}

PROGRAM keep_returned_from_middle(float *data, int rounds) {
    float host[16];
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);
        if (rand() == 5) return;
    }
    sink = host[0];
}

PROGRAM keep_sometimes_skipped(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        if (rand() & 1) COPY(host);
    }
    sink = host[0];
    free(host);
}

static APART void throws(int i) {
    if (i == 1000) throw i;
}

PROGRAM keep_exception(float *data, int rounds) {
    std::vector<float> host(COUNT);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host.data());
        throws(i);
    }
    sink = host[0];
}

static jmp_buf outside;

PROGRAM keep_longjmp(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        if (rand() == 900) longjmp(outside, 1);
    }
    sink = host[0];
    free(host);
}

PROGRAM keep_setjmp(float *data, int rounds) {
    float *volatile host = (float *)malloc(BYTES);
    jmp_buf here;
    if (setjmp(here)) {
        sink = host[0];
        return;
    }
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        if (i == 900) longjmp(here, 1);
    }
    free(host);
}

PROGRAM keep_computed_goto(float *data, int rounds, int mode) {
    static void *const places[] = {&&again, &&look};
    float *host = (float *)malloc(BYTES);
    int i = 0;
again:
    STEP;
    COPY(host);
    if (++i < rounds) goto *places[(i + mode) & 1];
    goto end;
look:
    sink = host[0];
    goto again;
end:
    free(host);
}

PROGRAM keep_read_at_exit(float *data, int rounds) {
    static float *kept;
    float *host = kept = (float *)malloc(BYTES);
    atexit([] { sink = kept[0]; });
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        if (rand() == 7) exit(3);
    }
    free(host);
}

// ---- kept: the code ------------------------------------------------------------------------------------------------

PROGRAM keep_code_counted(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    int bad = 0;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        bad += COPY(host) != cudaSuccess;
    }
    sink = host[0] + bad;
    free(host);
}

PROGRAM keep_code_stored(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    cudaError_t codes[8];
    for (int i = 0; i < 8; ++i) {
        STEP;
        codes[i] = COPY(host);
    }
    for (int i = 0; i < 8; ++i) sink = codes[(i + rounds) & 7];
    free(host);
}

PROGRAM keep_code_breaks(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        if (COPY(host) != cudaSuccess) break;
    }
    sink = host[0];
    free(host);
}

// ---- synchronizations --------------------------------------------------------------------------------------------------

PROGRAM sync_dropped(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaDeviceSynchronize();
    }
}

static APART void must(cudaError_t code, const char *what, int line) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s at line %d: %s\n", what, line, cudaGetErrorString(code));
    abort();
}

PROGRAM sync_by_function(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        must(cudaDeviceSynchronize(), "synchronize", __LINE__);
    }
}

PROGRAM sync_by_macro(float *data, cudaStream_t stream, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        CHECK(cudaStreamSynchronize(stream));
    }
}

static APART cudaError_t finish() { return cudaDeviceSynchronize(); }

extern "C" __attribute__((noinline, noipa)) int wait_returned(float *data, int rounds) {
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        code = cudaDeviceSynchronize();
    }
    return code;
}

static APART void may_complain(cudaError_t code) {
    if (code != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorString(code));
}

PROGRAM wait_only_complains(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        may_complain(cudaDeviceSynchronize());
    }
}

PROGRAM wait_other_code(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        if (cudaDeviceSynchronize() == cudaErrorLaunchFailure) exit(1);
    }
}

PROGRAM wait_hangs(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        if (cudaDeviceSynchronize() != cudaSuccess)
            for (;;) usleep(1000);
    }
}

PROGRAM wait_or_ed(float *data, int rounds) {
    int all = 0;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        all |= cudaDeviceSynchronize();
    }
    if (all) exit(1);
}

PROGRAM wait_throws(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        if (cudaDeviceSynchronize() != cudaSuccess) throw 5;
    }
}

PROGRAM wait_kept_in_memory(float *data, cudaError_t *code, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        *code = cudaDeviceSynchronize();
    }
}

// May be checked by debugging builds only: the callee returns without a comparison.
static int strict;
static APART void maybe_must(cudaError_t code) {
    if (!strict) return;
    if (code != cudaSuccess) exit(1);
    strict = 2;
}

PROGRAM wait_maybe_checked(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaError_t code = cudaDeviceSynchronize();
        maybe_must(code);
        sink = code;
    }
}

int main(int argc, char **) {
    float *data;
    cudaMalloc(&data, 4 * BYTES);
    int n = argc;
    table_of_pointers = (float **)calloc(64, sizeof(float *));
    try {
        defer_classic(data, n), defer_checked(data, n), defer_nested(data, n), defer_vector(data, n), defer_own_array(data, n);
        defer_device_allocation(n), defer_pinned_async(data, n, 0), defer_print_of_others(data, n), defer_every_tenth_read(data, n);
        defer_two_buffers(data, n), defer_filled_before(data, n), defer_unsigned_and_down(data, n), defer_until_settled(data);
        defer_stream_output(data, n), defer_unique_pointer(data, n), defer_many_parameters(data, n), defer_elements(data, n);
        defer_timed(data, n), keep_in_structure_to_kernel(data, n), keep_string(data, n), keep_stream_output(data, n);
        keep_pinned_as_device(data, n);
        keep_stored_pointer(data, n), keep_pointer_in_own_struct(data, n), keep_union(data, n), keep_laundered(data, n);
        keep_laundered_number(data, n), keep_halves(data, n), keep_negative_index(data, n), keep_swapped(data, n);
        keep_last_round_read(data, n), keep_realloc(data, n), keep_push_back(data, n), keep_scope_ends(data, n), keep_alloca(data, n);
        keep_parameter(data, global_array, n), keep_global(data, n), keep_into_kernel(data, n), keep_qsort(data, n);
        keep_callback_through_global(data, n), keep_unknown_function(data, n), keep_system_call(data, n), keep_memmove(data, n);
        keep_string_move(data, n), keep_sent_back(data, n), keep_pointer_sent_to_device(data, (float ***)data, n), keep_break(data, n);
        keep_returned_from_middle(data, n), keep_sometimes_skipped(data, n), keep_exception(data, n);
        if (!setjmp(outside)) keep_longjmp(data, n);
        keep_setjmp(data, n), keep_computed_goto(data, n, n), keep_read_at_exit(data, n), keep_code_counted(data, n);
        keep_code_stored(data, n), keep_code_breaks(data, n), sync_dropped(data, n), sync_by_function(data, n), sync_by_macro(data, 0, n);
        sink = wait_returned(data, n);
        wait_only_complains(data, n), wait_other_code(data, n), wait_hangs(data, n), wait_or_ed(data, n);
        wait_throws(data, n);
        cudaError_t code;
        wait_kept_in_memory(data, &code, n), wait_maybe_checked(data, n);
        sink = finish();
    } catch (int) {
        return 2;
    }
    return 0;
}
