"""Convert updates of a hosted agent (`session/update`) to documents and events of ours.

Updates have no effect: the agent's writes are in its layer. So its reports about files are shown, but not relied on.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from core.agent.answer.documents import AnswerDocuments, OpenDocument, TurnDocuments
from core.languages import detect_language
from core.patterns import compile_lazily
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.protocol.paths import is_below
from core.text.lines import diff_lines

MAX_OUTPUT: Final = 100_000  # characters of a result
MAX_TODOS: Final = 200
_KINDS: Final = {"execute": "terminal_command"}
_STATUS: Final[Mapping[str, d.TodoStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}
_EDITS: Final = frozenset({"edit", "delete", "move"})
_NO_WORK: Final = frozenset({"think", "switch_mode"})
_FENCED: Final = compile_lazily(r"(?s)(?P<fence>```+)[a-z]*\n((?:(?!```).)*?)\n?(?P=fence)")
_QUOTED: Final = compile_lazily(r"`([^`]+)`")
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
_NOT_STARTED: Final = frozenset({126, 127})  # exit codes of a shell for a command that it could not start
# Errors of the agent's own sandbox, which can't be set up inside of the box.
_NO_SANDBOX: Final = compile_lazily(
    r"^\W*(?:bwrap|sandbox-exec|codex-linux-sandbox|firejail|nsjail|unshare)\b.*:|\blandlock|\bseatbelt\b|\bseccomp\b|"
    r"\bsandbox(?:ing)? (?:error|denied|failed|could not|can't)\b|\b(?:create|apply|start) (?:a |the )?sandbox\b",
    re.MULTILINE | re.IGNORECASE,
)
_HEAD: Final = 400  # characters of an output that are searched for them


class HostedCall(Struct, kw_only=True):
    """A tool call, as far as the agent has reported it. `content`: its blocks; `terminal`: the output of its command,
    if that is reported separately; `exit_code`: None = not reported; `document`: its document; `is_refused`: it was
    denied; `was_asked`: the agent asked for permission."""

    id: str
    document: OpenDocument
    title: str = ""
    kind: str = "other"
    raw_input: Any = None
    raw_output: Any = None
    content: list[Any] = field(default_factory=list)
    locations: list[Any] = field(default_factory=list)
    terminal: str = ""
    exit_code: int | None = None
    status: str = "pending"
    is_over: bool = False
    is_refused: bool = False
    was_asked: bool = False

    def merge(self, update: Mapping[str, Any]) -> None:
        """Apply an update; fields that it omits stay."""
        self.title = str(update.get("title") or self.title)
        self.kind = str(update.get("kind") or self.kind)
        self.status = str(update.get("status") or self.status)
        self.raw_input = update.get("rawInput", self.raw_input)
        self.raw_output = update.get("rawOutput", self.raw_output)
        for name in ("content", "locations"):
            if isinstance(value := update.get(name), list):
                setattr(self, name, value)
        self._merge_terminal(update.get("_meta"))
        code = _read_number(self.raw_output, "exit_code", "exitCode", "exit")
        self.exit_code = code if code is not None else self.exit_code

    def _merge_terminal(self, meta: Any) -> None:
        """Apply what adapters report outside of the protocol: a command's output in pieces, and its exit code."""
        if not isinstance(meta, dict):
            return
        for name in ("terminal_output", "terminal_output_delta"):
            piece = meta.get(name)
            if isinstance(piece, dict) and isinstance(piece.get("data"), str):
                self.terminal = (self.terminal + piece["data"])[:MAX_OUTPUT]
        code = _read_number(meta.get("terminal_exit"), "exit_code")
        self.exit_code = code if code is not None else self.exit_code

    @property
    def command(self) -> str:
        """The command line, "" = the call is no command. Agents that report no input have it in the title."""
        raw_input = self.raw_input if isinstance(self.raw_input, dict) else {}
        for command in (raw_input.get("command"), raw_input.get("cmd")):
            if isinstance(command, list) and command:
                return _join_words([str(word) for word in command])
            if isinstance(command, str) and command:
                return command
        if self.kind != "execute":
            return ""
        match = _QUOTED.fullmatch(self.title)
        return match[1] if match is not None else self.title

    @property
    def has_run(self) -> bool:
        """True if the call was started; a command that ended with an error was."""
        if self.kind != "execute":
            return self.status == "completed"
        has_failed = self.status != "completed" or self.exit_code not in {None, 0}
        if self.exit_code in _NOT_STARTED or (has_failed and _NO_SANDBOX.search(self.read_text()[:_HEAD])):
            return False
        return self.status == "completed" or self.exit_code is not None or bool(self.read_text().strip())

    @property
    def has_edited(self) -> bool:
        """True if the call reports an edit, and was neither refused nor failed."""
        return self.document.kind == "file_edit" and self.status != "failed" and not self.is_refused

    def read_text(self) -> str:
        """Return its result as text."""
        blocks = [entry.get("content") for entry in self.content if isinstance(entry, dict)]
        texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
        if not texts and isinstance(self.raw_output, str):
            texts = [self.raw_output]
        return "\n".join(texts or [self.terminal])[:MAX_OUTPUT]

    def read_output(self) -> str:
        """Return the output of its command: the raw output if the agent reports it, since its blocks may describe the
        command; else its blocks, without the fence that some agents put around them."""
        if raw := self.terminal or (self.raw_output if isinstance(self.raw_output, str) else ""):
            return raw[:MAX_OUTPUT]
        text = self.read_text()
        match = _FENCED.fullmatch(text.strip())
        return match[2] if match is not None else text

    def list_diffs(self) -> list[Mapping[str, Any]]:
        """Return its diffs: `{path, oldText, newText}`."""
        return [entry for entry in self.content if isinstance(entry, dict) and entry.get("type") == "diff"]


class UpdateReader:
    """The updates of one turn. `answer_text`: the text of the answer; `usage`: the cost that the agent reported."""

    def __init__(self, agent: str, root: Path, emit: Callable[[ev.AnyEvent], None]) -> None:
        self.answer_text, self.usage = "", Usage()
        self.calls: dict[str, HostedCall] = {}
        self._all_calls: list[HostedCall] = []  # some agents reuse ids
        self._is_broken = False
        self._agent, self._root, self._emit = agent, root, emit
        self._documents = TurnDocuments(emit)
        self._answer = AnswerDocuments(self._documents)
        self._thought = 0
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "agent_message_chunk": self._add_text,
            "agent_thought_chunk": self._add_thought,
            "tool_call": self._apply_call,
            "tool_call_update": self._apply_call,
            "plan": self._apply_plan,
            "usage_update": self._apply_usage,
            "session_info_update": self._apply_status,
        }

    def apply(self, update: Mapping[str, Any]) -> None:
        """Apply one update; unknown kinds are ignored."""
        handler = self._handlers.get(str(update.get("sessionUpdate")))
        if handler is not None:
            handler(update)

    def _add_text(self, update: Mapping[str, Any]) -> None:
        text = _read_block(update.get("content"))
        self.answer_text += text
        self._answer.add_text(text)

    def _add_thought(self, update: Mapping[str, Any]) -> None:
        self._answer.add_reasoning(_read_block(update.get("content")), self._thought)

    def _apply_call(self, update: Mapping[str, Any]) -> None:
        call = self.describe_call(update)
        if call is not None and not call.is_over and call.status in {"completed", "failed"}:
            self._finish(call)

    def describe_call(self, update: Mapping[str, Any]) -> HostedCall | None:
        """Return the call of an update or of a request for permission, opened if it is new; None: it has no id."""
        identity = update.get("toolCallId")
        if not isinstance(identity, str):
            return None
        call = self.calls.get(identity)
        if call is None or (call.is_over and update.get("sessionUpdate") == "tool_call"):  # a reused id
            self._answer.close()
            self._thought += 1
            kind, title = str(update.get("kind") or "other"), str(update.get("title") or "a tool")
            open_document = self._documents.open(
                _KINDS.get(kind, "file_edit" if kind in _EDITS else "tool_call"), title=title
            )
            call = self.calls[identity] = HostedCall(id=identity, document=open_document)
            self._all_calls.append(call)
            call.merge(update)
            self._emit(
                ev.ToolRequested(
                    call=identity,
                    tool=self._name(call),
                    arguments=msgspec.json.encode(call.raw_input).decode() if call.raw_input is not None else "{}",
                    document=open_document.id,
                    summary=title,
                )
            )
        else:
            call.merge(update)
        return call

    def _name(self, call: HostedCall) -> str:
        return f"{self._agent}:{call.kind}"

    def _finish(self, call: HostedCall, otherwise: ev.ToolStatus = "failed") -> None:
        call.is_over = True
        status: ev.ToolStatus = "denied" if call.is_refused else otherwise
        if call.status == "completed":
            status = "completed"
        for document in self._build_documents(call, is_error=status != "completed"):
            self._documents.finish(document)
        self._emit(
            ev.ToolFinished(
                call=call.id,
                tool=self._name(call),
                status=status,
                duration_ms=call.document.measure_duration_ms(),
                summary=call.title,
            )
        )

    def _build_documents(self, call: HostedCall, *, is_error: bool) -> list[d.AnyDocument]:
        if call.document.kind == "terminal_command":
            return [self._build_command(call, is_error=is_error)]
        diffs = call.list_diffs()
        if call.document.kind == "file_edit" and not is_error and (diffs or call.locations):
            open_documents = [call.document, *(self._documents.open("file_edit", title=call.title) for _ in diffs[1:])]
            edits = diffs or [{"path": _read_location(call.locations[0])}]
            return [
                self._build_edit(call, edit, open_document)
                for edit, open_document in zip(edits, open_documents, strict=False)
            ]
        metadata = d.ToolCallMetadata(
            tool_name=self._name(call),
            tool_call_id=call.id,
            arguments=call.raw_input if isinstance(call.raw_input, dict) else {},
            result=d.ToolResult(status="error" if is_error else "success", data=call.read_text()),
            duration_ms=call.document.measure_duration_ms(),
            summary=call.title,
        )
        return [_convert_kind(call.document, metadata)]

    def _build_command(self, call: HostedCall, *, is_error: bool) -> d.AnyDocument:
        metadata = d.TerminalCommandMetadata(
            command=call.command or call.title,
            exit_code=call.exit_code if call.exit_code is not None else int(is_error),
            output=call.read_output(),
            duration_ms=call.document.measure_duration_ms(),
            tool_call_id=call.id,
            is_reported=True,
        )
        return d.TerminalCommandDocument(id=call.document.id, sequence=call.document.sequence, metadata=metadata)

    def _build_edit(self, call: HostedCall, diff: Mapping[str, Any], open_document: OpenDocument) -> d.AnyDocument:
        old, new = diff.get("oldText"), diff.get("newText")
        operation: d.FileOperation = "create" if "newText" in diff and old is None else "edit"
        path = self._make_relative(str(diff.get("path", "")))
        added_count, removed_count = _count_lines(str(old or "").splitlines(), str(new or "").splitlines())
        metadata = d.FileEditMetadata(
            file_path=path,
            operation="delete" if call.kind == "delete" else operation,
            language=detect_language(path),
            tool_name=self._name(call),
            tool_call_id=call.id,
            added=added_count,
            removed=removed_count,
        )
        content = new if isinstance(new, str) else None
        return d.FileEditDocument(
            id=open_document.id, sequence=open_document.sequence, content=content, metadata=metadata
        )

    def _make_relative(self, path: str) -> str:
        root = str(self._root)
        return posixpath.relpath(path, root) if is_below(path, root) else path

    def _apply_plan(self, update: Mapping[str, Any]) -> None:
        entries = update.get("entries")
        plan_entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        todos = tuple(
            d.Todo(
                id=f"step-{number}",
                content=str(entry.get("content", "")),
                status=_STATUS.get(str(entry.get("status")), "pending"),
            )
            for number, entry in enumerate(plan_entries[:MAX_TODOS], 1)
        )
        self._emit(ev.TodoChanged(todos=todos))

    def _apply_usage(self, update: Mapping[str, Any]) -> None:
        cost = update.get("cost")
        amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency") == "USD" else None
        if isinstance(amount, int | float):
            self.usage = Usage(cost=float(amount))

    def _apply_status(self, update: Mapping[str, Any]) -> None:
        """Apply an adapter's status of its agent, which is outside of the protocol: a failed prompt is answered like
        any other."""
        meta = update.get("_meta")
        for meta_value in meta.values() if isinstance(meta, dict) else ():
            status = meta_value.get("threadStatus") if isinstance(meta_value, dict) else None
            if isinstance(status, dict):
                self._is_broken = status.get("type") == "systemError"

    def find_failure(self) -> str | None:
        """Return why this turn had no effect; None: it had one, or needed none."""
        if self._is_broken:
            words = self.answer_text.strip()[-300:] or "it gave no reason"
            return f"{self._agent} ended the turn with an error: {words}"
        attempted_calls = [call for call in self._all_calls if call.kind not in _NO_WORK and not call.is_refused]
        failed_calls = [call for call in attempted_calls if not call.has_run]
        commands = [call for call in failed_calls if call.kind == "execute"]
        if not commands or len(failed_calls) < len(attempted_calls):
            return None
        output = next(
            (line.strip() for call in commands for line in call.read_text().splitlines() if line.strip("` ")), ""
        )
        subject = "the one command" if len(commands) == 1 else f"all {len(commands)} commands"
        message = f" It said: {output[:300]}" if output else ""
        return f"{self._agent} could not start {subject} of this turn, so nothing was done.{message}"

    def add_error(self, code: str, message: str, *, hint: str = "") -> None:
        """Add an error document."""
        self._answer.close()
        self._documents.add_error(code, message, hint=hint, source=self._agent)

    def add_text(self, text: str) -> None:
        """Add a text of ours to the answer."""
        self._answer.close()
        self._documents.add_text(text)

    def close(self) -> None:
        """Finish open documents and calls at the end of the turn."""
        self._answer.close()
        for call in self.calls.values():
            if not call.is_over:
                self._finish(call, "cancelled")


def _read_number(fields: Any, *names: str) -> int | None:
    """Return the first of these fields that is an integer; None: none is."""
    values = [fields.get(name) for name in names] if isinstance(fields, dict) else []
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _join_words(words: Sequence[str]) -> str:
    """Join the words of a command to a command line; for `sh -c LINE` it is LINE."""
    if len(words) == 3 and posixpath.basename(words[0]) in _SHELLS and words[1] in {"-c", "-lc"}:
        return words[2]
    return shlex.join(words)


def _convert_kind(open_document: OpenDocument, metadata: d.ToolCallMetadata) -> d.AnyDocument:
    return d.ToolCallDocument(id=open_document.id, sequence=open_document.sequence, metadata=metadata)


def _read_block(block: Any) -> str:
    """Return a content block as text."""
    if not isinstance(block, dict):
        return ""
    if isinstance(text := block.get("text"), str):
        return text
    name = block.get("uri") or block.get("name") or block.get("type", "")
    return f"[{name}]" if name else ""


def _count_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the numbers of added and removed lines between two texts."""
    differing = [opcode for opcode in diff_lines(old, new) if opcode[0] != "equal"]
    return sum(opcode[4] - opcode[3] for opcode in differing), sum(opcode[2] - opcode[1] for opcode in differing)


def _read_location(location: Any) -> str:
    return str(location.get("path", "")) if isinstance(location, dict) else ""
