"""Results of tool calls as the model gets them: plain text within a limit, and pictures."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from core.attachments.preparation import PreparedAttachment, prepare_attachment
from core.errors import AgentTuiError
from core.mcp.wire.sdk_connection import CallAnswer, ContentBlock
from core.sandbox.plain_text import strip_escapes
from core.shell.long_output import clip_text

CHARS_PER_TOKEN: Final = 4
WARN_CHARS: Final = 10_000 * CHARS_PER_TOKEN
MAX_CHARS: Final = 35_000
MAX_REQUESTED_CHARS: Final = 500_000  # the highest limit that a tool may request
MAX_PICTURES: Final = 10
_LIMIT_KEY: Final = "anthropic/maxResultSizeChars"


class RenderedAnswer(Struct, frozen=True, kw_only=True):
    """`text` for the model; `length`: characters of the whole, which is stored as `spilled` if it was cut."""

    text: str
    length: int
    spilled: str = ""
    attachments: tuple[PreparedAttachment, ...] = ()


async def render_answer(
    answer: CallAnswer, directory: Path, call: str, wishes: Any = None, *, max_chars: int = MAX_REQUESTED_CHARS
) -> RenderedAnswer:
    """Render a result. `wishes`: the tool's `_meta`, which may request a higher limit; `max_chars`: the limit whatever
    it requests."""
    parts: list[str] = []
    attachments: list[PreparedAttachment] = []
    for block in answer.content:
        attachment = await _prepare_picture(block) if len(attachments) < MAX_PICTURES else None
        if attachment is not None:
            attachments.append(attachment)
        else:
            parts.append(_render_block(block))
    if not any(parts) and answer.structured_content is not None:
        parts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    text = strip_escapes("\n".join(filter(None, parts)))
    excerpt, name = clip_text(directory, call, text, min(get_limit(wishes), max_chars))
    return RenderedAnswer(text=excerpt, length=len(text), spilled=name, attachments=tuple(attachments))


def get_limit(wishes: Any) -> int:
    """Return the limit of a tool's results in characters."""
    wish = wishes.get(_LIMIT_KEY) if isinstance(wishes, dict) else None
    return (
        min(max(wish, MAX_CHARS), MAX_REQUESTED_CHARS)
        if isinstance(wish, int) and not isinstance(wish, bool)
        else MAX_CHARS
    )


async def _prepare_picture(block: ContentBlock) -> PreparedAttachment | None:
    encoded_text = (
        block.data if block.type == "image" else block.resource.get("blob") if block.type == "resource" else None
    )
    if not isinstance(encoded_text, str):
        return None
    try:
        data = base64.b64decode(encoded_text, validate=True)
        return await asyncio.to_thread(prepare_attachment, data)
    except (binascii.Error, ValueError, AgentTuiError):
        return None


def _render_block(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "resource":
            text, uri = block.resource.get("text"), block.resource.get("uri", "")
            return str(text) if isinstance(text, str) else f"[A resource that is not text: {uri}]"
        case "resource_link":
            return f"[A resource: {block.uri}]"
        case _:
            size = len(block.data) * 3 // 4
            return f"[{block.type}, {block.mime_type or 'of unknown type'}, {size:,} bytes: it can't be shown here]"
