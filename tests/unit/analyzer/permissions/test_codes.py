"""Error codes, in registers, in cells of the frame or as a byte: refused, or proven to be used as they may, by looking at
the code alone."""

from __future__ import annotations

from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, RETURN, STOP, TAKEN, Block, ControlFlow, Edge
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.codes.fast import Verdict, refusal, verdict
from one_block import RET, SITE, Endings, flow

CALL = bytes.fromhex("e800000000")  # the call of the runtime, and one that follows
MOV_EBX_EAX, MOV_EDI_EAX, MOV_EDX_EAX = (bytes.fromhex(code) for code in ("89c3", "89c7", "89c2"))
STORE, LOAD, COMPARE = (bytes.fromhex(code) for code in ("89442408", "8b4c2408", "837c240800"))  # [rsp + 8]
PART, OVERWRITE, PUSH = (bytes.fromhex(code) for code in ("c644240801", "c744240800000000", "50"))
TEST_EAX, TEST_EBX, TEST_ECX, TEST_BL = (bytes.fromhex(code) for code in ("85c0", "85db", "85c9", "84db"))
CMP_EBX_1, SETE_BL, ADD_EAX = (bytes.fromhex(code) for code in ("83fb01", "0f94c3", "83c001"))
JNE, JE = bytes.fromhex("7501"), bytes.fromhex("7401")  # over a return
STOPS, NOP = bytes.fromhex("0f0b"), bytes.fromhex("90")


def said(made: ControlFlow, *ends: int) -> Verdict | None:
    return verdict(made, Endings(*ends), SITE)  # type: ignore[arg-type]


def refused(made: ControlFlow, *ends: int) -> str | None:
    found = said(made, *ends)
    return found.refused if found is not None else None


def refused_in_cells(made: ControlFlow, *ends: int) -> str | None:
    return refusal(made, Endings(*ends), SITE)  # type: ignore[arg-type]


def test_a_code_that_is_compared_and_ignored() -> None:
    made = flow(CALL, TEST_EAX, JNE)
    assert refused(made) == "when the code at 0x1005 is no success, the program goes on at 0x100a"
    made = flow(CALL, TEST_EAX, JE)
    assert refused(made) == "when the code at 0x1005 is no success, the program goes on at 0x1009"


def test_a_code_that_is_kept_in_a_register_over_another_call() -> None:
    made = flow(CALL, MOV_EBX_EAX, CALL, TEST_EBX, JNE)
    assert refused(made) == "when the code at 0x100c is no success, the program goes on at 0x1011"


def test_a_code_whose_failure_ends_the_program() -> None:
    fact = "the code is compared with 0 at 0x1005, the other way ends the program"
    assert said(flow(CALL, TEST_EAX, JNE), 0x100A) == Verdict("", (fact,))


def test_a_code_that_is_overwritten_on_every_way() -> None:
    assert said(flow(CALL, CALL, JNE)) == Verdict("", ())
    assert said(flow(CALL, MOV_EBX_EAX, CALL, JNE)) == Verdict("", ()), "functions restore what the callers keep"


def test_a_code_that_is_returned_is_left_to_the_abstract_machine() -> None:
    assert said(flow(CALL, JNE)) is None
    assert said(flow(CALL, MOV_EDX_EAX, JNE)) is None


def test_ways_that_differ_are_left_to_the_abstract_machine() -> None:
    """One way compares the code and goes on, the other overwrites it."""
    made = flow(CALL, MOV_EBX_EAX, CALL, JNE)
    (fall, taken) = sorted(set(made.blocks) - {SITE})
    instructions = tuple(Decoder().decode(TEST_EBX + JNE, fall))
    target, after = instructions[-1].end, instructions[-1].end + 1
    made.blocks[fall] = Block(fall, instructions, (Edge(after, TAKEN), Edge(target, FALL)), "")
    for at in (target, after):
        made.blocks[at] = Block(at, tuple(Decoder().decode(RET, at)), (), RETURN)
    assert said(made) is None
    assert said(made, after) == Verdict(
        "", (f"the code is compared with 0 at {fall:#x}, the other way ends the program",)
    )
    again = Block(taken, made.blocks[fall].instructions, made.blocks[fall].edges, "")
    made.blocks[taken] = again
    assert refused(made) == f"when the code at {fall:#x} is no success, the program goes on at {after:#x}"


def test_a_function_that_returns_twice_is_left_to_the_abstract_machine() -> None:
    made = flow(CALL, MOV_EBX_EAX, CALL, TEST_EBX, JNE)
    made.calls[max(made.calls)] = Callee("setjmp", None)
    assert said(made) is None


def test_nothing_is_said_of_codes_that_are_not_followed() -> None:
    assert said(flow(CALL, STORE, TEST_EAX, JNE)) is None, "it is stored"
    assert said(flow(CALL, MOV_EDI_EAX, CALL, TEST_EBX, JNE)) is None, "it is given to a function"
    assert said(flow(CALL, MOV_EBX_EAX, CMP_EBX_1, JNE)) is None, "it is compared with something else"
    assert said(flow(CALL, CALL, TEST_EAX, JNE)) == Verdict("", ()), "another call's is compared"


def test_a_code_that_is_kept_in_the_frame_over_another_call() -> None:
    made = flow(CALL, STORE, CALL, LOAD, TEST_ECX, JNE)
    assert refused_in_cells(made) == "when the code at 0x1012 is no success, the program goes on at 0x1017"
    made = flow(CALL, STORE, CALL, COMPARE, JNE)
    assert refused_in_cells(made) == "when the code at 0x100e is no success, the program goes on at 0x1016"


def test_a_code_that_is_kept_as_a_byte() -> None:
    made = flow(CALL, TEST_EAX, SETE_BL, CALL, TEST_BL, JNE)
    assert refused_in_cells(made) == "when the code at 0x100f is no success, the program goes on at 0x1013"


def test_instructions_that_leave_the_flags_alone_may_stand_before_the_branch() -> None:
    for between in ("0f57c0", "0f56c0", "f20f58c1", "660fefc0", "89d9", "53"):  # xorps, orps, addsd, pxor, mov, push
        made = flow(CALL, TEST_EAX, bytes.fromhex(between), JNE)
        assert (refused_in_cells(made) or "").startswith("when the code at 0x1005 is no success"), between
    for between in ("83c101", "0f44c8"):  # add, cmove
        assert refused_in_cells(flow(CALL, TEST_EAX, bytes.fromhex(between), JNE)) is None, between


def test_where_failure_ends_the_program_there_may_be_a_proof() -> None:
    made = flow(CALL, STORE, CALL, LOAD, TEST_ECX, JNE)
    assert refused_in_cells(made, 0x1017) is None
    assert refused_in_cells(made, 0x1016) is not None, "that is the way of success"


def test_all_ways_have_to_be_refused() -> None:
    made = flow(CALL, STORE, CALL, TEST_EAX, JNE)
    fall, taken = sorted(set(made.blocks) - {SITE})
    assert refused_in_cells(made) is None, "none compares it"

    def compares(at: int) -> None:
        code = tuple(Decoder().decode(LOAD + TEST_ECX + JNE, at))
        after = (code[-1].end + 1, code[-1].end)
        made.blocks[at] = Block(at, code, (Edge(after[0], TAKEN), Edge(after[1], FALL)), "")
        for each in after:
            made.blocks[each] = Block(each, tuple(Decoder().decode(RET, each)), (), RETURN)

    compares(fall)
    assert refused_in_cells(made) is None, "one returns"
    made.blocks[taken] = Block(taken, tuple(Decoder().decode(STOPS, taken)), (), STOP)
    assert refused_in_cells(made) is not None, "the other ends the program"
    made.blocks[taken] = Block(
        taken, tuple(Decoder().decode(NOP, taken)), (Edge(fall, FALL), Edge(SITE, EXCEPTION)), ""
    )
    assert refused_in_cells(made) is not None, "ways of exceptions do not count"


def test_nothing_is_said_of_cells_that_are_not_followed() -> None:
    assert refused_in_cells(flow(CALL, STORE, OVERWRITE, CALL, LOAD, TEST_ECX, JNE)) is None, "it is overwritten"
    assert refused_in_cells(flow(CALL, STORE, PART, CALL, LOAD, TEST_ECX, JNE)) is None, "a part of it is overwritten"
    assert refused_in_cells(flow(CALL, STORE, PUSH, LOAD, TEST_ECX, JNE)) is None, "the cell's place is another then"
    assert refused_in_cells(flow(CALL, STORE, MOV_EDI_EAX, CALL, LOAD, TEST_ECX, JNE)) is None, (
        "it is given to a function"
    )
    assert refused_in_cells(flow(CALL, STORE, ADD_EAX, CALL, LOAD, TEST_ECX, JNE)) is None, "it is counted with"
    made = flow(CALL, STORE, CALL, LOAD, TEST_ECX, JNE)
    made.calls[max(made.calls)] = Callee("setjmp", None)
    assert refused_in_cells(made) is None, "the call returns twice"
