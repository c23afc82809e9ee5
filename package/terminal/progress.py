"""How far long work is: a bar on standard error, where that is a terminal, from two seconds on.

The bar is rich's. It goes away when the work ends, and before something is printed (`Progress.hidden`), so that it is never
among a command's output. It is for work of Farlane's own: while a program runs that may print, no bar is shown.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

SECONDS = 2.0


class Progress:
    """A context manager around the work.

    Args:
        what: what is done, in a few words.
        total: of how many steps; None where that is not known.
        seconds: from when on the bar is shown.
    """

    def __init__(self, what: str, total: int | None = None, seconds: float = SECONDS) -> None:
        self._what, self._total, self._done = what, total, 0
        self._lock = threading.RLock()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._ended = False
        self._timer = threading.Timer(seconds, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        if _is_terminal():
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            self._hide()

    def expect(self, total: int) -> None:
        """Says how many steps there are, once that is known."""
        with self._lock:
            self._total = total
            self._update()

    def begin(self, what: str) -> None:
        """Says what is done now."""
        with self._lock:
            self._what = what
            self._update()

    def advance(self, steps: int = 1) -> None:
        """Says that steps are done."""
        with self._lock:
            self._done += steps
            self._update()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """While something is printed."""
        with self._lock:
            shown = self._bar is not None
            self._hide()
            try:
                yield
            finally:
                if shown:
                    self._show()

    def _show(self) -> None:
        from farlane.terminal.console import console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        with self._lock:
            if self._ended or self._bar is not None:
                return
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
            )
            # Not through rich: what is printed elsewhere goes where it was meant to go.
            self._bar = Bar(
                *columns, console=console(error=True), transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
            self._bar.start()

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _update(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._what, total=self._total, completed=self._done)


def _is_terminal() -> bool:
    """Whether a bar can be shown; TERM=dumb cannot take a line back."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
