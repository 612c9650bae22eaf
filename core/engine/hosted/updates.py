"""Updates of a hosted agent on its turn (`session/update`), as documents and events of ours.

Nothing of it has an effect: what it wrote is found in its layer. So whatever it says of files is shown, and not
believed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from core.agent.answer.documents import AnswerDocuments, OpenDocument, TurnDocuments
from core.clock import monotonic
from core.languages import detect_language
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.text.line_diff import diff_lines

MAX_OUTPUT: Final = 100_000  # characters of a result that are kept
MAX_TODOS: Final = 200
_KINDS: Final = {"execute": "terminal_command"}
_STATUS: Final[Mapping[str, d.TodoStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}
_EDITS: Final = frozenset({"edit", "delete", "move"})


class HostedCall(Struct, kw_only=True):
    """A tool call as the agent told it so far. `content`: its blocks; `shown`: its document; `is_over`: finished."""

    id: str
    shown: OpenDocument
    title: str = ""
    kind: str = "other"
    raw_input: Any = None
    raw_output: Any = None
    content: list[Any] = field(default_factory=list)
    locations: list[Any] = field(default_factory=list)
    status: str = "pending"
    is_over: bool = False

    def merge(self, update: Mapping[str, Any]) -> None:
        """Take what an update says; what it leaves out stays."""
        self.title = str(update.get("title") or self.title)
        self.kind = str(update.get("kind") or self.kind)
        self.status = str(update.get("status") or self.status)
        self.raw_input = update.get("rawInput", self.raw_input)
        self.raw_output = update.get("rawOutput", self.raw_output)
        for name in ("content", "locations"):
            if isinstance(found := update.get(name), list):
                setattr(self, name, found)

    @property
    def command(self) -> str:
        """The command line that it runs, "" = it is none, or does not say."""
        given = self.raw_input.get("command") if isinstance(self.raw_input, dict) else None
        if isinstance(given, list):
            return " ".join(map(str, given))
        return given if isinstance(given, str) else ""

    def read_text(self) -> str:
        """Return what it gave as text."""
        blocks = [each.get("content") for each in self.content if isinstance(each, dict)]
        texts = [each["text"] for each in blocks if isinstance(each, dict) and isinstance(each.get("text"), str)]
        if not texts and isinstance(self.raw_output, str):
            texts = [self.raw_output]
        return "\n".join(texts)[:MAX_OUTPUT]

    def list_diffs(self) -> list[Mapping[str, Any]]:
        """Return its diffs: `{path, oldText, newText}`."""
        return [each for each in self.content if isinstance(each, dict) and each.get("type") == "diff"]


class UpdateReader:
    """The updates of one turn. `said`: the text of the answer; `usage`: what the agent told of its cost."""

    def __init__(self, agent: str, root: Path, emit: Callable[[ev.AnyEvent], None]) -> None:
        self.said, self.usage = "", Usage()
        self.calls: dict[str, HostedCall] = {}
        self._agent, self._root, self._emit = agent, root, emit
        self._documents = TurnDocuments(emit)
        self._answer = AnswerDocuments(self._documents)
        self._thought = 0
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "agent_message_chunk": self._add_text,
            "agent_thought_chunk": self._add_thought,
            "tool_call": self._take_call,
            "tool_call_update": self._take_call,
            "plan": self._take_plan,
            "usage_update": self._take_usage,
        }

    def take(self, update: Mapping[str, Any]) -> None:
        """Take one update; one of a kind that is not known is passed over."""
        handler = self._handlers.get(str(update.get("sessionUpdate")))
        if handler is not None:
            handler(update)

    def _add_text(self, update: Mapping[str, Any]) -> None:
        text = _read_block(update.get("content"))
        self.said += text
        self._answer.add_text(text)

    def _add_thought(self, update: Mapping[str, Any]) -> None:
        self._answer.add_reasoning(_read_block(update.get("content")), self._thought)

    def _take_call(self, update: Mapping[str, Any]) -> None:
        call = self.describe_call(update)
        if call is not None and not call.is_over and call.status in {"completed", "failed"}:
            self._finish(call)

    def describe_call(self, update: Mapping[str, Any]) -> HostedCall | None:
        """Return the call that an update (or a request for permission) is about, begun if it is new; None: it names
        none."""
        identity = update.get("toolCallId")
        if not isinstance(identity, str):
            return None
        call = self.calls.get(identity)
        if call is None or (call.is_over and update.get("sessionUpdate") == "tool_call"):  # some number them anew
            self._answer.close()
            self._thought += 1
            kind, title = str(update.get("kind") or "other"), str(update.get("title") or "a tool")
            shown = self._documents.open(_KINDS.get(kind, "file_edit" if kind in _EDITS else "tool_call"), title=title)
            call = self.calls[identity] = HostedCall(id=identity, shown=shown)
            call.merge(update)
            self._emit(
                ev.ToolRequested(
                    call=identity,
                    tool=self._name(call),
                    arguments=msgspec.json.encode(call.raw_input).decode() if call.raw_input is not None else "{}",
                    document=shown.id,
                    summary=title,
                )
            )
        else:
            call.merge(update)
        return call

    def _name(self, call: HostedCall) -> str:
        return f"{self._agent}:{call.kind}"

    def _finish(self, call: HostedCall, status: Literal["completed", "failed", "cancelled"] | None = None) -> None:
        call.is_over = True
        ended = status or ("completed" if call.status == "completed" else "failed")
        for document in self._build_documents(call, is_error=ended != "completed"):
            self._documents.finish(document)
        self._emit(
            ev.ToolFinished(
                call=call.id,
                tool=self._name(call),
                status=ended,
                duration_ms=call.shown.measure_duration_ms(),
                summary=call.title,
            )
        )

    def _build_documents(self, call: HostedCall, *, is_error: bool) -> list[d.AnyDocument]:
        if call.shown.kind == "terminal_command":
            return [self._build_command(call, is_error=is_error)]
        diffs = call.list_diffs()
        if call.shown.kind == "file_edit" and (diffs or call.locations):
            shown = [call.shown, *(self._documents.open("file_edit", title=call.title) for _ in diffs[1:])]
            edits = diffs or [{"path": _read_location(call.locations[0])}]
            return [
                self._build_edit(call, each, opened, is_error=is_error)
                for each, opened in zip(edits, shown, strict=False)
            ]
        metadata = d.ToolCallMetadata(
            tool_name=self._name(call),
            tool_call_id=call.id,
            arguments=call.raw_input if isinstance(call.raw_input, dict) else {},
            result=d.ToolResult(status="error" if is_error else "success", data=call.read_text()),
            duration_ms=call.shown.measure_duration_ms(),
            summary=call.title,
        )
        return [_convert_kind(call.shown, metadata)]

    def _build_command(self, call: HostedCall, *, is_error: bool) -> d.AnyDocument:
        given = call.raw_output if isinstance(call.raw_output, dict) else {}
        code = given.get("exit_code", given.get("exitCode"))
        metadata = d.TerminalCommandMetadata(
            command=call.command or call.title,
            exit_code=code if isinstance(code, int) else int(is_error),
            output=call.read_text(),
            duration_ms=call.shown.measure_duration_ms(),
            tool_call_id=call.id,
            is_reported=True,
        )
        return d.TerminalCommandDocument(id=call.shown.id, sequence=call.shown.sequence, metadata=metadata)

    def _build_edit(
        self, call: HostedCall, diff: Mapping[str, Any], opened: OpenDocument, *, is_error: bool
    ) -> d.AnyDocument:
        old, new = diff.get("oldText"), diff.get("newText")
        operation: d.FileOperation = "create" if "newText" in diff and old is None else "edit"
        path = self._make_relative(str(diff.get("path", "")))
        added, removed = _count_lines(str(old or "").splitlines(), str(new or "").splitlines())
        metadata = d.FileEditMetadata(
            file_path=path,
            operation="delete" if call.kind == "delete" else operation,
            language=detect_language(path),
            tool_name=self._name(call),
            tool_call_id=call.id,
            status="error" if is_error else "success",
            added=added,
            removed=removed,
        )
        content = new if isinstance(new, str) else None
        return d.FileEditDocument(id=opened.id, sequence=opened.sequence, content=content, metadata=metadata)

    def _make_relative(self, path: str) -> str:
        root = str(self._root)
        return posixpath.relpath(path, root) if path == root or path.startswith(f"{root}/") else path

    def _take_plan(self, update: Mapping[str, Any]) -> None:
        entries = update.get("entries")
        found = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
        todos = tuple(
            d.Todo(
                id=f"step-{number}",
                content=str(each.get("content", "")),
                status=_STATUS.get(str(each.get("status")), "pending"),
            )
            for number, each in enumerate(found[:MAX_TODOS], 1)
        )
        self._emit(ev.TodoChanged(todos=todos))

    def _take_usage(self, update: Mapping[str, Any]) -> None:
        cost = update.get("cost")
        amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency") == "USD" else None
        if isinstance(amount, int | float):
            self.usage = Usage(cost=float(amount))

    def add_error(self, code: str, message: str, *, hint: str = "") -> None:
        """Show an error as a document of its own."""
        self._answer.close()
        self._documents.add_error(code, message, hint=hint, source=self._agent)

    def add_text(self, text: str) -> None:
        """Show a line of ours beside what the agent said."""
        self._answer.close()
        self._documents.add_text(text)

    def close(self) -> None:
        """Finish what is open: the turn ends."""
        self._answer.close()
        for call in self.calls.values():
            if not call.is_over:
                self._finish(call, "cancelled")


def _convert_kind(shown: OpenDocument, metadata: d.ToolCallMetadata) -> d.AnyDocument:
    return d.ToolCallDocument(id=shown.id, sequence=shown.sequence, metadata=metadata)


def _read_block(block: Any) -> str:
    """Return a content block as text."""
    if not isinstance(block, dict):
        return ""
    if isinstance(text := block.get("text"), str):
        return text
    name = block.get("uri") or block.get("name") or block.get("type", "")
    return f"[{name}]" if name else ""


def _count_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are added and removed between two texts."""
    differing = [each for each in diff_lines(old, new) if each[0] != "equal"]
    return sum(each[4] - each[3] for each in differing), sum(each[2] - each[1] for each in differing)


def _read_location(location: Any) -> str:
    return str(location.get("path", "")) if isinstance(location, dict) else ""


def measure_since(started: float) -> int:
    """Return the milliseconds since a moment of the monotonic clock."""
    return round((monotonic() - started) * 1000)
