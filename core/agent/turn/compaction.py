"""Compaction: before the window is full, notes replace the older part of the conversation.

The user's messages stay word for word, as do the task list, the pending changes and the latest steps. A model writes
the notes; if that fails, they are a list of the steps.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.side_requests import SideRequests, record_usage
from core.agent.base.prompt_tags import escape_tags
from core.agent.context.dropped_reasoning import notify_shortened, strip_bound_reasoning
from core.agent.context.memory import ModelMemory
from core.agent.context.prefix import PromptSetup
from core.agent.context.reminders import append_reminder
from core.agent.context.sent_attachments import format_placeholder
from core.agent.context.skills import render_pinned
from core.agent.context.token_meter import measure_messages
from core.agent.context.turn_context import TurnContext
from core.agent.turn.prompt_setup import build_request
from core.errors import ProviderError
from core.hooks.dialect_names import HookEvent
from core.hooks.session_hooks import HookOccasion, SessionHooks
from core.patterns import compile_lazily
from core.plans.todo_graph import select_current
from core.prompts import render
from core.protocol.events import AnyEvent, ContextCompacted, ContextDropped, DroppedSpan, Notice
from core.protocol.messages import (
    AssistantMessage,
    EffortMessage,
    Message,
    ToolMessage,
    UserMessage,
    WireAnswer,
    WireProtocol,
)
from core.providers.base import CompactedHistory, CompactingProvider, ModelRequest
from core.shell.long_output import OUTPUT_FILE, shorten_middle, spill_output
from core.state.session import SessionState
from core.text.counting import count

UNKNOWN_WINDOW = 64_000  # tokens that are assumed for an unknown window
DEFAULT_SHARE = 0.85
LARGEST_SHARE = 0.98
TAIL_SHARE = 0.25
USER_MESSAGES_SHARE = 0.4
LEAST_WORDS, MOST_WORDS = 900, 2_500
SMALL_WINDOW, WORDS_PER_TOKEN = 100_000, 1_600 / 900_000
TOKENS_PER_WORD = 4
MAX_LISTED = 8_000  # characters of the steps that stand for an API's summary at another model
MAX_RULES, MAX_RULE = 8_000, 600  # characters of the user's prohibitions, together and each
IN_SUMMARY = "They are in the summary before this message."
_CALL, _RESULT, _MESSAGE = 600, 1_500, 4_000  # characters of one call, result or message in the input for the notes
MIN_DROPPED, KEPT_CHARS = 4_000, 400  # characters of a result that is dropped, and of those that are kept
DROPPED_SHARE = 0.3  # of all tokens: dropping less than that is not worth a request without its cache
DROPPED_RESULT = "\n[… {:,} characters of this result were dropped to make room; {} …]"
_shorten = partial(shorten_middle, unit="characters left out")
_TAGS = compile_lazily(r"</?[a-z_]+>|<system_reminder>.*?</system_reminder>", re.DOTALL)
_SENTENCE = compile_lazily(r"(?:[^.!?。！？\n]|[.!?](?=[^\s.!?]))+[.!?。！？]*")
# Words that forbid, in the languages that users write most.
_PROHIBITION = compile_lazily(
    r"\b(never|don['’]?t|do not|must not|mustn['’]?t|may not|should not|shouldn['’]?t|no longer|avoid|leave \S+ alone"
    r"|keep (out|away|off)|under no circumstances|nie(mals)?|nicht|kein\w*|verboten|jamais|interdit\w*|ne \S+ pas"
    r"|nunca|jam[aá]s|no (toques|uses|cambies|hagas)|n[aã]o|mai|non (usare|toccare)|никогда|нельзя|не)\b"
    r"|不要|不得|禁止|别|勿|しないで|してはいけ|하지 ?마",
    re.IGNORECASE,
)
_ATTACHED = compile_lazily(r"<attached_files>\n.*\n</attached_files>\n*", re.DOTALL)


BuildRequest = Callable[[Sequence[Message]], Awaitable[ModelRequest]]


class Compactor(Struct, frozen=True):
    """The compaction of one session's history. `window`: the tokens that a request may have, 0 = not known.
    `compactor`: see `ContextSettings`; `build_request`: builds a request of a history to the current model."""

    state: SessionState
    memory: ModelMemory
    side: SideRequests
    emit: Callable[[AnyEvent], None]
    window: int
    hooks: SessionHooks
    compactor: Literal["session", "small", "server"] = "session"
    build_request: BuildRequest | None = None

    def drop_results(self, prefix_bytes: int, directory: Path) -> bool:
        """Drop the large results of earlier steps from what the model sees, if that makes enough room. They are kept in
        files below `directory`, and the conversation stays as it was otherwise. Returns False if nothing was dropped.
        """
        meter, messages = self.memory.meter, list(self.state.messages)
        before = meter.count_tokens(prefix_bytes, messages)
        cut = _find_cut(messages, meter.estimate, round((self.window or UNKNOWN_WINDOW) * TAIL_SHARE))
        large_results = [
            (index, message)
            for index, message in enumerate(messages[:cut])
            if isinstance(message, ToolMessage) and len(message.content) > MIN_DROPPED
        ]
        sizes = [len(message.content.encode("utf-8", "replace")) - KEPT_CHARS for _, message in large_results]
        if meter.estimate(sum(sizes)) < before * DROPPED_SHARE:
            return False
        for (index, message), size in zip(large_results, sizes, strict=True):
            note = DROPPED_RESULT.format(len(message.content) - KEPT_CHARS, _name_source(directory, message))
            span = DroppedSpan(message=index, start=KEPT_CHARS, end=len(message.content))
            self.emit(ContextDropped(name="results", spans=(span,), note=note, tokens=meter.estimate(size)))
        meter.reset()
        self.memory.read_digests.clear()
        self.memory.compacted_tokens = after = meter.count_tokens(prefix_bytes, self.state.messages)
        self.emit(
            Notice(
                level="info",
                message=f"{count('old result', len(large_results))} no longer sent: {before:,} → {after:,} tokens.",
                hint="The model can read them again. Nothing is lost.",
            )
        )
        return True

    async def compact(self, prefix_bytes: int, *, is_full: bool = False, is_asked: bool = False) -> bool:
        """Replace the history. Emits `context.compacted` and returns True, unless it would not help or a hook refuses
        it.

        `is_full`: the model reported a full window, so the window is at most the size of the last request, whatever is
        known of it; `is_asked`: the user requested it.
        """
        trigger = "manual" if is_asked else "auto"
        if await self._is_refused(prefix_bytes, trigger, is_full=is_full):
            return False
        meter, messages = self.memory.meter, list(self.state.messages)
        before = meter.count_tokens(prefix_bytes, messages)
        window = self.window or UNKNOWN_WINDOW
        window = min(window, before) if is_full else window
        cut = _find_cut(messages, meter.estimate, round(window * TAIL_SHARE))
        older, tail = messages[:cut], messages[cut:]
        if not older and not is_full and before <= window * TAIL_SHARE:
            return False  # Clipping results would void all reasoning, and save little.
        notes, summary = "", None
        if not any(isinstance(message, AssistantMessage | ToolMessage) for message in older):
            tail = _clip_results(tail)
        else:
            summary = await self._have_summarised(older) if not is_full else None
            notes = IN_SUMMARY if summary is not None else await self._write_notes(older, window)
        tail, void = strip_bound_reasoning(tail)
        fresh = self._pin_skills(messages, self._build_start(older, notes, summary, window), tail)
        meter.reset()
        after = meter.count_tokens(prefix_bytes, fresh)
        self.memory.compacted_tokens = min(after, before)
        is_shorter = after < before
        if is_shorter:
            self.memory.read_digests.clear()
            self.memory.are_rules_due = True
            self.memory.announced.pop("mode", None)
            self.memory.announced.pop("goal", None)
            self.emit(ContextCompacted(messages=tuple(fresh), before_tokens=before, after_tokens=after))
            notify_shortened(self.emit, void, after - meter.estimate(prefix_bytes))
            await self._report_end(trigger, notes)
        return is_shorter

    def _build_start(
        self, older: Sequence[Message], notes: str, summary: CompactedHistory | None, window: int
    ) -> list[Message]:
        """Build what replaces the older messages: the user's own, and the notes or the API's summary."""
        room = round(window * USER_MESSAGES_SHARE * 4)
        user_messages = _select_user_messages(older, room)
        is_shortened = any(message not in older for message in user_messages)
        rules = _list_prohibitions(older) if is_shortened else ""
        start: list[Message] = list(user_messages)
        if summary is not None:
            place = 0 if summary.is_first else len(start)
            start.insert(place, self._build_summary(older, summary))
        return [*start, self._build_note(notes, rules)] if notes else start

    def _build_summary(self, older: Sequence[Message], summary: CompactedHistory) -> AssistantMessage:
        """Build the message that holds the API's summary; another model gets its text, or the list of the steps."""
        route = self.side.routes.current
        text = summary.text or _shorten("\n".join(_list_steps(older)), MAX_LISTED)
        wire: WireProtocol = "messages" if summary.is_first else "responses"
        return AssistantMessage(content=text, model=route.id, wire=WireAnswer(wire=wire, items=summary.items))

    async def _have_summarised(self, older: Sequence[Message]) -> CompactedHistory | None:
        """Return the summary of the model's API, None if it is not asked for or makes none."""
        route = self.side.routes.current
        provider: object = route.provider
        can_compact = route.capabilities.compacts and isinstance(provider, CompactingProvider)
        if self.compactor != "server" or self.build_request is None:
            return None
        if not can_compact:
            self.emit(
                Notice(level="info", message=f"The API of {route.id} makes no summaries: the model writes notes.")
            )
            return None
        assert isinstance(provider, CompactingProvider)
        try:
            summary = await provider.compact(await self.build_request(older))
        except ProviderError as error:
            message = f"The API of {route.id} made no summary: {error.message.rstrip('.')}. The model writes notes."
            self.emit(Notice(level="warning", message=message))
            return None
        usage = self.side.routes.add_cost(route, summary.usage)
        self.side.budget.add(usage, route.id)
        record_usage("chat", route, usage, self.side.budget, self.emit)
        return summary

    def _pin_skills(
        self, before: Sequence[Message], start: Sequence[Message], tail: Sequence[Message]
    ) -> tuple[Message, ...]:
        """Join the messages that stay, with the skills between them that they do not contain any more."""
        texts = render_pinned(tuple(self.state.skills.values()), before, (*start, *tail))
        return (*start, *(UserMessage(content=text, origin="program") for text in texts), *tail)

    async def _report_end(self, trigger: str, notes: str) -> None:
        """Run the hooks after the compaction. Those of the session's start run again, since their output was
        removed."""
        occasion = HookOccasion(
            event=HookEvent.POST_COMPACT,
            fields={"trigger": trigger, "compact_summary": notes},
            subjects=(trigger,),
        )
        outcomes = [await self.hooks.run(occasion)]
        if not self.hooks.get_agent_type():
            outcomes.append(await self.hooks.begin_session("compact", self.state.mode))
        if text := "\n".join(filter(None, (outcome.context for outcome in outcomes))):
            append_reminder(self.emit, f"A hook says:\n{escape_tags(text)}")

    async def _is_refused(self, prefix_bytes: int, trigger: str, *, is_full: bool) -> bool:
        """True if a hook refuses the compaction. If the window is full, hooks are informed but can't refuse."""
        if not self.hooks.has(HookEvent.PRE_COMPACT):
            return False
        tokens = self.memory.meter.count_tokens(prefix_bytes, self.state.messages)
        fields = {
            "trigger": trigger,
            "custom_instructions": "",
            "context_tokens": tokens,
            "context_window_size": self.window,
            "context_usage_percent": round(100 * tokens / self.window, 1) if self.window else 0,
            "message_count": len(self.state.messages),
        }
        outcome = await self.hooks.run(HookOccasion(event=HookEvent.PRE_COMPACT, fields=fields, subjects=(trigger,)))
        if outcome.is_denied:
            rest = " It is done anyway: the window is full." if is_full else ""
            self.emit(Notice(level="warning", message=f"Compaction: {outcome.describe_refusal()}{rest}"))
        return outcome.is_denied and not is_full

    async def _write_notes(self, older: Sequence[Message], window: int) -> str:
        text = "\n\n".join(_transcribe(message) for message in older)
        routes = self.side.routes
        words = count_words(window)
        system, own = render("compaction", words=words), replace(routes.current, effort="", tier="")
        for route in (*routes.small, own) if self.compactor == "small" else (own, *routes.small):
            room = min(route.window or window, window) * 2  # characters, about half of the window in tokens
            prompt = UserMessage(content=f"<conversation>\n{_shorten(text, room)}\n</conversation>")
            with suppress(ProviderError):
                notes = await self.side.ask("small", route, system, [prompt], max_tokens=words * TOKENS_PER_WORD)
                if notes.strip():
                    return notes.strip()
        return _shorten("\n".join(_list_steps(older)), max(window // 2, 4_000))

    def _build_note(self, notes: str, rules: str = "") -> UserMessage:
        changes = tuple(self.state.changes.values())
        todos = select_current(self.state.todos)
        text = render("reminders/compacted", summary=notes, rules=rules, todos=todos, changes=changes)
        return UserMessage(content=f"<system_reminder>\n{text}\n</system_reminder>", origin="program")


def build_compactor(context: TurnContext, setup: PromptSetup | None = None) -> Compactor:
    """Build the compactor of the session's history. `setup`: that of the session's requests, which an API needs to
    summarise one."""
    side, (room, _) = context.build_side_requests(), measure_room(context)
    return Compactor(
        context.state,
        context.memory,
        side,
        context.emit,
        room,
        context.hooks,
        context.settings.context.compactor,
        partial(build_request, context, setup) if setup is not None else None,
    )


def count_words(window: int) -> int:
    """Return the words that notes may have: the more, the larger the window."""
    words = round((window - SMALL_WINDOW) * WORDS_PER_TOKEN / 10) * 10
    return min(max(LEAST_WORDS + words, LEAST_WORDS), MOST_WORDS)


def _list_prohibitions(messages: Sequence[Message]) -> str:
    """List the sentences of the user that forbid something, word for word, the latest first if there are many."""
    sentences: list[str] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin == "user":
            text = _TAGS.sub("", _ATTACHED.sub("", message.content))
            sentences += [sentence.strip() for sentence in _SENTENCE.findall(text) if _PROHIBITION.search(sentence)]
    fitting, size = [], 0
    for sentence in dict.fromkeys(sentences):
        size += len(sentence)
        if size <= MAX_RULES and len(sentence) <= MAX_RULE:
            fitting.append(f"- {sentence}")
    return "\n".join(fitting)


def measure_room(context: TurnContext) -> tuple[int, int]:
    """Return the tokens that a request should have at most, and those at which the history is compacted; 0 = not known.

    A request should not have more than the window, than what costs the same per token, or than the user's number.
    """
    window, step = context.window, context.routes.current.price_step.tokens
    compact_at = context.settings.context.compact_at
    if compact_at > 1:
        room = min(filter(None, (window, round(compact_at / DEFAULT_SHARE))))
        return room, min(int(compact_at), round(room * LARGEST_SHARE))
    room = min(filter(None, (window, step)), default=0)
    return (room, round(room * compact_at)) if window else (0, 0)


def _name_source(directory: Path, message: ToolMessage) -> str:
    """Return where the model finds a result: in the file that it names, or in one that is written now."""
    match = OUTPUT_FILE.search(message.content)
    name = match[0] if match else spill_output(directory, message.call_id, message.content)[0]
    return f"read_file {name} has all of it" if name else "make it again if you need it"


def _find_cut(messages: Sequence[Message], estimate: Callable[[int], int], room: int) -> int:
    """Return the index of the tail: the latest steps that fit `room` tokens, without separating calls and results."""
    cut, size = len(messages), 0
    for index in range(len(messages) - 1, -1, -1):
        size += measure_messages(messages[index : index + 1])
        if estimate(size) > room:
            break
        if not isinstance(messages[index], ToolMessage):
            cut = index
    if cut == len(messages):  # Even the last step is too large: it stays, and may be clipped later.
        cut = next((i for i in range(len(messages) - 1, -1, -1) if not isinstance(messages[i], ToolMessage)), 0)
    return cut


def _clip_results(messages: Sequence[Message]) -> list[Message]:
    return [
        replace(message, content=_shorten(_render_with_placeholders(message), _RESULT), attachments=())
        if isinstance(message, ToolMessage)
        else message
        for message in messages
    ]


def _select_user_messages(messages: Sequence[Message], room: int) -> list[Message]:
    """Return the user's messages. If they exceed `room` bytes, attached files and then the middles of long ones are
    removed."""
    user_messages = [message for message in messages if isinstance(message, UserMessage) and message.origin == "user"]
    if measure_messages(user_messages) > room:
        user_messages = [
            UserMessage(content=_ATTACHED.sub("", _render_with_placeholders(message))) for message in user_messages
        ]
    if measure_messages(user_messages) > room:
        user_messages = [
            UserMessage(content=_shorten(message.content, max(room // len(user_messages), 2_000)))
            for message in user_messages
        ]
    return list(user_messages)


def _render_with_placeholders(message: UserMessage | ToolMessage) -> str:
    return "\n".join(
        (message.content, *(format_placeholder(attachment, "left out") for attachment in message.attachments))
    )


def _transcribe(message: Message) -> str:
    match message:
        case UserMessage(origin=origin):
            return (
                f"[{'user' if origin == 'user' else 'program'}]\n"
                f"{_shorten(_render_with_placeholders(message), _MESSAGE)}"
            )
        case ToolMessage(is_error=is_error):
            return f"[{'error' if is_error else 'result'}]\n{_shorten(_render_with_placeholders(message), _RESULT)}"
        case AssistantMessage():
            calls = [f"[call] {call.name} {_shorten(call.arguments, _CALL)}" for call in message.tool_calls]
            return "\n".join(("[agent]", _shorten(message.content, _MESSAGE), *calls))
        case EffortMessage(effort=effort):
            return f"[program]\nThe effort is {effort} from here on."


def _list_steps(older: Sequence[Message]) -> list[str]:
    lines = ["Earlier steps (results left out):"]
    for message in older:
        if isinstance(message, AssistantMessage):
            if message.content:
                lines.append(f"- said: {_shorten(message.content, 400)}")
            lines += [f"- called {call.name} {_shorten(call.arguments, 200)}" for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            lines.append(f"  -> {_shorten(message.content.strip().partition(chr(10))[0], 200)}")
        elif isinstance(message, UserMessage) and message.origin == "program":
            lines.append(f"- {_shorten(message.content, 2_000)}")
    return lines
