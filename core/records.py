"""Conversion of bytes to records and plain data: all JSON and TOML parsing and all type-driven msgspec calls.

msgspec builds the description of a type at its first use, in steps between which other threads run; a thread that uses
the type meanwhile crashes the process (seen with 0.22, in an engine whose first prompt came while models were read). So
one thread at a time builds descriptions, and no type is used before that is done.

Data that is nested too deeply for a parser, or for a later reader of the value, is invalid: foreign texts raise the
same error for that as for a missing bracket, never `RecursionError` or `MemoryError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import msgspec

from core.patterns import compile_lazily

if TYPE_CHECKING:
    import json

T = TypeVar("T")
MAX_DEPTH: Final = 200  # The nesting of lists and objects in plain data.
RECORD_LEVELS: Final = 50  # The nesting of the records around the plain data.
TOO_DEEP: Final = f"it is nested deeper than {MAX_DEPTH} levels"
EXPECTED_ID: Final = "is an id: letters, digits, '.', '_' and '-'"
_NESTING: Final = (dict, list, tuple, msgspec.Struct)
_TYPE_LOCK: Final = RLock()
_prepared_types: set[Any] = set()
_PATTERN: Final = compile_lazily(r"`str` matching regex '[^']*\$\(\?!\\+n\)'")  # Ends as in `core/ids.py`.


@overload
def decode_json(data: bytes | str | msgspec.Raw, kind: type[T]) -> T: ...


@overload
def decode_json(data: bytes | str | msgspec.Raw, kind: Any = Any) -> Any: ...


def decode_json(data: bytes | str | msgspec.Raw, kind: Any = Any) -> Any:
    """Return the content of JSON as a value of a type, or as plain data. Raises `msgspec.DecodeError`."""
    return build_json_decoder(kind).decode(data)


@overload
def convert(data: object, kind: type[T], *, strict: bool = True, from_attributes: bool = False) -> T: ...


@overload
def convert(data: object, kind: Any, *, strict: bool = True, from_attributes: bool = False) -> Any: ...


def convert(data: object, kind: Any, *, strict: bool = True, from_attributes: bool = False) -> Any:
    """Return plain data as a value of a type, see `msgspec.convert`. Raises `msgspec.ValidationError`."""
    _prepare_type(kind)
    try:
        return msgspec.convert(data, kind, strict=strict, from_attributes=from_attributes)
    except RecursionError:
        raise msgspec.ValidationError(TOO_DEEP) from None
    except msgspec.ValidationError as problem:
        raise _rephrase(problem) from None


class RecordDecoder(Generic[T]):
    """A decoder of a format for values of a type. `build` makes msgspec's at the first use: that of the events of a log
    takes 15 ms, and a new session reads none. `max_depth` None: the data is our own and is not measured.
    Foreign text is measured, since the depth at which the parser gives up depends on the version of Python, and may be
    thousands."""

    def __init__(self, kind: Any, build: Callable[[Any], Any], *, max_depth: int | None) -> None:
        self._kind, self._build, self._max_depth = kind, build, max_depth
        self._decode: Callable[[Any], T] | None = None

    def decode(self, data: bytes | str | msgspec.Raw) -> T:
        """Return the value. Raises `msgspec.DecodeError`."""
        if self._decode is None:
            _prepare_type(self._kind)
            self._decode = self._build(self._kind).decode
        try:
            value = self._decode(data)
        except (RecursionError, MemoryError):
            raise msgspec.DecodeError(TOO_DEEP) from None
        except msgspec.ValidationError as problem:
            raise _rephrase(problem) from None
        depth = self._max_depth
        if depth is not None and _has_openings(data, depth) and is_too_deep(value, depth):
            raise msgspec.DecodeError(TOO_DEEP)
        return value


@overload
def build_json_decoder(kind: type[T], *, strict: bool = True) -> RecordDecoder[T]: ...


@overload
def build_json_decoder(kind: Any, *, strict: bool = True) -> RecordDecoder[Any]: ...


def build_json_decoder(kind: Any, *, strict: bool = True) -> RecordDecoder[Any]:
    """Build a decoder of JSON for frequent use. `strict` False: `"5"` and 1 are taken for 5 and true."""
    depth = MAX_DEPTH if kind is Any else MAX_DEPTH + RECORD_LEVELS
    return RecordDecoder(kind, partial(msgspec.json.Decoder, strict=strict), max_depth=depth)


def build_msgpack_decoder(kind: type[T]) -> RecordDecoder[T]:
    """Build a decoder of MessagePack for frequent use."""
    return RecordDecoder(kind, msgspec.msgpack.Decoder, max_depth=None)


def parse_json(text: str | bytes | bytearray, **options: Any) -> Any:
    """Return the content of JSON as `json.loads` does, with its options. Raises ValueError, also for too deep
    nesting."""
    import json

    return _guard(lambda: json.loads(text, **options))


def parse_json_part(decoder: json.JSONDecoder, text: str, start: int = 0) -> tuple[Any, int]:
    """Return the value that begins at an offset of a text, and the offset of its end. Raises ValueError."""
    value: tuple[Any, int] = _guard(lambda: decoder.raw_decode(text, start))
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table in a TOML text. Raises `tomllib.TOMLDecodeError`, a ValueError."""
    import tomllib

    try:
        table = tomllib.loads(text)
    except (RecursionError, MemoryError):
        raise tomllib.TOMLDecodeError(TOO_DEEP) from None
    if is_too_deep(table):
        raise tomllib.TOMLDecodeError(TOO_DEEP)
    return table


def is_too_deep(value: object, depth: int = MAX_DEPTH) -> bool:
    """Return True for lists, objects and records that are nested deeper than `depth`."""
    level = [value] if isinstance(value, _NESTING) else []
    for _ in range(depth):
        if not level:
            return False
        level = [below for above in level for below in _iterate_values(above) if isinstance(below, _NESTING)]
    return bool(level)


def _iterate_values(above: Any) -> Iterable[Any]:
    """Return the direct elements of a list, an object or a record."""
    if isinstance(above, dict):
        return above.values()
    if isinstance(above, msgspec.Struct):
        return (getattr(above, name) for name in above.__struct_fields__)
    values: Iterable[Any] = above
    return values


def _has_openings(data: bytes | str | msgspec.Raw, depth: int) -> bool:
    """Return True if a JSON text has more than `depth` opening brackets; most texts need no further check."""
    if isinstance(data, str):
        return data.count("[") + data.count("{") > depth
    text = bytes(data)
    return text.count(b"[") + text.count(b"{") > depth


def _rephrase(problem: msgspec.ValidationError) -> msgspec.ValidationError:
    """Return an error that names the expected value in words instead of a pattern."""
    return msgspec.ValidationError(_PATTERN.sub(f"`str` that {EXPECTED_ID}", str(problem)))


def _guard(parse: Callable[[], T]) -> T:
    try:
        value = parse()
    except (RecursionError, MemoryError):
        raise ValueError(TOO_DEEP) from None
    if is_too_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def _prepare_type(kind: Any) -> None:
    """Build the descriptions of a type and of all types in it before its first use."""
    if kind not in _prepared_types:
        with _TYPE_LOCK:
            msgspec.json.Decoder(kind)
        _prepared_types.add(kind)


def list_leaves(base: type) -> Iterator[type]:
    """Iterate over the classes below `base` that have no subclasses themselves, in the order of their definition."""
    below: list[type] = base.__subclasses__()
    for subclass in below:
        yield from list_leaves(subclass) if subclass.__subclasses__() else (subclass,)
