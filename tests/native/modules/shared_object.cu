// Kernels in a shared library opened with dlopen after CUDA is in use, closed and opened again.
#include <dlfcn.h>

#include "../support.cuh"

__global__ void add_one(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += 1;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        std::printf("usage: shared_object LIBRARY\n");
        return 2;
    }
    const int n = 1000;
    Verdict verdict;
    std::vector<int> values(n), expected(n);
    for (int i = 0; i < n; ++i) {
        values[i] = expected[i] = i;
    }
    DeviceArray<int> device(values);
    for (int round = 0; round < 2; ++round) {
        add_one<<<(n + 127) / 128, 128>>>(device.get(), n);
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            std::printf("dlopen: %s\nFAIL\n", dlerror());
            return 1;
        }
        auto run = reinterpret_cast<int (*)(int *, int, int)>(dlsym(library, "library_run"));
        auto calls = reinterpret_cast<int (*)()>(dlsym(library, "library_calls"));
        CHECK(static_cast<cudaError_t>(run(device.get(), 3, n)));
        CHECK(static_cast<cudaError_t>(run(device.get(), -2, n)));
        verdict.expect(calls() == 2, "a library opened again starts with fresh variables");
        for (int &value : expected) {
            value = ((value + 1) * 3 + 1) * -2 + 1;
        }
        verdict.equal(device.download(), expected, "values");
        dlclose(library);
    }
    add_one<<<(n + 127) / 128, 128>>>(device.get(), n);
    CHECK_LAUNCH();
    for (int &value : expected) {
        value += 1;
    }
    std::vector<int> result = device.download();
    verdict.equal(result, expected, "the program's own kernel after the library is gone");
    print_checksum("shared_object", result);
    return verdict.finish();
}
