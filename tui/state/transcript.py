"""The transcript as a fold: blocks in order, changed by their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec.structs import replace

from core.protocol import events
from core.protocol.documents import (
    ClarificationDocument,
    ErrorDocument,
    FileEditDocument,
    PlanDocument,
    QuestionAnswer,
    Todo,
    ToolCallDocument,
)
from core.protocol.messages import Message, ToolMessage, UserMessage
from core.state.live_text import append_piece
from core.text.counting import count
from tui.block import TranscriptBlock

Topic = Literal[
    "blocks",
    "review",
    "proof",
    "plan",
    "debug",
    "ask",
    "status",
    "files",
    "session",
    "queue",
    "index",
    "agents",
    "commits",
    "asides",
]
Topics = frozenset[Topic]
NOTHING: Final[Topics] = frozenset()
MAX_OUTPUT_CHARS: Final = 16_000
SEARCHED: Final = 200  # blocks before the last one
SHOWN_CALLS: Final = 5  # of a program, which have ended and changed nothing
_SUBAGENT_STATUS: Final = {"done": "completed", "failed": "failed", "limit": "failed", "interrupted": "cancelled"}


@dataclass(slots=True)
class TranscriptState:
    """`blocks` in order; `by_key` also has those of left branches. `calls`: the document of every running call.

    Methods with an envelope and an event are steps of the fold.

    `checkpoints`: for each, the index in `left` (or its length: the present transcript) and the number of blocks.
    `subagents`: the latest block of each. `noted`: displayed notes on rules.
    """

    blocks: list[TranscriptBlock] = field(default_factory=list)
    by_key: dict[str, TranscriptBlock] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    checkpoints: dict[str, tuple[int, int]] = field(default_factory=dict)
    left: list[list[TranscriptBlock]] = field(default_factory=list)
    subagents: dict[str, TranscriptBlock] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)

    def add(self, block: TranscriptBlock) -> TranscriptBlock:
        self.blocks.append(block)
        self.by_key[block.key] = block
        return block

    def add_prompt(self, kind: Literal["prompt", "steer"], envelope: events.Envelope, text: str) -> None:
        """Append a user's message at the position where the model received it."""
        self.add(TranscriptBlock(f"{kind}:{envelope.seq}:{len(self.blocks)}", kind, envelope.turn, text=text))

    def add_notice(self, envelope: events.Envelope, text: str, *, hint: str = "", level: str = "info") -> None:
        self.add(TranscriptBlock(f"said:{envelope.seq}", "notice", envelope.turn, text=text, hint=hint, level=level))

    def add_error(self, envelope: events.Envelope, event: events.ErrorRaised) -> None:
        key, message = f"said:{envelope.seq}", event.message
        self.add(TranscriptBlock(key, "error_raised", envelope.turn, text=message, hint=event.hint, title=event.code))

    def show_rules(self, envelope: events.Envelope, event: events.RulesLoaded) -> Topics | None:
        """Append a notice of new notes on rules."""
        notes = [f"{rule.path}: {rule.note}" for rule in event.rules if rule.note]
        if not (fresh := [note for note in notes if note not in self.noted]):
            return NOTHING
        self.noted.update(fresh)
        self.add_notice(envelope, "\n".join(fresh), level="warning")
        return None

    def drop(self, block: TranscriptBlock) -> None:
        self.blocks.remove(block)
        del self.by_key[block.key]

    def has_shown(self, message: str) -> bool:
        """True if the last block is an error or a notice with this message already."""
        last = self.blocks[-1] if self.blocks else None
        if last is None or last.kind not in {"error", "error_raised", "notice"}:
            return False
        content = (last.document.content if last.document else last.text) or ""
        return bool(content) and message.startswith(content)

    # Documents and calls.

    def start_document(self, envelope: events.Envelope, event: events.DocumentStarted) -> None:
        """Begin a document, if it is not there yet."""
        if event.id not in self.by_key:
            block = self.add(TranscriptBlock(event.id, event.kind, envelope.turn, status="running"))
            block.title, block.language = event.title, event.language

    def add_delta(self, _: events.Envelope, event: events.DocumentDelta) -> Topics | None:
        """Append streamed text, if the document is open."""
        block = self.by_key.get(event.id)
        if block is None or block.document is not None:
            return NOTHING
        block.live += event.text
        block.revision += 1
        return None

    def finish_document(self, envelope: events.Envelope, event: events.DocumentFinished) -> None:
        """Replace the streamed text by the whole document. The row of a call explains its failure."""
        document, kind = event.document, str(event.document.__struct_config__.tag)
        if isinstance(document, ErrorDocument) and document.metadata.tool_call_id:
            if open_block := self.by_key.get(document.id):
                self.drop(open_block)
            return
        block = self.by_key.get(document.id) or self.add(TranscriptBlock(document.id, kind, envelope.turn))
        block.kind, block.document, block.live, block.output = kind, document, "", ""
        if block.status == "running":
            block.status = ""
        block.revision += 1
        if isinstance(document, FileEditDocument):
            self._fold_edit(block, document)
        self._hide_earlier_call(block)

    def _fold_edit(self, block: TranscriptBlock, document: FileEditDocument) -> None:
        """Merge two edits of one file into one row, unless a rewind between them is possible."""
        position = next((index for index in range(len(self.blocks) - 1, 0, -1) if self.blocks[index] is block), 0)
        before = self.blocks[position - 1] if position else None
        earlier_edit = before.document if before is not None and before.turn == block.turn else None
        if before is None or not isinstance(earlier_edit, FileEditDocument):
            return
        if _find_edited_path(earlier_edit) != _find_edited_path(document) or not _find_edited_path(document):
            return
        if any(count >= position for branch, count in self.checkpoints.values() if branch == len(self.left)):
            return
        block.folded = (*before.folded, earlier_edit)
        self.drop(before)

    def start_call(self, _: events.Envelope, event: events.ToolRequested) -> None:
        self.calls[event.call] = event.document
        if block := self.by_key.get(event.document):
            block.title = event.tool or block.title  # the target tool of a wrapped call
            block.subject = event.summary
            block.program = self.calls.get(event.parent, "") or event.parent
            block.revision += 1

    def add_output(self, _: events.Envelope, event: events.ToolOutput) -> None:
        """Append output of a running call, limited to its end."""
        if block := self.by_key.get(self.calls.get(event.call, "")):
            block.output = append_piece(block.output, event.text)[-MAX_OUTPUT_CHARS:]
            block.revision += 1

    def finish_call(self, _: events.Envelope, event: events.ToolFinished) -> None:
        if block := self.by_key.get(self.calls.pop(event.call, "")):
            block.status, block.duration_ms = event.status, event.duration_ms
            block.summary = event.summary or block.summary
            block.revision += 1
            self._hide_earlier_call(block)

    def _hide_earlier_call(self, block: TranscriptBlock) -> None:
        """Hide a program's call when it has enough later ones: a hundred rows of reading say less than their number.
        Calls that failed, edits and commands stay."""
        program = self.by_key.get(block.program)
        if program is None:
            return
        start = self.blocks.index(program)
        ended_calls = [call for call in self.blocks[start:] if call.program == program.key and _is_plain(call)]
        for call in ended_calls[:-SHOWN_CALLS]:
            self.drop(call)
            program.hidden_calls += 1
            program.revision += 1

    def show_attachments(self, message: Message) -> bool:
        """Show attachments with the user's words or the call whose result they are. Returns False if there are none."""
        if not isinstance(message, UserMessage | ToolMessage) or not message.attachments:
            return False
        for block in reversed(self.blocks[-SEARCHED:]):
            call = block.document.metadata.tool_call_id if isinstance(block.document, ToolCallDocument) else ""
            if call == message.call_id if isinstance(message, ToolMessage) else block.kind in {"prompt", "steer"}:
                block.attachments = message.attachments
                block.revision += 1
                return True
        return False

    def show_answers(self, key: str, answers: tuple[QuestionAnswer, ...], status: str) -> None:
        """Add answers to the document of their question, if it has ended."""
        block = self.by_key.get(key)
        if block is not None and isinstance(block.document, ClarificationDocument):
            metadata = replace(block.document.metadata, answers=answers)
            block.document, block.status = replace(block.document, metadata=metadata), status
            block.revision += 1

    def mark_todos(self, path: str, todos: Sequence[Todo]) -> bool:
        """Set the statuses of todos on every card of a plan. Return True if one has changed."""
        status, is_changed = {todo.id: todo.status for todo in todos}, False
        for block in self.blocks if path else ():
            card = block.document
            if not isinstance(card, PlanDocument) or card.metadata.path != path:
                continue
            now = tuple(replace(todo, status=status.get(todo.id, todo.status)) for todo in card.metadata.todos)
            if now != card.metadata.todos:
                block.document = replace(card, metadata=replace(card.metadata, todos=now))
                block.revision += 1
                is_changed = True
        return is_changed

    def mark_beside(self, path: str) -> None:
        """Mark the cards of the plan that a pane shows beside the transcript, "" = none does."""
        for block in self.blocks:
            if block.kind != "plan" or not isinstance(block.document, PlanDocument):
                continue
            is_beside = bool(path) and block.document.metadata.path == path
            block.revision += is_beside != block.is_beside
            block.is_beside = is_beside

    # Turns.

    def retry_step(self, envelope: events.Envelope, event: events.StepRetried) -> None:
        """Drop the output of a failed attempt; one line per step explains the delay, and the next attempt replaces
        it."""
        key = f"retry:{envelope.turn}:{event.step}"
        for void in (*event.void_documents, key):
            if void in self.by_key:
                self.drop(self.by_key[void])
        hint = f"Attempt {event.attempt} in {event.delay_ms / 1000:.1f} s." if event.delay_ms else "Trying again."
        self.add(TranscriptBlock(key, "notice", envelope.turn, text=event.message, hint=hint, level="warning"))

    def finish_turn(self, envelope: events.Envelope, event: events.TurnFinished) -> None:
        """End a turn: documents that were never finished go."""
        for block in self.blocks[-SEARCHED:]:
            if block.is_running and block.turn and block.document is None:
                self.drop(block)
        text = "" if self.has_shown(event.message) else event.message
        end = TranscriptBlock(f"end:{envelope.seq}", "turn_end", envelope.turn, text=text, status=event.reason)
        end.usage, end.steps, end.duration_ms = event.usage, event.steps, event.duration_ms
        self.add(end)

    def mark_checkpoint(self, _: events.Envelope, event: events.CheckpointCreated) -> None:
        self.checkpoints[event.id] = (len(self.left), len(self.blocks))

    def rewind(self, checkpoint: str) -> None:
        index, count = self.checkpoints[checkpoint]
        self.left.append(self.blocks)
        self.blocks = self.left[index][:count]

    # Subagents: one block per run.

    def start_subagent(self, envelope: events.Envelope, event: events.SubagentStarted) -> None:
        key = f"sub:{envelope.seq}"
        if event.call in self.calls:  # its row has all information of the call's row
            call = self.by_key.get(self.calls.pop(event.call))
            self.blocks[:] = [transcript_block for transcript_block in self.blocks if transcript_block is not call]
        subject = event.todo or " · ".join(filter(None, dict.fromkeys((event.agent, event.title))))
        block = TranscriptBlock(key, "subagent", envelope.turn, title=event.title, subject=subject, status="running")
        self.subagents[event.id] = self.add(block)

    def show_progress(self, _: events.Envelope, event: events.SubagentProgressed) -> Topics | None:
        """Show a subagent's activity; the plan shows only its latest action."""
        if (block := self.subagents.get(event.id)) is None:
            return NOTHING
        before = block.acts[-1:]
        block.acts, block.steps, block.live = event.acts, event.steps, _format_files(event.changed)
        block.usage, block.duration_ms = event.usage, event.duration_ms
        block.revision += 1
        return frozenset({"blocks", "agents"}) if block.acts[-1:] == before else None

    def finish_subagent(self, _: events.Envelope, event: events.SubagentFinished) -> Topics | None:
        if (block := self.subagents.get(event.id)) is None:
            return NOTHING
        block.status, block.acts, block.live = _SUBAGENT_STATUS[event.reason], event.acts, ""
        block.text, block.hint = event.said, event.message
        block.steps, block.usage, block.duration_ms = event.steps, event.usage, event.duration_ms
        block.revision += 1
        return None

    def show_merge(self, _: events.Envelope, event: events.SubagentMerged) -> Topics | None:
        if (block := self.subagents.get(event.id)) is None:
            return NOTHING
        block.summary = _format_files(len(event.paths)) or "nothing changed"
        block.output = "\n".join((*event.paths, *event.notes))
        if event.refused:
            block.status, block.hint = "failed", f"could not be applied: {', '.join(event.refused)}"
        if event.conflicts:
            block.level, block.hint = "conflict", f"in conflict: {', '.join(event.conflicts)}"
        block.revision += 1
        return None

    def show_rating(self, _: events.Envelope, event: events.SubagentRated) -> Topics | None:
        """Show a candidate's changes, and the result of the common check command."""
        if (block := self.subagents.get(event.id)) is None:
            return NOTHING
        check_result = "" if event.check is None else "passed" if event.check.has_passed else "check failed"
        block.summary = ", ".join(filter(None, (_format_files(len(event.files)) or "nothing changed", check_result)))
        block.revision += 1
        return None

    def find_running_subagents(self) -> dict[str, TranscriptBlock]:
        """Return the blocks of the subagents at work, by id."""
        return {name: block for name, block in self.subagents.items() if block.is_running}


def _find_edited_path(document: FileEditDocument) -> str:
    """Return the path of an edit that may be folded; "" for one that failed, or that moves the file."""
    edit = document.metadata
    return edit.file_path if edit.status == "success" and edit.operation in {"create", "edit"} else ""


def _format_files(number: int) -> str:
    return count("file", number) if number else ""


def _is_plain(block: TranscriptBlock) -> bool:
    """True for a call that has succeeded and changed nothing."""
    return block.kind == "tool_call" and block.status == "completed" and block.document is not None
