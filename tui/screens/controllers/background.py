"""The controller of background agents: a prompt that goes there, and what is done with those that there are."""

from __future__ import annotations

from textual import on

from core.protocol import commands, queries
from tui.agents.background import BackgroundList
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.sessions import SessionController
from tui.screens.dialogs.pages import ConfirmDialog


class BackgroundController(Controller):
    """Sends work to the background, stops and forgets it, and opens what came of it as a session here."""

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

    def _find(self, name: str) -> queries.BackgroundAgentInfo | None:
        return next((agent for agent in self.context.state.background if agent.id == name), None)

    @on(BackgroundList.Opened)
    def _open(self, event: BackgroundList.Opened) -> None:
        agent = self._find(event.id)
        if agent is None:
            return
        if agent.state in {"queued", "running", "waiting"}:
            hint = f"agent-tui attach {agent.session}" if agent.session else "It has not begun."
            self.context.notify_user("It is at work.", hint)
        elif agent.pulled:
            self._sessions.action_choose_session(agent.session)
        else:
            self._pull(agent)

    @in_worker("background")
    async def _pull(self, agent: queries.BackgroundAgentInfo) -> None:
        """Bring the work of an agent here, and open it unless a turn runs in this window."""
        if await self.context.submit(commands.BackgroundPull(id=agent.id)):
            self.context.notify_user("It is brought here.", "Once more opens it.")

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
        question = f"Forget it with {agent.pending} files that nobody has reviewed?"
        self.context.confirm(ConfirmDialog(question, "forget it"), lambda: self.context.submit_soon(delete))
