"""The controllers of work: interrupting turns, limits and the command policy; background commands and their ports;
queued messages; rewinding; subagents."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from textual import on
from textual.content import Content

from core.patterns import compile_lazily
from core.protocol import commands, queries
from core.protocol.events import LimitsChanged, OpenPort
from core.text.counting import count
from tui.dialogs.best import BestDialog
from tui.dialogs.listings.agents import AgentsDialog, SubagentDialog
from tui.dialogs.listings.listing import ListingDialog
from tui.dialogs.pages import ConfirmDialog
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.keymap import get_bindings
from tui.roster import AgentList
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.prompt import PromptController
from tui.text import fit_line

OPEN_SECONDS: Final = 5.0  # until a port is forwarded
OPEN_NOTE: Final = "Every program on this machine reaches it then, as if the server ran here. Nothing else is opened."
TWICE_SECONDS: Final = 1.0  # between two strokes of escape that belong together
NEXT: Final = "enter previews what would change"
_NEVER: Final = float("-inf")
LIMITS_USAGE: Final = "/limits steps 50, /limits cost 2.50, /limits tokens 200000; 0 or off = no limit"
POLICY_NOTES: Final = {
    "auto": "fully sandboxed commands run without asking",
    "confirm": "asks before every command",
    "human": "you type commands; only ?… calls the model",
}
_LIMIT_CHANGE: Final = compile_lazily(
    r"(steps|cost|tokens)[ =]+\$?([0-9][0-9_,]*(?:\.[0-9]+)?|off|none)", re.IGNORECASE
)
STOP_SECONDS: Final = 20.0  # seconds for a turn to end before a message starts the next one
QueueAction = Literal["edit", "send", "cancel"]
_KEYS: Final = (
    ("queue.edit", "edit"),
    ("queue.send", "send now"),
    ("queue.cancel", "cancel"),
    ("queue.leave", "back"),
)
_TOLD: Final = 300


class RewindController(Controller):
    """Rewinds to an earlier prompt. Escape twice in an empty prompt, while idle, is `/rewind`."""

    clock = staticmethod(time.monotonic)

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._escaped_at = _NEVER

    def note_escape(self, *, is_idle: bool) -> None:
        """Note an escape; `is_idle`: in an empty prompt, with nothing to stop."""
        now = self.clock()
        if is_idle and now - self._escaped_at <= TWICE_SECONDS:
            self._escaped_at = _NEVER
            self.action_rewind()
        else:
            self._escaped_at = now if is_idle else _NEVER

    @in_worker("picker")
    async def action_rewind(self, _: str = "") -> None:
        from tui.dialogs.rewind import build_options

        problem = "Couldn't list the checkpoints."
        answer = await self.context.query(queries.CheckpointsQuery(), queries.CheckpointsAnswer, problem)
        if answer is None:
            return
        if not answer.checkpoints:
            self.context.notify_user("Nothing to rewind to yet.", "Every prompt creates a checkpoint.")
            return
        options = build_options(answer.checkpoints, time.time_ns() // 1_000_000)
        choice = await self.context.ask(PickerDialog("Rewind to before…", options, explanation=NEXT))
        info = next((checkpoint for checkpoint in answer.checkpoints if checkpoint.id == choice), None)
        if info is not None:
            await self._preview_restore(info)

    async def _preview_restore(self, info: queries.CheckpointInfo) -> None:
        from tui.dialogs.rewind import RewindDialog

        question = queries.CheckpointPreviewQuery(id=info.id)
        problem = "Couldn't load the checkpoint."
        answer = await self.context.query(question, queries.CheckpointPreviewAnswer, problem)
        if answer is None:
            return
        scope, prompt = await self.context.ask(RewindDialog(answer)), self.context.prompt
        if scope and await self.context.submit(commands.CheckpointRestore(id=info.id, what=scope)) and scope != "files":
            if not prompt.text:  # else something else is written there
                prompt.set_text(info.prompt)
            prompt.focus()


class TurnController(Controller):
    """Stops turns, and sets their limits."""

    def __init__(self, context: ScreenContext, panes: PaneController, rewind: RewindController) -> None:
        super().__init__(context)
        self._panes, self._rewind = panes, rewind

    async def action_interrupt(self) -> None:
        """Return from a pane to the prompt; in the prompt: stop the turn; twice while idle: rewind."""
        prompt, state = self.context.prompt, self.context.state
        is_busy = state.is_running or state.is_running_command
        is_idle = prompt.has_focus and not (prompt.text or is_busy)
        if not prompt.has_focus:
            await self._panes.leave_pane()
        elif is_busy:
            self.context.submit_soon(commands.TurnInterrupt())
        self._rewind.note_escape(is_idle=is_idle)

    def action_reset_shell(self, _: str = "") -> None:
        self.context.submit_soon(commands.ShellReset())

    # The history

    @in_worker("commands", exclusive=False)
    async def action_compact(self, _: str = "") -> None:
        if await self.context.submit(commands.ContextCompact()):
            self.context.notify_user("Compacting the history…")

    # Limits and policy

    def action_change_limits(self, argument: str = "") -> None:
        if not argument.strip():
            self.context.notify_user(format_limits(self.context.state.limits), f"Change it: {LIMITS_USAGE}.")
            return
        matches = _LIMIT_CHANGE.findall(argument)
        if not matches or _LIMIT_CHANGE.sub("", argument).strip(" ,;"):
            self.context.notify_user("Not a limit.", f"{LIMITS_USAGE}.", is_error=True)
            return
        values = {name.lower(): _parse_number(value) for name, value in matches}
        steps, tokens = (int(values[name]) if name in values else None for name in ("steps", "tokens"))
        self.context.submit_soon(commands.LimitsSet(max_steps=steps, max_cost=values.get("cost"), max_tokens=tokens))

    def action_choose_policy(self, policy: str = "") -> None:
        policy_name = {"yolo": "auto"}.get(policy, policy)
        if policy_name in POLICY_NOTES:
            self._set_policy(policy_name)
        elif policy:
            problem = f"No policy {policy!r}."
            self.context.notify_user(problem, f"Choose from {', '.join(POLICY_NOTES)}.", is_error=True)
        else:
            options = [PickerOption(name, name, note) for name, note in POLICY_NOTES.items()]
            current = self.context.state.policy.policy
            self.context.show(PickerDialog("Who approves commands", options, current=current), self._set_policy)

    def _set_policy(self, policy: str | None) -> None:
        match policy:
            case "auto" | "confirm" | "human":
                self.context.submit_soon(commands.PolicySet(policy=policy))


def format_limits(limits: LimitsChanged) -> str:
    steps = f"{limits.max_steps:,} steps" if limits.max_steps else "any number of steps"
    cost = f"${limits.max_cost:.2f}" if limits.max_cost else "any cost"
    tokens = f"{limits.max_tokens:,} tokens" if limits.max_tokens else "any number of tokens"
    return f"Limits of a turn: {steps}, {cost}, {tokens}."


def _parse_number(text: str) -> float:
    return 0.0 if text.lower() in {"off", "none"} else float(text.replace(",", "").replace("_", ""))


class QueueChoice(NamedTuple):
    """The user's choice for a message, by its id."""

    action: QueueAction
    message: str


class QueueDialog(ListingDialog[QueueChoice]):
    """Shows `waiting` messages by their ids, the oldest first; answers with a choice, None = nothing changes."""

    BINDINGS = get_bindings("queue")

    def __init__(self, waiting: Mapping[str, str]) -> None:
        super().__init__("Queued messages")
        self._ids, self._texts = list(waiting), list(waiting.values())

    def set_up(self) -> None:
        self.show_keys(_KEYS)
        rows = [Content(fit_line(text, _TOLD)) for text in self._texts]
        self.show_rows(f"{count('message', len(rows))}, sent at the model's next step", rows, ())

    def show_reason(self) -> None:
        index = self.marked
        if index is not None and index < len(self._texts):
            lines = self._texts[index].count("\n")
            self.show_note(f"and {count('more line', lines)}" if lines else "")

    def action_choose(self, action: QueueAction) -> None:
        if self.marked is not None:
            self.answer(QueueChoice(action, self._ids[self.marked]))


class ProcessController(Controller):
    """Shows background commands and ports, and opens ports in the user's browser."""

    def action_show_jobs(self, job: str = "") -> None:
        jobs = self.context.state.jobs
        if job == "all" or job in jobs:
            self.context.submit_soon(commands.JobStop(job="" if job == "all" else job))
            return
        self._watch_jobs()

    @in_worker("picker")
    async def _watch_jobs(self) -> None:
        """Show the jobs with their output and changes until the user leaves."""
        jobs = await self._load_jobs()
        if not jobs:
            self.context.notify_user("No background commands.")
            return
        from tui.dialogs.listings.jobs import JobActions, JobsDialog

        actions = JobActions(
            stop=self._stop_job, take=self._take_in, restart=self._restart_job, follow=self._restart_after_edits
        )
        await self.context.ask(JobsDialog(jobs, self._load_jobs, actions))
        self.context.state.job_ends.clear()  # they were seen
        self.context.bridge.batches.add(frozenset({"status"}))

    async def _load_jobs(self) -> tuple[queries.JobInfo, ...]:
        answer = await self.context.query(queries.JobsQuery(), queries.JobsAnswer)
        return answer.jobs if answer is not None else ()

    def _stop_job(self, job: queries.JobInfo) -> None:
        if job.id in self.context.state.jobs:
            self.context.submit_soon(commands.JobStop(job=job.id))

    def _take_in(self, job: queries.JobInfo) -> None:
        self.context.submit_soon(commands.JobAbsorb(job=job.id))

    def _restart_job(self, job: queries.JobInfo) -> None:
        self.context.submit_soon(commands.JobRestart(job=job.id))

    def _restart_after_edits(self, job: queries.JobInfo) -> None:
        self.context.submit_soon(commands.JobRestart(job=job.id, when="never" if job.restarts_on_edit else "edited"))

    # Ports

    def action_show_ports(self, argument: str = "") -> None:
        """Show the ports, or open the one that was named."""
        if argument.strip().isdigit():
            self._open_port(int(argument))
            return
        from tui.dialogs.listings.ports import PortsDialog

        self.context.show(PortsDialog(self._list_ports, self._open_port, self._close_port))

    def _list_ports(self) -> tuple[OpenPort, ...]:
        return self.context.state.ports

    def _find_address(self, port: int) -> str:
        return next((open_port.address for open_port in self._list_ports() if open_port.port == port), "")

    def _close_port(self, port: int) -> None:
        self.context.submit_soon(commands.PortClose(port=port))

    @in_worker("ports", exclusive=False)
    async def _open_port(self, port: int) -> None:
        """Open a port in the user's browser; the first time after a yes."""
        if not self._find_address(port):
            question = f"Forward port {port} of the sandbox to this machine?"
            if not await self.context.ask(ConfirmDialog(question, "forward and open", explanation=OPEN_NOTE)):
                return
            if not await self.context.submit(commands.PortOpen(port=port)):
                return
        await self.context.wait_until(lambda: self._find_address(port), seconds=OPEN_SECONDS)
        address = self._find_address(port)
        app = self.context.screen.app
        if address and can_show_pages(is_web=app.is_web):
            app.open_url(address)
        elif address:
            self.context.notify_user(f"Open {address}", explain_address(address))


def can_show_pages(*, is_web: bool) -> bool:
    """True if the user looks at this machine, with a browser. `is_web`: the screen is shown in one."""
    has_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return is_web or bool(has_display and not is_remote())


def is_remote() -> bool:
    """True if the user sits at another machine."""
    return bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))


def explain_address(address: str) -> str:
    """Explain how a user at another machine reaches an address of this one; "" = there is nothing to explain."""
    port = address.rpartition(":")[2]
    return f"From your own machine: ssh -L {port}:localhost:{port} HOST" if is_remote() else ""


class QueueController(Controller):
    """Lists the messages that wait for the next step of the turn, and acts on one of them."""

    @in_worker("picker")
    async def action_show_queue(self, _: str = "") -> None:
        while waiting := dict(self.context.state.pending_steers):
            choice = await self.context.ask(QueueDialog(waiting))
            if choice is None:
                return
            action, message = choice
            if message not in self.context.state.pending_steers:
                self.context.notify_user("The model has already received this message.", is_error=True)
                return
            if action == "edit":
                await self.context.submit(commands.TurnUnsteer(ids=(message,)))
                self.context.focus_prompt()
                return
            await self._take_out(message)
            if action == "send":
                await self._send(waiting[message])
                return
        self.context.notify_user("No queued messages.")

    async def _take_out(self, message: str) -> None:
        """Remove a message from the queue for good: it does not return to the prompt."""
        self.context.state.steering.dropped.add(message)
        if await self.context.submit(commands.TurnUnsteer(ids=(message,))):
            state = self.context.state
            await self.context.wait_until(lambda: message not in state.pending_steers, seconds=STOP_SECONDS)
        else:
            self.context.state.steering.dropped.discard(message)

    async def _send(self, text: str) -> None:
        """Stop the turn and start one with this text; a rejected one returns to the prompt."""
        if self.context.state.is_running:
            await self.context.submit(commands.TurnInterrupt())
            await self.context.wait_until(lambda: not self.context.state.is_running, seconds=STOP_SECONDS)
        if not await self.context.submit(commands.TurnSubmit(text=text)):
            self.context.prompt.restore_text(text)


class AgentController(Controller):
    """Opens and stops subagents, and adds the name of a kind to the prompt."""

    # A subagent is a child session, so an interrupt with its session id stops it.

    def __init__(self, context: ScreenContext, panes: PaneController, prompt: PromptController) -> None:
        super().__init__(context)
        self._panes, self._prompt = panes, prompt

    @in_worker("picker")
    async def action_show_kinds(self, _: str = "") -> None:
        """Show the kinds of subagents; the chosen one is added to the prompt, or its file is opened."""
        answer = await self.context.query(queries.AgentsQuery(), queries.AgentsAnswer)
        if answer is None:
            return
        match await self.context.ask(AgentsDialog(answer)):
            case ("mention", name):
                self._panes.uncover_prompt()
                self.context.focus_prompt()
                self.context.prompt.insert(f"@agent-{name} ")
            case (_, path):
                await self._panes.preview_file(path)

    @in_worker("picker")
    async def action_try_several(self, text: str = "") -> None:
        """Try a prompt with several candidates; without words, compare those of the last one."""
        if text:
            await self._run_best(text)
            return
        answer = await self.context.query(queries.CandidatesQuery(), queries.CandidatesAnswer)
        if answer is None or not answer.candidates:
            self.context.notify_user("Nothing to compare yet.", "/best 3 PROMPT runs a prompt three times.")
            return
        if picks := await self.context.ask(BestDialog(answer)):
            await self.context.submit(commands.BestTake(picks=picks))

    async def _run_best(self, text: str) -> None:
        """Run the task of `/best`; a rejected one returns to the prompt."""
        command_line = f"/best {text}"
        self.context.prompt.past.add(command_line)
        first, *rest = text.split(maxsplit=1)
        models = commands.parse_candidates(first)
        if not rest or not models:
            self.context.notify_user("Usage: /best 3 PROMPT, or /best provider/one,provider/two PROMPT", is_error=True)
            self._prompt.return_text(command_line)
            return
        self._panes.uncover_prompt()
        if not await self.context.submit(commands.BestRun(text=rest[0].strip(), models=models)):
            self._prompt.return_text(command_line)

    @on(AgentList.Opened)
    def _open(self, event: AgentList.Opened) -> None:
        self._show_conversation(event.id)

    @on(AgentList.Stopped)
    def _stop_marked(self, event: AgentList.Stopped) -> None:
        self._stop(event.id)

    def _stop(self, name: str) -> None:
        """Stop a subagent, unless it has ended meanwhile."""
        if name in self.context.state.transcript.find_running_subagents():
            self.context.submit_soon(commands.TurnInterrupt(session=name))

    @in_worker("agents")
    async def _show_conversation(self, name: str) -> None:
        """Show a subagent's conversation, and stop it at the user's request."""
        subagent, block = self.context.state.subagents.get(name), self.context.state.transcript.subagents.get(name)
        if subagent is None or block is None:  # its turn was taken back meanwhile
            self.context.notify_user("That subagent is gone.")
            return
        title = " · ".join(filter(None, (subagent.agent or subagent.todo, subagent.title, subagent.model)))
        dialog = SubagentDialog(name, title, self.context.bridge.follow, is_working=block.is_running)
        if stopped_name := await self.context.ask(dialog):
            self._stop(stopped_name)
