// `large_image LIBRARY`: starts CUDA, then loads a library with kernels of its own, and uses one.

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 2 || cudaFree(nullptr) != cudaSuccess) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        std::printf("%s\n", dlerror());
        return 1;
    }
    auto look_up = reinterpret_cast<unsigned (*)(unsigned)>(dlsym(library, "look_up_on_device"));
    std::printf("%u\n", look_up(5));
    return 0;
}
