"""Reasoning that a server left in the text: `<think> … </think>` at its beginning. Later in a text they are text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.providers.base import Delta, ReasoningDelta, TextDelta

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkTagSplitter:
    """Tells reasoning from text while a text streams, wherever it was cut. White space between the two is neither."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._thought = False
        self._begun = False  # the text itself: no tag counts from here on

    def feed(self, piece: str) -> Iterator[Delta]:
        if self._begun:
            yield TextDelta(piece)
            return
        self._held += piece
        while self._held and not self._begun:
            if self._inside:
                thought, closed, rest = self._held.partition(_CLOSE)
                kept = 0 if closed else _find_partial_tag(thought, _CLOSE)
                thought, self._held = thought[: len(thought) - kept], rest or thought[len(thought) - kept :]
                if thought:
                    yield ReasoningDelta(thought)
                if not closed:
                    return
                self._inside = False
                continue
            said = self._held.lstrip()
            if said.startswith(_OPEN):
                self._inside = self._thought = True
                self._held = said[len(_OPEN) :]
            elif not said or _OPEN.startswith(said):
                return
            else:
                self._begun = True
                yield from self.flush()

    def flush(self) -> Iterator[Delta]:
        """What was held back, at the end of the text."""
        held = self._held.lstrip() if self._thought and not self._inside else self._held
        self._held = ""
        if held:
            yield ReasoningDelta(held) if self._inside else TextDelta(held)


def _find_partial_tag(text: str, tag: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
