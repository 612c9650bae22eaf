"""The rows of the roster: two for each subagent, one with who it is and what it has used, one with what it is at."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from core.protocol.events import ApprovalRequested
from core.state.session import SubagentState
from core.text.counting import count
from tui.block import TranscriptBlock
from tui.quantities import format_cost, format_count, format_duration, format_elapsed
from tui.state import ViewState
from tui.text import fit_line
from tui.widgets.text_rows import Piece, measure_text

ROWS: Final = 2  # of an entry
_LONGEST: Final = 200
Condition = Literal["working", "asking", "conflict", "done", "stopped", "failed"]
_SIGNS: Final[dict[Condition, tuple[str, str]]] = {
    "working": ("◌", "$accent"),
    "asking": ("?", "bold $warning"),
    "conflict": ("!", "$warning"),
    "done": ("✓", "$success"),
    "stopped": ("⊘", "$warning"),
    "failed": ("✕", "$error"),
}


class RosterEntry(NamedTuple):
    """One subagent as the roster shows it. `said`: what it is at, what it asks, or what came of it; `facts`: what it
    has used until now, the most important first; `elapsed`: how long it works already, "" = it does not."""

    id: str
    title: str
    kind: str
    condition: Condition
    said: str
    facts: tuple[str, ...]
    elapsed: str = ""

    @property
    def is_working(self) -> bool:
        return self.condition in {"working", "asking"}


def list_entries(state: ViewState) -> list[RosterEntry]:
    """List the subagents of a session, the one that began first on top."""
    request_texts = {
        question.subagent: question.questions[0].text for question in state.questions.values() if question.questions
    }
    request_texts |= {approval.subagent: _name_subject(approval) for approval in state.approvals.values()}
    blocks = state.transcript.subagents
    return [
        _build_entry(subagent, blocks[key], request_texts.get(key, ""))
        for key, subagent in state.subagents.items()
        if key in blocks
    ]


def _name_subject(request: ApprovalRequested) -> str:
    return f"$ {request.subject}" if request.kind in {"command", "machine"} else request.subject


def _build_entry(subagent: SubagentState, block: TranscriptBlock, request_text: str) -> RosterEntry:
    condition = _judge(block, asks=bool(request_text))
    usage = block.usage
    tokens = usage.prompt_tokens + usage.completion_tokens if usage is not None else 0
    facts = (
        count("step", block.steps) if block.steps else "",
        format_cost(usage.cost) if usage is not None and usage.cost else "",
        format_duration(block.duration_ms) if block.duration_ms and not block.is_running else "",
        f"{format_count(tokens)} tokens" if tokens else "",
    )
    return RosterEntry(
        id=subagent.id,
        title=subagent.title or subagent.todo,
        kind=subagent.agent or subagent.todo,
        condition=condition,
        said=_describe(block, condition, request_text),
        facts=tuple(filter(None, facts)),
        # Its time is not told on while it waits for the user.
        elapsed=format_elapsed(block.duration_ms) if condition == "working" and block.duration_ms >= 1000 else "",
    )


def _judge(block: TranscriptBlock, *, asks: bool) -> Condition:
    if block.is_running:
        return "asking" if asks else "working"
    if block.level == "conflict":
        return "conflict"
    return "failed" if block.status == "failed" else "stopped" if block.status == "cancelled" else "done"


def _describe(block: TranscriptBlock, condition: Condition, request_text: str) -> str:
    act = block.acts[-1].text if block.acts else ""
    match condition:
        case "asking":
            return f"waits for you: {request_text}"
        case "working":
            return " · ".join(filter(None, (act or "begins", block.live)))
        case "failed" | "conflict":
            return block.hint or block.text or condition
        case "stopped":
            return block.hint or "stopped; what it had changed stays with it"
        case _:
            return " · ".join(filter(None, (block.summary, block.text)))


def render_entry(entry: RosterEntry, line: int, width: int) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces at the left and at the right of row `line` of an entry."""
    sign, colour = _SIGNS[entry.condition]
    if line:
        role = "" if entry.condition == "working" else colour if entry.condition != "done" else "$foreground 60%"
        time = f" {entry.elapsed} " if entry.elapsed else ""
        text = fit_line(entry.said, max(width - 4 - measure_text(time), 8))
        return [("   ", ""), (text, role)], [(time, "$foreground 60%")] if time else []
    kind = fit_line(entry.kind, max(width // 2, 6)) if entry.kind != entry.title else ""
    name = f"{kind} · {fit_line(entry.title, _LONGEST)}"
    facts = _fit_facts(entry.facts, width - 4 - measure_text(name)) or _fit_facts(entry.facts[:1], width // 4)
    rest = fit_line(entry.title, max(width - 7 - len(kind) - measure_text(facts), 6))
    left_pieces: list[Piece] = [(f" {sign} ", colour), (kind or rest, "bold")]
    if kind:
        left_pieces.append((f" · {rest}", ""))
    return left_pieces, [(facts, "$foreground 60%")]


def _fit_facts(facts: tuple[str, ...], room: int) -> str:
    """Return as many of the facts as there is room for beside the name."""
    while facts and measure_text(" · ".join(facts)) + 1 > room:
        facts = facts[:-1]
    return f"{' · '.join(facts)} " if facts else ""
