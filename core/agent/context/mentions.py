"""Mentions: `@path` in a prompt adds the file's text (or the folder's list) to the message, bounded."""

from __future__ import annotations

import re

from msgspec import Struct

from core.agent.context.prompt_tags import escape_attribute, escape_tags
from core.attachments.preparation import MAX_INPUT_BYTES
from core.attachments.signature import SNIFF_BYTES, detect_media_type
from core.errors import PathRefused
from core.tools.base import Reader

MAX_FILE = 60_000  # bytes
MAX_TOTAL = 200_000
MAX_MENTIONS = 30
MAX_PICTURES = 10
_MENTION = re.compile(r"(?<![\w@/.])@(?:\"([^\"\n]{1,400})\"|([^\s\"'`<>|,;()\[\]{}]{1,400}))")


class MentionedFiles(Struct, frozen=True, kw_only=True):
    """Files that a prompt mentions: their paths, blocks that show them, and `pictures` (and PDFs) with their bytes."""

    paths: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    pictures: tuple[tuple[str, bytes], ...] = ()


def read_mentions(reader: Reader, prompt: str) -> MentionedFiles:
    """Read what a prompt mentions. A word after `@` that names nothing is just a word."""
    paths: list[str] = []
    blocks: list[str] = []
    pictures: list[tuple[str, bytes]] = []
    left = MAX_TOTAL
    for quoted, plain in _MENTION.findall(prompt):
        found = _resolve_mention(reader, quoted or plain)
        if found is None or found[0] in paths:
            continue
        path, kind = found
        if kind != "directory" and _is_picture(reader, path):
            paths.append(path)
            pictures.append((path, reader.read_bytes(path, MAX_INPUT_BYTES + 1)))  # one more than may be sent
            if len(pictures) >= MAX_PICTURES:
                break
            continue
        block = _render_folder(reader, path) if kind == "directory" else _render_file(reader, path, min(MAX_FILE, left))
        if kind != "directory" and "note=" not in block.split("\n", 1)[0]:
            reader.mark_read(path)
        left -= len(block.encode("utf-8", "replace"))
        paths.append(path)
        blocks.append(block)
        if left <= 0 or len(paths) >= MAX_MENTIONS:
            break
    return MentionedFiles(paths=tuple(paths), blocks=tuple(blocks), pictures=tuple(pictures))


def find_pictures(reader: Reader, prompt: str) -> tuple[str, ...]:
    """Return the workspace-relative paths of pictures and PDFs that a prompt mentions."""
    found = (_resolve_mention(reader, quoted or plain) for quoted, plain in _MENTION.findall(prompt))
    files = dict.fromkeys(each[0] for each in found if each is not None and each[1] != "directory")
    return tuple(path for path in files if _is_picture(reader, path))


def _is_picture(reader: Reader, path: str) -> bool:
    try:
        return bool(detect_media_type(reader.read_bytes(path, SNIFF_BYTES)))
    except PathRefused:
        return False


def _resolve_mention(reader: Reader, name: str) -> tuple[str, str] | None:
    """Return path and kind of what a mention names; punctuation at its end may belong to the sentence."""
    for candidate in dict.fromkeys((name, name.rstrip(".:!?"), name.rstrip("/"))):
        try:
            stat = reader.stat(candidate) if candidate else None
            if stat is not None:
                return reader.relative(candidate), stat.kind
        except (PathRefused, ValueError):
            continue
    return None


def _render_file(reader: Reader, path: str, limit: int) -> str:
    opening = f'<file path="{escape_attribute(path)}"'
    try:
        data = reader.read_bytes(path, limit + 1)
    except PathRefused as refused:
        return f'{opening} note="{escape_attribute(refused.message)}"/>'
    if b"\0" in data[:8192]:
        return f'{opening} note="binary, not shown"/>'
    if len(data) > limit:
        opening += f' note="only the first {limit:,} bytes; read the rest with read_file"'
        data = data[:limit].rpartition(b"\n")[0]
    return f"{opening}>\n{escape_tags(data.decode('utf-8', 'replace'))}\n</file>"


def _render_folder(reader: Reader, path: str) -> str:
    opening = f'<file path="{escape_attribute(path)}/"'
    try:
        entries = reader.list_dir(path)
    except PathRefused as refused:
        return f'{opening} note="{escape_attribute(refused.message)}"/>'
    names = [f"{each.name}/" if each.kind == "directory" else each.name for each in entries if not each.ignored]
    shown = names[:200] + ([f"… {len(names) - 200} more"] if len(names) > 200 else [])
    return f"{opening}>\n{escape_tags(chr(10).join(shown))}\n</file>"
