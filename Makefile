# `make demo` and `make test` are all that a fresh machine needs: Python 3.11+ with venv, Rust's cargo, a C and C++ compiler.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SHIM   := frontend/shim
WORKERS ?= 2

.PHONY: help install shim demo cargo-tests test test-skipped test-matrix test-guests test-libraries test-fleet test-numba test-cupy test-compilers test-glibc test-vm demo-vm packages test-packages test-tutorials test-gpu bench-gpu gpu-bundle lint typecheck imports generate check-generated bench clean test-pages test-site docs picture results

help:
	@echo "make demo       build, install, and run a CUDA program on the embedded host in all three modes"
	@echo "make test       build, install, and run all tests"
	@echo "make test-skipped   the tests that the last 'make test' skipped, after something was installed"
	@echo "make test-guests  Python packages that speak the driver API, as guests; installs them"
	@echo "make test-libraries  all cases of CuPy's and NVIDIA's libraries, of which test-guests runs a part (half an hour)"
	@echo "make test-fleet   a fleet on a Ray cluster of this machine; installs Ray"
	@echo "make test-numba   Numba's own test suite, as a guest (an hour)"
	@echo "make test-cupy    a share of CuPy's own test suite, as a guest (15 minutes)"
	@echo "make test-compilers  Triton, JAX, Warp and Taichi, as guests; downloads 3 GB"
	@echo "make test-glibc   programs with their runtime linked in, on other versions of glibc (Debian 11 to 13); downloads 250 MB"
	@echo "make demo-vm    a virtual machine (QEMU) as guest: the demo programs in all three modes, beside outside"
	@echo "make test-vm    the tests that boot virtual machines"
	@echo "make packages   sdist, wheel, Debian packages and SBOMs into dist/; make test-packages: installs them into clean Debian systems"
	@echo "make test-tutorials  follows the tutorials from their first line in a clean Debian system (an hour); downloads 4 GB"
	@echo "make test-matrix    static and shared builds of all programs of tests/native, side by side (hours)"
	@echo "make test-gpu   the tests that need an NVIDIA GPU; make bench-gpu: the benchmarks that do"
	@echo "make gpu-bundle what these need on a GPU machine without a network (docs/howto/test-on-a-gpu.md)"
	@echo "make lint typecheck imports check-generated    what .ci/run checks besides"
	@echo "make bench      the benchmarks; each prints ratios"
	@echo "make generate   write the generated files anew from protos/ and the commands' parsers"
	@echo "make docs       the pages as a site, in .cache/site; make picture: the README's; make test-pages: their slow commands and diagrams (make test-site: these alone)"
	@echo "make results    measures what takes minutes; writes the tables and plots of docs/results (RESULTS_ARGS='--only AREA', --all, --tables)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Installing builds what is native, the shim and the host's data plane (setup.py); editing their sources afterwards needs only `make shim`.
# Without setuptools' remark about folders that are named as packages: the repository's are (pyproject.toml, package-dir).
QUIETLY := PYTHONWARNINGS='ignore:Editable installation'
$(VENV)/installed: pyproject.toml setup.py | $(BIN)/python
	$(QUIETLY) $(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

install: $(VENV)/installed shim

shim: $(VENV)/installed
	@$(BIN)/python $(SHIM)/build.py
	@$(BIN)/python backend/plane/build.py

demo: install
	@$(BIN)/python examples/demo.py

# Debian's packages, installed where that may be: $(call NEEDS,PROGRAM,PACKAGE).
NEEDS = command -v $(1) >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || (apt-get update -qq && \
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null) || true

demo-vm: install
	@$(call NEEDS,qemu-system-x86_64,qemu-system-x86)
	@$(BIN)/python examples/vm.py

test-vm: install
	@$(call NEEDS,qemu-system-x86_64,qemu-system-x86)
	@test -x .cache/vhost/bin/vhost-device-vsock || cargo install --quiet --locked --version 0.3.0 --root .cache/vhost vhost-device-vsock || true
	$(BIN)/python -m pytest -m vm tests/e2e/test_vm.py tests/e2e/test_vm_vsock.py $(PYTEST_ARGS)

# A cross compiler for AArch64, and Rust's standard library for it where rustup is Rust's installer.
CROSS = $(call NEEDS,aarch64-linux-gnu-gcc,gcc-aarch64-linux-gnu libc6-dev-arm64-cross); \
        ! command -v rustup >/dev/null || rustup --quiet target add aarch64-unknown-linux-gnu || true

packages: install
	@$(CROSS)
	@$(BIN)/python -m farlane.frontend.devtools.packages dist $(PACKAGES)

test-packages: install
	@$(CROSS)
	@$(call NEEDS,aarch64-linux-gnu-g++,g++-aarch64-linux-gnu)
	@$(call NEEDS,qemu-aarch64-static,qemu-user-static)
	@$(call NEEDS,qemu-system-aarch64,qemu-system-arm)
	@$(call NEEDS,debootstrap,debootstrap)
	@$(call NEEDS,lintian,lintian)
	@$(call NEEDS,qemu-system-x86_64,qemu-system-x86)
	$(BIN)/python -m pytest -o faulthandler_timeout=4000 -m packages tests/e2e/packages $(PYTEST_ARGS)

# The tutorials in a clean system; the result is docs/results/tutorials.md. TUTORIALS_ARGS='--continue cpp-program' goes on with that page.
test-tutorials: install
	@$(call NEEDS,debootstrap,debootstrap)
	PYTHONPATH=tests/glibc $(BIN)/python tests/tutorials/follow.py $(TUTORIALS_ARGS)

# A worker that crashes ends the run, which names its test: with loadgroup, xdist would wait for a replacement's tests for ever.
# Bytecode is kept, whatever the environment says: programs of Python are started hundreds of times.
PYTEST  = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0 -m "not gpu and not guests and not compilers and not glibc and not vm and not packages and not fleet and not pages"
SKIPPED = .cache/skipped.txt

# Of what is built for the tests, the release build links with one processor for a minute at a time: cargo's tests are built beside it.
# Without tests in documentation, of which there are none: cargo would look for them in each crate.
CARGO_TESTS = cd $(SHIM) && cargo test --quiet --workspace --exclude protogen --lib --bins --tests
cargo-tests:
	$(CARGO_TESTS) --no-run

test:
	@$(MAKE) --no-print-directory --jobs 2 install cargo-tests
	$(CARGO_TESTS)
	$(PYTEST) --write-skips=$(SKIPPED) $(PYTEST_ARGS)

test-skipped: install
	$(PYTEST) --only-skipped=$(SKIPPED) $(PYTEST_ARGS)

# Python packages as guests, in an environment of their own, which has Farlane as a user's has: with `farlane.connect` and its pytest plugin.
GUESTS := .cache/guests
$(GUESTS)/installed: tests/guests/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(GUESTS)
	$(QUIETLY) FARLANE_SKIP_SHIM=1 $(GUESTS)/bin/python -m pip install --quiet --requirement $< --editable .
	@touch $@

# Where nothing is cached, a test of a library compiles for up to half an hour.
GUESTS_PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --max-worker-restart 0 -o faulthandler_timeout=1900 tests/guests
test-guests: install $(GUESTS)/installed
	$(GUESTS_PYTEST) -m "guests and not whole" $(PYTEST_ARGS)

test-libraries: install $(GUESTS)/installed
	$(GUESTS_PYTEST) -m whole $(PYTEST_ARGS)

# A fleet on Ray, in an environment of its own, which has Farlane with that extra.
FLEET := .cache/fleet
$(FLEET)/installed: pyproject.toml
	$(PYTHON) -m venv $(FLEET)
	$(QUIETLY) FARLANE_SKIP_SHIM=1 $(FLEET)/bin/python -m pip install --quiet --editable '.[fleet]' hypothesis pytest pytest-timeout pytest-xdist
	@touch $@

test-fleet: install $(FLEET)/installed
	$(FLEET)/bin/python -m pytest -m fleet tests/fleet $(PYTEST_ARGS)

# Numba's own test suite; the result is tests/guests/numba_results.txt and docs/results/numba-suite.md. NUMBA_ARGS=--continue goes on where a run was cut off.
test-numba: install $(GUESTS)/installed
	$(BIN)/python tests/guests/numba_suite.py $(NUMBA_ARGS)

# A share of CuPy's own test suite; the result is tests/guests/cupy_results.txt and docs/results/cupy-suite.md. CUPY_ARGS='--every 1 --only logic' runs a part whole.
test-cupy: install $(GUESTS)/installed
	$(BIN)/python tests/guests/cupy_suite.py $(CUPY_ARGS)

# Compilers to machine code, which are steered to PTX.
COMPILERS := .cache/compilers
$(COMPILERS)/installed: tests/guests/compilers.txt
	$(PYTHON) -m venv $(COMPILERS)
	$(COMPILERS)/bin/python -m pip install --quiet --requirement $<
	@touch $@

test-compilers: install $(COMPILERS)/installed
	$(BIN)/python -m pytest -m compilers tests/guests $(PYTEST_ARGS)

# Programs built and run with the C libraries of other Debian releases, in folders made of their packages (tests/glibc/roots.py).
test-glibc: install
	$(BIN)/python tests/glibc/roots.py
	$(BIN)/python -m pytest -m glibc tests/glibc $(PYTEST_ARGS)

# Every program of tests/native, its runtime shared and linked in, in all modes; the result is tests/native/matrix.txt.
# MATRIX_ARGS=--continue goes on where a run was cut off.
test-matrix: install
	$(BIN)/python tests/native/matrix.py $(MATRIX_ARGS)
	$(BIN)/python tests/native/stripped.py

# On a GPU machine without a network `make gpu-bundle`, made elsewhere and brought along, takes the place of `install`; its python is PYTHON.
GPU_BUNDLE := dist/gpu
GPU_TESTS  := tests/contract tests/e2e/test_native.py tests/e2e/test_gpu.py
ON_GPU      = if [ -x $(BIN)/python ] || ! [ -d $(GPU_BUNDLE) ]; then $(MAKE) install && $(BIN)/python $(1); \
              else $(PYTHON) frontend/devtools/gpu_bundle.py enter $(GPU_BUNDLE) -- $(1); fi

test-gpu:
	$(call ON_GPU,-m pytest -m gpu $(GPU_TESTS) $(PYTEST_ARGS))

bench-gpu:
	$(call ON_GPU,benchmarks/gpu/run.py $(BENCH_ARGS))

gpu-bundle: install
	$(BIN)/python frontend/devtools/gpu_bundle.py make $(GPU_BUNDLE) $(BUNDLE_ARGS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd $(SHIM) && cargo fmt --all --check
	cd $(SHIM) && cargo clippy --quiet --workspace --all-targets --exclude protogen -- -D warnings

# mypy does not see an editable install whose packages are mapped from other folders, and import-linter wants them without a
# package above them: give both a tree of links.
define LINKS
	@rm -rf .typing && mkdir -p .typing/farlane
	@ln -s ../../frontend .typing/farlane/frontend
	@ln -s ../../backend .typing/farlane/backend
	@ln -s ../../analyzer .typing/farlane/analyzer
	@ln -s ../../fleet .typing/farlane/fleet
	@ln -s ../../benchmarks/roundtrips .typing/farlane/roundtrips
	@ln -s ../../protos/fatbin .typing/farlane/fatbin
	@ln -s ../../protos/hosturl .typing/farlane/hosturl
	@ln -s ../../protos/childhost .typing/farlane/childhost
	@ln -s ../../protos/demangle .typing/farlane/demangle
	@ln -s ../../protos/limits .typing/farlane/limits
	@ln -s ../../protos/farlane/v1 .typing/farlane/v1
	@ln -s ../../package/terminal .typing/farlane/terminal
endef

typecheck: install
	$(LINKS)
	@ln -s ../../package/__init__.py .typing/farlane/__init__.py
	MYPYPATH=.typing:$(SHIM) $(BIN)/mypy -p farlane
	MYPYPATH=protos/codegen $(BIN)/mypy -p farlane_codegen
	MYPYPATH=.typing:pages $(BIN)/mypy pages/*.py pages/adapters/*.py

imports: install
	$(LINKS)
	PYTHONPATH=.typing $(BIN)/lint-imports

generate: install
	$(BIN)/python protos/codegen/generate.py
	$(BIN)/python pages/commands.py
	$(BIN)/python frontend/devtools/manual.py

check-generated: install
	$(BIN)/python protos/codegen/generate.py --check
	$(BIN)/python pages/commands.py --check
	$(BIN)/python frontend/devtools/manual.py --check

# The site of docs/; a link that leads nowhere is an error. What builds it is the extra [docs].
$(VENV)/docs: $(VENV)/installed
	$(QUIETLY) FARLANE_SKIP_SHIM=1 $(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "python3 -m http.server --directory .cache/site shows it"

picture: install
	@$(BIN)/python pages/picture.py

results: install
	@$(BIN)/python pages/results.py $(RESULTS_ARGS)

test-pages: install $(VENV)/docs
	$(BIN)/python -m pytest -m pages tests/e2e/commands/test_pages.py tests/e2e/commands/test_site.py $(PYTEST_ARGS)

# The diagrams alone, in a real browser.
test-site: install $(VENV)/docs
	$(BIN)/python -m pytest -m pages tests/e2e/commands/test_site.py $(PYTEST_ARGS)

bench: install
	@for b in benchmarks/*.py benchmarks/compiler/*.py; do case $$b in benchmarks/_*) ;; *) echo "== $$b"; $(BIN)/python $$b || exit 1;; esac; done

clean:
	rm -rf $(VENV) .cache .typing build dist $(SHIM)/target frontend/lib backend/plane/*.so
