// Conjugate gradient as in textbooks: both dot products are read in every iteration, alpha and beta are
// computed on the host.
#include "system.cuh"

int main() {
    const int side = 24, n = side * side, blocks = (n + BLOCK - 1) / BLOCK;
    const double diagonal = 4.2;
    const std::vector<double> solution = chosen_solution(n), right = right_side(solution, diagonal, side);
    const size_t bytes = n * sizeof(double);
    double *x, *r, *p, *ap, *scalar;
    CHECK(cudaMalloc(&x, bytes));
    CHECK(cudaMalloc(&r, bytes));
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMalloc(&ap, bytes));
    CHECK(cudaMalloc(&scalar, sizeof(double)));
    CHECK(cudaMemset(x, 0, bytes));
    CHECK(cudaMemcpy(r, right.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(p, r, bytes, cudaMemcpyDeviceToDevice));

    double rr, pap, next;
    dot<<<1, BLOCK>>>(r, r, scalar, n);
    CHECK(cudaMemcpy(&rr, scalar, sizeof rr, cudaMemcpyDeviceToHost));
    const double first = rr;
    int iterations = 0;
    while (sqrt(rr) > 1e-10 * sqrt(first) && iterations < 1000) {
        multiply<<<blocks, BLOCK>>>(p, ap, diagonal, side);
        dot<<<1, BLOCK>>>(p, ap, scalar, n);
        CHECK(cudaMemcpy(&pap, scalar, sizeof pap, cudaMemcpyDeviceToHost));
        double alpha = rr / pap;
        add_scaled<<<blocks, BLOCK>>>(x, p, alpha, n);
        add_scaled<<<blocks, BLOCK>>>(r, ap, -alpha, n);
        dot<<<1, BLOCK>>>(r, r, scalar, n);
        CHECK(cudaMemcpy(&next, scalar, sizeof next, cudaMemcpyDeviceToHost));
        double beta = next / rr;
        scale_add<<<blocks, BLOCK>>>(p, r, beta, n);
        rr = next;
        ++iterations;
    }
    CHECK_LAUNCH();
    std::vector<double> found(n);
    CHECK(cudaMemcpy(found.data(), x, bytes, cudaMemcpyDeviceToHost));
    Verdict verdict;
    verdict.near(found, solution, 1e-7, "solution");
    verdict.expect(iterations > 20 && iterations < 200, "a plausible number of iterations");
    std::printf("cg_host converged\n");
    return verdict.finish();
}
