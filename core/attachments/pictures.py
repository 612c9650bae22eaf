"""Pictures through Pillow: checked, turned upright, stripped of metadata, and scaled down.

A small and clean picture is sent unchanged. The size is checked before decoding, so that a few bytes that decode to
billions of pixels cost nothing.
"""

from __future__ import annotations

import importlib
import io
import warnings
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from core.attachments.signature import detect_media_type
from core.errors import AttachmentRefused

if TYPE_CHECKING:
    from PIL import Image

MAX_BYTES: Final = 3_750_000  # of a picture: 5 MB in base64, which is what APIs take
MAX_PIXELS: Final = 64_000_000
MAX_EXTENT: Final = 65_500  # pixels of one side
SENDABLE_FORMATS: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
# One decoder per type: Pillow must not try its other parsers on hostile bytes.
_DECODERS: Final = SENDABLE_FORMATS | {
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/x-icon": "ICO",
    "image/avif": "AVIF",
}
READABLE_TYPES: Final = frozenset(_DECODERS)
_PLUGINS: Final = {"WEBP": "WebP", "TIFF": "Tiff", "ICO": "Ico", "AVIF": "Avif"}  # Pillow always loads the others
_ORIENTATION: Final = 0x0112
_METADATA_KEYS: Final = {"exif", "xmp", "XML:com.adobe.xmp", "photoshop", "Raw profile type exif"}
_QUALITIES: Final = (88, 75, 60)
PREVIEW_COLUMNS: Final = 200
PREVIEW_ROWS: Final = 100


class FittedPicture(Struct, frozen=True, kw_only=True):
    """A picture that can be sent. `note`: how it was converted, "" = unchanged."""

    data: bytes
    media_type: str
    width: int
    height: int
    note: str = ""


def fit_picture(data: bytes, media_type: str, label: str, longest: int) -> FittedPicture:
    """Fit a picture for sending. Raises `AttachmentRefused`; `label` names the file in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about oddities in metadata that is dropped anyway
            return _fit_decoded(data, media_type, label, longest)
    except AttachmentRefused:
        raise
    except MemoryError:
        raise AttachmentRefused(
            f"{label} needs more memory than is available.", hint="Make it smaller first."
        ) from None
    except Exception as problem:  # a decoder's errors are of any class
        raise _build_refusal(media_type, label, problem) from problem


def _build_refusal(media_type: str, label: str, problem: Exception) -> AttachmentRefused:
    from PIL import Image, UnidentifiedImageError

    if isinstance(problem, Image.DecompressionBombError):
        return _build_size_error(label, "")
    kind = media_type.rpartition("/")[2].removeprefix("x-").upper()
    if isinstance(problem, UnidentifiedImageError) and media_type not in SENDABLE_FORMATS:
        return AttachmentRefused(
            f"{label} is a {kind} picture, which can't be read here.", hint="Save it as PNG or JPEG first."
        )
    detail = str(problem).strip().splitlines()
    suffix = f" ({detail[0][:120]})" if detail and "BytesIO" not in detail[0] else ""
    return AttachmentRefused(f"{label} is a damaged {kind} picture{suffix}.", hint="Save it again, or take it again.")


def _fit_decoded(data: bytes, media_type: str, label: str, longest: int) -> FittedPicture:
    from PIL import Image

    with _open_picture(data, media_type) as picture:
        _check_size(picture, label)
        before = picture.size
        # Avoids decoding a JPEG at full size.
        picture.draft("RGB" if picture.mode == "RGB" else None, (longest, longest))
        picture.load()
        is_rotated = picture.getexif().get(_ORIENTATION, 1) not in {0, 1}
        small = max(picture.size) <= longest and len(data) <= MAX_BYTES
        if small and not is_rotated and media_type in SENDABLE_FORMATS and _is_clean(picture):
            return FittedPicture(data=data, media_type=media_type, width=picture.width, height=picture.height)
        is_animated = media_type != "image/jpeg" and getattr(picture, "is_animated", False)
        flat = _convert_to_plain(picture)
        if max(flat.size) > longest:
            flat.thumbnail((longest, longest), Image.Resampling.LANCZOS)
        flat = _turn_upright(flat, picture) if is_rotated else flat
        encoded_bytes, kind = _encode_picture(flat, photo=media_type == "image/jpeg", label=label)
        scale_note = f"scaled down from {before[0]}×{before[1]}" if max(before) > longest else ""
        note = ", ".join(filter(None, (scale_note, "its first frame" if is_animated else "")))
        return FittedPicture(data=encoded_bytes, media_type=kind, width=flat.width, height=flat.height, note=note)


def _open_picture(data: bytes, media_type: str) -> Image.Image:
    from PIL import Image, UnidentifiedImageError

    decoder = _DECODERS.get(media_type)
    if decoder is None:
        raise UnidentifiedImageError
    if plugin := _PLUGINS.get(decoder):
        importlib.import_module(f"PIL.{plugin}ImagePlugin")
    return Image.open(io.BytesIO(data), formats=[decoder])


def _check_size(picture: Image.Image, label: str) -> None:
    width, height = picture.size
    if width < 1 or height < 1:
        raise AttachmentRefused(f"{label} has no pixels.", hint="Attach another file.")
    if width * height > MAX_PIXELS or max(width, height) > MAX_EXTENT:
        raise _build_size_error(label, f" {width:,}×{height:,}")


def _build_size_error(label: str, extent: str) -> AttachmentRefused:
    return AttachmentRefused(
        f"{label} has too many pixels{extent and f' ({extent.strip()})'}: at most {MAX_PIXELS // 1000000} million.",
        hint="Crop it or scale it down first.",
    )


def _turn_upright(plain: Image.Image, source: Image.Image) -> Image.Image:
    from PIL import ImageOps

    plain.getexif()[_ORIENTATION] = source.getexif().get(_ORIENTATION, 1)
    upright = ImageOps.exif_transpose(plain)
    upright.info = {}
    return upright


def _is_clean(picture: Image.Image) -> bool:
    """True for a single picture without location and camera metadata."""
    metadata_keys = _METADATA_KEYS & picture.info.keys()
    return not metadata_keys and not picture.getexif() and not getattr(picture, "is_animated", False)


def _convert_to_plain(picture: Image.Image) -> Image.Image:
    has_alpha = picture.mode in {"RGBA", "LA", "PA", "La", "RGBa"} or "transparency" in picture.info
    mode = "RGBA" if has_alpha else "L" if picture.mode in {"1", "L"} else "RGB"
    if picture.mode.startswith("I;16") or picture.mode in {"I", "F"}:
        low, high = (float(extremum) for extremum in picture.convert("F").getextrema())  # type: ignore[arg-type]
        span = (high - low) or 1.0
        picture = picture.convert("F").point(lambda value: (value - low) * (255.0 / span)).convert("L")
        mode = "L"
    plain = picture.convert(mode)
    plain.info = {}
    plain.getexif().clear()
    return plain


def _encode_picture(picture: Image.Image, *, photo: bool, label: str) -> tuple[bytes, str]:
    """Encode as PNG if that is small enough; photographs and large pictures as JPEG (with transparency as WebP)."""
    if not photo:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        if buffer.tell() <= MAX_BYTES:
            return buffer.getvalue(), "image/png"
    name, kind = ("WEBP", "image/webp") if picture.mode == "RGBA" else ("JPEG", "image/jpeg")
    for quality in _QUALITIES:
        buffer = io.BytesIO()
        picture.save(buffer, name, quality=quality)
        if buffer.tell() <= MAX_BYTES:
            return buffer.getvalue(), kind
    raise AttachmentRefused(f"{label} can't be made small enough to send.", hint="Scale it down first.")


def render_preview(data: bytes, columns: int, rows: int) -> tuple[str, ...]:
    """Render a picture as rows of cells, each two pixels above each other: 12 hex digits a cell, upper pixel first.

    It fits `columns` and `rows` and preserves the aspect ratio. Raises `AttachmentRefused`.
    """
    try:
        return _render_cells(data, min(max(columns, 1), PREVIEW_COLUMNS), min(max(rows, 1), PREVIEW_ROWS))
    except Exception as problem:  # a decoder's errors are of any class
        raise AttachmentRefused("The picture can't be drawn.", hint=str(problem)[:200]) from problem


def _render_cells(data: bytes, columns: int, rows: int) -> tuple[str, ...]:
    from PIL import Image

    with _open_picture(data, detect_media_type(data)) as picture:
        _check_size(picture, "It")
        plain = _convert_to_plain(picture)
    ground = Image.new("RGBA", plain.size, (128, 128, 128, 255))
    preview = Image.alpha_composite(ground, plain.convert("RGBA")).convert("RGB")
    preview.thumbnail((columns, rows * 2), Image.Resampling.BILINEAR)
    width, height = preview.width, preview.height + preview.height % 2
    even = Image.new("RGB", (width, height))
    even.paste(preview, (0, 0))
    pixels = even.tobytes().hex()
    line = width * 6
    return tuple(
        "".join(
            pixels[top + offset : top + offset + 6] + pixels[top + line + offset : top + line + offset + 6]
            for offset in range(0, line, 6)
        )
        for top in range(0, height * line, 2 * line)
    )
