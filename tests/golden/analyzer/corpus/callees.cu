// CUDA calls in callees: functions, methods, virtual functions, std::function, templates, recursion, exceptions.
#include "common.cuh"

#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>

static APART void step(float *data, int amount) {
    touch<<<4, 256>>>(data, amount, COUNT);
    cudaMemsetAsync(data, 0, 64, nullptr);
}

PROGRAM in_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) step(data, i + 4);
}

static APART void outer_step(float *data, int amount) {
    cudaMemset(data, 0, 64);
    step(data, 2 * amount);
}

PROGRAM in_callee_of_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) outer_step(data, i);
}

static APART void many_steps(float *data, int amount) {
    for (int j = 0; j < amount; ++j) cudaMemsetAsync(data, j, 64, nullptr);
}

PROGRAM in_loop_of_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) many_steps(data, 9);
}

static APART void step_perhaps(float *data, int amount) {
    if (amount % 5 == 2) return;
    cudaMemsetAsync(data, amount, 64, nullptr);
}

PROGRAM in_callee_perhaps(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) step_perhaps(data, i);
}

static float *field;

static APART void step_global(int amount) { touch<<<4, 256>>>(field, amount, COUNT); }

PROGRAM global_in_callee(int rounds) {
    for (int i = 0; i < rounds; ++i) step_global(i);
}

template <typename T>
static void allocate(T **where, size_t count) {
    if (cudaMalloc((void **)where, count * sizeof(T)) != cudaSuccess) exit(1);
}

template <typename T>
static void release(T *where) {
    if (cudaFree(where) != cudaSuccess) exit(1);
}

PROGRAM wrapped_allocation(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *fresh;
        allocate(&fresh, COUNT);
        touch<<<4, 256>>>(fresh, 1, COUNT);
        release(fresh);
    }
}

// Two pointers into the same object: what is written through one is read through the other.
static APART void set_and_use(float *data, int *amount, const int *same) {
    *amount += 3;
    touch<<<4, 256>>>(data, *same, COUNT);
}

PROGRAM two_pointers(float *data, int rounds) {
    int amount = 0;
    for (int i = 0; i < rounds; ++i) set_and_use(data, &amount, &amount);
}

struct Simulation {
    float *now, *next;
    float time = 0, step;
    int rounds = 0;
    APART void advance() {
        shift<<<4, 256>>>(next, now, COUNT);
        scale<<<4, 256>>>(next, time, COUNT);
        std::swap(now, next);
        time += step;
        ++rounds;
    }
};

PROGRAM object(Simulation &simulation, int rounds) {
    for (int i = 0; i < rounds; ++i) simulation.advance();
}

PROGRAM own_object(float *first, float *second, int rounds) {
    Simulation simulation{first, second, 0, 0.5f};
    for (int i = 0; i < rounds; ++i) simulation.advance();
    sink = simulation.rounds;
}

struct Solver {
    virtual ~Solver() = default;
    virtual void solve(float *data, int amount) = 0;
};

struct Simple : Solver {
    void solve(float *data, int amount) override { touch<<<4, 256>>>(data, amount, COUNT); }
};

struct Thorough : Solver {
    void solve(float *data, int amount) override {
        cudaMemset(data, 0, 64);
        touch<<<4, 256>>>(data, amount, COUNT);
    }
};

// Which function runs is not known: it may make calls of its own.
PROGRAM virtual_call(Solver *solver, float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(data, 0, 128);
        solver->solve(data, i);
    }
}

PROGRAM called_back(const std::function<void(int)> &what, float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaMemset(data, 0, 128);
        what(i);
    }
}

// A lambda that the compiler sees through.
PROGRAM lambda(float *data, int rounds) {
    auto each = [&](int amount) { touch<<<4, 256>>>(data, amount, COUNT); };
    for (int i = 0; i < rounds; ++i) each(i);
}

extern "C" APART void recursive(float *data, int depth) {
    if (depth == 0) return;
    for (int i = 0; i < 3; ++i) touch<<<4, 256>>>(data, depth, COUNT);
    recursive(data, depth - 1);
}

extern "C" APART void recursive_in_loop(float *data, int depth) {
    for (int i = 0; i < depth; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        recursive_in_loop(data, depth - 1 - i);
    }
}

static APART void throws_at(int i, int limit) {
    if (i == limit) throw std::runtime_error("enough");
}

// The loop may be left by an exception, which is caught outside.
PROGRAM left_by_exception(float *data, int rounds, int limit) {
    try {
        for (int i = 0; i < rounds; ++i) {
            touch<<<4, 256>>>(data, i, COUNT);
            throws_at(i, limit);
        }
    } catch (const std::exception &) {
        sink = limit;
    }
}

// What was copied last is read after the exception.
PROGRAM exception_then_read(float *data, int rounds, int limit) {
    float value = 0;
    try {
        for (int i = 0; i < rounds; ++i) {
            touch<<<4, 256>>>(data, i, COUNT);
            cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost);
            throws_at(i, limit);
        }
    } catch (const std::exception &) {
        sink = value;
    }
    sink = value;
}

PROGRAM destructors(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        std::unique_ptr<int> own(new int(i));
        touch<<<4, 256>>>(data, *own, COUNT);
        throws_at(i, -1);
    }
}

static APART void tail(float *data, int amount) { step(data, amount + 1); }

PROGRAM tail_call(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) tail(data, i);
}

// Behind the callee's loop stands a call with what the loop has left.
static APART void halves(float *data, int size, int parts) {
    for (; size > 16; size /= 4, parts *= 2) touch<<<parts, 64>>>(data, size, COUNT);
    touch<<<1, parts>>>(data, size, COUNT);
}

PROGRAM behind_loop_of_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) halves(data, 256, 1), cudaMemset(data, i, 64);
}

// How often the callee's loop runs is told by the device.
static APART void until_settled(float *data, int *counter) {
    int seen = 0;
    do {
        count_up<<<1, 32>>>(counter);
        cudaMemcpy(&seen, counter, sizeof(int), cudaMemcpyDeviceToHost);
    } while (seen % 64);
    touch<<<4, 256>>>(data, seen, COUNT);
}

PROGRAM loop_of_callee_on_data(float *data, int *counter, int rounds) {
    for (int i = 0; i < rounds; ++i) until_settled(data, counter);
}

// Which call is made is chosen in the callee, by what it is given.
static APART void made_by_size(float *data, int amount) {
    switch (amount) {
        case 1: cudaMemset(data, 0, 64); break;
        case 2: cudaMemsetAsync(data, 1, 128, nullptr); break;
        case 3: cudaGetLastError(); break;
        case 4: cudaMemset(data, 2, 32); break;
        default: touch<<<4, 256>>>(data, amount, COUNT);
    }
}

PROGRAM chosen_in_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) made_by_size(data, i);
}

// By what the host's memory holds, which the loop changes.
PROGRAM chosen_in_callee_by_memory(float *data, int *amounts, int rounds) {
    for (int i = 0; i < rounds; ++i) made_by_size(data, amounts[i]), amounts[i + 1] = amounts[i] * 5 + 1;
}

struct Watch {
    virtual ~Watch() = default;
    virtual void reset() = 0;
    virtual void start() = 0;
    virtual void stop() = 0;
    virtual double seconds() = 0;
};

struct Clock : Watch {
    double from = 0, total = 0;
    void reset() override { total = 0; }
    void start() override { from = double(clock()); }
    void stop() override { total += double(clock()) - from; }
    double seconds() override { return total / CLOCKS_PER_SEC; }
};

static void make_watch(Watch **watch) { *watch = new Clock; }
static void start(Watch **watch) {
    if (*watch) (*watch)->start();
}
static void stop(Watch **watch) {
    if (*watch) (*watch)->stop();
}

// The only class of the file with functions at these places of its table.
PROGRAM timed_by_object(float *data, int rounds) {
    Watch *watch = nullptr;
    make_watch(&watch);
    for (int i = 0; i < rounds; ++i) {
        start(&watch);
        touch<<<4, 256>>>(data, i, COUNT);
        stop(&watch);
    }
    sink = watch->seconds();
    delete watch;
}

PROGRAM told(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        std::cerr << "round " << i << std::endl;
    }
}

// Where this goes on is read from a table whose length is nowhere: nothing is known of it, but that it calls CUDA.
static APART void by_labels(float *data, int amount) {
    static void *const labels[] = {&&one, &&two, &&three};
    goto *labels[amount % 3];
one:
    touch<<<1, 256>>>(data, amount, COUNT);
    return;
two:
    cudaMemset(data, amount, 64);
three:
    shift<<<2, 256>>>(data + COUNT, data, COUNT);
}

PROGRAM hidden_in_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) by_labels(data, i);
}

// What functions of the host compute of numbers that do not change: by a loop, by a branch, and one by the other.
static APART int levels(int number) {
    int found = 0;
    while (number >>= 1) ++found;
    return found;
}

static APART int levels_up(int number) { return number == 1 ? 0 : levels(number - 1) + 1; }

static APART int parts(int number, int size) { return number % size != 0 ? number / size + 1 : number / size; }

PROGRAM counted_by_function(float *data, int number) {
    for (int i = 0; i < levels_up(number); ++i) touch<<<4, 256>>>(data, i, COUNT);
}

PROGRAM shaped_by_function(float *data, int count, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<parts(count, 256), 256>>>(data, i, count - i);
}

// The same of a function that is told something else each time.
static APART int parts_at_random(int number) {
    int found = 0;
    while (rand() % 5) ++found;
    return found + number;
}

PROGRAM shaped_at_random(float *data, int count, int rounds) {
    for (int i = 0; i < rounds; ++i) touch<<<4, 256>>>(data, parts_at_random(count), COUNT);
}

// The smaller of two variables, by their addresses.
PROGRAM last_part(float *data, int count, int part) {
    for (int at = 0; at < count; at += part) {
        const int end = std::min(at + part, count);
        touch<<<4, 256>>>(data + at, at, end - at);
    }
}

// What is thrown leaves the function, and then something is destroyed: no other way through the loop.
struct Farewell {
    const int *table;
    ~Farewell() { sink = table[0]; }
};

static APART int entry(const int *table, int i) {
    if (i < 0) throw std::runtime_error("negative");
    return table[i];
}

PROGRAM left_out_by_table(float *data, const int *table, int rounds) {
    Farewell farewell{table};
    for (int i = 0; i < rounds; ++i) {
        const bool empty = i == 3 || entry(table, i) > 9;
        if (empty) continue;
        touch<<<4, 256>>>(data, i, COUNT);
    }
}

// A flag beside a number, which are stored at once and then one of them.
struct Starting {
    int amount;
    bool first;
    float *data;
    APART void advance() {
        if (first) {
            cudaMemsetAsync(data, 0, 4 * amount, nullptr);
            first = false;
        }
        touch<<<4, 256>>>(data, 1, amount);
    }
};

PROGRAM first_time(float *data, int rounds) {
    Starting starting{64, true, data};
    for (int i = 0; i < rounds; ++i) starting.advance();
    sink = starting.amount;
}

// What is written beside the loop's variable has a known length.
PROGRAM asked_devices() {
    int count = 0;
    cudaGetDeviceCount(&count);
    for (int i = 0; i < count; ++i) {
        cudaDeviceProp properties;
        cudaGetDeviceProperties(&properties, i);
        sink = properties.warpSize;
    }
}

// The bound is an element of an array, which a function that a called function calls goes through and lowers.
static APART void lower_each(int *from, int *end) {
    for (int *each = from; each != end; ++each) *each -= 1;
}

static APART void lower_all(int *from) {
    lower_each(from, from + 4);
    sink = from[0];
}

PROGRAM bound_lowered(float *data, int rounds) {
    int bounds[4] = {rounds, rounds, rounds, rounds};
    float host[COUNT];
    for (int i = 0; i < bounds[1]; ++i) {
        touch<<<4, 256>>>(data, i, COUNT);
        cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost);
        lower_all(bounds);
    }
    sink = host[1];
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *data = field = arena.a;
    Simple simple;
    Thorough thorough;
    Simulation simulation{arena.a, arena.b, 0, 0.25f};
    in_callee(data, rounds), in_callee_of_callee(data, rounds), in_loop_of_callee(data, rounds);
    in_callee_perhaps(data, rounds), global_in_callee(rounds), wrapped_allocation(rounds), two_pointers(data, rounds);
    object(simulation, rounds), own_object(arena.a, arena.b, rounds), virtual_call(&simple, data, rounds);
    virtual_call(&thorough, data, rounds), called_back([&](int i) { cudaMemset(data, i, 64); }, data, rounds);
    lambda(data, rounds), recursive(data, 3), recursive_in_loop(data, 4), left_by_exception(data, rounds, rounds / 2);
    exception_then_read(data, rounds, rounds / 2), destructors(data, rounds), tail_call(data, rounds);
    int amounts[64] = {3}, *counter;
    cudaMalloc(&counter, 64), cudaMemset(counter, 0, 64);
    behind_loop_of_callee(data, rounds), loop_of_callee_on_data(data, counter, rounds), chosen_in_callee(data, rounds);
    chosen_in_callee_by_memory(data, amounts, rounds), timed_by_object(data, rounds), told(data, rounds);
    hidden_in_callee(data, rounds);
    counted_by_function(data, 1 << rounds), shaped_by_function(data, COUNT - 5, rounds), shaped_at_random(data, 7, rounds);
    last_part(data, COUNT, 96), left_out_by_table(data, amounts, rounds), first_time(data, rounds), asked_devices(), bound_lowered(data, rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
