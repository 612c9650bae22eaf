"""Files and symbols that a plain sentence names, found by themselves, each a chip that the user can remove.

One place: its text goes with the prompt. Several: they are listed for the model. None: it was only a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from core.agent.mentions.items import build_file_item, build_places_item, build_symbol_item
from core.agent.mentions.plain_names import NamedPath, PlainNames
from core.agent.mentions.sources import ContextSources
from core.errors import PathRefused
from core.index.reader import SymbolLocation
from core.protocol.queries import ContextItem
from core.syntax.symbols import Symbol

MAX_FOUND: Final = 12  # items of a prompt
MAX_PLACES: Final = 12  # of one name: a name that is everywhere says nothing
MAX_CANDIDATES: Final = 8  # files of one name that are looked into
MAX_LOOKED_INTO: Final = 24  # files of a prompt that are looked into; the sources keep the symbols of more


async def discover_context(sources: ContextSources, plain_names: PlainNames) -> tuple[ContextItem, ...]:
    """Find what the words of a prompt name, files first, at most MAX_FOUND."""
    items, rest = await asyncio.to_thread(_find_in_files, sources, plain_names)
    items += await _find_in_index(sources, rest)
    return tuple({context_item.key: context_item for context_item in items}.values())[:MAX_FOUND]


def _find_in_files(sources: ContextSources, plain_names: PlainNames) -> tuple[list[ContextItem], list[str]]:
    """Find files, and what they define; return the symbols that are still to be looked for, too. Reads and parses."""
    files = {named_path: _find_files(sources, named_path) for named_path in plain_names.paths}
    candidates = dict.fromkeys(path for paths in files.values() for path in paths[:MAX_CANDIDATES])
    symbols, chosen_paths = _find_beside(
        sources, list(candidates)[:MAX_LOOKED_INTO], (*plain_names.symbols, *plain_names.words)
    )
    items = (
        _describe_file(sources, named_path, _narrow(paths, chosen_paths))
        for named_path, paths in files.items()
        if paths
    )
    rest = [symbol for symbol in plain_names.symbols if symbol not in symbols and not _is_file(symbol, files)]
    return [*(context_item for context_item in items if context_item is not None), *symbols.values()], rest


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
    """True for a file whose text can be shown; a picture or a huge file has to be mentioned."""
    return _can_stat(sources, path) and sources.read_text(path) is not None


def _is_file(name: str, files: dict[NamedPath, tuple[str, ...]]) -> bool:
    return any(paths and named_path.name == name for named_path, paths in files.items())


def _find_beside(
    sources: ContextSources, paths: Sequence[str], words: Iterable[str]
) -> tuple[dict[str, ContextItem], set[str]]:
    """Find words that one of these files defines. Returns the items by word, and the files that they are in."""
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
    """Of several files with the name, those that define what is named beside them are meant."""
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
    """Return what a name stands for whose last part is defined at `places`: one definition, or several of at most
    `limit`. Where the text has moved on, it is looked for there."""
    from core.index.search.path_kinds import is_secondary_path  # its patterns take a moment to be compiled

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
    """Split a name as people write it (`a.b`, `A::b`, `A#b`) into its parts."""
    return name.replace("::", ".").replace("#", ".").split(".")


def _fits(name: str, path: str, symbol: str) -> bool:
    """True if the parts of a name occur in this order in the path of the definition and in what it stands in; a part
    that no definition can have (`self`, a variable) is left out."""
    *above, last = split_name(name)
    around = [*path.rpartition(".")[0].split("/"), *symbol.split(".")]
    if around[-1] != last:
        return False
    if len(above) == 1 and above[0] in {"self", "this", "cls", "super"}:
        return True
    rest = iter(around[:-1])
    return all(part in rest for part in above)
