"""Scripts of a project's manifest that a text calls over a runner (`npm run x`, `composer x`, `deno task x`).

A runner hides what is run: the text names a script, and the manifest says what that is. Names are taken as they stand;
a name in which `*` stands is a pattern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

_CALL: Final = re.compile(
    r"(?<![\w./-])(npm|pnpm|yarn|bun|nr|run-s|run-p|npm-run-all2?|composer|deno|wireit)(?:\.cmd)?(?=[\s\"',])([^\n;&|]*)"
)
_TASK: Final = re.compile(r"[\"']script[\"']\s*:\s*[\"']([\w:.-]+)[\"']")  # of an editor, `"type": "npm"`
_PREFIXED: Final = re.compile(r"(?<![\w/.-])(?:npm|yarn|pnpm|bun):([\w:.*-]+)")
_DIRECTORY_OPTIONS: Final = frozenset({"--prefix", "-C", "--cwd", "--dir", "-w", "--workspace", "-d", "--working-dir"})
_FILTER_OPTIONS: Final = frozenset({"--filter", "-F", "--workspaces", "-r", "--recursive", "-ws"})
_RUN: Final = frozenset({"run", "run-script", "rum", "urn", "exec", "task", "workspace", "workspaces", "foreach"})
_SHORT: Final = {"t": "test", "tst": "test", "it": "test", "cit": "test", "install-test": "test"}
_MANIFESTS: Final = {
    "composer": (("composer.json", "scripts"),),
    "deno": (("deno.json", "tasks"), ("deno.jsonc", "tasks"), ("package.json", "scripts")),
}
_PACKAGE: Final = (("package.json", "scripts"),)
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)


class RunnerCall(Struct, frozen=True):
    """A call of scripts. `manifests`: names of files and of the tables in them; `directory`: where one lies, "" = here.

    `is_anywhere`: it is called in packages that are named otherwise than by their directory.
    """

    manifests: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    directory: str = ""
    is_anywhere: bool = False


def find_calls(text: str) -> list[RunnerCall]:
    """Return the calls of scripts in a text of any format; some of the names may be no scripts."""
    calls = [_read_call(match[1], match[2]) for match in _CALL.finditer(text)]
    names = (*_PREFIXED.findall(text), *(_TASK.findall(text) if "npm" in text else ()))
    return [call for call in calls if call.names] + ([RunnerCall(_PACKAGE, names)] if names else [])


def _read_call(runner: str, rest: str) -> RunnerCall:
    words = re.sub(r"[\"'\\,\[\](){}`]", " ", rest).replace("=", " ").split()
    directory, is_anywhere, names = "", False, list[str]()
    for before, word in zip(("", *words), words, strict=False):
        if before in _DIRECTORY_OPTIONS:
            directory = directory or word
        elif word in _FILTER_OPTIONS or before in _FILTER_OPTIONS:
            is_anywhere = True
        if not word.startswith("-") and word not in _RUN:
            names.append(_SHORT.get(word, word))
    return RunnerCall(_MANIFESTS.get(runner, _PACKAGE), tuple(names[:12]), directory, is_anywhere)


def read_scripts(data: bytes, table: str | None) -> dict[str, str]:
    """Return the scripts in a table of a manifest by their names, those of no table being all that it says; none if it
    can't be read. Comments (jsonc) are left out."""
    try:
        text = _COMMENT.sub(lambda match: match[1] or " ", data.decode("utf-8", "replace"))
        manifest = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
    except (ValueError, RecursionError):
        return {}
    scripts = manifest.get(table) if isinstance(manifest, dict) and table is not None else manifest
    return {name: _join(value) for name, value in scripts.items()} if isinstance(scripts, dict) else {}


def _join(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(_join, value))
    if isinstance(value, dict):
        return _join(list(value.values()))
    return str(value)


def select_scripts(scripts: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the scripts that these names mean, with those that run before and after them and those they call."""
    waiting, selection = [*names], dict[str, str]()
    for name in waiting:  # grows meanwhile
        for script in _match(scripts, name):
            if script not in selection:
                selection[script] = scripts[script]
                waiting += [f"pre{script}", f"post{script}", *_list_called(scripts[script])]
    return selection


def _match(scripts: Mapping[str, str], name: str) -> Iterator[str]:
    if name in scripts:
        yield name
    elif "*" in name:
        pattern = name.replace("**", "*")
        yield from (script for script in scripts if fnmatchcase(script, pattern))


def _list_called(script: str) -> Iterator[str]:
    for call in find_calls(script):
        yield from call.names
    yield from re.findall(r"(?<![\w/])@(?!php\b|putenv\b)([\w:.-]+)", script)  # as composer names others
