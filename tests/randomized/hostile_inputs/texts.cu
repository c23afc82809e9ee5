// Loads each file, launches its kernel `k`, and says what came of it and how long that took; in the end a good module still runs.
#include <time.h>

#include "driver.h"

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
    begin();
    CUmodule module;
    CUfunction function;
    for (int index = 1; index < argc; index++) {
        double start = now();
        int loaded = cuModuleLoad(&module, argv[index]), found = -1, launched = -1, done = -1;
        if (!loaded) found = cuModuleGetFunction(&function, module, "k");
        if (!loaded && !found) {
            launched = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
            done = cuCtxSynchronize();
        }
        if (!loaded) OK(cuModuleUnload(module));
        printf("%s %d %d %d %d %.3f\n", strrchr(argv[index], '/') + 1, loaded, found, launched, done, now() - start);
        fflush(stdout);
    }
    CUdeviceptr data;
    int value = 5, results[32];
    OK(cuMemAlloc(&data, sizeof results));
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&function, module, "fill"));
    void* parameters[] = {&data, &value};
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH(results, data, sizeof results));
    for (int index = 0; index < 32; index++) EXPECT(results[index] == value + index);
    printf("PASS\n");
    return 0;
}
