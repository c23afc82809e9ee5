"""Random schedules of sessions that share too little device memory: each reads what it reads alone.

    pytest tests/randomized/test_schedules.py --schedule-sessions 20 --schedule-steps 150 --schedule-seed 7

schedules/sessions.py says what a session does. A schedule that fails names its seed.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from farlane.backend.device.sim import SimDevice

sys.path.insert(0, str(Path(__file__).parent))
from schedules.sessions import Session, shared

SWITCH_SECONDS = 0.0005  # as a host's


def test_each_session_reads_what_it_reads_alone(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count, steps = pytestconfig.getoption("--schedule-sessions"), pytestconfig.getoption("--schedule-steps")
    seed = pytestconfig.getoption("--schedule-seed")
    seeds = [1000 * seed + number for number in range(count)]
    alone = []
    for each in seeds:
        device = SimDevice(threads=2, total_memory=1 << 30)
        alone.append(Session(device, each, steps).run())
        device.close()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    device = shared(count)
    try:
        found: dict[int, str] = {}
        sessions = [Session(device, each, steps) for each in seeds]

        def run(number: int) -> None:
            found[number] = sessions[number].run()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
            assert not thread.is_alive(), f"--schedule-seed {seed}: a session hangs"
        [counts] = device.report().values()
    finally:
        device.close()
        sys.setswitchinterval(before)
    with capsys.disabled():
        print(f"\n{count} sessions: {counts}")
    assert [found[number] for number in range(count)] == alone, f"--schedule-seed {seed}"
    assert counts["switches"], "no session had to give way"
    assert min(counts["bytes_saved"], counts["bytes_restored"]) > 0
