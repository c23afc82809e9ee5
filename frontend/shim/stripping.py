"""What a package leaves out of a library: symbols that nothing links to, and what tells one build of the same sources from another.

The names of symbols that LLVM has shared between modules hold the folder of the build. Needs strip.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def copy(source: Path, target: Path, strip: str = "strip") -> None:
    """A library or a program. Raises CalledProcessError, FileNotFoundError: there is no strip.

    Args:
        strip: the program, which is another one for another kind of machine.
    """
    shutil.copy(source, target)
    subprocess.run([strip, "--strip-unneeded", "--remove-section=.comment", str(target)], check=True)
