"""Parts of the history: the blocks of a request, the reason for every one, and whether the user can drop it.

They are parsed from the messages as they are sent, so a request holds the listed parts and nothing else. A dropped part
leaves a line within its tags: without the tags it would be sent again with the next prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

from msgspec import Struct

from core.agent.context.token_meter import measure_messages
from core.patterns import compile_lazily
from core.protocol.events import DroppedSpan
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.text.counting import count

_SECTION: Final = compile_lazily(r"^<([a-z_]+)>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
_BLOCK: Final = compile_lazily(r"^<(file|rule) ([^>\n]*)(?<!/)>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
_ATTRIBUTE: Final = compile_lazily(r'([a-z]+)="([^"]*)"')
MAX_QUOTED: Final = 60  # characters of a prompt

_REASONS: Final = {
    "user_info": ("system and directory", "sent once, with the first prompt"),
    "project_layout": ("project layout", "sent once, with the first prompt"),
    "client_layout": ("layout from the client", "sent once, as the client gave it"),
    "repo_map": ("map of the project", "sent once: the most important signatures"),
    "now": ("date and model", "sent when it changes"),
    "git_status": ("git status", "sent when it has changed"),
    "open_and_recently_viewed_files": ("files on screen", "what you are looking at, sent when it has changed"),
}
NEWS_IS_NEEDED: Final = "the agent needs to know its mode, your verdicts and what happened"
PICTURES_STAY: Final = "f5 goes back to before it"
_FIXED: Final = {
    "user_query": "your own words stay; f5 goes back to before them",
    "rules": "a rule in force would be sent again; change its file",
    "system_reminder": NEWS_IS_NEEDED,
    "now": "it is a line",
    "user_info": "it is only three lines",
}
ANSWERS_STAY: Final = "an answer is sent back as it came; /compact shortens the conversation"


class HistoryPart(Struct, frozen=True, kw_only=True):
    """A part of the history. `problem`: why it can't be dropped, "" = it can; `spans`: its spans of messages; `size`:
    in bytes."""

    id: str
    name: str
    reason: str
    spans: tuple[DroppedSpan, ...]
    size: int
    problem: str = ""
    detail: str = ""


def list_history_parts(messages: Sequence[Message]) -> list[HistoryPart]:
    """List the parts of a history, in order. The results of one tool, and all answers, form one part."""
    calls = {
        call.id: call.name
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    parts: list[HistoryPart] = []
    results: dict[str, list[int]] = {}
    answers: list[Message] = []
    for index, message in enumerate(messages):
        match message:
            case UserMessage(content=content):
                parts += list(_list_sections(index, content)) or [_build_whole(index, message)]
                if message.attachments:
                    size = measure_messages([message]) - len(content.encode("utf-8", "replace"))
                    name = ", ".join(attachment.name or attachment.media_type for attachment in message.attachments)
                    parts.append(_join(name, "attached to your message", [], size, problem=PICTURES_STAY, detail=""))
            case ToolMessage(call_id=call):
                results.setdefault(calls.get(call, "a tool"), []).append(index)
            case AssistantMessage():
                answers.append(message)
    if answers:
        size = measure_messages(answers)
        parts.append(_join("answers", "written by the model", [], size, problem=ANSWERS_STAY, detail=_count(answers)))
    parts += [_describe_results(tool, places, messages) for tool, places in results.items()]
    return parts


def _build_whole(index: int, message: UserMessage) -> HistoryPart:
    """Build the part of a message without sections."""
    is_own = message.origin == "user"
    labels = (
        ("a message", "what you said", _FIXED["user_query"])
        if is_own
        else ("reminder", "sent by the program", NEWS_IS_NEEDED)
    )
    return _build_part(index, (0, len(message.content)), message.content, labels)


def _list_sections(index: int, content: str) -> Iterator[HistoryPart]:
    """List the sections of a message; text between them is the user's."""
    sections = list(_SECTION.finditer(content))
    query = next((section[2] for section in sections if section[1] == "user_query"), "")
    quote = " ".join(query.split())
    circumstance = f"with “{quote[:MAX_QUOTED]}{'…' if len(quote) > MAX_QUOTED else ''}”" if quote else "with a message"
    for section in sections:
        tag = section[1]
        if tag in ("attached_files", "rules"):
            yield from _list_blocks(index, section, content, circumstance)
            continue
        name, reason = _REASONS.get(tag, ("reminder", "sent by the program"))
        if tag == "user_query":
            name, reason = f"“{quote[:MAX_QUOTED]}”", "what you said"
        yield _build_part(index, section.span(2), content, (name, reason, _FIXED.get(tag, "")))


def _list_blocks(index: int, section: re.Match[str], content: str, circumstance: str) -> Iterator[HistoryPart]:
    for block in _BLOCK.finditer(content, section.start(2), section.end(2)):
        attributes = dict(_ATTRIBUTE.findall(block[2]))
        name = attributes.get("path") or attributes.get("name", "")
        if attributes.get("lines"):
            name += f":{attributes['lines']}"
        if attributes.get("symbol"):
            name = f"{attributes['symbol']} · {name}"
        is_rule = section[1] == "rules"
        reason = f"a rule that applied {circumstance}" if is_rule else f"sent {circumstance}"
        problem = _FIXED["rules"] if is_rule else ""
        yield _build_part(index, block.span(3), content, (name, reason, problem), attributes.get("note", ""))


def _build_part(
    index: int, span: tuple[int, int], content: str, labels: tuple[str, str, str], detail: str = ""
) -> HistoryPart:
    start, end = span
    name, reason, problem = labels
    text = content[start:end].encode("utf-8", "replace")
    spans = (DroppedSpan(message=index, start=start, end=end),)
    return HistoryPart(
        id=f"{index}:{start}:{crc32(text):08x}",
        name=name,
        reason=reason,
        spans=spans,
        size=len(text),
        problem=problem or ("it is already left out" if text.startswith(b"(left out") else ""),
        detail=detail,
    )


def _describe_results(tool: str, places: Sequence[int], messages: Sequence[Message]) -> HistoryPart:
    result_messages = [messages[index] for index in places]
    spans = [
        DroppedSpan(message=index, start=0, end=len(message.content))
        for index, message in zip(places, result_messages, strict=True)
        if isinstance(message, ToolMessage) and not message.content.startswith("(left out")
    ]
    problem = "" if spans else "they are already left out"
    reason = "read or run by the agent"
    return _join(
        f"results of {tool}",
        reason,
        spans,
        measure_messages(result_messages),
        problem=problem,
        detail=_count(result_messages),
    )


def _join(name: str, reason: str, spans: Sequence[DroppedSpan], size: int, *, problem: str, detail: str) -> HistoryPart:
    key = "".join(f"{span.message}:{span.end};" for span in spans).encode()
    return HistoryPart(
        id=f"{name}:{crc32(key):08x}",
        name=name,
        reason=reason,
        spans=tuple(spans),
        size=size,
        problem=problem,
        detail=detail,
    )


def _count(messages: Sequence[Message]) -> str:
    return count("message", len(messages))
