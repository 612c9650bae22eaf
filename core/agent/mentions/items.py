"""The items of a prompt's context: their keys, labels and reasons, the same for a mention and for what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from core.agent.mentions.sources import ContextSources
from core.protocol.queries import ContextItem, ContextKind
from core.syntax.symbols import Symbol

Origin = Literal["mention", "found"]
MAX_WHOLE: Final = 8_000  # bytes of a file that is sent whole though it was only named
MAX_LISTED: Final = 8  # places of a name
AROUND_LINE: Final = 10  # lines above and below one that no symbol holds
_NAMED: Final = "named in the prompt"


def build_file_item(
    sources: ContextSources, path: str, start: int = 0, end: int = 0, *, origin: Origin = "mention"
) -> ContextItem:
    """Build the item of a file, or of lines of it. A single line that was found brings the symbol it stands in."""
    label, reason = path, "mentioned" if origin == "mention" else _NAMED
    if start and origin == "found" and start == end:
        start, end = _widen_line(sources, path, start)
    if start:
        label = f"{path}:{start}" if start == end else f"{path}:{start}-{end}"
    elif origin == "found" and is_outlined(sources, path):
        reason = f"{_NAMED}; it is long, so only its outline goes with it"
        label = f"{path} · outline"
    key = f"file:{label.removesuffix(' · outline')}"
    return ContextItem(key=key, kind="file", label=label, path=path, start=start, end=end, origin=origin, reason=reason)


def is_outlined(sources: ContextSources, path: str) -> bool:
    """True if only the outline of a file is sent when it is named in a sentence."""
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


def build_symbol_item(path: str, symbol: Symbol, *, origin: Origin = "mention") -> ContextItem:
    """Build the item of one definition."""
    start, end = symbol.first + 1, symbol.last + 1
    lines = f"{start}" if start == end else f"{start}-{end}"
    reason = "mentioned" if origin == "mention" else f"{_NAMED}, and defined here alone"
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


def build_places_item(name: str, kind: ContextKind, places: Sequence[str], origin: Origin = "found") -> ContextItem:
    """Build the item of a name that stands for several files or definitions: their places are listed."""
    noun = "files" if kind == "file" else "definitions"
    return ContextItem(
        key=f"{kind}:{name}",
        kind=kind,
        label=f"{name} · {len(places)} {noun}",
        origin=origin,
        reason=f"{'mentioned' if origin == 'mention' else _NAMED}; there are {len(places)} {noun}, which are listed",
        places=tuple(places),
    )
