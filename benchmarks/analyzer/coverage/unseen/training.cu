// Epochs of batches: the loss of each batch is added up, a bad run of epochs halves the rate, then ends it.
#include "common.cuh"

__global__ void train(const float *data, const float *labels, float *weight, float rate, float *loss, int n) {
    float gradient = 0, total = 0;
    for (int i = 0; i < n; ++i) {
        float error = *weight * data[i] - labels[i];
        gradient += error * data[i], total += error * error;
    }
    *weight -= rate * gradient / n, *loss = total / n;
}

static float batch(const float *data, const float *labels, float *weight, float rate, int n) {
    float *d_loss, h_loss = -1;
    cudaMalloc(&d_loss, sizeof(float));
    cudaMemset(d_loss, 0, sizeof(float));
    train<<<1, 1>>>(data, labels, weight, rate, d_loss, n);
    cudaMemcpy(&h_loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_loss);
    return h_loss;
}

int main() {
    const int samples = 256, size = 64;
    std::vector<float> data(samples), labels(samples);
    for (int i = 0; i < samples; ++i) data[i] = (i % 11) / 11.0f, labels[i] = 2 * data[i] + (i % 3) * 0.01f;
    float *d_data = on_device<float>(samples), *d_labels = on_device<float>(samples), *d_weight = on_device<float>(1);
    CHECK(cudaMemcpy(d_data, data.data(), samples * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_labels, labels.data(), samples * 4, cudaMemcpyHostToDevice));
    float best = INFINITY, rate = 0.5f;
    int bad = 0, epoch = 0;
    for (; epoch < 50 && bad < 5; ++epoch) {
        float loss = 0;
        for (int start = 0; start < samples; start += size)
            loss += batch(d_data + start, d_labels + start, d_weight, rate, size);
        printf("epoch %d: loss %.6f\n", epoch, loss);
        if (loss < best) best = loss, bad = 0;
        else bad++, rate *= 0.5f;
    }
    printf("%d epochs, %g\n", epoch, best);
}
