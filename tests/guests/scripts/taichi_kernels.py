"""What Taichi compiles to PTX: fields, sparse fields, matrices, arrays of NumPy, random numbers, gradients, printing."""

import numpy
import taichi as ti

ti.init(arch=ti.cuda, random_seed=1, log_level=ti.ERROR)
assert ti.cfg.arch == ti.cuda

COUNT = 1000
values, total = ti.field(ti.f32, shape=COUNT), ti.field(ti.f32, shape=())


@ti.kernel
def fill():
    for i in values:
        values[i] = i * 2.0


@ti.kernel
def add_up() -> ti.f32:
    found = 0.0
    for i in values:
        found += values[i]
    return found


fill()
assert add_up() == COUNT * (COUNT - 1)
print("sum")

cells, active = ti.field(ti.i32), ti.field(ti.i32, shape=())
ti.root.pointer(ti.ij, (8, 8)).dense(ti.ij, (4, 4)).place(cells)


@ti.kernel
def activate():
    cells[2, 3] = 1
    cells[5, 6] = 2
    cells[31, 31] = 7


@ti.kernel
def count():
    for _i, _j in cells:
        active[None] += 1


activate()
count()
assert (active[None], cells[31, 31]) == (3 * 16, 7)
print("sparse")

matrices, results = ti.Matrix.field(3, 3, ti.f32, shape=4), ti.field(ti.f32, shape=4)


@ti.kernel
def decompose():
    for i in matrices:
        matrices[i] = ti.Matrix([[i + 1.0, 0, 0], [0, 2, 0], [0, 0, 3.0]])
        results[i] = matrices[i].determinant() + matrices[i].inverse().trace()


decompose()
numpy.testing.assert_allclose(results.to_numpy(), [6 * n + 1 / n + 5 / 6 for n in range(1, 5)], rtol=1e-6)
print("matrices")


@ti.kernel
def triple(source: ti.types.ndarray(), target: ti.types.ndarray()):  # type: ignore[valid-type]
    for i in range(source.shape[0]):
        target[i] = source[i] * 3


given, got = numpy.arange(10.0), numpy.zeros(10)
triple(given, got)
numpy.testing.assert_array_equal(got, given * 3)
print("arrays")

noise = ti.field(ti.f32, shape=100_000)


@ti.kernel
def draw():
    for i in noise:
        noise[i] = ti.random()


draw()
drawn = noise.to_numpy()
assert abs(drawn.mean() - 0.5) < 0.01
assert abs(drawn.std() - 12**-0.5) < 0.01
print("random")

at, loss = ti.field(ti.f32, shape=5, needs_grad=True), ti.field(ti.f32, shape=(), needs_grad=True)


@ti.kernel
def squares():
    for i in at:
        loss[None] += at[i] ** 2


for i in range(5):
    at[i] = i
with ti.ad.Tape(loss=loss):
    squares()
numpy.testing.assert_allclose(at.grad.to_numpy(), 2.0 * numpy.arange(5))
print("gradient")


@ti.kernel
def say(what: ti.i32):
    print("from a kernel:", what)


def printed():
    say(7)
    ti.sync()


printed()
