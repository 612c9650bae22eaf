"""What model APIs really answer when they refuse, as reported in public issues and in the SDKs' own tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field


class Answer(Struct, frozen=True, kw_only=True):
    """A refusal as it came, and what is to be made of it. `wait` in seconds, None = it names none; `says`: words that
    have to stand in message or hint."""

    name: str
    status: int
    body: Any
    code: str
    headers: dict[str, str] = field(default_factory=dict)
    retryable: bool = False
    wait: float | None = None
    says: tuple[str, ...] = ()

    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


_LINES = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
ANSWERS: Final = tuple(msgspec.json.decode(line, type=Answer) for line in _LINES)
