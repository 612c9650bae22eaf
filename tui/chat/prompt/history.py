"""The prompts of this workspace: gone through one by one, searched, and offered behind what is being typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_HISTORY: Final = 1_000
MIN_GHOST: Final = 2  # characters that are typed before an end is offered
MAX_GHOST: Final = 200


class PromptHistory:
    """Prompts, oldest first, and the place in them that is shown; behind the last one is the draft."""

    def __init__(self) -> None:
        self._prompts: list[str] = []
        self._place = 0
        self._draft = ""

    def set(self, prompts: Sequence[str]) -> None:
        """Take over the prompts of earlier sessions; those sent meanwhile stay the newest."""
        known_prompts = set(prompts)
        recent_prompts = [prompt for prompt in self._prompts if prompt not in known_prompts]
        self._prompts = [*prompts, *recent_prompts][-MAX_HISTORY:]
        self._place = len(self._prompts)

    def add(self, text: str) -> None:
        if text and (not self._prompts or self._prompts[-1] != text):
            self._prompts.append(text)
        self._place = len(self._prompts)

    @property
    def is_at_draft(self) -> bool:
        return self._place >= len(self._prompts)

    @property
    def is_at_oldest(self) -> bool:
        return self._place == 0

    def step(self, direction: int, text: str) -> str:
        """Return the prompt before (-1) or after (1) the one that is shown; `text` is kept if it is the draft."""
        if self.is_at_draft:
            self._draft = text
        self._place = min(max(self._place + direction, 0), len(self._prompts))
        return self._draft if self.is_at_draft else self._prompts[self._place]

    def find_ghost(self, text: str) -> str:
        """Return what the newest prompt that begins so goes on with, within its line; "" = none does. An offer of
        several lines can't be seen, so there is none."""
        if len(text) < MIN_GHOST or "\n" in text:
            return ""
        candidate = next(
            (prompt for prompt in reversed(self._prompts) if prompt.startswith(text) and prompt != text), ""
        )
        ghost = candidate[len(text) :]
        return ghost if len(ghost) <= MAX_GHOST and "\n" not in ghost else ""


def take_word(ghost: str) -> str:
    """Return the next word of what is offered, with the blanks before it."""
    end = len(ghost) - len(ghost.lstrip())
    while end < len(ghost) and not ghost[end].isspace():
        end += 1
    return ghost[:end]
