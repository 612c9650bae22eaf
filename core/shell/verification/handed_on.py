"""Changed files that decide a check, though not by their names: scripts of runners, tests in code, modules of one name.

`npm test` runs what `package.json` says, `make test` what the Makefile does, so a changed file that stands there as a
program judges by itself. A file of Rust holds code and its tests together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from core.errors import AgentTuiError
from core.protocol.review import Change
from core.records import decode_json
from core.shell.verification.steering import find_steering, list_started

_MAX_BYTES: Final = 256 * 1024
_MAKE: Final = ("Makefile", "makefile", "GNUmakefile")
_SCRIPTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "composer"), ("package.json", "composer.json")),
    **dict.fromkeys(("make", "gmake"), _MAKE),
    "just": ("justfile", ".justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "tox": ("tox.ini", "pyproject.toml", "tox.toml"),
    "nox": ("noxfile.py",),
    **dict.fromkeys(("hatch", "pdm", "poe", "poetry", "uv"), ("pyproject.toml",)),
}
_TWINS: Final = (("", "js", "mjs", "cjs", "jsx", "ts", "tsx", "json", "node"), ("py", "so", "pyd", "abi3.so"))
_RECIPE: Final = re.compile(r"[\n;|&\"']+")
_TESTS_IN_CODE: Final = re.compile(rb"^\s*#\[(?:cfg\((?:all\()?test|(?:\w+::)?test\])", re.MULTILINE)


class PendingTexts(Protocol):
    """The files as they are pending, and what the changed ones were; the shadow."""

    def read(self, rel: str, /) -> bytes | None: ...

    def read_base(self, change: Change, /) -> bytes: ...


def find_changed_judges(
    changes: Mapping[str, Change], command: str, texts: PendingTexts, *, is_of_tests: bool
) -> tuple[str, ...]:
    """Return the changed files that decide what a check does, in their order. `is_of_tests`: it runs tests, so that a
    file that it names is one."""
    paths = list(changes)
    named_paths = {*find_steering(paths, command, is_of_tests=is_of_tests), *_find_handed_on(paths, command, texts)}
    inner = {path for path in paths if path.endswith(".rs") and _has_other_tests(changes[path], texts)}
    inner |= {path for path in paths if changes[path].operation == "create" and _has_twin(path, texts)}
    return tuple(path for path in paths if path in named_paths | inner)


def _has_twin(path: str, texts: PendingTexts) -> bool:
    """Return True for a new module beside one of the same name: it may be loaded in the place of the other."""
    stem, dot, ending = path.rpartition(".")
    if path.endswith("/__init__.py"):
        return bool(_read(texts, f"{path.rpartition('/')[0]}.py"))
    if not dot or "/" in ending:
        stem, ending = path, ""
    endings = next((group for group in _TWINS if ending in group), ())
    twins = (f"{stem}.{other}" if other else stem for other in endings if other != ending)
    return any(_read(texts, twin) for twin in twins)


def _find_handed_on(paths: Iterable[str], command: str, texts: PendingTexts) -> Iterable[str]:
    words = set(re.split(r"[\s/]+", command))
    names = dict.fromkeys(name for runner, names in _SCRIPTS.items() if runner in words for name in names)
    scripts = (_read(texts, name)[:_MAX_BYTES] for name in names)
    program_paths = {path for text in scripts for path in _list_programs(text.decode("utf-8", "replace"))}
    return (path for path in paths if any(path == one or path.endswith(f"/{one}") for one in program_paths))


def _list_programs(text: str) -> Iterable[str]:
    """Yield the paths that recipes start, or hand to an interpreter."""
    for piece in _RECIPE.split(_take_scripts(text)):
        yield from list_started(piece.strip(" \t@-+:,").split())


def _take_scripts(text: str) -> str:
    """Return the scripts of a `package.json`, each as a line; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        scripts = decode_json(text.encode(), dict[str, Any]).get("scripts")
    except (msgspec.MsgspecError, ValueError):
        return text
    return "\n".join(str(value) for value in scripts.values()) if isinstance(scripts, dict) else ""


def _has_other_tests(change: Change, texts: PendingTexts) -> bool:
    """Return True if what stands from the first test of a file on is not as it was."""
    return _take_tests(_read(texts, change.path)) != _take_tests(texts.read_base(change))


def _take_tests(data: bytes) -> bytes:
    match = _TESTS_IN_CODE.search(data)
    return data[match.start() :] if match is not None else b""


def _read(texts: PendingTexts, path: str) -> bytes:
    try:
        return texts.read(path) or b""
    except AgentTuiError:  # a directory, or a file that is too large
        return b""
