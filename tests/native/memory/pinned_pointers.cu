// Pinned memory of which kernels find the addresses: in device memory, in a __constant__ variable, in other pinned memory, in rows of a pitched copy.
#include "../support.cuh"

struct Node {
    int value;
    Node *next;
};

struct Part {
    char name[12];
    int count;
    int *data;
};

__constant__ Part known;
__device__ int *pointer_variable;

__global__ void gather(int *const *rows, int count, int *sums) {
    const int row = threadIdx.x;
    for (int i = 0; i < count; ++i) {
        sums[row] += rows[row][i];
        rows[row][i] = -rows[row][i];
    }
}

__global__ void walk(Node *first, int *sum) {
    for (Node *node = first; node != nullptr; node = node->next) {
        *sum += node->value++;
    }
}

__global__ void fill_known() {
    for (int i = threadIdx.x; i < known.count; i += blockDim.x) {
        known.data[i] = i * i;
        pointer_variable[i] = -i;
    }
}

__global__ void follow_pitched(const char *table, size_t pitch, int rows, int *sum) {
    for (int row = 0; row < rows; ++row) {
        *sum += **reinterpret_cast<int *const *>(table + row * pitch + 8);
    }
}

template <typename T> static T *pinned(size_t count) {
    T *memory;
    CHECK(cudaMallocHost(&memory, count * sizeof(T)));
    return memory;
}

int main() {
    Verdict verdict;
    const int rows = 20, count = 700;
    std::vector<int *> table(rows);
    int expected = 0;
    for (int row = 0; row < rows; ++row) {
        table[row] = pinned<int>(count);
        for (int i = 0; i < count; ++i) {
            table[row][i] = row * 1000 + i;
            expected += table[row][i];
        }
    }
    int **staging = pinned<int *>(rows);
    std::copy(table.begin(), table.end(), staging);
    DeviceArray<int *> device_table(rows);
    DeviceArray<int> sums(rows);
    sums.zero();
    CHECK(cudaMemcpyAsync(device_table.get(), staging, rows * sizeof(int *), cudaMemcpyHostToDevice, nullptr));
    gather<<<1, rows>>>(device_table.get(), count, sums.get());
    CHECK_LAUNCH();
    int sum = 0;
    for (int value : sums.download()) {
        sum += value;
    }
    verdict.expect(sum == expected, "rows by a table in device memory");
    verdict.expect(table[3][5] == -3005 && staging[3] == table[3], "what the kernel left there");
    table[3][5] = 1; // the program's own again, and the kernel's
    sums.zero();
    gather<<<1, rows>>>(device_table.get(), 10, sums.get());
    CHECK(cudaDeviceSynchronize());
    verdict.expect(table[3][5] == -1 && table[3][6] == 3006, "again");

    // A list, each node in memory of its own; the kernel is given the first one.
    std::vector<Node *> nodes;
    for (int i = 0; i < 50; ++i) {
        nodes.push_back(pinned<Node>(1 + i % 3));
        *nodes[i] = Node{i, i > 0 ? nodes[i - 1] : nullptr};
    }
    sums.zero();
    walk<<<1, 1>>>(nodes.back(), sums.get());
    CHECK_LAUNCH();
    verdict.expect(sums.download()[0] == 49 * 50 / 2 && nodes[7]->value == 8, "a list");

    int *first = pinned<int>(5000), *second = pinned<int>(5000);
    Part part = {"part", 5000, first};
    CHECK(cudaMemcpyToSymbol(known, &part, sizeof part));
    CHECK(cudaMemcpyToSymbolAsync(pointer_variable, &second, sizeof second, 0, cudaMemcpyHostToDevice, nullptr));
    fill_known<<<1, 128>>>();
    CHECK(cudaDeviceSynchronize());
    verdict.expect(first[70] == 4900 && second[4999] == -4999, "by variables");

    struct Row {
        char text[8];
        int *number;
    };
    std::vector<Row> here(9);
    for (int row = 0; row < 9; ++row) {
        here[row].number = pinned<int>(1);
        *here[row].number = 1 << row;
    }
    char *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, sizeof(Row), 9));
    CHECK(cudaMemcpy2D(pitched, pitch, here.data(), sizeof(Row), sizeof(Row), 9, cudaMemcpyHostToDevice));
    sums.zero();
    follow_pitched<<<1, 1>>>(pitched, pitch, 9, sums.get());
    CHECK_LAUNCH();
    verdict.expect(sums.download()[0] == 511, "by rows of a pitched copy");

    for (int *row : table) {
        CHECK(cudaFreeHost(row));
    }
    for (Node *node : nodes) {
        CHECK(cudaFreeHost(node));
    }
    for (const Row &row : here) {
        CHECK(cudaFreeHost(row.number));
    }
    for (void *memory : {static_cast<void *>(staging), static_cast<void *>(first), static_cast<void *>(second)}) {
        CHECK(cudaFreeHost(memory));
    }
    CHECK(cudaFree(pitched));
    std::printf("pinned_pointers\n");
    return verdict.finish();
}
