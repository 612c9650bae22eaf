"""A session as the engine makes one, around a model whose every delta a test decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from core.agent.base.permissions import CallPermissions
from core.agent.base.plan_sync import PlanSync
from core.agent.base.routes import Route, TurnRoutes
from core.agent.base.user_channel import UserChannel
from core.agent.context.memory import ModelMemory
from core.agent.context.turn_context import TurnContext
from core.agent.mentions.sources import PromptSurroundings
from core.agent.turn.loop import Turn
from core.config.settings import Settings
from core.git.command_view import find_repository_view
from core.ids import new_id
from core.lsp.language_servers import LanguageServers
from core.permissions.rules import PermissionRule
from core.permissions.saved_rules import SavedRules, SessionRules
from core.plans.plan_store import PlanStore
from core.protocol import events as ev
from core.protocol.messages import Message, ToolMessage, Usage
from core.providers.base import Delta, ModelInfo, ModelRequest, StreamEnd, TextDelta, ToolCallDelta, UsageReport
from core.sandbox.box import Box, Tier
from core.sandbox.unboxed_run import describe_containment
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.shell.command_host import BoxSource, CommandHost
from core.shell.network_grants import NetworkGrants
from core.shell.python_repl import PythonRepl
from core.shell.session_network import SessionNetwork
from core.shell.terminal import Terminal
from core.state.fold import apply_event
from core.state.review import ReviewState
from core.state.session import SessionState
from core.tools.toolset import Toolset
from core.workspace import Workspace
from core.workspace.plan_folder import PlanFolder

E = TypeVar("E", bound=ev.Event)
Step = Sequence[Delta | Exception | asyncio.Event | Callable[[], None]]


def says(text: str, *, usage: Usage | None = None) -> Step:
    return [TextDelta(text), UsageReport(usage or Usage(prompt_tokens=100, completion_tokens=10)), StreamEnd("stop")]


def calls(*requests: tuple[str, dict[str, Any] | str], text: str = "", reason: str = "tool_calls") -> Step:
    deltas: list[Delta] = [TextDelta(text)] if text else []
    for index, (name, arguments) in enumerate(requests):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        deltas.append(ToolCallDelta(index, id=f"id{index}", name=name))
        deltas.append(ToolCallDelta(index, arguments=written))
    deltas.append(UsageReport(Usage(prompt_tokens=100, completion_tokens=10)))
    return [*deltas, StreamEnd(reason)]


async def played(step: Step) -> AsyncIterator[Delta]:
    """What a model says in a step: an event is waited for, an exception raised, anything to call is called."""
    for item in step:
        if isinstance(item, Exception):
            raise item
        if isinstance(item, asyncio.Event):
            await item.wait()
        elif callable(item):
            item()
        else:
            yield item
        await asyncio.sleep(0)


class DirectedModel:
    """Plays one step after another and keeps every request. An exception is raised, an event waited for, a function
    called, where it stands in the step; after the last step it says that it is done."""

    name = "directed"

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self.requests.append(request)
        async for delta in played(self.steps.pop(0) if self.steps else says("Done.")):
            yield delta

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def close(self) -> None:
        self.steps.clear()


class NoBox:
    """The box source of a machine that has none."""

    tier = Tier.NONE

    async def find(self) -> Box | None:
        return None

    def describe(self) -> str:
        return describe_containment()


class Case:
    """One session in a project of its own. `on_event` sees every event right after it was folded."""

    def __init__(
        self,
        root: Path,
        *steps: Step,
        mode: str = "agent",
        settings: Settings | None = None,
        box: BoxSource | None = None,
    ) -> None:
        self.project, self.directory = root / "project", root / "state"
        self.project.mkdir(exist_ok=True)
        self.directory.mkdir(exist_ok=True)
        self.events: list[ev.AnyEvent] = []
        self.on_event: Callable[[ev.AnyEvent], None] = lambda _: None
        self.review = ReviewState()
        self.state = SessionState(review=self.review)
        self.model = DirectedModel(steps)
        workspace = Workspace(self.project, state_dir=self.directory)
        self.shadow = Shadow(workspace, BlobStore(self.directory / "blobs"), self.emit, self.review)
        self.session = self._open_session(workspace, settings or Settings(), box or NoBox())
        self.emit(ev.SessionStarted(workspace=str(self.project), mode="agent", model="directed/m"))
        if mode != "agent":
            self.emit(ev.ModeChanged(mode=mode))

    def _open_session(self, workspace: Workspace, settings: Settings, box: BoxSource) -> TurnContext:
        directory, terminal = self.directory / "session", self.terminal_on(workspace, box)
        rules = SessionRules(self._list_configured_rules, SavedRules(workspace.root))
        grants = NetworkGrants(directory / "network", rules.load)
        terminal.on_close.append(grants.close)
        return TurnContext(
            tools=Toolset(),
            id="ses_1",
            state=self.state,
            emit=self.emit,
            settings=settings,
            directory=directory,
            plans=PlanSync(PlanStore(PlanFolder(workspace)), self.state, self.emit),
            terminal=terminal,
            python=PythonRepl(terminal),
            languages=LanguageServers(terminal.host, dict, lambda *_: "not in this test"),
            user=UserChannel(self.emit),
            routes=TurnRoutes(current=Route(provider=self.model, model="m", id="directed/m", window=100_000)),
            permissions=CallPermissions(terminal, settings, rules, grants),
            memory=ModelMemory.of_session(directory),
        )

    def _list_configured_rules(self) -> tuple[PermissionRule, ...]:
        return self.session.settings.permissions.parse_rules()

    def terminal_on(self, workspace: Workspace, box: BoxSource) -> Terminal:
        ground = CommandHost(
            workspace=workspace,
            shadow=self.shadow,
            state=self.state,
            emit=self.emit,
            emit_outside_turn=self.emit_outside_turn,
            directory=self.directory / "session",
            session_id="ses_1",
            box=box,
            network=SessionNetwork(box, self.emit_outside_turn),
            repository=partial(find_repository_view, workspace.root),
            hidden=(self.directory,),
            cache=self.directory / "cache",
        )
        return Terminal(ground)

    def emit(self, event: ev.AnyEvent) -> None:
        self._take(event, self.session_turn())

    def emit_outside_turn(self, event: ev.AnyEvent) -> None:
        self._take(event, "")

    def _take(self, event: ev.AnyEvent, turn: str) -> None:
        self.events.append(event)
        lossy = isinstance(event, ev.LossyEvent)
        seq = self.state.seq + (not lossy)
        apply_event(self.state, ev.Envelope(seq=seq, session="ses_1", at=1, event=event, turn=turn))
        self.on_event(event)

    def session_turn(self) -> str:
        return self.session.turn_id if hasattr(self, "session") else ""

    async def turn(self, prompt: str = "Do it", open_files: Sequence[str] = ()) -> ev.TurnFinished:
        self.session.turn_id = new_id("turn")
        return await Turn(self.session, prompt, PromptSurroundings(open_files=tuple(open_files))).run()

    def answer_approvals(self, decision: str) -> None:
        """Every approval from now on gets this answer, as soon as somebody waits for it."""

        def answer(event: ev.AnyEvent) -> None:
            if isinstance(event, ev.ApprovalRequested):
                loop = asyncio.get_running_loop()
                loop.call_soon(self._resolve, event.id, decision)
            elif isinstance(event, ev.QuestionAsked):
                asyncio.get_running_loop().call_soon(self.session.user.resolve_question, event.id, ())

        self.on_event = answer

    def _resolve(self, identity: str, decision: str) -> None:
        if not self.session.user.resolve_approval(identity, decision):
            asyncio.get_running_loop().call_soon(self._resolve, identity, decision)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def messages(self) -> list[Message]:
        return self.state.messages

    def results(self) -> list[str]:
        return [message.content for message in self.messages if isinstance(message, ToolMessage)]

    def tree(self) -> dict[str, bytes]:
        """Every file of the project on disk."""
        return {str(p.relative_to(self.project)): p.read_bytes() for p in self.project.rglob("*") if p.is_file()}
