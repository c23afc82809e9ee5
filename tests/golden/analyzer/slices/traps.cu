// Loops that read, and what stands in the way of a slice. Each is right to refuse; where a build has a slice all the same, it must be
// right. A call outside of the loop follows each loop.
#include <atomic>
#include <chrono>
#include <csetjmp>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <vector>
#include "common.cuh"

int *kept, given_away = 1, seen;
volatile int spun = 1;
std::atomic<int> counter;
static jmp_buf place;
double (*computed)(double) = cos;
#define BARRIER __asm__ volatile("" ::: "memory")
#define OPAQUE __attribute__((noinline, noipa))

OPAQUE void touch() { if (kept) *kept = 0; }
OPAQUE int thrown(int value) { if (value > 5) throw std::runtime_error("value"); return value; }
OPAQUE int itself(int value) { return value < 2 ? value : itself(value - 1) + itself(value - 2); }
struct Shape { virtual int area(int value) { return value; } virtual ~Shape() {} };
struct Square : Shape { int area(int value) override { return value * value; } };

PROGRAM(one_of_two) {
    int flag = 1, other = 1, k = 0;
    int *to = n > 2 ? &flag : &other;
    do {
        step<<<1, 32>>>(x, f, flag, other);
        cudaMemcpy(to, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag && ++k < 20);
    LEFT;
}

PROGRAM(escaped_address) {
    int flag;
    kept = &flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        touch();
    } while (flag);
    kept = nullptr;
    LEFT;
}

struct Kept {
    int *flags, *more, flag = 1;

    Kept() {
        for (int **each : {&flags, &more}) cudaMalloc(each, 64);
        kept = &flag;
    }
};

PROGRAM(fields_kept) {
    Kept held;
    do {
        step<<<1, 32>>>(x, held.flags, 1, 2);
        cudaMemcpy(&held.flag, held.more, sizeof held.flag, cudaMemcpyDeviceToHost);
        touch();
    } while (held.flag);
    kept = nullptr;
    LEFT;
}

PROGRAM(address_comes_back) {
    int flag, *back;
    do {
        hold<<<1, 1>>>(&flag, f);
        cudaMemcpy(&back, f, sizeof back, cudaMemcpyDeviceToHost);
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        if (n > 9) memset(back, 0, n);
    } while (flag);
    LEFT;
}

PROGRAM(address_comes_back_to_others) {
    int flag;
    hold<<<1, 1>>>(&flag, f);
    cudaMemcpy(&kept, f, sizeof kept, cudaMemcpyDeviceToHost);
    if (n < 9) kept = nullptr;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        touch();
    } while (flag);
    LEFT;
}

PROGRAM(written_through_a_pointer) {
    int k = 0;
    int *other = n > 2 ? &given_away : &seen;
    do {
        step<<<1, 32>>>(x, f, given_away, 2);
        cudaMemcpy(&given_away, f, sizeof given_away, cudaMemcpyDeviceToHost);
        *other = *other & 3;
    } while (given_away && ++k < 20);
    LEFT;
}

PROGRAM(changed_destination) {
    int flags[2] = {1, 1}, k = 0;
    do {
        step<<<1, 32>>>(x, f, flags[0], flags[1]);
        cudaMemcpy(&flags[k & 1], f, sizeof(int), cudaMemcpyDeviceToHost);
        ++k;
    } while (flags[0] && flags[1]);
    LEFT;
}

PROGRAM(time_limit) {
    int flag;
    clock_t start = clock();
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag && clock() - start < 1000000000);
    LEFT;
}

PROGRAM(time_printed) {
    int flag;
    do {
        auto start = std::chrono::steady_clock::now();
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        seen += std::chrono::steady_clock::now() < start;
    } while (flag);
    LEFT;
}

PROGRAM(random_numbers) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, (float)rand(), 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(random_numbers_unused) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        seen = rand();
    } while (flag);
    LEFT;
}

PROGRAM(inexact_function) {
    double value = 1;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, 1, exp(value));
        cudaMemcpy(&value, d, sizeof value, cudaMemcpyDeviceToHost);
    } while (value > 0 && ++k < 30);
    LEFT;
}

PROGRAM(computed_call) {
    double value = 1;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, 1, value);
        cudaMemcpy(&value, d, sizeof value, cudaMemcpyDeviceToHost);
        value = computed(value);
    } while (value > 0.5 && ++k < 30);
    LEFT;
}

PROGRAM(virtual_call) {
    Shape *shape = n > 2 ? new Square : new Shape;
    int flag = 1;
    while (shape->area(flag)) {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    }
    LEFT;
}

PROGRAM(volatile_local) {
    volatile int flag;
    do {
        step<<<1, 32>>>(x, f, 1, flag = 1);
        cudaMemcpy((void *)&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(spins) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        while (!spun) {}
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(jumps_back) {
    volatile int flag = 1;
    setjmp(place);
    while (flag) {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy((void *)&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        if (flag == 7) longjmp(place, 1);
    }
    LEFT;
}

PROGRAM(catches) {
    int flag = 1, caught = 0;
    while (flag && caught < 9) {
        step<<<1, 32>>>(x, f, caught, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        try {
            flag = thrown(flag);
        } catch (const std::runtime_error &) {
            ++caught;
        }
    }
    LEFT;
}

PROGRAM(throws_and_catches_here) {
    int flag = 1, caught = 0;
    while (flag && caught < 9) {
        step<<<1, 32>>>(x, f, caught, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        try {
            if (flag > 5) throw 1;
        } catch (int) {
            ++caught;
        }
    }
    LEFT;
}

PROGRAM(goto_into_the_loop) {
    int flag = 1, k = 0;
    if (n > 2) goto inside;
    while (flag && k < 20) {
        step<<<1, 32>>>(x, f, k, 2);
        BARRIER;
    inside:
        step<<<2, 32>>>(y, f, k, 3);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        ++k;
    }
    LEFT;
}

PROGRAM(sum_of_an_array) {
    float parts[8];
    double sum;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(parts, x, sizeof parts, cudaMemcpyDeviceToHost);
        sum = 0;
#pragma GCC novector
        for (int i = 0; i < n + 5; ++i) sum += parts[i];
    } while (sum > 0 && ++k < 30);
    LEFT;
}

PROGRAM(beyond_an_array) {
    struct { int parts[8]; int more[8]; } held;
    int kind = 0, k = 0;
    for (int i = 0; i < 8; ++i) held.more[i] = 100 + i * n;
    do {
        step<<<1, 32>>>(x, f, 1, held.parts[kind & 15]);
        cudaMemcpy(held.parts, x, sizeof held.parts, cudaMemcpyDeviceToHost);
        cudaMemcpy(&kind, f, sizeof kind, cudaMemcpyDeviceToHost);
    } while (held.parts[kind & 15] != 7 && ++k < 30);
    LEFT;
}

PROGRAM(through_a_chosen_pointer) {
    int one[4] = {1, 2, 3, 4}, other[4] = {5, 6, 7, 8}, kind = n, k = 0;
    do {
        step<<<1, 32>>>(x, f, one[k & 3], other[k & 3]);
        cudaMemcpy(&kind, f, sizeof kind, cudaMemcpyDeviceToHost);
        cudaMemcpy(f, one, sizeof one, cudaMemcpyHostToDevice);
        cudaMemcpy(f, other, sizeof other, cudaMemcpyHostToDevice);
        int *chosen = kind & 1 ? one : other;
        chosen[kind >> 1 & 3] += k;
    } while (kind != 7 && ++k < 30);
    LEFT;
}

PROGRAM(on_the_heap) {
    int *flag = (int *)malloc(sizeof(int)), k = 0;
    do {
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(flag, f, sizeof *flag, cudaMemcpyDeviceToHost);
    } while (*flag && ++k < 30);
    free(flag);
    LEFT;
}

OPAQUE static void until(float *x, int *f, int *flag) {
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(flag, f, sizeof *flag, cudaMemcpyDeviceToHost);
    } while (*flag);
    LEFT;
}
PROGRAM(given) { int flag; until(x, f, &flag); }

PROGRAM(in_a_vector) {
    std::vector<int> flags(4);
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(flags.data(), f, 16, cudaMemcpyDeviceToHost);
    } while (flags[1]);
    LEFT;
}

PROGRAM(jump_table) {
    int kind = 0, k = 0;
    while (k < 30) {
        switch (kind) {
        case 0: step<<<1, 32>>>(x, f, 0, 2); break;
        case 1: step<<<2, 32>>>(y, f, 1, 3); break;
        case 2: step<<<3, 32>>>(x, f, 2, 4); break;
        case 3: step<<<4, 32>>>(y, f, 3, 5); break;
        case 4: step<<<5, 32>>>(x, f, 4, 6); break;
        case 5: step<<<6, 32>>>(y, f, 5, 7); break;
        default: k += 2;
        }
        cudaMemcpy(&kind, f, sizeof kind, cudaMemcpyDeviceToHost);
        ++k;
    }
    LEFT;
}

PROGRAM(asks_the_user) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag && getchar() != 'q');
    LEFT;
}

PROGRAM(atomic_counter) {
    int flag, k;
    do {
        k = counter.fetch_add(1);
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(long_doubles) {
    double value = 1;
    long double sum = 0;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, 1, (double)sum);
        cudaMemcpy(&value, d, sizeof value, cudaMemcpyDeviceToHost);
        sum += value;
    } while (value > 0 && ++k < 30);
    LEFT;
}

PROGRAM(recursive) {
    int flag = 1;
    do {
        step<<<1, 32>>>(x, f, itself(flag & 7), 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(allocates) {
    int flag;
    float *temporary;
    do {
        cudaMalloc(&temporary, 4096);
        step<<<1, 32>>>(temporary, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        cudaFree(temporary);
    } while (flag);
    LEFT;
}

PROGRAM(elapsed) {
    float elapsed = 0;
    int flag, k = 0;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        cudaEventElapsedTime(&elapsed, nullptr, nullptr);
    } while (flag && elapsed > 0 && ++k < 30);
    LEFT;
}

PROGRAM(source_on_the_heap) {
    int flag;
    float *values = (float *)malloc(64);
    do {
        values[0] = 1;
        cudaMemcpy(x, values, 64, cudaMemcpyHostToDevice);
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(formatted) {
    char text[16];
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        snprintf(text, sizeof text, "%d", flag);
    } while (text[0] != '0');
    LEFT;
}

PROGRAM(divides_by_zero) {
    int value = 5, k = 0;
    do {
        step<<<1, 32>>>(x, f, k, value ? 100 / value : 7);
        cudaMemcpy(&value, f, sizeof value, cudaMemcpyDeviceToHost);
    } while (value != 1 && ++k < 30);
    LEFT;
}

PROGRAM(inner_loop_reads) {
    int flag = 1, outer = 0;
    while (outer < 5) {
        do {
            step<<<1, 32>>>(x, f, outer, flag);
            cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        } while (flag);
        ++outer;
        step<<<2, 32>>>(y, f, outer, flag);
    }
    LEFT;
}

PROGRAM(inner_loop_may_be_empty) {
    double last = 1;
    int k = 0;
    while (last > 1e-6 && k < 60) {
        for (int inner = 0; inner < n; ++inner) step<<<1, 32>>>(x, f, k, inner);
        cudaMemcpy(&last, d, sizeof last, cudaMemcpyDeviceToHost);
        ++k;
    }
    LEFT;
}

PROGRAM(output_to_a_stream) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        fprintf(stderr, "%d\n", flag);
        puts("again");
    } while (flag);
    LEFT;
}

int main() {
    float *x, *y;
    int *f;
    double *d;
    cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);
#define RUN(name) name(x, y, f, d, 3), LEFT;
    RUN(one_of_two) RUN(escaped_address) RUN(fields_kept) RUN(address_comes_back) RUN(address_comes_back_to_others)
    RUN(written_through_a_pointer) RUN(changed_destination) RUN(time_limit) RUN(time_printed)
    RUN(random_numbers) RUN(random_numbers_unused) RUN(inexact_function) RUN(computed_call) RUN(virtual_call) RUN(volatile_local)
    RUN(spins) RUN(jumps_back) RUN(catches) RUN(throws_and_catches_here) RUN(goto_into_the_loop) RUN(sum_of_an_array) RUN(beyond_an_array)
    RUN(through_a_chosen_pointer) RUN(on_the_heap)
    RUN(given) RUN(in_a_vector) RUN(jump_table) RUN(asks_the_user) RUN(atomic_counter) RUN(long_doubles) RUN(recursive) RUN(allocates)
    RUN(elapsed) RUN(source_on_the_heap) RUN(formatted) RUN(divides_by_zero) RUN(inner_loop_reads) RUN(inner_loop_may_be_empty) RUN(output_to_a_stream)
}
