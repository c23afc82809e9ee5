// All-pairs n-body with tiles of positions in shared memory, several leapfrog steps, float4 loads and rsqrtf.
#include "../support.cuh"

constexpr int BLOCK = 128;
constexpr float SOFTENING = 0.01f;
constexpr float TIME_STEP = 0.005f;

__device__ float3 pull(float3 acceleration, float4 body, float4 other) {
    float dx = other.x - body.x, dy = other.y - body.y, dz = other.z - body.z;
    float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
    float strength = other.w * inverse * inverse * inverse;
    acceleration.x += dx * strength;
    acceleration.y += dy * strength;
    acceleration.z += dz * strength;
    return acceleration;
}

__global__ void advance(const float4 *bodies, float4 *moved, float4 *velocities, int n) {
    __shared__ float4 tile[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    float4 body = i < n ? bodies[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float3 acceleration = make_float3(0.0f, 0.0f, 0.0f);
    for (int start = 0; start < n; start += BLOCK) {
        int j = start + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < BLOCK; ++k) {
            acceleration = pull(acceleration, body, tile[k]);
        }
        __syncthreads();
    }
    if (i < n) {
        float4 velocity = velocities[i];
        velocity.x += acceleration.x * TIME_STEP;
        velocity.y += acceleration.y * TIME_STEP;
        velocity.z += acceleration.z * TIME_STEP;
        velocities[i] = velocity;
        moved[i] = make_float4(body.x + velocity.x * TIME_STEP, body.y + velocity.y * TIME_STEP,
                               body.z + velocity.z * TIME_STEP, body.w);
    }
}

struct Body {
    double position[3], velocity[3], mass;
};

static void advance_reference(std::vector<Body> &bodies) {
    std::vector<Body> before = bodies;
    for (Body &body : bodies) {
        double acceleration[3] = {};
        for (const Body &other : before) {
            double d[3], square = SOFTENING;
            for (int axis = 0; axis < 3; ++axis) {
                d[axis] = other.position[axis] - body.position[axis];
                square += d[axis] * d[axis];
            }
            double strength = other.mass / (square * std::sqrt(square));
            for (int axis = 0; axis < 3; ++axis) {
                acceleration[axis] += d[axis] * strength;
            }
        }
        // `body` still holds its old position here: only its own is changed, once its pull is summed.
        for (int axis = 0; axis < 3; ++axis) {
            body.velocity[axis] += acceleration[axis] * TIME_STEP;
            body.position[axis] += body.velocity[axis] * TIME_STEP;
        }
    }
}

int main() {
    const int n = 500, steps = 4;
    Random random(8);
    std::vector<Body> reference(n);
    std::vector<float4> positions(n), velocities(n);
    for (int i = 0; i < n; ++i) {
        positions[i] = make_float4(static_cast<float>(random.real()) - 0.5f, static_cast<float>(random.real()) - 0.5f,
                                   static_cast<float>(random.real()) - 0.5f, 0.5f + static_cast<float>(random.real()));
        velocities[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        reference[i] = {{positions[i].x, positions[i].y, positions[i].z}, {0.0, 0.0, 0.0}, positions[i].w};
    }
    DeviceArray<float4> a(positions), b(n), device_velocities(velocities);
    float4 *current = a.get(), *next = b.get();
    for (int t = 0; t < steps; ++t) {
        advance<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(current, next, device_velocities.get(), n);
        float4 *swap = current;
        current = next;
        next = swap;
        advance_reference(reference);
    }
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(positions.data(), current, n * sizeof(float4), cudaMemcpyDeviceToHost));
    velocities = device_velocities.download();

    std::vector<float> actual, expected;
    double momentum = 0.0;
    for (int i = 0; i < n; ++i) {
        const float values[6] = {positions[i].x,  positions[i].y,  positions[i].z,
                                 velocities[i].x, velocities[i].y, velocities[i].z};
        for (int axis = 0; axis < 3; ++axis) {
            actual.push_back(values[axis]);
            expected.push_back(static_cast<float>(reference[i].position[axis]));
        }
        for (int axis = 0; axis < 3; ++axis) {
            actual.push_back(values[3 + axis]);
            expected.push_back(static_cast<float>(reference[i].velocity[axis]));
            momentum += values[3 + axis] * positions[i].w;
        }
    }
    Verdict verdict;
    verdict.near(actual, expected, 2e-4, "positions and velocities");
    verdict.expect(std::fabs(momentum) < 1.0, "momentum is kept");
    std::printf("nbody %d bodies, %d steps\n", n, steps);
    return verdict.finish();
}
