// A program that calls CUDA, and then the libraries that it opens: its arguments (runtime_library.cu).
#include <cstdio>
#include <dlfcn.h>
__global__ void add(int* p) { *p += 1; }
int main(int, char** argv) {
    int* p; int value = 1;
    cudaMalloc(&p, 4);
    cudaMemcpy(p, &value, 4, cudaMemcpyHostToDevice);
    add<<<1, 1>>>(p);
    cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost);
    for (char** name = argv + 1; *name; ++name) {
        void* library = dlopen(*name, RTLD_NOW);
        if (!library) { printf("%s\n", dlerror()); return 1; }
        value = ((int (*)(int))dlsym(library, "twice"))(value);
    }
    printf("%d %s\n", value, cudaGetErrorName(cudaGetLastError()));
}
