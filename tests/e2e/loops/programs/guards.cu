// Copies to the host in a loop whose destinations nobody proves unread, one scenario a run: who touches them first, and how. The program's output
// is the same whether they wait or not; the counts are test_guards.py's.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ctime>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void put(int *to, int value, int count) {
    for (int i = 0; i < count; ++i)
        to[i] = value * 1000 + i;
}

// Numbers in one copy, and copies; the destination is larger than what malloc takes from its heap.
constexpr int COUNT = 16;
constexpr int LOOPS = 40;
constexpr size_t LARGE = 1 << 20;

static int *device;

static void check(cudaError_t code) {
    if (code != cudaSuccess) {
        std::printf("error %d\n", static_cast<int>(code));
        std::exit(1);
    }
}

__attribute__((noinline)) static void copy_once(int *to, int value) {
    put<<<1, 1>>>(device, value, COUNT);
    check(cudaMemcpy(to, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
}

// `step` numbers further on in each iteration.
__attribute__((noinline)) static void loop(int *to, int step, int times = LOOPS) {
    for (int i = 0; i < times; ++i)
        copy_once(to + i * step, i);
}

static int *large() {
    int *memory = static_cast<int *>(std::malloc(LARGE));
    std::memset(memory, 1, LARGE);
    return memory;
}

static unsigned long sum(const int *from, int count) {
    unsigned long total = 0;
    for (int i = 0; i < count; ++i)
        total = total * 31 + static_cast<unsigned>(from[i]);
    return total;
}

static void unread() { loop(large(), COUNT); }

static void read_after() {
    int *to = large();
    loop(to, COUNT);
    std::printf("%lu %d\n", sum(to, LOOPS * COUNT), to[LARGE / 4 - 1]);
}

static void same_place() {
    int *to = large();
    loop(to, 0);
    std::printf("%lu\n", sum(to, 2 * COUNT));
}

static void synchronized() {
    int *to = large();
    loop(to, COUNT);
    check(cudaDeviceSynchronize());
    std::printf("%lu\n", sum(to, LOOPS * COUNT));
}

static void every_iteration() {
    int *to = large();
    unsigned long total = 0;
    for (int i = 0; i < LOOPS; ++i) {
        copy_once(to, i);
        total = total * 7 + sum(to, COUNT);
    }
    std::printf("%lu\n", total);
}

static void asynchronous() {
    int *to = large();
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(device, i, COUNT);
        check(cudaMemcpyAsync(to + i * COUNT, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost, 0));
    }
    std::printf("%lu\n", sum(to, LOOPS * COUNT));
}

static void other_threads() {
    int *to = large();
    loop(to, COUNT);
    std::vector<std::thread> threads;
    unsigned long sums[4];
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] { sums[t] = sum(to + t * 10 * COUNT, 10 * COUNT); });
    for (std::thread &thread : threads)
        thread.join();
    std::printf("%lu %lu %lu %lu\n", sums[0], sums[1], sums[2], sums[3]);
}

// Threads that read and write beside the copies while these go on.
static void beside() {
    int *to = large();
    int *counters = to + LARGE / 4 - 4 * 1024;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([=] {
            volatile int *mine = counters + t * 1024;
            *mine = 0;
            for (int i = 0; i < 2000; ++i)
                *mine = *mine + 1;
        });
    loop(to, COUNT, 200);
    for (std::thread &thread : threads)
        thread.join();
    std::printf("%lu", sum(to, 200 * COUNT));
    for (int t = 0; t < 4; ++t)
        std::printf(" %d", counters[t * 1024]);
    std::printf("\n");
}

static void written() {
    int *to = large();
    loop(to, COUNT);
    int ends[2];
    if (pipe(ends) != 0)
        return;
    const size_t bytes = LOOPS * COUNT * sizeof(int);
    const ssize_t sent = write(ends[1], to, bytes);
    std::vector<int> got(LOOPS * COUNT);
    const ssize_t back = read(ends[0], got.data(), bytes);
    std::printf("%zd %zd %lu\n", sent, back, sum(got.data(), LOOPS * COUNT));
    // Vectored, by the system call itself; and into the memory.
    loop(to, COUNT);
    iovec parts[2] = {{to, bytes / 2}, {to + LOOPS * COUNT / 2, bytes / 2}};
    const ssize_t all = writev(ends[1], parts, 2);
    loop(to, 0);
    std::printf("%zd %zd %lu\n", all, read(ends[0], to + 8, bytes), sum(to, 600));
}

static void to_a_file() {
    int *to = large();
    loop(to, COUNT);
    FILE *file = std::tmpfile();
    const size_t items = std::fwrite(to, 1, LARGE, file);
    std::rewind(file);
    std::vector<int> got(LARGE / 4);
    const size_t back = std::fread(got.data(), 1, LARGE, file);
    std::printf("%zu %zu %lu\n", items, back, sum(got.data(), LARGE / 4));
    // Within the C library: it gives the system call the program's own pointer.
    loop(to, COUNT);
    std::memset(to + LOOPS * COUNT, 'x', 100000);
    loop(to, 0);
    to[COUNT] = 0x2a2a2a2a;
    std::fputs(reinterpret_cast<const char *>(to + COUNT), file);
    std::printf("%ld\n", std::ftell(file));
    loop(to + LARGE / 8, 0);
    to[0] = 7;
    loop(to, 0);
    std::rewind(file);
    std::printf("%d", std::fputs(reinterpret_cast<const char *>(to + COUNT), file) >= 0);
    std::printf(" %ld\n", std::ftell(file));
}

static void moved() {
    int *to = large();
    loop(to, COUNT);
    std::vector<int> copy(LARGE / 4);
    std::memcpy(copy.data(), to, LARGE);
    loop(to, COUNT);
    std::memset(to, 5, 64);
    std::printf("%lu %lu\n", sum(copy.data(), LARGE / 4), sum(to, LOOPS * COUNT));
}

static void forked() {
    int *to = large();
    loop(to, COUNT);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        std::printf("child %lu\n", sum(to, LOOPS * COUNT));
        std::fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    loop(to, COUNT, 3);
    std::printf("parent %d %lu\n", status, sum(to, LOOPS * COUNT));
}

static sigjmp_buf back;
static int *looked_at;
static unsigned long seen;

static void on_fault(int) {
    seen = sum(looked_at, LOOPS * COUNT); // guarded: the handler waits as everybody does
    siglongjmp(back, 1);
}

static void handler() {
    int *to = large();
    looked_at = to;
    std::signal(SIGSEGV, on_fault);
    char *page = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    loop(to, COUNT);
    if (sigsetjmp(back, 1) == 0)
        *static_cast<volatile char *>(page) = 1;
    std::printf("%lu\n", seen);
}

static int in_globals[LARGE / 4];
static int one;

static void refused() {
    int on_stack[COUNT * 2];
    loop(on_stack, 0);
    std::printf("%lu\n", sum(on_stack, COUNT));
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(device, i, COUNT);
        check(cudaMemcpy(in_globals, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    }
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(device, i, COUNT);
        check(cudaMemcpy(&one, device, sizeof(int), cudaMemcpyDeviceToHost));
    }
    int *small = static_cast<int *>(std::malloc(COUNT * sizeof(int)));
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(device, i, COUNT);
        check(cudaMemcpy(small, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    }
    int *shared = static_cast<int *>(mmap(nullptr, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(device, i, COUNT);
        check(cudaMemcpy(shared, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    }
    int *own = static_cast<int *>(mmap(nullptr, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(device, i, COUNT);
        check(cudaMemcpy(own, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    }
    std::printf("%lu %d %lu %lu %lu\n", sum(in_globals, COUNT), one, sum(small, COUNT), sum(shared, COUNT), sum(own, COUNT));
}

static void freed() {
    for (int turn = 0; turn < 3; ++turn) {
        int *to = large();
        loop(to, COUNT);
        std::free(to);
        int *other = large();
        std::printf("%d %zu\n", other[5], malloc_usable_size(other) / LARGE);
        std::free(other);
    }
}

static void reallocated() {
    int *to = large();
    loop(to, COUNT);
    to = static_cast<int *>(std::realloc(to, 4 * LARGE));
    std::printf("%lu %d\n", sum(to, LOOPS * COUNT), to[LARGE / 4 - 1]);
    loop(to, COUNT);
    to = static_cast<int *>(std::realloc(to, LARGE / 2));
    std::printf("%lu\n", sum(to, LOOPS * COUNT));
}

// What is guarded goes back to the device, is a kernel's argument, and another copy's destination.
static void used_by_calls() {
    int *to = large();
    loop(to, COUNT);
    check(cudaMemcpy(device, to + COUNT, COUNT * sizeof(int), cudaMemcpyHostToDevice));
    check(cudaMemcpy(to + 5000, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    loop(to, COUNT);
    void *arguments[] = {&device, to + COUNT, to + 2 * COUNT};
    to[2 * COUNT] = COUNT;
    loop(to + 4 * COUNT, COUNT);
    check(cudaLaunchKernel(reinterpret_cast<const void *>(put), dim3(1), dim3(1), arguments, 0, nullptr));
    check(cudaMemcpy(to + 6000, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    std::printf("%lu %lu %lu\n", sum(to, LOOPS * COUNT), sum(to + 5000, COUNT), sum(to + 6000, COUNT));
}

static void many_blocks() {
    std::vector<int *> blocks;
    for (int i = 0; i < 80; ++i) {
        blocks.push_back(large());
        copy_once(blocks.back(), i);
    }
    unsigned long total = 0;
    for (int *block : blocks)
        total = total * 13 + sum(block, COUNT + 1);
    std::printf("%lu\n", total);
}

static void clocked() {
    int *to = large();
    timespec now;
    for (int i = 0; i < LOOPS; ++i) {
        copy_once(to + i * COUNT, i);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    std::printf("%lu %d\n", sum(to, LOOPS * COUNT), now.tv_nsec >= 0);
}

static void queried() {
    int *to = large();
    int ready = 0;
    for (int i = 0; i < LOOPS; ++i) {
        copy_once(to + i * COUNT, i);
        ready += cudaStreamQuery(nullptr) == cudaSuccess;
    }
    std::printf("%d %lu\n", ready, sum(to, LOOPS * COUNT));
}

// The last copy is behind a kernel that faults.
static void failing() {
    int *to = large();
    cudaError_t last = cudaSuccess;
    for (int i = 0; i < LOOPS; ++i) {
        put<<<1, 1>>>(i == LOOPS - 1 ? nullptr : device, i, COUNT);
        last = cudaMemcpy(to + i * COUNT, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost);
    }
    const int next = cudaDeviceSynchronize();
    std::printf("%d %d %lu %#x\n", static_cast<int>(last), next, sum(to, (LOOPS - 1) * COUNT), to[(LOOPS - 1) * COUNT]);
}

static const struct {
    const char *name;
    void (*run)();
} SCENARIOS[] = {
    {"unread", unread},
    {"read_after", read_after},
    {"same_place", same_place},
    {"synchronized", synchronized},
    {"every_iteration", every_iteration},
    {"asynchronous", asynchronous},
    {"other_threads", other_threads},
    {"beside", beside},
    {"written", written},
    {"to_a_file", to_a_file},
    {"moved", moved},
    {"forked", forked},
    {"handler", handler},
    {"refused", refused},
    {"freed", freed},
    {"reallocated", reallocated},
    {"used_by_calls", used_by_calls},
    {"many_blocks", many_blocks},
    {"clocked", clocked},
    {"queried", queried},
    {"failing", failing},
};

int main(int, char **arguments) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10); // else it rises when a large block is freed, and the next one comes from the heap
    check(cudaMalloc(&device, 4096));
    for (const auto &scenario : SCENARIOS)
        if (std::strcmp(scenario.name, arguments[1]) == 0)
            scenario.run();
    std::printf("done\n");
}
