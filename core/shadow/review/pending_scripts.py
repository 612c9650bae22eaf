"""Pending code that a red text may run, found by the end of its path.

A path need not stand in a text: a shell builds it of a directory that it changed to, a variable, a pattern or a loop.
So a pending script is named if its path ends as a word of the text does. A name that many directories have counts only
with its directory, and what is only called (a makefile) not at all.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from core.errors import ContentLost
from core.protocol.review import Change
from core.shadow.content.paths import list_parents
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.review.red_words import CODE, SHELL, RedWords, is_common
from core.workspace.protected_files import find_file_risk

_COMPILED = re.compile(r"\.(?:go|rs|kts?|gradle)\Z", re.I)
_PLAIN = re.compile(r"[\w.@+~-]+\Z")


class PendingScripts:
    """The pending files of code of a tree, by what a text may say of them; all in small letters."""

    def __init__(self, tree: MergedTree, changes: Iterable[Change]) -> None:
        self.paths = [change.path for change in changes if change.pending.kind != "absent"]
        self._tree = tree
        self._by_name = dict[str, list[str]]()
        self._by_directory = dict[str, list[str]]()
        self._firsts = dict[str, set[str]]()
        self._by_tail = dict[str, list[str]]()
        self._odd = dict[str, list[str]]()  # names that no token is
        self._by_folded = dict[str, list[str]]()
        for change in changes:
            if self._is_script(change):
                self._add(change.path)
        self._all = "\n".join(self._by_folded)

    def _add(self, path: str) -> None:
        folded_path = path.lower()
        directory, _, name = folded_path.rpartition("/")
        self._by_folded.setdefault(folded_path, []).append(path)
        self._by_name.setdefault(name, []).append(path)
        self._by_directory.setdefault(directory, []).append(path)
        parts = directory.split("/")
        for start in range(len(parts)):
            self._by_tail.setdefault("/".join(parts[start:]), []).append(path)
        if not _PLAIN.match(name):
            self._odd.setdefault(name, []).append(path)

    def _is_script(self, change: Change) -> bool:
        if change.pending.kind == "absent" or (is_code := _is_code(change.path)) is False:
            return False
        if is_code or change.pending.kind == "symlink" or change.pending.mode & 0o111:
            return True
        try:
            return self._tree.contents.read(change.pending).startswith(b"#!")
        except ContentLost:
            return False

    def _list_firsts(self, base: str) -> set[str]:
        """Return the first parts of the directories of scripts below a directory."""
        if base not in self._firsts:
            above = f"{base}/" if base else ""
            below = (directory.removeprefix(above) for directory in self._by_directory if directory.startswith(above))
            self._firsts[base] = {tail.partition("/")[0] for tail in below}
        return self._firsts[base]

    def list_directories(self) -> list[str]:
        """Return the directories at and above pending paths, the nearest ones to the top first."""
        return sorted(
            {above for path in self.paths for above in list_parents(path)}, key=lambda directory: directory.count("/")
        )

    def match(self, source: str, words: RedWords, *, is_code: bool = False) -> Iterator[str]:
        """Yield the scripts whose paths end as the words of a red file do, or that lie right in a directory of them.

        `is_code`: the file is no script of a shell, so that scripts of a shell alone are taken for what it runs.
        """
        scripts = self._list_named(source, words)
        yield from filter(_is_shell, scripts) if is_code else scripts

    def _list_named(self, source: str, words: RedWords) -> Iterator[str]:
        source_directory = posixpath.dirname(source).lower()
        for name in words.names.keys() & self._by_name.keys():
            for path in self._by_name[name]:
                if any(_fits(path.lower(), end, source_directory, words) for end in words.names[name]):
                    yield path
        if words.globs is not None and self._all:
            for match in words.globs.finditer(self._all):
                yield from self._by_folded[match[0]]
        for name, paths in self._odd.items():
            if words.undone and name in words.undone:
                yield from paths
        yield from self._list_in_places(source_directory, words)

    def _list_in_places(self, source_directory: str, words: RedWords) -> Iterator[str]:
        for base in {source_directory, ""}:
            for first in words.places.keys() & self._list_firsts(base):
                for subdirectory in words.places[first]:
                    for path in self._by_directory.get(posixpath.join(base, subdirectory), ()):
                        if _is_shell(path) or (subdirectory in words.run_places and not _COMPILED.search(path)):
                            yield path
        for tail in words.tails & self._by_tail.keys():
            yield from filter(_is_shell, self._by_tail[tail])


@lru_cache(maxsize=65_536)
def _is_code(path: str) -> bool | None:
    """Return True for the name of a script, None for one that tells nothing, False for any other or a known risk."""
    name = path.rpartition("/")[2]
    is_code = CODE.search(name) is not None
    if ("." in name and not is_code) or find_file_risk(path) is not None:
        return False
    return is_code or None


def _fits(path: str, end: str, source_directory: str, words: RedWords) -> bool:
    bare = end.lstrip("/")
    if not f"/{path}".endswith(f"/{bare}"):
        return end != bare and "/" in path and bare.endswith(f"/{path}")  # a whole path, as it is on another machine
    directory, _, name = path.rpartition("/")
    if "/" in bare or not is_common(name):
        return True
    return directory in ("", source_directory) or directory.rpartition("/")[2] in words.parts


def _is_shell(path: str) -> bool:
    return SHELL.search(path) is not None or "." not in path.rpartition("/")[2]
