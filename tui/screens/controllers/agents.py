"""The controllers of subagents and of background agents: their panes, conversations and candidates."""

from __future__ import annotations

from textual import on

from core.protocol import commands, events, queries
from tui.dialogs.best import BestDialog
from tui.dialogs.listings.agents import AgentsDialog, SubagentDialog
from tui.dialogs.pages import ConfirmDialog
from tui.roster import AgentList, BackgroundList
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.prompt import PromptController
from tui.screens.controllers.sessions import SessionController


class AgentController(Controller):
    """Opens and stops subagents, and brings the name of a kind into the prompt."""

    # A subagent is a child session, so an interrupt with its session id stops it.

    def __init__(self, context: ScreenContext, panes: PaneController, prompt: PromptController) -> None:
        super().__init__(context)
        self._panes, self._prompt = panes, prompt

    @in_worker("picker")
    async def action_show_kinds(self, _: str = "") -> None:
        """Show the kinds of subagents; one of them can be taken into the prompt, or its file be read."""
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
            self.context.notify_user("Nothing was tried yet.", "/best 3 PROMPT tries a prompt three times.")
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
            self.context.notify_user("/best 3 PROMPT, or /best provider/one,provider/two PROMPT.", is_error=True)
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
            self.context.notify_user("That subagent is not there any more.")
            return
        title = " · ".join(filter(None, (subagent.agent or subagent.todo, subagent.title, subagent.model)))
        dialog = SubagentDialog(name, title, self.context.bridge.follow, is_working=block.is_running)
        if stopped_name := await self.context.ask(dialog):
            self._stop(stopped_name)


class BackgroundController(Controller):
    """Sends work to background agents, stops and forgets them, and opens their results as sessions."""

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

    def _find(self, name: str) -> events.BackgroundAgentInfo | None:
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
    async def _pull(self, agent: events.BackgroundAgentInfo) -> None:
        """Fetch the work of an agent, and open it unless a turn runs in this window."""
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
