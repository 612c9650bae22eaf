"""The limits of a turn, and the policy that decides on commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from core.protocol import commands
from core.protocol.events import LimitsChanged
from tui.screens.dialogs.picker import PickerDialog, PickerOption

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

LIMITS_USAGE: Final = "/limits steps 50, /limits cost 2.50, /limits tokens 200000; 0 or off = no limit"
POLICY_NOTES: Final = {
    "auto": "what a strong box holds runs without asking",
    "confirm": "asks before each command",
    "human": "you type the commands; no model is called but by ?…",
}
_LIMIT_CHANGE: Final = re.compile(r"(steps|cost|tokens)[ =]+\$?([0-9][0-9_,]*(?:\.[0-9]+)?|off|none)", re.IGNORECASE)


def format_limits(limits: LimitsChanged) -> str:
    """Format what one turn may use."""
    steps = f"{limits.max_steps:,} steps" if limits.max_steps else "any number of steps"
    cost = f"${limits.max_cost:.2f}" if limits.max_cost else "any cost"
    tokens = f"{limits.max_tokens:,} tokens" if limits.max_tokens else "any number of tokens"
    return f"A turn may use {steps}, {cost}, {tokens}."


def change_limits(screen: ActingScreen, wanted: str) -> None:
    """Change the limits that are named in `wanted`; without it, show those in force."""
    if not wanted.strip():
        screen.notify_user(format_limits(screen.state.limits), f"Change it: {LIMITS_USAGE}.")
        return
    found = _LIMIT_CHANGE.findall(wanted)
    if not found or _LIMIT_CHANGE.sub("", wanted).strip(" ,;"):
        screen.notify_user("That is no limit.", f"{LIMITS_USAGE}.", is_error=True)
        return
    values = {name.lower(): _parse_number(value) for name, value in found}
    whole = {name: int(values[name]) for name in ("steps", "tokens") if name in values}
    screen.submit_soon(
        commands.LimitsSet(max_steps=whole.get("steps"), max_cost=values.get("cost"), max_tokens=whole.get("tokens"))
    )


def _parse_number(text: str) -> float:
    return 0.0 if text.lower() in {"off", "none"} else float(text.replace(",", "").replace("_", ""))


def choose_policy(screen: ActingScreen, policy: str) -> None:
    """Change to a policy by name, or choose from a list."""
    named = {"yolo": "auto"}.get(policy, policy)
    if named in POLICY_NOTES or not policy:
        if named:
            _set_policy(screen, named)
            return
        choices = [PickerOption(each, each, note) for each, note in POLICY_NOTES.items()]
        picker = PickerDialog("Who decides on commands", choices, current=screen.state.policy.policy)
        _ = screen.app.push_screen(picker, lambda chosen: _set_policy(screen, chosen))
        return
    screen.notify_user(f"There is no policy {policy!r}.", f"There are {', '.join(POLICY_NOTES)}.", is_error=True)


def _set_policy(screen: ActingScreen, policy: str | None) -> None:
    match policy:
        case "auto" | "confirm" | "human":
            screen.submit_soon(commands.PolicySet(policy=policy))
        case _:
            return
