"""A project with tests that a session's checks run over, and a model that does what a test says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from tests.support.agent_case import Step, calls, says
from tests.support.configured import configured
from tests.support.story import access
from tests.support.trust import trust

AUTO = '[commands]\npolicy = "auto"\n'
PRICE = "def price(amount):\n    return amount * 2\n"
GOOD = "def price(amount):\n    return amount + amount\n"
WRONG = "def price(amount):\n    return 0\n"
TEST = "from shop.price import price\n\n\ndef test_price():\n    assert price(3) == 6\n"
MAKEFILE = """\
check:
\t-python -m pytest -q
check-empty:
\tpython -m unittest discover -s docs || true
check-by-script:
\t@python judge.py
check-by-file:
\tpython -m pytest -q
check-built:
\ttest -e build/built
"""
PROJECT = {
    "shop/__init__.py": "",
    "shop/price.py": PRICE,
    "tests/test_price.py": TEST,
    "docs/guide.md": "# Guide\n",
    "Makefile": MAKEFILE,
    ".gitignore": ".venv/\nbuild/\nnode_modules/\n__pycache__/\n.pytest_cache/\n",
    ".venv/bin/python": f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} "$@"\n',  # starts sooner
    ".venv/bin/pytest": '#!/bin/sh\nexec "${0%/*}/python" -m pytest "$@"\n',
}


def make_checked_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose own environment is active: its runner lies in an ignored directory."""
    monkeypatch.setattr("sys.stdin", None)
    configured(AUTO)
    root = tmp_path / "project"
    programs = (str(root / ".venv/bin"), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(programs))
    for name, text in PROJECT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("python", "pytest"):
        (root / ".venv/bin" / name).chmod(0o755)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "begun"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    trust(root)
    return root


def run(command: str) -> Step:
    return calls(("run_terminal_cmd", {"command": command}))


def write(path: str, content: str, text: str = "") -> Step:
    reading = [("read_file", {"target_file": path})] if path in PROJECT else []
    return calls(*reading, ("write", {"file_path": path, "contents": content}), text=text)


def accept_verified(project: Path, *steps: Step) -> int:
    """The exit code of `-p --accept verified` after these steps."""
    options = PrintArguments(directory=project, prompt="Do it", accept=("verified",))
    return run_print(options, models=access([*steps, says("Done.")]))
