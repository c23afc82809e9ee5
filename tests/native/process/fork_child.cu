// fork: a child made before CUDA is used may use it; a child of a process that has used it gets an error and does no harm.
#include <sys/wait.h>
#include <unistd.h>

#include "../support.cuh"

__global__ void fill(int *data, int value) { data[threadIdx.x] = value + threadIdx.x; }

static bool use(int value) {
    int *device = nullptr, host[64] = {};
    if (cudaMalloc(&device, sizeof host) != cudaSuccess) {
        return false;
    }
    fill<<<1, 64>>>(device, value);
    bool right = cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess;
    cudaFree(device);
    for (int i = 0; i < 64; ++i) {
        right = right && host[i] == value + i;
    }
    return right;
}

// The status with which `body` returned in a child process.
template <typename Body> static int in_child(Body body) {
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int status = body();
        std::fflush(stdout);
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main() {
    Verdict verdict;
    verdict.expect(in_child([] { return use(100) ? 11 : 12; }) == 11, "a child before the parent's first use");

    int *kept = nullptr;
    CHECK(cudaMalloc(&kept, 64 * sizeof(int)));
    fill<<<1, 64>>>(kept, 5);
    CHECK_LAUNCH();

    // Work is pending in the parent while the child tries.
    verdict.expect(in_child([] {
                       void *pointer = nullptr;
                       cudaError_t error = cudaMalloc(&pointer, 64);
                       cudaError_t again = cudaDeviceSynchronize();
                       return error == cudaErrorInitializationError && again == cudaErrorInitializationError ? 21 : 22;
                   }) == 21,
                   "a child after the parent's first use gets cudaErrorInitializationError");

    // A child that leaves through exit() runs destructors and handlers registered by the parent.
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        std::exit(31);
    }
    int status = 0;
    waitpid(child, &status, 0);
    verdict.expect(WIFEXITED(status) && WEXITSTATUS(status) == 31, "a child that only exits");

    int host[64] = {};
    CHECK(cudaMemcpy(host, kept, sizeof host, cudaMemcpyDeviceToHost));
    verdict.expect(host[0] == 5 && host[63] == 68, "the parent's work is unharmed");
    verdict.expect(use(1000), "the parent goes on");
    CHECK(cudaFree(kept));
    std::printf("fork_child\n");
    return verdict.finish();
}
