"""What is loaded when: in a fresh interpreter, by looking into sys.modules."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.contract.source_tree import ROOT

SDKS = ("openai", "anthropic")
HEAVY = (*SDKS, "git", "tree_sitter", "starlette", "uvicorn", "keyring", "rapidfuzz", "genai_prices", "watchfiles")
SLOW = {
    "asyncio",
    "concurrent",
    "ctypes",
    "email",
    "http",
    "logging",
    "multiprocessing",
    "random",
}
SLOW |= {"socket", "sqlite3", "ssl", "subprocess", "tempfile", "unittest", "xml", "zipfile"}
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

FIRST_ANSWER = """
import asyncio, json, pathlib, sys
from core.engine import Engine, EngineOptions
from core.engine.turns import lifecycle
from core.protocol.commands import Ack, SessionOpen

lifecycle._preload_model = lambda *_: None  # it imports the SDK beside, and may have begun by the time we look

async def main():
    engine = Engine(pathlib.Path(sys.argv[1]), options=EngineOptions(model="openai/any"))
    assert isinstance(await engine.submit(SessionOpen()), Ack)
    sys.stderr.write(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
    await engine.close()

asyncio.run(main())
"""


def loaded_by(code: str, *arguments: str) -> set[str]:
    """The top-level packages in sys.modules after `code` ran in a fresh interpreter."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def loaded_after(code: str) -> set[str]:
    report = "json.dumps(sorted({name.partition('.')[0] for name, module in sys.modules.items() if module}))"
    return loaded_by(f"{code}; import json, sys; sys.stderr.write({report})")


def loaded_by_import(module: str) -> set[str]:
    return loaded_after(f"import {module}")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_neither_the_screen_nor_an_sdk(argument):
    loaded = loaded_by(PROBE, json.dumps([argument]))
    assert "core" in loaded
    assert loaded & {"textual", "rich", "msgspec", "asyncio", "tui", *HEAVY} == set()


def _exists(module: str) -> bool:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py").exists()


def unwelcome(entries: tuple[str, ...], forbidden: set[str]) -> dict[str, set[str]]:
    """Per entry point that stands already: what it loads and should not."""
    names_by_module = {module: loaded_by_import(module) & forbidden for module in filter(_exists, entries)}
    return {module: names for module, names in names_by_module.items() if names}


def test_the_engine_loads_no_sdk_before_it_needs_one():
    entries = ("core.engine", "core.transports.stdio_server", "core.cli.print_mode.headless")
    assert unwelcome(entries, {"textual", "rich", "tui", "jinja2", *HEAVY}) == {}


def test_the_screen_starts_without_what_the_engine_needs():
    loaded = loaded_after("import agent_tui; agent_tui.load_screen()")
    assert {"tui", "textual"} <= loaded
    assert loaded & {"jinja2", "ruamel", "psutil", "ssl", "_ssl", *HEAVY} == set()


def test_the_first_frame_waits_for_no_module_that_builds_classes_slowly():
    checked = "from core.cli import streams; from core import search_paths; from core.cli.arguments import check"
    loaded = loaded_after(f"{checked}; check(['.']); import tui.first_frame")
    assert {"core", "tui"} <= loaded
    assert loaded & {"dataclasses", "inspect", "msgspec", "asyncio", "textual", "rich", *HEAVY} == set()


def test_help_needs_little_of_the_standard_library_and_nothing_else():
    loaded = loaded_by(PROBE, json.dumps(["--help"])) - loaded_by_import("runpy")
    assert loaded - sys.stdlib_module_names == {"core"}
    assert loaded & SLOW == set()
    assert len(loaded) < 60


def test_the_engine_answers_its_first_command_before_it_loads_an_sdk(tmp_path):
    assert loaded_by(FIRST_ANSWER, str(tmp_path)) & {"textual", "rich", "tui", *HEAVY} <= {"watchfiles"}


def test_a_run_without_a_screen_loads_none(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ended = PROBE.replace("assert not leaving.code, leaving.code", "assert leaving.code == 1, leaving.code")
    loaded = loaded_by(ended, json.dumps([str(tmp_path), "-p", "hi", "--model", "openai/any"]))
    assert "msgspec" in loaded
    assert loaded & {"textual", "rich", "tui"} == set()
