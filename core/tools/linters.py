"""The linters that a project brings: the choice of linters for a file, their command lines, and the parsing of their
output.

A linter is chosen if its configuration is in the file's directory or above it. It is looked for in the project's
environments first, then on PATH. Ruff also runs without a configuration, for errors that are errors in any project.
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct, field

from core.patterns import compile_lazily
from core.protocol.language import Diagnostic
from core.records import parse_json_part

NOT_INSTALLED: Final = 113  # The exit code of the script if the program does not exist.
PLACES: Final = (".venv/bin", "venv/bin", "node_modules/.bin")
SIDES: Final = ("disk", "pending")
_CACHE: Final = '"${XDG_CACHE_HOME:-$HOME/.cache}"'
_AT: Final = compile_lazily(
    r"\s*(?:vet: )?(?P<path>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):?)? *(?:- )?(?P<text>.+)"
)
_IN_BRACKETS: Final = compile_lazily(r"(?P<path>[^\s(][^(]*)\((?P<line>\d+),(?P<column>\d+)\): (?P<text>.+)")
_SCRIPTS: Final = frozenset(["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"])


class Linter(Struct, frozen=True, kw_only=True):
    """A linter and its arguments, `words`. `marks`: files that configure it; `within`: words that do so in shared
    files.

    `bare`: further arguments without a configuration, "" = it is not run then. `named`: it gets the files as arguments;
    else it checks the whole project. `cache`: the option that names its cache directory, one for every side.
    """

    name: str
    program: str
    words: str
    endings: frozenset[str]
    marks: tuple[str, ...] = ()
    within: Mapping[str, str] = field(default_factory=dict)
    bare: str = ""
    named: bool = True
    cache: str = ""
    reads_json: bool = False


LINTERS: Final[Mapping[str, Linter]] = {
    linter.name: linter
    for linter in (
        Linter(
            name="ruff",
            program="ruff",
            words="check --output-format=concise --quiet --no-cache --force-exclude",
            endings=frozenset({"py", "pyi"}),
            marks=("ruff.toml", ".ruff.toml"),
            within={"pyproject.toml": "[tool.ruff"},
            bare="--select E9,F",
        ),
        Linter(
            name="pyright",
            program="pyright",
            words="",
            endings=frozenset({"py", "pyi"}),
            marks=("pyrightconfig.json",),
            within={"pyproject.toml": "[tool.pyright"},
        ),
        Linter(
            name="mypy",
            program="mypy",
            words="--no-error-summary --show-column-numbers --hide-error-context --no-color-output --no-pretty",
            cache="--cache-dir",
            endings=frozenset({"py", "pyi"}),
            marks=("mypy.ini", ".mypy.ini"),
            within={"pyproject.toml": "[tool.mypy", "setup.cfg": "[mypy"},
        ),
        Linter(
            name="eslint",
            program="eslint",
            words="--format json --no-error-on-unmatched-pattern",
            endings=_SCRIPTS,
            marks=(
                *(f"eslint.config.{ending}" for ending in ("js", "mjs", "cjs", "ts", "mts", "cts")),
                *(f".eslintrc{ending}" for ending in ("", ".js", ".cjs", ".json", ".yml", ".yaml")),
            ),
            within={"package.json": '"eslintConfig"'},
            reads_json=True,
        ),
        Linter(
            name="tsc",
            program="tsc",
            words="--noEmit --pretty false",
            endings=frozenset({"ts", "tsx", "mts", "cts"}),
            marks=("tsconfig.json",),
            named=False,
        ),
        Linter(
            name="go vet", program="go", words="vet ./...", endings=frozenset({"go"}), marks=("go.mod",), named=False
        ),
        Linter(
            name="cargo check",
            program="cargo",
            words="check --quiet --offline --message-format short",
            cache="--target-dir",
            endings=frozenset({"rs"}),
            marks=("Cargo.toml",),
            named=False,
        ),
    )
}


class LintJob(Struct, frozen=True, kw_only=True):
    """A linter in a directory of the workspace ("." = its root), to which `files` are relative; see `Linter.bare`."""

    linter: str
    directory: str
    files: tuple[str, ...]
    bare: bool = False


def plan_jobs(files: Iterable[str], is_configured: Callable[[Linter, str], bool]) -> list[LintJob]:
    """Return the jobs for these files, in the order of the table. `is_configured(linter, directory)`."""
    files_by_job: dict[tuple[str, str, bool], list[str]] = {}
    files = list(files)
    for linter in LINTERS.values():
        for path in files:
            if PurePosixPath(path).suffix.removeprefix(".").lower() not in linter.endings:
                continue
            above = [str(parent) for parent in PurePosixPath(path).parents]
            directory = next((candidate for candidate in above if is_configured(linter, candidate)), None)
            if directory is not None or linter.bare:
                files_by_job.setdefault((linter.name, directory or ".", directory is None), []).append(path)
    return [
        LintJob(linter=name, directory=directory, files=tuple(paths), bare=bare)
        for (name, directory, bare), paths in files_by_job.items()
    ]


def format_command(job: LintJob) -> str:
    """Return the command as the user's rules name it."""
    linter = LINTERS[job.linter]
    return " ".join(filter(None, (linter.program, linter.words, linter.bare if job.bare else "", *_quote_files(job))))


def build_script(job: LintJob, side: str) -> str:
    """Return the shell command of a job, to be run in its directory."""
    linter = LINTERS[job.linter]
    depth = 0 if job.directory == "." else len(PurePosixPath(job.directory).parts)
    places = [f"{'../' * up}{bin_directory}/{linter.program}" for up in range(depth + 1) for bin_directory in PLACES]
    cache = [linter.cache, f"{_CACHE}/lints/{linter.program}-{side}"] if linter.cache else []
    arguments = " ".join([linter.words, *([linter.bare] if job.bare else []), *cache, *_quote_files(job)])
    return (
        f'for each in {" ".join(places)}; do if [ -x "$each" ]; then exec "$each" {arguments}; fi; done; '
        f"command -v {linter.program} >/dev/null 2>&1 || exit {NOT_INSTALLED}; exec {linter.program} {arguments}"
    )


def _quote_files(job: LintJob) -> list[str]:
    """Return the quoted files with the prefix `./`, so that none is parsed as an option."""
    if not LINTERS[job.linter].named:
        return []
    return [shlex.quote(f"./{posixpath.relpath(path, job.directory)}") for path in job.files]


def parse_problems(job: LintJob, output: str, root: str) -> list[Diagnostic]:
    """Return the problems in the output of a job, in order. `root` is the workspace's absolute path."""
    rows = _parse_json(output) if LINTERS[job.linter].reads_json else _parse_lines(output)
    diagnostics = []
    for path, line, column, text in rows:
        inside = posixpath.normpath(posixpath.join(root, job.directory, path))
        if inside.startswith(f"{root}/") and not text.startswith("note:"):
            relative_path = inside[len(root) + 1 :]
            diagnostics.append(
                Diagnostic(path=relative_path, line=line, column=column, message=text[:500], source=job.linter)
            )
    return diagnostics


def _parse_lines(output: str) -> Iterator[tuple[str, int, int, str]]:
    for row in output.splitlines():
        if match := _AT.fullmatch(row[:2000]) or _IN_BRACKETS.fullmatch(row[:2000]):
            yield match["path"], int(match["line"]), int(match["column"] or 0), match["text"].strip()


def _parse_json(output: str) -> Iterator[tuple[str, int, int, str]]:
    """Parse ESLint's format: a list of files with their messages."""
    start = output.find("[")
    try:
        files: Any = parse_json_part(json.JSONDecoder(), output, start)[0] if start >= 0 else []
        for file in files:
            for message in file["messages"]:
                if not message.get("ruleId") and not message.get("line"):  # Such as the note that a file is ignored.
                    continue
                text = f"{message.get('ruleId') or 'error'} {message['message']}"
                yield str(file["filePath"]), int(message.get("line") or 0), int(message.get("column") or 0), text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
