// Simulated annealing: random numbers by an inline linear congruential generator, moves proposed and refused
// by energies that are read.
#include "../support.cuh"

// The energy that a flip of one spin of a ring would add, in units of the coupling.
__global__ void propose(const int *spins, const int *couplings, int n, int i, int *change) {
    int left = (i + n - 1) % n, right = (i + 1) % n;
    *change = 2 * spins[i] * (couplings[left] * spins[left] + couplings[i] * spins[right]);
}

__global__ void flip(int *spins, int i) { spins[i] = -spins[i]; }

int main() {
    const int n = 200;
    Random random(3);
    std::vector<int> spins(n), couplings(n);
    for (int i = 0; i < n; ++i) {
        spins[i] = random.below(2) ? 1 : -1;
        couplings[i] = random.below(2) ? 1 : -1;
    }
    int energy = 0;
    for (int i = 0; i < n; ++i) {
        energy -= couplings[i] * spins[i] * spins[(i + 1) % n];
    }
    DeviceArray<int> device_spins(spins), device_couplings(couplings);
    int *device_change;
    CHECK(cudaMalloc(&device_change, sizeof(int)));

    unsigned long long seed = 12345;
    double temperature = 4;
    int accepted = 0, steps = 0;
    while (temperature > 0.05 && energy > -n + 4) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        int i = static_cast<int>((seed >> 33) % n);
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        double chance = static_cast<double>(seed >> 11) * 0x1p-53;
        int change;
        propose<<<1, 1>>>(device_spins.get(), device_couplings.get(), n, i, device_change);
        CHECK(cudaMemcpy(&change, device_change, sizeof change, cudaMemcpyDeviceToHost));
        if (change <= 0 || chance * (1 + change / temperature) < 1 - change / (4 * temperature)) {
            flip<<<1, 1>>>(device_spins.get(), i);
            energy += change;
            ++accepted;
        }
        temperature *= 0.998;
        ++steps;
    }
    CHECK_LAUNCH();
    spins = device_spins.download();
    int found = 0;
    for (int i = 0; i < n; ++i) {
        found -= couplings[i] * spins[i] * spins[(i + 1) % n];
    }
    Verdict verdict;
    verdict.expect(found == energy, "the energy that the host has counted");
    verdict.expect(steps > 500 && accepted > 100 && accepted < steps, "a plausible number of moves");
    std::printf("annealing %d steps, %d accepted, energy %d\n", steps, accepted, energy);
    print_checksum("annealing", spins);
    return verdict.finish();
}
