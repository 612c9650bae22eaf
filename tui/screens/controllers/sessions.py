"""The controller of sessions: new ones, earlier ones, forks, all of a long one, and leaving."""

from __future__ import annotations

from typing import Final

from core.protocol import commands, queries
from tui.notices import format_pending_notice
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.plan import PlanController
from tui.screens.dialogs.pages import ConfirmDialog
from tui.screens.dialogs.picker import PickerDialog, PickerOption

KEEP: Final = "keep"
DROP: Final = "drop"


class SessionController(Controller):
    """Opens other sessions in this window, and leaves them, after the questions that have to be asked."""

    def __init__(self, context: ScreenContext, plan: PlanController) -> None:
        super().__init__(context)
        self._plan = plan

    @in_worker("session")
    async def action_new_session(self, _: str = "") -> None:
        """Start a new session with the same mode and model."""
        await self._switch(commands.SessionOpen(mode=self.context.mode, model=self.context.state.shown_model))

    @in_worker("session")
    async def action_choose_session(self, session: str = "") -> None:
        if not session:
            from tui.screens.dialogs.sessions import SessionPicker

            found = await self.context.query(queries.SessionsQuery(), queries.SessionsAnswer)
            if found is None:
                self.context.notify_user("The sessions can't be listed.", is_error=True)
                return
            current = self.context.state.session_id
            session = await self.context.ask(SessionPicker(found.sessions, current=current)) or ""
        if session and session != self.context.state.session_id:
            await self._switch(commands.SessionResume(session=session))

    @in_worker("session")
    async def action_fork_session(self, _: str = "") -> None:
        before = self.context.state.session_id
        await self._switch(commands.SessionFork(session=before))
        if self.context.state.session_id != before:
            hint = f"/resume {before} goes back to the session that it was made from."
            self.context.notify_user("This is a fork.", hint)

    async def _switch(self, command: commands.SessionOpen | commands.SessionResume | commands.SessionFork) -> None:
        """Open another session in this window, unless a turn runs."""
        if self.context.state.is_running:
            self.context.notify_user("A turn is running.", "Stop it with escape first.", is_error=True)
            return
        reply = await self.context.bridge.switch(command)
        if isinstance(reply, commands.Reject):
            self.context.notify_user(reply.message, reply.hint, is_error=True)

    @in_worker("whole")
    async def action_load_history(self, _: str = "") -> None:
        self.context.notify_user("Loading the whole session…")
        is_loaded = await self.context.bridge.load_history()
        self.context.notify_user("All of the session is loaded." if is_loaded else "There is no more to load.")

    async def find_pending_notice(self) -> str:
        """Return a notice of what waits for a review in other sessions of the project; "" = nothing."""
        return format_pending_notice(await self._list_sessions(), self.context.state.session_id)

    async def _list_sessions(self) -> tuple[queries.SessionInfo, ...]:
        found = await self.context.query(queries.SessionsQuery(), queries.SessionsAnswer)
        return found.sessions if found else ()

    # Leaving

    def action_detach(self, _: str = "") -> None:
        """Leave, and let the session go on. Text that was typed in the plan and is not saved is asked about first."""
        if self._plan.is_writing:
            self._plan.ask_to_discard("stay", self._detach)
        else:
            self._detach()

    @in_worker("leaving")
    async def _detach(self) -> None:
        reply = await self.context.bridge.detach()
        if isinstance(reply, commands.Ack):
            self.context.screen.app.exit()
        elif reply is None:
            self.context.notify_user("There is no session yet that could go on.", is_error=True)
        else:
            self.context.notify_user(f"Can't detach: {reply.message}", reply.hint, is_error=True)

    def action_quit(self, _: str = "") -> None:
        """Leave. Text that was typed in the plan and is not saved is asked about first."""
        if self._plan.is_writing:
            self._plan.ask_to_discard("stay", self._stop_turn)
        else:
            self._stop_turn()

    def _stop_turn(self) -> None:
        if self.context.state.is_running and self.context.state.client_count < 2:
            dialog = ConfirmDialog("A turn is running. Stop it and leave?", "stop and leave")
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
        others = [each.id for each in await self._list_sessions() if each.pending and each.id != state.session_id]
        sessions = [*([state.session_id] if state.pending_hunk_count else []), *others]
        if sessions:
            also = f" (and of {len(others)} earlier ones)" if others else ""
            title = f"Changes of this private session{also} wait for your review"
            options = (
                PickerOption(KEEP, "Keep the changes", "without the conversation"),
                PickerOption(DROP, "Drop them", "nothing is left"),
            )
            about = "What is kept, `agent-tui review` shows."
            answer = await self.context.ask(PickerDialog(title, options, about=about))
            if answer is None or (answer == KEEP and not await self._keep_changes(sessions)):
                return
        self.context.screen.app.exit()

    async def _keep_changes(self, sessions: list[str]) -> bool:
        """Keep the pending changes of private sessions. False when one can't be kept, which was reported."""
        for session in sessions:
            if not await self.context.submit(commands.PendingKeep(session=session)):
                return False
        self.context.state.is_pending_kept = True
        return True
