"""Protection by reference: a file that a protected file names is protected as well.

A hook, an `.envrc`, a workflow or a task names scripts; a text for the agent imports others; a package names what an
install runs. These files are resolved in the tree with the pending changes, recursively. The work is bounded, a file is
read once, and the result is cached until the file changes.

A shell builds paths from variables, patterns, loops and changes of directory, so the full path of a pending script need
not be in the text: a pending script counts as named if its path ends as a word of the text does. A name that many
directories have counts only with its directory, and a file that is only called by its tool (a makefile) does not count.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from core.config.rules.loading import find_references
from core.errors import ContentLost, PathRefused
from core.patterns import compile_lazily
from core.protocol.paths import list_parents
from core.protocol.review import Change
from core.shadow.layers.merged_tree import MergedTree, TreeNode
from core.shadow.review.reference_words import (
    BINARY,
    CODE,
    ENDINGS,
    SHELL,
    Mark,
    ReferenceWords,
    is_common,
    read_words,
    sort_words,
)
from core.workspace.acting_content import PARTLY_ACTING, RunnerCall, list_acting_parts, read_scripts, select_scripts
from core.workspace.file_names import fold_name, is_git_internal
from core.workspace.path_status import PathKind
from core.workspace.protected_files import BUILD_SERVER_RISK, find_file_risk, may_hold_protected

_COMPILED = compile_lazily(r"\.(?:go|rs|kts?|gradle)\Z", re.I)
_PLAIN = compile_lazily(r"[\w.@+~-]+\Z")
_MAX_FILES = 600  # files that are read
_MAX_LISTED = 3_000  # names in directories
_MAX_BYTES = 256 << 10
_MAX_DEPTH = 4  # length of a chain of references
_MAX_IMPORTS = 1  # length of a chain of imports
_MAX_CALLS = 200  # script calls of one file
_MAX_PLACES = 24  # directories named in a text against which its words are resolved
_PROSE = (".md", ".mdc", ".mdx", ".txt", ".cursorrules", ".windsurfrules", ".clinerules", ".rules")
# Files that are obeyed and run nothing: patterns of names, and a list of open files.
_OBEYED = (".gitattributes", ".gitmodules", "ignore", ".aiexclude", ".idea/workspace.xml")
_HOOKS = ".git/hooks"
ReadKey = tuple[object, ...]


class PendingScripts:
    """The pending code files of a tree, indexed by the words that may name them, in lower case."""

    def __init__(self, tree: MergedTree, changes: Iterable[Change]) -> None:
        self.paths = [change.path for change in changes if change.pending.kind != "absent"]
        self._tree = tree
        self._by_name = dict[str, list[str]]()
        self._by_directory = dict[str, list[str]]()
        self._firsts = dict[str, set[str]]()
        self._by_tail = dict[str, list[str]]()
        self._odd = dict[str, list[str]]()  # names that cannot be tokens
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
        if change.pending.kind == "absent" or (is_code := _classify_script(change.path)) is False:
            return False
        if is_code or change.pending.kind == "symlink" or change.pending.mode & 0o111:
            return True
        try:
            return self._tree.contents.read(change.pending).startswith(b"#!")
        except ContentLost:
            return False

    def _list_first_parts(self, base: str) -> set[str]:
        """Return the first parts of the directories of scripts below a directory."""
        if base not in self._firsts:
            above = f"{base}/" if base else ""
            below = (directory.removeprefix(above) for directory in self._by_directory if directory.startswith(above))
            self._firsts[base] = {tail.partition("/")[0] for tail in below}
        return self._firsts[base]

    def list_directories(self) -> list[str]:
        """Return the directories at and above pending paths, nearest to the root first."""
        return sorted(
            {above for path in self.paths for above in list_parents(path)}, key=lambda directory: directory.count("/")
        )

    def match(self, source: str, words: ReferenceWords, *, is_code: bool = False) -> Iterator[str]:
        """Yield the scripts whose paths end with words of a protected file, or that are directly in a directory that it
        names.

        `is_code`: the file is no shell script, so that only shell scripts count as executed by it.
        """
        scripts = self._list_named(source, words)
        yield from filter(_is_shell, scripts) if is_code else scripts

    def _list_named(self, source: str, words: ReferenceWords) -> Iterator[str]:
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

    def _list_in_places(self, source_directory: str, words: ReferenceWords) -> Iterator[str]:
        for base in {source_directory, ""}:
            for first in words.places.keys() & self._list_first_parts(base):
                for subdirectory in words.places[first]:
                    for path in self._by_directory.get(posixpath.join(base, subdirectory), ()):
                        if _is_shell(path) or (subdirectory in words.run_places and not _COMPILED.search(path)):
                            yield path
        for tail in words.tails & self._by_tail.keys():
            yield from filter(_is_shell, self._by_tail[tail])


@lru_cache(maxsize=65_536)
def _classify_script(path: str) -> bool | None:
    """Return True for the name of a script, None for an inconclusive name, False for any other or a known risk."""
    name = path.rpartition("/")[2]
    is_code = CODE.search(name) is not None
    if ("." in name and not is_code) or find_file_risk(path) is not None:
        return False
    return is_code or None


def _fits(path: str, end: str, source_directory: str, words: ReferenceWords) -> bool:
    bare = end.lstrip("/")
    if not f"/{path}".endswith(f"/{bare}"):
        return end != bare and "/" in path and bare.endswith(f"/{path}")  # a whole path, as it is on another machine
    directory, _, name = path.rpartition("/")
    if "/" in bare or not is_common(name):
        return True
    return directory in ("", source_directory) or directory.rpartition("/")[2] in words.parts


def _is_shell(path: str) -> bool:
    return SHELL.search(path) is not None or "." not in path.rpartition("/")[2]


class ProtectedReferences(Struct, eq=False):
    """The files and directories that protected files of one session's tree name. `_read` caches the words of files; the
    other fields are valid for one state of the tree."""

    tree: MergedTree
    _read: dict[tuple[str, ...], tuple[ReadKey, ReferenceWords]] = field(default_factory=dict)
    _names: dict[str, Mapping[str, PathKind]] = field(default_factory=dict)
    _kinds: dict[str, PathKind | None] = field(default_factory=dict)
    _pending: dict[str, Change] = field(default_factory=dict)
    _bases: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    _manifests: dict[tuple[object, ...], list[tuple[str, str]]] = field(default_factory=dict)

    def find(self, changes: Iterable[Change], executed_paths: Iterable[str]) -> dict[str, str]:
        """Return the named paths, with texts that complete the sentence "it …". `executed_paths`: other paths of the
        project whose files git runs."""
        for looked_up in (self._names, self._kinds, self._bases, self._manifests):
            looked_up.clear()
        self._pending = {change.path: change for change in changes}
        scripts = PendingScripts(self.tree, self._pending.values())
        waiting = [(path, 0) for path in dict.fromkeys(self._list_protected_files(executed_paths))][:_MAX_FILES]
        risks, visited_paths = dict[str, str](), {path for path, _ in waiting}
        for path, depth in waiting:  # the loop appends to it
            words = self._read_file(path, depth)
            verb = "is loaded for the agent by" if _is_prose(path) else "is run by"
            matching_scripts = scripts.match(path, words, is_code=_is_non_shell_code(path) and depth > 0)
            named_risks = dict.fromkeys((*self._resolve(path, words), *matching_scripts), f"{verb} {path}")
            called_risks = self._list_called(path, words, scripts)
            for name, risk in (*named_risks.items(), *called_risks.items()):
                if name in risks or name == path or is_git_internal(name):
                    continue
                risks[name] = risk
                is_followed = name not in called_risks or not _is_non_shell_code(name)
                if name not in visited_paths and depth < _MAX_DEPTH and len(waiting) < _MAX_FILES and is_followed:
                    visited_paths.add(name)
                    waiting.append((name, depth + 1))
        return risks

    # protected files

    def _list_protected_files(self, executed_paths: Iterable[str]) -> Iterator[str]:
        """Yield the protected files next to and above pending paths; first those of the root, which run most often."""
        directories = {".": None} | {parent: None for path in self._pending for parent in list_parents(path)}
        budget = _MAX_LISTED
        run_directories = {_HOOKS, *executed_paths}  # directories all of whose files are run
        waiting = list(dict.fromkeys([".", *sorted(run_directories), *directories]))
        for directory in waiting:  # the loop appends to it
            names = self._list_names(directory)
            if not names and directory not in directories:
                yield directory
            budget -= len(names)
            if budget < 0:
                break
            is_run = directory in run_directories
            for name, kind in names.items():
                path = name if directory == "." else f"{directory}/{name}"
                if kind == "directory":
                    if is_run or _is_executed(f"{path}/x"):
                        run_directories.add(path)
                    if path not in directories and (path in run_directories or may_hold_protected(path)):
                        waiting += [path] if not is_git_internal(path) or is_run else []
                elif not path.endswith(".sample") and (is_run or _is_executed(path)):  # git's own examples run nothing
                    yield path
        yield from (path for path in self._pending if _is_executed(path))

    def _list_names(self, directory: str) -> Mapping[str, PathKind]:
        if directory not in self._names:
            try:
                self._names[directory] = self.tree.list_names(directory)
            except (PathRefused, OSError, ValueError):
                self._names[directory] = {}
        return self._names[directory]

    # words

    def _read_file(self, path: str, depth: int) -> ReferenceWords:
        node = self.tree.find_node(path)
        if node is None or node.kind != "file":
            return ReferenceWords()
        key = (self._build_key(path, node), min(depth, _MAX_IMPORTS + 1))
        if (cached_entry := self._read.get((path,))) is None or cached_entry[0] != key:
            cached_entry = self._read[path,] = (key, self._read_words(path, node, depth))
        return cached_entry[1]

    def _build_key(self, path: str, node: TreeNode) -> ReadKey:
        if node.pending is not None:
            return (node.pending.blob,)
        location = node.layered.location if node.layered is not None else None
        change_time = 0
        if location is None:
            with suppress(OSError):
                change_time = (self.tree.workspace.root / path).lstat().st_ctime_ns
        return location, node.size, change_time

    def _read_words(self, path: str, node: TreeNode, depth: int) -> ReferenceWords:
        """Read the words of a file; nothing of one that is only called, such as a makefile, or that runs nothing."""
        try:
            data = self.tree.read(path, node, _MAX_BYTES)
        except (PathRefused, OSError):
            return ReferenceWords()
        if b"\0" in data or path.lower().endswith(_OBEYED):
            return ReferenceWords()
        name, text = fold_name(path.rpartition("/")[2]), data.decode("utf-8", "replace")
        if _is_prose(path):
            return ReferenceWords(exact=sort_words((Mark.FILE, reference) for reference in find_references(text)))
        is_named = not _is_executed(path)
        if name in PARTLY_ACTING:
            text = "\n".join(list_acting_parts(name, data).values())
        elif is_named and find_file_risk(path) is not None and not CODE.search(path):
            return ReferenceWords()
        imports = not _runs_on_server(path) and depth <= _MAX_IMPORTS
        words = read_words(path, text, imports=imports, is_bare=True)
        if _is_non_shell_code(path) and depth:  # its strings are data as often as paths
            return replace(words, places={}, tails=frozenset(), run_places=frozenset(), globs=None)
        return words

    # resolution

    def _resolve(self, source: str, words: ReferenceWords) -> Iterator[str]:
        """Yield the files and directories of the project that words name, relative to a protected file, to the root or
        to a directory that the text names."""
        bases = self._list_bases(source, words)
        for base in (*bases, "src"):
            names = self._list_names(base or ".")
            for first in (words.exact.keys() & names.keys()) | (words.exact.keys() & {".."}):
                for marked_word in words.exact[first]:
                    mark, _, word = marked_word.partition(" ")
                    if base in bases or mark in {Mark.MODULE, Mark.RUN_MODULE}:
                        yield from self._complete(base, mark, word)
        for pattern in words.data_globs:
            for base in bases[:2]:
                yield from self._expand(posixpath.normpath(posixpath.join(base, pattern)))

    def _list_bases(self, source: str, words: ReferenceWords) -> list[str]:
        """Return the directories to which names in a protected file may be relative: its own, the root, and those that
        it names."""
        key = (source, id(words))
        if key not in self._bases:
            source_directory = posixpath.dirname(source)
            nearby_directories, places = (
                list(dict.fromkeys((source_directory, "", posixpath.dirname(source_directory)))),
                dict[str, None](),
            )
            for base in nearby_directories:
                names = self._list_names(base or ".")
                for first in words.places.keys() & names.keys():
                    if names[first] == "directory":
                        places |= dict.fromkeys(
                            posixpath.normpath(f"{base}/{subdirectory}") for subdirectory in words.places[first]
                        )
            self._bases[key] = [
                *nearby_directories,
                *sorted({directory.lstrip("/") for directory in places}.difference(nearby_directories))[:_MAX_PLACES],
            ]
        return self._bases[key]

    def _complete(self, base: str, mark: str, word: str) -> Iterator[str]:
        for ending in ENDINGS[mark] if "/" in word or mark != Mark.SCRIPT else ("",):
            path = posixpath.normpath(posixpath.join(base, word + ending))
            if path.startswith("..") or (path == "." and mark != Mark.PROGRAM):
                continue
            kind = self._find_kind(path)
            if kind in {"file", "symlink"} and self._matches_mark(path, mark):
                yield path
                yield from self._follow(path) if kind == "symlink" else ()
                break
            if kind == "directory" and mark == Mark.PLACE:
                yield path
            elif kind == "directory" and mark == Mark.PROGRAM:
                yield from self._list_programs(path)
        if mark in {Mark.MODULE, Mark.RUN_MODULE}:
            above = (f"{parent}/__init__.py" for parent in list_parents(posixpath.join(base, word)) if parent != ".")
            yield from (
                init_file for init_file in above if mark == Mark.MODULE and self._find_kind(init_file) == "file"
            )

    def _find_kind(self, path: str) -> PathKind | None:
        if path == ".":
            return "directory"
        if path not in self._kinds:
            directory, _, name = path.rpartition("/")
            is_there = not directory or self._find_kind(directory) is not None
            self._kinds[path] = self._list_names(directory or ".").get(name) if is_there else None
        return self._kinds[path]

    def _follow(self, link: str) -> Iterator[str]:
        with suppress(PathRefused):
            yield self.tree.resolve_links(link)

    def _matches_mark(self, path: str, mark: str) -> bool:
        if mark != Mark.SCRIPT or CODE.search(path) or BINARY.search(path):
            return True
        node = self.tree.find_node(path)
        return node is not None and bool(node.mode & 0o111)

    def _list_programs(self, directory: str) -> Iterator[str]:
        """Yield the files that Node runs for a directory."""
        names = self._list_names(directory)
        above = "" if directory == "." else f"{directory}/"
        yield from (f"{above}{name}" for name in names if name.startswith("index.") and CODE.search(name))
        if "package.json" in names:
            entries = read_scripts(self._read_data(f"{above}package.json"), None)
            for entry in ("main", "exports", "module", "bin"):
                for word in entries.get(entry, "").split():
                    yield from self._complete(directory, Mark.FILE, word)

    def _read_data(self, path: str) -> bytes:
        node = self.tree.find_node(path)
        try:
            return self.tree.read(path, node, _MAX_BYTES) if node is not None and node.kind == "file" else b""
        except (PathRefused, OSError):
            return b""

    def _expand(self, pattern: str) -> Iterator[str]:
        directory, _, name = pattern.rpartition("/")
        if "*" in directory or "**" in name:
            yield from (path for path in self._pending if fnmatchcase(path, pattern))
            return
        for below, kind in self._list_names(directory or ".").items():
            if kind == "file" and fnmatchcase(below, name):
                yield f"{directory}/{below}" if directory else below

    # calls

    def _list_called(self, source: str, words: ReferenceWords, scripts: PendingScripts) -> dict[str, str]:
        """Return the files run by scripts that a protected file calls through a runner, and manifests in which these
        scripts changed."""
        risks, waiting = dict[str, str](), [(call, source, words) for call in words.calls]
        for call, caller, caller_words in waiting:  # the loop appends to it
            for manifest, table in self._list_manifests(call, caller, caller_words, scripts):
                selected_scripts = select_scripts(read_scripts(self._read_data(manifest), table), call.names)
                if not selected_scripts or manifest == source:
                    continue
                below = self._read_scripts(manifest, selected_scripts)
                if (
                    changed_scripts := []
                    if _runs_on_server(source)
                    else self._list_changed(manifest, table, selected_scripts, call)
                ):
                    risks.setdefault(manifest, f"is run by {source} ({', '.join(changed_scripts)})")
                for name in (*self._resolve(manifest, below), *scripts.match(manifest, below)):
                    risks.setdefault(name, f"is run by {manifest}, which {source} calls")
                if len(waiting) < _MAX_CALLS and caller == source:
                    waiting += [(runner_call, manifest, below) for runner_call in below.calls]
        return risks

    def _list_manifests(
        self, call: RunnerCall, source: str, words: ReferenceWords, scripts: PendingScripts
    ) -> list[tuple[str, str]]:
        key = (source, call.manifests, call.directory, call.is_anywhere)
        if key not in self._manifests:
            places = [*self._list_bases(source, words)]
            if call.directory:
                places = [posixpath.normpath(posixpath.join(base, call.directory)) for base in places[:2]]
            if call.is_anywhere or not any(self._list_names(base or ".") for base in places):
                places += scripts.list_directories()[:_MAX_PLACES]
            self._manifests[key] = [
                (posixpath.join("" if base == "." else base, name), table)
                for name, table in call.manifests
                for base in dict.fromkeys(places)
                if name in self._list_names(base or ".")
            ]
        return self._manifests[key]

    def _read_scripts(self, manifest: str, scripts: Mapping[str, str]) -> ReferenceWords:
        key = (manifest, *scripts)
        texts = tuple(scripts.values())
        if (cached_entry := self._read.get(key)) is None or cached_entry[0] != texts:
            cached_entry = self._read[key] = (
                texts,
                read_words(manifest, "\n".join(texts), imports=False, is_bare=True),
            )
        return cached_entry[1]

    def _list_changed(
        self, manifest: str, table: str, selected_scripts: Mapping[str, str], call: RunnerCall
    ) -> list[str]:
        """Return the called scripts of a pending manifest that differ from its base."""
        if (change := self._pending.get(manifest)) is None:
            return []
        try:
            base = self.tree.contents.read(change.base)
        except ContentLost:
            return []
        before = select_scripts(read_scripts(base, table), call.names)
        return [name for name, text in selected_scripts.items() if before.get(name) != text]


@lru_cache(maxsize=16_384)
def _is_executed(path: str) -> bool:
    file_risk = find_file_risk(path)
    is_protected = file_risk is not None and file_risk.is_protected
    return is_protected or fold_name(path.rpartition("/")[2]) in PARTLY_ACTING


@lru_cache(maxsize=16_384)
def _runs_on_server(path: str) -> bool:
    file_risk = find_file_risk(path)
    return file_risk is not None and file_risk.risk == BUILD_SERVER_RISK


def _is_non_shell_code(path: str) -> bool:
    """True for code other than shell scripts."""
    return CODE.search(path) is not None and SHELL.search(path) is None


def _is_prose(path: str) -> bool:
    return path.lower().endswith(_PROSE)
