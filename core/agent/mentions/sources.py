"""The sources of a prompt's context: the project's files as the agent sees them, their symbols, and the session.

Everything is read through the guard of the reading tools, so no secret is in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from msgspec import Struct, field

from core.edits.text_file import decode_for_reading
from core.errors import MentionRefused, PathRefused
from core.index.reader import SymbolLocation
from core.notebooks.rendering import choose_limit, find_notebook_text
from core.protocol.commands import EarlierMessage, Viewing
from core.protocol.queries import ContextItem
from core.syntax.symbols import Symbol, find_symbols, match_symbol
from core.text.lines import split_whole_lines
from core.text.similarity import find_closest
from core.tools.base import Reader

MAX_SEARCHED: Final = 100_000  # names that are compared with a missing one
_LIKE_PATHS: Final = 0.62  # similarity from which a name is suggested
MAX_PENDING: Final = 40  # changed files that are searched for names
MAX_PARSED: Final = 600_000  # bytes of a file that is parsed for symbols
FindPlaces = Callable[[Sequence[str]], Awaitable[Mapping[str, Sequence[SymbolLocation]]]]


class ProjectNames:
    """The files of a project by name. Built once from a listing and not changed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._directories: dict[str, list[str]] = defaultdict(list)
        self.endings: set[str] = set()
        known_directories: set[str] = set()
        for path in paths:
            above, _, name = path.rpartition("/")
            self._by_name[name.lower()].append(path)
            self.endings.add(name.rpartition(".")[2].lower() if "." in name else "")
            while above and above not in known_directories:
                known_directories.add(above)
                higher, _, last = above.rpartition("/")
                self._directories[last.lower()].append(above)
                above = higher

    def find_files(self, name: str) -> tuple[str, ...]:
        """Find the files whose path is `name` or ends with it, in whole names. Matches in the same case are
        preferred."""
        return _select(self._by_name, name)

    def find_directories(self, name: str) -> tuple[str, ...]:
        """Find the directories whose path is `name` or ends with it."""
        return _select(self._directories, name.rstrip("/"))

    def find_titled(self, word: str) -> tuple[str, ...]:
        """Find files by a word like README or Makefile: a name without its ending, in the same case."""
        if not (word.isupper() and len(word) > 3) and not word.istitle():
            return ()
        exact_paths = [path for path in self._by_name.get(word.lower(), ()) if path.rpartition("/")[2] == word]
        endings = ("", ".md", ".rst", ".txt") if word.isupper() else ()
        stem_paths = [path for end in endings for path in self._by_name.get(f"{word.lower()}{end}", ())]
        return _prefer_exact([*exact_paths, *(path for path in stem_paths if path not in exact_paths)], word)

    def find_near(self, name: str, extra_words: Iterable[str] = ()) -> list[str]:
        """Find paths, and some of `extra_words`, that are similar to a missing name, best first."""
        last = name.rstrip("/").rpartition("/")[2].lower()
        words = [*list(self._by_name)[:MAX_SEARCHED], *list(self._directories)[:MAX_SEARCHED]]
        others = list(extra_words)
        candidates: list[tuple[float, str]] = []
        for index, likeness in find_closest(last, [*words, *(word.lower() for word in others)], cutoff=_LIKE_PATHS):
            if index >= len(words):
                candidates.append((likeness, others[index - len(words)]))
                continue
            paths = self._by_name.get(words[index], []) + [
                f"{directory}/" for directory in self._directories.get(words[index], [])
            ]
            candidates += [(likeness, path) for path in sorted(paths, key=lambda path: (path.count("/"), path))[:2]]
        return [path for _, path in sorted(candidates, key=lambda candidate: -candidate[0])][:3]


def _select(paths_by_name: dict[str, list[str]], name: str) -> tuple[str, ...]:
    target = name.removeprefix("./").strip("/")
    last = target.rpartition("/")[2]
    if not last:
        return ()
    suffix = f"/{target.lower()}"
    matches = [path for path in paths_by_name.get(last.lower(), ()) if f"/{path.lower()}".endswith(suffix)]
    exact_matches = [path for path in matches if f"/{path}".endswith(f"/{target}")]
    return _prefer_exact(exact_matches or matches, target)


def _prefer_exact(paths: list[str], target: str) -> tuple[str, ...]:
    """Return the path that equals the name alone, if there is one, otherwise all paths, the shortest first."""
    stems = {target, f"{target}.md"}
    exact = [path for path in paths if path in stems]
    return tuple(exact[:1] or sorted(paths, key=lambda path: (path.count("/"), path)))


class SessionSources(Protocol):
    """The sources of a session besides its files: `@diff`, `@terminal` and the like."""

    async def find(self, word: str, name: str) -> ContextItem:
        """Return the item of `@word` or `@word:name`. Raises `MentionRefused`."""

    async def find_resource(self, server: str, uri: str) -> ContextItem | None:
        """Return a resource of an MCP server, None = no such server. Raises `MentionRefused`."""

    async def find_named(self, name: str) -> ContextItem | None:
        """Return the subagent of this name (after `agent-`), or the rule, whose text is sent with the other rules."""

    async def render(self, item: ContextItem) -> str:
        """Return the text of an item for the model."""


class NoSession(Struct, frozen=True):
    """The sources without a session: there are only files."""

    async def find(self, word: str, name: str) -> ContextItem:
        raise MentionRefused(f"there is no {word} here{f' ({name})' if name else ''}.")

    async def find_resource(self, server: str, uri: str) -> ContextItem | None:
        return None

    async def find_named(self, name: str) -> ContextItem | None:
        return None

    async def render(self, item: ContextItem) -> str:
        return item.label


async def find_no_places(_: Sequence[str]) -> Mapping[str, Sequence[SymbolLocation]]:
    """Find nothing: there is no index."""
    return {}


async def list_no_names(_: str) -> Sequence[str]:
    """List nothing: there is no index."""
    return ()


async def build_no_map(_: Sequence[str]) -> str:
    """Build nothing: there is no index."""
    return ""


class PromptSurroundings(Struct, frozen=True, kw_only=True):
    """The surroundings in which a prompt was sent. `open_files`: latest first; `viewing`: the position in the first of
    them; `items`: the context to send, None = the mentions; `rules`, `edit_history`, `layout`, `earlier`,
    `wants_plan`: see `TurnSubmit`."""

    open_files: tuple[str, ...] = ()
    viewing: Viewing | None = None
    items: tuple[ContextItem, ...] | None = None
    rules: tuple[str, ...] = ()
    layout: str = ""
    edit_history: tuple[str, ...] = ()
    earlier: tuple[EarlierMessage, ...] = ()
    wants_plan: bool = False


class ContextSources(Struct, eq=False, kw_only=True):
    """The sources of one prompt's context. `find_places`: finds definitions in the index by their last names;
    `index_state`: why the index may be incomplete, "" = it is complete; `build_map`: builds a map of the project for
    some paths, "" = not ready; `list_names`: lists symbols by a prefix; `texts`: a cache of file texts."""

    reader: Reader
    names: ProjectNames
    session: SessionSources
    find_places: FindPlaces = find_no_places
    build_map: Callable[[Sequence[str]], Awaitable[str]] = build_no_map
    list_names: Callable[[str], Awaitable[Sequence[str]]] = list_no_names
    index_state: str = ""
    texts: dict[str, str | None] = field(default_factory=dict)

    def find_files(self, name: str) -> tuple[str, ...]:
        """Find the files whose path is `name` or ends with it, including those that are only pending."""
        files = self.names.find_files(name)
        suffix = f"/{name.removeprefix('./').strip('/')}"
        pending_matches = (
            path for path in self.reader.pending_paths() if path not in files and f"/{path}".endswith(suffix)
        )
        return (*files, *pending_matches)

    def find_kind(self, path: str) -> str:
        """Return "file", "directory" or another kind, "" = absent. Raises `PathRefused`."""
        stat = self.reader.stat(path)
        return "" if stat is None else stat.kind

    def read_text(self, path: str, limit: int = MAX_PARSED) -> str | None:
        """Return the text of a file, or of a notebook's cells, None = binary, larger than `limit` bytes, or not
        allowed."""
        if path not in self.texts:
            self.texts[path] = self._decode(path, limit)
        return self.texts[path]

    def read_lines(self, path: str, limit: int) -> list[str] | None:
        """Return the lines of a file of at most `limit` bytes, with their ends, None = see `read_text`."""
        text = self.texts.get(path) or self._decode(path, limit)
        return None if text is None else split_whole_lines(text)

    def _decode(self, path: str, limit: int) -> str | None:
        data = self._read(path, choose_limit(path, limit + 1))
        if data is None:
            return None
        notebook = find_notebook_text(path, data)
        if notebook is None and (len(data) > limit or b"\0" in data[:8192]):
            return None
        return decode_for_reading(data) if notebook is None else notebook

    def _read(self, path: str, limit: int) -> bytes | None:
        try:
            return self.reader.read_bytes(path, limit)
        except (PathRefused, OSError):
            return None

    def list_symbols(self, path: str) -> tuple[Symbol, ...]:
        """Return the symbols of a file's present text, () = none or unknown."""
        text = self.read_text(path)
        return () if not text else _list_symbols(path.rpartition("/")[2], text)

    async def list_defining_files(self, names: Sequence[str]) -> dict[str, list[SymbolLocation]]:
        """Return the definitions of names (last parts of qualified names) in the index and in pending files."""
        symbol_places = {name: list(places) for name, places in (await self.find_places(names)).items()}
        for path in list(self.reader.pending_paths())[:MAX_PENDING]:
            for symbol in self.list_symbols(path):
                if symbol.name in names and all(
                    path != symbol_place.path for symbol_place in symbol_places.get(symbol.name, ())
                ):
                    symbol_place = SymbolLocation(
                        path=path,
                        start=symbol.first + 1,
                        end=symbol.last + 1,
                        symbol=symbol.qualified,
                        kind="",
                        signature="",
                    )
                    symbol_places.setdefault(symbol.name, []).append(symbol_place)
        return symbol_places

    def find_definitions(self, path: str, name: str) -> tuple[Symbol, ...]:
        """Return the definitions of a name in a file; consecutive overloads count as one."""
        text = self.read_text(path)
        last = name.replace("::", ".").replace("#", ".").rpartition(".")[2]
        definitions: list[Symbol] = []
        for symbol in _group_symbols(path.rpartition("/")[2], text).get(last, ()) if text else ():
            if not match_symbol(symbol, name):
                continue
            if (
                definitions
                and definitions[-1].qualified == symbol.qualified
                and symbol.first - definitions[-1].last <= 2
            ):
                definitions[-1] = definitions[-1]._replace(last=symbol.last)
            else:
                definitions.append(symbol)
        return tuple(definitions)


OpenSources = Callable[[Reader], Awaitable[ContextSources]]


async def open_bare_sources(reader: Reader) -> ContextSources:
    """Open sources that know files by their paths alone."""
    return ContextSources(reader=reader, names=ProjectNames(()), session=NoSession())


@lru_cache(maxsize=48)
def _group_symbols(name: str, text: str) -> Mapping[str, Sequence[Symbol]]:
    symbols_by_name: dict[str, list[Symbol]] = {}
    for symbol in _list_symbols(name, text):
        symbols_by_name.setdefault(symbol.name, []).append(symbol)
    return symbols_by_name


@lru_cache(maxsize=48)
def _list_symbols(name: str, text: str) -> tuple[Symbol, ...]:
    return find_symbols(name, text) or ()
