// Results that are fetched by several copies in a row, as programs do at their end: values, arrays, columns, by either way.
#include <algorithm>

#include "../support.cuh"

__global__ void results(const float *data, int n, float *sums, int *places, double *moments) {
    int column = threadIdx.x;
    float sum = 0, most = data[column];
    int place = 0;
    for (int row = 0; row < n; ++row) {
        float value = data[row * blockDim.x + column];
        sum += value;
        if (value > most) most = value, place = row;
    }
    sums[column] = sum, places[column] = place;
    moments[column] = (double)sum * sum;
}

struct Results {
    std::vector<float> sums;
    std::vector<int> places;
    std::vector<double> moments;
};

static void fetch(Results &to, const float *sums, const int *places, const double *moments, int columns) {
    CHECK(cudaMemcpy(to.sums.data(), sums, columns * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(to.places.data(), places, columns * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(to.moments.data(), moments, columns * sizeof(double), cudaMemcpyDeviceToHost));
}

int main() {
    Verdict verdict;
    const int rows = 50, columns = 32;
    std::vector<float> data(rows * columns);
    for (int i = 0; i < rows * columns; ++i) data[i] = (i * 37) % 101;
    float *d_data, *d_sums;
    int *d_places;
    double *d_moments;
    CHECK(cudaMalloc(&d_data, data.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_sums, columns * sizeof(float)));
    CHECK(cudaMalloc(&d_places, columns * sizeof(int)));
    CHECK(cudaMalloc(&d_moments, columns * sizeof(double)));
    CHECK(cudaMemcpy(d_data, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));
    Results held{std::vector<float>(columns), std::vector<int>(columns), std::vector<double>(columns)};
    for (int n = 10; n <= rows; n += 20) {
        results<<<1, columns>>>(d_data, n, d_sums, d_places, d_moments);
        CHECK(cudaGetLastError());
        fetch(held, d_sums, d_places, d_moments, columns);
        float first, last;
        CHECK(cudaMemcpy(&first, d_sums, sizeof first, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&last, d_sums + columns - 1, sizeof last, cudaMemcpyDeviceToHost));
        verdict.expect(first == held.sums[0] && last == held.sums[columns - 1], "single values");
        for (int column = 0; column < columns; ++column) {
            float sum = 0;
            int place = 0;
            for (int row = 0; row < n; ++row) {
                sum += data[row * columns + column];
                if (data[row * columns + column] > data[place * columns + column]) place = row;
            }
            verdict.expect(held.sums[column] == sum && held.places[column] == place, "sums and places");
            verdict.expect(held.moments[column] == (double)sum * sum, "moments");
        }
    }
    float held_sums[columns];
    int held_places[columns];
    CHECK(cudaMemcpyAsync(held_sums, d_sums, sizeof held_sums, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyAsync(held_places, d_places, sizeof held_places, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    verdict.expect(std::equal(held_sums, held_sums + columns, held.sums.begin()), "asynchronous sums");
    verdict.expect(std::equal(held_places, held_places + columns, held.places.begin()), "asynchronous places");
    printf("rows_of_copies %g %d\n", held_sums[3], held_places[3]);
    return verdict.finish();
}
