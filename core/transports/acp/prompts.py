"""A prompt of ACP as a prompt of ours: links become mentions, what is embedded stands in fences, pictures are attached.

What an editor embeds is its buffer, which may not be saved: it is sent as it was given, and nothing in it is read as a
mention.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from core.acp.connection import INVALID_PARAMS, AcpError
from core.acp.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)

_ATTACHED: Final = ("image/", "application/pdf")


class PromptParts(Struct):
    """`text` as the user would have typed it; `pasted`: spans of it, in characters, where nothing is mentioned;
    `files`: names and bytes to attach."""

    text: str = ""
    pasted: list[tuple[int, int]] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, text: str, *, is_pasted: bool = False) -> None:
        """Append text, on a line of its own if it is pasted."""
        start = len(self.text)
        self.text += text
        if is_pasted:
            self.pasted.append((start, len(self.text)))


def convert_prompt(blocks: tuple[ContentBlock, ...], root: Path) -> PromptParts:
    """Return what blocks say. Raises `AcpError` for what can't be understood."""
    parts = PromptParts()
    for block in blocks:
        match block:
            case TextContent():
                parts.add(block.text)
            case ImageContent():
                parts.files.append((_name(block.uri or "picture"), _decode(block.data, "a picture")))
            case ResourceLink():
                parts.add(_mention(block.uri, root))
            case EmbeddedResource():
                _add_embedded(parts, block.resource, root)
            case AudioContent():
                raise AcpError("sound is not understood; promptCapabilities says so", number=INVALID_PARAMS)
    parts.text = parts.text.strip() if not parts.pasted else parts.text.rstrip()
    return parts


def _add_embedded(parts: PromptParts, resource: ResourceContents, root: Path) -> None:
    if resource.blob is not None:
        kind = resource.mime_type or ""
        if not kind.startswith(_ATTACHED):
            raise AcpError(
                f"{resource.uri}: {kind or 'bytes'} can't be read; send text, a picture or a PDF", number=INVALID_PARAMS
            )
        parts.files.append((_name(resource.uri), _decode(resource.blob, resource.uri)))
        return
    text = resource.text or ""
    mark = "```"
    while mark in text:
        mark += "`"
    parts.add(f"\n\n{mark}{_show(resource.uri, root)}\n{text.rstrip()}\n{mark}\n", is_pasted=True)


def _decode(data: str, subject: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise AcpError(f"{subject}: its data is not base64", number=INVALID_PARAMS) from None


def _name(uri: str) -> str:
    return Path(unquote(urlsplit(uri).path)).name or "picture"


def _show(uri: str, root: Path) -> str:
    """Return a path of the project, or the address as it is."""
    split = urlsplit(uri)
    if split.scheme not in {"", "file"}:
        return uri
    path = Path(unquote(split.path))
    try:
        label = path.relative_to(root).as_posix()
    except ValueError:
        label = str(path)
    return label + (f"#{split.fragment}" if split.fragment else "")


def _mention(uri: str, root: Path) -> str:
    """Return what mentions a place; one outside of the project is only named."""
    label = _show(uri, root)
    if label.startswith("/") or (not (is_web := uri.startswith(("http://", "https://"))) and "://" in label):
        return label
    path, mark, lines = label.partition("#")
    quoted_path = f'"{path}"' if not is_web and any(character in path for character in " ,;()[]{}|'") else path
    return f"@{quoted_path}{mark}{lines.replace(':', '-')}"
