// Matrix factorization: the error of each sweep is printed and ends it; the host's zero goes to the device each time.
#include "common.cuh"

typedef float score_t;

__global__ void update(score_t *latents, score_t *squares, score_t step, int users) {
    int user = blockIdx.x * blockDim.x + threadIdx.x;
    if (user >= users) return;
    score_t error = 1 - latents[user];
    latents[user] += step * error, squares[user] = error * error;
}

__global__ void add(const score_t *squares, score_t *error, int users) {
    int user = blockIdx.x * blockDim.x + threadIdx.x;
    if (user < users) atomicAdd(error, squares[user]);
}

int main() {
    const int users = 500, most = 60;
    score_t h_error, epsilon = 0.01f, step = 0.1f;
    score_t *d_latents = on_device<score_t>(users), *d_squares = on_device<score_t>(users), *d_error = on_device<score_t>(1);
    int iteration = 0;
    double start = seconds();
    do {
        ++iteration;
        h_error = 0.0;
        CHECK(cudaMemset(d_squares, 0, users * sizeof(score_t)));
        CHECK(cudaMemcpy(d_error, &h_error, sizeof(score_t), cudaMemcpyHostToDevice));
        update<<<(users + 255) / 256, 256>>>(d_latents, d_squares, step, users);
        CHECK(cudaDeviceSynchronize());
        add<<<(users + 255) / 256, 256>>>(d_squares, d_error, users);
        CHECK(cudaMemcpy(&h_error, d_error, sizeof(score_t), cudaMemcpyDeviceToHost));
        printf("iteration %d: error = %f\n", iteration, sqrt(h_error / users));
    } while (iteration < most && h_error > epsilon);
    fprintf(stderr, "%f s\n", seconds() - start);
}
