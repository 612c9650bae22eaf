"""How a picture or a PDF is named where people and models read of it: in a prompt, in a list, in place of its bytes.

A label stands in the text of a prompt for what goes with it. It names one attachment of its session, so what happens to
the text (it is edited, queued, given back, kept as a draft) happens to the attachment without further ado.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from core.protocol.messages import Attachment

PDF: Final = "application/pdf"
LABEL: Final = re.compile(r"\[(?:image|pdf) [0-9]{1,5}: [^\[\]\n]{1,80}\]")


def size_words(size: int) -> str:
    """Bytes as people read them: `812 B`, `12 kB`, `3.4 MB`."""
    if size < 1_000:
        return f"{size} B"
    return f"{round(size / 1_000)} kB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"


def described(attachment: Attachment) -> str:
    """`640×480 png 12 kB`, `12 pages pdf 340 kB`."""
    kind = attachment.media_type.rpartition("/")[2]
    pages = f"{attachment.pages} page{'' if attachment.pages == 1 else 's'}" if attachment.pages else ""
    extent = f"{attachment.width}×{attachment.height}" if attachment.width else pages
    return " ".join(filter(None, (extent, kind, size_words(attachment.size))))


def kind_of(attachment: Attachment) -> str:
    """`image` or `pdf`."""
    return "pdf" if attachment.media_type == PDF else "image"


def label_of(attachment: Attachment, number: int) -> str:
    """`[image 1: 640×480 png 12 kB]`."""
    return f"[{kind_of(attachment)} {number}: {described(attachment)}]"


def attachments_in(text: str, known: Mapping[str, Attachment]) -> tuple[Attachment, ...]:
    """What the labels in a text name, each once, in the order of the text. `known` is by label."""
    found = {label: known[label] for label in LABEL.findall(text) if label in known} if known else {}
    return tuple(found.values())


def without_labels(text: str) -> str:
    """The text alone, for a title."""
    return " ".join(LABEL.sub(" ", text).split())
