"""The cache of prompts as the services keep it: what a request shares with an earlier one of its model and effort."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.model_server.prompt import parts_of

CHARACTERS_OF_A_TOKEN: Final = 4
MARK: Final = '"cache_control": {'


@dataclass(frozen=True)
class Asked:
    """A request that was answered: its model and its prompt."""

    model: str
    parts: Mapping[str, str]

    @property
    def text(self) -> str:
        return "\n".join(self.parts.values())


@dataclass
class PromptCache:
    """Counts are in tokens, four characters each."""

    _kept: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _asked: dict[str, Asked] = field(default_factory=dict)

    def count(self, body: Mapping[str, Any], *, explicit: bool, answer: str) -> tuple[dict[str, int], Asked]:
        """Tokens of the prompt, those of it read from the cache and written to it. `explicit`: only what is marked is
        cached. `answer`: the id under which the request can be asked for.
        """
        asked = Asked(str(body.get("model")), parts_of(body))
        self._asked[answer] = asked
        text = asked.text
        prompt = len(text) // CHARACTERS_OF_A_TOKEN
        if explicit and MARK not in json.dumps(body):
            return {"prompt": prompt}, asked
        known_texts = self._kept.setdefault((asked.model, effort_of(body)), [])
        cached = max((shared(text, known_text) for known_text in known_texts), default=0) // CHARACTERS_OF_A_TOKEN
        known_texts[:] = [known_text for known_text in known_texts if not text.startswith(known_text)] + [text]
        return {"prompt": prompt, "cached": cached, "cache_write": prompt - cached}, asked

    def miss(self, asked: Asked, earlier: str) -> dict[str, Any] | None:
        """Why a request could not be read from the cache of an earlier one; None: it could."""
        before = self._asked.get(earlier)
        if before is None:
            return {"type": "previous_message_not_found"}
        if before.model != asked.model:
            return self._changed("model", asked, 0)
        done = 0
        for name, text in before.parts.items():
            same = shared(text, asked.parts[name])
            if same < len(text):
                return self._changed(name, asked, done + same)
            done += same
        return None

    @staticmethod
    def _changed(name: str, asked: Asked, same: int) -> dict[str, Any]:
        missed = (len(asked.text) - same) // CHARACTERS_OF_A_TOKEN
        return {"type": f"{name}_changed", "cache_missed_input_tokens": missed}


def effort_of(body: Mapping[str, Any]) -> str:
    config = body.get("output_config") or body.get("reasoning") or {}
    return str(config.get("effort") or body.get("reasoning_effort") or "")


def shared(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low
