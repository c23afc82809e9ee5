// Programs of shapes in which recording loops may be worth nothing: what mode loops then costs beside mode calls.
//   shapes SHAPE CALLS [LEAST MOST]     SHAPE: a row of the table at the end; LEAST and MOST: iterations of one loop

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

constexpr int LOOPS = 32;

template <int N>
__global__ void kernel(int *a, int i) {}

struct Program {
    int *a, *b;
    long calls;
    unsigned least, most;
    unsigned seed = 1;

    unsigned random(unsigned limit) {
        seed = seed * 1664525u + 1013904223u;
        return (seed >> 8) % limit;
    }
    unsigned iterations() { return least + random(most - least + 1); }
};

// A loop with call sites and a kernel of its own, of one to three launches.
template <int N>
void loop(Program &p, unsigned count, cudaStream_t stream) {
    for (unsigned i = 0; i < count; ++i) {
        kernel<N><<<1, 32, 0, stream>>>(p.a, int(i));
        if constexpr (N % 3 > 0) kernel<N><<<1, 32, 0, stream>>>(p.b, 7);
        if constexpr (N % 3 > 1) kernel<N><<<1, 32, 0, stream>>>(p.a + i, N);
    }
    p.calls -= count * (1 + N % 3);
}

template <int N>
void launch(Program &p, int value, cudaStream_t stream) {
    kernel<N><<<1, 32, 0, stream>>>(p.a, value);
    --p.calls;
}

using Loop = void (*)(Program &, unsigned, cudaStream_t);
using Launch = void (*)(Program &, int, cudaStream_t);

template <int... N>
std::vector<Loop> make_loops(std::integer_sequence<int, N...>) {
    return {loop<N>...};
}

template <int... N>
std::vector<Launch> make_launches(std::integer_sequence<int, N...>) {
    return {launch<N>...};
}

static const std::vector<Loop> loops = make_loops(std::make_integer_sequence<int, LOOPS>());
static const std::vector<Launch> launches = make_launches(std::make_integer_sequence<int, LOOPS>());

// Loops in random order, of random trip counts, without waits.
static void random_loops(Program &p) {
    while (p.calls > 0) loops[p.random(LOOPS)](p, p.iterations(), 0);
}

// Each loop once, then from the beginning.
static void loops_in_turn(Program &p) {
    for (int n = 0; p.calls > 0; n = (n + 1) % LOOPS) loops[n](p, p.iterations(), 0);
}

// As `random_loops`, waiting behind each loop.
static void waiting_loops(Program &p) {
    while (p.calls > 0) {
        loops[p.random(LOOPS)](p, p.iterations(), 0);
        cudaDeviceSynchronize();
    }
}

// Waits now and then.
static void sometimes_waiting(Program &p) {
    while (p.calls > 0) {
        loops[p.random(LOOPS)](p, p.iterations(), 0);
        if (p.random(20) == 0) cudaDeviceSynchronize();
    }
}

// Few kernels, in no order that repeats.
static void few_kernels(Program &p) {
    while (p.calls > 0) launches[p.random(2)](p, int(p.random(1 << 20)), 0);
}

static void many_kernels(Program &p) {
    while (p.calls > 0) launches[p.random(LOOPS)](p, int(p.random(1 << 20)), 0);
}

// One kernel in batches of random length, with another between them.
static void interrupted(Program &p) {
    while (p.calls > 0) {
        loops[0](p, p.iterations(), 0);
        launches[1 + p.random(LOOPS - 1)](p, 5, 0);
    }
}

// Loops whose launches go to streams at random.
static void streams(Program &p) {
    cudaStream_t all[4];
    for (auto &stream : all) cudaStreamCreate(&stream);
    while (p.calls > 0) {
        cudaStream_t stream = all[p.random(4)];
        loops[p.random(4)](p, p.iterations(), stream);
    }
    for (auto &stream : all) cudaStreamDestroy(stream);
}

// Sets and copies of random sizes.
static void sets(Program &p) {
    std::vector<char> data(4096, 1);
    while (p.calls > 0) {
        size_t bytes = 4 * (1 + p.random(1 << p.random(10)));
        switch (p.random(4)) {
        case 0: cudaMemsetAsync(p.a, int(bytes), bytes); break;
        case 1: cudaMemcpyAsync(p.b, p.a, bytes, cudaMemcpyDeviceToDevice); break;
        case 2: cudaMemcpy(p.a, data.data(), bytes, cudaMemcpyHostToDevice); break;
        default: launches[p.random(2)](p, 1, 0); ++p.calls; break;
        }
        --p.calls;
    }
}

// Small graphs, launched in random order.
static void graphs(Program &p) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    std::vector<cudaGraphExec_t> all;
    for (int n = 0; n < 8; ++n) {
        cudaGraph_t graph;
        cudaGraphExec_t made;
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        for (int i = 0; i <= n; ++i) launches[n + i](p, i, stream), ++p.calls;
        cudaStreamEndCapture(stream, &graph);
        cudaGraphInstantiate(&made, graph, 0);
        cudaGraphDestroy(graph);
        all.push_back(made);
    }
    while (p.calls > 0) {
        unsigned n = p.random(8);
        cudaGraphLaunch(all[n], stream);
        p.calls -= n + 1;
    }
    cudaStreamSynchronize(stream);
    for (auto graph : all) cudaGraphExecDestroy(graph);
    cudaStreamDestroy(stream);
}

// Two threads, each with loops of its own.
static void threads(Program &p) {
    std::vector<std::thread> all;
    for (unsigned t = 0; t < 2; ++t) {
        all.emplace_back([&p, t] {
            Program own = p;
            own.calls /= 2;
            own.seed += t;
            while (own.calls > 0) loops[16 * t + own.random(16)](own, own.iterations(), 0);
            cudaDeviceSynchronize();
        });
    }
    for (auto &thread : all) thread.join();
}

// Allocates, works and frees, in loops of random length.
static void allocations(Program &p) {
    while (p.calls > 0) {
        unsigned n = 1 + p.random(4);
        int *made;
        cudaMalloc(&made, 4096 * n);
        loops[p.random(8)](p, p.iterations(), 0);
        cudaFree(made);
        p.calls -= 2;
    }
}

// A phase of random loops, and then one loop that is worth a template.
static void phases(Program &p) {
    while (p.calls > 0) {
        for (int i = 0; i < 40; ++i) loops[p.random(LOOPS)](p, p.iterations(), 0);
        loops[3](p, 1000, 0);
    }
}

// Nested loops: a tree of calls with random branches, as a recursive algorithm makes.
static void tree(Program &p, int depth) {
    if (depth == 0 || p.calls <= 0) return;
    launches[depth](p, depth, 0);
    for (unsigned i = 0, count = p.iterations(); i < count; ++i) tree(p, depth - 1);
    launches[depth + 8](p, depth, 0);
}

static void trees(Program &p) {
    while (p.calls > 0) tree(p, 5);
}

// Reads a value behind each loop of random length.
static void reading(Program &p) {
    while (p.calls > 0) {
        loops[p.random(4)](p, p.iterations(), 0);
        int value;
        cudaMemcpy(&value, p.a, sizeof value, cudaMemcpyDeviceToHost);
    }
}

static const struct {
    const char *name;
    void (*run)(Program &);
} SHAPES[] = {
    {"random-loops", random_loops}, {"loops-in-turn", loops_in_turn}, {"waiting-loops", waiting_loops},
    {"sometimes-waiting", sometimes_waiting}, {"few-kernels", few_kernels}, {"many-kernels", many_kernels},
    {"interrupted", interrupted}, {"streams", streams}, {"sets", sets}, {"graphs", graphs}, {"threads", threads},
    {"allocations", allocations}, {"phases", phases}, {"trees", trees}, {"reading", reading},
};

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    Program p{};
    p.calls = std::atol(argv[2]);
    p.least = argc > 3 ? std::atoi(argv[3]) : 1;
    p.most = argc > 4 ? std::atoi(argv[4]) : p.least;
    if (cudaMalloc(&p.a, 1 << 20) != cudaSuccess || cudaMalloc(&p.b, 1 << 20) != cudaSuccess) return 1;
    for (auto &shape : SHAPES) {
        if (std::strcmp(shape.name, argv[1])) continue;
        shape.run(p);
        cudaError_t error = cudaDeviceSynchronize();
        std::printf("%s: %s\n", shape.name, cudaGetErrorString(error));
        return error != cudaSuccess;
    }
    return 2;
}
