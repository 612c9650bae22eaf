"""The receipt of a turn: the files that it changed and their verdicts, the checks that ran, and its cost.

It is a pure function of the state, also of a turn long ago, so that all its readers (a screen, `-p`, the text of a pull
request) agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from core.protocol.messages import Usage
from core.protocol.renames import list_changes
from core.protocol.review import Hunk, VerdictRecord
from core.state.session import CheckRun, SessionState, TurnState
from core.text.counting import count
from core.text.display_names import display_name, shorten_model
from core.text.lines import clip

MAX_FILES: Final = 50  # In the text; generated files are one line anyway.
MAX_NAME: Final = 200  # The limit for a path or a command, in characters.


class ReceiptFile(NamedTuple):
    """One file with its lines, and the numbers of its hunks that were accepted, rejected, and wait; `renamed_from`: its
    old path, "" = not renamed."""

    path: str
    added: int = 0
    removed: int = 0
    accepted: int = 0
    rejected: int = 0
    waiting: int = 0
    renamed_from: str = ""

    def add(self, other: ReceiptFile) -> ReceiptFile:
        """Return the sum of both."""
        return ReceiptFile(
            self.path,
            self.added + other.added,
            self.removed + other.removed,
            self.accepted + other.accepted,
            self.rejected + other.rejected,
            self.waiting + other.waiting,
            self.renamed_from or other.renamed_from,
        )

    @property
    def verdict(self) -> str:
        """The verdict in words: one for all hunks, else the number of hunks by verdict."""
        parts = [(self.accepted, "accepted"), (self.rejected, "rejected"), (self.waiting, "to review")]
        counts = [(number, word) for number, word in parts if number]
        return counts[0][1] if len(counts) == 1 else ", ".join(f"{number} {word}" for number, word in counts)


class Receipt(NamedTuple):
    """A turn that has ended. `checks`: the last run of every checking command, in order."""

    prompt: str
    model: str
    reason: str
    files: tuple[ReceiptFile, ...]
    checks: tuple[tuple[str, CheckRun], ...]
    usage: Usage
    steps: int
    duration_ms: int


def build_receipt(state: SessionState, turn: TurnState) -> Receipt:
    """Build the receipt of a turn with the current verdicts."""
    files: dict[str, ReceiptFile] = {}
    for file in _list_files(state, turn.id):
        files[file.path] = files[file.path].add(file) if file.path in files else file
    return Receipt(
        prompt=turn.request,
        model=turn.model,
        reason=turn.reason,
        files=tuple(files[path] for path in sorted(files)),
        checks=tuple(turn.checks.items()),
        usage=turn.usage,
        steps=turn.steps,
        duration_ms=turn.duration_ms,
    )


def _list_files(state: SessionState, turn: str) -> Iterator[ReceiptFile]:
    for change in list_changes(state.changes):
        if change.origin is not None and change.origin.turn == turn:
            counts = (change.added, change.removed, 0, 0, max(len(change.hunks), 1))
            yield ReceiptFile(change.path, *counts, change.renamed_from)
    for record in state.review.verdicts:
        is_old_name = bool(record.moved_with and not record.renamed_from)  # The new path has the rename.
        if record.origin is not None and record.origin.turn == turn and record.settled is None and not is_old_name:
            yield _count_verdict(record)


def _count_verdict(record: VerdictRecord) -> ReceiptFile:
    added_lines, removed_lines = _count_lines(record.hunks)
    hunk_count = max(len(record.hunks), 1)
    accepted_count, rejected_count = (hunk_count, 0) if record.verdict == "accept" else (0, hunk_count)
    return ReceiptFile(record.path, added_lines, removed_lines, accepted_count, rejected_count, 0, record.renamed_from)


def _count_lines(hunks: Iterable[Hunk]) -> tuple[int, int]:
    lines = [(hunk.new_lines, hunk.old_lines) for hunk in hunks]
    return sum(new for new, _ in lines), sum(old for _, old in lines)


def describe_checks(state: SessionState, commands: Iterable[str], mark: str = "") -> list[str]:
    """Describe passed checks with the tests that they counted: `pytest -q (12 passed)`. `mark` surrounds
    every command."""
    turns = (*state.left_turns.values(), *state.turns)
    summaries = {name: run.told for turn in turns for name, run in turn.checks.items() if run.exit_code == 0}
    words = {name: f"{mark}{' '.join(name.split())}{mark}" for name in commands}
    return [f"{words[name]} ({summaries[name]})" if summaries.get(name) else words[name] for name in words]


def render_receipt(receipt: Receipt) -> str:
    """Render a receipt as Markdown, for a pull request."""
    parts = ["\n".join(f"> {line}".rstrip() for line in receipt.prompt.strip().splitlines()[:10])]
    if receipt.files:
        rows = [f"| {_render_name(file)} | +{file.added} −{file.removed} | {file.verdict} |" for file in receipt.files]
        excess = len(rows) - MAX_FILES
        rows = [*rows[:MAX_FILES], *([f"| … {excess:,} more | | |"] if excess > 0 else [])]
        parts.append("\n".join(["| file | lines | |", "|:--|--:|:--|", *rows]))
    if receipt.checks:
        parts.append("\n".join(f"- {_render_check(command, run)}" for command, run in receipt.checks))
    parts.append(" · ".join(_list_costs(receipt)))
    return "\n\n".join(filter(None, parts)) + "\n"


def _render_name(file: ReceiptFile) -> str:
    return " → ".join(map(_quote, filter(None, (file.renamed_from, file.path))))


def _quote(text: str) -> str:
    """Quote foreign text as code in a table cell, with bars and backticks made harmless."""
    label = display_name(text).replace("`", "ˋ").replace("|", "¦")
    return f"`{clip(label, MAX_NAME)}`"


def _render_check(command: str, run: CheckRun) -> str:
    sign = "✅" if run.exit_code == 0 else "❌"
    outcome = run.told or ("passed" if run.exit_code == 0 else f"exit code {run.exit_code}")
    return f"{sign} {_quote(command)}: {outcome}"


def _list_costs(receipt: Receipt) -> Iterator[str]:
    if receipt.model:
        yield display_name(shorten_model(receipt.model), 100)
    if receipt.steps:
        yield count("step", receipt.steps)
    if receipt.duration_ms:
        yield f"{receipt.duration_ms / 1000:,.1f} s"
    if tokens := receipt.usage.prompt_tokens + receipt.usage.completion_tokens:
        yield f"{tokens:,} tokens"
    if cost := receipt.usage.format_cost():
        yield cost
