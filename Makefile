# `make setup`, `make run`, `make test` are all that is needed; each sets up what it needs itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

.DELETE_ON_ERROR:
.PHONY: setup run test frameworks nightly lint format docs claims bench nccl clean

setup: $(STAMP)

# The stamp is newer than both files exactly when nothing has to be installed.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chaoskit needs Python 3.11 or newer, $(PYTHON) is %d.%d: make PYTHON=python3.11" % sys.version_info[:2])'
	@echo "Installing into $(VENV); torch is large, this takes a minute or two"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@

run: setup
	$(BIN)/chaoskit run all

# Most tests wait for a hang to be noticed, so they run side by side; plain `pytest` runs them in one row.
RUNS ?= 4

test: setup
	$(BIN)/python tests/side_by_side.py $(RUNS) -q -m 'not nightly and not nccl and not frameworks'

# accelerate, Lightning, Hugging Face Trainer and DCP under fault: one of each.
frameworks: setup
	@$(PIP_INSTALL) -e '.[dev,frameworks]'
	$(BIN)/python -m pytest -q -m 'frameworks and not nightly and not nccl' tests/frameworks

nightly: setup
	@$(PIP_INSTALL) -e '.[dev,frameworks]'
	$(BIN)/python -m pytest -q --hypothesis-profile exploring -m 'hypothesis and not nightly and not nccl'
	$(BIN)/python -m pytest -m 'nightly and not nccl' --timeout 3600

# All that needs a GPU, and one folder with what came of it; without a GPU it says why and ends with 2.
nccl: setup
	$(BIN)/python tests/on_gpu.py $(OUT)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/python docs/generate_guards.py
	$(BIN)/python docs/generate_claims.py

# What people are told, run on one torch: `make claims` on that of .venv, `make claims TORCH=2.6` in an environment
# of its own (about 6 GB on the disk for a CUDA build; CLAIMS_VENV says where). Writes docs/claims/.
TORCH ?=
CLAIMS_VENV ?= $(if $(TORCH),.venv-claims-$(TORCH),$(VENV))
CLAIMS_STAMP := $(if $(TORCH),$(CLAIMS_VENV)/.installed-claims,$(STAMP))
CLAIMS_ARGS ?=

# sympy and setuptools are torch's own to choose: each version of it takes others.
$(CLAIMS_VENV)/.installed-claims: pyproject.toml constraints.txt
	@echo "Installing torch $(TORCH) into $(CLAIMS_VENV); a CUDA build is about 3 GB to download"
	@test -x $(CLAIMS_VENV)/bin/python || $(PYTHON) -m venv $(CLAIMS_VENV)
	@grep -vE '^(torch|sympy|setuptools)==' constraints.txt > $(CLAIMS_VENV)/constraints.txt
	@$(CLAIMS_VENV)/bin/python -m pip install -qq --disable-pip-version-check -c $(CLAIMS_VENV)/constraints.txt \
		'torch==$(TORCH).*' numpy -e '.[hosts]'
	@touch $@

claims: $(CLAIMS_STAMP)
	$(CLAIMS_VENV)/bin/python docs/generate_claims.py --run $(CLAIMS_ARGS)

# One figure after the other: they would disturb each other side by side.
bench: setup
	@for script in benchmarks/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist runs .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
