"""One scripted answer: what it says, and how it goes wrong. The same script can be played on every wire."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Place = Literal["", "before", "text", "tool"]
DEFAULT_USAGE: Final = {"prompt": 100, "completion": 20}


@dataclass(frozen=True, kw_only=True)
class Call:
    """`arguments`: a mapping, or the raw text for arguments that are not valid JSON. `id`: "" = a generated one, None =
    the call comes without. `freeform`: the argument that is the free text of a custom call, where the wire has such.
    `is_search`: it is the API's own call of a search of tools (responses only). `extra`: fields of the call that no
    type names (chat completions only).
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = ""
    freeform: str = ""
    is_search: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    def free_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else str(self.arguments[self.freeform])


@dataclass(frozen=True, kw_only=True)
class Think:
    """Reasoning. `redacted`: only an opaque form of it is given. `raw`: not a summary (responses only)."""

    text: str = ""
    redacted: bool = False
    raw: bool = False


@dataclass(frozen=True, kw_only=True)
class Say:
    """Text. `phase`: commentary or final_answer (responses only). `refusal`: it is a refusal, not an answer."""

    text: str
    phase: str = ""
    refusal: bool = False


Part = Think | Say | Call


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one request is answered with.

    `parts`: the answer's parts in order; without them they are made of `reasoning`, `redacted`, `text` (`phase`,
    `refusal`) and `calls`. `signature`: of the reasoning, "" = one by the server's rules. `usage`: prompt,
    completion, cached, cache_write, reasoning; None = the server counts, {} = none is told. `finish`: the wire's
    own reason, or `length`, `refused`, `context_full`, `paused`, `failed` (responses: with `error`). `piece`:
    characters in a delta. `chunks`: these JSON objects instead of generated ones; `raw`: this text as the whole
    stream; `flood`: this for ever after; `removed`: the `input_transformations` that are told. `cut` drops the
    connection, `hang` stops sending, `hold` does so until the server is released, and `error_at` sends the error as
    an event: before any event, in the text, or in the arguments of the first call. `write_size`: bytes in one write,
    0 = an event a write. `rate`: deltas per second, 0 = as fast as it goes. `status` other than 200 is answered with
    `error`, or with `body` as it stands; `echo_key` puts the key of the request into the error.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = ""
    redacted: str = ""
    phase: str = ""
    refusal: str = ""
    calls: Sequence[Call] = ()
    parts: Sequence[Part] = ()
    usage: Mapping[str, int] | None = None
    finish: str = ""
    piece: int = 12
    chunks: Sequence[Any] = ()
    raw: str = ""
    flood: str = ""
    removed: Sequence[Mapping[str, Any]] | None = None
    cut: Place = ""
    hang: Place = ""
    hold: Place = ""
    error_at: Place = ""
    write_size: int = 0
    rate: float = 0
    newline: str = "\n"
    comments: bool = False
    done_mark: bool = True
    status: int = 200
    error: str = "it failed"
    error_type: str = ""
    body: str = ""
    echo_key: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    def in_order(self) -> list[Part]:
        if self.parts:
            return list(self.parts)
        thoughts: list[Part] = [Think(text=self.reasoning)] if self.reasoning else []
        thoughts += [Think(text=self.redacted, redacted=True)] if self.redacted else []
        texts = [Say(text=self.text, phase=self.phase)] if self.text else []
        texts += [Say(text=self.refusal, refusal=True)] if self.refusal else []
        return [*thoughts, *texts, *self.calls]

    def has_calls(self) -> bool:
        return any(isinstance(part, Call) for part in self.in_order())


def step_from(value: Step | str | Mapping[str, Any]) -> Step:
    """A step from a step, a text, or the fields of one (`calls` as mappings)."""
    if isinstance(value, Step):
        return value
    if isinstance(value, str):
        return Step(text=value)
    fields = dict(value)
    fields["calls"] = [call if isinstance(call, Call) else Call(**call) for call in fields.get("calls", ())]
    return Step(**fields)


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
