"""Error codes that are refused, or proven to be used as they may, by looking at the code alone."""

from __future__ import annotations

from farlane.analyzer.graph.control_flow import FALL, RETURN, TAKEN, Block, ControlFlow, Edge
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.codes.fast import Verdict, verdict
from one_block import RET, SITE, Endings, flow

CALL = bytes.fromhex("e800000000")  # the call of the runtime, and one that follows
MOV_EBX_EAX, MOV_EDI_EAX, MOV_EDX_EAX = (bytes.fromhex(code) for code in ("89c3", "89c7", "89c2"))
STORE_EAX = bytes.fromhex("89442408")
TEST_EAX, TEST_EBX, CMP_EBX_1 = (bytes.fromhex(code) for code in ("85c0", "85db", "83fb01"))
JNE, JE = bytes.fromhex("7501"), bytes.fromhex("7401")  # over a return


def said(made: ControlFlow, *ends: int) -> Verdict | None:
    return verdict(made, Endings(*ends), SITE)  # type: ignore[arg-type]


def refused(made: ControlFlow, *ends: int) -> str | None:
    found = said(made, *ends)
    return found.refused if found is not None else None


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
    assert said(flow(CALL, STORE_EAX, TEST_EAX, JNE)) is None, "it is stored"
    assert said(flow(CALL, MOV_EDI_EAX, CALL, TEST_EBX, JNE)) is None, "it is given to a function"
    assert said(flow(CALL, MOV_EBX_EAX, CMP_EBX_1, JNE)) is None, "it is compared with something else"
    assert said(flow(CALL, CALL, TEST_EAX, JNE)) == Verdict("", ()), "another call's is compared"
