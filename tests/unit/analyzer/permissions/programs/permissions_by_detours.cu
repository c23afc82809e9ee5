// As permissions.cu, in a program that handles signals: codes that are used in less obvious ways, and buffers that are reached by detours.
#include <cuda_runtime.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define PROGRAM extern "C" __attribute__((noinline, noipa)) void
#define APART __attribute__((noinline, noclone))
#define COPY(host) cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost)
#define STEP touch<<<4, 256>>>(data, i, COUNT)

constexpr int COUNT = 1024;
constexpr size_t BYTES = COUNT * sizeof(float);
volatile double sink;

static __global__ void touch(float *data, int offset, int count) {
    if (threadIdx.x < count) data[threadIdx.x] += offset;
}

// The code is kept, perhaps in a register that functions may change and this one leaves alone.
static int counter;

static APART void leaf() { counter++; }

PROGRAM wait_code_over_leaf(float *data, int rounds) {
    int bad = 0;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaError_t c = cudaDeviceSynchronize();
        leaf();
        bad += c;
    }
    sink = bad;
}

struct R { cudaError_t code; int line; };

static APART R wrapped(int line) { R r; r.code = cudaDeviceSynchronize(); r.line = line; return r; }

PROGRAM wait_in_struct(float *data, int rounds) {
    int bad = 0;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        bad += wrapped(i).code;
    }
    sink = bad;
}

PROGRAM wait_select(float *data, int rounds) {
    int v = 0;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        v = cudaDeviceSynchronize() ? v * 2 + 1 : v + 3;
    }
    sink = v;
}

// Between the comparison and its branch stands an instruction that leaves the flags alone, whose name begins as that of one that does not.
static int failures;

PROGRAM wait_behind_vectors(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        asm volatile("test %1, %1\n\torps %%xmm0, %%xmm0\n\tje 1f\n\tincl %0\n1:"
                     : "+m"(failures) : "r"(cudaDeviceSynchronize()) : "xmm0", "cc");
    }
    sink = failures;
}

PROGRAM wait_bool(float *data, int rounds, bool *out) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        out[i] = cudaDeviceSynchronize() == cudaSuccess;
    }
}

PROGRAM wait_last(float *data, int rounds) {
    cudaError_t last = cudaSuccess;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        last = cudaDeviceSynchronize();
    }
    if (last != cudaSuccess) printf("failed\n");
}

PROGRAM wait_switch(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        switch (cudaDeviceSynchronize()) { case cudaSuccess: break; case cudaErrorMemoryAllocation: puts("mem"); break; default: exit(1); }
    }
}

static APART cudaError_t pass(cudaError_t c) { if (c != cudaSuccess) puts("bad"); return c; }

PROGRAM wait_passed(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        if (pass(cudaDeviceSynchronize()) != cudaSuccess) sink = 1;
    }
}

PROGRAM wait_retry(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        STEP;
        while (cudaDeviceSynchronize() != cudaSuccess) puts("again");
    }
}
static volatile sig_atomic_t stop;
static float *handler_sees;

PROGRAM keep_signal(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    handler_sees = host;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
    }
    sink = host[0];
    free(host);
}

// Somebody else may end the loop at any time.

PROGRAM keep_flag(float *data) {
    float *host = (float *)malloc(BYTES);
    int i = 0;
    while (!stop) {
        STEP;
        COPY(host);
    }
    sink = host[0];
    free(host);
}

PROGRAM keep_diff(float *data, int rounds) {
    float *a = (float *)malloc(BYTES), *b = (float *)calloc(1, BYTES);
    long d = b - a;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(b);
        sink = a[i + d];
    }
    free(a);
    free(b);
}

struct Node { Node *next; float values[64]; };

PROGRAM keep_list(float *data, int rounds) {
    Node *head = nullptr;
    for (int i = 0; i < rounds; ++i) {
        Node *n = (Node *)malloc(sizeof(Node));
        n->next = head;
        head = n;
        STEP;
        cudaMemcpy(n->values, data, 256, cudaMemcpyDeviceToHost);
        if (n->next) sink = n->next->values[3];
    }
    while (head) { Node *n = head->next; free(head); head = n; }
}
// An element is written when it is made: all elements are one object to the analysis.

PROGRAM keep_growing_list(float *data, int rounds) {
    Node *head = nullptr;
    for (int i = 0; i < rounds; ++i) {
        Node *n = (Node *)malloc(sizeof(Node));
        n->next = head;
        head = n;
        STEP;
        cudaMemcpy(n->values, data, 256, cudaMemcpyDeviceToHost);
    }
    while (head) { Node *n = head->next; sink = head->values[1]; free(head); head = n; }
}

static APART float look(float *const *p) { return (*p)[2]; }

PROGRAM keep_look(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = look(&host);
    }
    free(host);
}

static APART float *same(float *p) { return p + 1; }

PROGRAM keep_same(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    float *q = same(host);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        sink = q[i];
    }
    free(host);
}

PROGRAM keep_simd(float *data, int rounds) {
    float host[64], copy[64];
    memset(copy, 0, sizeof copy);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(host, data, 256, cudaMemcpyDeviceToHost);
        memcpy(copy, host, 256);
    }
    sink = copy[rounds & 63];
}

PROGRAM keep_bitfield(float *data, int rounds) {
    struct { float v[4];
    unsigned a : 3, b : 5;
    } s;
    s.a = 1;
    s.b = 0;
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(&s, data, sizeof s, cudaMemcpyDeviceToHost);
        s.b++;
    }
    sink = s.b + s.v[1];
}

PROGRAM keep_vla(float *data, int rounds) {
    float host[rounds + 1];
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy(host, data, 4, cudaMemcpyDeviceToHost);
        sink = host[0];
    }
}

PROGRAM keep_sprintf(char *data, int rounds) {
    char name[32], text[64];
    strcpy(name, "abc");
    for (int i = 0; i < rounds; ++i) {
        cudaMemcpy(name, data, 8, cudaMemcpyDeviceToHost);
        snprintf(text, 64, "%s", name);
        puts(text);
    }
}

PROGRAM keep_2d(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy2D(host, 64, data, 64, 64, 4, cudaMemcpyDeviceToHost);
        sink = host[i];
    }
    free(host);
}

PROGRAM defer_2d(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        cudaMemcpy2D(host, 64, data, 64, 64, 4, cudaMemcpyDeviceToHost);
    }
    sink = host[3];
    free(host);
}

static APART void give(float *p) { handler_sees = p; }

PROGRAM keep_given_in_loop(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        give(host);
    }
    sink = host[0];
    free(host);
}

PROGRAM keep_inner_exit(float *data, int rounds) {
    float *host = (float *)malloc(BYTES);
    for (int i = 0; i < rounds; ++i) {
        STEP;
        COPY(host);
        for (int j = 0; j < 100; ++j) if (rand() == j) goto out;
    }
out: sink = host[0]; free(host);
}

int main(int n, char **) {
    signal(SIGINT, [](int) {
        stop = 1;
        if (handler_sees) sink = handler_sees[0];
    });
    float *data;
    bool flags[64];
    cudaMalloc(&data, BYTES);
    wait_code_over_leaf(data, n);
    wait_in_struct(data, n);
    wait_select(data, n);
    wait_behind_vectors(data, n);
    wait_bool(data, n, flags);
    wait_last(data, n);
    wait_switch(data, n);
    wait_passed(data, n);
    wait_retry(data, n);
    keep_signal(data, n);
    keep_flag(data);
    keep_diff(data, n);
    keep_list(data, n);
    keep_growing_list(data, n);
    keep_look(data, n);
    keep_same(data, n);
    keep_simd(data, n);
    keep_bitfield(data, n);
    keep_vla(data, n);
    keep_sprintf((char *)data, n);
    keep_2d(data, n);
    defer_2d(data, n);
    keep_given_in_loop(data, n);
    keep_inner_exit(data, n);
}
