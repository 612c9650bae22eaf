"""`@path` in a prompt: the file's text (or the folder's list) goes with the message, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from core.agent.tags import as_data, attribute
from core.attachments import MAX_INPUT, media_type_of
from core.attachments.signature import SNIFF
from core.errors import PathRefused
from core.tools.base import Reader

MAX_FILE = 60_000  # bytes
MAX_ALL = 200_000
MAX_MENTIONS = 30
MAX_PICTURES = 10
_MENTION = re.compile(r"(?<![\w@/.])@(?:\"(?P<quoted>[^\"\n]{1,400})\"|(?P<plain>[^\s\"'`<>|,;()\[\]{}]{1,400}))")


class Attached(Struct, frozen=True, kw_only=True):
    """What a prompt mentions: workspace-relative paths that exist, and the blocks that show them to the model.
    `pictures` (and PDFs), which no text can show, with their bytes; they are among the paths and not the blocks."""

    paths: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    pictures: tuple[tuple[str, bytes], ...] = ()


def attach(reader: Reader, prompt: str) -> Attached:
    """Read what is mentioned. A word after `@` that names nothing is just a word."""
    paths: list[str] = []
    blocks: list[str] = []
    pictures: list[tuple[str, bytes]] = []
    left = MAX_ALL
    for name in _names(prompt):
        found = _existing(reader, name)
        if found is None or found[0] in paths:
            continue
        path, kind = found
        if kind != "directory" and (picture := _picture(reader, path)):
            paths.append(path)
            pictures.append((path, picture))
            if len(pictures) >= MAX_PICTURES:
                break
            continue
        block = _folder(reader, path) if kind == "directory" else _file(reader, path, min(MAX_FILE, left))
        if kind != "directory" and "note=" not in block.split("\n", 1)[0]:
            reader.mark_read(path)
        left -= len(block.encode("utf-8", "replace"))
        paths.append(path)
        blocks.append(block)
        if left <= 0 or len(paths) >= MAX_MENTIONS:
            break
    return Attached(paths=tuple(paths), blocks=tuple(blocks), pictures=tuple(pictures))


def pictures_in(reader: Reader, prompt: str) -> tuple[str, ...]:
    """The pictures and PDFs that a prompt mentions, by workspace-relative path."""
    found = (_existing(reader, name) for name in _names(prompt))
    files = dict.fromkeys(each[0] for each in found if each is not None and each[1] != "directory")
    return tuple(path for path in files if _is_picture(reader, path))


def _is_picture(reader: Reader, path: str) -> bool:
    try:
        return bool(media_type_of(reader.read_bytes(path, SNIFF)))
    except PathRefused:
        return False


def _picture(reader: Reader, path: str) -> bytes:
    """The bytes of a picture or a PDF, b"" for anything else. One that is too large is read so far that it shows."""
    return reader.read_bytes(path, MAX_INPUT + 1) if _is_picture(reader, path) else b""


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
