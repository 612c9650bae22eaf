"""A session that an editor follows: its events become updates, and approvals and questions become requests.

One task applies the events in order. All updates of a turn are sent before the prompt that began it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.acp.agent_methods import ClientCapabilities, LoadSessionResponse
from core.acp.client_methods import (
    AgentMessageChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    PermissionOption,
    SessionConfigOption,
    SessionNotification,
    SessionUpdate,
    ToolCallChanged,
    UnstructuredCommandInput,
)
from core.acp.connection import INTERNAL_ERROR, AcpError, Connection
from core.acp.content import ShownDiff, TextContent, ToolCallUpdate
from core.errors import AgentTuiError
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.protocol.review import Change, ReviewPolicy
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.tasks import TaskOwner, cancel_tasks
from core.transports.acp.asking import ClientAsker
from core.transports.acp.printing import UpdatePrinter
from core.transports.acp.session_options import (
    OfferedModels,
    build_modes,
    build_options,
    load_offers,
    parse_review,
    recall_review,
)
from core.transports.acp.tool_calls import build_diff
from core.transports.session_client import SessionAttachments

OWN_COMMANDS: Final = {
    "review": ("Review all pending changes", ""),
    "accept": ("Accept pending changes, or one file", "path"),
    "reject": ("Reject pending changes, or one file", "path"),
    "compact": ("Summarize the conversation to free space", ""),
}
CLOSE_SECONDS: Final = 12.0
_NOT_REPLAYED: Final = (
    ev.Notice,
    ev.ErrorRaised,
    ev.StepRetried,
    ev.ModeChanged,
    ev.ContextMeasured,
    ev.ContextCompacted,
)


class ClientTerms(Struct, frozen=True, kw_only=True):
    """Terms of all sessions of a client. `seconds`: the time limit of its answers; `can_accept`: it may choose to
    accept edits without asking; `drain`: waits while it does not read."""

    peer: Connection
    capabilities: ClientCapabilities
    seconds: float
    review: ReviewPolicy
    can_accept: bool
    drain: Callable[[], Awaitable[None]]


class FollowedSession:
    """A session that one client follows. `review`: the review policy at the end of its turns; `attached`: attaches the
    files of its prompts."""

    def __init__(self, client: Client, session: str, terms: ClientTerms) -> None:
        self.state = SessionState(session_id=session)
        self.review = terms.review
        self._is_cancelled = False
        self.client, self.id = client, session
        self.attached = SessionAttachments(self.submit, self.settle)
        self._terms = terms
        self._asker = ClientAsker(terms.peer, terms.capabilities, session, terms.seconds, self.show_text)
        session_capabilities = terms.capabilities.session
        self.printer = UpdatePrinter(
            self.state,
            has_notices=session_capabilities is not None and session_capabilities.notices is not None,
            has_compaction=session_capabilities is not None and session_capabilities.compaction is not None,
        )
        self._offers = OfferedModels()
        self._tasks = TaskOwner()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._choosing: set[asyncio.Task[str]] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._following: asyncio.Task[None] | None = None
        self._is_live = self._is_left = False
        self._problem = ""

    @property
    def root(self) -> Path:
        """The root of its project."""
        return Path(self.state.workspace)

    def begin_prompt(self) -> None:
        """Note that a prompt runs, which can be cancelled from now on."""
        self.printer.is_prompted, self._is_cancelled = True, False

    def is_cancelled(self) -> bool:
        """Return True if the client cancelled the prompt."""
        return self._is_cancelled

    async def follow(self, target_seq: int, *, replay: bool = False) -> None:
        """Follow the session from its event `target_seq` on; `replay`: also send the earlier conversation."""
        self._following = self._tasks.start(self._apply_events(target_seq, replay=replay), name=f"events of {self.id}")
        await self.wait_until(lambda: self._is_live)
        self._offers = await load_offers(self.client, self.id)
        self.review = recall_review(self.state, self.review, can_accept=self._terms.can_accept)

    async def wait_until(self, is_met: Callable[[], bool]) -> None:
        """Wait for a state of the session. Raises `AcpError` when its events end."""
        while not is_met():
            if self._problem:
                raise AcpError(self._problem, number=INTERNAL_ERROR)
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def settle(self) -> None:
        """Wait until the effects of every command so far are applied and sent."""
        answer = await self.client.query(q.IdleQuery(session=self.id))
        if isinstance(answer, q.IdleAnswer):
            await self.wait_until(lambda: self.state.seq >= answer.seq)

    async def submit(self, command: cmd.AnyCommand) -> cmd.Ack:
        """Submit a command. Raises `AcpError` if it is rejected."""
        reply = await self.client.submit(command)
        if isinstance(reply, cmd.Reject):
            raise AcpError(f"{reply.message} {reply.hint}".strip(), number=INTERNAL_ERROR, data={"code": reply.code})
        return reply

    async def _apply_events(self, target_seq: int, *, replay: bool) -> None:
        envelopes = list[ev.Envelope]()
        try:
            async for envelope in self.client.events(self.id):
                apply_event(self.state, envelope, SHARED_STEPS)
                self.attached.handle_event(envelope.event)
                if self._is_live:
                    await self._show(envelope)
                elif replay:
                    envelopes.append(envelope)
                if not self._is_live and self.state.seq >= target_seq:
                    await self._replay(envelopes)
                    self._is_live = True
                self._wake()
                await self._terms.drain()
            self._problem = "the session was closed"
        except AgentTuiError as problem:
            self._problem = problem.format_with_hint()
        except Exception as problem:  # waiters must not wait for ever
            self._problem = f"unexpected error: {type(problem).__name__}: {problem}"
            raise
        finally:
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _replay(self, envelopes: Sequence[ev.Envelope]) -> None:
        """Send the conversation as it is now, with its pending changes."""
        turn_ids = {turn.id for turn in self.state.turns}
        self.printer.is_replaying = True
        for envelope in envelopes:
            is_included = not envelope.turn or envelope.turn in turn_ids
            if is_included and not isinstance(envelope.event, _NOT_REPLAYED):
                for update in self.printer.print(envelope):
                    self.notify(update)
                await self._terms.drain()
        self.printer.is_replaying = False
        for change in self.state.changes.values():
            await self._show_change(change)

    async def _show(self, envelope: ev.Envelope) -> None:
        for update in self.printer.print(envelope):
            self.notify(update)
        match envelope.event:
            case ev.ChangeProposed(change=change) | ev.ChangeRevised(change=change) if self.state.current_turn:
                await self._show_change(change)
            case ev.ApprovalRequested() as request:
                self._asking[request.id] = self._tasks.start(self._approve(request), name="approval")
            case ev.QuestionAsked() as asked:
                self._asking[asked.id] = self._tasks.start(self._ask(asked), name="question")
            case ev.ApprovalResolved(id=name) | ev.QuestionAnswered(id=name):
                if (task := self._asking.pop(name, None)) is not None:
                    task.cancel()  # somebody else answered, or the turn ended
            case ev.ModeChanged() | ev.EffortChanged():
                self.notify(ConfigOptionUpdate(config_options=self.list_options()))
            case ev.ModelChanged():
                self._offers = await load_offers(self.client, self.id)
                self.notify(ConfigOptionUpdate(config_options=self.list_options()))
            case _:
                pass

    async def _show_change(self, change: Change) -> None:
        """Show a change at the call that made it."""
        call = self.printer.calls.get(change.origin.call) if change.origin is not None else None
        if call is None or (diff := await self.load_diff(change.path)) is None:
            return
        call.diffs[change.path] = diff
        self.notify(
            ToolCallChanged(tool_call_id=call.id, content=call.list_content(), locations=call.list_locations(self.root))
        )

    async def load_diff(self, path: str, *, hunk: str = "") -> ShownDiff | None:
        """Load the diff of a change, or of one hunk by its id; None: it has no lines."""
        answer = await self.client.query(q.DiffQuery(session=self.id, path=path, context=-1, width=0))
        diff = answer.diff if isinstance(answer, q.DiffAnswer) else None
        if diff is None:
            return None
        index = next((position for position, candidate in enumerate(diff.change.hunks) if candidate.id == hunk), None)
        return build_diff(diff, self.root, hunk=index)

    async def _approve(self, request: ev.ApprovalRequested) -> None:
        answer = await self._asker.approve(request, self.printer.calls.get(request.call))
        self._asking.pop(request.id, None)
        await self.client.submit(answer)  # refused if it was answered elsewhere meanwhile

    async def _ask(self, event: ev.QuestionAsked) -> None:
        answer = await self._asker.ask(event, self.printer.calls.get(event.call))
        self._asking.pop(event.id, None)
        await self.client.submit(answer)

    async def choose(
        self,
        call: ToolCallUpdate,
        options: Sequence[PermissionOption],
        *,
        on_late: Callable[[str], Awaitable[None]] | None = None,
    ) -> str:
        """Return the option that the user chose, "" = none, also when the turn is cancelled meanwhile. A later choice
        goes to `on_late`."""
        if self._is_cancelled:
            return ""
        start_late = partial(self._start_late, on_late) if on_late is not None else None
        task = self._tasks.start(self._asker.choose(call, options, on_late=start_late), name="choice")
        self._choosing.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._choosing.discard(task)
            task.cancel()
        return "" if task.cancelled() else task.result()

    def _start_late(self, on_late: Callable[[str], Awaitable[None]], choice: str) -> None:
        if self._is_left:
            self.show_text("The session was closed before that answer; nothing was done. Load it again, then /review.")
            return

        async def work() -> None:
            await on_late(choice)

        self._tasks.spawn(work(), name="late answer")

    def show_text(self, text: str) -> None:
        """Show a paragraph to the user that is not the model's."""
        self.notify(AgentMessageChunk(content=TextContent(text=f"\n\n{text}")))

    def cancel(self) -> None:
        """Cancel the running prompt: interrupt its turn and withdraw its questions."""
        self._is_cancelled = True
        for task in (*self._choosing, *self._asking.values()):
            task.cancel()
        self._tasks.spawn(self.client.submit(cmd.TurnInterrupt(session=self.id)), name="interrupt")

    def notify(self, update: SessionUpdate) -> None:
        """Send an update to the client."""
        self._terms.peer.notify("session/update", SessionNotification(session_id=self.id, update=update))

    async def save_choices(self, review: str = "") -> None:
        """Save the client's choices in the session's log, even if the session is empty. `review`: the newly chosen
        policy, "" = unchanged. Raises `AcpError`."""
        self.review = parse_review(review or self.review, can_accept=self._terms.can_accept)
        await self.submit(cmd.ReviewPolicyKeep(session=self.id, policy=self.review))

    def list_options(self) -> tuple[SessionConfigOption, ...]:
        """List all options with their values now."""
        return build_options(self.state, self._offers, self.review, can_accept=self._terms.can_accept)

    def describe(self) -> LoadSessionResponse:
        """Return the modes and options for the answer that opens the session."""
        return LoadSessionResponse(modes=build_modes(self.state), config_options=self.list_options())

    def announce_soon(self) -> None:
        """Send the available commands, after the answer that names the session."""
        self._tasks.spawn(self._announce_commands(), name="commands")

    async def _announce_commands(self) -> None:
        answer = await self.client.query(q.CommandsQuery(session=self.id))
        listed = answer.commands if isinstance(answer, q.CommandsAnswer) else ()
        rows = {name: (text, hint) for name, (text, hint) in OWN_COMMANDS.items()}
        rows |= {command.name: (command.description, command.hint) for command in listed if command.name not in rows}
        commands = tuple(
            AvailableCommand(name=name, description=text, input=UnstructuredCommandInput(hint=hint) if hint else None)
            for name, (text, hint) in rows.items()
        )
        self.notify(AvailableCommandsUpdate(available_commands=commands))

    async def leave(self, *, discard: bool) -> None:
        """Close the session and wait until it is closed, so that another program can open it. Raises `AcpError`."""
        self.cancel()
        await self.submit(cmd.SessionClose(session=self.id, discard=discard))
        if self._following is not None:
            await asyncio.wait({self._following}, timeout=CLOSE_SECONDS)
        await self.close()

    async def close(self) -> None:
        """Stop following and withdraw open requests."""
        self._is_left = True
        await cancel_tasks(self._choosing)
        await self._tasks.cancel(limit=1.0)
