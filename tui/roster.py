"""The panes of subagents and of background agents: two rows an agent, with its state and what it has used."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from core.protocol.events import ApprovalRequested, BackgroundAgentInfo
from core.state.session import SubagentState
from core.text.counting import count
from tui.block import TranscriptBlock
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.panes import StatePane
from tui.quantities import format_cost, format_count, format_duration, format_elapsed
from tui.state import ViewState
from tui.text import fit_line
from tui.widgets.key_hints import NOTHING_HINTS, Hint, HintsChanged
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import Piece, measure_pieces, measure_text

ROWS: Final = 2  # of an entry
_MAX_STATUS: Final = 200
Condition = Literal["working", "asking", "conflict", "done", "stopped", "failed"]
_SIGNS: Final[dict[Condition, tuple[str, str]]] = {
    "working": ("◌", "$accent"),
    "asking": ("?", "bold $warning"),
    "conflict": ("!", "$warning"),
    "done": ("✓", "$success"),
    "stopped": ("⊘", "$warning"),
    "failed": ("✕", "$error"),
}
EMPTY: Final = (
    "No subagents yet\n\nThe agent uses subagents on its own, or when you name one: @agent-explore. "
    "/agents lists them, /best runs a prompt several times side by side."
)
_NO_AGENTS: Final = (
    "No background agents yet\n\nStart a prompt with & to run it in the background. The agent works in a "
    "shadow; its changes stay there until you pull them into your review."
)
_CONDITIONS: Final[dict[str, Condition]] = {
    "queued": "working",
    "running": "working",
    "waiting": "asking",
    "done": "done",
    "failed": "failed",
    "stopped": "stopped",
}


class RosterEntry(NamedTuple):
    """One subagent of the roster. `activity`: its activity, question or result; `facts`: its usage, the most important
    first; `elapsed`: the duration of its run, "" = idle."""

    id: str
    title: str
    kind: str
    condition: Condition
    activity: str
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
    condition = _determine_condition(block, asks=bool(request_text))
    usage = block.usage
    tokens = usage.prompt_tokens + usage.completion_tokens if usage is not None else 0
    facts = (
        count("step", block.steps) if block.steps else "",
        usage.format_cost() if usage is not None else "",
        format_duration(block.duration_ms) if block.duration_ms and not block.is_running else "",
        f"{format_count(tokens)} tokens" if tokens else "",
    )
    return RosterEntry(
        id=subagent.id,
        title=subagent.title or subagent.todo,
        kind=subagent.agent or subagent.todo,
        condition=condition,
        activity=_describe(block, condition, request_text),
        facts=tuple(filter(None, facts)),
        # The clock stops while the subagent waits for the user.
        elapsed=format_elapsed(block.duration_ms) if condition == "working" and block.duration_ms >= 1000 else "",
    )


def _determine_condition(block: TranscriptBlock, *, asks: bool) -> Condition:
    if block.is_running:
        return "asking" if asks else "working"
    if block.level == "conflict":
        return "conflict"
    return "failed" if block.status == "failed" else "stopped" if block.status == "cancelled" else "done"


def _describe(block: TranscriptBlock, condition: Condition, request_text: str) -> str:
    act = block.acts[-1].text if block.acts else ""
    match condition:
        case "asking":
            return f"waiting for you: {request_text}"
        case "working":
            return " · ".join(filter(None, (act or "starting", block.live)))
        case "failed" | "conflict":
            return block.hint or block.text or condition
        case "stopped":
            return block.hint or "stopped; its changes stay in its own shadow"
        case _:
            return " · ".join(filter(None, (block.summary, block.text)))


def render_entry(entry: RosterEntry, line: int, width: int) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces at the left and at the right of row `line` of an entry."""
    sign, colour = _SIGNS[entry.condition]
    if line:
        role = "" if entry.condition == "working" else colour if entry.condition != "done" else "$foreground 60%"
        time = f" {entry.elapsed} " if entry.elapsed else ""
        text = fit_line(entry.activity, max(width - 4 - measure_text(time), 8))
        return [("   ", ""), (text, role)], [(time, "$foreground 60%")] if time else []
    kind = fit_line(entry.kind, max(width // 2, 6)) if entry.kind != entry.title else ""
    name = f"{kind} · {fit_line(entry.title, _MAX_STATUS)}"
    facts = _fit_facts(entry.facts, width - 4 - measure_text(name)) or _fit_facts(entry.facts[:1], width // 4)
    rest = fit_line(entry.title, max(width - 7 - len(kind) - measure_text(facts), 6))
    left_pieces: list[Piece] = [(f" {sign} ", colour), (kind or rest, "bold")]
    if kind:
        left_pieces.append((f" · {rest}", ""))
    return left_pieces, [(facts, "$foreground 60%")]


def _fit_facts(facts: tuple[str, ...], room: int) -> str:
    """Return the facts that fit beside the name."""
    while facts and measure_text(" · ".join(facts)) + 1 > room:
        facts = facts[:-1]
    return f"{' · '.join(facts)} " if facts else ""


class RosterList(CursorView):
    """Lists entries of two rows, the latest at the bottom. The cursor keeps its entry; until the user moves it, it
    selects an entry with a question. `empty`: the text without entries."""

    DEFAULT_CSS = """
    RosterList { overflow-x: hidden; }
    """
    empty = ""

    def __init__(self) -> None:
        super().__init__()
        self._entries: Sequence[RosterEntry] = ()

    @property
    def current(self) -> RosterEntry | None:
        return self._entries[self.cursor] if self.cursor < len(self._entries) else None

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The keys that do something to the entry at the cursor."""
        return NOTHING_HINTS

    def show(self, entries: Sequence[RosterEntry]) -> None:
        current_entry, before = self.current, self.hints
        follows = self.cursor >= len(self._entries) - 1
        self._entries = entries
        self.virtual_size = Size(0, ROWS * len(entries))
        index = next(
            (number for number, entry in enumerate(entries) if current_entry and entry.id == current_entry.id),
            self.cursor,
        )
        if not self.has_focus:
            last = len(entries) - 1 if follows else index
            index = next((number for number, entry in enumerate(entries) if entry.condition == "asking"), last)
        self.move_to(index)
        if self.hints != before:
            self.post_message(HintsChanged())

    def move_to(self, index: int) -> None:
        before = self.cursor
        self.cursor = max(min(index, len(self._entries) - 1), 0)
        if self._entries:
            self.reveal_rows(self.cursor * ROWS, self.cursor * ROWS + ROWS - 1)
        if self.cursor != before:
            self.post_message(HintsChanged())
        self.redraw()

    def count_rows(self) -> int:
        return ROWS * len(self._entries) or self.size.height

    def get_row_text(self, row: int) -> str:
        entry = row // ROWS
        return f"{self._entries[entry].title}: {self._entries[entry].activity}" if entry < len(self._entries) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._entries:
            return self.render_message(insert_keys(self.empty, get_keymap(self.app)), row, width)
        entry, line = divmod(row, ROWS)
        base = self.resolve_style(self._choose_background(entry))
        left_pieces, right = render_entry(self._entries[entry], line, width)
        room = max(width - measure_pieces(right), 0)
        strip = self.render_styled(left_pieces, base).adjust_cell_length(room, base.rich_style)
        return Strip.join([strip, self.render_styled(right, base)]).adjust_cell_length(width, base.rich_style)

    def _choose_background(self, entry: int) -> str:
        if entry != self.cursor:
            return ""
        return "on $marked-row" if self.has_focus else "on $foreground 10%"

    on_focus = CursorView.redraw
    on_blur = CursorView.redraw

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.move_to(self.cursor)

    def on_click(self, event: events.Click) -> None:
        entry = (event.y + self.scroll_offset.y) // ROWS
        if entry < len(self._entries):
            self.move_to(entry)
            if event.chain == 2:
                self.action_open()

    def action_open(self) -> None:
        """Open the entry at the cursor."""


class RosterPane(StatePane):
    """A pane that one list of entries fills."""

    DEFAULT_CSS = """
    RosterPane { height: 1fr; }
    """

    def __init__(self, entries: RosterList) -> None:
        super().__init__()
        self.list = entries

    def compose(self) -> ComposeResult:
        yield self.list

    def focus(self, scroll_visible: bool = True) -> RosterPane:
        self.list.focus(scroll_visible)
        return self


class AgentList(RosterList):
    """Lists the subagents of the session."""

    BINDINGS = get_bindings("agents")
    empty = EMPTY

    @dataclass
    class Opened(Message):
        """Requests a subagent's conversation."""

        id: str

    @dataclass
    class Stopped(Message):
        """Requests that a subagent is stopped."""

        id: str

    @property
    def hints(self) -> tuple[Hint, ...]:
        if (current := self.current) is None:
            return NOTHING_HINTS
        opening: Hint = ("agents.open", "open")
        return (opening, ("agents.stop", "stop")) if current.is_working else (opening,)

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current.id))

    def action_stop(self) -> None:
        if self.current is not None and self.current.is_working:
            self.post_message(self.Stopped(self.current.id))


class AgentRoster(RosterPane):
    """Shows the subagents of the session's state."""

    def __init__(self) -> None:
        super().__init__(AgentList())

    def show_state(self, state: ViewState) -> None:
        self.list.show(list_entries(state))


class BackgroundList(RosterList):
    """Lists background agents."""

    BINDINGS = get_bindings("background")
    empty = _NO_AGENTS

    @dataclass
    class Opened(Message):
        """Requests an agent's work, or the session with it once it is here."""

        id: str

    @dataclass
    class Stopped(Message):
        """Requests that an agent is stopped."""

        id: str

    @dataclass
    class Deleted(Message):
        """Requests that an agent is deleted."""

        id: str

    @property
    def hints(self) -> tuple[Hint, ...]:
        if (current := self.current) is None:
            return NOTHING_HINTS
        if current.is_working:
            return (("background.stop", "stop"),)
        return (("background.open", "pull and open"), ("background.delete", "delete"))

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current.id))

    def action_stop(self) -> None:
        if self.current is not None and self.current.is_working:
            self.post_message(self.Stopped(self.current.id))

    def action_delete(self) -> None:
        if self.current is not None and not self.current.is_working:
            self.post_message(self.Deleted(self.current.id))


class BackgroundPane(RosterPane):
    """Shows the background agents, the newest below."""

    def __init__(self) -> None:
        super().__init__(BackgroundList())

    def show_state(self, state: ViewState) -> None:
        now = time.time() * 1000
        self.list.show([build_entry(agent, now) for agent in reversed(state.background)])


def build_entry(agent: BackgroundAgentInfo, now: float) -> RosterEntry:
    """Build the entry of an agent. `now`: ms since 1970."""
    is_working = agent.state in {"queued", "running", "waiting"}
    message = f"waiting for you: {agent.waits_for}" if agent.waits_for else agent.message or agent.place
    waiting = f"{count('file', agent.pending)} to review" if agent.pending and not agent.pulled else ""
    facts = (
        "pulled" if agent.pulled else waiting,
        format_cost(agent.cost, is_estimated=agent.estimated) if agent.cost else "",
    )
    return RosterEntry(
        id=agent.id,
        title=agent.title,
        kind=agent.state,
        condition=_CONDITIONS[agent.state],
        activity=message,
        facts=tuple(filter(None, facts)),
        elapsed=format_elapsed(max(round(now - agent.created), 0)) if is_working else "",
    )
