"""What the check says about each pending hunk, folded from its evidence, and the words for it, for all front ends.

The words are never a percentage. *Checked* means that a test fails without the hunk, by what the test compares; that
tests run its lines says nothing by itself. Evidence is kept by hunk, whose id depends on its content; when a file on
whose text it depended is edited, it is stale until the check has run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from core.protocol.events import EvidenceRecorded, MutantDismissed, ProofFinished
from core.protocol.evidence import CheckEvidence, HunkEvidence, HunkKind, Mutant
from core.protocol.review import Change, FileState, Hunk, is_prose
from core.text.counting import count
from core.text.display_names import display_name

Word = Literal[
    "fails", "proves_nothing", "weakened", "steering", "never_ran", "unnoticed", "used", "gap", "unknown", "test",
    "checked", "folded",
]  # fmt: skip
# The order in which hunks are reviewed. What was not asked for comes before all others of its word.
ORDER: Final[tuple[Word, ...]] = (
    "fails", "proves_nothing", "weakened", "steering", "never_ran", "unnoticed", "used", "gap", "unknown", "test",
    "checked", "folded",
)  # fmt: skip
LOOK_AT: Final[frozenset[Word]] = frozenset(ORDER[: ORDER.index("gap") + 1])
_KIND_WORDS: Final[Mapping[HunkKind, tuple[str, str, str]]] = {  # as a verdict, one of many, many
    "format": ("format only", "format", "format"),
    "docs": ("documentation", "documentation", "documentation"),
    "types": ("types only", "types", "types"),
    "imports": ("imports only", "imports", "imports"),
    "move": ("moved", "move", "moves"),
    "rename": ("renamed", "rename", "renames"),
    "uniform": ("same edit", "same edit", "same edits"),
    "generated": ("generated", "generated", "generated"),
    "vendored": ("vendored", "vendored", "vendored"),
    "binary": ("binary", "binary", "binary"),
    "data": ("data, no test is asked", "data", "data"),
}
# What needs no test and can be accepted with what is checked. What other people wrote is read by itself.
_ACCEPTED_KINDS: Final = frozenset[HunkKind]({"format", "docs", "types", "imports", "move", "rename"})
MAX_TESTS: Final = 2  # names of tests in one line


class Judgement(NamedTuple):
    """What is known of one hunk, in words: `text` is the verdict, `detail` the reason for it. `is_stale`: it is about
    an earlier text. `is_proven`: it may be accepted together with others that are."""

    word: Word
    text: str
    detail: str = ""
    is_stale: bool = False
    is_proven: bool = False

    @property
    def rank(self) -> int:
        """The place in the order of a review."""
        return ORDER.index(self.word)


@dataclass(slots=True)
class ProofState:
    """The evidence of the pending hunks by path and id; `check`: that of the check, None = no proof began. `text`: the
    content by path that the check ran over; `finished`: the end of the last proof. Only `apply_*` change it."""

    hunks: dict[tuple[str, str], HunkEvidence] = field(default_factory=dict)
    check: CheckEvidence | None = None
    is_check_stale: bool = False
    text: dict[str, FileState] = field(default_factory=dict)
    finished: ProofFinished | None = None

    def apply_evidence(self, event: EvidenceRecorded) -> None:
        """Replace the evidence of these hunks."""
        if event.text:
            self.text, self.finished = dict(event.text), None
        if event.check is not None:
            self.check, self.is_check_stale = event.check, False
        self.hunks |= {(evidence.path, evidence.hunk): evidence for evidence in event.hunks}

    def apply_end(self, event: ProofFinished) -> None:
        """Record the end of a proof."""
        self.finished = event

    def apply_edit(self, path: str, pending: FileState | None) -> None:
        """Mark what depended on the text of a file whose pending content is another now; None = it is unknown."""
        if self.check is None or (pending is not None and self.text.get(path) == pending):
            return
        if path not in self.text and is_prose(path):
            return
        self.is_check_stale = True
        for place, evidence in self.hunks.items():
            is_touched = not evidence.depends_on or path in evidence.depends_on or path not in self.text
            if is_touched and not evidence.is_stale and _has_run(evidence):
                self.hunks[place] = replace(evidence, is_stale=True)

    def apply_dismissal(self, event: MutantDismissed) -> None:
        """Forget the small changes that the user found useless."""
        for place, evidence in self.hunks.items():
            wanted = tuple(one for one in evidence.mutants if (one.old, one.new) != (event.old, event.new))
            if event.path == evidence.path and len(wanted) < len(evidence.mutants):
                self.hunks[place] = replace(evidence, mutants=wanted)

    def list_known(self) -> dict[tuple[str, str], HunkEvidence]:
        """Return the evidence that still holds, for the next proof of the same check."""
        return {place: evidence for place, evidence in self.hunks.items() if not evidence.is_stale}

    def judge(self, change: Change, hunk: Hunk) -> Judgement | None:
        """Return what is known of a pending hunk; None = nothing."""
        evidence = self.hunks.get((change.path, hunk.id))
        if evidence is None or self.check is None:
            return None
        judgement = judge_hunk(change, hunk, evidence, self.check)
        is_stale = evidence.is_stale or (self.is_check_stale and judgement.word in _OF_CHECK)
        is_proven = judgement.is_proven and not is_stale and not self.is_check_stale
        return judgement._replace(is_stale=is_stale, is_proven=is_proven)


_OF_CHECK: Final = frozenset[Word]({"fails", "proves_nothing", "weakened", "test"})


def _has_run(evidence: HunkEvidence) -> bool:
    return evidence.kind == "code" or evidence.needed != "unknown"


def judge_hunk(change: Change, hunk: Hunk, evidence: HunkEvidence, check: CheckEvidence) -> Judgement:
    """Return what the evidence of a hunk says, in words."""
    if evidence.kind == "test":
        return _judge_test(change, hunk, check)
    if evidence.kind == "steering":
        return Judgement("steering", "decides how tests run", "the check ran by changed rules")
    if evidence.kind != "code":
        return _judge_kind(change, evidence)
    judgement = judge_code(evidence)
    if check.problem and check.command and judgement.word not in ("never_ran", "unnoticed"):
        if check.failing:
            return Judgement("fails", "the check fails", list_tests(check.failing))
        return Judgement("proves_nothing", "the check proves nothing", check.problem)
    return judgement._replace(is_proven=judgement.word in ("checked", "folded") and change.operation != "delete")


def _judge_test(change: Change, hunk: Hunk, check: CheckEvidence) -> Judgement:
    for place, weakness in check.weakened:
        path, _, line = place.rpartition(":")
        if path == change.path and _covers(hunk, int(line)):
            return Judgement("weakened", "test weakened", weakness)
    outcomes: tuple[tuple[tuple[str, ...], Word, str], ...] = (
        (check.broken_old, "test", "its old text fails over the new code"),
        (check.red_new, "test", "fails without the change"),
        (check.green_new, "gap", "passes without the change too"),
    )
    for tests, word, sentence in outcomes:
        if own_tests := [test for test in tests if test.startswith(f"{change.path}::")]:
            return Judgement(word, "test", f"{sentence}: {list_tests(own_tests)}")
    return Judgement("test", "test")


def _covers(hunk: Hunk, line: int) -> bool:
    is_new = hunk.new_start <= line < hunk.new_start + max(hunk.new_lines, 1)
    return is_new or hunk.old_start <= line < hunk.old_start + hunk.old_lines


def _judge_kind(change: Change, evidence: HunkEvidence) -> Judgement:
    is_proven = evidence.kind in _ACCEPTED_KINDS and change.operation != "delete"
    detail = evidence.substitution if evidence.kind == "uniform" else ""
    return Judgement("folded", _KIND_WORDS[evidence.kind][0], detail, is_proven=is_proven)


def judge_code(evidence: HunkEvidence) -> Judgement:
    """Return what the evidence of a hunk of code says by itself, in words."""
    if evidence.needed in _NEEDED_WORDS:
        word, text, detail = _NEEDED_WORDS[evidence.needed]
        return Judgement(word, text, detail.format(evidence.message).rstrip(": "))
    if evidence.needed == "checked":
        return _judge_checked(evidence)
    if evidence.executed == "none" and not evidence.unknown:
        return Judgement("never_ran", "never ran", _describe_lines(evidence))
    if evidence.needed == "unnoticed":
        return _judge_unnoticed(evidence)
    return Judgement("unknown", "not looked into", evidence.unknown)


_NEEDED_WORDS: Final[Mapping[str, tuple[Word, str, str]]] = {
    "used": ("used", "used, not checked", "without it: {}"),
    "hangs": ("used", "used, not checked", "without it, the check never ends"),
    "same": ("folded", "behaves as before", "without it all pass, with small changes to it its tests fail"),
}


def _judge_checked(evidence: HunkEvidence) -> Judgement:
    tests = list_tests(evidence.by_tests)
    gap = next((mutant for mutant in evidence.mutants if not mutant.is_noticed), None)
    if gap is not None:
        return Judgement("gap", "checked, one gap", f"{tests} · {describe_gap(gap)}".removeprefix(" · "))
    return Judgement("checked", "checked", tests)


def _judge_unnoticed(evidence: HunkEvidence) -> Judgement:
    runs = f" ({count('test', evidence.tests)} run it)" if evidence.tests else ""
    return Judgement("unnoticed", "runs, nothing notices" if runs else "nothing notices", f"taken out, all pass{runs}")


def _describe_lines(evidence: HunkEvidence) -> str:
    return f"no test reaches line {evidence.not_run[0]}" if evidence.not_run else "no test reaches it"


def describe_gap(mutant: Mutant) -> str:
    """Describe a small change that the check does not notice: `>= → > unnoticed`."""
    return f"{mutant.old} → {mutant.new} unnoticed"


def list_tests(tests: Iterable[str]) -> str:
    """List the names of tests: `test_limit, test_total (+3)`."""
    names = list(dict.fromkeys(display_name(test.rpartition("::")[2] or test) for test in tests))
    rest = f" (+{len(names) - MAX_TESTS})" if len(names) > MAX_TESTS else ""
    return ", ".join(names[:MAX_TESTS]) + rest


class ProofSummary(NamedTuple):
    """The counts of a review. `folded`: by kind, as `3 documentation`; `unknown`: hunks that were not looked into."""

    look_at: int = 0
    checked: int = 0
    tests: int = 0
    unknown: int = 0
    folded: int = 0
    kinds: tuple[str, ...] = ()
    proven: int = 0

    def describe(self) -> str:
        """Describe the counts: `6 to look at · 14 checked · 80 folded`."""
        counts = [
            (self.look_at, "to look at"),
            (self.checked, "checked"),
            (self.unknown, "not looked into"),
            (self.tests, "test" if self.tests == 1 else "tests"),
            (self.folded, "folded"),
        ]
        return " · ".join(f"{number} {word}" for number, word in counts if number)


def summarize_proof(proof: ProofState, changes: Iterable[Change]) -> ProofSummary:
    """Count the pending hunks by what is known of them."""
    judgements = [judgement for _, _, judgement in iterate_judgements(proof, changes) if judgement is not None]
    words = Counter(judgement.word for judgement in judgements)
    kinds = Counter(judgement.text for judgement in judgements if judgement.word == "folded")
    return ProofSummary(
        look_at=sum(words[word] for word in LOOK_AT),
        checked=words["checked"],
        tests=words["test"],
        unknown=words["unknown"],
        folded=words["folded"],
        kinds=tuple(f"{number} {text}" for text, number in kinds.most_common()),
        proven=sum(judgement.is_proven for judgement in judgements),
    )


def iterate_judgements(proof: ProofState, changes: Iterable[Change]) -> Iterator[tuple[Change, Hunk, Judgement | None]]:
    """Yield every pending hunk with what is known of it."""
    for change in changes:
        for hunk in change.hunks:
            yield change, hunk, proof.judge(change, hunk)
