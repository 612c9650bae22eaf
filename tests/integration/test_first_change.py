"""The tutorial docs/dev/first-change.md, followed to the letter in a copy of the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import ROOT

PAGE = (ROOT / "docs" / "dev" / "first-change.md").read_text(encoding="utf-8")
COPIED = (
    "agent_tui.py",
    "pyproject.toml",
    "core",
    "tui",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/slow_tests.txt",
    "tests/support",
)
COPIED_TESTS = (
    "tests/contract/test_access_matrix.py",
    "tests/contract/effects.py",
    "tests/contract/test_prompt_budgets.py",
    "tests/contract/test_prompts.py",
    "tests/unit/tools",
)


def read_block(after: str) -> str:
    """Return the first fenced block of the page that follows a text."""
    match = re.search(r"```\w*\n(.*?)```\n", PAGE[PAGE.index(after) + len(after) :], re.DOTALL)
    assert match is not None
    return match[1]


def find_path(name: str) -> str:
    """Return the path that the page gives a new file with this name."""
    [path] = set(re.findall(rf"`([\w/]+/{re.escape(name)})`", PAGE))
    return path


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the checkout with steps 2 to 4 of the page done."""
    root = tmp_path_factory.mktemp("checkout")
    for name in (*COPIED, *COPIED_TESTS):
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)  # with what was compiled, which holds as long as the times are the same
        elif source.exists():
            shutil.copy2(source, target)
    (root / "README.md").write_text("one\ntwo\nthree\n")
    for name in ("count_lines.py", "count_lines.md", "test_count_lines.py"):
        path = find_path(name)
        (root / path).write_text(read_block(f"`{path}`"))
    builtin = root / "core/tools/builtin/__init__.py"
    row = read_block("## 4. Register it")
    assert "after the one of `call_tool`" in PAGE
    text, count = re.subn(r'(?m)(^    RegisteredTool\("call_tool".*\n)', rf"\1{row}", builtin.read_text())
    assert count == 1
    builtin.write_text(text)
    return root


def run_tests(root: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "-p", "no:cacheprovider", *paths]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env={**os.environ})


def list_failed_files(output: str) -> set[str]:
    return {Path(path).name for path in re.findall(r"(?m)^(?:FAILED|ERROR) ([\w/]+\.py)", output)}


@pytest.mark.timeout(300)
def test_the_page_ends_green(copy):
    command = re.search(r"pytest -q -p no:benchmark ((?:tests/contract/\S+ ?){2,})\n", PAGE)
    assert command is not None
    before = run_tests(copy, "tests/contract", "tests/unit/tools")
    named_red = set(re.findall(r"(?m)^- `(test_\w+\.py)`", PAGE))
    assert (before.returncode, list_failed_files(before.stdout)) == (1, named_red), before.stdout

    arguments_row = re.search(r"in its `ARGUMENTS`,\s+`(.+)`\.", PAGE)
    assert arguments_row is not None
    matrix = copy / "tests/contract/test_access_matrix.py"
    text, count = re.subn(r"(?m)^(ARGUMENTS.*\{\n)", rf"\1    {arguments_row[1]}\n", matrix.read_text())
    assert count == 1
    matrix.write_text(text)
    names = re.findall(r"`(core/prompts/\S+\.j2)`", PAGE)
    assert len(names) == 2
    for name in names:
        prompt = copy / name
        prompt.write_text(prompt.read_text().replace("`read_lints`", "`read_lints`, `count_lines`", 1))
    after = run_tests(copy, *command[1].split(), "tests/contract", "tests/unit/tools")
    assert after.returncode == 0, after.stdout


def test_the_tool_is_played_by_the_script_of_the_page(copy, tmp_path):
    script = tmp_path / "try.yaml"
    script.write_text(read_block("`/tmp/try.yaml`"))
    options = ["--model", f"scripted/{script}", "--output-format", "stream-json"]
    command = [sys.executable, "agent_tui.py", "-p", "How long is the README?", *options]
    result = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert "README.md has 3 lines." in json.dumps(events)
