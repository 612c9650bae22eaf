"""The media type of a file by its first bytes; names and the absence of NUL bytes prove nothing."""

from __future__ import annotations

from typing import Final

SNIFF_BYTES: Final = 32  # sufficient for detection
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl"),
    (b"\xff\x0a", "image/jxl"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "image/jp2"),
)
_BRANDS: Final = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"mif1": "image/heic",
    b"msf1": "image/heic",
}
_BMP_HEADERS: Final = frozenset({12, 40, 52, 56, 64, 108, 124})  # valid sizes of a BMP's second header


def detect_media_type(data: bytes) -> str:
    """Detect the media type of a picture or a PDF; "" for anything else. The first `SNIFF_BYTES` suffice."""
    if media_type := next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), ""):
        return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "")
    if data[:2] == b"BM" and len(data) >= 18 and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "image/bmp"
    return ""
