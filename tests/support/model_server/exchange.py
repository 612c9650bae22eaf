"""What an answer depends on beside its script: the request, its number, what the server counted and signs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.model_server.step import DEFAULT_USAGE, Call, Place

Item = dict[str, Any]
Event = tuple[Place, str, Any]
UNSIGNED: Final = "c2lnbmF0dXJl"


def unsigned(before: Sequence[Item], text: str) -> str:
    return UNSIGNED


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """`seal`: the signature of reasoning, from the items of the answer before it and its text. `number`: of the answer,
    from 1; in `unique` answers it is part of the ids of calls. `shows_thinking`: else only its signature is told.
    `diagnostics`: what the server says about its cache; `settings`: fields of the request that it tells as it used
    them.
    """

    model: str = "tiny-1"
    number: int = 1
    usage: Mapping[str, int] = field(default_factory=lambda: DEFAULT_USAGE)
    seal: Callable[[Sequence[Item], str], str] = unsigned
    unique: bool = False
    shows_thinking: bool = True
    diagnostics: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def call_id(self, call: Call, prefix: str, index: int) -> str:
        """Empty if the call is to come without one."""
        default_id = f"{prefix}_{self.number}_{index}" if self.unique else f"{prefix}_{index}"
        return "" if call.id is None else call.id or default_id
