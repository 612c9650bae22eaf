"""The content of a message: plain text, or parts of text and pictures in the names of OpenAI's API.

A picture comes with the message, as a `data:` URL: the server fetches nothing for a client.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from core.attachments.pictures import READABLE_TYPES
from core.errors import CommandRejected

MAX_PICTURES: Final = 100  # of a request, which is what providers take in one of theirs
CODE: Final = "picture_refused"
_SHOWN: Final = 60  # characters of a URL in a message
_ALIASES: Final = {"image/jpg": "image/jpeg"}
_EXAMPLE: Final = "Send it as data:image/png;base64,…"


class ApiRecord(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of what a client sends: a field that is not known is refused."""


class TextPart(ApiRecord, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text of a message; parts of it are lines of their own."""

    text: Annotated[str, Meta(description="Plain text, Markdown.")]


class ImageUrl(ApiRecord, frozen=True, kw_only=True):
    """The bytes of a picture, as a URL that holds them."""

    url: Annotated[str, Meta(description="`data:image/png;base64,…`; nothing is fetched.")]
    detail: Annotated[
        Literal["auto", "low", "high"],
        Meta(description="Accepted; a picture is sent in the size that docs/attachments.md tells of."),
    ] = "auto"


class ImagePart(ApiRecord, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """A picture in a message of the user's."""

    image_url: ImageUrl = field(name="image_url")


def join_text(content: str | tuple[TextPart | ImagePart, ...]) -> str:
    """Return the text of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(text_part.text for text_part in content if isinstance(text_part, TextPart))


def list_picture_urls(content: str | tuple[TextPart | ImagePart, ...]) -> tuple[str, ...]:
    """Return the URLs of the pictures of a content, in order."""
    if isinstance(content, str):
        return ()
    return tuple(part.image_url.url for part in content if isinstance(part, ImagePart))


def decode_picture(url: str, name: str) -> bytes:
    """Return the bytes that a `data:` URL holds (RFC 2397). Slow for a large one: call it in a thread. Raises
    `CommandRejected`; `name` is that of the picture in it."""
    head, comma, data = url.partition(",")
    scheme, colon, media_type = head.partition(":")
    if not comma or not colon or scheme.strip().lower() != "data":
        excerpt = f"{url[:_SHOWN]}{'…' if len(url) > _SHOWN else ''}"
        raise CommandRejected(f"{name} is {excerpt!r}, and the server fetches nothing.", hint=_EXAMPLE, code=CODE)
    kind, *parameters = (part.strip().lower() for part in media_type.split(";"))
    if _ALIASES.get(kind, kind) not in READABLE_TYPES:
        known_types = ", ".join(sorted(readable_type.removeprefix("image/") for readable_type in READABLE_TYPES))
        raise CommandRejected(
            f"{name} is of the type {kind[:_SHOWN]!r}, which is no picture that can be read.",
            hint=f"image/… of {known_types} can be sent.",
            code=CODE,
        )
    if "base64" not in parameters:
        raise CommandRejected(f"{name} does not say that it is base64.", hint=_EXAMPLE, code=CODE)
    try:
        picture = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise CommandRejected(f"{name}: its data is not base64.", hint=_EXAMPLE, code=CODE) from None
    if not picture:
        raise CommandRejected(f"{name} is empty.", hint=_EXAMPLE, code=CODE)
    return picture
