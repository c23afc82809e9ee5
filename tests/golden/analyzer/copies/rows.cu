// Copies to the host in a row. The mark behind each call says what is true of it in every build: `joins`, it waits with the
// next call that waits; `waits`, it must not; `either`, it may join, but need not be found.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define FUNCTION(name) __attribute__((noinline, noipa)) static void name(float *x, float *y, float *to, float *other, int n)
#define CHECK(call)                                             \
    do {                                                        \
        cudaError_t code_ = (call);                             \
        if (code_ != cudaSuccess) {                             \
            fprintf(stderr, "%s\n", cudaGetErrorString(code_)); \
            exit(1);                                            \
        }                                                       \
    } while (0)
#define DOWN cudaMemcpyDeviceToHost

float first_global[64], second_global[64], *pointed;
static volatile int ready;

__global__ void work(float *x, float by) { x[threadIdx.x] += by; }

__attribute__((noinline, noipa)) static void show(const float *values) { printf("%g\n", values[1]); }

FUNCTION(frame) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, sizeof a, DOWN));  // joins
    CHECK(cudaMemcpy(b, y, sizeof b, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(heap) {
    float *a = (float *)malloc(256), *b = (float *)malloc(256);
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // joins
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(a), show(b);
    free(a), free(b);
}

FUNCTION(scalars_unchecked) {
    float a, b, c;
    cudaMemcpy(&a, x, 4, DOWN);  // joins
    cudaMemcpy(&b, x + 1, 4, DOWN);  // joins
    cudaMemcpy(&c, x + 2, 4, DOWN);  // waits
    printf("%g\n", a + b + c);
}

FUNCTION(by_parameters) {
    cudaMemcpy(to, x, 256, DOWN);  // joins
    cudaMemcpy(other, y, 256, DOWN);  // waits
    show(to), show(other);
}

FUNCTION(to_globals) {
    cudaMemcpy(first_global, x, 256, DOWN);  // joins
    cudaMemcpy(second_global, y, 256, DOWN);  // waits
    show(first_global), show(second_global);
}

FUNCTION(then_a_synchronization) {
    float a[64], b[64];
    CHECK(cudaMemcpyAsync(a, x, 256, DOWN));  // joins
    CHECK(cudaMemcpyAsync(b, y, 256, DOWN));  // joins
    CHECK(cudaDeviceSynchronize());
    show(a), show(b);
}

FUNCTION(with_work_between) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // joins
    work<<<1, 64>>>(x, 2);
    CHECK(cudaGetLastError());
    CHECK(cudaMemset(y, 0, 256));
    CHECK(cudaMemcpy(b, x, 256, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(in_a_loop) {
    float a[64], b[64], sum = 0;
    for (int i = 0; i < n; ++i) {
        work<<<1, 64>>>(x, i);
        CHECK(cudaMemcpy(a, x, 256, DOWN));  // joins
        CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
        sum += a[i] * b[i];
    }
    printf("%g\n", sum);
}

FUNCTION(on_both_ways) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // joins
    if (n > 4) CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    else CHECK(cudaMemcpy(b, y + 1, 128, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(output_between_own) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // either
    printf("between\n");
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(output_between_shared) {
    CHECK(cudaMemcpy(to, x, 256, DOWN));  // waits
    printf("between\n");
    CHECK(cudaMemcpy(other, y, 256, DOWN));  // waits
    show(to), show(other);
}

FUNCTION(read_between) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // waits
    int bytes = a[2] > 3 ? 256 : 128;
    CHECK(cudaMemcpy(b, y, bytes, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(written_between) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // waits
    a[5] = n;
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(compared_between) {
    float a[64] = {}, b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // waits
    if (memcmp(a, first_global, 256) == 0) printf("equal\n");
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(seen_by_a_function) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // waits
    show(a);
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(b);
}

FUNCTION(seen_on_one_way) {
    float a[64], b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // waits
    if (n == 7) show(a);
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(a), show(b);
}

FUNCTION(through_another_pointer) {
    CHECK(cudaMemcpy(pointed, x, 256, DOWN));  // waits
    first_global[3] = pointed[1];
    CHECK(cudaMemcpy(to, y, 256, DOWN));  // waits
    show(first_global);
}

FUNCTION(freed_between) {
    float *a = (float *)malloc(256), b[64];
    CHECK(cudaMemcpy(a, x, 256, DOWN));  // waits
    free(a);
    CHECK(cudaMemcpy(b, y, 256, DOWN));  // waits
    show(b);
}

FUNCTION(returned_between) {
    CHECK(cudaMemcpy(to, x, 256, DOWN));  // waits
    if (n > 3) return;
    CHECK(cudaMemcpy(other, y, 256, DOWN));  // waits
    show(other);
}

FUNCTION(flag_for_others) {
    CHECK(cudaMemcpy(to, x, 256, DOWN));  // waits
    ready = 1;
    CHECK(cudaMemcpy(other, y, 256, DOWN));  // waits
    show(to), show(other);
}

FUNCTION(code_used) {
    float a[64], b[64];
    int failures = cudaMemcpy(a, x, 256, DOWN) != cudaSuccess;  // waits
    failures += cudaMemcpy(b, y, 256, DOWN) != cudaSuccess;  // waits
    printf("%d\n", failures);
    show(a), show(b);
}

FUNCTION(spun_between) {
    CHECK(cudaMemcpy(to, x, 256, DOWN));  // waits
    while (!ready) {
    }
    CHECK(cudaMemcpy(other, y, 256, DOWN));  // waits
    show(to), show(other);
}

int main() {
    float *x, *y, to[64], other[64];
    CHECK(cudaMalloc(&x, 1024));
    CHECK(cudaMalloc(&y, 1024));
    ready = 1, pointed = to;
    void (*all[])(float *, float *, float *, float *, int) = {
        frame, heap, scalars_unchecked, by_parameters, to_globals, then_a_synchronization, with_work_between, in_a_loop, on_both_ways,
        output_between_own, output_between_shared, read_between, written_between, compared_between, seen_by_a_function, seen_on_one_way,
        through_another_pointer, freed_between, returned_between, flag_for_others, code_used, spun_between};
    for (auto each : all) each(x, y, to, other, 5);
}
