// Loops that decide by what they read, and have slices in every build. `PROGRAM` is one function; a call outside of the loop follows
// each loop, so that a record of the calls tells when it was left.
#include "common.cuh"

struct Pair { float first; int second; };
int shared_flag, shared_count = 3;
static double shared_error;
__device__ int on_device;

PROGRAM(flag_of_the_device) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1.5f, 2.0);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(flag_reset_by_the_host) {
    int flag;
    do {
        flag = 0;
        cudaMemcpy(f, &flag, sizeof flag, cudaMemcpyHostToDevice);
        step<<<n, 128>>>(x, f, 1.5f, 2.0);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(flag_as_byte) {
    bool more = true;
    while (more) {
        more = false;
        cudaMemcpy(f, &more, sizeof more, cudaMemcpyHostToDevice);
        step<<<n, 128>>>(x, f, 0.5f, 1.0);
        cudaMemcpy(&more, f, sizeof more, cudaMemcpyDeviceToHost);
        more = more && n;
    }
    LEFT;
}

PROGRAM(counted_too) {
    float error = 1e9f;
    int k = 0;
    while (error > 1e-3f && k < 20 * n) {
        step<<<1, 32>>>(x, f, error, k);
        cudaMemcpy(&error, x, sizeof error, cudaMemcpyDeviceToHost);
        ++k;
    }
    LEFT;
}

PROGRAM(conjugate_gradient) {
    double rr = 1, pap, beta, old;
    int k = 0;
    while (rr > 1e-10 && k < 100) {
        step<<<1, 128>>>(x, f, 0.f, rr);
        cudaMemcpy(&pap, d, sizeof pap, cudaMemcpyDeviceToHost);
        double alpha = rr / pap;
        step<<<1, 128>>>(y, f, (float)alpha, alpha);
        step<<<2, 128>>>(y, f, 1, -alpha);
        old = rr;
        cudaMemcpy(&rr, d + 1, sizeof rr, cudaMemcpyDeviceToHost);
        beta = rr / old;
        step<<<1, 64>>>(x, f, (float)beta, sqrt(rr));
        ++k;
    }
    LEFT;
}

PROGRAM(swapped_pointers) {
    float *from = x, *to = y, error;
    int k = 0;
    do {
        step<<<1, 128>>>(from, f, 0.f, k);
        step<<<1, 128>>>(to, f, 1.f, k);
        cudaMemcpy(&error, d, sizeof error, cudaMemcpyDeviceToHost);
        float *kept = from;
        from = to;
        to = kept;
    } while (error >= 0.5f && ++k < 50);
    LEFT;
}

PROGRAM(prints) {
    double error = 1;
    for (int k = 0; error > 1e-6 && k < 64; ++k) {
        step<<<1, 128>>>(x, f, k * 0.25f, error);
        cudaMemcpy(&error, d, sizeof error, cudaMemcpyDeviceToHost);
        if (k % 10 == 0) printf("%d: %g\n", k, error);
    }
    LEFT;
}

PROGRAM(checked) {
    int flag = 1;
    while (flag) {
        step<<<1, 32>>>(x, f, 1, 1);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&flag, f, 4, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
    }
    LEFT;
}

PROGRAM(frontier) {
    int size = 1, level = 0;
    while (size > 0) {
        step<<<(size + 127) / 128, 128>>>(x, f, level, size);
        cudaMemset(f, 0, sizeof(int));
        cudaMemcpy(&size, f, sizeof size, cudaMemcpyDeviceToHost);
        ++level;
    }
    LEFT;
}

PROGRAM(wraps) {
    unsigned value = 1;
    int sum = n;
    for (;;) {
        step<<<1, 32>>>(x, f, value, sum);
        cudaMemcpy(&value, f, sizeof value, cudaMemcpyDeviceToHost);
        value = value * 1103515245u + 12345u;
        sum = (int)((unsigned)sum + (value >> 3));
        if (value % 7 == 3 || sum == 17) break;
    }
    LEFT;
}

PROGRAM(not_a_number) {
    double a = 0, b = 0;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, a < b, a > b);
        step<<<1, 32>>>(x, f, a <= b, a == b);
        step<<<1, 32>>>(x, f, a != b, a >= b);
        step<<<1, 32>>>(x, f, (float)(a * b), a - b);
        cudaMemcpy(&a, d, sizeof a, cudaMemcpyDeviceToHost);
        cudaMemcpy(&b, d + 1, sizeof b, cudaMemcpyDeviceToHost);
    } while (!(a < b) && ++k < 90);
    LEFT;
}

PROGRAM(single_precision) {
    float a = 1, b = 2;
    int k = 0;
    do {
        step<<<1, 32>>>(x, f, a / b, fabsf(a));
        step<<<1, 32>>>(x, f, a + b, (double)a * b);
        step<<<1, 32>>>(x, f, a < b ? a : b, -b);
        step<<<1, 32>>>(x, f, sqrtf(b), (int)a);
        cudaMemcpy(&a, d, sizeof a, cudaMemcpyDeviceToHost);
        cudaMemcpy(&b, d + 1, sizeof b, cudaMemcpyDeviceToHost);
    } while (a != b && ++k < 60);
    LEFT;
}

PROGRAM(conversions) {
    double a = 1;
    long k = 0;
    while (++k < 60) {
        step<<<1, 32>>>(x, f, (float)a, (double)(long)a);
        step<<<1, 32>>>(x, f, (float)k, (double)(int)a);
        step<<<1, 32>>>(x, f, (float)(int)(float)a, (double)(k * 3));
        cudaMemcpy(&a, d, sizeof a, cudaMemcpyDeviceToHost);
        if (a == 1.0) break;
    }
    LEFT;
}

PROGRAM(bisection) {
    double low = 0, high = 64, value;
    while (high - low > 1e-3) {
        double middle = 0.5 * (low + high);
        step<<<1, 1>>>(x, f, 0, middle);
        cudaMemcpy(&value, d, sizeof value, cudaMemcpyDeviceToHost);
        if (value > 0)
            high = middle;
        else
            low = middle;
    }
    LEFT;
}

PROGRAM(annealing) {
    unsigned long seed = 88172645463325252ul + n;
    double energy = 100, temperature = 10, proposed;
    for (int k = 0; k < 80 && temperature > 1e-3; ++k) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        double random = (seed >> 11) * (1.0 / 9007199254740992.0);
        step<<<1, 1>>>(x, f, (float)random, temperature);
        cudaMemcpy(&proposed, d, sizeof proposed, cudaMemcpyDeviceToHost);
        if (proposed < energy + temperature * random) {
            energy = proposed;
            step<<<1, 1>>>(y, f, 1, energy);
        }
        temperature *= 0.97;
    }
    LEFT;
}

PROGRAM(in_a_union) {
    union { float number; unsigned bits; unsigned char bytes[4]; } held;
    held.bits = 1;
    while (held.bytes[0] & 3 || held.bytes[3] == 0x3f) {
        step<<<1, 32>>>(x, f, held.number, held.bits);
        cudaMemcpy(&held, f, sizeof held, cudaMemcpyDeviceToHost);
    }
    LEFT;
}

PROGRAM(partial_read) {
    long value = 0x1100000000;
    do {
        step<<<1, 32>>>(x, f, 0, value);
        cudaMemcpy((char *)&value + 2, f, 2, cudaMemcpyDeviceToHost);
    } while ((value >> 16 & 3) != 0);
    LEFT;
}

PROGRAM(several_in_a_structure) {
    Pair pair = {1, 1};
    do {
        step<<<1, 32>>>(x, f, pair.first, pair.second);
        cudaMemcpy(&pair, f, sizeof pair, cudaMemcpyDeviceToHost);
    } while (pair.first > 0 && pair.second != 0);
    LEFT;
}

PROGRAM(global_variables) {
    shared_flag = 1;
    while (shared_flag && shared_count < 500) {
        step<<<1, 32>>>(x, f, shared_count, shared_error);
        cudaMemcpy(&shared_flag, f, sizeof shared_flag, cudaMemcpyDeviceToHost);
        cudaMemcpy(&shared_error, d, sizeof shared_error, cudaMemcpyDeviceToHost);
        shared_count += shared_flag & 3;
    }
    LEFT;
}

PROGRAM(from_a_symbol) {
    int flag;
    do {
        flag = 0;
        cudaMemcpyToSymbol(on_device, &flag, sizeof flag);
        step<<<1, 32>>>(x, f, 0, 0);
        cudaMemcpyFromSymbol(&flag, on_device, sizeof flag);
    } while (flag > 0);
    LEFT;
}

PROGRAM(early_return) {
    int flag, k = 0;
    for (;;) {
        step<<<1, 32>>>(x, f, k, 0);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
        if (flag == 0) return;
        if (flag < 0) break;
        if (++k == 40) return;
        step<<<2, 32>>>(y, f, k, 0);
    }
    LEFT;
}

PROGRAM(other_ways) {
    int kind = 0, k = 0;
    while (k < 60) {
        if (kind & 1)
            step<<<1, 32>>>(x, f, 1, k);
        else if (kind > 5)
            step<<<2, 64>>>(y, f, 2, k);
        cudaMemcpy(&kind, f, sizeof kind, cudaMemcpyDeviceToHost);
        if (kind == 1000) continue;
        k += kind > 50 ? 3 : 1;
    }
    LEFT;
}

PROGRAM(divided) {
    int value = 5, k = 0;
    while (k++ < 60) {
        step<<<1, 32>>>(x, f, value / 3, value % 10);
        step<<<1, 32>>>(x, f, (unsigned)value / 7u, k * 1000 / (n + 1));
        cudaMemcpy(&value, f, sizeof value, cudaMemcpyDeviceToHost);
        if (value % 5 == 4) break;
    }
    LEFT;
}

PROGRAM(asynchronous) {
    int flag;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    do {
        step<<<1, 32, 0, stream>>>(x, f, 1, 2);
        cudaMemcpyAsync(&flag, f, sizeof flag, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
    } while (flag);
    LEFT;
}

struct Buffers {
    float *a, *b;
    int *flags, flag = 1;
    double right[64];

    Buffers() {
        for (int i = 0; i < 64; ++i) right[i] = 0.5 * i;
        for (float **each : {&a, &b}) CHECK(cudaMalloc(each, 4096));
        CHECK(cudaMalloc(&flags, 64));
        CHECK(cudaMemcpy(a, right, sizeof right, cudaMemcpyHostToDevice));
    }
};

PROGRAM(fields_by_a_list) {
    Buffers held;
    double last = 1;
    int k = 0;
    do {
        step<<<1, 32>>>(held.a, held.flags, k, last);
        CHECK(cudaMemcpy(&held.flag, held.flags, sizeof held.flag, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&last, held.b, sizeof last, cudaMemcpyDeviceToHost));
    } while (held.flag && ++k < 40);
    LEFT;
}

PROGRAM(looks_at_every_third) {
    double last = 1;
    int k = 0;
    while (last > 1e-6 && k < 60) {
        for (int inner = 0; inner < 3; ++inner, ++k) {
            step<<<1, 32>>>(x, f, k, inner);
            cudaMemset(f, 0, 4);
        }
        cudaMemcpy(&last, d, sizeof last, cudaMemcpyDeviceToHost);
    }
    LEFT;
}

PROGRAM(address_for_a_kernel) {
    int flag, k = 0;
    do {
        hold<<<1, 1>>>(&flag, f);
        step<<<1, 32>>>(x, f, k, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag && ++k < 40);
    LEFT;
}

int main() {
    float *x, *y;
    int *f;
    double *d;
    cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);
#define RUN(name) name(x, y, f, d, 3), LEFT;
    RUN(flag_of_the_device) RUN(flag_reset_by_the_host) RUN(flag_as_byte) RUN(counted_too) RUN(conjugate_gradient) RUN(swapped_pointers)
    RUN(prints) RUN(checked) RUN(frontier) RUN(wraps) RUN(not_a_number) RUN(single_precision) RUN(conversions) RUN(bisection) RUN(annealing)
    RUN(in_a_union) RUN(partial_read) RUN(several_in_a_structure) RUN(global_variables) RUN(from_a_symbol) RUN(early_return) RUN(other_ways)
    RUN(divided) RUN(asynchronous) RUN(fields_by_a_list) RUN(looks_at_every_third) RUN(address_for_a_kernel)
}
