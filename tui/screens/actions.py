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
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.screens.focus import FocusKeepingScreen
from tui.state import ViewState
from tui.terminal.external_editor import drop_api_keys, find_editor_command, find_scratch_directory
from tui.text import fit_line
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.screens.controllers.panes import PaneController

QUIT_TWICE_SECONDS: Final = 2.0  # seconds between two presses of the key
MODES: Final[tuple[ModeName, ...]] = get_args(ModeName)
ACTION_SCOPES: Final = {
    "prompt": "#prompt",
    "transcript": "#transcript",
    "review": "ReviewPane",
    "changes": "ChangeList",
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


class ActingScreen(FocusKeepingScreen):
    """The commands of the main screen."""

    bridge: Bridge
    _quit_asked_at = float("-inf")

    @property
    def state(self) -> ViewState:
        """The state that the bridge has folded."""
        return self.bridge.state

    @property
    @abstractmethod
    def panes(self) -> PaneController:
        """Files and side panes."""

    @property
    @abstractmethod
    def mode(self) -> ModeName:
        """The mode in force, or the one wished for until a session is open."""

    @abstractmethod
    async def submit_verdict(self, verdict: commands.HunkResolve) -> None:
        """Send a verdict, after what has to be asked about it."""

    def notify_user(self, message: str, hint: str = "", *, is_error: bool = False) -> None:
        """Show a toast. Foreign text is welcome."""
        text = fit_line(f"{message} {hint}".strip(), 400)
        if not self.has_class("-tall"):  # there is room for one
            self.app.clear_notifications()
        self.app.notify(text, severity="error" if is_error else "information", markup=False, timeout=6)

    async def submit(self, command: commands.AnyCommand) -> bool:
        """Submit a command; a refusal becomes a toast. True when it was accepted."""
        reply = await self.bridge.submit(command)
        if isinstance(reply, commands.Reject):
            self.notify_user(reply.message, reply.hint, is_error=True)
        return isinstance(reply, commands.Ack)

    def submit_soon(self, command: commands.AnyCommand) -> None:
        """Submit a command without waiting, for message handlers."""
        start_worker(self, self.submit, command, group="commands")

    async def run_scoped_action(self, scope: str, action: str) -> None:
        """Run the action of a key where that key works; its pane is shown for it."""
        if scope == "app":
            await self.run_action(action)
            return
        if scope in {"review", "changes", "plan", "debug", "files"}:
            await self.panes.ensure_shown("review" if scope == "changes" else scope)
        place = next((each for each in self.query(ACTION_SCOPES[scope]) if each.display), None)
        if place is None:
            self.notify_user("There is nothing to do that with now.")
            return
        place.focus()
        await place.run_action(action)

    # Modes and models.

    def action_next_mode(self) -> None:
        """Switch to the next mode in turn."""
        self.submit_soon(commands.ModeSet(mode=MODES[(MODES.index(self.mode) + 1) % len(MODES)]))

    def action_show_mode_menu(self) -> None:
        """Choose the mode from a list."""
        self.action_choose_mode("")

    def action_choose_mode(self, mode: str) -> None:
        """Switch to a mode by name, or choose from a list."""
        if mode in MODES:
            self.submit_soon(commands.ModeSet(mode=mode))
            return
        from tui.screens.dialogs.picker import PickerDialog, PickerOption

        choices = [PickerOption(each, each.capitalize(), MODE_NOTES[each]) for each in MODES]
        _ = self.app.push_screen(PickerDialog("Mode", choices, current=self.mode), self._set_mode)

    def _set_mode(self, mode: str | None) -> None:
        if mode in MODES:
            self.submit_soon(commands.ModeSet(mode=mode))

    def action_choose_model(self, model: str) -> None:
        """Switch to a model by name, or choose from a list."""
        if model:
            self.submit_soon(commands.ModelSet(model=model))
        else:
            from tui.screens.controllers.models import change_model

            start_worker(self, change_model, self, group="picker", exclusive=True)

    def action_choose_effort(self, level: str = "") -> None:
        """Set how much the model thinks, or choose it from a list."""
        from tui.screens.controllers.routes import change_effort

        start_worker(self, change_effort, self, level, group="picker", exclusive=True)

    def action_show_models(self, _: str = "") -> None:
        """Show which model does what, and what it has cost."""
        from tui.screens.controllers.routes import show_routes

        start_worker(self, show_routes, self, group="picker", exclusive=True)

    def action_change_limits(self, wanted: str = "") -> None:
        """See or change what a turn may use."""
        from tui.screens.controllers.limits import change_limits

        change_limits(self, wanted)

    def action_choose_policy(self, policy: str = "") -> None:
        """Say who decides on commands, by name or from a list."""
        from tui.screens.controllers.limits import choose_policy

        choose_policy(self, policy)

    def action_paste_key(self, provider: str = "") -> None:
        """Take a key for a model API, by its name or from a list."""
        from tui.screens.controllers.providers import paste_key

        start_worker(self, paste_key, self, provider, group="picker", exclusive=True)

    # The turn.

    async def action_interrupt(self) -> None:
        """Go from a pane back to the prompt; from the prompt: stop the turn."""
        if not self.query_one(Prompt).has_focus:
            await self.panes.leave_pane()
        elif self.state.is_running or self.state.is_running_command:
            self.submit_soon(commands.TurnInterrupt())

    def action_show_jobs(self, job: str = "") -> None:
        """List the commands in the background, one of which may be stopped."""
        jobs = self.state.jobs
        if job == "all" or job in jobs:
            self.submit_soon(commands.JobStop(job="" if job == "all" else job))
            return
        if not jobs:
            self.notify_user("No command runs in the background.")
            return
        from tui.screens.dialogs.picker import ActionPickerDialog, PickerOption

        choices = [PickerOption(each.id, each.id, fit_line(each.command, 200)) for each in jobs.values()]
        _ = self.app.push_screen(ActionPickerDialog("Stop a job", choices), self._stop_job)

    def _stop_job(self, job: str | None) -> None:
        if job in self.state.jobs:
            self.submit_soon(commands.JobStop(job=job or ""))

    def action_reset_shell(self, _: str = "") -> None:
        """Let commands start in the workspace again, with the first environment."""
        self.submit_soon(commands.ShellReset())

    def action_focus_chat(self) -> None:
        """Focus the conversation."""
        self.query_one("#transcript").focus()

    def action_scroll_chat(self, step: int) -> None:
        """Scroll the conversation by a screenful, wherever the focus is."""
        self.query_one(Transcript).scroll_page(step)

    def action_compact(self, _: str = "") -> None:
        """Compact the history."""
        start_worker(self, self._compact, group="commands")

    async def _compact(self) -> None:
        if await self.submit(commands.ContextCompact()):
            self.notify_user("The history is made shorter,", "unless nothing would be gained by it.")

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
        """Accept the pending changes of one file, or all of them."""
        self._resolve(path, "accept")

    def action_reject_all(self, path: str = "") -> None:
        """Reject the pending changes of one file, or all of them."""
        self._resolve(path, "reject")

    def _resolve(self, path: str, verdict: str) -> None:
        if not path:
            self.notify_user(f"Say which file to {verdict}, or /{verdict} all.", "Ctrl+R shows them hunk by hunk.")
            return
        if path == "all" and not (self.state.changes or self.state.bulks):
            self.notify_user(f"Nothing waits that you could {verdict}.")
        chosen = "" if path == "all" else path
        command = commands.HunkResolve(path=chosen, verdict="accept" if verdict == "accept" else "reject")
        start_worker(self, self.submit_verdict, command, group="commands")

    def action_undo_verdict(self, _: str = "") -> None:
        """Take the last verdict back."""
        self.submit_soon(commands.VerdictUndo())

    # Sessions.

    def action_new_session(self, _: str = "") -> None:
        """Start a new session with the same mode and model."""
        command = commands.SessionOpen(mode=self.mode, model=self.state.model)
        start_worker(self, self.switch_session, command, group="session", exclusive=True)

    def action_choose_session(self, session: str = "") -> None:
        """Go on with a session by id, or choose from a list."""
        start_worker(self, self._resume, session, group="session", exclusive=True)

    async def _resume(self, session: str) -> None:
        if not session:
            from tui.screens.dialogs.sessions import SessionPicker

            found = await self.bridge.query(queries.SessionsQuery())
            if not isinstance(found, queries.SessionsAnswer):
                self.notify_user("The sessions can't be listed.", is_error=True)
                return
            picked: str | None = await self.app.push_screen_wait(
                SessionPicker(found.sessions, current=self.state.session_id)
            )
            session = picked or ""
        if session and session != self.state.session_id:
            await self.switch_session(commands.SessionResume(session=session))

    async def switch_session(
        self, command: commands.SessionOpen | commands.SessionResume | commands.SessionFork
    ) -> None:
        """Open another session in this window, unless a turn runs."""
        if self.state.is_running:
            self.notify_user("A turn is running.", "Stop it with escape first.", is_error=True)
            return
        reply = await self.bridge.switch(command)
        if isinstance(reply, commands.Reject):
            self.notify_user(reply.message, reply.hint, is_error=True)

    # Pages and leaving.

    def _open_page(self, page: Screen[None]) -> None:
        _ = self.app.push_screen(page)

    def action_show_keys(self, _: str = "") -> None:
        """Show all keys."""
        from tui.screens.dialogs.pages import build_keys_page

        self._open_page(build_keys_page(getattr(self.app, "keymap", {})))

    def action_show_help(self, _: str = "") -> None:
        """Show what can be done."""
        from tui.screens.dialogs.pages import build_help_page

        self._open_page(build_help_page())

    def action_show_context(self, _: str = "") -> None:
        """Show what the model is sent."""
        start_worker(self, self._show_context, group="picker", exclusive=True)

    async def _show_context(self) -> None:
        from tui.screens.dialogs.pages import build_context_page

        answer = await self.bridge.query(queries.ContextQuery())
        if isinstance(answer, queries.ContextAnswer):
            self._open_page(build_context_page(answer))
        else:
            self.notify_user(getattr(answer, "message", "There is no context yet."))

    def action_choose_theme(self, name: str = "") -> None:
        """Choose the colours."""
        if name in self.app.available_themes:
            self._set_theme(name)
            return
        from tui.screens.dialogs.picker import PickerDialog, PickerOption

        choices = [PickerOption(each, each) for each in sorted(self.app.available_themes)]
        _ = self.app.push_screen(PickerDialog("Theme", choices, current=self.app.theme), self._set_theme)

    def _set_theme(self, name: str | None) -> None:
        if name:
            self.app.theme = name
            self.submit_soon(commands.ThemeKeep(theme=name))

    def action_external_editor(self) -> None:
        """Write the prompt, or the hunk or plan that is being edited, in the user's own editor."""
        focused = self.focused
        if focused is not None and hasattr(focused, "suffix"):
            found = self._edit_externally(str(getattr(focused, "text", "")), str(focused.suffix))
            if found is not None:
                focused.text = found  # type: ignore[attr-defined]
            return
        prompt = self.query_one(Prompt)
        found = self._edit_externally(prompt.expanded_text, ".md")
        if found is not None:
            prompt.text = found
            prompt.move_cursor(prompt.document.end)

    def _edit_externally(self, text: str, suffix: str) -> str | None:
        """Return `text` as the user's own editor leaves it, without its last newlines; None: it did not work."""
        place = find_scratch_directory(is_private=self.state.is_private)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="agent-tui-", dir=place) as scratch:
            path = Path(scratch) / f"text{suffix}"
            path.write_text(text, encoding="utf-8")
            try:
                with self.app.suspend():
                    subprocess.run(
                        [*find_editor_command(os.environ), str(path)],
                        check=True,
                        cwd=scratch,
                        env=drop_api_keys(os.environ),
                    )
                return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
            except Exception as problem:  # an editor may fail in any way; the text stays as it was
                self.notify_user(f"The editor {editor!r} did not work: {problem}", "Set $EDITOR.", is_error=True)
        return None

    def action_copy_or_clear(self) -> None:
        """Copy the selection, else empty the prompt; twice on an empty prompt leaves if nothing runs."""
        prompt = self.query_one(Prompt)
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
        elif prompt.has_focus:
            prompt.call_later(self._clear_prompt, prompt)  # behind the letters that were typed before it
        else:
            self.notify_user("esc goes back to the prompt, ctrl+q leaves.")

    def _clear_prompt(self, prompt: Prompt) -> None:
        if prompt.text:
            prompt.clear()
        elif self.state.is_running or self.state.is_running_command:
            self.notify_user("esc stops what runs, ctrl+q leaves.")
        elif time.monotonic() - self._quit_asked_at < QUIT_TWICE_SECONDS:
            self.action_leave()
        else:
            self._quit_asked_at = time.monotonic()
            self.notify_user("ctrl+q leaves, or ctrl+c once more.")

    def action_leave(self) -> None:
        """Leave; asks first while a turn runs, and what is to become of a private session's changes."""
        from tui.screens.controllers.exit import leave_app

        leave_app(self)

    def action_quit(self, _: str = "") -> None:
        """Leave."""
        self.action_leave()
