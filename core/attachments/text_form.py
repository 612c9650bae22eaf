"""Texts in place of attachments for models that do not accept the bytes, and estimates of their tokens.

Source of the estimate: Anthropic's vision guide (tokens ≈ width · height / 750) and PDF guide (a page counts as text
and as a picture).
"""

from __future__ import annotations

from typing import Final

from core.protocol.attachment_labels import PDF_MEDIA_TYPE, classify_attachment, describe_attachment
from core.protocol.messages import Attachment

PIXELS_PER_TOKEN: Final = 750
TOKENS_PER_PAGE: Final = 2_300
BYTES_PER_PAGE: Final = 50_000  # of a PDF with an unknown number of pages


def format_placeholder(attachment: Attachment, explanation: str = "") -> str:
    """Format a placeholder in one line; `explanation`: the reason, "" = the model does not accept this kind."""
    kind = "PDFs" if attachment.media_type == PDF_MEDIA_TYPE else "pictures"
    reason = explanation or f"this model accepts no {kind}"
    name = f" {attachment.name}" if attachment.name else ""
    return f"[{classify_attachment(attachment)}{name}, {describe_attachment(attachment)}: not shown, {reason}]"


def format_pdf_text(attachment: Attachment, text: str) -> str:
    """Format the text of a PDF in place of its bytes."""
    name = f" {attachment.name}" if attachment.name else ""
    head = f"[text of the pdf{name}, {describe_attachment(attachment)}; its pictures are not shown]"
    return f"{head}\n{text.strip()}\n[end of the pdf]"


def estimate_tokens(attachment: Attachment) -> int:
    """Estimate the tokens of an attachment, at least one."""
    if attachment.width:
        return max(attachment.width * attachment.height // PIXELS_PER_TOKEN, 1)
    return max(attachment.pages or attachment.size // BYTES_PER_PAGE, 1) * TOKENS_PER_PAGE
