"""Events of subagents: sessions of their own, each with its own log and shadow, that work for a turn of this one."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.events.base import Event, TurnEnd
from core.protocol.messages import Usage


class SubagentAction(Struct, frozen=True, kw_only=True):
    """One line about what a subagent did or said; `status` as of a tool call, "said" of words."""

    text: str
    status: Literal["running", "completed", "failed", "denied", "cancelled", "said"] = "said"


class SubagentStarted(Event, frozen=True, kw_only=True, tag="subagent.started"):
    """It began, or went on, to work at a todo of a plan. `id` names it and its log; `title` is the todo's text."""

    id: str
    todo: str
    plan: str = ""
    title: str = ""
    model: str = ""
    again: bool = False


class SubagentProgressed(Event, frozen=True, kw_only=True, tag="subagent.progressed"):
    """Lossy: what it is doing, a few times a second at most. `acts` are the latest ones, `count` how many there were;
    `changed`: files that it has changed; `usage`: since it last began."""

    id: str
    acts: tuple[SubagentAction, ...] = ()
    count: int = 0
    steps: int = 0
    changed: int = 0
    usage: Usage = Usage()


class SubagentFinished(Event, frozen=True, kw_only=True, tag="subagent.finished"):
    """It stopped. What it did is kept with it until it is merged; `message`: why it could not finish, `said`: its last
    words; `usage` and `duration_ms` since it last began."""

    id: str
    reason: TurnEnd
    message: str = ""
    said: str = ""
    acts: tuple[SubagentAction, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    duration_ms: int = 0


class SubagentMerging(Event, frozen=True, kw_only=True, tag="subagent.merging"):
    """From here on until `subagent.merged`, changes come from it; a crash between the two is carried on from."""

    id: str


class SubagentMerged(Event, frozen=True, kw_only=True, tag="subagent.merged"):
    """The changes of a subagent are pending here: `paths`, of which `conflicts` wait for the user; `generated`
    files beside the review, and `notes` on differences. `refused` paths can't be merged now, and are tried
    again later."""

    id: str
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    generated: int = 0
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
