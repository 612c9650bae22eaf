"""A conversation of the chat API: a session, followed through one answer.

A question of the model ends the answer: the turn is interrupted, the question stays open, and the next message answers
it. An approval does not end it, as other clients may answer it; nor does a question that ends with its turn. A request
without a stream returns at once in either case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

from msgspec import structs

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client
from core.protocol.queries import IdleAnswer, IdleQuery, ToolsAnswer, ToolsQuery
from core.protocol.tools import ToolRow
from core.state.session import SessionState
from core.text.well_formed import encode_record
from core.transports.http.chat.requests import PICTURE_REFUSED, ChatRequest, build_tool_limits, parse_answers
from core.transports.http.chat.stream_events import ChatProjection, StreamEvent, build_answer, build_done
from core.transports.http.sse import DONE, encode_event
from core.transports.response import Response
from core.transports.session_client import SessionAttachments, SessionView, require_ack, require_answer


class Conversation:
    """Follows the session of a conversation. The owner must close it."""

    def __init__(self, client: Client, session: str, *, brief: bool = True) -> None:
        self._client = client
        self._session = session
        self._view = SessionView(client, session, self._handle_event, brief=brief)
        self._labels = SessionAttachments(self._submit, self._view.settle)
        self._projection = ChatProjection()
        self._ready = deque[tuple[int, list[StreamEvent]]]()
        self._after: int | None = None  # None: no events are sent yet
        self._is_ended = False
        self._asked = False

    @property
    def state(self) -> SessionState:
        """The state of the session, as far as it was followed."""
        return self._view.state

    async def settle(self) -> None:
        """Apply the effects of everything that was accepted so far."""
        await self._view.settle()

    async def send_prompt(self, request: ChatRequest, pictures: Mapping[int, Sequence[cmd.AttachmentAdd]]) -> None:
        """Send the prompt of a request, or the answers to the open question; the events that follow are streamed.
        `pictures`: those of the request, by the index of their message. Raises `CommandRejected`."""
        question = self._find_open_question()
        answers = () if question is None else parse_answers(question, request.find_prompt())
        if question is not None and answers:
            if pictures.get(len(request.messages) - 1):
                hint = "Answer it first, and send the pictures with the message after that."
                message = "a question is answered in words, without pictures."
                raise CommandRejected(message, hint=hint, code=PICTURE_REFUSED)
            command: cmd.AnyCommand = cmd.QuestionReply(session=self._session, id=question.id, answers=answers)
        else:
            command = await self._build_turn(request, pictures)
        if request.mode is not None and request.mode != self.state.mode:
            await self._submit(cmd.ModeSet(session=self._session, mode=request.mode))
        if request.model and request.model != self.state.model:
            await self._submit(cmd.ModelSet(session=self._session, model=request.model))
        self._after = (await self._submit(command)).seq

    async def _build_turn(
        self, request: ChatRequest, pictures: Mapping[int, Sequence[cmd.AttachmentAdd]]
    ) -> cmd.TurnSubmit:
        """Attach the pictures of a prompt and return its command. The first prompt brings earlier messages along."""
        is_first = not self.state.turns
        if self.state.current_turn is not None:  # checked here, so that a refused prompt changes neither mode nor model
            raise CommandRejected(
                "a turn is running.", hint="Wait until it ends, or interrupt it.", code="turn_running"
            )
        limits = build_tool_limits(request, await self._list_tools() if request.tools is not None else ())
        sent_indexes = pictures if is_first else [index for index in pictures if index == len(request.messages) - 1]
        labels = {index: await self._attach(pictures[index]) for index in sent_indexes}
        return cmd.TurnSubmit(
            session=self._session,
            text=request.find_prompt(),
            open_files=request.context.open_files,
            attachments=tuple(label for message_labels in labels.values() for label in message_labels),
            available_tools=limits,
            rules=request.list_rules(),
            layout=request.context.project_layout,
            earlier=request.list_earlier(labels) if is_first else (),
        )

    async def _list_tools(self) -> tuple[ToolRow, ...]:
        answer = require_answer(await self._client.query(ToolsQuery(session=self._session)))
        return answer.tools if isinstance(answer, ToolsAnswer) else ()

    async def _attach(self, files: Iterable[cmd.AttachmentAdd]) -> tuple[str, ...]:
        return await self._labels.attach(structs.replace(file, session=self._session) for file in files)

    async def _submit(self, command: cmd.AnyCommand) -> cmd.Ack:
        return require_ack(await self._client.submit(command))

    async def close(self) -> None:
        """Stop following. The turn continues."""
        await self._view.close()

    def _find_open_question(self) -> ev.QuestionAsked | None:
        """Return the question that the next message answers."""
        questions = [question for question in self.state.questions.values() if not question.subagent]
        return questions[-1] if questions else None

    async def finish_answer(self) -> Response:
        """Return the response object when the turn ends or waits for somebody. Raises `CommandRejected` if the session
        was closed meanwhile."""
        await self.settle()  # a question that the prompt answers is no longer open
        while not self._is_ended and not self._waits_for_user():
            self._ready.clear()
            if not await self._step():
                break
        if not self.state.turns:
            raise CommandRejected("the session was closed before the prompt began.", code="session_unknown")
        return build_answer(self.state.turns[-1], self.state)

    def _waits_for_user(self) -> bool:
        """Return True if the turn can only continue after somebody's answer."""
        questions = self.state.questions.values()
        return bool(self.state.approvals) or any(question.subagent or not question.lasting for question in questions)

    async def stream_answer(self) -> AsyncGenerator[bytes]:
        """Yield the events of the answer until it ends."""
        try:
            while True:
                while self._ready:
                    seq, events = self._ready.popleft()
                    for piece in _encode(seq, events):
                        yield piece
                if self._is_ended or not await self._step():
                    yield DONE
                    return
        finally:
            await self.close()

    async def replay(self, after: int) -> AsyncGenerator[bytes]:
        """Yield the events after `after`, until the running turn has ended."""
        answer = await self._client.query(IdleQuery(session=self._session))
        last = answer.seq if isinstance(answer, IdleAnswer) else 0
        self._after = after
        try:
            while not self._is_over(last):
                if not await self._step():
                    break
                while self._ready:
                    seq, events = self._ready.popleft()
                    for piece in _encode(seq, events):
                        yield piece
            yield DONE
        finally:
            await self.close()

    def _is_over(self, last: int) -> bool:
        return self.state.seq >= last and self.state.current_turn is None

    async def _step(self) -> bool:
        """Follow the session until there is something to send. Returns False once the session is gone."""
        before, last_seq = self._is_ended, self.state.seq

        def has_news() -> bool:
            return bool(self._ready) or self._is_ended != before or self._asked or self.state.seq != last_seq

        await self._view.wait_until(has_news)
        if self._asked:
            self._asked = False
            await self._client.submit(cmd.TurnInterrupt(session=self._session))
            return True
        return has_news()

    def _handle_event(self, envelope: ev.Envelope) -> None:
        event, after = envelope.event, self._after
        self._labels.handle_event(event)
        events = self._projection.project(envelope)
        is_new = after is not None and (envelope.seq > after or isinstance(event, ev.LossyEvent))
        if isinstance(event, ev.TurnFinished) and self.state.turns:
            events.append(build_done(build_answer(self.state.turns[-1], self.state)))
            self._is_ended = is_new
        if is_new and isinstance(event, ev.QuestionAsked) and event.lasting and not event.subagent:
            self._asked = True
        if events and is_new:
            self._ready.append((envelope.seq, events))


def _encode(seq: int, events: list[StreamEvent]) -> list[bytes]:
    """Encode the stream events of one log event. Only the last frame has its number, so that a client that missed one
    reads all of them again."""
    last = len(events) - 1
    return [
        encode_event(event.name, encode_record(event), seq=seq if index == last else None)
        for index, event in enumerate(events)
    ]
