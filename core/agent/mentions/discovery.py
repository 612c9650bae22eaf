"""Files and symbols that a plain sentence names, and the items of a prompt's context for them.

A name with one location brings its text; the user can remove it. A name with several brings the list of them. A name
without any is only a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from core.agent.mentions.mention_syntax import NamedPath, PlainNames
from core.agent.mentions.sources import ContextSources
from core.errors import PathRefused
from core.index.reader import SymbolLocation
from core.protocol.queries import ContextItem, ContextKind
from core.syntax.symbols import Symbol

ItemOrigin = Literal["mention", "found"]
MAX_WHOLE: Final = 8_000  # characters of a file that is sent whole although a sentence only names it
MAX_LISTED: Final = 8  # places of a name
AROUND_LINE: Final = 10  # lines above and below a line outside of symbols
_NAMED: Final = "named in the prompt"
MAX_DISCOVERED: Final = 12  # items of a prompt
MAX_PLACES: Final = 12  # definitions of one name: a more common name is ignored
MAX_CANDIDATES: Final = 8  # files of one name that are parsed
MAX_PARSED_FILES: Final = 24  # files of one prompt that are parsed; the cache of the sources holds more


def build_file_item(
    sources: ContextSources, path: str, start: int = 0, end: int = 0, *, origin: ItemOrigin = "mention"
) -> ContextItem:
    """Build the item of a file, or of lines of it. A single discovered line brings its enclosing symbol."""
    label, reason = path, "mentioned" if origin == "mention" else _NAMED
    if start and origin == "found" and start == end:
        start, end = _widen_line(sources, path, start)
    if start:
        label = f"{path}:{start}" if start == end else f"{path}:{start}-{end}"
    elif origin == "found" and is_outlined(sources, path):
        reason = f"{_NAMED}; it is long, so only its outline is sent"
        label = f"{path} · outline"
    key = f"file:{label.removesuffix(' · outline')}"
    return ContextItem(key=key, kind="file", label=label, path=path, start=start, end=end, origin=origin, reason=reason)


def is_outlined(sources: ContextSources, path: str) -> bool:
    """True if a file is so long that only its outline is sent when a sentence names it."""
    return len(sources.read_text(path) or "") > MAX_WHOLE


def _widen_line(sources: ContextSources, path: str, line: int) -> tuple[int, int]:
    text = sources.read_text(path) or ""
    count = text.count("\n") + 1
    if line > count:
        return 0, 0
    holding = [symbol for symbol in sources.list_symbols(path) if symbol.first < line <= symbol.last + 1]
    inner = min(holding, key=lambda symbol: symbol.last - symbol.first, default=None)
    if inner is not None and inner.last - inner.first < 8 * AROUND_LINE:
        return inner.first + 1, inner.last + 1
    return max(line - AROUND_LINE, 1), min(line + AROUND_LINE, count)


def build_symbol_item(path: str, symbol: Symbol, *, origin: ItemOrigin = "mention") -> ContextItem:
    """Build the item of one definition."""
    start, end = symbol.first + 1, symbol.last + 1
    lines = f"{start}" if start == end else f"{start}-{end}"
    reason = "mentioned" if origin == "mention" else f"{_NAMED}, and defined only here"
    return ContextItem(
        key=f"symbol:{path}:{symbol.qualified}",
        kind="symbol",
        label=f"{symbol.qualified} · {path}:{lines}",
        path=path,
        start=start,
        end=end,
        origin=origin,
        reason=reason,
    )


def build_places_item(name: str, kind: ContextKind, places: Sequence[str], origin: ItemOrigin = "found") -> ContextItem:
    """Build the item of a name with several files or definitions, which lists them."""
    noun = "files" if kind == "file" else "definitions"
    return ContextItem(
        key=f"{kind}:{name}",
        kind=kind,
        label=f"{name} · {len(places)} {noun}",
        origin=origin,
        reason=f"{'mentioned' if origin == 'mention' else _NAMED}; there are {len(places)} {noun}, listed here",
        places=tuple(places),
    )


async def discover_context(sources: ContextSources, plain_names: PlainNames) -> tuple[ContextItem, ...]:
    """Find the files and symbols that the words of a prompt name, files first, at most MAX_DISCOVERED."""
    if plain_names == PlainNames():
        return ()
    items, rest = await asyncio.to_thread(_find_in_files, sources, plain_names)
    items += await _find_in_index(sources, rest)
    return tuple({item.key: item for item in items}.values())[:MAX_DISCOVERED]


def _find_in_files(sources: ContextSources, plain_names: PlainNames) -> tuple[list[ContextItem], list[str]]:
    """Find files and symbols in them; return the items and the missing symbols. Reads and parses files."""
    files = {named_path: _find_files(sources, named_path) for named_path in plain_names.paths}
    candidates = dict.fromkeys(path for paths in files.values() for path in paths[:MAX_CANDIDATES])
    symbols, chosen_paths = _find_in_candidates(
        sources, list(candidates)[:MAX_PARSED_FILES], (*plain_names.symbols, *plain_names.words)
    )
    items = (
        _describe_file(sources, named_path, _narrow(paths, chosen_paths))
        for named_path, paths in files.items()
        if paths
    )
    rest = [symbol for symbol in plain_names.symbols if symbol not in symbols and not _is_file(symbol, files)]
    return [*(item for item in items if item is not None), *symbols.values()], rest


def _find_files(sources: ContextSources, named_path: NamedPath) -> tuple[str, ...]:
    name = named_path.name
    if name.startswith("/"):
        try:
            path = sources.reader.relative(name)
        except (PathRefused, ValueError):
            return ()
        return (path,) if _can_read(sources, path) else ()
    is_word = "/" not in name and "." not in name
    matches = sources.names.find_titled(name) if is_word else sources.find_files(name)
    return tuple(path for path in matches[: 4 * MAX_CANDIDATES] if _can_read(sources, path))


def _can_stat(sources: ContextSources, path: str) -> bool:
    try:
        return sources.find_kind(path) == "file"
    except PathRefused:
        return False


def _can_read(sources: ContextSources, path: str) -> bool:
    """True for a file with text; pictures and huge files have to be mentioned."""
    return _can_stat(sources, path) and sources.read_text(path) is not None


def _is_file(name: str, files: dict[NamedPath, tuple[str, ...]]) -> bool:
    return any(paths and named_path.name == name for named_path, paths in files.items())


def _find_in_candidates(
    sources: ContextSources, paths: Sequence[str], words: Iterable[str]
) -> tuple[dict[str, ContextItem], set[str]]:
    """Find words that one of these files defines. Returns the items by word, and the files with definitions."""
    items: dict[str, ContextItem] = {}
    chosen_paths: set[str] = set()
    if not paths:
        return items, chosen_paths
    for word in words:
        places = [(path, definition) for path in paths for definition in sources.find_definitions(path, word)]
        if not places or len(places) > MAX_PLACES:
            continue
        chosen_paths |= {path for path, _ in places}
        items[word] = _describe_symbol(word, places)
    return items, chosen_paths


def _narrow(paths: tuple[str, ...], chosen_paths: set[str]) -> tuple[str, ...]:
    """Return the files of a name that define a symbol named in the same prompt, or all of them if none does."""
    return tuple(path for path in paths if path in chosen_paths) or paths


def _describe_file(sources: ContextSources, named_path: NamedPath, paths: tuple[str, ...]) -> ContextItem | None:
    if len(paths) == 1:
        return build_file_item(sources, paths[0], named_path.start, named_path.end, origin="found")
    if len(paths) > 4 * MAX_CANDIDATES - 1:
        return None
    return build_places_item(named_path.name, "file", paths)


def _describe_symbol(word: str, places: Sequence[tuple[str, Symbol]]) -> ContextItem:
    if len(places) == 1:
        return build_symbol_item(*places[0], origin="found")
    return build_places_item(
        word, "symbol", [f"{path}:{symbol.first + 1}-{symbol.last + 1}" for path, symbol in places]
    )


async def _find_in_index(sources: ContextSources, names: Sequence[str]) -> list[ContextItem]:
    if not names:
        return []
    lasts = {name: split_name(name)[-1] for name in names}
    symbol_places = await sources.list_defining_files(tuple(dict.fromkeys(lasts.values())))
    items: list[ContextItem] = []
    for name, last in lasts.items():
        item = await asyncio.to_thread(find_symbol, sources, name, symbol_places.get(last, ()))
        items += [item] if item is not None else []
    return items


def find_symbol(
    sources: ContextSources, name: str, places: Sequence[SymbolLocation], limit: int = MAX_PLACES
) -> ContextItem | None:
    """Return the item of a name whose last part is defined at `places`: one definition, or a list of at most `limit`.

    The files are parsed again, since their text may have changed since they were indexed."""
    from core.index.path_kinds import is_secondary_path  # Imported here, as its patterns take time to compile.

    fitting = [symbol_place for symbol_place in places if _fits(name, symbol_place.path, symbol_place.symbol)]
    fitting = [symbol_place for symbol_place in fitting if not is_secondary_path(symbol_place.path)] or fitting
    files = list(dict.fromkeys(symbol_place.path for symbol_place in fitting))
    if not files or len(fitting) > limit:
        return None
    if len(files) > MAX_CANDIDATES:
        readable = {path for path in files if _can_stat(sources, path)}
        locations = [
            f"{symbol_place.path}:{symbol_place.start}-{symbol_place.end}"
            for symbol_place in fitting
            if symbol_place.path in readable
        ]
        return build_places_item(name, "symbol", locations) if locations else None
    last = split_name(name)[-1]
    now = [(path, definition) for path in files for definition in sources.find_definitions(path, last)]
    matches = [(path, definition) for path, definition in now if _fits(name, path, definition.qualified)]
    return _describe_symbol(name, matches[:limit]) if matches else None


def split_name(name: str) -> list[str]:
    """Split a qualified name (`a.b`, `A::b`, `A#b`) into its parts."""
    return name.replace("::", ".").replace("#", ".").split(".")


def _fits(name: str, path: str, symbol: str) -> bool:
    """True if the parts of a name occur in this order in the path of the definition and its enclosing symbols.

    A first part that no definition has (`self` and the like) is ignored."""
    *above, last = split_name(name)
    around = [*path.rpartition(".")[0].split("/"), *symbol.split(".")]
    if around[-1] != last:
        return False
    if len(above) == 1 and above[0] in {"self", "this", "cls", "super"}:
        return True
    rest = iter(around[:-1])
    return all(part in rest for part in above)
