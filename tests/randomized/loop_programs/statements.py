"""Statements with CUDA calls. Owns the table `STATEMENTS`: kind -> function that writes one such statement into a scope.

Few statements overwrite a whole buffer: what a lost call left undone must not be covered up.

What keeps a program free of races: a stream works on its own group's buffers; the default stream, which waits for the
others and is waited for, on any; the host reads what an asynchronous copy delivers after a synchronization only.
"""

from __future__ import annotations

from collections.abc import Callable

from loop_programs.scope import Scope

KERNELS = ("add", "twist", "blend", "gather", "stencil", "poke", "shape", "digest", "total", "widths", "structure")


def launch(scope: Scope) -> None:
    """A launch of any kernel; sometimes the error is asked for behind it."""
    kernel = scope.random.choice((*KERNELS, "add", "blend", "poke", "constant_memory", "scratch"))
    if kernel == "constant_memory" and scope.threaded:
        kernel = "twist"  # one table for all threads: their copies to it would race
    n = scope.n
    stream, (a, b) = scope.placed(2)
    block = scope.random.choice([32, 64, 128])
    grid = f"{(n + block - 1) // block}u"
    shared = "0"
    match kernel:
        case "add" | "scratch":
            arguments = f"{a}, {n}u, {scope.value()}"
        case "twist" | "constant_memory":
            arguments = f"{a}, {n}u"
        case "blend":
            arguments = f"{a}, {b}, {n}u, {scope.value()}"
        case "gather":
            arguments = f"{a}, {b}, {n}u, {scope.value()}"
        case "stencil":
            arguments = f"{a}, {b}, {n}u"
        case "poke":
            arguments, grid, block = f"{a}, {scope.index()}, {scope.value()}", "1u", 1
        case "shape":
            arguments = f"{a}, {scope.index()}"
            grid, block = f"dim3({scope.value(1)} % 5u + 1u, {scope.below(3) + 1}u)", scope.random.choice([1, 32, 96])
        case "digest":
            arguments, grid, block = f"{a}, {n}u, {b}, {scope.index()}", "1u", 1
        case "total":
            arguments = f"{a}, {n}u, {b} + {scope.index()}"
        case "widths":
            values = [scope.value(1) for _ in range(3)]
            arguments = f"{a}, {n}u, u16({values[0]}), u8({values[1]}), u64({values[2]}) * 1000003u, float({scope.value(1)} % 4096u)"
        case _:
            parameters = f"Parameters{{{a}, {n}u, u16({scope.value(1)}), u64({scope.value(1)}) << 7}}"
            arguments = f"{parameters}, {scope.value(1)}"
    if kernel == "scratch":
        shared = f"{block} * sizeof(u32)" if scope.chance(0.7) else f"({block} + {scope.value(1)} % 32u) * sizeof(u32)"
    scope.call(f"LAUNCH({kernel}, {grid}, {block}, {shared}, {stream}, {arguments});")
    if scope.chance(0.25):
        scope.checked(scope.random.choice(["cudaGetLastError()", "cudaPeekAtLastError()"]))


def memset(scope: Scope) -> None:
    stream, (a,) = scope.placed(1)
    start = scope.below(scope.n // 2)
    size = scope.random.choice([0, 4, 20, 64])
    value = f"int({scope.value(1)} & 255u)"
    if stream == "0" and scope.chance(0.5):
        scope.checked(f"cudaMemset({a} + {start}, {value}, {min(size, 4 * (scope.n - start))})")
    else:
        scope.checked(f"cudaMemsetAsync({a} + {start}, {value}, {min(size, 4 * (scope.n - start))}, {stream})")


def to_device_scalar(scope: Scope) -> None:
    """One value from the stack, which changes afterwards."""
    name = scope.name("given")
    with scope.braces("") as inner:
        inner.write(f"u32 {name} = {inner.value()};")
        inner.checked(f"cudaMemcpy({inner.buffer()} + {inner.index()}, &{name}, sizeof {name}, cudaMemcpyHostToDevice)")
        inner.write(f"{name} = 0;")


def to_device_array(scope: Scope) -> None:
    """A host array, changed before or behind the copy, or always the same."""
    array = scope.random.choice(scope.arrays)
    if scope.chance(0.5):
        scope.write(f"{array}[{scope.index()}] += {scope.value()};")
    count = scope.random.choice([1, 7, scope.n // 2])
    if scope.chance(0.7):
        call = f"cudaMemcpy({scope.buffer()}, {array}, {4 * count}, cudaMemcpyHostToDevice)"
    else:
        stream, (a,) = scope.placed(1)
        call = f"cudaMemcpyAsync({a}, {array}, {4 * count}, cudaMemcpyHostToDevice, {stream})"
    scope.checked(call)
    if scope.chance(0.5):
        scope.write(f"{array}[{scope.index()}] ^= {scope.value()};")


def to_device_row(scope: Scope) -> None:
    """A window of a host array that moves with the loop."""
    array = scope.random.choice(scope.arrays)
    width = scope.n // 4
    start = f"{scope.value(1)} % {scope.n - width}u"
    scope.checked(f"cudaMemcpy({scope.buffer()}, {array} + {start}, {4 * width}, cudaMemcpyHostToDevice)")


def device_to_device(scope: Scope) -> None:
    stream, (a, b) = scope.placed(2)
    count = scope.random.choice([1, scope.n // 5, scope.n // 3])
    start = f"{scope.value(1)} % {scope.n - count + 1}u"
    if scope.chance(0.5):
        call = f"cudaMemcpyAsync({a} + {start}, {b}, {4 * count}, cudaMemcpyDeviceToDevice, {stream})"
    elif scope.chance(0.5) and scope.n % 8 == 0:
        half = scope.n // 8
        call = (
            f"cudaMemcpy2D({a}, {4 * half}, {b}, {8 * half}, {4 * half}, 4, cudaMemcpyDeviceToDevice)"
            if stream == "0"
            else f"cudaMemcpyAsync({a}, {b}, {4 * half}, cudaMemcpyDeviceToDevice, {stream})"
        )
    else:
        call = f"cudaMemcpy({a} + {start}, {b}, {4 * count}, cudaMemcpyDeviceToDevice)"
    scope.checked(call)


def read_value(scope: Scope) -> None:
    """One value to the host, used at once, now and then, or never."""
    if not scope.values:
        return read_unused(scope)
    target = scope.random.choice(scope.values)
    scope.checked(f"cudaMemcpy(&{target}, {scope.buffer()} + {scope.index()}, sizeof {target}, cudaMemcpyDeviceToHost)")
    use = scope.below(4)
    if use == 0:
        scope.write(f'out.line("{scope.name("v")} %08x\\n", {target});')
    elif use == 1 and scope.loops:
        with scope.braces(f"if ({scope.loops[-1]} % 3u == 1u)") as inner:
            inner.write(f'out.line("{scope.name("v")} %08x\\n", {target});')
    elif use == 2:
        arguments = f"{scope.buffer()}, {scope.n}u, {target}"
        scope.call(f"LAUNCH(add, {(scope.n + 63) // 64}u, 64, 0, 0, {arguments});")


def read_array(scope: Scope) -> None:
    """A whole buffer to the host, whose hash is printed at once, sometimes, or behind the loop by whoever prints the array."""
    array = scope.random.choice(scope.arrays)
    scope.checked(f"cudaMemcpy({array}, {scope.buffer()}, {4 * scope.n}, cudaMemcpyDeviceToHost)")
    if scope.chance(0.3):
        scope.write(f'out.line("{scope.name("h")} %08x\\n", hash_of({array}, {scope.n}u));')
    elif scope.chance(0.3):
        with scope.braces(f"if ({scope.condition()})") as inner:
            inner.write(f'out.line("{scope.name("h")} %08x\\n", hash_of({array}, {scope.n}u));')
    elif scope.values and scope.chance(0.5):
        target = scope.random.choice(scope.values)
        scope.write(f"{target} = {target} * 31u + hash_of({array}, {scope.n}u);")


def read_element(scope: Scope) -> None:
    """One value into a place of a host array that moves with the loop; read behind the loop."""
    array = scope.random.choice(scope.arrays)
    scope.checked(
        f"cudaMemcpy({array} + {scope.index()}, {scope.buffer()} + {scope.index()}, sizeof(u32), cudaMemcpyDeviceToHost)"
    )


def read_counted(scope: Scope) -> None:
    """One value to the host, which joins a sum: every copy shows at the end."""
    if not scope.values:
        return read_unused(scope)
    target = scope.random.choice(scope.values)
    with scope.braces("") as inner:
        inner.write("u32 got;")
        inner.checked(f"cudaMemcpy(&got, {inner.buffer()} + {inner.index()}, sizeof got, cudaMemcpyDeviceToHost)")
        inner.write(f"{target} = {target} * 31u + got;")


def read_unused(scope: Scope) -> None:
    """A copy to the host that nobody reads."""
    with scope.braces("") as inner:
        name = inner.name("unused")
        inner.write(f"u32 {name}[4];")
        inner.checked(f"cudaMemcpy({name}, {inner.buffer()}, sizeof {name}, cudaMemcpyDeviceToHost)")


def read_asynchronously(scope: Scope) -> None:
    """To pageable or page-locked memory, synchronized, then read."""
    stream, (a,) = scope.placed(1)
    to = scope.random.choice(scope.pinned or scope.arrays)
    scope.checked(f"cudaMemcpyAsync({to}, {a}, {4 * (scope.n // 2)}, cudaMemcpyDeviceToHost, {stream})")
    if scope.chance(0.4):
        scope.call(f"LAUNCH(twist, {(scope.n + 63) // 64}u, 64, 0, {stream}, {a}, {scope.n}u);")
    scope.checked("cudaDeviceSynchronize()" if scope.chance(0.3) else f"cudaStreamSynchronize({stream})")
    if scope.values and scope.chance(0.6):
        scope.write(f"{scope.random.choice(scope.values)} += {to}[{scope.below(scope.n // 2)}];")


def read_rectangle(scope: Scope) -> None:
    """A pitched copy, to the device or to the host."""
    width = scope.n // 8
    array, a = scope.random.choice(scope.arrays), scope.buffer()
    if scope.chance(0.5):
        scope.checked(f"cudaMemcpy2D({array}, {4 * width}, {a}, {8 * width}, {4 * width}, 4, cudaMemcpyDeviceToHost)")
    else:
        scope.checked(f"cudaMemcpy2D({a}, {8 * width}, {array}, {4 * width}, {4 * width}, 3, cudaMemcpyHostToDevice)")


def synchronize(scope: Scope) -> None:
    stream, _ = scope.placed(1)
    scope.checked(
        scope.random.choice(["cudaDeviceSynchronize()", "cudaDeviceSynchronize()", f"cudaStreamSynchronize({stream})"])
    )
    if stream != "0" and scope.chance(0.4):
        scope.checked(f"cudaStreamSynchronize({stream})")
        scope.checked(f"cudaStreamQuery({stream})")
    elif scope.chance(0.2):
        scope.checked("cudaGetLastError()")


def temporary_memory(scope: Scope) -> None:
    """Allocate, use, free: results that later calls depend on."""
    with scope.braces("") as inner:
        name, n = inner.name("fresh"), inner.n
        asynchronous = inner.chance(0.3)
        inner.write(f"u32 *{name} = nullptr;")
        size = f"{4 * n} + 256 * ({inner.value(1)} % 7u)" if inner.chance(0.4) else f"{4 * n}"
        inner.checked(f"cudaMallocAsync(&{name}, {size}, 0)" if asynchronous else f"cudaMalloc(&{name}, {size})")
        inner.call(f"LAUNCH(fill, {(n + 31) // 32}u, 32, 0, 0, {name}, {n}u, {inner.value()});")
        for _ in range(inner.below(2)):
            launch(inner)
        inner.call(f"LAUNCH(blend, {(n + 31) // 32}u, 32, 0, 0, {inner.buffer()}, {name}, {n}u, {inner.value()});")
        inner.checked(f"cudaFreeAsync({name}, 0)" if asynchronous else f"cudaFree({name})")


def temporary_stream(scope: Scope) -> None:
    """A stream of its own for a buffer of its own, ordered with the rest by synchronizing."""
    with scope.braces("") as inner:
        stream, buffer = inner.name("stream"), inner.buffer()
        inner.write(f"cudaStream_t {stream};")
        if inner.chance(0.5) and len(inner.groups) == 1:
            inner.checked(f"cudaStreamCreate(&{stream})")
        else:
            inner.checked(f"cudaStreamCreateWithFlags(&{stream}, cudaStreamNonBlocking)")
            inner.checked("cudaDeviceSynchronize()")
        for _ in range(1 + inner.below(2)):
            inner.call(f"LAUNCH(add, {(inner.n + 63) // 64}u, 64, 0, {stream}, {buffer}, {inner.n}u, {inner.value()});")
        inner.checked(f"cudaStreamSynchronize({stream})")
        if inner.chance(0.3):
            inner.checked(f"cudaStreamQuery({stream})")
        inner.checked(f"cudaStreamDestroy({stream})")


def temporary_event(scope: Scope) -> None:
    """Events: recorded, waited for, timed (only the sign is looked at)."""
    with scope.braces("") as inner:
        stream, (a, b) = inner.placed(2)
        first, second = inner.name("event"), inner.name("event")
        inner.write(f"cudaEvent_t {first}, {second};")
        inner.checked(f"cudaEventCreate(&{first})")
        inner.checked(f"cudaEventCreate(&{second})")
        inner.checked(f"cudaEventRecord({first}, {stream})")
        inner.call(f"LAUNCH(blend, {(inner.n + 63) // 64}u, 64, 0, {stream}, {a}, {b}, {inner.n}u, {inner.value()});")
        inner.checked(f"cudaEventRecord({second}, {stream})")
        if inner.chance(0.6):
            inner.checked(f"cudaEventSynchronize({second})")
            inner.checked(f"cudaEventQuery({first})")
            inner.write("float milliseconds = -1.0f;")
            inner.checked(f"cudaEventElapsedTime(&milliseconds, {first}, {second})")
            inner.write('if (!(milliseconds >= 0.0f)) out.line("a negative time\\n");')
        inner.checked(f"cudaEventDestroy({first})")
        inner.checked(f"cudaEventDestroy({second})")


def across_streams(scope: Scope) -> None:
    """One stream reads what another wrote, ordered by events both ways."""
    streams = [group for group in scope.groups if group.stream != "0"]
    if len(streams) < 2:
        return launch(scope)
    one, other = scope.random.sample(streams, 2)
    blocks = (scope.n + 63) // 64
    with scope.braces("") as inner:
        event = inner.name("event")
        inner.write(f"cudaEvent_t {event};")
        inner.checked(f"cudaEventCreateWithFlags(&{event}, cudaEventDisableTiming)")
        source, target = inner.random.choice(one.buffers), inner.random.choice(other.buffers)
        inner.call(f"LAUNCH(add, {blocks}u, 64, 0, {one.stream}, {source}, {inner.n}u, {inner.value()});")
        inner.checked(f"cudaEventRecord({event}, {one.stream})")
        inner.checked(f"cudaStreamWaitEvent({other.stream}, {event}, 0)")
        inner.call(f"LAUNCH(blend, {blocks}u, 64, 0, {other.stream}, {target}, {source}, {inner.n}u, {inner.value()});")
        inner.checked(f"cudaEventRecord({event}, {other.stream})")
        inner.checked(f"cudaStreamWaitEvent({one.stream}, {event}, 0)")
        inner.checked(f"cudaEventDestroy({event})")


def constants(scope: Scope) -> None:
    """A part of the constant table anew, then a kernel that reads it."""
    if scope.threaded:
        return launch(scope)
    with scope.braces("") as inner:
        name = inner.name("part")
        inner.write(f"u32 {name}[4] = {{{', '.join(inner.value(1) for _ in range(4))}}};")
        inner.checked(f"cudaMemcpyToSymbol(coefficients, {name}, sizeof {name}, {4 * inner.below(12)})")
        inner.call(f"LAUNCH(constant_memory, {(inner.n + 63) // 64}u, 64, 0, 0, {inner.buffer()}, {inner.n}u);")


def mistakes(scope: Scope) -> None:
    """Errors that CUDA reports at once, and that change nothing."""
    blocks = (scope.n + 63) // 64
    kind = scope.below(3)
    label = scope.name("e")
    if kind == 0:
        scope.call(f"LAUNCH(add, {blocks}u, 2048, 0, 0, {scope.buffer()}, {scope.n}u, 1u);")
        scope.call(f'out.line("{label} %s\\n", cudaGetErrorName(cudaGetLastError()));')
    elif kind == 1:
        with scope.braces("") as inner:
            inner.write("u32 *huge = nullptr;")
            inner.call(f'out.line("{label} %s\\n", cudaGetErrorName(cudaMalloc(&huge, size_t(1) << 60)));')
            inner.call(f'out.line("{label} %s\\n", cudaGetErrorName(cudaPeekAtLastError()));')
            inner.call(f'out.line("{label} %s\\n", cudaGetErrorName(cudaGetLastError()));')
    else:
        with scope.braces(f"if ({scope.condition()})") as inner:
            inner.call(f"LAUNCH(twist, 0u, 64, 0, 0, {inner.buffer()}, {inner.n}u);")
            inner.call(f'out.line("{label} %s\\n", cudaGetErrorName(cudaGetLastError()));')


def help_out(scope: Scope) -> None:
    """A call of a function with CUDA calls."""
    if not scope.helpers:
        return launch(scope)
    first, second = scope.two_buffers()
    scope.call(f"{scope.random.choice(scope.helpers)}(out, {first}, {second}, {scope.value()}, {scope.value()});", 8)


STATEMENTS: dict[str, Callable[[Scope], None]] = {
    "launch": launch,
    "memset": memset,
    "to_device_scalar": to_device_scalar,
    "to_device_array": to_device_array,
    "to_device_row": to_device_row,
    "device_to_device": device_to_device,
    "read_value": read_value,
    "read_array": read_array,
    "read_element": read_element,
    "read_counted": read_counted,
    "read_unused": read_unused,
    "read_asynchronously": read_asynchronously,
    "read_rectangle": read_rectangle,
    "synchronize": synchronize,
    "temporary_memory": temporary_memory,
    "temporary_stream": temporary_stream,
    "temporary_event": temporary_event,
    "across_streams": across_streams,
    "constants": constants,
    "mistakes": mistakes,
    "help_out": help_out,
}
