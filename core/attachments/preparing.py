"""From the bytes of a file to an attachment: recognised, checked, and small enough for every provider."""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec import Struct

from core.attachments.pdf import facts_of
from core.attachments.pictures import fitted
from core.attachments.signature import media_type_of
from core.errors import AttachmentRefused
from core.protocol.attachments import PDF, size_words
from core.protocol.messages import Attachment

MAX_INPUT: Final = 32_000_000  # bytes of a file that is read at all
MAX_PDF: Final = 20_000_000  # bytes: a request of 32 MB has to hold it in base64
LONGEST_SIDE: Final = 1568  # pixels, beyond which providers scale a picture down themselves
TAKEN: Final = "PNG, JPEG, GIF, WebP, BMP, TIFF and PDF files can be attached"


class PreparedAttachment(Struct, frozen=True, kw_only=True):
    """What is to be sent: `data` are the bytes of `attachment`. `note`: what was done to them, "" = nothing."""

    attachment: Attachment
    data: bytes
    note: str = ""


def prepare(data: bytes, name: str = "", *, longest: int = LONGEST_SIDE) -> PreparedAttachment:
    """Slow for a large picture: to be called in a thread. `longest`: pixels of the longer side.

    Raises `AttachmentRefused` for what is no picture and no PDF, and for what is damaged or too large.
    """
    what = name or "The file"
    if not data:
        raise AttachmentRefused(f"{what} is empty.", hint="Attach another file.")
    if len(data) > MAX_INPUT:
        raise AttachmentRefused(
            f"{what} has {size_words(len(data))}; at most {size_words(MAX_INPUT)} can be attached.",
            hint="Make it smaller first.",
        )
    media_type = media_type_of(data)
    if not media_type:
        raise AttachmentRefused(f"{what} is neither a picture nor a PDF.", hint=f"{TAKEN}.")
    if media_type == PDF:
        return _pdf(data, name)
    fit = fitted(data, media_type, what, longest)
    attachment = Attachment(
        digest=hashlib.sha256(fit.data).hexdigest(),
        media_type=fit.media_type,
        name=name,
        size=len(fit.data),
        width=fit.width,
        height=fit.height,
    )
    return PreparedAttachment(attachment=attachment, data=fit.data, note=fit.note)


def _pdf(data: bytes, name: str) -> PreparedAttachment:
    what = name or "The PDF"
    if len(data) > MAX_PDF:
        raise AttachmentRefused(
            f"{what} has {size_words(len(data))}; at most {size_words(MAX_PDF)} of PDF can be sent.",
            hint="Split it, and attach the part that matters.",
        )
    facts = facts_of(data)
    if facts.encrypted:
        raise AttachmentRefused(f"{what} is encrypted: no model can read it.", hint="Save it without a password.")
    if facts.damaged:
        raise AttachmentRefused(f"{what} is damaged: {facts.damaged}", hint="Open it in a viewer and save it anew.")
    attachment = Attachment(
        digest=hashlib.sha256(data).hexdigest(), media_type=PDF, name=name, size=len(data), pages=facts.pages
    )
    return PreparedAttachment(attachment=attachment, data=data)
