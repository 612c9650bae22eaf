"""Texts that stand for an attachment where a model can't take its bytes."""

from __future__ import annotations

from core.protocol.attachment_labels import PDF_MEDIA_TYPE, classify_attachment, describe_attachment
from core.protocol.messages import Attachment


def format_placeholder(attachment: Attachment, why: str = "") -> str:
    """Format one line of text; `why`: the reason, "" = the model takes none of its kind."""
    kind = "PDFs" if attachment.media_type == PDF_MEDIA_TYPE else "pictures"
    reason = why or f"this model takes no {kind}"
    name = f" {attachment.name}" if attachment.name else ""
    return f"[{classify_attachment(attachment)}{name}, {describe_attachment(attachment)}: not shown, {reason}]"


def format_pdf_text(attachment: Attachment, text: str) -> str:
    """Format the text of a PDF in place of its bytes."""
    name = f" {attachment.name}" if attachment.name else ""
    head = f"[the text of the pdf{name}, {describe_attachment(attachment)}; its pictures are not shown]"
    return f"{head}\n{text.strip()}\n[end of the pdf]"
