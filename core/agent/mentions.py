"""`@path` in a prompt: the file's text (or the folder's list) goes with the message, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from core.agent.tags import as_data, attribute
from core.errors import PathRefused
from core.tools.base import Reader

MAX_FILE = 60_000  # bytes
MAX_ALL = 200_000
MAX_MENTIONS = 30
_MENTION = re.compile(r"(?<![\w@/.])@(?:\"(?P<quoted>[^\"\n]{1,400})\"|(?P<plain>[^\s\"'`<>|,;()\[\]{}]{1,400}))")


class Attached(Struct, frozen=True, kw_only=True):
    """What a prompt mentions: workspace-relative paths that exist, and the blocks that show them to the model."""

    paths: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


def attach(reader: Reader, prompt: str) -> Attached:
    """Read what is mentioned. A word after `@` that names nothing is just a word."""
    paths: list[str] = []
    blocks: list[str] = []
    left = MAX_ALL
    for name in _names(prompt):
        found = _existing(reader, name)
        if found is None or found[0] in paths:
            continue
        path, kind = found
        block = _folder(reader, path) if kind == "directory" else _file(reader, path, min(MAX_FILE, left))
        if kind != "directory" and "note=" not in block.split("\n", 1)[0]:
            reader.mark_read(path)
        left -= len(block.encode("utf-8", "replace"))
        paths.append(path)
        blocks.append(block)
        if left <= 0 or len(paths) >= MAX_MENTIONS:
            break
    return Attached(paths=tuple(paths), blocks=tuple(blocks))


def _names(prompt: str) -> Iterator[str]:
    for found in _MENTION.finditer(prompt):
        yield found["quoted"] or found["plain"]


def _existing(reader: Reader, name: str) -> tuple[str, str] | None:
    """The path and kind of what a mention names; a full stop or the like at its end may belong to the sentence."""
    for candidate in dict.fromkeys((name, name.rstrip(".:!?"), name.rstrip("/"))):
        try:
            stat = reader.stat(candidate) if candidate else None
            if stat is not None:
                return reader.relative(candidate), stat.kind
        except (PathRefused, ValueError):
            continue
    return None


def _file(reader: Reader, path: str, limit: int) -> str:
    opening = f'<file path="{attribute(path)}"'
    try:
        data = reader.read_bytes(path, limit + 1)
    except PathRefused as refused:
        return f'{opening} note="{attribute(refused.message)}"/>'
    if b"\0" in data[:8192]:
        return f'{opening} note="binary, not shown"/>'
    if len(data) > limit:
        opening += f' note="only the first {limit:,} bytes; read the rest with read_file"'
        data = data[:limit].rpartition(b"\n")[0]
    return f"{opening}>\n{as_data(data.decode('utf-8', 'replace'))}\n</file>"


def _folder(reader: Reader, path: str) -> str:
    opening = f'<file path="{attribute(path)}/"'
    try:
        entries = reader.list_dir(path)
    except PathRefused as refused:
        return f'{opening} note="{attribute(refused.message)}"/>'
    names = [f"{each.name}/" if each.kind == "directory" else each.name for each in entries if not each.ignored]
    shown = names[:200] + ([f"… {len(names) - 200} more"] if len(names) > 200 else [])
    return f"{opening}>\n{as_data(chr(10).join(shown))}\n</file>"
