// A 7-point stencil in three dimensions: pitched 3-D memory, boxes copied in and out of it, 3-D grids and blocks, registers along z.
#include "../support.cuh"

constexpr int X = 36, Y = 20, Z = 18;

__global__ void step(cudaPitchedPtr from, cudaPitchedPtr to) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= X - 1 || y >= Y - 1) {
        return;
    }
    const auto at = [&](const cudaPitchedPtr &p, int xx, int yy, int zz) -> int & {
        return reinterpret_cast<int *>(static_cast<char *>(p.ptr) + (size_t(zz) * Y + yy) * p.pitch)[xx];
    };
    int below = at(from, x, y, 0), here = at(from, x, y, 1);
    for (int z = 1; z < Z - 1; ++z) {
        const int above = at(from, x, y, z + 1);
        at(to, x, y, z) = (above + below + at(from, x - 1, y, z) + at(from, x + 1, y, z) + at(from, x, y - 1, z) +
                           at(from, x, y + 1, z) - 5 * here) % 10007;
        below = here, here = above;
    }
}

static int index(int x, int y, int z) { return (z * Y + y) * X + x; }

int main() {
    Verdict verdict;
    std::vector<int> values(X * Y * Z), next;
    Random random(33);
    for (int &value : values) {
        value = int(random.below(1000));
    }
    const cudaExtent extent = make_cudaExtent(X * sizeof(int), Y, Z);
    cudaPitchedPtr one, two;
    CHECK(cudaMalloc3D(&one, extent));
    CHECK(cudaMalloc3D(&two, extent));
    CHECK(cudaMemset3D(two, 0xFF, extent));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(values.data(), X * sizeof(int), X, Y);
    copy.dstPtr = one;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    copy.dstPtr = two;
    CHECK(cudaMemcpy3D(&copy));
    for (int turn = 0; turn < 6; ++turn) {
        step<<<dim3((X + 15) / 16, (Y + 7) / 8), dim3(16, 8)>>>(turn % 2 ? two : one, turn % 2 ? one : two);
        next = values;
        for (int z = 1; z < Z - 1; ++z) {
            for (int y = 1; y < Y - 1; ++y) {
                for (int x = 1; x < X - 1; ++x) {
                    next[index(x, y, z)] = (values[index(x, y, z + 1)] + values[index(x, y, z - 1)] + values[index(x - 1, y, z)] +
                                            values[index(x + 1, y, z)] + values[index(x, y - 1, z)] + values[index(x, y + 1, z)] -
                                            5 * values[index(x, y, z)]) % 10007;
                }
            }
        }
        values.swap(next);
    }
    CHECK_LAUNCH();
    std::vector<int> result(X * Y * Z), box(10 * 6 * 4), part;
    cudaMemcpy3DParms back = {};
    back.srcPtr = one;
    back.dstPtr = make_cudaPitchedPtr(result.data(), X * sizeof(int), X, Y);
    back.extent = extent;
    back.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&back));
    verdict.equal(result, values, "volume");
    back.dstPtr = make_cudaPitchedPtr(box.data(), 10 * sizeof(int), 10, 6);
    back.srcPos = make_cudaPos(5 * sizeof(int), 3, 7);
    back.extent = make_cudaExtent(10 * sizeof(int), 6, 4);
    CHECK(cudaMemcpy3D(&back));
    for (int i = 0; i < 240; ++i) {
        part.push_back(values[index(5 + i % 10, 3 + i / 10 % 6, 7 + i / 60)]);
    }
    verdict.equal(box, part, "box");
    CHECK(cudaFree(one.ptr));
    CHECK(cudaFree(two.ptr));
    print_checksum("stencil3d", values);
    return verdict.finish();
}
