"""What a model can do, as data: what its provider's models endpoint told, else the file `models.toml`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.messages import Wire

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Thinking = Literal["adaptive", "between_tools", "enabled", "disabled"]


class Capabilities(Struct, frozen=True, kw_only=True):
    """What one model takes. `efforts` from the least to the most, () = it has none to choose; `default_effort`: what it
    takes when none is sent, "" = not known. `thinking`: the types of thinking that can be asked for, the best first.

    `sampling`: whether `temperature` may be sent. `freeform_tools`: tools whose input is free text. `context_window`
    and `max_output` in tokens, 0 = not known. `wire`: the protocol it speaks, None = its provider's.
    """

    efforts: tuple[Effort, ...] = ()
    default_effort: Effort | Literal[""] = ""
    thinking: tuple[Thinking, ...] = ()
    sampling: bool = True
    images: bool = True
    pdf: bool = False
    tools: bool = True
    freeform_tools: bool = False
    context_window: int = 0
    max_output: int = 0
    wire: Wire | None = None
