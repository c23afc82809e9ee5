// Copies to the host: whether the destination is touched before the loop comes back to the copy. What must not be deferred
// stands here in every disguise that has misled an analyzer.
#include "common.cuh"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <vector>

// ---- may be deferred ----------------------------------------------------------------------------------------------

// The destination is the function's own and looked at behind the loop.
PROGRAM read_afterwards(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    }
    sink = host[0] + host[COUNT - 1];
    free(host);
}

PROGRAM never_read(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    }
    free(host);
}

PROGRAM scalar_read_afterwards(float *data, int rounds) {
    float value = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
    }
    sink = value;
}

PROGRAM rows_read_afterwards(float *data, int rounds) {
    float *host = (float *)malloc(BYTES * rounds);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host + COUNT * i, data, BYTES, cudaMemcpyDeviceToHost);
    }
    double sum = 0;
    for (int i = 0; i < COUNT * rounds; ++i) sum += host[i];
    sink = sum;
    free(host);
}

PROGRAM synchronized_unread(float *data, int rounds, cudaStream_t stream) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, stream>>>(data, i, COUNT);
        cudaMemcpyAsync(host, data, BYTES, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
    }
    sink = host[0];
    free(host);
}

PROGRAM pinned_unread(float *data, int rounds, cudaStream_t stream) {
    float *host;
    cudaMallocHost(&host, BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, stream>>>(data, i, COUNT);
        cudaMemcpyAsync(host, data, BYTES, cudaMemcpyDeviceToHost, stream);
    }
    cudaStreamSynchronize(stream);
    sink = host[0];
    cudaFreeHost(host);
}

// Another buffer is read in the loop: the two are separate allocations.
PROGRAM other_buffer_read(float *data, int rounds) {
    float *host = (float *)malloc(BYTES), *table = (float *)calloc(COUNT, sizeof(float));
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        for (int j = 0; j < COUNT; ++j) sum += table[j] * i;
    }
    sink = sum + host[0];
    free(host), free(table);
}

static __device__ float total;
static __global__ void add_up(float amount) { total += amount; }

PROGRAM symbol_unread(int rounds) {
    float value = 0;
    for (int i = 0; i < rounds; ++i) {
        add_up<<<1, 1>>>(i);
        cudaMemcpyFromSymbol(&value, total, sizeof value);
    }
    sink = value;
}

PROGRAM checked_copy(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
    }
    sink = host[0];
    free(host);
}

// The copy is in a callee that is called from here only; the buffer is the caller's.
static APART void download(float *host, const float *device) {
    if (cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
}

PROGRAM copied_in_callee(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download(host, data);
    }
    sink = host[0];
    free(host);
}

// The same callee as above; here the buffer is read in each iteration.
PROGRAM copied_in_callee_and_read(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download(host, data);
        sum += host[i];
    }
    sink = sum;
    free(host);
}

// And here before it is overwritten.
PROGRAM copied_in_callee_and_read_next_time(float *data, int rounds) {
    float *host = (float *)calloc(COUNT, sizeof(float));
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        sum += host[i];
        touch<<<4, 256>>>(data, i, COUNT);
        download(host, data);
    }
    sink = sum;
    free(host);
}

// One loop calls it twice: one buffer waits, the other is read at once.
static APART void download_either(float *host, const float *device) {
    if (cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(2);
}

PROGRAM copied_in_callee_twice(float *data, int rounds) {
    float *host = (float *)malloc(BYTES), *other = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download_either(host, data);
        download_either(other, data);
        sum += other[i];
    }
    sink = sum + host[0];
    free(host), free(other);
}

PROGRAM copied_in_callee_and_freed(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *host = (float *)malloc(BYTES);
        touch<<<4, 256>>>(data, i, COUNT);
        download(host, data);
        free(host);
    }
}

// The callee is called by who knows whom.
PROGRAM copied_in_callee_by_address(float *data, int rounds) {
    void (*volatile chosen)(float *, const float *) = download;
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        chosen(host, data);
    }
    sink = host[0];
    free(host);
}

static APART void download_deepest(float *host, const float *device) {
    if (cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(3);
}

static APART void download_deeper(float *host, const float *device) {
    download_deepest(host, device);
    if (cudaMemsetAsync((void *)device, 0, BYTES) != cudaSuccess) exit(1);
}

PROGRAM copied_two_calls_deep(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download_deeper(host, data);
    }
    sink = host[0];
    free(host);
}

// The callee keeps the address where anybody may find it.
static float *kept_by_callee;
static APART void download_and_keep(float *host, const float *device) {
    kept_by_callee = host;
    if (cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
}

PROGRAM kept_in_callee(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download_and_keep(host, data);
        opaque(nullptr);
    }
    sink = kept_by_callee[0];
    free(host);
}

// The callee copies now and then; what it copied last is read.
static APART void download_sometimes(float *host, const float *device, int round) {
    if (round % 4 == 0 && cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
}

PROGRAM copied_sometimes_in_callee(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download_sometimes(host, data, i);
        if (i % 4 == 3) sum += host[i];
    }
    sink = sum;
    free(host);
}

// The callee reads what its own copy of the iteration before has left.
static APART double previous_and_download(float *host, const float *device) {
    double previous = host[0];
    if (cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
    return previous;
}

PROGRAM previous_read_in_callee(float *data, int rounds) {
    float *host = (float *)calloc(COUNT, sizeof(float));
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        sum += previous_and_download(host, data);
    }
    sink = sum;
    free(host);
}

// How often it goes round is not known, but behind the loop another CUDA call comes before the buffer is looked at.
PROGRAM settled_by_call(float *data) {
    float *host = (float *)malloc(BYTES);
    while (rand() % 5) {
        touch<<<4, 256>>>(data, 1, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    }
    cudaDeviceSynchronize();
    sink = host[0];
    free(host);
}

// The outer loop reads what the inner one copied: the inner loop's last copy is done at once, the others may wait.
PROGRAM read_by_outer_loop(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < 9; ++j) {
            touch<<<4, 256>>>(data, j, COUNT);
            cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        }
        sum += host[i];
    }
    sink = sum;
    free(host);
}

// ---- must not be deferred: read before the loop comes back -----------------------------------------------------------

PROGRAM read_at_once(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        for (int j = 0; j < COUNT; ++j) sum += host[j];
    }
    sink = sum;
    free(host);
}

// What the previous iteration copied is read before this one copies.
PROGRAM read_next_time(float *data, int rounds) {
    float *host = (float *)calloc(COUNT, sizeof(float));
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        sum += host[7];
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    }
    sink = sum;
    free(host);
}

PROGRAM read_sometimes(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        if (i % 4 == 0) sum += host[i];
    }
    sink = sum;
    free(host);
}

PROGRAM copied_sometimes(float *data, int rounds) {
    float value = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        if (i % 4 == 0) {
            cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
            printf("%d: %g\n", i, value);
        }
    }
}

// The value goes to printf in a vector register.
PROGRAM printed(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float value;
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
        printf("%g\n", value);
    }
}

// printf reads what it is given the address of.
PROGRAM printed_as_text(char *data, int rounds) {
    char *text = (char *)calloc(1, 64);
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(data, 'a' + i, 8);
        cudaMemcpy(text, data, 8, cudaMemcpyDeviceToHost);
        printf("%s\n", text);
    }
    free(text);
}

PROGRAM written_out(float *data, int rounds, FILE *file) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        fwrite(host, sizeof(float), COUNT, file);
    }
    free(host);
}

PROGRAM system_call(float *data, int rounds, int file) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        if (write(file, host, BYTES) < 0) sink = i;
    }
    free(host);
}

PROGRAM compared(float *data, const float *before, int rounds) {
    float *host = (float *)malloc(BYTES);
    int same = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        same += memcmp(host, before, BYTES) == 0;
    }
    sink = same;
    free(host);
}

PROGRAM copied_on(float *data, float *kept, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        memcpy(kept, host, BYTES);
    }
    free(host);
}

PROGRAM given_away(float *data, int rounds) {
    float value = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
        opaque(&value);
    }
}

float *visible;

// The destination can be reached by what is called.
PROGRAM reachable(float *data, int rounds) {
    visible = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(visible, data, BYTES, cudaMemcpyDeviceToHost);
        opaque(nullptr);
    }
    free(visible);
}

// Two parameters may be the same memory; here they are.
PROGRAM aliased(float *data, float *to, const float *from, int rounds) {
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(to, data, BYTES, cudaMemcpyDeviceToHost);
        sum += from[i];
    }
    sink = sum;
}

static APART double copy_and_look(float *to, const float *from, const float *device) {
    cudaMemcpy(to, device, BYTES, cudaMemcpyDeviceToHost);
    return from[3];
}

PROGRAM aliased_in_callee(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        sum += copy_and_look(host, host, data);
    }
    sink = sum;
    free(host);
}

// The reader walks over the buffer: its address is a phi, and the buffer's base is lost.
PROGRAM read_by_pointer(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        for (const float *each = host, *end = host + COUNT; each != end; each += 4) sum += *each;
    }
    sink = sum;
    free(host);
}

PROGRAM read_by_either(float *data, int rounds, bool which) {
    float *host = (float *)malloc(BYTES), *other = (float *)calloc(COUNT, sizeof(float));
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        sum += (which ? host : other)[i];
    }
    sink = sum;
    free(host), free(other);
}

// The buffer's address is read back from memory.
PROGRAM read_through_table(float *data, int rounds) {
    float **tables = (float **)malloc(2 * sizeof(float *));
    float *host = tables[0] = (float *)malloc(BYTES);
    tables[1] = host + 8;
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        sum += tables[i & 1][2];
    }
    sink = sum;
    free(host), free(tables);
}

PROGRAM sorted(float *data, int rounds) {
    std::vector<float> host(COUNT);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host.data(), data, BYTES, cudaMemcpyDeviceToHost);
        std::sort(host.begin(), host.end());
        sum += std::accumulate(host.begin(), host.end(), 0.0);
    }
    sink = sum;
}

// The callee copies into an array of variable length of its own and returns the sum.
static APART float sum_of(const float *device, int count) {
    float *values = (float *)alloca(count * sizeof(float));
    cudaMemcpy(values, device, count * sizeof(float), cudaMemcpyDeviceToHost);
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += values[i];
    return sum;
}

PROGRAM summed_in_callee(float *data, int rounds, int count) {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        sum += sum_of(data, count);
    }
    sink = sum;
}

// The callee looks into its own array at a place that it computes.
static APART float picked(const float *device, int where) {
    float values[64];
    cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost);
    return values[where & 63];
}

PROGRAM picked_in_callee(float *data, int rounds, int where) {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        sum += picked(data, where + 3 * i);
    }
    sink = sum;
}

// The callee's vector is the caller's to read.
static APART std::vector<float> fetched(const float *device, size_t count) {
    std::vector<float> values(count);
    cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
}

PROGRAM fetched_in_callee(float *data, int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        std::vector<float> values = fetched(data, 128);
        sum += values[i % 128];
    }
    sink = sum;
}

// The source of a copy to the device is read by the host.
PROGRAM sent_on(float *data, float *other, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        cudaMemcpy(other, host, BYTES, cudaMemcpyHostToDevice);
    }
    free(host);
}

PROGRAM read_after_synchronizing(float *data, int rounds, cudaStream_t stream) {
    float *host;
    cudaMallocHost(&host, BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, stream>>>(data, i, COUNT);
        cudaMemcpyAsync(host, data, BYTES, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        sum += host[5];
    }
    sink = sum;
    cudaFreeHost(host);
}

PROGRAM previous_row_read(float *data, int rounds) {
    float *host = (float *)calloc(rounds + 1, BYTES);
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host + COUNT * (i + 1), data, BYTES, cudaMemcpyDeviceToHost);
        sum += host[COUNT * i];
    }
    sink = sum;
    free(host);
}

// The kind is a variable: it may be a copy to the host, and then it is read.
PROGRAM variable_kind(float *data, float *host, cudaMemcpyKind kind, int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        cudaMemcpy(host, data, BYTES, kind);
        sum += host[i];
    }
    sink = sum;
}

PROGRAM by_address(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        cudaMemcpy(host, data, BYTES, cudaMemcpyDefault);
        sum += host[i];
    }
    sink = sum;
    free(host);
}

// ---- must not be deferred: written, freed, or gone before the loop comes back -------------------------------------------

// Done later, the copy would overwrite what the host wrote after it.
PROGRAM overwritten(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        host[i] = -1;
    }
    sink = host[0];
    free(host);
}

PROGRAM cleared(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        memset(host, 0, BYTES);
    }
    sink = host[0];
    free(host);
}

PROGRAM freed(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *host = (float *)malloc(BYTES);
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        free(host);
    }
}

PROGRAM freed_by_vector(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        std::vector<float> host(COUNT);
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host.data(), data, BYTES, cudaMemcpyDeviceToHost);
    }
}

// The callee's frame is gone when the copy would be done, and belongs to another callee.
static APART void copy_and_forget(const float *device) {
    float values[64];
    cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost);
}

static APART double work_on_the_stack(int seed) {
    volatile double values[64];
    for (int i = 0; i < 64; ++i) values[i] = seed + i;
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += values[i];
    return sum;
}

PROGRAM forgotten_in_callee(float *data, int rounds) {
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        copy_and_forget(data);
        sum += work_on_the_stack(i);
    }
    sink = sum;
}

// Two variables of inner scopes share their place in the frame.
PROGRAM shared_place(float *data, int rounds) {
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        {
            float values[64];
            cudaMemcpy(values, data, sizeof values, cudaMemcpyDeviceToHost);
        }
        {
            volatile float values[64];
            for (int j = 0; j < 64; ++j) values[j] = j;
            for (int j = 0; j < 64; ++j) sum += values[j];
        }
        touch<<<4, 256>>>(data, i, COUNT);
    }
    sink = sum;
}

// Left in the middle: the last copy is read although the loop would have gone on.
PROGRAM left_and_read(float *data, const int *stop, int rounds) {
    float value = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
        if (stop[i]) break;
    }
    sink = value;
}

PROGRAM unknown_count(float *data) {
    float *host = (float *)malloc(BYTES);
    while (rand() % 5) {
        touch<<<4, 256>>>(data, 1, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    }
    sink = host[0];
    free(host);
}

// ---- must not be deferred for other reasons -------------------------------------------------------------------------

PROGRAM counted_copy(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    int bad = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        bad += cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess;
    }
    sink = host[0] + bad;
    free(host);
}

// One call of cudaMemcpy serves two loops; one of them reads.
static APART void download_for_both(float *host, const float *device) {
    cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost);
}

PROGRAM shared_copy_unread(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download_for_both(host, data);
    }
    free(host);
}

PROGRAM shared_copy_read(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        download_for_both(host, data);
        sum += host[i];
    }
    sink = sum;
    free(host);
}

// One call of cudaDeviceSynchronize serves two loops; one of them looks at the code.
static APART cudaError_t finish(float *data) {
    touch<<<1, 32>>>(data, 1, 32);
    return cudaDeviceSynchronize();
}

PROGRAM shared_finish_dropped(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) finish(data);
}

PROGRAM shared_finish_counted(float *data, int rounds) {
    int bad = 0;
    for (int i = 0; i < rounds; ++i) bad += finish(data) != cudaSuccess;
    sink = bad;
}

// The loop ends at an address in the file, which is loaded elsewhere.
static float sheets[24][256];

PROGRAM unread_over_sheets(float *data) {
    float *host = (float *)malloc(1024);
    for (float(*sheet)[256] = sheets; sheet != sheets + 24; ++sheet) {
        cudaMemcpyAsync(data, sheet, 1024, cudaMemcpyHostToDevice, nullptr);
        touch<<<1, 256>>>(data, 1, 256);
        cudaMemcpy(host, data, 1024, cudaMemcpyDeviceToHost);
    }
    sink = host[0];
    free(host);
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *data = arena.a;
    std::vector<float> host(COUNT);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    FILE *file = tmpfile();
    int stop[64] = {};
    stop[rounds / 2 & 63] = 1;
    unread_over_sheets(data);
    read_afterwards(data, rounds), never_read(data, rounds), scalar_read_afterwards(data, rounds);
    rows_read_afterwards(data, rounds), synchronized_unread(data, rounds, stream), pinned_unread(data, rounds, stream);
    other_buffer_read(data, rounds), symbol_unread(rounds), read_at_once(data, rounds), read_next_time(data, rounds);
    read_sometimes(data, rounds), copied_sometimes(data, rounds), printed(data, rounds);
    printed_as_text((char *)arena.b, rounds), written_out(data, rounds, file), system_call(data, rounds, fileno(file));
    compared(data, host.data(), rounds), copied_on(data, host.data(), rounds), given_away(data, rounds);
    reachable(data, rounds), aliased(data, host.data(), host.data(), rounds), aliased_in_callee(data, rounds);
    read_by_pointer(data, rounds), read_by_either(data, rounds, true), read_through_table(data, rounds);
    sorted(data, rounds), summed_in_callee(data, rounds, 128), picked_in_callee(data, rounds, 5);
    fetched_in_callee(data, rounds), sent_on(data, arena.b, rounds), read_after_synchronizing(data, rounds, stream);
    previous_row_read(data, rounds), variable_kind(data, host.data(), cudaMemcpyDeviceToHost, rounds);
    by_address(data, rounds), overwritten(data, rounds), cleared(data, rounds), freed(data, rounds);
    freed_by_vector(data, rounds), forgotten_in_callee(data, rounds), shared_place(data, rounds);
    left_and_read(data, stop, rounds), checked_copy(data, rounds), copied_in_callee(data, rounds), settled_by_call(data);
    read_by_outer_loop(data, rounds), unknown_count(data), counted_copy(data, rounds), shared_copy_unread(data, rounds);
    copied_in_callee_and_read(data, rounds), copied_in_callee_and_read_next_time(data, rounds);
    copied_in_callee_twice(data, rounds), copied_in_callee_and_freed(data, rounds);
    copied_in_callee_by_address(data, rounds), copied_two_calls_deep(data, rounds), kept_in_callee(data, rounds);
    copied_sometimes_in_callee(data, rounds), previous_read_in_callee(data, rounds);
    shared_copy_read(data, rounds), shared_finish_dropped(data, rounds), shared_finish_counted(data, rounds);
    fclose(file);
    printf("%g\n", double(sink));
    return cudaDeviceSynchronize() != cudaSuccess;
}
