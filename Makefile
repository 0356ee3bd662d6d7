# Eight verbs. Each makes the environment that it needs in .venv, and installs again only when pyproject.toml changed.
#
#   make demo              train on the handwritten digits, in process          make demo ON=ray     on a local Ray
#   make seismic           full-waveform inversion; writes figures to build/seismic
#   make test              every test that needs no torch                       make test ORACLE=1   and those that do
#                          in two processes, of which one runs those that use Ray; make test ARGS=-n0   in one
#   make lint              style, types, import table, a folder of tests for each room
#   make bench             raygrad beside torch, HIPS autograd and bare Ray, in one run
#   make docs              docs/compatibility.md, written from the test suite; stubs of functions, from the op catalogue
#   make clean             what the tools left in the tree (`rm -rf .venv` also starts the environment afresh)
#
# PYTHON picks the interpreter (3.11 or later); ARGS is passed on: make test ARGS="tests/proto -k golden"

PYTHON ?= python3
ON ?= local
ORACLE ?=
ARGS ?=

BIN := .venv/bin
comma := ,
oracle := $(filter-out 0 no,$(ORACLE))

# A stamp is named after the extras that it stands for: .venv/installed+demo+dev+ray
DEMO_ENV := .venv/installed+demo$(if $(filter-out local,$(ON)),+ray)
LINT_ENV := .venv/installed+demo+dev+ray
TEST_ENV := $(LINT_ENV)+jax+numba$(if $(oracle),+oracle)
BENCH_ENV := .venv/installed+bench+demo+oracle+ray

# Bits are promised at equal BLAS threads, and two cores are shared by several worker processes: one thread each.
# Ray: no usage reports, no token file in the home folder, and device variables left alone for actors without a GPU.
RUN_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 RAY_USAGE_STATS_ENABLED=0 \
	RAY_AUTH_MODE=disabled RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0

.PHONY: demo seismic test lint bench docs clean
.DELETE_ON_ERROR:

demo: $(DEMO_ENV)
	$(RUN_ENV) $(BIN)/python examples/digits.py --on $(ON) $(ARGS)

seismic: $(DEMO_ENV)
	$(RUN_ENV) $(BIN)/python examples/seismic/invert.py --on $(ON) --out build/seismic $(ARGS)

test: $(TEST_ENV)
	$(RUN_ENV) $(BIN)/python tests/no_process_left.py $(BIN)/pytest -n 2 --dist loadfile \
		$(if $(oracle),,-m "not oracle") $(ARGS)

lint: $(LINT_ENV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/architecture/test_mirror.py

bench: $(BENCH_ENV)
	$(RUN_ENV) $(BIN)/python benchmarks/run.py $(ARGS)

docs: $(TEST_ENV)
	RAYGRAD_WRITE_DOCS=1 $(BIN)/pytest -q tests/conformance/test_compatibility.py -m "not oracle"
	RAYGRAD_WRITE_STUBS=1 $(BIN)/pytest -q tests/typed/test_stubs.py -m "not oracle"

clean:
	rm -rf build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find . -path ./.venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed+%: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(subst +,$(comma),$*)]'
	touch $@
