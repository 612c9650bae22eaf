"""Measures the packages of `docs/dev/dependencies.md` anew: `python docs/dev/tools/dependency_table.py`.

What a package is for and what else was considered is written in the page; a new package begins with "?" there. Sizes
are without compiled bytecode. The processor time of an import is measured in a process of its own, with all that it
imports.
"""

from __future__ import annotations

import importlib.metadata
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
TARGET: Final = ROOT / "docs" / "dev" / "dependencies.md"
HEAD: Final = "| package | what for | MB | brings | import | licence | considered instead |"
RUNS: Final = 5
_ROW: Final = re.compile(r"^\| `([\w.-]+)` \| (.*?) \|.*\| ([^|]*) \|$", re.MULTILINE)
_TABLE: Final = re.compile(rf"{re.escape(HEAD)}\n.*?\n\n", re.DOTALL)
_TOTAL: Final = re.compile(r"^A plain install has .*$", re.MULTILINE)
_TIMED: Final = "import sys, time; t = time.process_time(); import {}; print(time.process_time() - t)"
# The module that the program imports first, where that is not the package's own name.
_IMPORTED: Final = {
    "gitpython": "git.objects.fun",
    "markdown-it-py": "markdown_it",
    "pillow": "PIL.Image",
    "pygments": "pygments.lexers",
    "rich": "rich.text",
    "ruamel-yaml": "ruamel.yaml",
    "selectolax": "selectolax.lexbor",
    "starlette": "starlette.applications",
}
_PLAIN_TEXT: Final = {"Apache Software License": "Apache-2.0", "BSD License": "BSD-3-Clause", "MIT License": "MIT"}


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_names(requirements: Iterable[str], extras: str = "") -> list[tuple[str, str]]:
    """Return the names of requirements with their extras; conditional ones of no chosen extra are left out."""
    pairs = []
    for line in requirements:
        extra = re.search(r"extra == ['\"]([^'\"]+)", line)
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[(.*?)\])?", line)
        if match and (extra is None or extra[1] in extras.split(",")):
            pairs.append((normalise(match[1]), match[2] or ""))
    return pairs


def read_direct() -> list[str]:
    """Return the names of the packages that pyproject.toml asks for, sorted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(name for name, _ in read_names(project["dependencies"]))


@cache
def list_installed() -> dict[str, importlib.metadata.Distribution]:
    return {normalise(distribution.name): distribution for distribution in importlib.metadata.distributions()}


def list_closure(names: Iterable[str]) -> set[str]:
    """Return these packages and all that they need, as far as it is installed."""
    closure: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in names]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) not in closure and name in list_installed():
            closure.add((name, extras))
            waiting += read_names(list_installed()[name].requires or [], extras)
    return {name for name, _ in closure}


def measure_size(name: str, *, with_bytecode: bool = False) -> float:
    """Return the size of a package's files in megabytes."""
    distribution = list_installed()[name]
    files = (file for file in distribution.files or [] if with_bytecode or file.suffix != ".pyc")
    paths = (Path(str(distribution.locate_file(file))) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def measure_import(name: str) -> str:
    """Return the time of the import of a package; "–" for a program."""
    owners = importlib.metadata.packages_distributions()
    tops = [top for top in owners if name in map(normalise, owners[top]) and normalise(top) == name]
    if not (module := _IMPORTED.get(name) or next(iter(tops), "")):
        return "–"
    command = [sys.executable, "-c", _TIMED.format(module)]
    times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(RUNS)]
    return f"{statistics.median(times) * 1000:.0f} ms"


def read_licence(name: str) -> str:
    metadata = list_installed()[name].metadata
    classifiers = [
        line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or [] if line.startswith("License")
    ]
    text = metadata.get("License-Expression") or next(iter(classifiers), metadata.get("License") or "?")
    return _PLAIN_TEXT.get(text, text).partition("\n")[0]


def render_row(name: str, direct: list[str], words: tuple[str, str]) -> str:
    """Return the line of a package. It brings the packages that no other direct one needs."""
    own = list_closure([name]) - list_closure(other for other in direct if other != name) - {name}
    brought = f"{len(own)}, {sum(map(measure_size, own)):.1f} MB" if own else "–"
    figures = f"{measure_size(name):.1f} | {brought} | {measure_import(name)} | {read_licence(name)}"
    return f"| `{name}` | {words[0]} | {figures} | {words[1]} |"


def page(text: str) -> str:
    """Return the page with its figures measured anew, and a line for every package."""
    words = {match[1]: (match[2], match[3]) for match in _ROW.finditer(text)}
    direct = read_direct()
    rows = [render_row(name, direct, words.get(name, ("?", "?"))) for name in direct]
    table = "\n".join((HEAD, "|---|---|---|---|---|---|---|", *rows))
    everything = list_closure(direct)
    size, compiled = (sum(measure_size(name, with_bytecode=kind) for name in everything) for kind in (False, True))
    count = f"A plain install has {len(everything) + 1} packages with the program itself"
    total = f"{count}; the others are {size:.0f} MB, and {compiled:.0f} with the bytecode that pip compiles."
    return _TOTAL.sub(total, _TABLE.sub(lambda _: f"{table}\n\n", text))


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
