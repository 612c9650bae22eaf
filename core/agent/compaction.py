"""Making room: before the window is full, the older part of the conversation is replaced by notes.

All of the user's messages stay word for word, as do the task list, the pending changes and the latest steps. The notes
are written by a model; when that fails, they are made from the steps themselves, without one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from core.agent.limits import size_of
from core.agent.session import Route, SessionContext
from core.agent.streaming import closed_after
from core.agent.void_reasoning import tell_shortened, without_bound
from core.attachments import placeholder
from core.errors import ProviderError
from core.plans.graph import at_hand
from core.prompts import render
from core.protocol.events import ContextCompacted
from core.protocol.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from core.providers.base import ModelRequest, TextDelta, UsageReport

UNKNOWN_WINDOW = 64_000  # tokens to reckon with when nobody knows the window
TAIL_SHARE = 0.25
USER_SHARE = 0.4
NOTES_WORDS = 900
NOTES_TOKENS = 4_000
_CALL, _RESULT, _SAID = 600, 1_500, 4_000  # characters of each in what the notes are made from
_ATTACHED = re.compile(r"<attached_files>\n.*\n</attached_files>\n*", re.DOTALL)


async def compact(session: SessionContext, prefix_bytes: int, *, is_full: bool = False) -> Usage:
    """Replace the history; returns what the notes cost. Emits `context.compacted`, or nothing if there is no use.

    `is_full`: the model said that its window is, so it is no larger than what was sent, whatever is known of it."""
    messages = list(session.state.messages)
    before = session.meter.tokens(prefix_bytes, messages)
    window = window_of(session) or UNKNOWN_WINDOW
    window = min(window, before) if is_full else window
    cut = _cut(messages, session.meter.estimate, round(window * TAIL_SHARE))
    older, tail = messages[:cut], messages[cut:]
    if not older and not is_full and before <= window * TAIL_SHARE:
        return Usage()  # cutting results short would make all reasoning void, for little
    if not any(isinstance(message, AssistantMessage | ToolMessage) for message in older):
        tail = _clipped(tail)
        notes, usage = "", Usage()
    else:
        notes, usage = await _notes(session, older, window)
    kept = _users(older, round(window * USER_SHARE * 4))
    tail, void = without_bound(tail)
    fresh = (*kept, _note(session, notes), *tail) if notes else (*kept, *tail)
    session.meter.forget()
    after = session.meter.tokens(prefix_bytes, fresh)
    session.floor = min(after, before)
    if after < before:
        session.seen.clear()
        session.told.pop("mode", None)
        session.emit(ContextCompacted(messages=tuple(fresh), before_tokens=before, after_tokens=after))
        tell_shortened(session, void, after - session.meter.estimate(prefix_bytes))
    return usage


def window_of(session: SessionContext) -> int:
    """Tokens; 0 = not known."""
    return session.settings.context.window or session.route.window


def is_due(session: SessionContext, used: int) -> bool:
    """Whether to make room now; not again before the history has grown by a fifth since it was last tried."""
    window = window_of(session)
    return window > 0 and used >= window * session.settings.context.compact_at and used > session.floor * 1.2


def _cut(messages: Sequence[Message], estimate: Callable[[int], int], room: int) -> int:
    """Where the tail begins: as many of the latest steps as fit, and never between a call and its result."""
    cut, size = len(messages), 0
    for index in range(len(messages) - 1, -1, -1):
        size += size_of(messages[index : index + 1])
        if estimate(size) > room:
            break
        if not isinstance(messages[index], ToolMessage):
            cut = index
    if cut == len(messages):  # even the last step is too large: it stays, clipped later if it must
        cut = next((i for i in range(len(messages) - 1, -1, -1) if not isinstance(messages[i], ToolMessage)), 0)
    return cut


def _clipped(messages: Sequence[Message]) -> list[Message]:
    """The same messages with their tool results cut short."""
    return [
        replace(message, content=_short(_with_placeholders(message), _RESULT), attachments=())
        if isinstance(message, ToolMessage)
        else message
        for message in messages
    ]


def _users(messages: Sequence[Message], room: int) -> list[Message]:
    """The user's own messages. Only when they alone would fill the window, what was attached to them is left out, and
    then the middle of the longest."""
    own = [message for message in messages if isinstance(message, UserMessage) and message.origin == "user"]
    if size_of(own) > room:
        own = [UserMessage(content=_ATTACHED.sub("", _with_placeholders(message))) for message in own]
    if size_of(own) > room:
        own = [UserMessage(content=_short(message.content, max(room // len(own), 2_000))) for message in own]
    return list(own)


def _with_placeholders(message: UserMessage | ToolMessage) -> str:
    """What a message said, and a line for each picture that went with it."""
    return "\n".join((message.content, *(placeholder(each, "left out") for each in message.attachments)))


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"


def _note(session: SessionContext, notes: str) -> UserMessage:
    text = render(
        "reminders/compacted",
        summary=notes,
        todos=at_hand(session.state.todos),
        changes=tuple(session.state.changes.values()),
    )
    return UserMessage(content=f"<system_reminder>\n{text}\n</system_reminder>", origin="program")


async def _notes(session: SessionContext, older: Sequence[Message], window: int) -> tuple[str, Usage]:
    """What a model makes of the older messages; if no model can, a list of the steps."""
    text = "\n\n".join(_told(message) for message in older)
    for route in (*session.small, replace(session.route, effort="")):
        room = min(route.window or window, window) * 2  # characters: about half of the window
        try:
            return await _ask(session, route, _short(text, room))
        except ProviderError:
            continue
    return _short("\n".join(_brief(older)), max(window // 2, 4_000)), Usage()


def _told(message: Message) -> str:
    match message:
        case UserMessage(origin=origin):
            return f"[{'user' if origin == 'user' else 'program'}]\n{_short(_with_placeholders(message), _SAID)}"
        case ToolMessage(is_error=is_error):
            return f"[{'error' if is_error else 'result'}]\n{_short(_with_placeholders(message), _RESULT)}"
        case AssistantMessage():
            calls = [f"[call] {call.name} {_short(call.arguments, _CALL)}" for call in message.tool_calls]
            return "\n".join(("[agent]", _short(message.content, _SAID), *calls))


def _brief(older: Sequence[Message]) -> list[str]:
    lines = ["Earlier steps (results left out):"]
    for message in older:
        if isinstance(message, AssistantMessage):
            if message.content:
                lines.append(f"- said: {_short(message.content, 400)}")
            lines += [f"- called {call.name} {_short(call.arguments, 200)}" for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            lines.append(f"  -> {_short(message.content.strip().partition(chr(10))[0], 200)}")
        elif message.origin == "program":
            lines.append(f"- {_short(message.content, 2_000)}")
    return lines


async def _ask(session: SessionContext, route: Route, text: str) -> tuple[str, Usage]:
    request = ModelRequest(
        model=route.model,
        system=render("compaction", words=NOTES_WORDS),
        tools=(),
        messages=(UserMessage(content=f"<conversation>\n{text}\n</conversation>"),),
        max_tokens=NOTES_TOKENS,
        effort=route.effort,
        session=f"{session.id}-notes",
        private=session.private,
    )
    parts: list[str] = []
    usage = Usage()
    async with closed_after(route.provider.stream(request)) as stream:
        async for delta in stream:
            if isinstance(delta, TextDelta):
                parts.append(delta.text)
            elif isinstance(delta, UsageReport):
                usage = session.priced(route, delta.usage)
    session.used("small", route, usage)
    notes = "".join(parts).strip()
    if not notes:
        raise ProviderError("The model wrote no notes.", code="empty_answer")
    return notes, usage
