"""The goal of a session as the events tell it, and its rounds in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.patterns import compile_lazily
from core.protocol import events as ev
from core.protocol.documents import Option, Question, QuestionAnswer

DEFAULT_ROUNDS: Final = 10
MAX_ROUNDS: Final = 100
USAGE: Final = "Write /goal CONDITION, and --check COMMAND if a command can tell; --rounds N limits the checks."
_WISH: Final = compile_lazily(
    r"(?P<condition>.+?)(?:\s+--check\s+(?P<check>.+?))?(?:\s+--rounds\s+(?P<rounds>\d{1,6}))?", re.DOTALL
)


GOAL_QUESTION: Final = "goal_proposal"  # the id of the question that a proposed goal is
ACCEPT: Final = "yes"
_EDITED: Final = compile_lazily(r"\s*/?goal\b:?\s*(?P<wish>.*)", re.DOTALL | re.IGNORECASE)
HOW_TO_EDIT: Final = "To change it, answer: goal: CONDITION --check COMMAND"


_PROOF: Final = compile_lazily(
    r"\W*(?:every|each|all)\s+(?:(?:pending|code)\s+)*hunks?(?:\s+of\s+code)?\s+(?:(?:is|are|has been)\s+)?checked"
    r"(?:\s+by\s+(?:a\s+)?tests?)?\W*",
    re.IGNORECASE,
)


def is_proof_goal(condition: str) -> bool:
    """Return True for the condition "every code hunk checked", which a proof of the program decides."""
    return _PROOF.fullmatch(condition) is not None


class GoalWish(NamedTuple):
    """A goal as the user writes it; `rounds` 0: as many as usual."""

    condition: str
    check: str = ""
    rounds: int = 0


def unquote(text: str) -> str:
    """Remove the quotes around a whole text, in which shells have taught to write a command."""
    is_quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]
    return text[1:-1] if is_quoted else text


def parse_wish(text: str) -> GoalWish | None:
    """Parse what follows `/goal`; None: there is no condition."""
    match = _WISH.fullmatch(text.strip())
    if match is None or match["condition"].startswith("--"):
        return None
    return GoalWish(unquote(match["condition"].strip()), unquote(match["check"] or ""), int(match["rounds"] or 0))


def build_goal_question(proposal: ev.GoalProposal, *, replaces: str = "") -> Question:
    """Build the question about a goal that the agent proposes. `replaces`: the condition of the present goal."""
    how = "Whenever the agent would stop, a model judges by the changes and the results of commands."
    if proposal.check:
        how = f"Whenever the agent would stop, the program runs, unasked: {proposal.check}"
    parts = (
        f"Go on until this holds? {proposal.condition}",
        how,
        f"It replaces the goal: {replaces}" if replaces else "",
        HOW_TO_EDIT,
    )
    options = (
        Option(id=ACCEPT, label="Yes, set this goal"),
        Option(id="no", label="No, go on without it"),
    )
    return Question(id=GOAL_QUESTION, text="\n".join(filter(None, parts)), options=options, header="Goal")


def find_accepted_goal(asked: ev.QuestionAsked, answers: Sequence[QuestionAnswer]) -> ev.GoalSet | None:
    """Find the goal that an answer to a proposal sets: the proposed one, or the one that the user wrote instead."""
    answer = next((answer for answer in answers if answer.question == GOAL_QUESTION), None)
    if asked.proposal is None or answer is None:
        return None
    edited = _EDITED.fullmatch(answer.text) if answer.text else None
    if edited is not None and (wish := parse_wish(edited["wish"])) is not None:
        most = min(wish.rounds or DEFAULT_ROUNDS, MAX_ROUNDS)
        return ev.GoalSet(condition=wish.condition, check=wish.check, max_rounds=most)
    if ACCEPT not in answer.options or answer.text.strip():
        return None
    return ev.GoalSet(condition=asked.proposal.condition, check=asked.proposal.check, max_rounds=DEFAULT_ROUNDS)


@dataclass(slots=True, kw_only=True)
class GoalState:
    """The goal of a session, with its checks so far; `reason` is "" while it is pursued."""

    condition: str
    check: str = ""
    max_rounds: int
    started: int = 0
    rounds: list[ev.GoalChecked] = field(default_factory=list)
    reason: str = ""
    message: str = ""


def format_check(check: ev.GoalChecked) -> str:
    """Format one check of a goal as a line."""
    return f"goal, round {check.round}: {'met' if check.outcome == 'met' else 'not met'}: {check.summary}"


def format_end(end: ev.GoalEnded) -> str:
    """Format the end of a goal as a sentence or two."""
    return end.message if end.reason == "met" else f"The goal is not met. {end.message}".rstrip()


def list_rounds(goal: GoalState) -> str:
    """List the rounds of a goal in a sentence."""
    rounds = "; ".join(f"round {check.round}, {check.summary}" for check in goal.rounds)
    return f"Tried: {rounds}." if rounds else ""
