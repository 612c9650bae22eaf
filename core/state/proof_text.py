"""The evidence of a review as plain text: for terminals without a screen, other clients, commits and pull requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from core.protocol.evidence import CheckEvidence
from core.protocol.review import Change, Hunk, VerdictRecord
from core.state.proof import (
    LOOK_AT,
    Judgement,
    ProofState,
    Word,
    describe_check_run,
    iterate_judgements,
    judge_code,
    list_tests,
    summarize_proof,
)
from core.text.counting import count
from core.text.display_names import display_name, to_one_line

MAX_PLACE: Final = 40  # characters of a place before its verdict
MAX_LINES: Final = 12  # that the author is told
_STALE: Final = "before the last edit: "


class ProofRow(NamedTuple):
    """One pending hunk and what is known of it."""

    change: Change
    hunk: Hunk
    judgement: Judgement

    @property
    def place(self) -> str:
        """The file and the first line of the hunk."""
        return f"{display_name(self.change.path)}:{self.hunk.new_start}"

    def format(self) -> str:
        """Format as `shop/price.py:41  never ran  no test reaches line 41`."""
        judgement = self.judgement
        facts = " · ".join(filter(None, (judgement.contract, judgement.detail)))
        detail = to_one_line(f"{_STALE if judgement.is_stale else ''}{facts}")
        return f"{self.place:<{MAX_PLACE}}  {judgement.text:<22}  {detail}".rstrip()


def list_proof_rows(proof: ProofState, changes: Iterable[Change]) -> list[ProofRow]:
    """Return the pending hunks of which anything is known, in the order in which they are worth a look."""
    rows = (
        ProofRow(change, hunk, judgement)
        for change, hunk, judgement in iterate_judgements(proof, changes)
        if judgement is not None
    )
    return sorted(rows, key=lambda row: row.judgement.reading_order)


def describe_check(check: CheckEvidence) -> str:
    """Describe the check in one line: `pytest -q: 412 tests passed, 4.1 s, canary noticed`."""
    if not check.command:
        return check.problem
    facts = [describe_check_run(check)]
    facts += [f"{count('flaky test', len(check.flaky))} left out"] if check.flaky else []
    if check.known_failing:
        facts.append(f"{count('test', len(check.known_failing))} failed before, too")
    return ": ".join(filter(None, (to_one_line(check.command), ", ".join(filter(None, facts)))))


def format_proof(proof: ProofState, changes: Sequence[Change]) -> list[str]:
    """Format everything that is known of pending changes, hunk by hunk; folded ones only by their number."""
    if proof.check is None:
        return []
    rows = list_proof_rows(proof, changes)
    summary = summarize_proof(proof, changes)
    lines = [f"Check: {describe_check(proof.check)}", *_list_problems(proof.check)]
    lines += [f"Hunks: {summary.describe()}"] if rows else []
    lines += [row.format() for row in rows if row.judgement.word != "folded"]
    lines += [f"Folded: {' · '.join(summary.kinds)}"] if summary.kinds else []
    return lines


def _list_problems(check: CheckEvidence) -> Iterator[str]:
    if check.problem and check.command:
        yield check.problem
    if check.failing:
        yield f"Failing: {list_tests(check.failing)}"
    for place, weakness in check.weakened:
        yield f"Weakened: {to_one_line(place)}: {to_one_line(weakness)}"
    if check.broken_old:
        yield f"Old tests that fail over the new code: {list_tests(check.broken_old)}"
    if check.steering:
        yield f"These changed files decide how tests run: {', '.join(map(display_name, check.steering))}"


class ActionableEvidence(NamedTuple):
    """The evidence that an author can act on: unnoticed hunks, and tests that check less, each in one line."""

    command: str
    unnoticed: tuple[str, ...] = ()
    weakened: tuple[str, ...] = ()


def find_actionable(proof: ProofState, changes: Iterable[Change]) -> ActionableEvidence | None:
    """Return what the author of the changes can act on, None = nothing. The small changes that were tried are not
    among it: tests would be written for them."""
    check = proof.check
    if check is None or check.problem or proof.is_check_stale:
        return None
    rows = [row for row in list_proof_rows(proof, changes) if not row.judgement.is_stale]
    unnoticed = [
        f"{row.place}: {row.judgement.text} ({row.judgement.detail})"
        for row in rows
        if row.judgement.word in ("changed", "unnoticed", "never_ran")
    ]
    weakened = [f"{display_name(place)}: {weakness}" for place, weakness in check.weakened]
    if not unnoticed and not weakened:
        return None
    return ActionableEvidence(check.command, tuple(unnoticed[:MAX_LINES]), tuple(weakened[:MAX_LINES]))


def has_doubts(proof: ProofState, changes: Iterable[Change]) -> bool:
    """Return True if a pending hunk is worth a look, or if the check proves nothing."""
    if proof.check is not None and proof.check.problem:
        return True
    judgements = (judgement for _, _, judgement in iterate_judgements(proof, changes) if judgement is not None)
    return any(judgement.word in LOOK_AT for judgement in judgements)


def describe_accepted(proof: ProofState, verdicts: Iterable[VerdictRecord]) -> str:
    """Describe what was known of accepted hunks in one line: `5 checked by tests, 1 used but not checked`; "" =
    nothing."""
    counts = Counter[Word]()
    for verdict in verdicts:
        for hunk in verdict.hunks:
            evidence = proof.hunks.get((verdict.path, hunk.id))
            if evidence is not None and evidence.kind == "code" and not evidence.is_stale:
                counts[_join_gaps(judge_code(evidence).word)] += 1
    return ", ".join(f"{counts[word]} {words}" for word, words in _ACCEPTED.items() if counts[word])


_ACCEPTED: Final[Mapping[Word, str]] = {
    "checked": "checked by tests",
    "used": "used but not checked",
    "changed": "noticed by old tests only",
    "unnoticed": "not noticed by any",
    "never_ran": "not run by any",
}


def _join_gaps(word: Word) -> Word:
    return "checked" if word == "gap" else word
