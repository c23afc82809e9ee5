"""Builds what is native (Rust) into the package, so that `pip install .` is the whole installation: the shim and the host's data plane.

FARLANE_SKIP_SHIM=1 leaves the shim out: a host that serves guests elsewhere needs none.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "frontend" / "shim"))
import stripping  # noqa: E402

LIBRARIES = (
    "libfarlane_core.so",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "farlane-run",
    *(("libfarlane_redirect.so",) if platform.machine() == "x86_64" else ()),
)


PLANE = "farlane_plane.abi3.so"


class BuildShim(Command):
    """Runs frontend/shim/build.py, which writes frontend/lib/, and copies that into a wheel's tree."""

    description = "build the preloaded shim with cargo"
    user_options = ()
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        if os.environ.get("FARLANE_SKIP_SHIM") == "1":
            return
        subprocess.run([sys.executable, str(ROOT / "frontend" / "shim" / "build.py")], check=True)
        if not self.editable_mode:
            target = Path(self.build_lib) / "farlane" / "frontend" / "lib"
            self.mkpath(str(target))
            for name in LIBRARIES:
                stripping.copy(ROOT / "frontend" / "lib" / name, target / name)

    def get_source_files(self):
        return []

    def get_outputs(self):
        return [str(Path(self.build_lib) / "farlane" / "frontend" / "lib" / name) for name in LIBRARIES]

    def get_output_mapping(self):
        return {}


class BuildPlane(Command):
    """Runs backend/plane/build.py, which writes its library beside itself, and copies that into a wheel's tree."""

    description = "build the host's data plane with cargo"
    user_options = ()
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        subprocess.run([sys.executable, str(ROOT / "backend" / "plane" / "build.py")], check=True)
        if not self.editable_mode:
            target = Path(self.build_lib) / "farlane" / "backend" / "plane"
            self.mkpath(str(target))
            stripping.copy(ROOT / "backend" / "plane" / PLANE, target / PLANE)

    def get_source_files(self):
        return []

    def get_outputs(self):
        return [str(Path(self.build_lib) / "farlane" / "backend" / "plane" / PLANE)]

    def get_output_mapping(self):
        return {}


class PlatformWheel(bdist_wheel):
    """The wheel holds native libraries that do not depend on the Python version, and on x86-64 only on glibc 2.28 (frontend/shim/glibc_floor.py)."""

    def get_tag(self):
        platform_tag = super().get_tag()[2]
        return ("py3", "none", "manylinux_2_28_x86_64" if platform_tag == "linux_x86_64" else platform_tag)


class NativeDistribution(Distribution):
    """Tells setuptools that the package is not pure Python, though it compiles nothing by itself."""

    def has_ext_modules(self):
        return True


build.sub_commands = [("build_shim", None), ("build_plane", None), *build.sub_commands]
setup(
    distclass=NativeDistribution,
    cmdclass={"build_shim": BuildShim, "build_plane": BuildPlane, "bdist_wheel": PlatformWheel},
)
