"""The lines of JavaScript that a run executed, as Node writes them with `NODE_V8_COVERAGE`: a file for each process.

It counts ranges of characters, and the innermost one holds. With `node --test` each file of tests is a process, so its
lines are known by that file. A source that was compiled before it ran has other offsets than ours, and is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct, field

from core.proof.runs.records import ANY_TEST, Lines, read_run_file
from core.records import decode_json

ENDINGS: Final = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts")
_MOST_BYTES: Final = 64 << 20  # of one process


class ScriptLines(Struct, frozen=True):
    """The executed lines of one script: those of its functions, and those that ran when it was loaded."""

    called: frozenset[int]
    loaded: frozenset[int]


class V8Process(Struct, frozen=True):
    """The executed lines that one process counted, of recorded files by path. `test`: its file of tests, `ANY_TEST` =
    it has several; "" = none, so that what it did not execute says nothing. `called`: lines of functions, `loaded`:
    those that ran when a file was loaded. `unread`: files that it loaded with another text than ours."""

    test: str
    called: Lines
    loaded: Lines
    unread: frozenset[str]


class _Range(Struct, rename="camel"):
    start_offset: int
    end_offset: int
    count: int


class _Function(Struct):
    ranges: list[_Range]


class _Script(Struct):
    url: str
    functions: list[_Function]


class _Dump(Struct):
    result: list[_Script]
    source_maps: dict[str, object] = field(default_factory=dict, name="source-map-cache")


def read_v8_lines(
    directory: Path, root: Path, sources: Mapping[str, bytes], is_test: Callable[[str], bool]
) -> Iterator[V8Process]:
    """Yield the lines of each process. `sources`: the recorded files by path, relative to `root`."""
    texts = {path: _decode(data) for path, data in sources.items()}
    for path in sorted(directory.glob("coverage-*.json")):
        dump = _read_dump(path)
        scripts = {_find_path(script.url, root): script for script in dump.result}
        called, loaded = Lines(), Lines()
        for name in scripts.keys() & texts.keys():
            script = scripts[name]
            lines = None if script.url in dump.source_maps else find_script_lines(texts[name], _list_ranges(script))
            if lines is not None:
                called[name], loaded[name] = lines.called, lines.loaded
        tests = [name for name in scripts if name and is_test(name)]
        test = tests[0] if len(tests) == 1 else ANY_TEST if tests else ""
        yield V8Process(test, called, loaded, frozenset(scripts.keys() & texts.keys() - called.keys()))


def find_script_lines(text: str, functions: list[list[tuple[int, int, int]]]) -> ScriptLines | None:
    """Return the lines whose first character ran. `functions`: the ranges of each, with their counts, the whole of it
    first, that of the script before all; None = they are of another text."""
    length = _count_units(text)
    if not functions or functions[0][0][:2] != (0, length):
        return None
    counts, owners = [0] * (length + 1), [0] * (length + 1)
    for number, ranges in enumerate(functions):
        for start, end, count in ranges:  # outer ones come first
            counts[start:end] = [count] * (end - start)
            owners[start:end] = [number] * (end - start)
    called, loaded, offset = set[int](), set[int](), 0
    for number, line in enumerate(text.split("\n"), 1):
        first = offset + len(line) - len(line.lstrip())
        offset += _count_units(line) + 1
        if line.strip() and counts[first]:
            (called if owners[first] else loaded).add(number)
    return ScriptLines(frozenset(called), frozenset(loaded))


def _list_ranges(script: _Script) -> list[list[tuple[int, int, int]]]:
    functions = [
        [(part.start_offset, part.end_offset, part.count) for part in function.ranges]
        for function in script.functions
        if function.ranges
    ]
    return sorted(functions, key=lambda ranges: (ranges[0][0], -ranges[0][1]))


def _count_units(text: str) -> int:
    """Return the length of a text as JavaScript counts it."""
    return len(text) + sum(character > "\uffff" for character in text)


def _decode(data: bytes) -> str:
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _find_path(url: str, root: Path) -> str:
    """Return the path of a script, relative to the project; "" = it is elsewhere."""
    parts = urlsplit(url)
    path = unquote(parts.path) if parts.scheme == "file" else url
    return os.path.relpath(path, root) if path.startswith(f"{root}/") else ""


def _read_dump(path: Path) -> _Dump:
    try:
        return decode_json(read_run_file(path.parent, path.name, _MOST_BYTES), _Dump)
    except msgspec.MsgspecError:
        return _Dump([])
