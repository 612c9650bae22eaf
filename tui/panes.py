"""The registry of the side panes.

A pane is a widget derived from `StatePane` and one record below with its key, title and badge.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from textual.containers import Vertical

from core.protocol.queries import FileAnswer, ProbeLogAnswer, ProbeLogQuery
from core.protocol.review import ChangeDiff

if TYPE_CHECKING:
    from tui.state import Topic, ViewState


class PaneSource(Protocol):
    """Loads data of the panes that the state does not hold."""

    async def load_diff(self, path: str, context: int) -> ChangeDiff | None:
        """Return a change with its lines and `context` unchanged ones around each hunk; None: nothing is pending."""

    async def load_probe_log(self, query: ProbeLogQuery) -> ProbeLogAnswer | None:
        """Return the log of a debug run, None if there is none."""

    async def load_file(self, path: str) -> FileAnswer:
        """Return the pending text of a file, or the one on disk if the file is to be deleted."""

    def is_deleted(self, path: str) -> bool:
        """True if the pending change of a file deletes it."""


class StatePane(Vertical):
    """A side pane: built once, and updated whenever the state has changed."""

    @classmethod
    def from_source(cls, source: PaneSource) -> Self:
        """Build the pane, with the loaders that it needs."""
        return cls()

    def show_state(self, state: ViewState) -> None:
        """Update from the state; a pane without a part in it does nothing."""


def _count_review(state: ViewState) -> str:
    return f"{state.pending_hunk_count:,}" if state.pending_hunk_count else ""


def _count_todos(state: ViewState) -> str:
    count = sum(todo.status in {"pending", "in_progress"} for todo in state.todos)
    return str(count) if count else ""


def _count_judged(state: ViewState) -> str:
    hypotheses = state.debug.hypotheses
    return (
        f"{sum(hypothesis.state != 'open' for hypothesis in hypotheses.values())}/{len(hypotheses)}"
        if hypotheses
        else ""
    )


def _count_working(state: ViewState) -> str:
    working = state.transcript.find_running_subagents()
    return str(len(working)) if working else ""


def _count_background(state: ViewState) -> str:
    working = sum(agent.state in {"queued", "running", "waiting"} for agent in state.background)
    return str(working) if working else ""


class PaneSpec(NamedTuple):
    """A pane: `widget` is "module:class", imported on first use; changes of `topics` update it.

    `key`, `label` and `shown` (its content) describe the key `app.<name>`. `badge` is a count after the title; None:
    the owner of the pane sets it. `is_rare`: the title is hidden until the pane was first open.
    """

    name: str
    widget: str
    key: str
    label: str
    shown: str
    topics: frozenset[Topic] = frozenset()
    badge: Callable[[ViewState], str] | None = None
    is_rare: bool = False

    @property
    def title(self) -> str:
        return self.name.capitalize()

    @property
    def tooltip(self) -> str:
        """An explanation of the key."""
        return f"Show or hide {self.shown}"

    def build(self, source: PaneSource) -> StatePane:
        module, _, name = self.widget.partition(":")
        kind: type[StatePane] = getattr(import_module(module), name)
        return kind.from_source(source)


def _count_findings(state: ViewState) -> str:
    review = state.review.code_review
    return str(len(review.list_open())) if review is not None and review.list_open() else ""


_REVIEW: Final[frozenset[Topic]] = frozenset({"review", "proof"})
_PLAN: Final[frozenset[Topic]] = frozenset({"plan", "review"})
_DEBUG: Final[frozenset[Topic]] = frozenset({"debug"})
_FINDINGS: Final[frozenset[Topic]] = frozenset({"review", "agents"})  # the end of a turn, which may have fixed one
_AGENTS: Final[frozenset[Topic]] = frozenset({"agents"})
PANES: Final = (
    PaneSpec("review", "tui.review.pane:ReviewPane", "ctrl+r", "Review", "the pending changes", _REVIEW, _count_review),
    PaneSpec("plan", "tui.plan.panel:PlanPanel", "ctrl+t", "Plan", "the plan and the todos", _PLAN, _count_todos),
    PaneSpec(
        "debug",
        "tui.debug.board:DebugBoard",
        "f6",
        "Debug board",
        "the debug board",
        _DEBUG,
        _count_judged,
        is_rare=True,
    ),
    PaneSpec(
        "agents",
        "tui.roster:AgentRoster",
        "f9",
        "Subagents",
        "the subagents",
        _AGENTS,
        _count_working,
        is_rare=True,
    ),
    PaneSpec(
        "background",
        "tui.roster:BackgroundPane",
        "shift+f9",
        "Background",
        "the background agents",
        _AGENTS,
        _count_background,
        is_rare=True,
    ),
    PaneSpec(
        "findings",
        "tui.findings:FindingsPane",
        "shift+f8",
        "Findings",
        "the findings of a code review",
        _FINDINGS,
        _count_findings,
        is_rare=True,
    ),
    PaneSpec("preview", "tui.files.preview:FilePreview", "ctrl+o", "Preview", "the file preview"),
)
