"""The format of one record: `{"crc":"<8 hex>","e":<envelope>}` and a line feed; the sum is CRC-32 of the envelope.

The sum covers the bytes of the envelope as they were written, so a check never depends on the formatting of JSON.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from core.errors import StateError
from core.protocol.events import Envelope
from core.records import build_json_decoder

SCHEMA_VERSION: Final = 1
_HEAD: Final = b'{"crc":"'
_MIDDLE: Final = b'","e":'
_SUM_END: Final = len(_HEAD) + 8
_START: Final = _SUM_END + len(_MIDDLE)

_encoder = msgspec.json.Encoder()
_decoder = build_json_decoder(Envelope)


class _Version(msgspec.Struct):
    v: int = 1


_versions = build_json_decoder(_Version)


def encode_record(envelope: Envelope, *, old: bytes = b"", new: bytes = b"") -> bytes:
    """Encode one record, with its line feed; `new` replaces an id `old`, whose bytes must not occur otherwise."""
    raw = _encoder.encode(envelope)
    raw = raw.replace(old, new) if old else raw
    return b'{"crc":"%08x","e":%s}\n' % (zlib.crc32(raw), raw)


def decode_record(line: bytes) -> Envelope | None:
    """Decode one record (without its line feed); None if it is damaged. Raises `StateError` (code `state_newer`) for a
    whole record of a newer version of the program."""
    if not line.startswith(_HEAD) or line[_SUM_END:_START] != _MIDDLE or not line.endswith(b"}"):
        return None
    raw = line[_START:-1]
    if b"%08x" % zlib.crc32(raw) != line[len(_HEAD) : _SUM_END]:
        return None
    try:
        envelope = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        _refuse_newer(_read_version(raw))
        return None
    if envelope.v > SCHEMA_VERSION:
        _refuse_newer(envelope.v)
    return envelope


def _read_version(raw: bytes) -> int:
    try:
        return _versions.decode(raw).v
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def _refuse_newer(version: int) -> None:
    if version > SCHEMA_VERSION:
        raise StateError(
            f"this session was written by a newer agent-tui (format {version}, this one reads {SCHEMA_VERSION}).",
            hint="Update agent-tui to open it. The session was left as it is.",
            code="state_newer",
        )
