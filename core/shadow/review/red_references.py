"""Red by reference: what a red file names acts as that file does.

A hook, an `.envrc`, a workflow or a task names scripts; a text for the agent imports others; a package names what an
install runs. These files are looked for in the tree as it would be, pending or not, and so is what they name in turn.
A path that stands there is resolved; of a pending script the end of its path is enough, since a shell builds paths of
variables, loops and changes of directory. The work is bounded, a file is read once, and what was read is kept until it
changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from core.config.rules.loading import find_references
from core.errors import ContentLost, PathRefused
from core.protocol.review import Change
from core.shadow.layers.merged_tree import MergedTree, TreeNode
from core.shadow.paths import list_parents
from core.shadow.review.pending_scripts import PendingScripts
from core.shadow.review.red_words import BINARY, CODE, ENDINGS, SHELL, Mark, RedWords, read_words, sort_words
from core.workspace.acting_content import PARTLY_ACTING, list_acting_parts
from core.workspace.called_scripts import RunnerCall, read_scripts, select_scripts
from core.workspace.file_names import fold_name, is_git_internal
from core.workspace.path_status import PathKind
from core.workspace.protected_files import find_file_risk, may_hold_protected
from core.workspace.protected_names import BUILD_SERVER_RISK

_MAX_FILES = 600  # that are read
_MAX_LISTED = 3_000  # names
_MAX_BYTES = 256 << 10
_MAX_DEPTH = 4  # files that name the next one
_MAX_IMPORTS = 1  # files that are imported and import the next one
_MAX_CALLS = 200  # of scripts, from one file
_MAX_PLACES = 24  # directories of a text in which its words are looked for
_PROSE = (".md", ".mdc", ".mdx", ".txt", ".cursorrules", ".windsurfrules", ".clinerules", ".rules")
# What is obeyed and runs nothing: patterns of names, and a list of files that are open.
_OBEYED = (".gitattributes", ".gitmodules", "ignore", ".aiexclude", ".idea/workspace.xml")
_HOOKS = ".git/hooks"

ReadKey = tuple[object, ...]


class RedReferences(Struct, eq=False):
    """The files and directories that red files of one session's tree name. `_read`: what was read of each; what else is
    kept holds for one look at the tree."""

    tree: MergedTree
    _read: dict[tuple[str, ...], tuple[ReadKey, RedWords]] = field(default_factory=dict)
    _names: dict[str, Mapping[str, PathKind]] = field(default_factory=dict)
    _kinds: dict[str, PathKind | None] = field(default_factory=dict)
    _pending: dict[str, Change] = field(default_factory=dict)
    _bases: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    _manifests: dict[tuple[object, ...], list[tuple[str, str]]] = field(default_factory=dict)

    def find(self, changes: Iterable[Change], executed_paths: Iterable[str]) -> dict[str, str]:
        """Return the paths that are named, each with a text that completes the sentence "it …". `executed_paths`: more
        places of the project whose files git runs."""
        for looked_up in (self._names, self._kinds, self._bases, self._manifests):
            looked_up.clear()
        self._pending = {change.path: change for change in changes}
        scripts = PendingScripts(self.tree, self._pending.values())
        waiting = [(path, 0) for path in dict.fromkeys(self._list_red_files(executed_paths))][:_MAX_FILES]
        risks, visited_paths = dict[str, str](), {path for path, _ in waiting}
        for path, depth in waiting:  # grows meanwhile
            words = self._read_file(path, depth)
            verb = "is told to the agent by" if _is_prose(path) else "is run by"
            matching_scripts = scripts.match(path, words, is_code=_is_code(path) and depth > 0)
            named_risks = dict.fromkeys((*self._resolve(path, words), *matching_scripts), f"{verb} {path}")
            called_risks = self._list_called(path, words, scripts)
            for name, risk in (*named_risks.items(), *called_risks.items()):
                if name in risks or name == path or is_git_internal(name):
                    continue
                risks[name] = risk
                is_followed = name not in called_risks or not _is_code(name)
                if name not in visited_paths and depth < _MAX_DEPTH and len(waiting) < _MAX_FILES and is_followed:
                    visited_paths.add(name)
                    waiting.append((name, depth + 1))
        return risks

    # the red files

    def _list_red_files(self, executed_paths: Iterable[str]) -> Iterator[str]:
        """Yield the red files beside and above what is pending; first those of the top, which run most often."""
        directories = {".": None} | {parent: None for path in self._pending for parent in list_parents(path)}
        budget = _MAX_LISTED
        run_directories = {_HOOKS, *executed_paths}  # all that lies in these is run
        waiting = list(dict.fromkeys([".", *sorted(run_directories), *directories]))
        for directory in waiting:  # grows meanwhile
            names = self._list_names(directory)
            if not names and directory not in directories:
                yield directory
            budget -= len(names)
            if budget < 0:
                break
            is_red = directory in run_directories
            for name, kind in names.items():
                path = name if directory == "." else f"{directory}/{name}"
                if kind == "directory":
                    if is_red or _acts(f"{path}/x"):
                        run_directories.add(path)
                    if path not in directories and (path in run_directories or may_hold_protected(path)):
                        waiting += [path] if not is_git_internal(path) or is_red else []
                elif not path.endswith(".sample") and (is_red or _acts(path)):  # git's own examples run nothing
                    yield path
        yield from (path for path in self._pending if _acts(path))

    def _list_names(self, directory: str) -> Mapping[str, PathKind]:
        if directory not in self._names:
            try:
                self._names[directory] = self.tree.list_names(directory)
            except (PathRefused, OSError, ValueError):
                self._names[directory] = {}
        return self._names[directory]

    # what they say

    def _read_file(self, path: str, depth: int) -> RedWords:
        node = self.tree.find_node(path)
        if node is None or node.kind != "file":
            return RedWords()
        key = (self._build_key(path, node), min(depth, _MAX_IMPORTS + 1))
        if (cached_entry := self._read.get((path,))) is None or cached_entry[0] != key:
            cached_entry = self._read[path,] = (key, self._read_words(path, node, depth))
        return cached_entry[1]

    def _build_key(self, path: str, node: TreeNode) -> ReadKey:
        if node.pending is not None:
            return (node.pending.blob,)
        location = node.layered.place if node.layered is not None else None
        change_time = 0
        if location is None:
            with suppress(OSError):
                change_time = (self.tree.workspace.root / path).lstat().st_ctime_ns
        return location, node.size, change_time

    def _read_words(self, path: str, node: TreeNode, depth: int) -> RedWords:
        """Read what a file names; nothing of one that is only called, such as a makefile, or that runs nothing."""
        try:
            data = self.tree.read(path, node, _MAX_BYTES)
        except (PathRefused, OSError):
            return RedWords()
        if b"\0" in data or path.lower().endswith(_OBEYED):
            return RedWords()
        name, text = fold_name(path.rpartition("/")[2]), data.decode("utf-8", "replace")
        if _is_prose(path):
            return RedWords(exact=sort_words((Mark.FILE, reference) for reference in find_references(text)))
        is_named = not _acts(path)
        if name in PARTLY_ACTING:
            text = "\n".join(list_acting_parts(name, data).values())
        elif is_named and find_file_risk(path) is not None and not CODE.search(path):
            return RedWords()
        imports = not _runs_on_server(path) and depth <= _MAX_IMPORTS
        words = read_words(path, text, imports=imports, is_bare=True)
        if _is_code(path) and depth:  # its strings are data as often as paths
            return replace(words, places={}, tails=frozenset(), run_places=frozenset(), globs=None)
        return words

    # what they name

    def _resolve(self, source: str, words: RedWords) -> Iterator[str]:
        """Yield the files and directories of the project that words name, seen from a red file, from the top or from a
        directory that the text names."""
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

    def _list_bases(self, source: str, words: RedWords) -> list[str]:
        """Return the directories from which a red file may name others: its own, the top, and those that it names."""
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
            if kind in {"file", "symlink"} and self._is_meant(path, mark):
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

    def _is_meant(self, path: str, mark: str) -> bool:
        if mark != Mark.SCRIPT or CODE.search(path) or BINARY.search(path):
            return True
        node = self.tree.find_node(path)
        return node is not None and bool(node.mode & 0o111)

    def _list_programs(self, directory: str) -> Iterator[str]:
        """Yield what Node runs of a directory."""
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

    # what they call

    def _list_called(self, source: str, words: RedWords, scripts: PendingScripts) -> dict[str, str]:
        """Return what the scripts run that a red file calls over a runner, and manifests in which these changed."""
        risks, waiting = dict[str, str](), [(call, source, words) for call in words.calls]
        for call, caller, caller_words in waiting:  # grows meanwhile
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
        self, call: RunnerCall, source: str, words: RedWords, scripts: PendingScripts
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

    def _read_scripts(self, manifest: str, scripts: Mapping[str, str]) -> RedWords:
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
        """Return the called scripts of a pending manifest that are others than in its base."""
        if (change := self._pending.get(manifest)) is None:
            return []
        try:
            base = self.tree.contents.read(change.base)
        except ContentLost:
            return []
        before = select_scripts(read_scripts(base, table), call.names)
        return [name for name, text in selected_scripts.items() if before.get(name) != text]


@lru_cache(maxsize=16_384)
def _acts(path: str) -> bool:
    lever = find_file_risk(path)
    is_red = lever is not None and lever.is_protected
    return is_red or fold_name(path.rpartition("/")[2]) in PARTLY_ACTING


@lru_cache(maxsize=16_384)
def _runs_on_server(path: str) -> bool:
    lever = find_file_risk(path)
    return lever is not None and lever.risk == BUILD_SERVER_RISK


def _is_code(path: str) -> bool:
    """True for code that is no script of a shell."""
    return CODE.search(path) is not None and SHELL.search(path) is None


def _is_prose(path: str) -> bool:
    return path.lower().endswith(_PROSE)
