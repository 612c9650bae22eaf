"""What bounds a turn: seeing and changing its limits, and who decides on commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from core.protocol import commands
from core.protocol.events import LimitsChanged
from tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

USAGE: Final = "/limits steps 50, /limits cost 2.50, /limits tokens 200000; 0 or off = no limit"
POLICIES: Final = {
    "auto": "what a strong box holds runs without asking",
    "confirm": "asks before each command",
    "human": "you type the commands; no model is called but by ?…",
}
_CHANGE: Final = re.compile(r"(steps|cost|tokens)[ =]+\$?([0-9][0-9_,]*(?:\.[0-9]+)?|off|none)", re.IGNORECASE)


def told_limits(limits: LimitsChanged) -> str:
    """What one turn may use, in words."""
    steps = f"{limits.max_steps:,} steps" if limits.max_steps else "any number of steps"
    cost = f"${limits.max_cost:.2f}" if limits.max_cost else "any cost"
    tokens = f"{limits.max_tokens:,} tokens" if limits.max_tokens else "any number of tokens"
    return f"A turn may use {steps}, {cost}, {tokens}."


def change_limits(screen: ActingScreen, wanted: str) -> None:
    """Change what is named in `wanted`; without it, say what holds."""
    if not wanted.strip():
        screen.say(told_limits(screen.state.limits), f"Change it: {USAGE}.")
        return
    found = _CHANGE.findall(wanted)
    if not found or _CHANGE.sub("", wanted).strip(" ,;"):
        screen.say("That is no limit.", f"{USAGE}.", is_error=True)
        return
    values = {name.lower(): _number(value) for name, value in found}
    whole = {name: int(values[name]) for name in ("steps", "tokens") if name in values}
    screen.send(
        commands.LimitsSet(max_steps=whole.get("steps"), max_cost=values.get("cost"), max_tokens=whole.get("tokens"))
    )


def _number(text: str) -> float:
    return 0.0 if text.lower() in {"off", "none"} else float(text.replace(",", "").replace("_", ""))


def choose_policy(screen: ActingScreen, policy: str) -> None:
    """Change to a policy by name, or choose from a list."""
    named = {"yolo": "auto"}.get(policy, policy)
    if named in POLICIES or not policy:
        if named:
            _send(screen, named)
            return
        choices = [Choice(each, each, note) for each, note in POLICIES.items()]
        picker = Picker("Who decides on commands", choices, current=screen.state.policy.policy)
        _ = screen.app.push_screen(picker, lambda chosen: _send(screen, chosen))
        return
    screen.say(f"There is no policy {policy!r}.", f"There are {', '.join(POLICIES)}.", is_error=True)


def _send(screen: ActingScreen, policy: str | None) -> None:
    match policy:
        case "auto" | "confirm" | "human":
            screen.send(commands.PolicySet(policy=policy))
        case _:
            return
