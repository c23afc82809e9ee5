// Training: the loss comes back in each epoch, is printed now and then, and changes the rate; early stopping.
#include "common.cuh"

__global__ void forward(const float *x, const float *w, float *loss, float *gradient, int n) {
    int i = threadIdx.x;
    if (i == 0) *loss = 0, *gradient = 0;
    __syncthreads();
    float error = x[i] * *w - 3 * x[i];
    atomicAdd(loss, error * error / n);
    atomicAdd(gradient, 2 * error * x[i] / n);
}

__global__ void update(float *w, const float *gradient, float rate) {
    *w -= rate * *gradient;
}

int main() {
    const int n = 128, epochs = 200, patience = 5;
    float *x = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; ++i) x[i] = (float)(i % 10) / 10;
    float *d_x = on_device<float>(n), *d_w = on_device<float>(1), *d_loss = on_device<float>(1), *d_gradient = on_device<float>(1);
    CHECK(cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice));
    float rate = 0.5f, best = INFINITY, loss = 0;
    int bad = 0, epoch;
    for (epoch = 0; epoch < epochs; ++epoch) {
        forward<<<1, n>>>(d_x, d_w, d_loss, d_gradient, n);
        update<<<1, 1>>>(d_w, d_gradient, rate);
        CHECK(cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost));
        if (epoch % 10 == 0) printf("epoch %d, loss %.6f\n", epoch, loss);
        if (loss < best - 1e-7f) {
            best = loss;
            bad = 0;
        } else if (++bad >= patience) {
            break;
        }
        if (epoch % 50 == 49) rate *= 0.5f;
    }
    printf("%d epochs\n", epoch);
}
