"""A conversation of the chat API: a session, followed through one answer. It decides what becomes of a prompt.

A question of the model ends the answer: the turn is interrupted, the question stays open, and the next message answers
it. An approval does not end it, as other clients may answer it; nor does a question that ends with its turn. A request
without a stream returns at once in either case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Final

from msgspec import structs

from core.config.settings import narrow_tool
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.queries import IdleAnswer, IdleQuery, ToolsAnswer, ToolsQuery
from core.protocol.tools import OTHER_TOOLS, ToolRow, ToolSettings
from core.state.session import SessionState
from core.text.well_formed import encode_record
from core.transports.http.chat.requests import PICTURE_REFUSED, ChatPrompt
from core.transports.http.chat.stream_events import ChatProjection, StreamEvent, build_answer, build_done
from core.transports.http.sse import DONE, encode_event
from core.transports.response import Response
from core.transports.session_client import SessionAttachments, SessionView, require_ack, require_answer

# Names of documents that are not names of tools.
DOCUMENT_TOOLS: Final = {
    "terminal_command": "run_terminal_cmd",
    "plan": "create_plan",
    "todo_update": "todo_write",
    "clarification": "ask_question",
}
PLANNING_TOOLS: Final = ("create_plan", "update_plan", "ask_question")


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

    async def send_prompt(self, prompt: ChatPrompt) -> None:
        """Send a prompt, or the answers that it has to the open question; the events that follow are streamed. Raises
        `CommandRejected`."""
        question = self._find_open_question()
        answers = () if question is None else parse_answers(question, prompt.message.text)
        command: cmd.AnyCommand
        if question is not None and answers:
            if prompt.message.pictures:
                hint = "Answer it first, and send the pictures with the message after that."
                message = "a question is answered in words, without pictures."
                raise CommandRejected(message, hint=hint, code=PICTURE_REFUSED)
            command = cmd.QuestionReply(
                session=self._session, id=question.id, answers=answers, wants_plan=prompt.wants_plan
            )
        else:
            command = await self._build_turn(prompt)
        if prompt.mode is not None and prompt.mode != self.state.mode:
            await self._submit(cmd.ModeSet(session=self._session, mode=prompt.mode))
        if prompt.model and prompt.model != self.state.model:
            await self._submit(cmd.ModelSet(session=self._session, model=prompt.model))
        self._after = (await self._submit(command)).seq

    async def _build_turn(self, prompt: ChatPrompt) -> cmd.TurnSubmit:
        """Attach the pictures of a prompt and return its command. The first prompt brings earlier messages along."""
        if self.state.current_turn is not None:  # checked here, so that a refused prompt changes neither mode nor model
            raise CommandRejected(
                "a turn is running.", hint="Wait until it ends, or interrupt it.", code="turn_running"
            )
        limits = await self._build_tool_limits(prompt)
        messages = [*(() if self.state.turns else prompt.earlier), prompt.message]
        labels = [await self._attach(message.pictures) for message in messages]
        earlier = [
            cmd.EarlierMessage(role=message.role, text=" ".join((*message_labels, message.text)))
            for message, message_labels in zip(messages[:-1], labels, strict=False)
        ]
        return cmd.TurnSubmit(
            session=self._session,
            text=prompt.message.text,
            open_files=prompt.open_files,
            shows_open=True,
            edit_history=prompt.edit_history,
            attachments=tuple(label for message_labels in labels for label in message_labels),
            available_tools=limits,
            rules=prompt.rules,
            layout=prompt.layout,
            wants_plan=prompt.wants_plan,
            earlier=tuple(message for message in earlier if message.text.strip()),
        )

    async def _build_tool_limits(self, prompt: ChatPrompt) -> dict[str, ToolSettings]:
        """Return the limits of tools in the turn. Raises `CommandRejected` for a tool that does not exist."""
        if prompt.tool_names is None and not prompt.tool_limits:
            return {}
        answer = require_answer(await self._client.query(ToolsQuery(session=self._session)))
        own_names = _list_names(answer.tools if isinstance(answer, ToolsAnswer) else ())
        for name in (*(prompt.tool_names or ()), *prompt.tool_limits):
            if name not in own_names:
                hint = f"There are {', '.join(sorted(set(own_names.values()) - {OTHER_TOOLS}))}."
                raise CommandRejected(f"there is no tool {name[:100]!r}.", hint=hint, code="tool_unknown")
        return _combine_limits(prompt, own_names)

    async def _attach(self, files: Iterable[cmd.AttachmentAdd]) -> tuple[str, ...]:
        return await self._labels.attach(structs.replace(file, session=self._session) for file in files)

    async def _submit(self, command: cmd.AnyCommand) -> cmd.Ack:
        return require_ack(await self._client.submit(command))

    async def close(self) -> None:
        """Stop following. The turn continues."""
        await self._view.close()

    def _find_open_question(self) -> ev.QuestionAsked | None:
        """Return the question that the next message answers. A proposed goal needs the right to approve, which a
        conversation has not: its check runs unasked."""
        questions = [
            question for question in self.state.questions.values() if not question.subagent and not question.proposal
        ]
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


def _list_names(rows: Iterable[ToolRow]) -> dict[str, str]:
    """Return the tools' own names by all names: of other agents, and of the documents about their calls."""
    own_names = {alias: row.name for row in rows for alias in row.aliases}
    return {OTHER_TOOLS: OTHER_TOOLS, **own_names, **DOCUMENT_TOOLS, **{row.name: row.name for row in rows}}


def _combine_limits(prompt: ChatPrompt, own_names: Mapping[str, str]) -> dict[str, ToolSettings]:
    """Return the limits by the tools' own names. If the prompt names its only tools, all others are off; a plan can be
    handed in, and a question asked, wherever one is asked for."""
    limits = dict[str, ToolSettings]()
    for name, settings in prompt.tool_limits.items():
        own_name = own_names[name]
        limits[own_name] = narrow_tool(limits.get(own_name, ToolSettings()), settings)
    if prompt.tool_names is None:
        return limits
    named = {own_names[name] for name in prompt.tool_names}
    if prompt.mode == "plan":
        named |= set(PLANNING_TOOLS)
    off = {name: structs.replace(settings, enabled=False) for name, settings in limits.items() if name not in named}
    return {
        OTHER_TOOLS: ToolSettings(enabled=False),
        **off,
        **{name: limits.get(name, ToolSettings()) for name in sorted(named)},
    }


def _encode(seq: int, events: list[StreamEvent]) -> list[bytes]:
    """Encode the stream events of one log event. Only the last frame has its number, so that a client that missed one
    reads all of them again."""
    last = len(events) - 1
    return [
        encode_event(event.name, encode_record(event), seq=seq if index == last else None)
        for index, event in enumerate(events)
    ]


def parse_answers(open_question: ev.QuestionAsked, text: str) -> tuple[QuestionAnswer, ...]:
    """Parse answers to questions from a message: lines like `q1: jwt`, or the whole text for the first question."""
    lines = [line.partition(":") for line in text.splitlines() if ":" in line]
    values_by_id: Mapping[str, str] = {key.strip().casefold(): value.strip() for key, _, value in lines}
    answered_pairs = [
        (question, values_by_id[question.id.casefold()])
        for question in open_question.questions
        if values_by_id.get(question.id.casefold())
    ]
    pairs = answered_pairs or [(open_question.questions[0], text.strip())]
    return tuple(_build_answer(question, value) for question, value in pairs if value)


def _build_answer(question: Question, text: str) -> QuestionAnswer:
    """Return the options that a text names by id or label; any other text is a free answer."""
    option_ids = {word.casefold(): option.id for option in question.options for word in (option.label, option.id)}
    words = [part.strip().casefold() for part in ([text] if text.casefold() in option_ids else text.split(","))]
    choices = tuple(dict.fromkeys(option_ids[word] for word in words if word in option_ids))
    if len(choices) == len(words) and (len(choices) == 1 or question.allow_multiple):
        return QuestionAnswer(question=question.id, options=choices)
    return QuestionAnswer(question=question.id, text=text)
