// Several copies to the host in a row, none looked at before the last: in straight code, and in the
// iterations of a loop.
#include "../support.cuh"

__global__ void measure(const int *values, int n, int round, int *least, int *most, long long *sum) {
    if (threadIdx.x == 0) {
        *least = *most = values[0] + round;
        *sum = 0;
        for (int i = 0; i < n; ++i) {
            int value = values[i] + round * (i % 3);
            *least = min(*least, value);
            *most = max(*most, value);
            *sum += value;
        }
    }
}

int main() {
    const int n = 300;
    Random random(8);
    std::vector<int> values(n);
    for (int &value : values) {
        value = static_cast<int>(random.below(1000));
    }
    DeviceArray<int> device_values(values), device_least(1), device_most(1);
    DeviceArray<long long> device_sum(1);

    int least, most;
    long long sum;
    measure<<<1, 32>>>(device_values.get(), n, 0, device_least.get(), device_most.get(), device_sum.get());
    CHECK(cudaMemcpy(&least, device_least.get(), sizeof least, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&most, device_most.get(), sizeof most, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&sum, device_sum.get(), sizeof sum, cudaMemcpyDeviceToHost));
    std::printf("from %d to %d, sum %lld\n", least, most, sum);

    long long total = 0;
    int round = 0;
    while (most - least < 3000) {
        ++round;
        measure<<<1, 32>>>(device_values.get(), n, 5 * round, device_least.get(), device_most.get(), device_sum.get());
        CHECK(cudaMemcpy(&least, device_least.get(), sizeof least, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&most, device_most.get(), sizeof most, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&sum, device_sum.get(), sizeof sum, cudaMemcpyDeviceToHost));
        total += sum;
    }
    long long expected = 0;
    for (int k = 1; k <= round; ++k) {
        for (int i = 0; i < n; ++i) {
            expected += values[i] + 5 * k * (i % 3);
        }
    }
    Verdict verdict;
    verdict.expect(total == expected, "the sum of all sums");
    std::printf("groups_of_reads %d rounds, %lld\n", round, total);
    return verdict.finish();
}
