"""Red by reference: what a red file names acts as that file does.

A hook, an `.envrc`, a workflow or a task names scripts; a text for the agent imports others; a package names what an
install runs. These files are looked for in the tree as it would be, pending or not, and so is what they name in turn.
The work is bounded, a file is read once, and what was read is kept until it changes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct, field

from core.config.rules.imports import find_references
from core.errors import PathRefused
from core.protocol.review import Change
from core.shadow.layers.merged_tree import MergedTree, TreeNode
from core.shadow.paths import list_parents
from core.workspace.acting_content import PARTLY_ACTING, list_acting_parts
from core.workspace.file_names import fold_name, is_git_internal
from core.workspace.path_status import PathKind
from core.workspace.protected_files import find_file_risk, may_hold_protected

_MAX_FILES = 300  # that are read
_MAX_LISTED = 3_000  # names
_MAX_BYTES = 256 << 10
_MAX_DEPTH = 4  # files that name the next one
_PROSE = (".md", ".mdc", ".mdx", ".txt", ".cursorrules", ".windsurfrules", ".clinerules", ".rules")
_SCRIPT = re.compile(
    r"\.(?:[cm]?[jt]sx?|py|pyw|sh|bash|zsh|fish|rb|pl|pm|php|lua|ps1|psm1|bat|cmd|awk|exs?|jl|r|groovy)\Z", re.I
)
_WORD = re.compile(r"[\w.@+~${}/\\-]+")
_MODULE = re.compile(r"-m[\s\"',]+([\w.]+)")
_VARIABLE = re.compile(r"^(?:\$\w+|\$\{[^{}]*\}+|\$\{\{[^{}]*\}\}|\\)/+")
_ENDINGS = ("", ".js", ".cjs", ".mjs", ".ts", ".py", ".sh", "/index.js", "/__main__.py")
_NAMES_PLACE = re.compile(
    r"(?:PATH_add|path_add|source_env(?:_if_exists)?|uses:|core\.hooksPath|_\.path)[\s\"'=:\[]+([^\s\"',\]]+)"
)
_RUNS = re.compile(
    r"(?:^|[\s;&|({\"'])(?:source|\.|sh|bash|zsh|dash|node|python3?|ruby|perl|php|bun|tsx|exec|dotenv(?:_if_exists)?)"
    r"\s+(?:-\S+\s+)*[\"']?([\w.@+~${}/-]+)",
    re.MULTILINE,
)
# How a word is meant: as anything in the project, as a file of any kind, else as a script.
_PLACE, _FILE = "\0place ", "\0file "
_HOOKS = ".git/hooks"

ReadKey = tuple[object, ...]


class RedReferences(Struct, eq=False):
    """The files and directories that red files of one session's tree name. `_read`: what was read of each."""

    tree: MergedTree
    _read: dict[str, tuple[ReadKey, tuple[str, ...]]] = field(default_factory=dict)
    _names: dict[str, Mapping[str, PathKind]] = field(default_factory=dict)

    def find(self, changes: Iterable[Change], executed: Iterable[str]) -> dict[str, str]:
        """Return the paths that are named, each with a text that completes the sentence "it …". `executed`: more
        places of the project whose files git runs."""
        self._names.clear()
        pending = [each.path for each in changes]
        waiting = [(path, 0) for path in dict.fromkeys(self._list_red_files(pending, executed))][:_MAX_FILES]
        found, seen = dict[str, str](), {path for path, _ in waiting}
        for path, depth in waiting:  # grows meanwhile
            for named in self._list_named(path):
                if named in found or is_git_internal(named):
                    continue
                verb = "is told to the agent by" if _is_prose(path) else "is run by"
                found[named] = f"{verb} {path}"
                if named not in seen and depth < _MAX_DEPTH and len(waiting) < _MAX_FILES:
                    seen.add(named)
                    waiting.append((named, depth + 1))
        return found

    # the red files

    def _list_red_files(self, pending: list[str], executed: Iterable[str]) -> Iterator[str]:
        yield from (path for path in pending if _acts(path))
        directories = {".": None} | {each: None for path in pending for each in list_parents(path)}
        left = _MAX_LISTED
        waiting = [*directories, _HOOKS, *executed]
        for directory in waiting:  # grows meanwhile
            names = self._list_names(directory)
            if not names and directory not in directories:
                yield directory
            left -= len(names)
            if left < 0:
                return
            is_red = directory not in directories
            for name, kind in names.items():
                path = name if directory == "." else f"{directory}/{name}"
                if kind == "directory":
                    if path not in directories and (is_red or _acts(f"{path}/x") or may_hold_protected(path)):
                        waiting += [path] if not is_git_internal(path) or is_red else []
                elif _acts(path) or (is_red and not path.endswith(".sample")):
                    yield path

    def _list_names(self, directory: str) -> Mapping[str, PathKind]:
        if directory not in self._names:
            try:
                self._names[directory] = self.tree.list_names(directory)
            except (PathRefused, OSError, ValueError):
                self._names[directory] = {}
        return self._names[directory]

    # what they name

    def _list_named(self, path: str) -> tuple[str, ...]:
        node = self.tree.find_node(path)
        if node is None or node.kind != "file":
            return ()
        key = self._build_key(path, node)
        if (known := self._read.get(path)) is not None and known[0] == key:
            texts = known[1]
        else:
            texts = self._read_texts(path, node)
            self._read[path] = (key, texts)
        return tuple(dict.fromkeys(named for text in texts if (named := self._resolve(path, text)) and named != path))

    def _build_key(self, path: str, node: TreeNode) -> ReadKey:
        if node.pending is not None:
            return (node.pending.blob,)
        place = node.layered.place if node.layered is not None else None
        changed = 0
        if place is None:
            with suppress(OSError):
                changed = (self.tree.workspace.root / path).lstat().st_ctime_ns
        return place, node.size, changed

    def _read_texts(self, path: str, node: TreeNode) -> tuple[str, ...]:
        """Read the words of a file that may name others, each with a mark that says how it is meant."""
        try:
            data = self.tree.read(path, node, _MAX_BYTES)
        except (PathRefused, OSError):
            return ()
        name = fold_name(path.rpartition("/")[2])
        if b"\0" in data:
            return ()
        text = data.decode("utf-8", "replace")
        if _is_prose(path):
            return tuple(f"{_FILE}{each}" for each in find_references(text))
        if name in PARTLY_ACTING:
            text = "\n".join(list_acting_parts(name, data).values())
        elif not _acts(path) and find_file_risk(path) is not None and not _SCRIPT.search(path):
            return ()  # a file that is only called, such as a makefile
        places = (f"{_PLACE}{each}" for each in _NAMES_PLACE.findall(text))
        run = (f"{_FILE}{each}" for each in _RUNS.findall(text))
        modules = (each.replace(".", "/") for each in _MODULE.findall(text))
        return tuple(dict.fromkeys((*places, *run, *modules, *_WORD.findall(text))))

    def _resolve(self, source: str, text: str) -> str:
        """Return the file or directory of the project that a word names, seen from a red file or from the top."""
        mark = next((each for each in (_PLACE, _FILE) if text.startswith(each)), "")
        word = text.removeprefix(mark)
        word = _VARIABLE.sub("", word).strip("\\")
        if not word.strip("./@") or "$" in word or word.startswith("~"):
            return ""
        beside = posixpath.dirname(source)
        for directory in dict.fromkeys((beside, "", posixpath.dirname(beside))):
            for ending in _ENDINGS if mark != _PLACE and "/" in word else ("",):
                place = posixpath.normpath(posixpath.join(directory, word.lstrip("/") + ending))
                if not place.startswith("..") and place != "." and self._is_named(place, mark):
                    return place
        return ""

    def _is_named(self, place: str, mark: str) -> bool:
        directory, _, name = place.rpartition("/")
        for above in list_parents(place):
            if above.rpartition("/")[2] not in self._list_names(above.rpartition("/")[0] or "."):
                return False
        kind = self._list_names(directory or ".").get(name)
        if kind != "file":
            return kind == "directory" and mark == _PLACE
        if mark or _SCRIPT.search(place):
            return True
        node = self.tree.find_node(place)
        return node is not None and bool(node.mode & 0o111)


@lru_cache(maxsize=16_384)
def _acts(path: str) -> bool:
    lever = find_file_risk(path)
    is_red = lever is not None and lever.is_protected
    return is_red or fold_name(path.rpartition("/")[2]) in PARTLY_ACTING


def _is_prose(path: str) -> bool:
    return path.lower().endswith(_PROSE)
