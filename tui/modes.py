"""The modes on the screen: their titles, colours and placeholders, and the panes that they open automatically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from core.modes import Mode

if TYPE_CHECKING:
    from tui.state import Topic, ViewState

Accent = Literal["primary", "warning", "success", "error"]
Condition = Callable[["ViewState"], bool]


class AutoPane(NamedTuple):
    """A side pane that opens automatically, without the focus, where the window has room for it.

    It opens after a change of `topics` while `is_due` is true and `is_held_back` is not. `repeats`: "always" after
    every such change, "when_due_again" once until it is no longer due, "never" after the first time.
    """

    name: str
    topics: frozenset[Topic]
    is_due: Condition
    is_held_back: Condition = lambda _: False
    repeats: Literal["always", "when_due_again", "never"] = "always"


REVIEW: Final = AutoPane(
    name="review",
    topics=frozenset({"review", "debug"}),
    is_due=lambda state: bool(state.changes) or any(bulk.needs_verdict for bulk in state.bulks),
    repeats="when_due_again",
)
FINDINGS: Final = AutoPane(
    name="findings",
    topics=frozenset({"review"}),
    is_due=lambda state: state.review.code_review is not None and bool(state.review.code_review.list_open()),
    repeats="when_due_again",
)


def is_building(state: ViewState) -> bool:
    """True while a turn works on a todo of the current plan."""
    plan = state.current_plan
    is_at_work = state.is_running and plan is not None and state.todos_plan_path == plan.path
    return is_at_work and any(todo.status == "in_progress" for todo in state.todos)


BUILD: Final = AutoPane(name="plan", topics=frozenset({"plan"}), is_due=is_building, repeats="when_due_again")
BOARD: Final = AutoPane(
    name="debug",
    topics=frozenset({"debug"}),
    is_due=lambda state: bool(state.debug.hypotheses),
    repeats="never",
)


class ScreenMode(NamedTuple):
    """One mode on the screen.

    `note` explains it in the list of modes, `placeholder` is the text of the empty prompt, `accent` the theme colour of
    prompt and status bar (the class `-accent-<name>` of `app.tcss`). The first due pane of `panes` opens.
    """

    title: str
    note: str
    placeholder: str
    accent: Accent
    panes: tuple[AutoPane, ...] = (REVIEW, FINDINGS, BOARD)


def _is_testing(state: ViewState) -> bool:
    """True while hypotheses are tested, when the review must not cover the debug board."""
    return state.is_running and bool(state.debug.hypotheses)


_MODES: Final[Mapping[Mode, ScreenMode]] = {
    Mode.AGENT: ScreenMode(
        title="Agent",
        note="edits go to your review",
        placeholder="Ask for a change…   @ file   / command   shift+tab mode",
        accent="primary",
        panes=(REVIEW._replace(is_held_back=is_building), BUILD, BOARD),
    ),
    Mode.ASK: ScreenMode(
        title="Ask",
        note="answers, changes nothing",
        placeholder="Ask about the code… Nothing is changed.",
        accent="success",
    ),
    Mode.PLAN: ScreenMode(
        title="Plan",
        note="makes a plan, changes nothing",
        placeholder="Describe what to plan… Nothing is changed.",
        accent="warning",
        panes=(
            REVIEW,
            AutoPane(name="plan", topics=frozenset({"plan"}), is_due=lambda state: state.current_plan is not None),
            BOARD,
        ),
    ),
    Mode.DEBUG: ScreenMode(
        title="Debug",
        note="finds a bug's cause by evidence",
        placeholder="Describe the bug, and how to see it…",
        accent="error",
        panes=(REVIEW._replace(is_held_back=_is_testing), BOARD),
    ),
}
SCREEN_MODES: Final[Mapping[str, ScreenMode]] = {mode.value: _MODES[mode] for mode in Mode}
