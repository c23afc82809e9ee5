"""Wrong tables are refused, with a message that names file and row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from farlane_codegen import api_table, c_types, errors_table, limits_table, python_handlers, tape_table
from farlane_codegen.problems import TableError

ROOT = Path(__file__).resolve().parents[3]
TAPE = (ROOT / "protos/tape.toml").read_text()
RESULTS = TAPE[TAPE.index("[[result]]") :]


def tape_of(operation: str) -> str:
    return f"version = 1\n[[operation]]\n{operation}\n{RESULTS}"


ROW = """\
name = "X"
family = "memory"
code = 1
doc = ""
fields = [["u32", "slot"], ["u32", "reserved"]]
result = "status"
loops = true
plans = "keeps"
"""


def test_the_sample_row_itself_is_accepted() -> None:
    assert tape_table.parse(tape_of(ROW)).operations[0].fixed_bytes == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("code = 1", "code = 0"), "X: code 0 is no u16"),
        (("code = 1", "code = 65536"), "X: code 65536 is no u16"),
        (('doc = ""', ""), "X: missing doc"),
        (('doc = ""', 'doc = ""\nkomment = ""'), "X: unknown key komment"),
        (('"status"', '"maybe"'), "X: result 'maybe' is none of"),
        (('"status"', '"none"'), "X: a slot field is there exactly when"),
        (('["u32", "reserved"]', '["u64", "value"]'), "X: value: offset 12 is not a multiple of 8"),
        (('["u32", "reserved"]', '["u31", "value"]'), "X: value: unknown type 'u31'"),
        (('["u32", "reserved"]', '["u32", "slot"]'), "X: field 'slot' twice"),
        (('["u32", "reserved"]', '["u32[1]", "value"]'), "X: value: an array has at least two elements"),
        (('["u32", "reserved"]', '["u32", "Value"]'), "X: bad field name 'Value'"),
        (('["u32", "reserved"]', '"u32"'), "X: a field is [type, name]"),
        (('doc = ""', 'doc = ""\ntail = "data"'), "X: tail and length_field belong together"),
        (('doc = ""', 'doc = ""\ntail = "data"\nlength_field = "size"'), "X: length_field 'size' is no u32 field"),
        (('doc = ""', 'doc = ""\nflags = [["a", 16]]'), "X: a flag is [name, bit 0 to 15]"),
        (('doc = ""', 'doc = ""\nflags = [["a", 1], ["b", 1]]'), "X: flag ['b', 1] twice"),
        (("loops = true", ""), "X: missing loops"),
        (("loops = true", "loops = 1.5"), "X: loops 1.5 is none of"),
        (('"keeps"', '"keep"'), "X: plans 'keep' is none of keeps, adds, ends"),
        (('doc = ""', 'doc = ""\nidentity = "size"'), "X: identity 'size' is no field"),
        (('doc = ""', 'doc = ""\ncalls = "reset"'), "X: calls 'reset' is not METHOD(FIELD"),
        (('doc = ""', 'doc = ""\ncalls = "reset(1)"'), "X: calls 'reset(1)' is not METHOD(FIELD"),
        (('doc = ""', 'doc = ""\ncalls = "reset(size)"'), "X: calls 'reset(size)' passes each field once; see size"),
        (('doc = ""', 'doc = ""\ncalls = "reset()"\nflags = [["a", 0]]'), "X: an operation with flags, arrays or data"),
    ],
)
def test_wrong_operation_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(TableError, match=re.escape(f"tape.toml: operation {message}")):
        tape_table.parse(tape_of(ROW.replace(*change)))


def test_a_row_that_says_what_it_calls_has_its_handler_made() -> None:
    """A function whose host half is one call takes rows of two tables and its operation in the shim: three places."""
    row = ROW.replace('[["u32", "slot"], ["u32", "reserved"]]', '[["u32", "slot"], ["u32", "stream"]]')
    row = row.replace('"status"', '"value"') + 'calls = "context.ask(of=streams.stream)"'
    text = python_handlers.emit(tape_table.parse(tape_of(row)))
    assert text.endswith(
        "def x(resources: Resources, stream: int) -> int:\n"
        "    return resources.context.ask(of=resources.streams.get(stream))\n"
    )


def test_holes_lie_in_fields_of_one_width() -> None:
    fields = '[["u64", "address"], ["u64", "size"], ["u32", "handle"], ["u32[3]", "grid"], ["u32", "reserved"], ["u32", "data_bytes"]]'
    row = ROW.replace('[["u32", "slot"], ["u32", "reserved"]]', fields).replace('"status"', '"none"')
    row += 'identity = "handle"\ntail = "data"\nlength_field = "data_bytes"'
    operation = tape_table.parse(tape_of(row)).operations[0]
    zones = [(zone.start, zone.end, zone.width) for zone in operation.zones]
    assert zones == [(8, 24, 8), (28, 40, 4)]
    assert (operation.since, operation.flags_since, operation.host_only) == (1, 1, False)


def test_duplicate_codes_and_names_are_refused() -> None:
    other = ROW.replace('"X"', '"Y"')
    with pytest.raises(TableError, match="operation Y: code 1 is also X's"):
        tape_table.parse(tape_of(f"{ROW}\n[[operation]]\n{other}"))
    with pytest.raises(TableError, match="operation X: name X is also X's"):
        tape_table.parse(tape_of(f"{ROW}\n[[operation]]\n{ROW.replace('code = 1', 'code = 2')}"))


def test_toml_errors_name_the_file() -> None:
    with pytest.raises(TableError, match=r"^tape\.toml: Invalid value"):
        tape_table.parse("version = ")
    with pytest.raises(TableError, match=r"^cuda/memory\.toml: Invalid value"):
        parse_api("x =")


FUNCTION = '[[function]]\nname = "cudaFree"\nclass = "deferred"\nargs = [["void *", "p"]]\noperations = ["FREE"]'
SYMBOLS = "cudaFree\ncudaMemcpy\ncudaMemcpy_ptds\ncudaNew\n"


def parse_api(text: str, *, twelve: str = "cudaFree\ncudaMemcpy\ncudaMemcpy_ptds\n") -> api_table.Api:
    return api_table.parse({"memory": text}, {"12": twelve, "13": SYMBOLS}, frozenset({"FREE", "WRITE"}))


def test_the_sample_function_itself_is_accepted() -> None:
    api = parse_api(FUNCTION)
    assert api.exports("13") == {"cudaFree": "cudaFree", "cudaMemcpy": None, "cudaMemcpy_ptds": None, "cudaNew": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FUNCTION.replace('"cudaFree"', '"malloc"'), "malloc: not a name of the CUDA runtime API"),
        (FUNCTION.replace('"deferred"', '"later"'), "class 'later' is none of local, deferred, sync"),
        (FUNCTION.replace('"deferred"', '"local"'), "class local takes no operations"),
        (FUNCTION.replace('operations = ["FREE"]', ""), "class deferred needs operations"),
        (FUNCTION.replace('"FREE"', '"FREEZE"'), "tape.toml has no operation FREEZE"),
        (FUNCTION.replace('["void *", "p"]', '"void *"'), "an argument is [type, name]"),
        (FUNCTION.replace('["void *", "p"]', '["int", "p"], ["int", "p"]'), "two arguments have the same name"),
        (FUNCTION + '\nsince = "11"', "since is like 12.0"),
        (FUNCTION + '\nuntil = "13"', "until is 12"),
        (FUNCTION + '\nsince = "13.0"\nuntil = "12"', "no version is left"),
        (FUNCTION + '\nsince = "13.0"', "libcudart.so.12 exports it too"),
        (FUNCTION + '\nstream = "perhaps"', "stream 'perhaps' is none of"),
        (FUNCTION + '\nstream = "argument"', "libcudart.so.12 exports no cudaFree_ptsz"),
        (FUNCTION + '\nalias_of = "cudaGone"', "alias_of 'cudaGone' is no function"),
        (FUNCTION + '\nclas = "x"', "unknown key clas"),
        (FUNCTION.replace("cudaFree", "cudaNew"), "cudaNew: libcudart.so.12 exports no cudaNew"),
        (FUNCTION.replace("cudaFree", "cudaMemcpy"), "cudaMemcpy has no `stream`, but cudaMemcpy_ptds is exported"),
        (FUNCTION + "\n" + FUNCTION, "cudaFree has two rows for the same major version"),
        (FUNCTION + '\n[[unsupported]]\nreason = "x"\nnames = ["cudaFree"]', "has a row and is listed as unsupported"),
        ('[[unsupported]]\nreason = "x"\nnames = ["cudaGone"]', "unsupported cudaGone: no library exports it"),
        ('[[unsupported]]\nnames = ["cudaNew"]', "missing reason"),
    ],
)
def test_wrong_function_is_refused(text: str, message: str) -> None:
    with pytest.raises(TableError, match=re.escape(message)):
        parse_api(text)


def test_alias_must_have_the_same_arguments() -> None:
    alias = FUNCTION.replace("cudaFree", "cudaNew").replace("void *", "int") + '\nsince = "13.0"\nalias_of = "cudaFree"'
    with pytest.raises(TableError, match="cudaNew: differs from cudaFree"):
        parse_api(f"{FUNCTION}\n{alias}")


def test_rows_that_differ_by_version_get_versioned_names() -> None:
    text = f'{FUNCTION}\nuntil = "12"\n{FUNCTION.replace("void *", "int")}\nsince = "13.0"'
    assert parse_api(text).exports("12")["cudaFree"] == "cudaFree_v12"
    assert parse_api(text).exports("13")["cudaFree"] == "cudaFree_v13"


def test_symbol_lists_must_be_sorted() -> None:
    with pytest.raises(TableError, match=r"libcudart\.so\.12\.txt: not sorted"):
        parse_api(FUNCTION, twelve="cudaMemcpy\ncudaFree\n")


@pytest.mark.parametrize(
    ("c_type", "rust"),
    [
        ("int", "c_int"),
        ("size_t *", "*mut usize"),
        ("const void *", "*const c_void"),
        ("void **", "*mut *mut c_void"),
        ("const cudaGraphNode_t **", "*mut *const cudaGraphNode_t"),
        ("void *const *", "*const *mut c_void"),
        ("const void * const *", "*const *const c_void"),
        ("unsigned long long *", "*mut c_ulonglong"),
        ("dim3", "dim3"),
        ("void", "()"),
    ],
)
def test_c_types(c_type: str, rust: str) -> None:
    assert c_types.rust_type(c_type, "here") == rust


@pytest.mark.parametrize("c_type", ["", "struct x", "wchar_t", "int[3]", "int &"])
def test_unknown_c_types_are_refused(c_type: str) -> None:
    with pytest.raises(TableError, match="here: "):
        c_types.rust_type(c_type, "here")


def test_error_tables() -> None:
    row = '[[error]]\ncode = {}\nname = "{}"\ntext = "t"\n'
    assert errors_table.parse_errors(row.format(1, "a") + row.format(2, "b"))[1].name == "b"
    with pytest.raises(TableError, match="ascending"):
        errors_table.parse_errors(row.format(2, "a") + row.format(1, "b"))
    with pytest.raises(TableError, match="a name is there twice"):
        errors_table.parse_errors(row.format(1, "a") + row.format(2, "a"))
    with pytest.raises(TableError, match="a code is there twice"):
        errors_table.parse_attributes("[attributes]\na = 1\nb = 1")


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("cudaSuccess", "SUCCESS"),
        ("cudaErrorInvalidValue", "INVALID_VALUE"),
        ("cudaErrorECCUncorrectable", "ECC_UNCORRECTABLE"),
        ("cudaErrorInvalidPtx", "INVALID_PTX"),
        ("cudaErrorJitCompilerNotFound", "JIT_COMPILER_NOT_FOUND"),
    ],
)
def test_names_of_error_constants(name: str, constant: str) -> None:
    assert errors_table._constant(name) == constant


LIMIT = '[[limit]]\nname = "A_B"\nvalue = "64 KiB"\ndoc = "d"\n'


def test_limits() -> None:
    limits = limits_table.parse(LIMIT + LIMIT.replace("A_B", "C").replace('"64 KiB"', "70000"))
    assert [limit.value for limit in limits] == [65536, 70000]
    assert "A_B = 64 << 10  # d\nC = 70_000  # d\n" in limits_table.emit_python(limits)
    assert "/// d\npub const A_B: usize = 64 << 10;\n/// d\npub const C: usize = 70_000;\n" in limits_table.emit_rust(
        limits
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("A_B", "a"), "a: a name is of capitals"),
        (("64 KiB", "64 kB"), "A_B: '64 kB' is neither"),
        (("64 KiB", "64"), "A_B: '64' is neither"),
        (('"64 KiB"', "-1"), "A_B: -1 is neither"),
        (('doc = "d"', ""), "A_B: missing doc"),
        (('doc = "d"\n', 'doc = "d"\n' + LIMIT), "A_B: there twice"),
    ],
)
def test_wrong_limits_are_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(TableError, match=re.escape(f"limits.toml: {message}")):
        limits_table.parse(LIMIT.replace(*change))
