"""A virtual machine in QEMU that runs commands for tests and demos.

Its kernel and its files are guest_image.py's and the caller's. The caller speaks with its shell over the first serial port: `run` waits for a
command's end, `start` and `wait_for` do not. KVM is used where it works; else QEMU translates the machine's code (TCG), for an x86-64
processor without extensions.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from farlane.frontend import shim_library
from farlane.frontend.devtools.guest_image import GuestImage, guest_image, write_archive

QEMU = "qemu-system-x86_64"
READY = "init: ready"
SHIM = "usr/lib/farlane"  # as the package farlane-guest has it
LAUNCHER = "usr/bin/farlane-run"
MEMORY_MIB = 512
BOOT_SECONDS = 120.0
TCG = ("-machine", "pc,accel=tcg", "-cpu", "qemu64")
_PROBE_SECONDS = 5.0


class MachineError(Exception):
    """The machine did not start, or a command did not end in time; the message has what it printed last."""


@functools.cache
def accelerators() -> tuple[str, ...]:
    """QEMU's options for what executes the machine's code: KVM where it really does.

    There are machines whose /dev/kvm executes nothing, so a sector that ends QEMU through a port of a device is booted.
    """
    sector = (
        b"\xba\x01\x05\xb0\x00\xee\xf4".ljust(510, b"\0") + b"\x55\xaa"
    )  # mov dx, 0x501; mov al, 0; out dx, al; hlt
    with tempfile.NamedTemporaryFile(prefix="farlane-kvm-") as disk:
        disk.write(sector)
        disk.flush()
        command = [QEMU, "-machine", "pc,accel=kvm", "-cpu", "host", "-display", "none", "-nodefaults", "-no-reboot"]
        command += ["-device", "isa-debug-exit,iobase=0x501", "-drive", f"format=raw,file={disk.name}"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            return TCG
    return ("-machine", "pc,accel=kvm", "-cpu", "host") if done.returncode == 1 and not done.stderr else TCG


def shim_files() -> dict[str, Path | bytes | None]:
    """The shim and the launcher, where farlane-guest installs them."""
    files: dict[str, Path | bytes | None] = {
        f"{SHIM}/{path.name}": path
        for path in sorted(shim_library.FOLDER.iterdir())
        if path.name != shim_library.LAUNCHER and not path.name.startswith(".")
    }
    files[LAUNCHER] = shim_library.FOLDER / shim_library.LAUNCHER
    return files


class VirtualMachine:
    """A running machine; a context manager, which ends it.

    Args:
        files: what it has besides the shim and guest_image's, by name without the first "/".
        devices: more of QEMU's options.
        image: None for guest_image's, which may raise debian.Unavailable.
        boot_seconds: what it may take until its shell is ready.
    """

    def __init__(
        self,
        files: Mapping[str, Path | bytes | None],
        devices: tuple[str, ...] = (),
        image: GuestImage | None = None,
        boot_seconds: float = BOOT_SECONDS,
    ) -> None:
        if shutil.which(QEMU) is None:
            raise MachineError(f"{QEMU} is not installed (apt-get install qemu-system-x86)")
        self._image = image or guest_image()
        self._boot_seconds = boot_seconds
        self._folder = Path(tempfile.mkdtemp(prefix="farlane-vm-"))
        self._output = ""
        self._arrived = threading.Condition()
        self._commands = 0
        write_archive(self._folder / "own.cpio", shim_files() | dict(files))
        with (self._folder / "root").open("wb") as root:
            for part in (self._image.root, self._folder / "own.cpio"):
                root.write(part.read_bytes())
        command = [QEMU, *accelerators(), "-m", str(MEMORY_MIB), "-nodefaults", "-display", "none", "-no-reboot"]
        command += ["-kernel", str(self._image.kernel), "-initrd", str(self._folder / "root")]
        # On a machine that is busy the kernel finds that an emulated timer is late, and gives up.
        command += ["-append", "console=ttyS0 quiet loglevel=0 panic=-1 no_timer_check"]
        command += ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]
        command += ["-serial", "stdio", *devices]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> VirtualMachine:
        try:
            self.wait_for(READY, self._boot_seconds)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Ends the machine at once, as a power failure does. Idempotent."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, command: str, seconds: float = 120.0) -> tuple[int, str]:
        """Runs a command of the shell's to its end; its exit status, and what it printed on both streams."""
        began = len(self._output)
        self.start(command)
        mark = f"\n:{self._commands} "
        self.wait_for(mark, seconds, began)
        self.wait_for("\n", seconds, self._output.index(mark, began) + len(mark))
        printed, _, rest = self._output[began:].partition(mark)
        return int(rest.split("\n")[0]), printed

    def start(self, command: str) -> None:
        """Gives the shell a command of one line, whose end is not waited for."""
        self._commands += 1
        assert self._process.stdin is not None
        # The mark is put together by the shell, so that the command itself does not look like its end.
        self._process.stdin.write(f"{command}; printf '\\n:%d %d\\n' {self._commands} $?\n".encode())
        self._process.stdin.flush()

    def wait_for(self, text: str, seconds: float, start: int = 0) -> None:
        """Returns when the machine has printed that. Raises MachineError when it does not in time, or ends."""
        deadline = time.monotonic() + seconds
        with self._arrived:
            while self._output.find(text, start) < 0:
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    why = "ended" if left > 0 else f"did not print {text!r} within {seconds:.0f} s"
                    raise MachineError(f"the machine {why}; its last output: {self._output[-2000:]}")
                self._arrived.wait(min(left, 1.0))

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self._output

    def _read(self) -> None:
        assert self._process.stdout is not None
        while data := self._process.stdout.read1(65536):  # type: ignore[attr-defined]
            with self._arrived:
                self._output += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", data.decode("utf-8", "replace"))
                self._arrived.notify_all()
