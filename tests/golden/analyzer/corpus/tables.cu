// Arguments out of tables in host memory, which the loop leaves alone or does not; ping-pong.
#include "common.cuh"

#include <utility>
#include <vector>

PROGRAM table(float **buffers, int count) {
    for (int i = 0; i < count; ++i) touch<<<4, 256>>>(buffers[i], 1, COUNT);
}

PROGRAM table_by_pointer(float **buffers, int count) {
    for (float **each = buffers; each != buffers + count; ++each) touch<<<4, 256>>>(*each, 1, COUNT);
}

static const int SIZES[] = {100, 37, 1024, 2, 640, 77, 900, 13};

PROGRAM constant_table(float *data, int count) {
    for (int i = 0; i < count; ++i) touch<<<4, 256>>>(data, 1, SIZES[i]);
}

PROGRAM own_table(float *first, float *second, float *third, int count) {
    float *const buffers[3] = {first, second, third};
    for (int i = 0; i < count; ++i) touch<<<4, 256>>>(buffers[i % 3], i, COUNT);
}

PROGRAM vector_table(const std::vector<float *> &buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) touch<<<4, 256>>>(buffers[i], 1, COUNT);
}

PROGRAM vector_range(const std::vector<int> &amounts, float *data) {
    for (int amount : amounts) touch<<<4, 256>>>(data, amount, COUNT);
}

// Every iteration changes what a later one reads.
PROGRAM table_written(float *data, int *amounts, int count) {
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(data, amounts[i], COUNT);
        amounts[i + 1] = amounts[i] * 5 + 1;
    }
}

// What is written is read again never, but stands where the same instruction read before.
PROGRAM rewritten(float *data, int *amounts, int count) {
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(data, amounts[i], COUNT);
        amounts[i] = i;
    }
}

static const int ORDER[] = {3, 1, 2, 0};
static APART int *somewhere(int *amounts, int index) { return amounts + ORDER[index & 3]; }

PROGRAM rewritten_somewhere(float *data, int *amounts, int count) {
    for (int i = 0; i < count; ++i) {
        int *place = somewhere(amounts, i);
        touch<<<4, 256>>>(data, *place, COUNT);
        *place = i;
    }
}

struct Node {
    Node *next;
    int amount;
};

PROGRAM list(float *data, Node *node) {
    for (; node; node = node->next) {
        touch<<<4, 256>>>(data, node->amount, COUNT);
        node->amount = 7;
    }
}

// The written place may be the table.
PROGRAM table_perhaps_written(float *data, const int *amounts, int *log, int count) {
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(data, amounts[i], COUNT);
        log[i] = 7;
    }
}

// A function of which nothing is known runs in the loop, and the table is reachable from everywhere.
float *published[4];

PROGRAM table_reachable(int count) {
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(published[i], 1, COUNT);
        opaque(nullptr);
    }
}

PROGRAM global_value(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(published[0], 1, COUNT);
        opaque(nullptr);
    }
}

// Over streams made before: their handles stand in an array on the stack.
PROGRAM over_streams(float *data, int rounds) {
    cudaStream_t streams[8];
    for (int i = 0; i < 8; ++i) streams[i] = nullptr;
    cudaStreamCreate(&streams[1]), cudaStreamCreate(&streams[2]), cudaStreamCreate(&streams[5]);
    for (int i = 0; i < rounds; ++i) touch<<<4, 256, 0, streams[i]>>>(data + COUNT * i, i, COUNT);
    cudaStreamDestroy(streams[1]), cudaStreamDestroy(streams[2]), cudaStreamDestroy(streams[5]);
}

// The tables stand on the stack, and the loop changes them.
PROGRAM own_table_changed(float *first, float *second, int count) {
    float *buffers[3] = {first, second, first};
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(buffers[i % 3], i, COUNT);
        buffers[1] = buffers[i & 1];
    }
}

PROGRAM streams_changed(float *data, int rounds) {
    cudaStream_t streams[4] = {};
    cudaStreamCreate(&streams[1]);
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256, 0, streams[i & 3]>>>(data, i, COUNT);
        streams[2] = i % 5 == 3 ? streams[1] : nullptr;
    }
    cudaStreamDestroy(streams[1]);
}

PROGRAM swapped(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        shift<<<4, 256>>>(first, second, COUNT);
        std::swap(first, second);
    }
}

// The pointers' addresses were given to cudaMalloc: they are swapped in memory.
PROGRAM swapped_in_memory(int rounds) {
    float *first, *second;
    cudaMalloc(&first, BYTES), cudaMalloc(&second, BYTES);
    cudaMemset(first, 0, BYTES), cudaMemset(second, 0, BYTES);
    for (int i = 0; i < rounds; ++i) {
        shift<<<4, 256>>>(first, second, COUNT);
        float *other = first;
        first = second;
        second = other;
    }
    cudaFree(first), cudaFree(second);
}

PROGRAM rotated(float *first, float *second, float *third, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        shift<<<4, 256>>>(first, second, COUNT);
        float *oldest = third;
        third = second, second = first, first = oldest;
    }
}

PROGRAM toggled(float *const *buffers, int rounds) {
    int from = 0;
    for (int i = 0; i < rounds; ++i) {
        shift<<<4, 256>>>(buffers[1 - from], buffers[from], COUNT);
        from = 1 - from;
    }
}

PROGRAM toggled_in_memory(int rounds) {
    float *buffers[2];
    cudaMalloc(&buffers[0], BYTES), cudaMalloc(&buffers[1], BYTES);
    cudaMemset(buffers[0], 0, BYTES), cudaMemset(buffers[1], 0, BYTES);
    int from = 0;
    for (int i = 0; i < rounds; ++i) {
        shift<<<4, 256>>>(buffers[1 - from], buffers[from], COUNT);
        from = 1 - from;
    }
    cudaFree(buffers[0]), cudaFree(buffers[1]);
}

PROGRAM by_parity(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i)
        if (i & 1)
            shift<<<4, 256>>>(first, second, COUNT);
        else
            shift<<<4, 256>>>(second, first, COUNT);
}

PROGRAM chosen_by_parity(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *to = i & 1 ? first : second, *from = i & 1 ? second : first;
        shift<<<4, 256>>>(to, from, COUNT);
    }
}

// What copies to the host overwrite is no part of the frame whose addresses nobody else has, nor of another allocation.
PROGRAM own_streams(float *data, int rounds) {
    float *host;
    cudaStream_t streams[4];
    cudaMallocHost(&host, 4 * BYTES), memset(host, 0, 4 * BYTES);
    cudaStreamCreate(&streams[0]), cudaStreamCreate(&streams[1]), cudaStreamCreate(&streams[2]), cudaStreamCreate(&streams[3]);
    for (int i = 0; i < rounds; ++i) {
        float *part = host + (i & 3) * COUNT;
        cudaMemcpyAsync(data, part, BYTES, cudaMemcpyHostToDevice, streams[i & 3]);
        touch<<<4, 256, 0, streams[i & 3]>>>(data, i, COUNT);
        cudaMemcpyAsync(part, data, BYTES, cudaMemcpyDeviceToHost, streams[i & 3]);
    }
    cudaDeviceSynchronize();
    sink = host[0];
    cudaStreamDestroy(streams[0]), cudaStreamDestroy(streams[1]), cudaStreamDestroy(streams[2]), cudaStreamDestroy(streams[3]);
    cudaFreeHost(host);
}

PROGRAM table_beside_pinned(float *data, int count) {
    float *host;
    int *amounts = static_cast<int *>(malloc(count * sizeof(int)));
    for (int i = 0; i < count; ++i) amounts[i] = i * i;
    cudaHostAlloc(reinterpret_cast<void **>(&host), count * BYTES, cudaHostAllocDefault);
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(data, amounts[i], COUNT);
        cudaMemcpy(host + i * COUNT, data, BYTES, cudaMemcpyDeviceToHost);
    }
    sink = host[0];
    cudaFreeHost(host), free(amounts);
}

// The copy may go into the table.
PROGRAM table_copied_over(int *amounts, int *host, float *data, int count) {
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(data, amounts[i], COUNT);
        cudaMemcpy(host + i, data, 4, cudaMemcpyDeviceToHost);
    }
}

// One of two allocations: a store in a third one changes neither.
PROGRAM table_of_either(float *data, int count) {
    int *amounts = count > 4 ? static_cast<int *>(malloc(count * sizeof(int))) : static_cast<int *>(calloc(8, sizeof(int)));
    int *log = static_cast<int *>(malloc((count + 1) * sizeof(int)));
    for (int i = 0; i < count; ++i) amounts[i] = i * i;
    for (int i = 0; i < count; ++i) {
        log[i] = i + 1;
        touch<<<4, 256>>>(data, amounts[i], COUNT);
    }
    sink = log[0];
    free(amounts), free(log);
}

// What is stored in may be the table.
PROGRAM either_written(float *data, int count) {
    int *amounts = static_cast<int *>(calloc(count + 1, sizeof(int)));
    int *log = static_cast<int *>(calloc(count + 1, sizeof(int)));
    int *written = count & 1 ? log : amounts;
    for (int i = 0; i < count; ++i) {
        written[i + 1] = i;
        touch<<<4, 256>>>(data, amounts[i], COUNT);
    }
    sink = log[0];
    free(amounts), free(log);
}

// The pointer moves through one allocation first, and then into the table.
PROGRAM moved_into_table(float *data, int count) {
    int *amounts = static_cast<int *>(calloc(count + 1, sizeof(int)));
    int *log = static_cast<int *>(calloc(count + 1, sizeof(int)));
    int *written = log;
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(data, amounts[i], COUNT);
        *written = i;
        written = i == 2 ? amounts + 4 : written + 1;
    }
    sink = log[0];
    free(amounts), free(log);
}

// Vectors have memory of their own, or none.
PROGRAM vectors_of_tiles(int tiles, int rows) {
    std::vector<float *> parts(tiles, nullptr);
    std::vector<size_t> sizes(tiles, 0);
    for (int i = 0; i < tiles; ++i) {
        sizes[i] = (rows + i) * sizeof(float);
        cudaMalloc(reinterpret_cast<void **>(&parts[i]), sizes[i]);
    }
    for (int i = 0; i < tiles; ++i) cudaMemset(parts[i], 0, sizes[i]);
    for (int i = 0; i < tiles; ++i) cudaFree(parts[i]);
}

// Structures side by side: what the copies fill is found in one field, and what the launches are given stands in others.
struct Plan {
    int amount;
    float *input, *output;
    cudaStream_t stream;
};

PROGRAM plans(float *data, int count) {
    Plan plans[64];
    for (int i = 0; i < count; ++i) {
        plans[i].amount = COUNT - i;
        plans[i].input = data + COUNT * i;
        plans[i].output = static_cast<float *>(malloc(BYTES));
        cudaStreamCreate(&plans[i].stream);
    }
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256, 0, plans[i].stream>>>(plans[i].input, i, plans[i].amount);
        cudaMemcpyAsync(plans[i].output, plans[i].input, BYTES, cudaMemcpyDeviceToHost, plans[i].stream);
    }
    for (int i = 0; i < count; ++i) {
        cudaStreamSynchronize(plans[i].stream);
        sink = plans[i].output[0];
        cudaStreamDestroy(plans[i].stream);
        free(plans[i].output);
    }
}

// The field that the loop reads is the one that it writes.
PROGRAM plans_changed(float *data, int count) {
    Plan plans[65];
    for (int i = 0; i < count; ++i) plans[i].amount = COUNT - i, plans[i].input = data + COUNT * i;
    for (int i = 0; i < count; ++i) {
        touch<<<4, 256>>>(plans[i].input, i, plans[i].amount);
        plans[(i * 3 + 1) % 64].amount = i * 7;
    }
}

// What is stored through a pointer that was given lies elsewhere than what was allocated since.
PROGRAM table_beside_given(float *data, int *log, int count) {
    int *amounts = static_cast<int *>(malloc(count * sizeof(int)));
    for (int i = 0; i < count; ++i) amounts[i] = i * i;
    for (int i = 0; i < count; ++i) {
        log[i] = i + 1;
        touch<<<4, 256>>>(data, amounts[i], COUNT);
    }
    free(amounts);
}

// The object says where the copy goes, and how long the loop is. That the copy does not go into the object is likely, but nothing says so.
struct Box {
    int rounds;
    int *host;
};

PROGRAM bound_beside_destination(int *counter, Box *box) {
    for (int i = 0; i < box->rounds; ++i) {
        count_up<<<1, 1>>>(counter);
        cudaMemcpy(box->host, counter, sizeof(int), cudaMemcpyDeviceToHost);
    }
}

// Forward and back: where the table is read is one of two places, by the pass. Beside it something else is counted.
PROGRAM there_and_back(float *data, int rounds) {
    int amounts[6] = {1, rounds, 4, 8, 16, 32}, seen[6] = {};
    for (int pass = 0; pass < rounds; ++pass)
        for (int i = 0; i < 6; ++i) {
            int at = pass % 2 ? 5 - i : i;
            touch<<<4, 256>>>(data, amounts[at], COUNT);
            ++seen[at];
        }
    for (int count : seen) sink = sink + count;
}

PROGRAM there_and_back_changed(float *data, int rounds) {
    int amounts[6] = {1, rounds, 4, 8, 16, 32};
    for (int pass = 0; pass < rounds; ++pass)
        for (int i = 0; i < 6; ++i) {
            int at = pass % 2 ? 5 - i : i;
            touch<<<4, 256>>>(data, amounts[at], COUNT);
            amounts[at] += i;
        }
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    float *both[3] = {arena.a, arena.b, arena.c};
    int amounts[64] = {3}, log[64];
    for (int i = 0; i < 3; ++i) published[i] = both[i];
    table(both, 3), table_by_pointer(both, 3), constant_table(arena.a, 8), own_table(arena.a, arena.b, arena.c, rounds);
    vector_table({arena.a, arena.b}), vector_range({4, 8, 15, 16}, arena.a), table_written(arena.a, amounts, rounds);
    table_perhaps_written(arena.a, amounts, log, rounds), table_reachable(3), global_value(rounds);
    over_streams(arena.a, rounds), swapped(arena.a, arena.b, rounds), swapped_in_memory(rounds);
    Node last{nullptr, 4}, middle{&last, 5}, front{&middle, 6};
    own_table_changed(arena.a, arena.b, rounds), streams_changed(arena.a, rounds);
    rewritten(arena.a, amounts, rounds), rewritten_somewhere(arena.a, amounts, rounds), list(arena.a, &front);
    rotated(arena.a, arena.b, arena.c, rounds), toggled(both, rounds), toggled_in_memory(rounds);
    by_parity(arena.a, arena.b, rounds), chosen_by_parity(arena.a, arena.b, rounds);
    own_streams(arena.a, rounds), table_beside_pinned(arena.a, rounds), table_copied_over(amounts, amounts + 1, arena.b, rounds);
    int *counter, counted;
    cudaMalloc(&counter, 64), cudaMemset(counter, 0, 64);
    Box box{rounds, &counted};
    plans(arena.a, rounds), plans_changed(arena.a, rounds), table_beside_given(arena.a, log, rounds);
    bound_beside_destination(counter, &box), cudaFree(counter);
    table_of_either(arena.a, rounds), either_written(arena.a, rounds), moved_into_table(arena.a, rounds), vectors_of_tiles(rounds, 16);
    there_and_back(arena.a, rounds), there_and_back_changed(arena.a, rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
