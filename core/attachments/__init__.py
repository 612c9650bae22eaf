"""Pictures and PDFs that go with messages: recognised by their bytes, checked, and made fit to be sent."""

from __future__ import annotations

from core.attachments.preparation import MAX_INPUT_BYTES, PreparedAttachment, prepare_attachment
from core.attachments.signature import detect_media_type
from core.attachments.text_form import format_placeholder
from core.attachments.tokens import estimate_tokens

__all__ = [
    "MAX_INPUT_BYTES",
    "PreparedAttachment",
    "detect_media_type",
    "estimate_tokens",
    "format_placeholder",
    "prepare_attachment",
]
