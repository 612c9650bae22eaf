"""Labels of pictures and PDFs in texts: in a prompt, in a list, in place of their bytes.

A label in a prompt represents one attachment of its session: deleting or copying the label does the same to the
attachment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.patterns import compile_lazily
from core.protocol.messages import Attachment
from core.text.counting import count, format_size

PDF_MEDIA_TYPE: Final = "application/pdf"
LABEL_PATTERN: Final = compile_lazily(r"\[(?:image|pdf) [0-9]{1,5}: [^\[\]\n]{1,80}\]")


def describe_attachment(attachment: Attachment) -> str:
    """Describe an attachment: `640×480 png 12 kB`, `12 pages pdf 340 kB`."""
    kind = attachment.media_type.rpartition("/")[2]
    pages = count("page", attachment.pages) if attachment.pages else ""
    extent = f"{attachment.width}×{attachment.height}" if attachment.width else pages
    return " ".join(filter(None, (extent, kind, format_size(attachment.size))))


def classify_attachment(attachment: Attachment) -> str:
    """Return `image` or `pdf`."""
    return "pdf" if attachment.media_type == PDF_MEDIA_TYPE else "image"


def format_label(attachment: Attachment, number: int) -> str:
    """Format the label of the attachment with this number: `[image 1: 640×480 png 12 kB]`."""
    return f"[{classify_attachment(attachment)} {number}: {describe_attachment(attachment)}]"


def find_attachments(text: str, attachments_by_label: Mapping[str, Attachment]) -> tuple[Attachment, ...]:
    """Return the attachments whose labels occur in a text, without duplicates, in the text's order.
    `attachments_by_label`: by label."""
    attachments = (
        {label: attachments_by_label[label] for label in LABEL_PATTERN.findall(text) if label in attachments_by_label}
        if attachments_by_label
        else {}
    )
    return tuple(attachments.values())


def strip_labels(text: str) -> str:
    """Return the text without its labels, on one line."""
    return " ".join(LABEL_PATTERN.sub(" ", text).split())
