# Everything a fresh clone needs: Python 3.11+ with venv, git and make. `make run` starts the program.

VENV := .venv
BIN := $(VENV)/bin
# Quiet twice: its warnings about packages of others are nothing that a user of this one can act on.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
# Override with `make run PYTHON=/path/to/python`.
PYTHON ?=
ARGS ?=
# HASHES=off installs the same versions by name and accepts whatever bytes the index sends.
HASHES ?= on
BACKEND := hatchling

.DEFAULT_GOAL := help
.PHONY: help run test test-all slow fuzz mutations subjects lint types format bench pictures gallery lock dist clean

help:
	@echo "make run    start agent-tui         (ARGS='--demo' passes arguments on)"
	@echo "make test   all tests but the slow ones, and a sample of those  (ARGS='-k name' passes arguments on)"
	@echo "make test-all   the whole test suite; make slow: measures which tests are the slow ones"
	@echo "make fuzz   random sequences against what is promised  (ARGS='--seed N --count N --seconds N')"
	@echo "make mutations  break fifty places one by one; the tests have to notice  (ARGS='WORD …')"
	@echo "make lint   ruff: rules and format"
	@echo "make types  mypy --strict"
	@echo "make format put every file into the house format"
	@echo "make bench  the benchmarks"
	@echo "make pictures  the pictures of the documentation"
	@echo "make gallery   each screen at each size and in each form of the colours (needs Chromium)"
	@echo "make lock   the hashes of all packages, after constraints.txt or pyproject.toml has changed"
	@echo "make dist   wheel, source archive and their checksums, in dist/"
	@echo "make clean  remove the environment, caches and build output"

# The program is told how it was started, so that the line that it leaves on the terminal can be pasted.
run: $(VENV)/.installed
	@AGENT_TUI_MAKE='make $(if $(filter $(CURDIR),$(PWD)),,-C "$(CURDIR)" )run' $(BIN)/python -I agent_tui.py $(ARGS)

# Compiled first, or each worker and each program that the tests start would compile all of it again; pytest keeps what it
# compiles in its own way unless the user's environment forbids it.
test: TIER = --sample-slow
slow: TIER = --measure-slow
test test-all slow: $(VENV)/.installed-dev
	@$(BIN)/python -m compileall -q agent_tui.py core tui tests
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 4 --dist worksteal -p no:benchmark $(TIER) $(ARGS)

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz $(ARGS)

mutations: $(VENV)/.installed-dev
	$(BIN)/python -m tests.mutations $(ARGS)

subjects: $(VENV)/.installed-dev
	$(BIN)/python docs/dev/tools/commit_subjects.py

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
	$(BIN)/python docs/dev/tools/pictures.py

gallery: $(VENV)/.installed-dev
	$(BIN)/python docs/dev/tools/gallery.py

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

# $(1) names every package that is needed, the build backend too, with the hashes of all files that were published of it:
# pip takes no other bytes. $(2) is the same by name, for HASHES=off.
define install
@if [ "$(HASHES)" = off ]; then \
  $(PIP) install --editable $(2) --constraint constraints.txt; \
elif ! $(PIP) install --require-hashes --requirement $(1); then \
  echo "agent-tui: nothing was installed: see pip's error above." >&2; \
  echo "           If it speaks of hashes, the package index sends other files than were published." >&2; \
  echo "           HASHES=off installs the same versions without that check." >&2; exit 1; \
else \
  $(PIP) install --no-deps --no-build-isolation --editable .; \
fi
endef

$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	@echo "installing agent-tui into $(VENV) (once)"
	$(call install,requirements.lock,.)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements-dev.lock | $(BIN)/python
	@echo "installing agent-tui and its development tools into $(VENV) (once)"
	$(call install,requirements-dev.lock,'.[dev]')
	@touch $@ $(VENV)/.installed

# The versions and hashes of what is built; the release workflow publishes exactly these files.
dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	cd dist && { sha256sum * 2>/dev/null || shasum -a 256 *; } > ../SHA256SUMS && mv ../SHA256SUMS .

# All platforms and Pythons in one file each; the build backend is what no requirement names.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --constraint constraints.txt \
	--no-header --no-annotate --no-emit-index-url --native-tls

lock: | $(BIN)/python
	@$(PIP) install uv --constraint constraints.txt
	echo '$(BACKEND)' | $(LOCK) pyproject.toml - --output-file requirements.lock
	$(LOCK) pyproject.toml --extra dev --output-file requirements-dev.lock
