"""Pictures and PDFs on their way to the model: stored before the message that names them, or replaced by text.

The history holds the attachments; the text that replaces one is computed per request, and always the same for the same
kind of model, so a longer history begins with the bytes of a shorter one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.prompt_tags import escape_attribute, escape_tags
from core.agent.base.routes import Route
from core.attachments.preparation import prepare_attachment, read_pdf_facts
from core.errors import AttachmentRefused, ContentLost
from core.protocol.attachment_labels import PDF_MEDIA_TYPE, classify_attachment, describe_attachment
from core.protocol.events import AnyEvent, Notice
from core.protocol.messages import Attachment, Message, ToolMessage, UserMessage
from core.providers.catalog.capabilities import Capabilities
from core.shadow.content.blob_store import BlobStore

CONTENT_LOST = "its content is missing from the session; attach it again"


class MentionedAttachments(Struct, frozen=True, kw_only=True):
    """Pictures and PDFs that a prompt mentions, and a block for the model about every one."""

    attachments: tuple[Attachment, ...] = ()
    blocks: tuple[str, ...] = ()


def can_send(capabilities: Capabilities, attachment: Attachment) -> bool:
    """True if a model with these capabilities can be sent the attachment as it is."""
    return capabilities.pdf if attachment.media_type == PDF_MEDIA_TYPE else capabilities.images


class AttachmentSender(Struct, frozen=True):
    """Prepares the attachments of a session for models. `stand_ins`: see `ModelMemory`."""

    blobs: BlobStore
    stand_ins: dict[str, str]
    emit: Callable[[AnyEvent], None]

    async def attach_mentioned(self, files: Sequence[tuple[str, bytes]]) -> MentionedAttachments:
        """Attach files that a prompt mentions, as (path, bytes). Notify the user of those that can't be sent."""
        attachments: list[Attachment] = []
        blocks: list[str] = []
        for path, data in files:
            try:
                prepared = await asyncio.to_thread(prepare_attachment, data, PurePosixPath(path).name)
                self.blobs.put(prepared.data)
            except AttachmentRefused as refused:
                message = f"{path} is not attached: {refused.message}"
                self.emit(Notice(level="warning", message=message, hint=refused.hint))
                note = f"not attached: {refused.message}"
            else:
                attachments.append(prepared.attachment)
                note = ", ".join(
                    filter(
                        None,
                        ("attached", describe_attachment(prepared.attachment), prepared.note),
                    )
                )
            blocks.append(f'<file path="{escape_attribute(path)}" note="{escape_attribute(note)}"/>')
        return MentionedAttachments(attachments=tuple(attachments), blocks=tuple(blocks))

    async def replace_unsendable(self, messages: Sequence[Message], route: Route) -> Sequence[Message]:
        """Return the history with text for attachments that the model can't take; unchanged messages are the same
        objects."""
        senders = (message for message in messages if isinstance(message, UserMessage | ToolMessage))
        attachments = [attachment for message in senders for attachment in message.attachments]
        if not attachments:
            return messages
        for attachment in attachments:
            if _format_key(route, attachment) not in self.stand_ins:
                await self._resolve_stand_in(attachment, route)
        return [self._replace(message, route) for message in messages]

    async def _resolve_stand_in(self, attachment: Attachment, route: Route) -> None:
        is_taken = can_send(route.capabilities, attachment)
        try:
            data = await asyncio.to_thread(self.blobs.get, attachment.digest)
        except ContentLost as lost:
            text = format_placeholder(attachment, CONTENT_LOST)
            warning, hint = (
                f"{_describe(attachment)} can't be sent: {lost.message}",
                "Attach it again if you need it.",
            )
            self.emit(Notice(level="warning", message=warning, hint=hint))
        else:
            text = "" if is_taken else await asyncio.to_thread(_render_as_text, attachment, data)
            if text:
                is_text = attachment.media_type == PDF_MEDIA_TYPE and "\n" in text
                instead = "its text" if is_text else "a line saying so"
                message = f"{route.id} gets {instead} instead of {_describe(attachment)}."
                self.emit(Notice(level="info", message=message, hint="/model chooses one that accepts it."))
        self.stand_ins[_format_key(route, attachment)] = text

    def _replace(self, message: Message, route: Route) -> Message:
        if not isinstance(message, UserMessage | ToolMessage) or not message.attachments:
            return message
        texts = tuple(self.stand_ins[_format_key(route, attachment)] for attachment in message.attachments)
        return _append_texts(message, texts) if any(texts) else message


def _format_key(route: Route, attachment: Attachment) -> str:
    return f"{attachment.digest} {can_send(route.capabilities, attachment)}"


def _describe(attachment: Attachment) -> str:
    return f"{attachment.name or 'an attachment'} ({describe_attachment(attachment)})"


def _render_as_text(attachment: Attachment, data: bytes) -> str:
    text = read_pdf_facts(data, text=True).text if attachment.media_type == PDF_MEDIA_TYPE else ""
    return _format_pdf_text(attachment, escape_tags(text)) if text.strip() else format_placeholder(attachment)


def format_placeholder(attachment: Attachment, explanation: str = "") -> str:
    """Format a placeholder in one line; `explanation`: the reason, "" = the model does not accept this kind."""
    kind = "PDFs" if attachment.media_type == PDF_MEDIA_TYPE else "pictures"
    reason = explanation or f"this model accepts no {kind}"
    name = f" {attachment.name}" if attachment.name else ""
    return f"[{classify_attachment(attachment)}{name}, {describe_attachment(attachment)}: not shown, {reason}]"


def _format_pdf_text(attachment: Attachment, text: str) -> str:
    """Format the text of a PDF in place of its bytes."""
    name = f" {attachment.name}" if attachment.name else ""
    head = f"[text of the pdf{name}, {describe_attachment(attachment)}; its pictures are not shown]"
    return f"{head}\n{text.strip()}\n[end of the pdf]"


@lru_cache(maxsize=512)
def _append_texts(message: UserMessage | ToolMessage, texts: tuple[str, ...]) -> Message:
    """Return the message with texts instead of attachments. It is cached, since encoded messages are reused by
    identity."""
    attachments = tuple(attachment for attachment, text in zip(message.attachments, texts, strict=True) if not text)
    content = "\n\n".join((message.content, *filter(None, texts)))
    return replace(message, content=content, attachments=attachments)
