"""farlane-host under systemd: a virtual machine whose first process is systemd has both packages, starts the service and runs a guest.

Without KVM the machine's code is translated, which takes minutes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import roots
from farlane.frontend.devtools.packages.host import Release
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.virtual_machine import READY, VirtualMachine
from virtual_machines import require_machines

pytestmark = [pytest.mark.packages, pytest.mark.timeout(3600), pytest.mark.xdist_group("packages")]

MEMORY_MIB = 2048
DISK_MIB = 4096
SECONDS = 600  # that the start and each command may take
SHELL = """\
[Unit]
Description=The shell that virtual_machine.py speaks with

[Service]
ExecStart=/bin/sh /usr/local/lib/shell
StandardInput=tty
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root SYSTEMD_PAGER= SYSTEMD_COLORS=0
"""
# Nothing but the shell writes to the console; translated code is slow.
MANAGER = """\
[Manager]
ShowStatus=no
DefaultTimeoutStartSec=20min
DefaultTimeoutStopSec=20min
"""
READ_COMMANDS = f"""\
stty -echo -onlcr -icrnl -ixon
echo "{READY}"
while read -r line; do eval "$line" </dev/null; done
"""
MOST_EXPOSED = 2.5


Commands = Callable[[str], list[str]]


@pytest.fixture
def machine(
    host: tuple[Path, Release],
    package: Path,
    program: Path,
    system: Callable[..., Path],
    page_commands: Commands,
    tmp_path: Path,
) -> Iterator[VirtualMachine]:
    """A Debian system of the host's release, with farlane-host and farlane-guest, installed as the page says."""
    require_machines()
    if shutil.which("mke2fs") is None:
        pytest.skip("mke2fs is not installed")
    root = system(host[1].name, roots.HOST_NEEDS)
    for built, heading in ((host[0], "A host as a service"), (package, "A guest")):
        shutil.copy(built, root / "opt")
        command = ["sh", "-c", page_commands(heading)[0].replace("+deb12_", f"+deb{host[1].number}_")]
        done = roots.enter(root, ["/proc", "/dev"], command, roots.ENVIRONMENT, 900, Path("/opt"), users=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (root / "opt" / built.name).unlink()
    shutil.copy(program, root / "opt/app")
    units = root / "etc/systemd/system"
    (units / "shell.service").write_text(SHELL)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/shell.service").symlink_to("../shell.service")
    (units / "serial-getty@ttyS0.service").symlink_to("/dev/null")
    (root / "etc/systemd/system.conf.d").mkdir()
    (root / "etc/systemd/system.conf.d/slow.conf").write_text(MANAGER)
    (root / "usr/local/lib/shell").write_text(READ_COMMANDS)
    (root / "etc/machine-id").write_text(f"{1:032x}\n")
    disk = tmp_path / "disk"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(disk), f"{DISK_MIB}M"], check=True)
    shutil.rmtree(root)
    # numpy's wheels are for processors with SSE 4.2.
    devices = ("-m", str(MEMORY_MIB), "-cpu", "max")
    devices += ("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe")
    with VirtualMachine({}, devices, boot_seconds=SECONDS) as booted:
        yield booted


def test_systemd_starts_the_service_which_serves_a_guest_and_stops_cleanly(
    machine: VirtualMachine, vecadd: Entry, page_commands: Commands
) -> None:
    def run(command: str) -> tuple[int, str]:
        status, output = machine.run(command, SECONDS)
        return status, output.strip()

    def journal() -> str:
        return run("journalctl --no-pager --unit farlane-host")[1]

    assert run("cat /proc/1/comm") == (0, "systemd")
    status, output = run(page_commands("A host as a service")[1])
    assert status == 0, output + journal()
    # It has waited until guests can connect.
    assert run("cd /opt && cp /var/lib/farlane/host/ca.pem .")[0] == 0
    _, settings, start = page_commands("A guest")
    assert run(settings.replace("farlane-...", "$(cat /var/lib/farlane/first-token)")) == (0, "")
    guest = start.replace("gpu-host", "127.0.0.1")
    assert run(guest) == (0, str(vecadd.expected).strip())
    status, output = run(f"FARLANE_TOKEN=wrong {guest}")
    assert status != 0, output
    # systemd's own measure of what a service may do goes from 0 (nothing) to 10.
    output = run("systemd-analyze security --no-pager farlane-host | tail -1")[1]
    level = re.search(r"exposure level for farlane-host.service: (\d+\.\d+)", output)
    assert level is not None, output
    assert float(level[1]) <= MOST_EXPOSED, output
    status, output = run("systemctl stop farlane-host")
    assert status == 0, output
    assert run("systemctl is-active farlane-host")[1] == "inactive"
    stopping = journal().partition("Stopping farlane-host.service")[2]
    assert "farlane-host.service: Deactivated successfully." in stopping, stopping
    assert not re.search("WARNING|ERROR|[Kk]ill", stopping), stopping
    assert run('grep -l "^Uid:[[:space:]]*$(id -u farlane)[[:space:]]" /proc/[0-9]*/status')[1] == "", stopping
    print(f"{level[0]}\n{journal()}")
