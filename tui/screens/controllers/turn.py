"""The controller of the running turn: stopping it, its jobs, its limits, who decides on commands, and its history."""

from __future__ import annotations

import re
from typing import Final

from core.protocol import commands, queries
from core.protocol.events import LimitsChanged
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.rewind import RewindController
from tui.screens.dialogs.picker import PickerDialog, PickerOption

LIMITS_USAGE: Final = "/limits steps 50, /limits cost 2.50, /limits tokens 200000; 0 or off = no limit"
POLICY_NOTES: Final = {
    "auto": "what a strong box holds runs without asking",
    "confirm": "asks before each command",
    "human": "you type the commands; no model is called but by ?…",
}
_LIMIT_CHANGE: Final = re.compile(r"(steps|cost|tokens)[ =]+\$?([0-9][0-9_,]*(?:\.[0-9]+)?|off|none)", re.IGNORECASE)


class TurnController(Controller):
    """Stops turns and jobs, and sets what bounds a turn."""

    def __init__(self, context: ScreenContext, panes: PaneController, rewind: RewindController) -> None:
        super().__init__(context)
        self._panes, self._rewind = panes, rewind

    async def action_interrupt(self) -> None:
        """Go from a pane back to the prompt; from the prompt: stop the turn; twice with nothing to stop: go back."""
        prompt, state = self.context.prompt, self.context.state
        is_busy = state.is_running or state.is_running_command
        is_idle = prompt.has_focus and not (prompt.text or is_busy)
        if not prompt.has_focus:
            await self._panes.leave_pane()
        elif is_busy:
            self.context.submit_soon(commands.TurnInterrupt())
        self._rewind.note_escape(is_idle=is_idle)

    def action_show_jobs(self, job: str = "") -> None:
        jobs = self.context.state.jobs
        if job == "all" or job in jobs:
            self.context.submit_soon(commands.JobStop(job="" if job == "all" else job))
            return
        self._watch_jobs()

    @in_worker("picker")
    async def _watch_jobs(self) -> None:
        """Show the jobs, with what they write and change, until the user leaves them."""
        jobs = await self._load_jobs()
        if not jobs:
            self.context.notify_user("No command was begun in the background.")
            return
        from tui.screens.dialogs.listings.jobs import JobsDialog

        await self.context.ask(JobsDialog(jobs, self._load_jobs, self._stop_job))

    async def _load_jobs(self) -> tuple[queries.JobInfo, ...]:
        answer = await self.context.query(queries.JobsQuery(), queries.JobsAnswer)
        return answer.jobs if answer is not None else ()

    def _stop_job(self, job: str) -> None:
        if job in self.context.state.jobs:
            self.context.submit_soon(commands.JobStop(job=job))

    def action_reset_shell(self, _: str = "") -> None:
        self.context.submit_soon(commands.ShellReset())

    # The history

    @in_worker("commands", exclusive=False)
    async def action_compact(self, _: str = "") -> None:
        if await self.context.submit(commands.ContextCompact()):
            self.context.notify_user("The history is made shorter,", "unless nothing would be gained by it.")

    # What bounds a turn

    def action_change_limits(self, argument: str = "") -> None:
        if not argument.strip():
            self.context.notify_user(format_limits(self.context.state.limits), f"Change it: {LIMITS_USAGE}.")
            return
        matches = _LIMIT_CHANGE.findall(argument)
        if not matches or _LIMIT_CHANGE.sub("", argument).strip(" ,;"):
            self.context.notify_user("That is no limit.", f"{LIMITS_USAGE}.", is_error=True)
            return
        values = {name.lower(): _parse_number(value) for name, value in matches}
        steps, tokens = (int(values[name]) if name in values else None for name in ("steps", "tokens"))
        self.context.submit_soon(commands.LimitsSet(max_steps=steps, max_cost=values.get("cost"), max_tokens=tokens))

    def action_choose_policy(self, policy: str = "") -> None:
        policy_name = {"yolo": "auto"}.get(policy, policy)
        if policy_name in POLICY_NOTES:
            self._set_policy(policy_name)
        elif policy:
            problem = f"There is no policy {policy!r}."
            self.context.notify_user(problem, f"There are {', '.join(POLICY_NOTES)}.", is_error=True)
        else:
            options = [PickerOption(name, name, note) for name, note in POLICY_NOTES.items()]
            current = self.context.state.policy.policy
            self.context.show(PickerDialog("Who decides on commands", options, current=current), self._set_policy)

    def _set_policy(self, policy: str | None) -> None:
        match policy:
            case "auto" | "confirm" | "human":
                self.context.submit_soon(commands.PolicySet(policy=policy))


def format_limits(limits: LimitsChanged) -> str:
    steps = f"{limits.max_steps:,} steps" if limits.max_steps else "any number of steps"
    cost = f"${limits.max_cost:.2f}" if limits.max_cost else "any cost"
    tokens = f"{limits.max_tokens:,} tokens" if limits.max_tokens else "any number of tokens"
    return f"A turn may use {steps}, {cost}, {tokens}."


def _parse_number(text: str) -> float:
    return 0.0 if text.lower() in {"off", "none"} else float(text.replace(",", "").replace("_", ""))
