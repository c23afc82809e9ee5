"""What the reports say of permissions: the table for people, the JSON for programs."""

from __future__ import annotations

import json

from farlane.analyzer.loops.model import Argument, Call, Class, Kind, LoopReport, ProgramReport
from farlane.analyzer.permissions.model import JoinedCopy, Permission, Range
from farlane.analyzer.report.text import lines, to_json

GIVEN = Permission(
    0x10, 0x15, 0x1, 0x8, defer_read=True, complete_at_call=True, more=b"\x01\x02", more_text="1", proof="because"
)
SYNCHRONIZES = Permission(0x20, 0x25, 0x1, 0x8, local_sync=True, proof="code: not used")
REFUSED = Permission(0x30, 0x35, 0x1, 0x8, refused="it is read")
JOINED = JoinedCopy(0x60, 0x65, 0x1, True, (Range(16, 4, True),), proof="because", name="main", line="main.cu:7")
ALONE = JoinedCopy(0x70, 0x75, 0x1, refused="it is read", name="main")
ELSEWHERE = Permission(0x40, 0x45, 0x2, 0x0, refused="it is in no loop of this function")


def report() -> ProgramReport:
    argument = Argument("argument 2", Kind.AFFINE, "4*i", (), 4)
    sites = {
        "cudaMemcpy": GIVEN,
        "cudaDeviceSynchronize": SYNCHRONIZES,
        "cudaMemcpyAsync": REFUSED,
        "cudaMemcpy2D": ELSEWHERE,
    }
    calls = tuple(
        Call(permission.site, (), name, None, (argument,), False, permission) for name, permission in sites.items()
    )
    launch = Call(0x50, (), "launch", "kernel", (), False)
    loop = LoopReport("main", 0x1, 0x8, None, 1, "main.cu:3", (*calls, launch), Class.TWO, (), None, ())
    return ProgramReport("/some/where", "identity", 2, 1, 0.5, (loop,), (), joined=(JOINED, ALONE))


def test_the_table_says_what_is_permitted_and_what_stood_in_the_way() -> None:
    text = list(lines(report()))
    assert "        permitted: DEFER_READ, COMPLETE_AT_CALL; because" in text
    assert "        permitted: LOCAL_SYNC; code: not used" in text
    assert "        not permitted: it is read" in text
    assert not any("in no loop" in line for line in text), "another loop's copy is not this one's"
    assert "main (main.cu:7): copy to the host at 0x60: joins the next call that waits; because" in text
    assert "main: copy to the host at 0x70: waits by itself: it is read" in text
    assert sum("permitted" in line for line in text) == 3


def test_the_json_holds_every_permission() -> None:
    content = json.loads(to_json(report()))
    (loop,) = content["loops"]
    given, synchronizes, refused, elsewhere, launch = (call["permission"] for call in loop["calls"])
    assert (given["defer_read"], given["complete_at_call"], given["local_sync"]) == (True, True, False)
    assert (given["more"], given["return_address"], given["proof"]) == ("0102", 0x15, "because")
    assert (synchronizes["local_sync"], synchronizes["defer_read"]) == (True, False)
    assert (refused["refused"], refused["defer_read"]) == ("it is read", False)
    assert elsewhere["header"] == 0
    assert launch is None
    joined, alone = content["joined"]
    assert (joined["site"], joined["shared"], joined["ranges"], joined["proof"]) == (
        0x60,
        True,
        [[16, 4, True]],
        "because",
    )
    assert (alone["line"], alone["proof"], alone["refused"]) == ("", "", "it is read")
