"""What is loaded when: in a fresh interpreter, by looking into sys.modules."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.contract.source_tree import ROOT

SDKS = ("openai", "anthropic")
HEAVY = (*SDKS, "git", "tree_sitter", "litestar", "keyring", "rapidfuzz", "genai_prices", "watchfiles")
PROBE = """
import json, runpy, sys
sys.argv = ["agent-tui", *json.loads(sys.argv[1])]
try:
    runpy.run_path("agent_tui.py", run_name="__main__")
except SystemExit as leaving:
    assert not leaving.code, leaving.code
sys.stdout.flush()
sys.stderr.write(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def loaded_by(code: str, *arguments: str) -> set[str]:
    """The top-level packages in sys.modules after `code` ran in a fresh interpreter."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def loaded_by_import(module: str) -> set[str]:
    report = "json.dumps(sorted({name.partition('.')[0] for name in sys.modules}))"
    return loaded_by(f"import {module}, json, sys; sys.stderr.write({report})")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_neither_the_screen_nor_an_sdk(argument):
    loaded = loaded_by(PROBE, json.dumps([argument]))
    assert "core" in loaded
    assert loaded & {"textual", "rich", "msgspec", "asyncio", "tui", *HEAVY} == set()


def _exists(module: str) -> bool:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py").exists()


def unwelcome(entries: tuple[str, ...], forbidden: set[str]) -> dict[str, set[str]]:
    """Per entry point that stands already: what it loads and should not."""
    found = {module: loaded_by_import(module) & forbidden for module in filter(_exists, entries)}
    return {module: names for module, names in found.items() if names}


def test_the_engine_loads_no_sdk_before_it_needs_one():
    entries = ("core.engine", "core.transports.stdio", "core.headless")
    assert unwelcome(entries, {"textual", "rich", "tui", "jinja2", *HEAVY}) == {}


def test_the_screen_starts_without_what_the_engine_needs():
    entries = ("tui.app", "core.transports.stdio_client")
    assert unwelcome(entries, {"jinja2", "ruamel", "tenacity", "psutil", *HEAVY}) == {}


def _best_of(times: int, *command: str) -> float:
    best = float("inf")
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *command], capture_output=True, check=True, cwd=ROOT, timeout=30)
        best = min(best, time.perf_counter() - begun)
    return best


def test_help_answers_at_once():
    bare = _best_of(5, "-c", "pass")
    ours = _best_of(5, "agent_tui.py", "--help")
    assert ours - bare < 0.060 + 2 * bare, f"{ours * 1000:.0f} ms, a bare interpreter {bare * 1000:.0f} ms"
