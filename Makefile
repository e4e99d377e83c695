# `make setup`, `make run`, `make test` are all that is needed; each sets up what it needs itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

.DELETE_ON_ERROR:
.PHONY: setup run test frameworks nightly lint format docs bench clean

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
RUNS ?= 3

test: setup
	$(BIN)/python tests/side_by_side.py $(RUNS) -q -m 'not nightly and not nccl and not frameworks'

# accelerate, Lightning, Hugging Face Trainer and DCP under fault: one of each.
frameworks: setup
	@$(PIP_INSTALL) -e '.[dev,frameworks]'
	$(BIN)/python -m pytest -q -m 'frameworks and not nightly and not nccl' tests/frameworks

nightly: setup
	@$(PIP_INSTALL) -e '.[dev,frameworks]'
	$(BIN)/python -m pytest -m 'nightly and not nccl' --timeout 3600

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

# One figure after the other: they would disturb each other side by side.
bench: setup
	@for script in benchmarks/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist runs .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
