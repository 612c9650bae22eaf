"""Patterns that are compiled at their first use behave as compiled ones, and every one in `core` is a right one."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import core
from core.patterns import LazyPattern, compile_lazily


def test_a_pattern_has_the_methods_of_a_compiled_one() -> None:
    lazy, compiled = compile_lazily(r"(?P<word>\w+)-(\d+)", re.I), re.compile(r"(?P<word>\w+)-(\d+)", re.I)
    text = "Ab-12 cd-3"
    assert lazy.fullmatch("x-1") is not None
    assert [match.groups() for match in lazy.finditer(text)] == [match.groups() for match in compiled.finditer(text)]
    assert lazy.sub(r"\2", text) == compiled.sub(r"\2", text)
    assert (lazy.pattern, lazy.flags, lazy.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    assert lazy.groupindex == compiled.groupindex


def test_a_pattern_of_bytes_matches_bytes() -> None:
    assert compile_lazily(rb"a+").findall(b"aabaaa") == [b"aa", b"aaa"]


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_sources: list[str] = []

    def compile_and_record(source: str, flags: int = 0) -> re.Pattern[str]:
        compiled_sources.append(source)
        return original(source, flags)

    original = re.compile
    monkeypatch.setattr(re, "compile", compile_and_record)
    pattern = compile_lazily("only once")
    assert compiled_sources == []
    assert pattern.search("it is compiled only once")
    assert pattern.sub("", "only once") == ""
    assert compiled_sources == ["only once"]


def test_a_wrong_pattern_raises_at_its_first_use() -> None:
    pattern = compile_lazily("(")
    with pytest.raises(re.error):
        pattern.search("")


def test_every_pattern_of_core_compiles() -> None:
    patterns = {f"{module}.{name}": pattern for module, name, pattern in _list_patterns()}
    assert len(patterns) > 400
    for name, pattern in patterns.items():
        assert pattern.flags is not None, name


def _list_patterns() -> Iterator[tuple[str, str, LazyPattern]]:
    """List the lazy patterns of all modules, those in tables and classes too."""
    for info in pkgutil.walk_packages(core.__path__, "core."):
        if info.name.startswith("core.sandbox.inside."):
            continue
        for name, value in list(vars(importlib.import_module(info.name)).items()):
            for pattern in _find_patterns(value, depth=3):
                yield info.name, name, pattern


def _find_patterns(value: object, *, depth: int) -> Iterator[LazyPattern]:
    if isinstance(value, LazyPattern):
        yield value
    elif depth and isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from _find_patterns(part, depth=depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _find_patterns(part, depth=depth - 1)
    elif depth and isinstance(value, type) and value.__module__.startswith("core."):
        for part in vars(value).values():
            yield from _find_patterns(part, depth=depth - 1)


def test_no_lazy_pattern_goes_where_only_a_compiled_one_does() -> None:
    # Functions of `re` refuse a lazy pattern, and the pattern of a match is never the lazy one.
    wrong = []
    for path in sorted(Path(core.__file__).parent.rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
                is_constant = isinstance(node.args[0], ast.Name) and node.args[0].id.lstrip("_").isupper()
                is_lazy = (
                    is_constant and re.search(rf"\b{ast.unparse(node.args[0])}\b.*= compile_lazily", text) is not None
                )
                wrong += [f"{path}:{node.lineno}"] if is_lazy else []
            elif isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("match.re"):
                wrong.append(f"{path}:{node.lineno}")
    assert wrong == []
