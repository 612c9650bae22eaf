"""The bytes of pictures and PDFs as request bodies hold them."""

from __future__ import annotations

import base64

from core.protocol.attachment_labels import PDF_MEDIA_TYPE
from core.protocol.messages import Attachment
from core.providers.base import ModelRequest


def encode_base64(attachment: Attachment, request: ModelRequest) -> str:
    """Its bytes in base 64. Raises `StateError` if they are gone."""
    return base64.b64encode(request.blobs(attachment.digest)).decode("ascii")


def build_data_url(attachment: Attachment, request: ModelRequest) -> str:
    """Its bytes as a `data:` URL. Raises `StateError` if they are gone."""
    return f"data:{attachment.media_type};base64,{encode_base64(attachment, request)}"


def choose_file_name(attachment: Attachment) -> str:
    """A name for it, which APIs want of a PDF."""
    return attachment.name or ("document.pdf" if attachment.media_type == PDF_MEDIA_TYPE else "picture")
