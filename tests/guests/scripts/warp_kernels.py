"""What NVIDIA Warp compiles by its own NVRTC: kernels, atomics, vectors, gradients, streams, graphs, tiles, meshes, hash grids."""

from __future__ import annotations

import numpy
import warp as wp

wp.config.quiet = True
wp.init()
assert wp.is_cuda_available()
wp.set_device("cuda:0")


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def total(x: wp.array(dtype=float), s: wp.array(dtype=float)):  # type: ignore[valid-type]
    wp.atomic_add(s, 0, x[wp.tid()])


COUNT = 1000
numbers = numpy.arange(COUNT, dtype=numpy.float32)
x, y, s = wp.array(numbers), wp.ones(COUNT, dtype=float), wp.zeros(1, dtype=float)
wp.launch(saxpy, dim=COUNT, inputs=[x, y, 2.0])
wp.launch(total, dim=COUNT, inputs=[y, s])
numpy.testing.assert_array_equal(y.numpy(), 2 * numbers + 1)
numpy.testing.assert_allclose(s.numpy(), [COUNT * COUNT])
print("kernels")


@wp.kernel
def lengths(points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    rotated = wp.quat_rotate(wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5), points[i])
    out[i] = wp.length(rotated)


rng = numpy.random.default_rng(1)
cloud = rng.random((64, 3), dtype=numpy.float32)
points, out = wp.array(cloud, dtype=wp.vec3, requires_grad=True), wp.zeros(64, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(lengths, dim=64, inputs=[points], outputs=[out])
norms = numpy.linalg.norm(cloud, axis=1)
numpy.testing.assert_allclose(out.numpy(), norms, rtol=1e-5)
tape.backward(grads={out: wp.ones(64, dtype=float)})
numpy.testing.assert_allclose(points.grad.numpy(), cloud / norms[:, None], rtol=1e-4, atol=1e-5)
print("gradients")

with wp.ScopedCapture() as capture:
    for _ in range(4):
        wp.launch(saxpy, dim=COUNT, inputs=[x, y, 1.0])
y.zero_()
for _ in range(3):
    wp.capture_launch(capture.graph)
numpy.testing.assert_array_equal(y.numpy(), 12 * numbers)
print("graph")

stream = wp.Stream()
with wp.ScopedStream(stream):
    pinned = wp.array(numbers, device="cpu", pinned=True)
    copy = wp.empty(COUNT, dtype=float)
    wp.copy(copy, pinned)
wp.synchronize_stream(stream)
numpy.testing.assert_array_equal(copy.numpy(), numbers)
print("stream")

TILE = 16


@wp.kernel
def products(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):  # type: ignore[valid-type]
    i, j = wp.tid()
    accumulated = wp.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range(a.shape[1] // TILE):
        left = wp.tile_load(a, shape=(TILE, TILE), offset=(i * TILE, k * TILE))
        right = wp.tile_load(b, shape=(TILE, TILE), offset=(k * TILE, j * TILE))
        wp.tile_matmul(left, right, accumulated)
    wp.tile_store(c, accumulated, offset=(i * TILE, j * TILE))


a, b = (rng.random((64, 64), dtype=numpy.float32) for _ in range(2))
c = wp.zeros((64, 64), dtype=float)
wp.launch_tiled(products, dim=(4, 4), inputs=[wp.array(a), wp.array(b), c], block_dim=64)
numpy.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
print("tiles")


@wp.kernel
def neighbours(grid: wp.uint64, at: wp.array(dtype=wp.vec3), radius: float, found: wp.array(dtype=int)):  # type: ignore[valid-type]
    i = wp.tid()
    near = int(0)  # noqa: RUF046, UP018  (Warp: a variable, not a constant)
    for j in wp.hash_grid_query(grid, at[i], radius):
        if wp.length(at[i] - at[j]) <= radius:
            near += 1
    found[i] = near


grid, found = wp.HashGrid(16, 16, 16), wp.zeros(64, dtype=int)
grid.build(points, 0.3)
wp.launch(neighbours, dim=64, inputs=[grid.id, points, 0.3, found])
apart = numpy.linalg.norm(cloud[:, None] - cloud[None], axis=2)
numpy.testing.assert_array_equal(found.numpy(), (apart <= 0.3).sum(axis=1))
print("hash grid")


@wp.kernel
def closest(mesh: wp.uint64, at: wp.array(dtype=wp.vec3), distance: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    query = wp.mesh_query_point_no_sign(mesh, at[i], 10.0)
    distance[i] = wp.length(at[i] - wp.mesh_eval_position(mesh, query.face, query.u, query.v))


corners = wp.array(numpy.array([[0, 0, 0], [2, 0, 0], [0, 2, 0], [2, 2, 0]], dtype=numpy.float32), dtype=wp.vec3)
mesh = wp.Mesh(points=corners, indices=wp.array([0, 1, 2, 1, 3, 2], dtype=int))
distance = wp.zeros(64, dtype=float)
wp.launch(closest, dim=64, inputs=[mesh.id, points, distance])
numpy.testing.assert_allclose(distance.numpy(), cloud[:, 2], atol=1e-6)  # the square lies below all of them
print("mesh")

keys, order = wp.array(rng.permutation(200).astype(numpy.int32)), wp.array(numpy.arange(200, dtype=numpy.int32))
wide_keys, wide_order = wp.zeros(400, dtype=int), wp.zeros(400, dtype=int)
wp.copy(wide_keys, keys)
wp.copy(wide_order, order)
wp.utils.radix_sort_pairs(wide_keys, wide_order, 200)
numpy.testing.assert_array_equal(wide_keys.numpy()[:200], numpy.arange(200))
numpy.testing.assert_array_equal(keys.numpy()[wide_order.numpy()[:200]], numpy.arange(200))
print("sort")
