// Newton's method: value and slope come back in a structure.
#include "common.cuh"

struct Sample {
    double value, slope;
};

__global__ void evaluate(double x, Sample *out) {
    out->value = x * x * x - 2 * x - 5;
    out->slope = 3 * x * x - 2;
}

int main() {
    Sample *d = on_device<Sample>(1), h;
    double x = 3, change;
    int steps = 0;
    for (;;) {
        evaluate<<<1, 1>>>(x, d);
        CHECK(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
        change = h.value / h.slope;
        x -= change;
        if (++steps > 50 || fabs(change) < 1e-12) break;
    }
    printf("%d %.12f\n", steps, x);
}
