"""PTX that a compiler could write and none does: texts whose size, depth or shape costs a reader much more than another text of their length.

`TEXTS` has them by name; each has a kernel `k` without parameters. A number makes most of them larger: the tests read what 1 makes.
"""

from __future__ import annotations

from collections.abc import Callable

HEADER = ".version 8.5\n.target sm_75\n.address_size 64\n"


def kernel(body: str, before: str = "", name: str = "k") -> str:
    return f"{before}.visible .entry {name}()\n{{\n{body}\nret;\n}}\n"


def nested(size: int) -> str:
    depth = 200
    return kernel(".reg .b32 %r<2>;\n" + "{ .reg .b32 t; mov.b32 t, 1;" * depth + "}" * depth)


def far_too_nested(size: int) -> str:
    return kernel("{" * (200_000 * size) + "}" * (200_000 * size))


def one_line(size: int) -> str:
    return kernel(".reg .b32 %r<2>; mov.b32 %r0, 1; " + "add.s32 %r1, %r0, %r1; " * (10_000 * size))


def many_registers(size: int) -> str:
    count = 10_000 * size
    moves = "\n".join(f"add.s32 %r{number + 1}, %r{number}, {number};" for number in range(count))
    return kernel(f".reg .b32 %r<{count + 1}>;\nmov.u32 %r0, %tid.x;\n{moves}")


def registers_that_live(size: int) -> str:
    """All of them until the end."""
    count = 2_000 * size
    loads = "\n".join(f"mov.u32 %r{number}, %clock;" for number in range(count))
    sums = "\n".join(f"xor.b32 %r{count}, %r{count}, %r{number};" for number in range(count))
    return kernel(f".reg .b32 %r<{count + 1}>;\nmov.u32 %r{count}, 0;\n{loads}\n{sums}")


def named_registers(size: int) -> str:
    count = 50_000 * size
    names = ", ".join(f"a{number}" for number in range(count))
    return kernel(f".reg .b32 {names};\nmov.b32 a0, a{count - 1};\n.reg .b64 %x<16777216>;\nmov.b64 %x0, 1;")


def huge_arrays(size: int) -> str:
    return kernel(
        "", ".visible .global .b8 big[4294967295];\n.global .b8 more[4294967295];\n.const .b8 much[4294967295];\n"
    )


def huge_local(size: int) -> str:
    return kernel(
        ".local .b8 big[1073741824];\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nmov.u64 %rd0, big;\nst.local.u32 [%rd0], %r0;"
    )


def huge_shared(size: int) -> str:
    return kernel(".reg .b64 %rd<2>;\nmov.u64 %rd0, big;", ".shared .b8 big[4294967295];\n")


def many_kernels(size: int) -> str:
    return "".join(kernel("", name=f"k{number}") for number in range(20_000 * size)) + kernel("")


def many_variables(size: int) -> str:
    return "".join(f".global .u32 v{number} = {number};\n" for number in range(20_000 * size)) + kernel("")


def function_pointers(size: int) -> str:
    """A table of functions, each in it."""
    count = 20_000 * size
    functions = "".join(f".func f{number}()\n{{\nret;\n}}\n" for number in range(count))
    names = ", ".join(f"f{number}" for number in range(count))
    return functions + kernel("", f".global .u64 table[{count}] = {{{names}}};\n")


def pointers_to_a_symbol(size: int) -> str:
    count = 50_000 * size
    names = ", ".join(["generic(v)"] * count)
    return kernel("", f".global .u32 v = 1;\n.global .u64 table[{count}] = {{{names}}};\n")


def long_initializer(size: int) -> str:
    count = 200_000 * size
    return kernel("", f".global .u32 v[{count}] = {{{', '.join(['12345'] * count)}}};\n")


def long_names(size: int) -> str:
    name = "n" * 60_000
    return kernel(f".reg .b32 {name};\n" + f"mov.b32 {name}, {name};\n" * (10 * size), f".global .u32 {name}v;\n")


def moves_without_an_end(size: int) -> str:
    return kernel("", f'.pragma "{"mov.u64 a " * (20_000 * size)}";\n')


def open_comments(size: int) -> str:
    return kernel("") + "/* " * (200_000 * size)


def slashes(size: int) -> str:
    return kernel("", "/" + " /" * (200_000 * size))


def open_strings(size: int) -> str:
    return kernel("", '.pragma "' + '\n"' * (100_001 * size) + ";\n")


def blanks(size: int) -> str:
    return " \t\n" * (300_000 * size) + kernel("")


def many_branches(size: int) -> str:
    """Every block may go to many others."""
    count = 400 * size
    blocks = "\n".join(
        f"L{number}:\nsetp.eq.u32 %p0, %r0, {number};\nadd.s32 %r0, %r0, 1;\n@%p0 bra L{number * 7919 % count};"
        for number in range(count)
    )
    return kernel(
        f".reg .pred %p<2>;\n.reg .b32 %r<2>;\nmov.u32 %r0, %tid.x;\nadd.s32 %r0, %r0, {count + 1};\n{blocks}"
    )


def jump_table(size: int) -> str:
    count = 2_000 * size
    labels = ", ".join(f"L{number}" for number in range(count))
    blocks = "\n".join(f"L{number}:\nadd.s32 %r0, %r0, {number};" for number in range(count))
    return kernel(f".reg .b32 %r<2>;\nmov.u32 %r0, %tid.x;\nT: .branchtargets {labels};\nbrx.idx %r0, T;\n{blocks}")


def nested_loops(size: int) -> str:
    depth = 60 * size
    opening = "\n".join(f"mov.u32 %r{number}, 0;\nL{number}:" for number in range(depth))
    closing = "\n".join(
        f"add.s32 %r{number}, %r{number}, 1;\nsetp.lt.s32 %p0, %r{number}, 1;\n@%p0 bra L{number};"
        for number in reversed(range(depth))
    )
    return kernel(f".reg .pred %p<2>;\n.reg .b32 %r<{depth}>;\n{opening}\nbar.sync 0;\n{closing}")


def nested_branches(size: int) -> str:
    depth = 500 * size
    opening = "\n".join(
        f"setp.gt.u32 %p0, %r0, {number};\n@%p0 bra L{number};\nadd.s32 %r1, %r1, %r0;" for number in range(depth)
    )
    closing = "\n".join(f"L{number}:\nadd.s32 %r1, %r1, 1;" for number in reversed(range(depth)))
    return kernel(f".reg .pred %p<2>;\n.reg .b32 %r<2>;\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, 0;\n{opening}\n{closing}")


def long_chain_of_calls(size: int) -> str:
    count = 1_000 * size
    text = ".func f0()\n{\nret;\n}\n"
    for number in range(1, count):
        text += f".func f{number}()\n{{\ncall f{number - 1};\nret;\n}}\n"
    return text + kernel(f"call f{count - 1};")


def doubling_calls(size: int) -> str:
    """Each function calls the one before twice: were they put where they are called, there would be a billion."""
    text = ".func f0()\n{\nbar.sync 0;\nret;\n}\n"
    for number in range(1, 30):
        text += f".func f{number}()\n{{\ncall f{number - 1};\ncall f{number - 1};\nret;\n}}\n"
    return text + kernel(".reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %tid.x;\nsetp.gt.u32 %p, %r, 5000;\n@%p call f29;")


def all_call_all(size: int) -> str:
    count = 60 * size
    declared = "".join(f".func f{number}();\n" for number in range(count))
    calls = "".join(f"@%p call f{number};\n" for number in range(count))
    functions = "".join(
        f".func f{number}()\n{{\n.reg .pred %p;\nsetp.ne.u32 %p, 0, 0;\n{calls}ret;\n}}\n" for number in range(count)
    )
    return declared + functions + kernel("call f0;")


def many_parameters(size: int) -> str:
    parameters = ", ".join(f".param .b8 p{number}" for number in range(4_000))
    return "".join(f".func f{number}({parameters})\n{{\nret;\n}}\n" for number in range(20 * size)) + kernel("")


def many_locations(size: int) -> str:
    locations = "\n".join(f".loc 1 {number} 3" for number in range(50_000 * size))
    return kernel(locations, '.file 1 "a.cu"\n')


def predicated(size: int) -> str:
    lines = "\n".join(
        f"@%p{number % 50} add.s32 %r{number % 97}, %r{number * 7 % 97}, {number};" for number in range(5_000 * size)
    )
    return kernel(f".reg .pred %p<50>;\n.reg .b32 %r<97>;\n{lines}")


def too_many_instructions(size: int) -> str:
    """More than are compiled, in functions that are called."""
    function = "add.s32 %r, %r, 1;\n" * 9_000
    functions = "".join(f".func f{number}()\n{{\n.reg .b32 %r;\n{function}ret;\n}}\n" for number in range(30 * size))
    return functions + kernel("".join(f"call f{number};\n" for number in range(30 * size)))


TEXTS: dict[str, Callable[[int], str]] = {
    make.__name__: make
    for make in (
        nested, far_too_nested, one_line, many_registers, registers_that_live, named_registers, huge_arrays, huge_local, huge_shared, many_kernels,
        many_variables, function_pointers, pointers_to_a_symbol, long_initializer, long_names, moves_without_an_end, open_comments, slashes,
        open_strings, blanks, many_branches, jump_table, nested_loops, nested_branches, long_chain_of_calls, doubling_calls, all_call_all,
        many_parameters, many_locations, predicated, too_many_instructions,
    )
}  # fmt: skip


def text(name: str, size: int = 1) -> str:
    return HEADER + TEXTS[name](size)
