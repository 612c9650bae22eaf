# Everything a fresh clone needs: Python 3.11+ with venv, git and make. `make run` starts the program.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Override with `make run PYTHON=/path/to/python`.
PYTHON ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint types format bench pictures clean

help:
	@echo "make run    start agent-tui         (ARGS='--demo' passes arguments on)"
	@echo "make test   the whole test suite    (ARGS='-k name' passes arguments on)"
	@echo "make lint   ruff: rules and format"
	@echo "make types  mypy --strict"
	@echo "make format put every file into the house format"
	@echo "make bench  the benchmarks"
	@echo "make pictures  the pictures of the documentation"
	@echo "make clean  remove the environment, caches and build output"

run: $(VENV)/.installed
	@$(BIN)/agent-tui $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 3 --dist loadfile -p no:benchmark $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks $(ARGS)

pictures: $(VENV)/.installed
	$(BIN)/python docs/pictures.py

clean:
	rm -rf $(VENV) build dist .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache snapshot_report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A pyenv shim or an old system Python may stand first on PATH, so each candidate is really run before it is chosen.
$(BIN)/python:
	@old=; bare=; found=; \
	for python in $(PYTHON) $(if $(PYTHON),,python3 python3.13 python3.12 python3.11 python3.14 python); do \
	  "$$python" -c 'import sys' >/dev/null 2>&1 || continue; \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { old="$$old $$python"; continue; }; \
	  "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || { bare="$$python"; continue; }; \
	  found="$$python"; break; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	  echo "agent-tui: $$bare cannot create virtual environments (no venv or ensurepip)." >&2; \
	  echo "           On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; fi; \
	if [ -z "$$found" ]; then \
	  echo "agent-tui needs Python 3.11 or newer$${old:+ (too old:$$old)}." >&2; \
	  echo "           Install one, or name it: make run PYTHON=/path/to/python3" >&2; exit 1; fi; \
	echo "creating $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing agent-tui into $(VENV) (once)"
	@$(PIP) install --editable . --constraint constraints.txt
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing agent-tui and its development tools into $(VENV) (once)"
	@$(PIP) install --editable '.[dev]' --constraint constraints.txt
	@touch $@ $(VENV)/.installed
