// Conjugate gradient with its scalars on the device; the host reads the residual's square in each iteration
// to decide whether it goes on.
#include "system.cuh"

// scalars: r.r, p.Ap, the next r.r, alpha, -alpha, beta.
__global__ void find_alpha(double *scalars) {
    scalars[3] = scalars[0] / scalars[1];
    scalars[4] = -scalars[3];
}

__global__ void find_beta(double *scalars) {
    scalars[5] = scalars[2] / scalars[0];
    scalars[0] = scalars[2];
}

__global__ void add_by(double *y, const double *x, const double *factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += *factor * x[i];
    }
}

__global__ void scale_by(double *y, const double *x, const double *factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] + *factor * y[i];
    }
}

static int solve(double *x, double *r, double *p, double *ap, double *scalars, double diagonal, int side) {
    const int n = side * side, blocks = (n + BLOCK - 1) / BLOCK;
    double square, target;
    dot<<<1, BLOCK>>>(r, r, scalars, n);
    CHECK(cudaMemcpy(&square, scalars, sizeof square, cudaMemcpyDeviceToHost));
    target = square * 1e-20;
    int k;
    for (k = 0; k < 1000; ++k) {
        multiply<<<blocks, BLOCK>>>(p, ap, diagonal, side);
        dot<<<1, BLOCK>>>(p, ap, scalars + 1, n);
        find_alpha<<<1, 1>>>(scalars);
        add_by<<<blocks, BLOCK>>>(x, p, scalars + 3, n);
        add_by<<<blocks, BLOCK>>>(r, ap, scalars + 4, n);
        dot<<<1, BLOCK>>>(r, r, scalars + 2, n);
        find_beta<<<1, 1>>>(scalars);
        scale_by<<<blocks, BLOCK>>>(p, r, scalars + 5, n);
        CHECK(cudaMemcpy(&square, scalars, sizeof square, cudaMemcpyDeviceToHost));
        if (square < target) break;
    }
    return k;
}

int main() {
    const int side = 24, n = side * side;
    const double diagonal = 4.2;
    const std::vector<double> solution = chosen_solution(n), right = right_side(solution, diagonal, side);
    DeviceArray<double> x(n), r(right), p(right), ap(n), scalars(6);
    x.zero();
    int iterations = solve(x.get(), r.get(), p.get(), ap.get(), scalars.get(), diagonal, side);
    Verdict verdict;
    verdict.near(x.download(), solution, 1e-7, "solution");
    verdict.expect(iterations > 20 && iterations < 200, "a plausible number of iterations");
    std::printf("cg_device converged\n");
    return verdict.finish();
}
