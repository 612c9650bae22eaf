"""Records made from plain data and from bytes: the one door to what msgspec does by a type.

msgspec works out a type at its first use, in steps between which other threads run, and one that uses the type
meanwhile ends the process with a fault (seen with 0.22, in an engine whose first prompt came while models were read).
So one thread at a time works out types, and nothing uses one before.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")

_LEARNING: Final = RLock()
_learnt: set[Any] = set()


@overload
def decode_json(data: bytes | str | msgspec.Raw, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str | msgspec.Raw, kind: Any) -> Any: ...
def decode_json(data: bytes | str | msgspec.Raw, kind: Any) -> Any:
    """Return what JSON holds, as a value of a type. Raises `msgspec.DecodeError`."""
    _learn(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def convert(data: object, kind: type[T], *, strict: bool = True, from_attributes: bool = False) -> T: ...
@overload
def convert(data: object, kind: Any, *, strict: bool = True, from_attributes: bool = False) -> Any: ...
def convert(data: object, kind: Any, *, strict: bool = True, from_attributes: bool = False) -> Any:
    """Return plain data as a value of a type, see `msgspec.convert`. Raises `msgspec.ValidationError`."""
    _learn(kind)
    return msgspec.convert(data, kind, strict=strict, from_attributes=from_attributes)


@overload
def build_json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def build_json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def build_json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Build a decoder of JSON, for what is decoded often."""
    _learn(kind)
    return msgspec.json.Decoder(kind)


def build_msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """Build a decoder of MessagePack, for what is decoded often."""
    _learn(kind)
    return msgspec.msgpack.Decoder(kind)


def _learn(kind: Any) -> None:
    """Have a type worked out, with all that it is made of, before it is used."""
    if kind not in _learnt:
        with _LEARNING:
            msgspec.json.Decoder(kind)
        _learnt.add(kind)
