"""Pictures and PDFs on their way to the model: kept before the message that names them, and replaced by words where the
model can't be sent them.

The history keeps what was attached, whatever model comes and goes; what stands in its place is worked out for each
request, and always the same for the same kind of model, so a longer history begins with the bytes of a shorter one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from core.agent.context.prompt_tags import escape_attribute, escape_tags
from core.agent.turn.turn_context import TurnContext
from core.attachments import PreparedAttachment, format_placeholder, prepare_attachment
from core.attachments.pdf import read_pdf_facts
from core.attachments.text_form import format_pdf_text
from core.errors import AttachmentRefused, ContentLost
from core.protocol.attachment_labels import PDF_MEDIA_TYPE, describe_attachment
from core.protocol.events import Notice
from core.protocol.messages import AssistantMessage, Attachment, Message, ToolMessage, UserMessage
from core.providers.catalog.capabilities import Capabilities

CONTENT_LOST = "its bytes are gone from the session; attach it again"


class MentionedAttachments(Struct, frozen=True, kw_only=True):
    """Pictures and PDFs that a prompt mentions, and a block for the model about each."""

    attachments: tuple[Attachment, ...] = ()
    blocks: tuple[str, ...] = ()


def can_send(capabilities: Capabilities, attachment: Attachment) -> bool:
    """True if a model with these capabilities can be sent the attachment as it is."""
    return capabilities.pdf if attachment.media_type == PDF_MEDIA_TYPE else capabilities.images


def store_attachments(session: TurnContext, prepared: Sequence[PreparedAttachment]) -> tuple[Attachment, ...]:
    """Store the bytes of attachments and return their records. Raises `StateError`."""
    for each in prepared:
        session.shadow.blobs.put(each.data)
    return tuple(each.attachment for each in prepared)


async def attach_mentioned(session: TurnContext, files: Sequence[tuple[str, bytes]]) -> MentionedAttachments:
    """Attach files of the workspace, given as (path, bytes), that a prompt mentions. Report each that can't be
    sent."""
    attachments: list[Attachment] = []
    blocks: list[str] = []
    for path, data in files:
        try:
            made = await asyncio.to_thread(prepare_attachment, data, PurePosixPath(path).name)
        except AttachmentRefused as refused:
            session.emit(
                Notice(level="warning", message=f"{path} is not attached: {refused.message}", hint=refused.hint)
            )
            blocks.append(
                f'<file path="{escape_attribute(path)}" note="not attached: {escape_attribute(refused.message)}"/>'
            )
            continue
        attachments += store_attachments(session, (made,))
        note = ", ".join(filter(None, ("attached", describe_attachment(made.attachment), made.note)))
        blocks.append(f'<file path="{escape_attribute(path)}" note="{escape_attribute(note)}"/>')
    return MentionedAttachments(attachments=tuple(attachments), blocks=tuple(blocks))


async def replace_unsendable(session: TurnContext, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the history with text in place of what the session's model can't be sent.

    Returns the same objects where nothing has to be replaced.
    """
    shown = [each for message in messages for each in list_attachments(message)]
    if not shown:
        return messages
    for each in shown:
        if _format_key(session, each) not in session.stand_ins:
            await _resolve_stand_in(session, each)
    return [_replace_attachments(session, message) for message in messages]


def list_attachments(message: Message) -> tuple[Attachment, ...]:
    """Return the attachments of a message."""
    return () if isinstance(message, AssistantMessage) else message.attachments


def _format_key(session: TurnContext, attachment: Attachment) -> str:
    return f"{attachment.digest} {can_send(session.route.capabilities, attachment)}"


async def _resolve_stand_in(session: TurnContext, attachment: Attachment) -> None:
    """Find out what is sent for an attachment, and tell the user when it is not the attachment itself."""
    is_taken = can_send(session.route.capabilities, attachment)
    try:
        data = await asyncio.to_thread(session.shadow.blobs.get, attachment.digest)
    except ContentLost as lost:
        text = format_placeholder(attachment, CONTENT_LOST)
        said, hint = f"{_describe(attachment)} can't be sent: {lost.message}", "Attach it again if it is needed."
        session.emit(Notice(level="warning", message=said, hint=hint))
    else:
        text = "" if is_taken else await asyncio.to_thread(_render_as_text, attachment, data)
        if text:
            instead = "its text" if attachment.media_type == PDF_MEDIA_TYPE and "\n" in text else "a line that says so"
            message = f"{session.route.id} is sent {instead} in place of {_describe(attachment)}."
            session.emit(Notice(level="info", message=message, hint="/model chooses one that takes it."))
    session.stand_ins[_format_key(session, attachment)] = text


def _describe(attachment: Attachment) -> str:
    return f"{attachment.name or 'an attachment'} ({describe_attachment(attachment)})"


def _render_as_text(attachment: Attachment, data: bytes) -> str:
    text = read_pdf_facts(data, text=True).text if attachment.media_type == PDF_MEDIA_TYPE else ""
    return format_pdf_text(attachment, escape_tags(text)) if text.strip() else format_placeholder(attachment)


def _replace_attachments(session: TurnContext, message: Message) -> Message:
    if isinstance(message, AssistantMessage) or not message.attachments:
        return message
    texts = tuple(session.stand_ins[_format_key(session, each)] for each in message.attachments)
    return _append_texts(message, texts) if any(texts) else message


@lru_cache(maxsize=512)
def _append_texts(message: UserMessage | ToolMessage, texts: tuple[str, ...]) -> Message:
    """Return the message with texts instead of attachments; the same object for the same arguments, for reuse."""
    left = tuple(each for each, text in zip(message.attachments, texts, strict=True) if not text)
    content = "\n\n".join((message.content, *filter(None, texts)))
    return replace(message, content=content, attachments=left)
