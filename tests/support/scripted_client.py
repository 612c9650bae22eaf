"""A client that plays recorded events and answers queries from a table: a real one, with nothing behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from msgspec.structs import replace

from core.protocol.client import EngineGone
from core.protocol.commands import Ack, AnyCommand, Reject, Reply, SessionOpen, SessionResume, SettingKeep, ThemeKeep
from core.protocol.events import AnyEvent, Envelope, LossyEvent, SessionStarted
from core.protocol.queries import (
    AnyAnswer,
    AnyQuery,
    ModelsAnswer,
    PlanFilesAnswer,
    PromptHistoryAnswer,
    RefusedAnswer,
    TreeAnswer,
)

SESSION = "ses_0000000000000001"
CLOCK = 1_750_000_000_000

Reaction = Callable[["ScriptedClient", AnyCommand], Reply | None]


class ScriptedClient:
    """`emit` is the engine's side. Durable events are kept, so that `events(after=…)` replays them."""

    def __init__(
        self,
        events: Sequence[AnyEvent] = (),
        *,
        answers: Mapping[type[AnyQuery], AnyAnswer] | None = None,
        react: Reaction | None = None,
    ) -> None:
        self.commands: list[AnyCommand] = []
        self.brief: list[bool] = []
        self.queries: list[AnyQuery] = []
        self.answers: dict[type[AnyQuery], AnyAnswer] = dict(answers or {})
        self.log: list[Envelope] = []
        self.turn = "trn_1"
        self._react = react
        self._queues: list[asyncio.Queue[Envelope | None]] = []
        self._gone = False
        self.closed = False
        for event in events or (SessionStarted(workspace="shop", mode="agent", model="scripted/demo"),):
            self.emit(event)

    def emit(self, event: AnyEvent) -> Envelope:
        """One event, now."""
        lossy = isinstance(event, LossyEvent)
        seq = len(self.log) + (0 if lossy else 1)
        envelope = Envelope(seq=seq, session=SESSION, at=CLOCK + seq * 1_000, event=event, turn=self.turn)
        if not lossy:
            self.log.append(envelope)
        for queue in self._queues:
            queue.put_nowait(envelope)
        return envelope

    def die(self) -> None:
        """End as an engine that was killed."""
        self._gone = True
        for queue in self._queues:
            queue.put_nowait(None)

    async def submit(self, command: AnyCommand) -> Reply:
        if self._gone:
            raise EngineGone("killed by signal 9")
        self.commands.append(command)
        if self._react is not None and (reply := self._react(self, command)) is not None:
            return reply
        if (
            not isinstance(command, SessionOpen | SessionResume | SettingKeep | ThemeKeep)
            and command.session != SESSION
        ):
            return Reject(code="unknown_session", message=f"There is no session {command.session!r}.")
        return Ack(session=SESSION, seq=len(self.log))

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncIterator[Envelope]:
        self.brief.append(brief)
        queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        self._queues.append(queue)
        for envelope in self.log[after:]:
            yield replace(envelope, session=session)
        while (envelope := await queue.get()) is not None:
            if isinstance(envelope.event, LossyEvent) or envelope.seq > after:
                yield envelope
        raise EngineGone("killed by signal 9")

    async def query(self, query: AnyQuery) -> AnyAnswer:
        if self._gone:
            raise EngineGone("killed by signal 9")
        self.queries.append(query)
        match self.answers.get(type(query)), type(query).__name__:
            case None, "ModelsQuery":
                return ModelsAnswer(models=(), providers=(), default="scripted/demo")
            case None, "PromptHistoryQuery":
                return PromptHistoryAnswer(prompts=())
            case None, "PlanFilesQuery":
                return PlanFilesAnswer(place=".cursor/plans")
            case None, "TreeQuery":
                return TreeAnswer(path="", entries=())
            case None, _:
                return RefusedAnswer(code="not_scripted", message="nothing is scripted for that")
            case answer, _:
                return answer  # type: ignore[return-value]

    async def close(self) -> None:
        self.closed = True
        self.die()
