"""The kind of a changed file by its name and its first lines: where that decides what its hunks are."""

from __future__ import annotations

import re
from typing import Final, Literal

from core.index.path_kinds import PathKind, list_kinds
from core.patterns import compile_lazily
from core.protocol.review import is_prose
from core.shell.verification.steering_files import is_judging_file, is_test_file
from core.syntax.grammars import is_known_language

FileKind = Literal["docs", "generated", "vendored", "test", "steering", "types", "data", "code"]

_PROSE_ENDINGS: Final = (".txt", ".mdx", ".tex", ".po", ".pot")
_LOCK_FILES_TEXT: Final = """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb cargo.lock poetry.lock pdm.lock
    uv.lock pipfile.lock gemfile.lock composer.lock go.sum flake.lock mix.lock pubspec.lock podfile.lock
    packages.lock.json gradle.lockfile pixi.lock deno.lock"""
_LOCK_FILES: Final = frozenset(_LOCK_FILES_TEXT.split())
_GENERATED_ENDINGS: Final = ("_pb2.py", "_pb2_grpc.py", ".pb.go", ".g.dart", ".designer.cs", ".generated.ts", "_gen.go")
_GENERATED: Final = compile_lazily(
    r"@generated\b|\b(?:code|file|this file is|was) (?:automatically |auto-?)?generated\b"
    r"|\b(?:auto-?|automatically )generated\b|\bdo not edit\b",
    re.IGNORECASE,
)
_COMMENT: Final = compile_lazily(r"\s*(?:#|//|/\*|\*|<!--|--|;|%|\"\"\"|''')")
_DOCUMENTS: Final = frozenset({"docs", "doc", "documentation"})
_STUB_ENDINGS: Final = (".pyi", ".d.ts", ".d.mts", ".d.cts")  # which only type checkers read
_DATA_ENDINGS: Final = (".json", ".html", ".htm", ".css")
_HEAD: Final = 20  # lines in which a generator says what it is


def classify_file(path: str, text: str) -> FileKind:
    """Return what a file is; `text`: its pending text. Data is what no grammar of a programming language reads."""
    name = path.rpartition("/")[2].lower()
    if name in _LOCK_FILES or name.endswith(_GENERATED_ENDINGS) or _says_generated(text):
        return "generated"
    if PathKind.FOREIGN in list_kinds(path):
        return "vendored"
    is_test = is_test_file(path)
    if is_test or is_judging_file(path):
        return "test" if is_test else "steering"
    if is_prose(path) or name.endswith(_PROSE_ENDINGS) or not _DOCUMENTS.isdisjoint(path.split("/")[:-1]):
        return "docs"
    if not is_known_language(path) or name.endswith(_DATA_ENDINGS):
        return "data"
    return "types" if name.endswith(_STUB_ENDINGS) else "code"


def _says_generated(text: str) -> bool:
    head = text.split("\n", _HEAD)[:_HEAD]
    return any(_COMMENT.match(line) and _GENERATED.search(line) for line in head)
