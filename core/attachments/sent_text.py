"""What a model is sent in the place of an attachment that it can't be sent."""

from __future__ import annotations

from core.protocol.attachments import PDF, described, kind_of
from core.protocol.messages import Attachment


def placeholder(attachment: Attachment, why: str = "") -> str:
    """One line of text; `why`: the reason, "" = the model takes none of its kind."""
    kind = "PDFs" if attachment.media_type == PDF else "pictures"
    reason = why or f"this model takes no {kind}"
    name = f" {attachment.name}" if attachment.name else ""
    return f"[{kind_of(attachment)}{name}, {described(attachment)}: not shown, {reason}]"


def in_words(attachment: Attachment, text: str) -> str:
    """The text of a PDF in the place of its bytes."""
    name = f" {attachment.name}" if attachment.name else ""
    head = f"[the text of the pdf{name}, {described(attachment)}; its pictures are not shown]"
    return f"{head}\n{text.strip()}\n[end of the pdf]"
