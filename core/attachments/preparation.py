"""Attachments from the bytes of a file: recognised, checked, and small enough for every provider.

A few hostile bytes can keep a PDF parser written in Python busy for ever, or exhaust its memory. So PDFs are read in a
process with limits, and what it does not finish in time stays unknown.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.attachments.pictures import fit_picture
from core.attachments.signature import detect_media_type
from core.errors import AttachmentRefused
from core.protocol.attachment_labels import PDF_MEDIA_TYPE
from core.protocol.messages import Attachment
from core.records import decode_json
from core.text.counting import format_size

TIMEOUT_SECONDS: Final = 10.0
MAX_TEXT_CHARS: Final = 400_000  # characters
_READER: Final = Path(__file__).with_name("pdf_reader.py")
MAX_INPUT_BYTES: Final = 32_000_000  # of any attached file
MAX_PDF_BYTES: Final = 20_000_000  # in base64 it has to fit into a request of 32 MB
MAX_SIDE_PIXELS: Final = 1568  # providers scale down larger pictures
SUPPORTED_TYPES: Final = "PNG, JPEG, GIF, WebP, BMP, TIFF and PDF files can be attached"


class PreparedAttachment(Struct, frozen=True, kw_only=True):
    """An attachment with its bytes, `data`. `note`: how they were converted, "" = unchanged."""

    attachment: Attachment
    data: bytes
    note: str = ""


def prepare_attachment(data: bytes, name: str = "", *, longest: int = MAX_SIDE_PIXELS) -> PreparedAttachment:
    """Prepare the bytes of a file. Slow for a large picture: call it in a thread. `longest`: limit of the longer side
    in pixels.

    Raises `AttachmentRefused` for other files, and for damaged or too large ones.
    """
    label = name or "The file"
    if not data:
        raise AttachmentRefused(f"{label} is empty.", hint="Attach another file.")
    if len(data) > MAX_INPUT_BYTES:
        raise AttachmentRefused(
            f"{label} is larger than {format_size(MAX_INPUT_BYTES)}, the most that can be attached.",
            hint="Make it smaller first.",
        )
    media_type = detect_media_type(data)
    if not media_type:
        raise AttachmentRefused(f"{label} is neither a picture nor a PDF.", hint=f"{SUPPORTED_TYPES}.")
    if media_type == PDF_MEDIA_TYPE:
        return _prepare_pdf(data, name)
    fit = fit_picture(data, media_type, label, longest)
    attachment = Attachment(
        digest=hashlib.sha256(fit.data).hexdigest(),
        media_type=fit.media_type,
        name=name,
        size=len(fit.data),
        width=fit.width,
        height=fit.height,
    )
    return PreparedAttachment(attachment=attachment, data=fit.data, note=fit.note)


def _prepare_pdf(data: bytes, name: str) -> PreparedAttachment:
    label = name or "The PDF"
    if len(data) > MAX_PDF_BYTES:
        raise AttachmentRefused(
            f"{label} is larger than {format_size(MAX_PDF_BYTES)}, the most that a PDF can have.",
            hint="Split it, and attach the part you need.",
        )
    facts = read_pdf_facts(data)
    if facts.encrypted:
        raise AttachmentRefused(f"{label} is encrypted: no model can read it.", hint="Save it without a password.")
    if facts.damaged:
        raise AttachmentRefused(f"{label} is damaged: {facts.damaged}", hint="Open it in a viewer and save it again.")
    attachment = Attachment(
        digest=hashlib.sha256(data).hexdigest(), media_type=PDF_MEDIA_TYPE, name=name, size=len(data), pages=facts.pages
    )
    return PreparedAttachment(attachment=attachment, data=data)


class PdfFacts(Struct, frozen=True, kw_only=True):
    """`pages` 0 = unknown; `damaged`: the parser's error, "" = none; `text` "" = none, or not requested."""

    pages: int = 0
    encrypted: bool = False
    damaged: str = ""
    text: str = ""


def read_pdf_facts(data: bytes, *, text: bool = False) -> PdfFacts:
    """Return the facts of a PDF. Slow; never raises: unknown facts have their defaults."""
    command = [sys.executable, "-I", str(_READER), str(MAX_TEXT_CHARS if text else 0)]
    try:
        result = subprocess.run(command, input=data, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        return decode_json(result.stdout, PdfFacts)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return PdfFacts()
