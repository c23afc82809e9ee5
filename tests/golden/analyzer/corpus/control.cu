// Control flow that is hard to follow: jump tables, goto, several entries, longjmp, threads, clocks.
#include "common.cuh"

#include <setjmp.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

PROGRAM jump_table(float *data, int rounds, int which) {
    for (int i = 0; i < rounds; ++i) {
        switch (which) {
            case 0: touch<<<4, 256>>>(data, 10, COUNT); break;
            case 1: cudaMemset(data, 0, BYTES); break;
            case 2: touch<<<4, 128>>>(data, 12, COUNT); break;
            case 3: scale<<<4, 256>>>(data, 0.5f, COUNT); break;
            case 4: touch<<<2, 256>>>(data, 14, COUNT); break;
            case 5: touch<<<1, 256>>>(data, 15, COUNT); break;
            case 6: cudaMemset(data, 1, BYTES); break;
            default: touch<<<4, 64>>>(data, 17, COUNT);
        }
        cudaMemset(data, 3, 32);
    }
}

PROGRAM jump_table_by_round(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        switch (i % 7) {
            case 0: touch<<<4, 256>>>(data, 10, COUNT); break;
            case 1: cudaMemset(data, 0, BYTES); break;
            case 2: touch<<<4, 128>>>(data, 12, COUNT); break;
            case 3: scale<<<4, 256>>>(data, 0.5f, COUNT); break;
            case 4: touch<<<2, 256>>>(data, 14, COUNT); break;
            case 5: touch<<<1, 256>>>(data, 15, COUNT); break;
            default: cudaMemset(data, 1, BYTES);
        }
    }
}

// A loop with two entries.
PROGRAM two_entries(float *data, int rounds, bool inside) {
    volatile int i = 0;
    if (inside) goto middle;
again:
    touch<<<4, 256>>>(data, 1, COUNT);
middle:
    cudaMemset(data, 0, BYTES);
    i = i + 1;
    if (i < rounds) goto again;
}

// The same, but what is left out at the one entry is the test alone.
PROGRAM entered_behind_the_test(float *data, int rounds, bool known) {
    volatile int i = 0;
    if (known) goto middle;
again:
    if (i >= rounds) return;
middle:
    touch<<<4, 256>>>(data, 1, COUNT);
    cudaMemset(data, 0, BYTES);
    i = i + 1;
    goto again;
}

// What a device answers never changes: a table that is asked for, element by element.
PROGRAM by_attribute(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int answer = 0;
        cudaDeviceGetAttribute(&answer, cudaDeviceAttr(cudaDevAttrMaxThreadsPerBlock + i), 0);
        if (answer > 512) cudaMemset(data, 0, BYTES);
    }
}

static jmp_buf back;

static APART void leave_at(int i, int limit) {
    if (i == limit) longjmp(back, 1);
}

PROGRAM left_by_longjmp(float *data, int rounds, int limit) {
    if (setjmp(back)) return;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        leave_at(i, limit);
    }
}

// What was copied last is read after the jump.
PROGRAM longjmp_then_read(float *data, int rounds, int limit) {
    float *host = (float *)malloc(BYTES);
    if (!setjmp(back)) {
        for (int i = 0; i < rounds; ++i) {
            touch<<<4, 256>>>(data, i, COUNT);
            cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
            leave_at(i, limit);
        }
    }
    sink = host[0];
    free(host);
}

// Another thread reads the destination all the while.
PROGRAM watched(float *data, int rounds) {
    float *host = (float *)calloc(COUNT, sizeof(float));
    std::atomic<bool> done{false};
    std::thread watcher([&] {
        while (!done) sink = *(volatile float *)host;
    });
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    }
    done = true;
    watcher.join();
    free(host);
}

PROGRAM timed(float *data, int rounds) {
    double total = 0;
    for (int i = 0; i < rounds; ++i) {
        auto start = std::chrono::steady_clock::now();
        touch<<<4, 256>>>(data, i, COUNT);
        cudaDeviceSynchronize();
        total += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    sink = total;
}

PROGRAM timed_by_time_of_day(float *data, int rounds) {
    double total = 0;
    for (int i = 0; i < rounds; ++i) {
        timeval start, end;
        gettimeofday(&start, nullptr);
        touch<<<4, 256>>>(data, 5, COUNT);
        cudaDeviceSynchronize();
        gettimeofday(&end, nullptr);
        total += end.tv_sec - start.tv_sec + 1e-6 * (end.tv_usec - start.tv_usec);
    }
    sink = total;
}

PROGRAM timed_by_events(float *data, int rounds, cudaEvent_t start, cudaEvent_t stop) {
    float total = 0;
    for (int i = 0; i < rounds; ++i) {
        float elapsed;
        cudaEventRecord(start, 0);
        touch<<<4, 256>>>(data, i, COUNT);
        cudaEventRecord(stop, 0);
        cudaEventSynchronize(stop);
        cudaEventElapsedTime(&elapsed, start, stop);
        total += elapsed;
    }
    sink = total;
}

PROGRAM until_time_is_up(float *data) {
    timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        touch<<<4, 256>>>(data, 1, COUNT);
        cudaDeviceSynchronize();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec == start.tv_sec && now.tv_nsec - start.tv_nsec < 2000000);
}

// When the loop ends is the clock's to say, and then the buffer is read.
PROGRAM copied_until_time_is_up(float *data) {
    float *host = (float *)malloc(BYTES);
    timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        touch<<<4, 256>>>(data, 1, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec == start.tv_sec && now.tv_nsec - start.tv_nsec < 2000000);
    sink = host[0];
    free(host);
}

// The bound is read anew from what the C library fills in.
PROGRAM copied_until_told(float *data, const char *limits) {
    float *host = (float *)malloc(BYTES);
    char *rest = const_cast<char *>(limits);
    do {
        touch<<<4, 256>>>(data, 1, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
    } while (strtol(rest, &rest, 10));
    sink = host[0];
    free(host);
}

PROGRAM spinning(float *data, cudaStream_t stream, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, stream>>>(data, i, COUNT);
        while (cudaStreamQuery(stream) == cudaErrorNotReady) continue;
    }
}

PROGRAM synchronized_streams(float *data, cudaStream_t first, cudaStream_t second, cudaEvent_t event, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, first>>>(data, i, COUNT);
        cudaStreamSynchronize(first);
        touch<<<4, 256, 0, second>>>(data, i, COUNT);
        cudaEventRecord(event, second);
        cudaEventSynchronize(event);
    }
}

// The test in the middle is the one at the end, which optimizers move there: no iteration makes all tests once.
PROGRAM by_turns(float *data, int rounds, int step) {
    unsigned turn = 1;
    for (int at = 0; at < rounds; ++turn) {
        if (turn & 1)
            touch<<<4, 256>>>(data, at, COUNT);
        else
            touch<<<2, 128>>>(data + 1, turn, at);
        at += step;
        if (at < rounds) cudaMemsetAsync(data, turn, 64, nullptr);
    }
}

// The inner loop is left in the middle, by its own variable.
PROGRAM merged_passes(float *data, unsigned length) {
    for (unsigned size = 16; size <= length; size <<= 1)
        for (unsigned stride = size / 2; stride > 0; stride >>= 1)
            if (stride >= 8) {
                touch<<<4, 256>>>(data, size, stride);
            } else {
                touch<<<1, 64>>>(data, size, COUNT);
                break;
            }
}

// As by_turns, but by what the device tells.
PROGRAM by_turns_on_data(float *data, int rounds, int step) {
    int found = 0;
    for (int at = 0, turn = 1; at < rounds; ++turn) {
        touch<<<4, 256>>>(data, at, COUNT);
        if (turn & 1) cudaMemcpy(&found, data, sizeof(int), cudaMemcpyDeviceToHost);
        at += step + (found & 1);
    }
}

// A mask leaves nothing to compare with.
static APART void by_mask(float *data, unsigned kind, int amount) {
    switch (kind & 7) {
        case 0: touch<<<1, 256>>>(data, amount, COUNT); break;
        case 1: shift<<<1, 256>>>(data + COUNT, data, COUNT); break;
        case 2: scale<<<2, 256>>>(data, 2, COUNT); break;
        case 3: touch<<<3, 256>>>(data, amount + 1, COUNT); break;
        case 4: cudaMemset(data, 0, 64); break;
        case 5: shift<<<2, 256>>>(data, data + COUNT, COUNT); break;
        case 6: scale<<<1, 256>>>(data, 3, COUNT); break;
        case 7: touch<<<1, 64>>>(data, amount + 2, COUNT); break;
    }
}

PROGRAM masked_switch(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) by_mask(data, i, i);
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *data = arena.a;
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    for (int i : {0, 1}) cudaStreamCreate(&streams[i]), cudaEventCreate(&events[i]);
    jump_table(data, rounds, 0), jump_table(data, rounds, 3), jump_table(data, rounds, 9);
    jump_table_by_round(data, 2 * rounds), two_entries(data, rounds, false), two_entries(data, rounds, true);
    entered_behind_the_test(data, rounds, false), entered_behind_the_test(data, rounds, true);
    left_by_longjmp(data, rounds, rounds / 2), longjmp_then_read(data, rounds, rounds / 2), watched(data, rounds);
    timed(data, rounds), timed_by_time_of_day(data, rounds), timed_by_events(data, rounds, events[0], events[1]);
    until_time_is_up(data), copied_until_time_is_up(data), copied_until_told(data, "5 4 3 0"), spinning(data, streams[0], rounds);
    synchronized_streams(data, streams[0], streams[1], events[0], rounds);
    by_turns(data, rounds, 2), merged_passes(data, 128), by_turns_on_data(data, rounds, 2);
    masked_switch(data, rounds + 3), by_attribute(data, rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
