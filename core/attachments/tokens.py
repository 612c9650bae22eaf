"""Estimated tokens of attachments: providers count pictures by their area.

Source: Anthropic's vision guide (tokens ≈ width · height / 750) and PDF guide (a page is read as text and
as a picture).
"""

from __future__ import annotations

from typing import Final

from core.protocol.messages import Attachment

PIXELS_PER_TOKEN: Final = 750
TOKENS_PER_PAGE: Final = 2_300
BYTES_PER_PAGE: Final = 50_000  # of a PDF whose pages could not be counted


def estimate_tokens(attachment: Attachment) -> int:
    """Estimate the tokens of an attachment, at least one."""
    if attachment.width:
        return max(attachment.width * attachment.height // PIXELS_PER_TOKEN, 1)
    return max(attachment.pages or attachment.size // BYTES_PER_PAGE, 1) * TOKENS_PER_PAGE
