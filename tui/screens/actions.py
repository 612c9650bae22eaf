"""What the user can do on the main screen: one method a command, each a message to the engine or to a pane."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from textual.screen import Screen

from core.protocol import commands, queries
from core.protocol.events import ModeName
from tui.bridge import Bridge
from tui.editor import command_of, scratch_place, without_keys
from tui.screens.sighted import SightedScreen
from tui.state import ViewState
from tui.text import one_line
from tui.widgets.prompt import Prompt
from tui.widgets.transcript import Transcript
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.panes import Panes

LEAVE_WITHIN: Final = 2.0  # seconds between two presses of the key
MODES: Final[tuple[ModeName, ...]] = get_args(ModeName)
PERFORMERS: Final = {
    "prompt": "#prompt",
    "transcript": "#transcript",
    "review": "ReviewPane",
    "changes": "ReviewList",
    "plan": "PlanPanel",
    "debug": "DebugBoard",
    "files": "FileTree",
    "approval": "#approval",
    "question": "#question",
}
MODE_NOTES: Final = {
    "agent": "edits wait for your review, commands ask",
    "plan": "makes a plan, changes nothing",
    "ask": "answers, changes nothing",
    "debug": "finds the cause by evidence",
}


class ActingScreen(SightedScreen):
    """The commands of the main screen. What is shown is the business of its heir."""

    bridge: Bridge
    _wanted_to_leave = float("-inf")

    @property
    def state(self) -> ViewState:
        """What the bridge has folded."""
        return self.bridge.state

    @property
    @abstractmethod
    def panes(self) -> Panes:
        """Files and side panes."""

    @property
    @abstractmethod
    def mode(self) -> ModeName:
        """The mode in force, or the one wished for until a session is open."""

    @abstractmethod
    async def judge(self, verdict: commands.HunkResolve) -> None:
        """Send a verdict, after what has to be asked about it."""

    def say(self, message: str, hint: str = "", *, is_error: bool = False) -> None:
        """A toast. Foreign text is welcome."""
        text = one_line(f"{message} {hint}".strip(), 400)
        if not self.has_class("-tall"):  # there is room for one
            self.app.clear_notifications()
        self.app.notify(text, severity="error" if is_error else "information", markup=False, timeout=6)

    async def deliver(self, command: commands.AnyCommand) -> bool:
        """Submit; a refusal becomes a toast. True when it was taken."""
        reply = await self.bridge.submit(command)
        if isinstance(reply, commands.Reject):
            self.say(reply.message, reply.hint, is_error=True)
        return isinstance(reply, commands.Ack)

    def send(self, command: commands.AnyCommand) -> None:
        """`deliver` without waiting, for message handlers."""
        begin(self, self.deliver, command, group="commands")

    async def perform(self, scope: str, action: str) -> None:
        """Do what a key of another place would do there; a pane comes up for it."""
        if scope == "app":
            await self.run_action(action)
            return
        if scope in {"review", "changes", "plan", "debug", "files"}:
            await self.panes.bring("review" if scope == "changes" else scope)
        place = next((each for each in self.query(PERFORMERS[scope]) if each.display), None)
        if place is None:
            self.say("There is nothing to do that with now.")
            return
        place.focus()
        await place.run_action(action)

    # Modes and models.

    def action_next_mode(self) -> None:
        """The next mode in turn."""
        self.send(commands.ModeSet(mode=MODES[(MODES.index(self.mode) + 1) % len(MODES)]))

    def action_mode_menu(self) -> None:
        """The modes in a list."""
        self.action_choose_mode("")

    def action_choose_mode(self, mode: str) -> None:
        """Switch to a mode by name, or choose from a list."""
        if mode in MODES:
            self.send(commands.ModeSet(mode=mode))
            return
        from tui.screens.picker import Choice, Picker

        choices = [Choice(each, each.capitalize(), MODE_NOTES[each]) for each in MODES]
        _ = self.app.push_screen(Picker("Mode", choices, current=self.mode), self._mode_chosen)

    def _mode_chosen(self, mode: str | None) -> None:
        if mode in MODES:
            self.send(commands.ModeSet(mode=mode))

    def action_choose_model(self, model: str) -> None:
        """Switch to a model by name, or choose from a list."""
        if model:
            self.send(commands.ModelSet(model=model))
        else:
            from tui.screens.models import change_model

            begin(self, change_model, self, group="picker", exclusive=True)

    def action_choose_effort(self, level: str = "") -> None:
        """Set how much the model thinks, or choose it from a list."""
        from tui.screens.routes import change_effort

        begin(self, change_effort, self, level, group="picker", exclusive=True)

    def action_show_models(self, _: str = "") -> None:
        """Who does what, and what it has cost."""
        from tui.screens.routes import show_routes

        begin(self, show_routes, self, group="picker", exclusive=True)

    def action_change_limits(self, wanted: str = "") -> None:
        """See or change what a turn may use."""
        from tui.screens.bounds import change_limits

        change_limits(self, wanted)

    def action_choose_policy(self, policy: str = "") -> None:
        """Say who decides on commands, by name or from a list."""
        from tui.screens.bounds import choose_policy

        choose_policy(self, policy)

    def action_paste_key(self, provider: str = "") -> None:
        """Take a key for a model API, by its name or from a list."""
        from tui.screens.login import login

        begin(self, login, self, provider, group="picker", exclusive=True)

    # The turn.

    async def action_interrupt(self) -> None:
        """From a pane back to the prompt; from the prompt: stop the turn."""
        if not self.query_one(Prompt).has_focus:
            await self.panes.leave()
        elif self.state.running or self.state.runs_command:
            self.send(commands.TurnInterrupt())

    def action_jobs(self, job: str = "") -> None:
        """The commands in the background, one of which may be stopped."""
        jobs = self.state.jobs
        if job == "all" or job in jobs:
            self.send(commands.JobStop(job="" if job == "all" else job))
            return
        if not jobs:
            self.say("No command runs in the background.")
            return
        from tui.screens.picker import Choice, DeedPicker

        choices = [Choice(each.id, each.id, one_line(each.command, 200)) for each in jobs.values()]
        _ = self.app.push_screen(DeedPicker("Stop a job", choices), self._job_chosen)

    def _job_chosen(self, job: str | None) -> None:
        if job in self.state.jobs:
            self.send(commands.JobStop(job=job or ""))

    def action_reset_shell(self, _: str = "") -> None:
        """Commands start in the workspace again, with the environment of the beginning."""
        self.send(commands.ShellReset())

    def action_focus_chat(self) -> None:
        """Walk through the conversation."""
        self.query_one("#transcript").focus()

    def action_page_chat(self, step: int) -> None:
        """A screenful of the conversation up or down, wherever the focus is."""
        self.query_one(Transcript).page(step)

    def action_compact(self, _: str = "") -> None:
        """Make the history shorter."""
        begin(self, self._compact, group="commands")

    async def _compact(self) -> None:
        if await self.deliver(commands.ContextCompact()):
            self.say("The history is made shorter,", "unless nothing would be gained by it.")

    # Panes and review.

    async def action_toggle_files(self) -> None:
        """Show or hide the files."""
        await self.panes.toggle_files()

    async def action_show_pane(self, name: str) -> None:
        """Show or hide a side pane."""
        await self.panes.toggle(name)

    async def action_open_plan(self, _: str = "") -> None:
        """Show the plan."""
        await self.panes.show("plan")

    def action_accept_all(self, path: str = "") -> None:
        """Accept what is pending: of one file, or all of it."""
        self._resolve(path, "accept")

    def action_reject_all(self, path: str = "") -> None:
        """Reject what is pending: of one file, or all of it."""
        self._resolve(path, "reject")

    def _resolve(self, path: str, verdict: str) -> None:
        if not path:
            self.say(f"Say which file to {verdict}, or /{verdict} all.", "Ctrl+R shows them hunk by hunk.")
            return
        if path == "all" and not (self.state.changes or self.state.bulks):
            self.say(f"Nothing waits that you could {verdict}.")
        chosen = "" if path == "all" else path
        command = commands.HunkResolve(path=chosen, verdict="accept" if verdict == "accept" else "reject")
        begin(self, self.judge, command, group="commands")

    def action_undo_verdict(self, _: str = "") -> None:
        """Take the last verdict back."""
        self.send(commands.VerdictUndo())

    # Sessions.

    def action_new_session(self, _: str = "") -> None:
        """Start a new session with the same mode and model."""
        command = commands.SessionOpen(mode=self.mode, model=self.state.model)
        begin(self, self.switch_to, command, group="session", exclusive=True)

    def action_sessions(self, session: str = "") -> None:
        """Go on with a session by id, or choose from a list."""
        begin(self, self._resume, session, group="session", exclusive=True)

    async def _resume(self, session: str) -> None:
        if not session:
            from tui.widgets.sessions import SessionPicker

            found = await self.bridge.query(queries.SessionsQuery())
            if not isinstance(found, queries.Sessions):
                self.say("The sessions can't be listed.", is_error=True)
                return
            picked: str | None = await self.app.push_screen_wait(
                SessionPicker(found.sessions, current=self.state.session)
            )
            session = picked or ""
        if session and session != self.state.session:
            await self.switch_to(commands.SessionResume(session=session))

    async def switch_to(self, command: commands.SessionOpen | commands.SessionResume | commands.SessionFork) -> None:
        """Another session in this window, unless a turn runs."""
        if self.state.running:
            self.say("A turn is running.", "Stop it with escape first.", is_error=True)
            return
        reply = await self.bridge.switch(command)
        if isinstance(reply, commands.Reject):
            self.say(reply.message, reply.hint, is_error=True)

    # Pages and leaving.

    def _open(self, page: Screen[None]) -> None:
        _ = self.app.push_screen(page)

    def action_show_keys(self, _: str = "") -> None:
        """All keys."""
        from tui.screens.notes import keys_page

        self._open(keys_page(getattr(self.app, "keymap", {})))

    def action_show_help(self, _: str = "") -> None:
        """What can be done."""
        from tui.screens.notes import help_page

        self._open(help_page())

    def action_show_context(self, _: str = "") -> None:
        """What the model is sent."""
        begin(self, self._show_context, group="picker", exclusive=True)

    async def _show_context(self) -> None:
        from tui.screens.notes import context_page

        answer = await self.bridge.query(queries.ContextQuery())
        if isinstance(answer, queries.ContextReport):
            self._open(context_page(answer))
        else:
            self.say(getattr(answer, "message", "There is no context yet."))

    def action_choose_theme(self, name: str = "") -> None:
        """Choose the colours."""
        if name in self.app.available_themes:
            self._theme_chosen(name)
            return
        from tui.screens.picker import Choice, Picker

        choices = [Choice(each, each) for each in sorted(self.app.available_themes)]
        _ = self.app.push_screen(Picker("Theme", choices, current=self.app.theme), self._theme_chosen)

    def _theme_chosen(self, name: str | None) -> None:
        if name:
            self.app.theme = name
            self.send(commands.ThemeKeep(theme=name))

    def action_external_editor(self) -> None:
        """Write the prompt, or the hunk or plan that is being edited, in the user's own editor."""
        focused = self.focused
        if focused is not None and hasattr(focused, "suffix"):
            found = self._edited_outside(str(getattr(focused, "text", "")), str(focused.suffix))
            if found is not None:
                focused.text = found  # type: ignore[attr-defined]
            return
        prompt = self.query_one(Prompt)
        found = self._edited_outside(prompt.expanded, ".md")
        if found is not None:
            prompt.text = found
            prompt.move_cursor(prompt.document.end)

    def _edited_outside(self, text: str, suffix: str) -> str | None:
        """`text` as the user's own editor leaves it, without its last newlines; None: it did not work."""
        place = scratch_place(private=self.state.private)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="agent-tui-", dir=place) as scratch:
            path = Path(scratch) / f"text{suffix}"
            path.write_text(text, encoding="utf-8")
            try:
                with self.app.suspend():
                    subprocess.run(
                        [*command_of(os.environ), str(path)], check=True, cwd=scratch, env=without_keys(os.environ)
                    )
                return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
            except Exception as problem:  # an editor may fail in any way; the text stays as it was
                self.say(f"The editor {editor!r} did not work: {problem}", "Set $EDITOR.", is_error=True)
        return None

    def action_copy_or_clear(self) -> None:
        """What is selected is copied; else the prompt is emptied; twice on an empty prompt leaves if nothing runs."""
        prompt = self.query_one(Prompt)
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
        elif prompt.has_focus:
            prompt.call_later(self._clear_prompt, prompt)  # behind the letters that were typed before it
        else:
            self.say("esc goes back to the prompt, ctrl+q leaves.")

    def _clear_prompt(self, prompt: Prompt) -> None:
        if prompt.text:
            prompt.clear()
        elif self.state.running or self.state.runs_command:
            self.say("esc stops what runs, ctrl+q leaves.")
        elif time.monotonic() - self._wanted_to_leave < LEAVE_WITHIN:
            self.action_leave()
        else:
            self._wanted_to_leave = time.monotonic()
            self.say("ctrl+q leaves, or ctrl+c once more.")

    def action_leave(self) -> None:
        """Leave; asks first while a turn runs, and what is to become of a private session's changes."""
        from tui.screens.leaving import leave

        leave(self)

    def action_quit_now(self, _: str = "") -> None:
        """Leave."""
        self.action_leave()
