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

from core.agent.session import SessionContext
from core.agent.tags import as_data, attribute
from core.attachments import PreparedAttachment, placeholder, prepare
from core.attachments.pdf import facts_of
from core.attachments.sent_text import in_words
from core.errors import AttachmentRefused, ContentLost
from core.protocol.attachments import PDF, described
from core.protocol.events import Notice
from core.protocol.messages import AssistantMessage, Attachment, Message, ToolMessage, UserMessage
from core.providers.catalog.capabilities import Capabilities

LOST = "its bytes are gone from the session; attach it again"


class TakenIn(Struct, frozen=True, kw_only=True):
    """What a prompt mentions that is no text: attachments, and a block that tells the model of each."""

    attachments: tuple[Attachment, ...] = ()
    blocks: tuple[str, ...] = ()


def takes(able: Capabilities, attachment: Attachment) -> bool:
    """Whether a model can be sent an attachment as it is."""
    return able.pdf if attachment.media_type == PDF else able.images


def kept(session: SessionContext, prepared: Sequence[PreparedAttachment]) -> tuple[Attachment, ...]:
    """The attachments, once their bytes are stored. `StateError` when they can't be."""
    for each in prepared:
        session.shadow.blobs.put(each.data)
    return tuple(each.attachment for each in prepared)


async def taken_in(session: SessionContext, found: Sequence[tuple[str, bytes]]) -> TakenIn:
    """Files of the workspace, by path, that a prompt mentions. One that can't be sent is told of."""
    attachments: list[Attachment] = []
    blocks: list[str] = []
    for path, data in found:
        try:
            made = await asyncio.to_thread(prepare, data, PurePosixPath(path).name)
        except AttachmentRefused as refused:
            session.emit(
                Notice(level="warning", message=f"{path} is not attached: {refused.message}", hint=refused.hint)
            )
            blocks.append(f'<file path="{attribute(path)}" note="not attached: {attribute(refused.message)}"/>')
            continue
        attachments += kept(session, (made,))
        note = ", ".join(filter(None, ("attached", described(made.attachment), made.note)))
        blocks.append(f'<file path="{attribute(path)}" note="{attribute(note)}"/>')
    return TakenIn(attachments=tuple(attachments), blocks=tuple(blocks))


async def sendable(session: SessionContext, messages: Sequence[Message]) -> Sequence[Message]:
    """The history as the session's model can be sent it; the same objects where nothing has to be replaced."""
    shown = [each for message in messages for each in attachments_of(message)]
    if not shown:
        return messages
    for each in shown:
        if _key(session, each) not in session.stand_ins:
            await _look(session, each)
    return [_replaced(session, message) for message in messages]


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    """What goes with a message."""
    return () if isinstance(message, AssistantMessage) else message.attachments


def _key(session: SessionContext, attachment: Attachment) -> str:
    return f"{attachment.digest} {takes(session.route.capabilities, attachment)}"


async def _look(session: SessionContext, attachment: Attachment) -> None:
    """Find out what is sent for an attachment; the user is told when it is not the attachment."""
    is_taken = takes(session.route.capabilities, attachment)
    try:
        data = await asyncio.to_thread(session.shadow.blobs.get, attachment.digest)
    except ContentLost as lost:
        text = placeholder(attachment, LOST)
        said, hint = f"{_named(attachment)} can't be sent: {lost.message}", "Attach it again if it is needed."
        session.emit(Notice(level="warning", message=said, hint=hint))
    else:
        text = "" if is_taken else await asyncio.to_thread(_in_words, attachment, data)
        if text:
            instead = "its text" if attachment.media_type == PDF and "\n" in text else "a line that says so"
            message = f"{session.route.id} is sent {instead} in place of {_named(attachment)}."
            session.emit(Notice(level="info", message=message, hint="/model chooses one that takes it."))
    session.stand_ins[_key(session, attachment)] = text


def _named(attachment: Attachment) -> str:
    return f"{attachment.name or 'an attachment'} ({described(attachment)})"


def _in_words(attachment: Attachment, data: bytes) -> str:
    text = facts_of(data, text=True).text if attachment.media_type == PDF else ""
    return in_words(attachment, as_data(text)) if text.strip() else placeholder(attachment)


def _replaced(session: SessionContext, message: Message) -> Message:
    if isinstance(message, AssistantMessage) or not message.attachments:
        return message
    texts = tuple(session.stand_ins[_key(session, each)] for each in message.attachments)
    return _with_words(message, texts) if any(texts) else message


@lru_cache(maxsize=512)
def _with_words(message: UserMessage | ToolMessage, texts: tuple[str, ...]) -> Message:
    """The same object for the same message: what was made of it for a request is used for the next one."""
    left = tuple(each for each, text in zip(message.attachments, texts, strict=True) if not text)
    content = "\n\n".join((message.content, *filter(None, texts)))
    return replace(message, content=content, attachments=left)
