"""The controllers of sessions (open, resume, fork, leave), of background agents and of the conversation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, get_args

from textual import events, on
from textual.screen import Screen

from core.protocol import commands, queries
from core.protocol.events import BackgroundAgentInfo
from core.protocol.queries.sessions import list_forks
from core.text.counting import count
from core.text.display_names import shorten_model
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.dialogs.leaving import build_quit_question, build_switch_question
from tui.dialogs.pages import ConfirmDialog
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.notices import format_pending_notice
from tui.roster import BackgroundList
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.plan import PlanController
from tui.sessions.home import HomeList
from tui.sessions.picker import SessionChange, SessionChoice, SessionPicker, parse_tags

KEEP: Final = "keep"
DROP: Final = "drop"
GONE: Final = "This part of the conversation is no longer there."
LATEST: Final = 100  # sessions that a start looks at
ALL: Final = 10_000  # those that the user chooses from
QUIT_TWICE_SECONDS: Final = 2.0  # between two presses of the key


class SessionController(Controller):
    """Opens other sessions in this window, and quits, after asking about anything that would be lost."""

    def __init__(self, context: ScreenContext, plan: PlanController) -> None:
        super().__init__(context)
        self._plan = plan
        self._question: Screen[Any] | None = None  # the last dialog before leaving

    @in_worker("session")
    async def action_new_session(self, _: str = "") -> None:
        """Start a new session with the same mode and model."""
        await self._switch(commands.SessionOpen(mode=self.context.mode, model=self.context.state.shown_model))

    @in_worker("session")
    async def action_choose_session(self, session: str = "") -> None:
        if session:
            await self.open(SessionChoice(session))
        else:
            await self._choose()

    async def _choose(self, begin: tuple[str, str] = ("", "")) -> None:
        """Ask for a session, optionally starting with an action of the list on one."""
        answer = await self.context.query(queries.SessionsQuery(limit=ALL), queries.SessionsAnswer)
        if answer is None:
            self.context.notify_user("Couldn't list the sessions.", is_error=True)
            return
        current = self.context.state.session_id
        choice = await self.context.ask(SessionPicker(answer.sessions, current=current, shelf=self, begin=begin))
        if choice is not None:
            await self.open(choice)
        elif begin[0]:
            await self.show_home(await self.list_sessions())

    async def open(self, choice: SessionChoice) -> None:
        """Resume a session in this window, at the chosen position."""
        if choice.session != self.context.state.session_id:
            await self._switch(commands.SessionResume(session=choice.session))
        if choice.place and choice.session == self.context.state.session_id:
            await self.show_place(choice.place)

    async def show_place(self, target: str) -> None:
        """Scroll to a turn or a document, after loading all of a long session."""
        await self.context.bridge.wait_until_caught_up()
        self.context.bridge.batches.flush()  # the transcript of an empty session takes no focus
        transcript = self.context.transcript
        if transcript.reveal(target):
            return
        if await self.context.bridge.load_history():
            transcript.show(self.context.state.blocks)
        if not transcript.reveal(target):
            self.context.notify_user(GONE)

    @on(Transcript.PlaceRequested)
    @in_worker("place")
    async def _go_to_place(self, event: Transcript.PlaceRequested) -> None:
        await self.show_place(event.target)

    # The list at the start

    @property
    def is_home_shown(self) -> bool:
        """True if the list of other sessions is displayed above the prompt."""
        home = self.context.find_bar("home")
        return home is not None and home.has_class("-filled")

    async def show_home(self, sessions: tuple[queries.SessionInfo, ...]) -> None:
        """Show other sessions of the project above the prompt, until this one has a prompt."""
        await self.context.bridge.wait_until_caught_up()  # the log holds its title and whether it has a prompt
        current = self.context.state.session_id
        current_session = next((session for session in sessions if session.id == current), None)
        others = [session for session in sessions if session.id != current]
        if not others or self.context.state.has_begun or self.context.state.is_demo:
            return
        home = await self.context.ensure_bar(HomeList, "home")
        state = self.context.state
        branch = current_session.branch if current_session is not None else ""
        home.show(
            others, " · ".join(filter(None, (Path(state.workspace).name, branch, shorten_model(state.shown_model))))
        )

    @on(Prompt.BelowRequested)
    def _focus_home(self) -> None:
        home = self.context.find_bar("home")
        if home is not None and home.display and self.is_home_shown:
            home.focus()

    @on(HomeList.Acted)
    def _act_at_home(self, event: HomeList.Acted) -> None:
        if event.action == "open":
            self.action_choose_session(event.session)
        else:
            self._begin(event.action, event.session)

    @in_worker("session")
    async def _begin(self, action: str, session: str) -> None:
        await self._choose(("", "") if action == "search" else (action, session))

    @on(HomeList.Left)
    def _leave_home(self) -> None:
        self.context.focus_prompt()

    # Operations on sessions

    async def change(self, command: SessionChange) -> bool:
        """Change a session. Return False for a rejection, which was displayed."""
        return await self.context.submit(command)

    async def load(self) -> tuple[queries.SessionInfo, ...]:
        """Return all sessions of the project, the latest first."""
        await self.context.query(queries.IdleQuery(), queries.IdleAnswer)
        return await self.list_sessions(ALL)

    async def search(self, words: str) -> queries.TranscriptSearchAnswer | None:
        """Search the transcripts for words."""
        question = queries.TranscriptSearchQuery(words=words, limit=30, typed=True)
        return await self.context.query(question, queries.TranscriptSearchAnswer)

    @in_worker("labels", exclusive=False)
    async def action_rename_session(self, title: str = "") -> None:
        """Set the title of this session."""
        if not title.strip():
            self.context.notify_user("Usage: /rename TITLE", is_error=True)
        elif await self.context.submit(commands.SessionRename(title=title)):
            self.context.notify_user("Renamed.")

    @in_worker("labels", exclusive=False)
    async def action_tag_session(self, words: str = "") -> None:
        """Set the tags of this session."""
        tags = parse_tags(words)
        if await self.context.submit(commands.SessionTag(tags=tags)):
            self.context.notify_user(f"Tagged {' '.join(f'#{tag}' for tag in tags)}." if tags else "Tags removed.")

    @in_worker("labels", exclusive=False)
    async def action_export_session(self, words: str = "") -> None:
        """Write this session to a new file: `FORMAT FILE`, both optional, in any order."""
        state = self.context.state
        export_format, path = parse_export(words)
        path = path or queries.build_export_name(state.title, export_format)
        command = commands.SessionExport(session=state.session_id, path=path, format=export_format)
        if await self.context.submit(command):
            self.context.notify_user(
                f"Saved: {path}", "Read it before you share it." if export_format == "html" else ""
            )

    @in_worker("session")
    async def action_show_forks(self, _: str = "") -> None:
        """Show which session was forked from which, and resume the chosen one."""
        rows = list_forks(await self.list_sessions(ALL))
        if not rows:
            self.context.notify_user("No forks here.", "/fork continues in a copy.")
            return
        options = [
            PickerOption(session_info.id, f"{lead}{session_info.title}", count("turn", session_info.turns))
            for lead, session_info in rows
        ]
        current = self.context.state.session_id
        if session := await self.context.ask(PickerDialog("Sessions and their forks", options, current=current)):
            await self.open(SessionChoice(session))

    @in_worker("session")
    async def action_fork_session(self, _: str = "") -> None:
        before = self.context.state.session_id
        await self._switch(commands.SessionFork(session=before))
        if self.context.state.session_id != before:
            hint = f"/resume {before} returns to the original."
            self.context.notify_user("You are in a fork now.", hint)

    async def _switch(self, command: commands.SessionOpen | commands.SessionResume | commands.SessionFork) -> None:
        """Open another session in this window, unless a turn runs, or the user keeps what the session runs."""
        if self.context.state.is_running:
            self.context.notify_user("A turn is running.", "Stop it with Esc first.", is_error=True)
            return
        question = build_switch_question(self.context.state)
        if question is not None and not await self.context.ask(question):
            return
        reply = await self.context.bridge.switch(command)
        if isinstance(reply, commands.Reject):
            self.context.notify_user(reply.message, reply.hint, is_error=True)

    @in_worker("whole")
    async def action_load_history(self, _: str = "") -> None:
        self.context.notify_user("Loading the whole session…")
        is_loaded = await self.context.bridge.load_history()
        self.context.notify_user("The whole session is loaded." if is_loaded else "Nothing more to load.")

    def describe_pending(self, sessions: tuple[queries.SessionInfo, ...]) -> str:
        """Return a notice of pending reviews in other sessions of the project; "" = none."""
        return format_pending_notice(sessions, self.context.state.session_id)

    async def list_sessions(self, limit: int = LATEST) -> tuple[queries.SessionInfo, ...]:
        """Return the sessions of the project, the latest first; none if they can't be listed."""
        answer = await self.context.query(queries.SessionsQuery(limit=limit), queries.SessionsAnswer)
        return answer.sessions if answer else ()

    # Leaving

    def action_detach(self, _: str = "") -> None:
        """Quit while the session continues, after asking about unsaved text of the plan; no question is asked
        twice."""
        is_asked = self._question in self.context.screen.app.screen_stack
        if self._plan.is_writing and not is_asked:
            self._plan.ask_to_discard("stay", self._detach)
        else:
            self._detach()

    @in_worker("leaving")
    async def _detach(self) -> None:
        reply = await self.context.bridge.detach()
        if isinstance(reply, commands.Ack):
            self.context.screen.app.exit()
        elif reply is None:
            self.context.notify_user("No session to detach yet.", is_error=True)
        else:
            self.context.notify_user(f"Can't detach: {reply.message}", reply.hint, is_error=True)

    def action_quit(self, _: str = "") -> None:
        """Quit, after asking about unsaved text of the plan; no question is asked twice."""
        if self._question in self.context.screen.app.screen_stack:
            return
        if self._plan.is_writing:
            self._question = self._plan.ask_to_discard("stay", self._stop_work)
        else:
            self._stop_work()

    def _stop_work(self) -> None:
        if (dialog := build_quit_question(self.context.state)) is not None:
            self._question = dialog
            self.context.confirm(dialog, self._exit)
        else:
            self._exit()

    def _exit(self) -> None:
        if self.context.state.is_private:
            self._resolve_private_changes()
        else:
            self.context.screen.app.exit()

    @in_worker("leaving")
    async def _resolve_private_changes(self) -> None:
        """Ask about the changes of this private session, and of those before it; then leave."""
        state = self.context.state
        others = [
            session.id for session in await self.list_sessions() if session.pending and session.id != state.session_id
        ]
        sessions = [*([state.session_id] if state.pending_hunk_count else []), *others]
        if sessions:
            also = f" and {len(others)} earlier ones" if others else ""
            title = f"This private session{also} left changes to review"
            options = (
                PickerOption(KEEP, "Keep the changes", "without the conversation"),
                PickerOption(DROP, "Drop the changes", "nothing is kept"),
            )
            explanation = "`agent-tui review` shows the changes you keep."
            self._question = dialog = PickerDialog(title, options, explanation=explanation)
            answer = await self.context.ask(dialog)
            if answer is None or (answer == KEEP and not await self._save_changes(sessions)):
                return
        self.context.screen.app.exit()

    async def _save_changes(self, sessions: list[str]) -> bool:
        """Retain the pending changes of private sessions. Return False for a rejection, which was displayed."""
        for session in sessions:
            if not await self.context.submit(commands.PendingKeep(session=session)):
                return False
        self.context.state.is_pending_kept = True
        return True


def parse_export(words: str) -> tuple[queries.ExportFormat, str]:
    """Parse the format and the file ("" = none) of `/export FORMAT FILE`; the file's suffix implies its format."""
    formats: tuple[queries.ExportFormat, ...] = get_args(queries.ExportFormat)
    first, _, rest = words.strip().partition(" ")
    for export_format in formats:
        if first == export_format:
            return export_format, rest.strip()
    endings = {export_format: queries.EXPORT_ENDINGS.get(export_format, export_format) for export_format in formats}
    fitting_formats = [name for name, ending in endings.items() if words.strip().endswith(f".{ending}")]
    return max(fitting_formats, key=lambda name: len(endings[name]), default="md"), words.strip()


class BackgroundController(Controller):
    """Sends work to background agents, stops and deletes them, and opens their results as sessions."""

    def __init__(self, context: ScreenContext, panes: PaneController, sessions: SessionController) -> None:
        super().__init__(context)
        self._panes, self._sessions = panes, sessions

    @in_worker("background")
    async def action_show_background(self, task: str = "") -> None:
        """Show the background agents; with words, give them to a new one."""
        if task.strip():
            await self.context.submit(commands.BackgroundStart(text=task.strip()))
            return
        answer = await self.context.query(queries.BackgroundQuery(), queries.BackgroundAnswer)
        if answer is not None:
            self.context.state.background = answer.agents
            await self._panes.show("background")

    def _find(self, name: str) -> BackgroundAgentInfo | None:
        return next((agent for agent in self.context.state.background if agent.id == name), None)

    @on(BackgroundList.Opened)
    def _open(self, event: BackgroundList.Opened) -> None:
        agent = self._find(event.id)
        if agent is None:
            return
        if agent.state in {"queued", "running", "waiting"}:
            hint = f"agent-tui attach {agent.session}" if agent.session else "It has not started yet."
            self.context.notify_user("It is working.", hint)
        elif agent.pulled:
            self._sessions.action_choose_session(agent.session)
        else:
            self._pull(agent)

    @in_worker("background")
    async def _pull(self, agent: BackgroundAgentInfo) -> None:
        """Fetch the work of an agent, and open it unless a turn runs in this window."""
        if await self.context.submit(commands.BackgroundPull(id=agent.id)):
            self.context.notify_user("Its work is here now.", "Open it again to see it.")

    @on(BackgroundList.Stopped)
    def _stop(self, event: BackgroundList.Stopped) -> None:
        self.context.submit_soon(commands.BackgroundStop(id=event.id))

    @on(BackgroundList.Deleted)
    def _delete(self, event: BackgroundList.Deleted) -> None:
        agent = self._find(event.id)
        if agent is None:
            return
        delete = commands.BackgroundDelete(id=agent.id)
        if agent.pulled or not agent.pending:
            self.context.submit_soon(delete)
            return
        question = f"Delete it with {count('unreviewed file', agent.pending)}?"
        self.context.confirm(ConfirmDialog(question, "delete"), lambda: self.context.submit_soon(delete))


class ChatController(Controller):
    """Scrolls the conversation and copies from it; brings text and files to the prompt."""

    def __init__(self, context: ScreenContext, panes: PaneController, sessions: SessionController) -> None:
        super().__init__(context)
        self._panes, self._sessions = panes, sessions
        self._quit_asked_at = float("-inf")

    def action_focus_chat(self) -> None:
        self.context.transcript.focus()

    def action_scroll_chat(self, step: int) -> None:
        self.context.transcript.scroll_page(step)

    def take_text(self, text: str) -> None:
        """Insert text into the prompt that was typed somewhere else and is no command there."""
        self._show_prompt().insert(text)

    def take_paste(self, event: events.Paste) -> None:
        """Move a paste outside of any input into the prompt."""
        self._show_prompt()._forward_event(event)

    def _show_prompt(self) -> Prompt:
        self._panes.uncover_prompt()
        self.context.focus_prompt()
        return self.context.prompt

    # Copying

    def action_copy_or_clear(self) -> None:
        """Copy the selection, else clear the prompt; twice in an empty prompt while idle leaves."""
        prompt, screen = self.context.prompt, self.context.screen
        if selected_text := screen.get_selected_text():
            screen.app.copy_to_clipboard(selected_text)
        elif prompt.has_focus:
            prompt.call_later(self._clear_prompt, prompt)  # behind the letters that were typed before it
        else:
            self.context.notify_user("esc returns to the prompt, ctrl+q quits.")

    def _clear_prompt(self, prompt: Prompt) -> None:
        state = self.context.state
        if prompt.text:
            prompt.clear()
        elif state.is_running or state.is_running_command:
            self.context.notify_user("esc stops, ctrl+q quits.")
        elif time.monotonic() - self._quit_asked_at < QUIT_TWICE_SECONDS:
            self._sessions.action_quit()
        else:
            self._quit_asked_at = time.monotonic()
            self.context.notify_user("ctrl+c again to quit, or ctrl+q.")

    @on(Transcript.Copied)
    def _copy_text(self, event: Transcript.Copied) -> None:
        self.context.screen.app.copy_to_clipboard(event.text)
