"""What compiles to machine code is led to PTX, with no package but ours: what a program finds, and what the device makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from farlane.backend.device.null import NullDevice
from farlane.backend.host.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.frontend import steering
from farlane.frontend.embedded import EmbeddedHost

CLIENTS = Path(__file__).parents[2] / "clients"
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
FOUND = "import shutil; print(shutil.which('ptxas'))"


def run(*words: str, **extra: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment = kept | {"PYTHONPATH": str(CLIENTS)} | extra
    done = subprocess.run([*FARLANE, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("variable", ["", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"])
def test_what_ptxas_gives_runs(variable: str) -> None:
    """As Triton and XLA use it: by a variable or the PATH, and the file's bytes go to cuModuleLoadData."""
    script = f"import driver_api, os; print(driver_api.assembled(os.environ.get({variable!r}, 'ptxas'), 5))"
    assert run("run", "--", sys.executable, "-c", script) == "[1, 2, 3, 4, 5]\n"


def test_hosts_that_are_named(sim_host: EmbeddedHost) -> None:
    stand_in = f"{steering.PTXAS}\n"
    assert run("run", "--host", sim_host.url, "--", sys.executable, "-c", FOUND) == stand_in
    assert run("run", "--host", sim_host.url, "--", sys.executable, "-c", FOUND, FARLANE_STEERING="off") != stand_in
    connected = f"import farlane; farlane.connect({sim_host.url!r}); {FOUND}"
    assert run("run", "--host", sim_host.url, "--", sys.executable, "-c", connected) == stand_in
    assert f"export CUDA_ROOT={steering.ROOT}\n" in run("env", "--host", sim_host.url)


def test_what_takes_machine_code_gets_it() -> None:
    """As a GPU does, or the null device."""
    host = Host(NullDevice())
    edge = Edge(host)
    with tempfile.TemporaryDirectory() as short:
        (endpoint,) = edge.listen([parse(f"unix://{short}/s")])
        found = run("run", "--host", str(endpoint), "--", sys.executable, "-c", FOUND)
        edge.stop(5)
        host.close()
    assert found != f"{steering.PTXAS}\n"


def test_the_device_files_of_a_gpu_are_there() -> None:
    """JAX looks for them."""
    script = "import os; print(*(os.path.exists(f'/dev/{name}') for name in ('nvidia0', 'nvidiactl', 'nvidia-none')))"
    assert run("run", "--", sys.executable, "-c", script) == "True True False\n"


NVRTC = """
#include <string.h>
#define GIVES(name, text) \\
    int name##Size(void *program, size_t *size) { *size = sizeof text; return 0; } \\
    int name(void *program, char *code) { memcpy(code, text, sizeof text); return 0; }
GIVES(nvrtcGetPTX, "PTX")
GIVES(nvrtcGetCUBIN, "machine code")
"""
USER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
int nvrtcGetCUBIN(void *, char *), nvrtcGetCUBINSize(void *, size_t *);
int main(int count, char **words) {
    size_t size = 0;
    char code[64] = "";
    if (count > 1) {
        void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
        ((int (*)(void *, size_t *))dlsym(library, "nvrtcGetCUBINSize"))(0, &size);
        ((int (*)(void *, char *))dlsym(library, "nvrtcGetCUBIN"))(0, code);
    }
#ifdef LINKED
    else {
        nvrtcGetCUBINSize(0, &size);
        nvrtcGetCUBIN(0, code);
    }
#endif
    printf("%s %zu\\n", code, size);
}
"""


@pytest.mark.parametrize("linked", [False, True], ids=["dlsym", "linked"])
def test_machine_code_of_nvrtc(linked: bool, tmp_path: Path) -> None:
    """A stand-in for NVRTC says which of its functions was called; tests/guests/test_steering.py has the real one."""
    library = tmp_path / "libnvrtc.so.13"
    (tmp_path / "nvrtc.c").write_text(NVRTC)
    (tmp_path / "user.c").write_text(USER)
    compiler = ["cc", "-o", library, "-shared", "-fPIC", f"-Wl,-soname,{library.name}", tmp_path / "nvrtc.c"]
    subprocess.run(compiler, check=True)
    words = ["-DLINKED", library, f"-Wl,-rpath,{tmp_path}"] if linked else []
    program = tmp_path / "user"
    subprocess.run(["cc", "-o", program, tmp_path / "user.c", *words, "-ldl"], check=True)
    arguments = [] if linked else [str(library)]
    assert run("run", "--", str(program), *arguments) == "PTX 4\n"
    assert run("run", "--", str(program), *arguments, FARLANE_STEERING="off") == "machine code 13\n"


# A description and a layout are one integer each: the type of computation, the type of the elements.
CUBLAS = r"""
#include <stdio.h>
#include <stddef.h>
#define PRODUCT(name, count, stride) \
    int name(void *h, int ta, int tb, count m, count n, count k, void *one, void *a, int at, count lda, stride void *b, int bt, count ldb, \
             stride void *zero, void *c, int ct, count ldc, int compute, int algorithm) { \
        printf("%d %d %d %d %d\n", (int)m, at, (int)ldc, compute, algorithm); return 0; }
PRODUCT(cublasGemmEx, int, )
PRODUCT(cublasGemmEx_64, long, )
static int get(int *from, int attribute, int *to) { *to = *from; return attribute; }
int cublasLtMatmulDescGetAttribute(int *d, int which, int *to, size_t n, size_t *w) { return get(d, which, to); }
int cublasLtMatrixLayoutGetAttribute(int *d, int which, int *to, size_t n, size_t *w) { return get(d, which, to); }
int cublasLtMatmulDescSetAttribute(int *d, int which, const int *from, size_t n) { *d = *from; return which; }
int cublasLtMatmulAlgoGetHeuristic(void *h, int *d, int *a, int *b, int *c, int *e, void *p, int wanted, void *r, int *count) {
    printf("asked %d, wanted %d\n", *d, wanted); *count = 1; return 0; }
int cublasLtMatmul(void *h, int *d, void *one, void *a, int *at, void *b, int *bt, void *zero, void *c, int *ct, void *e, int *et,
                   void *algorithm, void *work, size_t size, void *stream) {
    printf("computed %d, %zu\n", *d, size); return 0; }
"""
CUBLAS_USER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
typedef int Product(void *, int, int, int, int, int, void *, void *, int, int, void *, int, int, void *, void *, int, int, int, int);
typedef int Wide(void *, int, int, long, long, long, void *, void *, int, long, void *, int, long, void *, void *, int, long, int, int);
typedef int Heuristic(void *, int *, int *, int *, int *, int *, void *, int, void *, int *);
typedef int Matmul(void *, int *, void *, void *, int *, void *, int *, void *, void *, int *, void *, int *, void *, void *, size_t, void *);
Product cublasGemmEx;
Wide cublasGemmEx_64;
Heuristic cublasLtMatmulAlgoGetHeuristic;
Matmul cublasLtMatmul;
int main(int count, char **words) {
#ifdef LINKED
#define FIND(type, name) type *found_##name = name
#else
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
#define FIND(type, name) type *found_##name = (type *)dlsym(library, #name)
#endif
    FIND(Product, cublasGemmEx);
    FIND(Wide, cublasGemmEx_64);
    FIND(Heuristic, cublasLtMatmulAlgoGetHeuristic);
    FIND(Matmul, cublasLtMatmul);
    for (int kind = 0; kind < 3; kind += 2)
        found_cublasGemmEx(0, 0, 0, 1, 2, 3, 0, 0, kind, 4, 0, kind, 5, 0, 0, kind, 6, 68, -1);
    found_cublasGemmEx(0, 0, 0, 1, 2, 3, 0, 0, 2, 4, 0, 2, 5, 0, 0, 2, 6, 64, -1);
    found_cublasGemmEx_64(0, 0, 0, 1, 2, 3, 0, 0, 14, 4, 0, 14, 5, 0, 0, 14, 6, 68, -1);
    int description = 68, layout = 2, found;
    found_cublasLtMatmulAlgoGetHeuristic(0, &description, &layout, &layout, &layout, &layout, 0, 7, 0, &found);
    found_cublasLtMatmul(0, &description, 0, 0, &layout, 0, &layout, 0, 0, &layout, 0, &layout, 0, 0, 9, 0);
    printf("%d, %d found\n", description, found);
}
"""
# Rows, the first operand's type, the result's leading dimension, the type of computation, the algorithm.
FLOAT, HALF_SUMS = "1 0 6 68 -1", "1 2 6 64 -1"


def asked_for(compute: int) -> str:
    products = [FLOAT, f"1 2 6 {compute} -1", HALF_SUMS, f"1 14 6 {compute} -1"]
    return "\n".join([*products, f"asked {compute}, wanted 7", f"computed {compute}, 9", "68, 1 found", ""])


@pytest.mark.parametrize("linked", [False, True], ids=["dlsym", "linked"])
def test_half_and_bfloat16_are_pedantic(linked: bool, tmp_path: Path) -> None:
    """A stand-in for cuBLAS says what it is asked for; tests/guests has the real one, docs/reference/libraries.md why."""
    library = tmp_path / "libcublas.so.13"
    (tmp_path / "cublas.c").write_text(CUBLAS)
    (tmp_path / "user.c").write_text(CUBLAS_USER)
    compiler = ["cc", "-o", library, "-shared", "-fPIC", f"-Wl,-soname,{library.name}", tmp_path / "cublas.c"]
    subprocess.run(compiler, check=True)
    words = ["-DLINKED", library, f"-Wl,-rpath,{tmp_path}"] if linked else []
    program = tmp_path / "user"
    subprocess.run(["cc", "-o", program, tmp_path / "user.c", *words, "-ldl"], check=True)
    arguments = [] if linked else [str(library)]
    assert run("run", "--", str(program), *arguments) == asked_for(69)
    assert run("run", "--", str(program), *arguments, FARLANE_STEERING="off") == asked_for(68)
