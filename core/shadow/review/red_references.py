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

from core.config.rules.imports import find_references
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

    def find(self, changes: Iterable[Change], executed: Iterable[str]) -> dict[str, str]:
        """Return the paths that are named, each with a text that completes the sentence "it …". `executed`: more
        places of the project whose files git runs."""
        for looked_up in (self._names, self._kinds, self._bases, self._manifests):
            looked_up.clear()
        self._pending = {each.path: each for each in changes}
        scripts = PendingScripts(self.tree, self._pending.values())
        waiting = [(path, 0) for path in dict.fromkeys(self._list_red_files(executed))][:_MAX_FILES]
        found, seen = dict[str, str](), {path for path, _ in waiting}
        for path, depth in waiting:  # grows meanwhile
            words = self._read_file(path, depth)
            verb = "is told to the agent by" if _is_prose(path) else "is run by"
            matched = scripts.match(path, words, is_code=_is_code(path) and depth > 0)
            named = dict.fromkeys((*self._resolve(path, words), *matched), f"{verb} {path}")
            called = self._list_called(path, words, scripts)
            for name, risk in (*named.items(), *called.items()):
                if name in found or name == path or is_git_internal(name):
                    continue
                found[name] = risk
                is_followed = name not in called or not _is_code(name)
                if name not in seen and depth < _MAX_DEPTH and len(waiting) < _MAX_FILES and is_followed:
                    seen.add(name)
                    waiting.append((name, depth + 1))
        return found

    # the red files

    def _list_red_files(self, executed: Iterable[str]) -> Iterator[str]:
        """Yield the red files beside and above what is pending; first those of the top, which run most often."""
        directories = {".": None} | {each: None for path in self._pending for each in list_parents(path)}
        left = _MAX_LISTED
        run_directories = {_HOOKS, *executed}  # all that lies in these is run
        waiting = list(dict.fromkeys([".", *sorted(run_directories), *directories]))
        for directory in waiting:  # grows meanwhile
            names = self._list_names(directory)
            if not names and directory not in directories:
                yield directory
            left -= len(names)
            if left < 0:
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
        if (known := self._read.get((path,))) is None or known[0] != key:
            known = self._read[path,] = (key, self._read_words(path, node, depth))
        return known[1]

    def _build_key(self, path: str, node: TreeNode) -> ReadKey:
        if node.pending is not None:
            return (node.pending.blob,)
        place = node.layered.place if node.layered is not None else None
        changed = 0
        if place is None:
            with suppress(OSError):
                changed = (self.tree.workspace.root / path).lstat().st_ctime_ns
        return place, node.size, changed

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
            return RedWords(exact=sort_words((Mark.FILE, each) for each in find_references(text)))
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
                for marked in words.exact[first]:
                    mark, _, word = marked.partition(" ")
                    if base in bases or mark in {Mark.MODULE, Mark.RUN_MODULE}:
                        yield from self._complete(base, mark, word)
        for pattern in words.data_globs:
            for base in bases[:2]:
                yield from self._expand(posixpath.normpath(posixpath.join(base, pattern)))

    def _list_bases(self, source: str, words: RedWords) -> list[str]:
        """Return the directories from which a red file may name others: its own, the top, and those that it names."""
        key = (source, id(words))
        if key not in self._bases:
            beside = posixpath.dirname(source)
            near, places = list(dict.fromkeys((beside, "", posixpath.dirname(beside)))), dict[str, None]()
            for base in near:
                names = self._list_names(base or ".")
                for first in words.places.keys() & names.keys():
                    if names[first] == "directory":
                        places |= dict.fromkeys(posixpath.normpath(f"{base}/{each}") for each in words.places[first])
            self._bases[key] = [*near, *sorted({each.lstrip("/") for each in places}.difference(near))[:_MAX_PLACES]]
        return self._bases[key]

    def _complete(self, base: str, mark: str, word: str) -> Iterator[str]:
        for ending in ENDINGS[mark] if "/" in word or mark != Mark.SCRIPT else ("",):
            place = posixpath.normpath(posixpath.join(base, word + ending))
            if place.startswith("..") or (place == "." and mark != Mark.PROGRAM):
                continue
            kind = self._find_kind(place)
            if kind in {"file", "symlink"} and self._is_meant(place, mark):
                yield place
                yield from self._follow(place) if kind == "symlink" else ()
                break
            if kind == "directory" and mark == Mark.PLACE:
                yield place
            elif kind == "directory" and mark == Mark.PROGRAM:
                yield from self._list_programs(place)
        if mark in {Mark.MODULE, Mark.RUN_MODULE}:
            above = (f"{each}/__init__.py" for each in list_parents(posixpath.join(base, word)) if each != ".")
            yield from (each for each in above if mark == Mark.MODULE and self._find_kind(each) == "file")

    def _find_kind(self, place: str) -> PathKind | None:
        if place == ".":
            return "directory"
        if place not in self._kinds:
            directory, _, name = place.rpartition("/")
            is_there = not directory or self._find_kind(directory) is not None
            self._kinds[place] = self._list_names(directory or ".").get(name) if is_there else None
        return self._kinds[place]

    def _follow(self, link: str) -> Iterator[str]:
        with suppress(PathRefused):
            yield self.tree.resolve_links(link)

    def _is_meant(self, place: str, mark: str) -> bool:
        if mark != Mark.SCRIPT or CODE.search(place) or BINARY.search(place):
            return True
        node = self.tree.find_node(place)
        return node is not None and bool(node.mode & 0o111)

    def _list_programs(self, place: str) -> Iterator[str]:
        """Yield what Node runs of a directory."""
        names = self._list_names(place)
        above = "" if place == "." else f"{place}/"
        yield from (f"{above}{name}" for name in names if name.startswith("index.") and CODE.search(name))
        if "package.json" in names:
            entries = read_scripts(self._read_data(f"{above}package.json"), None)
            for entry in ("main", "exports", "module", "bin"):
                for word in entries.get(entry, "").split():
                    yield from self._complete(place, Mark.FILE, word)

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
        for call, caller, at in waiting:  # grows meanwhile
            for manifest, table in self._list_manifests(call, caller, at, scripts):
                selected = select_scripts(read_scripts(self._read_data(manifest), table), call.names)
                if not selected or manifest == source:
                    continue
                below = self._read_scripts(manifest, selected)
                if changed := [] if _runs_on_server(source) else self._list_changed(manifest, table, selected, call):
                    risks.setdefault(manifest, f"is run by {source} ({', '.join(changed)})")
                for name in (*self._resolve(manifest, below), *scripts.match(manifest, below)):
                    risks.setdefault(name, f"is run by {manifest}, which {source} calls")
                if len(waiting) < _MAX_CALLS and caller == source:
                    waiting += [(each, manifest, below) for each in below.calls]
        return risks

    def _list_manifests(
        self, call: RunnerCall, source: str, words: RedWords, scripts: PendingScripts
    ) -> list[tuple[str, str]]:
        key = (source, call.manifests, call.directory, call.is_anywhere)
        if key not in self._manifests:
            places = [*self._list_bases(source, words)]
            if call.directory:
                places = [posixpath.normpath(posixpath.join(each, call.directory)) for each in places[:2]]
            if call.is_anywhere or not any(self._list_names(each or ".") for each in places):
                places += scripts.list_directories()[:_MAX_PLACES]
            self._manifests[key] = [
                (posixpath.join("" if place == "." else place, name), table)
                for name, table in call.manifests
                for place in dict.fromkeys(places)
                if name in self._list_names(place or ".")
            ]
        return self._manifests[key]

    def _read_scripts(self, manifest: str, scripts: Mapping[str, str]) -> RedWords:
        key = (manifest, *scripts)
        texts = tuple(scripts.values())
        if (known := self._read.get(key)) is None or known[0] != texts:
            known = self._read[key] = (texts, read_words(manifest, "\n".join(texts), imports=False, is_bare=True))
        return known[1]

    def _list_changed(self, manifest: str, table: str, selected: Mapping[str, str], call: RunnerCall) -> list[str]:
        """Return the called scripts of a pending manifest that are others than in its base."""
        if (change := self._pending.get(manifest)) is None:
            return []
        try:
            base = self.tree.contents.read(change.base)
        except ContentLost:
            return []
        before = select_scripts(read_scripts(base, table), call.names)
        return [name for name, text in selected.items() if before.get(name) != text]


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
