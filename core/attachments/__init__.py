"""Pictures and PDFs that go with messages: recognised by their bytes, checked, and made fit to be sent."""

from __future__ import annotations

from core.attachments.preparing import MAX_INPUT, PreparedAttachment, prepare
from core.attachments.sent_text import placeholder
from core.attachments.signature import media_type_of
from core.attachments.tokens import tokens_of

__all__ = ["MAX_INPUT", "PreparedAttachment", "media_type_of", "placeholder", "prepare", "tokens_of"]
