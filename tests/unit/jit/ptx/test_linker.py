"""Linking PTX units: what each name means, and that linked code runs as the units together."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from hypothesis import given
from hypothesis import strategies as st
from jit_tools.device import TinyDevice

HEADER = ".version 8.0\n.target sm_{}\n.address_size 64\n"
CALL = "{{ .param .b32 p; st.param.b32 [p], {1}; .param .b32 q; call (q), {0}, (p); ld.param.b32 {1}, [q]; }}"
REGISTERS = ".reg .b32 %r<4>; .reg .b64 %rd<4>;"


def unit(text: str, target: int = 75) -> str:
    return HEADER.format(target) + text


def function(name: str, body: str, linking: str = ".visible ") -> str:
    head = f"{linking}.func (.param .b32 q) {name} (.param .b32 p)\n"
    return f"{head}{{ {REGISTERS} ld.param.b32 %r0, [p]; {body} st.param.b32 [q], %r0; ret; }}\n"


def kernel(name: str, body: str) -> str:
    return (
        f".visible .entry {name}(.param .u64 out) {{ {REGISTERS} ld.param.u64 %rd0, [out]; mov.u32 %r0, 10; "
        f"{body} st.global.u32 [%rd0], %r0; ret; }}\n"
    )


EXTERN = ".extern .func (.param .b32 q) {} (.param .b32 p);\n"


def run(device: TinyDevice, texts: list[str], name: str = "k") -> int:
    module = device.load(jit.link(texts))
    out = device.upload(np.zeros(1, np.uint32))
    assert device.launch(module, name, 1, 1, [out]) == jit.STATUS_DONE
    return int(device.download(out, np.uint32, 1)[0])


def test_functions_and_variables_of_other_units(device: TinyDevice) -> None:
    first = EXTERN.format("f") + ".extern .global .u32 v;\n"
    first += kernel("k", CALL.format("f", "%r0") + "ld.global.u32 %r1, [v]; add.u32 %r0, %r0, %r1;")
    second = function("f", "add.u32 %r0, %r0, 1;") + ".visible .global .u32 v = 500;\n"
    assert run(device, [unit(first), unit(second)]) == 511
    assert run(device, [unit(second), unit(first)]) == 511


def test_names_of_a_units_own_are_kept_apart(device: TinyDevice) -> None:
    def one(number: int) -> str:
        own = f".global .u32 own = {number};\n" + function(
            "helper", "ld.global.u32 %r1, [own]; add.u32 %r0, %r0, %r1;", ""
        )
        return own + function(f"f{number}", CALL.format("helper", "%r0"))

    first = EXTERN.format("f1") + EXTERN.format("f2") + ".global .u32 own = 1000;\n"
    first += kernel(
        "k", CALL.format("f1", "%r0") + CALL.format("f2", "%r0") + "ld.global.u32 %r1, [own]; add.u32 %r0, %r0, %r1;"
    )
    texts = [unit(first), unit(one(1)), unit(one(2))]
    assert run(device, texts) == 1013
    assert run(device, texts[::-1]) == 1013


def test_a_name_of_ones_own_gives_way_to_one_that_units_share(device: TinyDevice) -> None:
    first = function("f", "add.u32 %r0, %r0, 1;", "") + kernel("k", CALL.format("f", "%r0"))
    second = function("f", "add.u32 %r0, %r0, 100;") + kernel("other", CALL.format("f", "%r0"))
    assert run(device, [unit(first), unit(second)]) == 11
    assert run(device, [unit(first), unit(second)], "other") == 110
    assert run(device, [unit(second), unit(first)]) == 11


def test_weak_definitions(device: TinyDevice) -> None:
    weak = [function("f", f"add.u32 %r0, %r0, {number};", ".weak ") for number in (1, 2)]
    caller = kernel("k", CALL.format("f", "%r0"))
    assert run(device, [unit(weak[0] + caller), unit(weak[1])]) == 11
    strong = function("f", "add.u32 %r0, %r0, 100;")
    assert run(device, [unit(weak[0] + caller), unit(strong)]) == 110
    assert run(device, [unit(strong), unit(weak[0] + caller)]) == 110


def test_initial_values_name_variables_and_functions_of_other_units() -> None:
    first = ".extern .global .u32 v[4];\n.visible .global .u64 p[2] = {v+8, f};\n" + EXTERN.format("f")
    module = jit.parse_module(jit.link([unit(first), unit(".visible .global .u32 v[4];\n" + function("f", ""))]))
    pointer = module.variable("p")
    assert pointer is not None
    assert [(item.symbol, item.addend) for item in pointer.relocations] == [("v", 8), ("f", 0)]
    assert not module.variables[module.variable_index["v"]].extern


def test_the_highest_version_and_target_count() -> None:
    module = jit.parse_module(jit.link([unit("", 75), unit("", 90), unit("", 80)]))
    assert (module.target, module.version) == ("sm_90", (8, 0))


def test_dynamic_shared_memory_may_be_declared_everywhere() -> None:
    text = ".extern .shared .align 16 .b8 memory[];\n"
    module = jit.parse_module(jit.link([unit(text), unit(text)]))
    assert [variable.name for variable in module.variables] == ["memory"]


def test_files_are_numbered_anew() -> None:
    text = (
        kernel("k{0}", ".loc 1 7 3\n.loc 2 8 3, function_name $x, inlined_at 1 9 4\n")
        + '.file 1 "{0}a.cu"\n.file 2 "{0}b.cu"\n'
    )
    linked = jit.link([unit(text.replace("{0}", str(number))) for number in range(2)])
    assert '.file 1 "0a.cu"' in linked
    assert '.file 4 "1b.cu"' in linked
    assert ".loc 3 7 3" in linked
    assert ".loc 4 8 3, function_name $x, inlined_at 3 9 4" in linked


def test_what_only_looks_like_a_name_stays() -> None:
    own = '.global .align 1 .b8 text[4] = {1};\n.func f() { .reg .b32 %text; mov.u32 %text, text; // text\n.pragma "text"; }\n'
    linked = jit.link([unit(own), unit(own)])
    assert "mov.u32 %text, text$unit1" in linked
    assert linked.count('.pragma "text"') == 2


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([unit(".visible .global .u32 v;"), unit(".visible .global .u32 v;")], "'v' is defined in two translation units, 1 and 2"),
        ([unit(kernel("k", "")), unit(kernel("k", ""))], "'k' is defined in two"),
        ([unit(""), ".version 8.0\n"], "without .version or .target"),
        ([unit(""), unit("nonsense;")], "unknown directive"),
        ([unit(""), unit(".func f() {")], "unexpected end"),
        ([], "0 translation units"),
    ],
)  # fmt: skip
def test_errors(texts: list[str], message: str) -> None:
    if "without .version" in message:
        texts = [".version 8.0\n", ".version 8.0\n"]
    with pytest.raises(jit.PtxError, match=message):
        jit.link(texts)


def test_one_unit_is_itself() -> None:
    assert jit.link(["anything"]) == "anything"


SAMPLE = unit(
    function("f", "add.u32 %r0, %r0, 1;")
    + function("own", "", "")
    + kernel("k", ".loc 1 2 3\n" + CALL.format("f", "%r0"))
    + '.file 1 "a.cu"\n.global .u64 p[2] = {f, own};\n.weak .const .f32 c;\n.extern .shared .b8 s[];\n.section .debug { .b8 1 }\n'
)


@given(st.data())
def test_damaged_units_are_refused_or_linked(data: st.DataObject) -> None:
    text = SAMPLE
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(
                st.sampled_from(["", "{", "}", ";", '"', ".file 9", ".extern", "\0", "é", ".weak ", "99999999999"])
            )
            + text[at + data.draw(st.integers(0, 12)) :]
        )
    try:
        linked = jit.link([text, SAMPLE])
        jit.parse_module(linked)
    except jit.PtxError:
        pass


GRID = """
.extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle (.param .b32 scope);
.extern .func (.param .b32 result) cudaCGSynchronize (.param .b64 handle, .param .b32 flags);
.visible .entry k(.param .u64 out) {
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [out];
    { .param .b32 scope; st.param.b32 [scope], 1; .param .b64 h; call (h), cudaCGGetIntrinsicHandle, (scope);
      ld.param.b64 %rd1, [h]; }
    { .param .b64 h; st.param.b64 [h], %rd1; .param .b32 f; st.param.b32 [f], 0; .param .b32 q;
      call (q), cudaCGSynchronize, (h, f); ld.param.b32 %r0, [q]; }
    st.global.u32 [%rd0], %r0; ret;
}
"""


def test_the_device_provides_the_functions_of_grid_groups(device: TinyDevice) -> None:
    """In a launch that is not cooperative there is no grid group: CUDA's code for an invalid value."""
    assert run(device, [unit(GRID)]) == 1


def test_a_programs_own_function_counts_before_the_devices(device: TinyDevice) -> None:
    own = (
        ".visible .func (.param .b32 result) cudaCGSynchronize (.param .b64 handle, .param .b32 flags)\n"
        "{ st.param.b32 [result], 7; ret; }\n"
    )
    assert run(device, [unit(GRID), unit(own)]) == 7


def test_a_call_may_expect_a_result_of_a_function_without_one(device: TinyDevice) -> None:
    """As compilers declare what they know from elsewhere; the result is undefined, and the call is made."""
    caller = EXTERN.format("f") + kernel("k", CALL.format("f", "%r0") + " mov.u32 %r0, 5;")
    assert run(device, [unit(caller), unit(".visible .func f (.param .b32 p) { ret; }\n")]) == 5


def test_a_call_with_too_few_arguments_is_refused(device: TinyDevice) -> None:
    two = ".visible .func (.param .b32 q) f (.param .b32 p, .param .b32 o) { ret; }\n"
    caller = EXTERN.format("f") + kernel("k", CALL.format("f", "%r0"))
    with pytest.raises(jit.PtxError, match="wrong number of arguments"):
        run(device, [unit(caller), unit(two)])
