"""Error codes in cells of the frame, or as a byte, that are refused by looking at the code alone."""

from __future__ import annotations

from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, RETURN, STOP, TAKEN, Block, ControlFlow, Edge
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.codes.fast import refusal
from one_block import RET, SITE, Endings, flow

CALL = bytes.fromhex("e800000000")
STORE, LOAD, COMPARE = (bytes.fromhex(code) for code in ("89442408", "8b4c2408", "837c240800"))  # [rsp + 8]
PART, OVERWRITE, PUSH = (bytes.fromhex(code) for code in ("c644240801", "c744240800000000", "50"))
TEST_EAX, TEST_ECX, SETE_BL, TEST_BL = (bytes.fromhex(code) for code in ("85c0", "85c9", "0f94c3", "84db"))
MOV_EDI_EAX, ADD_EAX = bytes.fromhex("89c7"), bytes.fromhex("83c001")
JNE, STOPS, NOP = (bytes.fromhex(code) for code in ("7501", "0f0b", "90"))


def refused(made: ControlFlow, *ends: int) -> str | None:
    return refusal(made, Endings(*ends), SITE)  # type: ignore[arg-type]


def test_a_code_that_is_kept_in_the_frame_over_another_call() -> None:
    made = flow(CALL, STORE, CALL, LOAD, TEST_ECX, JNE)
    assert refused(made) == "when the code at 0x1012 is no success, the program goes on at 0x1017"
    made = flow(CALL, STORE, CALL, COMPARE, JNE)
    assert refused(made) == "when the code at 0x100e is no success, the program goes on at 0x1016"


def test_a_code_that_is_kept_as_a_byte() -> None:
    made = flow(CALL, TEST_EAX, SETE_BL, CALL, TEST_BL, JNE)
    assert refused(made) == "when the code at 0x100f is no success, the program goes on at 0x1013"


def test_instructions_that_leave_the_flags_alone_may_stand_before_the_branch() -> None:
    for between in ("0f57c0", "0f56c0", "f20f58c1", "660fefc0", "89d9", "53"):  # xorps, orps, addsd, pxor, mov, push
        made = flow(CALL, TEST_EAX, bytes.fromhex(between), JNE)
        assert (refused(made) or "").startswith("when the code at 0x1005 is no success"), between
    for between in ("83c101", "0f44c8"):  # add, cmove
        assert refused(flow(CALL, TEST_EAX, bytes.fromhex(between), JNE)) is None, between


def test_where_failure_ends_the_program_there_may_be_a_proof() -> None:
    made = flow(CALL, STORE, CALL, LOAD, TEST_ECX, JNE)
    assert refused(made, 0x1017) is None
    assert refused(made, 0x1016) is not None, "that is the way of success"


def test_all_ways_have_to_be_refused() -> None:
    made = flow(CALL, STORE, CALL, TEST_EAX, JNE)
    fall, taken = sorted(set(made.blocks) - {SITE})
    assert refused(made) is None, "none compares it"

    def compares(at: int) -> None:
        code = tuple(Decoder().decode(LOAD + TEST_ECX + JNE, at))
        after = (code[-1].end + 1, code[-1].end)
        made.blocks[at] = Block(at, code, (Edge(after[0], TAKEN), Edge(after[1], FALL)), "")
        for each in after:
            made.blocks[each] = Block(each, tuple(Decoder().decode(RET, each)), (), RETURN)

    compares(fall)
    assert refused(made) is None, "one returns"
    made.blocks[taken] = Block(taken, tuple(Decoder().decode(STOPS, taken)), (), STOP)
    assert refused(made) is not None, "the other ends the program"
    made.blocks[taken] = Block(
        taken, tuple(Decoder().decode(NOP, taken)), (Edge(fall, FALL), Edge(SITE, EXCEPTION)), ""
    )
    assert refused(made) is not None, "ways of exceptions do not count"


def test_nothing_is_said_of_codes_that_are_not_followed() -> None:
    assert refused(flow(CALL, STORE, OVERWRITE, CALL, LOAD, TEST_ECX, JNE)) is None, "it is overwritten"
    assert refused(flow(CALL, STORE, PART, CALL, LOAD, TEST_ECX, JNE)) is None, "a part of it is overwritten"
    assert refused(flow(CALL, STORE, PUSH, LOAD, TEST_ECX, JNE)) is None, "the cell's place is another then"
    assert refused(flow(CALL, STORE, MOV_EDI_EAX, CALL, LOAD, TEST_ECX, JNE)) is None, "it is given to a function"
    assert refused(flow(CALL, STORE, ADD_EAX, CALL, LOAD, TEST_ECX, JNE)) is None, "it is counted with"
    made = flow(CALL, STORE, CALL, LOAD, TEST_ECX, JNE)
    made.calls[max(made.calls)] = Callee("setjmp", None)
    assert refused(made) is None, "the call returns twice"
