"""The modified text files of a git repository's commits, before and after, with the lines that changed.

Nothing of a repository is run: objects are read by `git rev-list`, `git diff-tree` and `git cat-file`.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

LANGUAGES: Final = {
    "py": "python", "js": "javascript", "jsx": "javascript", "mjs": "javascript", "ts": "typescript",
    "tsx": "typescript", "vue": "vue", "go": "go", "rs": "rust", "java": "java", "kt": "kotlin", "c": "c", "h": "c",
    "cc": "c++", "cpp": "c++", "hpp": "c++", "rb": "ruby", "css": "css", "scss": "css", "less": "css", "html": "html",
    "yml": "yaml", "yaml": "yaml", "toml": "toml", "md": "markdown", "rst": "rst", "sh": "shell", "php": "php",
    "sql": "sql", "lua": "lua", "tcl": "tcl", "swift": "swift", "cs": "c#",
}  # fmt: skip
LONGEST: Final = 2_500  # lines
MOST_CHANGED: Final = 120  # lines that come or go
MOST_HUNKS: Final = 8
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_FILE = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})[^\n]*\n--- [^\n]*\n\+\+\+ b/([^\n]*)\n", re.MULTILINE)


class Span(NamedTuple):
    """Lines `old[first:last]` become `new[start:stop]`; 0-indexed."""

    first: int
    last: int
    start: int
    stop: int


class Change(NamedTuple):
    """A file before and after a commit."""

    repository: str
    commit: str
    path: str
    language: str
    before: str
    after: str
    spans: tuple[Span, ...]


def changes(repository: Path, chance: random.Random, *, commits: int, revision: str = "--all") -> Iterator[Change]:
    """The changes of up to `commits` commits, drawn at random from those up to a commit (default: from all)."""
    listed = _git(repository, "rev-list", "--no-merges", revision).decode().split()
    for commit in chance.sample(listed, min(commits, len(listed))):
        patch = _git(
            repository, "diff-tree", "-r", "-p", "-U0", "--diff-filter=M", "--full-index", "--no-commit-id",
            "--no-ext-diff", "--no-textconv", commit,
        )  # fmt: skip
        for old, new, path, body in _files(patch):
            change = _change(repository, commit, path, (old, new), _spans(body))
            if change is not None:
                yield change


def _files(patch: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    headers = list(_FILE.finditer(patch))
    for match, after in zip(headers, [*headers[1:], None], strict=False):
        path = match[3].decode("utf-8", "replace").split("\t")[0]
        if PurePath(path).suffix[1:].lower() in LANGUAGES:
            yield match[1].decode(), match[2].decode(), path, patch[match.end() : after.start() if after else None]


def _spans(body: bytes) -> tuple[Span, ...]:
    spans = []
    for match in _HUNK.finditer(body):
        first, removed, start, come = (1 if group is None else int(group) for group in match.groups())
        first -= 1 if removed else 0
        start -= 1 if come else 0
        spans.append(Span(first, first + removed, start, start + come))
    return tuple(spans)


def _change(repository: Path, commit: str, path: str, blobs: tuple[str, str], spans: Sequence[Span]) -> Change | None:
    changed = sum(span.last - span.first + span.stop - span.start for span in spans)
    if not spans or len(spans) > MOST_HUNKS or changed > MOST_CHANGED:
        return None
    texts = [_git(repository, "cat-file", "blob", blob) for blob in blobs]
    try:
        before, after = (text.decode("utf-8") for text in texts)
    except UnicodeDecodeError:
        return None
    if "\0" in before or not 0 < before.count("\n") <= LONGEST or max(map(len, before.split("\n"))) > 400:
        return None
    language = LANGUAGES[PurePath(path).suffix[1:].lower()]
    return Change(repository.parent.name, commit, path, language, before, after, tuple(spans))


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(repository), *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL
    ).stdout
