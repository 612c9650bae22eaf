"""An object that a stream brings in pieces, put together as it was: also what nobody here knows the meaning of."""

from __future__ import annotations

from typing import Any, Final

# Texts that come whole, each time if need be; every other text comes in pieces.
_WHOLE: Final = frozenset({"role", "type", "id", "name", "format", "signature", "thought_signature", "model", "object"})
# Texts in which two pieces may well be equal; in any other field that is the same text again.
_STREAMED: Final = frozenset({"content", "reasoning_content", "reasoning", "thinking", "text", "summary", "data"})


class MergedPieces:
    """Pieces of one object. Elements of a list that have the same `index` and `type` are pieces of one element."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def add(self, piece: dict[str, Any]) -> None:
        for key, value in piece.items():
            match value:
                case None:
                    continue
                case str():
                    pieces = self._fields.setdefault(key, _Texts())
                    if isinstance(pieces, _Texts):
                        pieces.append(value)
                case dict():
                    nested_pieces = self._fields.setdefault(key, MergedPieces())
                    if isinstance(nested_pieces, MergedPieces):
                        nested_pieces.add(value)
                case list():
                    elements = self._fields.setdefault(key, _Elements())
                    if isinstance(elements, _Elements):
                        elements.add(value)
                case _:
                    self._fields[key] = value

    def build_value(self) -> dict[str, Any]:
        return {key: _build_value(key, value) for key, value in self._fields.items()}


class _Texts(list[str]):
    pass


class _Elements:
    def __init__(self) -> None:
        self._elements: list[Any] = []
        self._places: dict[tuple[object, object], MergedPieces] = {}

    def add(self, elements: list[Any]) -> None:
        for piece in elements:
            if not isinstance(piece, dict):
                self._elements.append(piece)
                continue
            key = (piece.get("index"), str(piece.get("type")))
            if key not in self._places or not isinstance(key[0], int):
                self._places[key] = MergedPieces()
                self._elements.append(self._places[key])
            self._places[key].add(piece)

    def build_value(self) -> list[Any]:
        return [piece.build_value() if isinstance(piece, MergedPieces) else piece for piece in self._elements]


def _build_value(key: str, value: Any) -> Any:
    match value:
        case _Texts():
            if key in _WHOLE:
                return next((text for text in reversed(value) if text), "")
            is_same = key not in _STREAMED and len(set(value)) == 1
            return value[0] if is_same else "".join(value)
        case MergedPieces() | _Elements():
            return value.build_value()
    return value
