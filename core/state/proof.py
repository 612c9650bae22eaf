"""The word of the check on each pending hunk, folded from its evidence, and its wording for all front ends.

The words are never a percentage. *Checked* means that a test fails without the hunk, by what the test compares; that
tests run its lines says nothing by itself. Evidence is kept by hunk, whose id depends on its content; when a file on
whose text it depended is edited, it is stale until the check has run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from core.protocol.events import EvidenceRecorded, MutantDismissed, ProofFinished
from core.protocol.evidence import CheckEvidence, HunkEvidence, HunkKind, Mutant
from core.protocol.review import Change, FileState, Hunk, is_prose
from core.text.counting import count
from core.text.display_names import display_name

Word = Literal[
    "fails", "proves_nothing", "weakened", "steering", "changed", "never_ran", "unnoticed", "used", "gap", "unknown",
    "checked", "test", "folded",
]  # fmt: skip
# The order in which hunks are reviewed. What was not asked for comes before all others of its word.
ORDER: Final[tuple[Word, ...]] = (
    "fails", "proves_nothing", "weakened", "steering", "changed", "never_ran", "unnoticed", "used", "gap", "unknown",
    "checked", "test", "folded",
)  # fmt: skip
LOOK_AT: Final[frozenset[Word]] = frozenset(ORDER[: ORDER.index("gap") + 1])
_KIND_WORDS: Final[Mapping[HunkKind, tuple[str, str, str]]] = {  # as a verdict, one of many, many
    "format": ("format only", "format", "format"),
    "docs": ("documentation", "documentation", "documentation"),
    "types": ("annotations only", "annotation", "annotations"),
    "imports": ("imports only", "import", "imports"),
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
STALE: Final = "before the last edit"
# Words that ask for a test, as something can be said about what it would notice.
TESTABLE: Final = frozenset[Word]({"changed", "never_ran", "unnoticed", "used", "gap"})


class Judgement(NamedTuple):
    """The knowledge of one hunk, in words: `text` is the verdict, `detail` the reason for it. `is_stale`: it is about
    an earlier text. `is_proven`: it may be accepted together with others that are. `loss`: what happens if it is
    rejected, "" = that was not tried. `contract`: what it changes that code elsewhere relies on, "" = nothing."""

    word: Word
    text: str
    detail: str = ""
    is_stale: bool = False
    is_proven: bool = False
    loss: str = ""
    contract: str = ""

    @property
    def is_brief(self) -> bool:
        """True if there is nothing to read about the hunk but its kind, which needs no test."""
        return self.word == "folded" and not self.loss

    @property
    def rank(self) -> int:
        """The place of its word in the order of a review."""
        return ORDER.index(self.word)

    @property
    def reading_order(self) -> tuple[int, bool]:
        """The place in the order of a review: within a word, what changes a contract with code elsewhere is first."""
        return self.rank, not self.contract


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
        return judgement._replace(is_stale=is_stale, is_proven=is_proven, contract=evidence.contract)


_OF_CHECK: Final = frozenset[Word]({"fails", "proves_nothing", "weakened", "test"})


def _has_run(evidence: HunkEvidence) -> bool:
    return evidence.kind == "code" or evidence.needed != "unknown"


def judge_hunk(change: Change, hunk: Hunk, evidence: HunkEvidence, check: CheckEvidence) -> Judgement:
    """Return what the evidence of a hunk says, in words."""
    if evidence.kind == "test":
        return _judge_test(change, hunk, evidence, check)
    if evidence.kind == "steering":
        return Judgement("steering", "decides how tests run", "the check ran by changed rules")
    if evidence.kind != "code":
        return _judge_kind(change, evidence)
    judgement = judge_code(evidence)
    if check.problem and check.command and judgement.word not in ("changed", "never_ran", "unnoticed"):
        if check.failing:
            return Judgement("fails", "the check fails", list_tests(check.failing))
        return Judgement("proves_nothing", "the check proves nothing", check.problem)
    return judgement._replace(is_proven=judgement.word == "checked" and change.operation != "delete")


def _judge_test(change: Change, hunk: Hunk, evidence: HunkEvidence, check: CheckEvidence) -> Judgement:
    for place, weakness in check.weakened:
        path, _, line = place.rpartition(":")
        if path == change.path and line.isdecimal() and _covers(hunk, int(line)):
            return Judgement("weakened", "test weakened", weakness)
    outcomes: tuple[tuple[tuple[str, ...], Word, str], ...] = (
        (check.broken_old, "test", "its old text fails over the new code"),
        (check.red_new, "test", "fails without the change"),
        (check.green_new, "gap", "passes without the change too"),
    )
    for tests, word, sentence in outcomes:
        if own_tests := [test for test in tests if _is_touched(test, change.path, evidence.touched)]:
            return Judgement(word, "test", f"{sentence}: {list_tests(own_tests)}")
    return Judgement("test", "test")


def _is_touched(test: str, path: str, names: Collection[str]) -> bool:
    """Return True if a hunk of a file changes a test, by the names of the functions that it changes."""
    name = test.rpartition("::")[2].partition("[")[0]
    return _is_in_file(test, path) and (name if "::" in test else name.rpartition(".")[2]) in names


def _is_in_file(test: str, path: str) -> bool:
    """Return True if a test is in a file: `a/test_b.py::test_c` of pytest, or `test_b.Case.test_c` of unittest."""
    if "::" in test:
        return test.startswith(f"{path}::")
    module = test.rpartition(".")[0].rpartition(".")[0]
    dotted = path.removesuffix(".py").replace("/", ".")
    return bool(module) and f".{dotted}".endswith(f".{module}")


def _covers(hunk: Hunk, line: int) -> bool:
    is_new = hunk.new_start <= line < hunk.new_start + max(hunk.new_lines, 1)
    return is_new or hunk.old_start <= line < hunk.old_start + hunk.old_lines


def _judge_kind(change: Change, evidence: HunkEvidence) -> Judgement:
    is_static = evidence.needed == "unknown"  # what only no test notices is to be read
    is_proven = is_static and evidence.kind in _ACCEPTED_KINDS and change.operation != "delete"
    detail = evidence.substitution if evidence.kind == "uniform" else ""
    return Judgement("folded", _KIND_WORDS[evidence.kind][0], detail, is_proven=is_proven)


def judge_code(evidence: HunkEvidence) -> Judgement:
    """Return what the evidence of a hunk of code says by itself, in words."""
    judgement = _judge_need(evidence)
    if not evidence.lost_tests:
        return judgement
    verb = "fails" if len(set(evidence.lost_tests)) == 1 else "fail"
    detail = f"with it, {list_tests(evidence.lost_tests)} {verb}, deleted here"
    loss = " · ".join(filter(None, (judgement.loss, detail)))
    return Judgement("changed", f"{judgement.text}, test gone", detail, loss=loss)


def _judge_need(evidence: HunkEvidence) -> Judgement:
    if evidence.needed == "checked":
        return _judge_checked(evidence)
    if evidence.needed == "removed":
        return _judge_removal(evidence)
    if evidence.needed in _NEEDED_WORDS:
        return _judge_needed(evidence)
    if evidence.executed == "none" and not evidence.unknown:
        lines = _describe_lines(evidence)
        loss = f"{_describe_removal(evidence)}, all tests pass · {lines}" if evidence.needed == "unnoticed" else ""
        return Judgement("never_ran", "never ran", lines, loss=loss)
    if evidence.needed == "unnoticed":
        return _judge_unnoticed(evidence)
    return Judgement("unknown", f"not looked into{'' if evidence.unknown else ' yet'}", evidence.unknown)


_NEEDED_WORDS: Final[Mapping[str, tuple[Word, str, str]]] = {
    "used": ("used", "used, not checked", "something crashes"),
    "hangs": ("used", "used, not checked", "the check never ends"),
    "old_tests": ("changed", "only old tests notice", "all tests pass"),
    "same": ("folded", "behaves as before", "all tests pass, and they fail when its lines are changed"),
}


def _judge_needed(evidence: HunkEvidence) -> Judgement:
    word, text, outcome = _NEEDED_WORDS[evidence.needed]
    loss = f"{_describe_removal(evidence)}, {outcome}"
    if evidence.needed == "used" and evidence.message:
        loss = f"{_describe_removal(evidence)}: {evidence.message}"
    detail = f"with it, {_describe_failure(evidence)} in the old version" if word == "changed" else loss
    return Judgement(word, text, detail, loss=loss)


def _judge_removal(evidence: HunkEvidence) -> Judgement:
    """Judge definitions that are gone: tests that were removed with them can't miss them. A public name is read."""
    loss = f"{_describe_removal(evidence)}, all tests pass"
    word: Word = "unnoticed" if evidence.contract else "folded"
    return Judgement(word, "removed", "no test misses it", loss=loss)


def _describe_removal(evidence: HunkEvidence) -> str:
    """Begin a sentence about the run without a hunk, and without those that had to be taken out with it."""
    others = len(set(evidence.group) - {evidence.hunk})
    return f"without it and {count('other hunk', others)}" if others else "without it"


def _judge_checked(evidence: HunkEvidence) -> Judgement:
    tests = list_tests(evidence.by_tests)
    loss = f"{_describe_removal(evidence)}, {_describe_failure(evidence)}"
    gaps = [describe_gap(mutant) for mutant in evidence.mutants if not mutant.is_noticed]
    if gaps:
        text = "checked, one gap" if len(gaps) == 1 else f"checked, {len(gaps)} gaps"
        return Judgement("gap", text, " · ".join(filter(None, (*gaps, tests))), loss=" · ".join((loss, *gaps)))
    unrun = _list_unrun(evidence)
    detail = " · ".join(filter(None, (tests, unrun)))
    return Judgement("checked", "checked", detail, loss=" · ".join(filter(None, (loss, unrun))))


def _describe_failure(evidence: HunkEvidence) -> str:
    if not evidence.by_tests:
        return "the check fails"
    names = list_tests(evidence.by_tests)
    return f"{names} {'fails' if len(set(evidence.by_tests)) == 1 else 'fail'}"


def _list_unrun(evidence: HunkEvidence) -> str:
    """List the lines that no test reaches, where others of the hunk are reached."""
    lines = format_lines(evidence.not_run)
    return f"{'line' if len(evidence.not_run) == 1 else 'lines'} {lines} never ran" if lines else ""


def _judge_unnoticed(evidence: HunkEvidence) -> Judgement:
    runs = count("test", evidence.tests) if evidence.tests else ""
    own = "the test that runs it passes" if evidence.tests == 1 else f"the {runs} that run it pass"
    outcome = "all tests pass" if evidence.is_confirmed or not runs else own
    suffix = f" ({runs} {'runs' if evidence.tests == 1 else 'run'} it)" if runs and evidence.is_confirmed else ""
    loss = f"{_describe_removal(evidence)}, {outcome}"
    text = "runs, nothing notices" if runs else "nothing notices"
    return Judgement("unnoticed", text, f"{loss}{suffix}", loss=loss)


def _describe_lines(evidence: HunkEvidence) -> str:
    if not evidence.not_run:
        return "no test reaches it"
    return f"no test reaches {'line' if len(evidence.not_run) == 1 else 'lines'} {format_lines(evidence.not_run)}"


def format_lines(numbers: Sequence[int], limit: int = 3) -> str:
    """Format numbers of lines as ranges, `14, 20-22`; `…` stands for more than `limit` of them."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ", ".join(texts[:limit]) + (", …" if len(texts) > limit else "")


def describe_gap(mutant: Mutant) -> str:
    """Describe a small change that the check does not notice: `>= → > unnoticed`."""
    return f"{mutant.old} → {mutant.new} unnoticed"


def list_tests(tests: Iterable[str], limit: int = MAX_TESTS) -> str:
    """List the names of tests: `test_limit, test_total (+3)`."""
    names = list(dict.fromkeys(map(_shorten_test, tests)))
    rest = f" (+{len(names) - limit})" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest


def _shorten_test(test: str) -> str:
    """Return the name of a test without its file (`a.py::test_x`), or its module and class (`a.Case.test_x`)."""
    file, _, name = test.rpartition("::")
    if not file and test.count(".") >= 2 and " " not in test and "/" not in test:
        name = test.rpartition(".")[2]
    return display_name(name or test)


class ProofSummary(NamedTuple):
    """The counts of a review. `folded`: what needs no test, `kinds` of it as `3 documentation`; `unknown`: hunks that
    were not looked into. `proven` may be accepted together: `proven_checked` of them because tests check them."""

    look_at: int = 0
    checked: int = 0
    tests: int = 0
    unknown: int = 0
    folded: int = 0
    kinds: tuple[str, ...] = ()
    proven: int = 0
    proven_checked: int = 0
    left_out: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describe the counts: `6 to look at · 14 checked · 80 folded`."""
        counts = [
            (self.look_at, "to look at"),
            (self.checked, "checked"),
            (self.unknown, "not looked into"),
            (self.tests, "test" if self.tests == 1 else "tests"),
            (self.folded, "folded"),
        ]
        return " · ".join(f"{number:,} {word}" for number, word in counts if number)


Placed = tuple[Change, Hunk, Judgement | None]


def summarize_proof(proof: ProofState, changes: Iterable[Change]) -> ProofSummary:
    """Count the pending hunks by what is known of them."""
    return summarize_judgements(list(iterate_judgements(proof, changes)))


def summarize_judgements(places: Sequence[Placed]) -> ProofSummary:
    """Count hunks by what is known of them."""
    judgements = [judgement for _, _, judgement in places if judgement is not None]
    words = Counter(judgement.word for judgement in judgements)
    proven = [judgement for change, hunk, judgement in places if judgement and can_accept(change, hunk, judgement)]
    return ProofSummary(
        look_at=sum(words[word] for word in LOOK_AT),
        checked=words["checked"],
        tests=words["test"],
        unknown=words["unknown"],
        folded=words["folded"],
        kinds=count_kinds(judgements),
        proven=len(proven),
        proven_checked=sum(judgement.word == "checked" for judgement in proven),
        left_out=_list_left_out(places),
    )


def count_kinds(judgements: Iterable[Judgement]) -> tuple[str, ...]:
    """Count what needs no test by its kind, the most frequent first: `31 imports`, `9 × get_price → price_of`."""
    kinds = Counter((one.text, one.detail if one.text in _EDITS else "") for one in judgements if one.word == "folded")
    counts = []
    for (text, substitution), number in kinds.most_common():
        words = _FOLDED_WORDS.get(text, (text, text))
        counts.append(f"{number:,} × {substitution}" if substitution else f"{number:,} {words[number != 1]}")
    return tuple(counts)


_EDITS: Final = frozenset({_KIND_WORDS["uniform"][0]})
_FOLDED_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    **{text: (one, many) for text, one, many in _KIND_WORDS.values()},
    "behaves as before": ("behaves as before", "behave as before"),
}


def can_accept(change: Change, hunk: Hunk, judgement: Judgement) -> bool:
    """True if a hunk may be accepted together with others, without having been read."""
    is_plain = not (change.protected or change.broken or change.conflict or change.operation == "delete")
    return is_plain and judgement.is_proven and change.is_hunk_clean(hunk.id)


def _list_left_out(places: Iterable[Placed]) -> tuple[str, ...]:
    """Name the hunks that are not accepted together, by the first reason that holds for each."""
    reasons = Counter[tuple[str, str]]()
    for change, hunk, judgement in places:
        if judgement is None or not can_accept(change, hunk, judgement):
            reasons[_find_reason(change, judgement)] += 1
    return tuple(f"{number:,} {one if number == 1 else many}" for (one, many), number in reasons.most_common())


def _find_reason(change: Change, judgement: Judgement | None) -> tuple[str, str]:
    if change.operation == "delete":
        return "deletion", "deletions"
    if change.protected or change.broken or change.conflict:
        return "in a file that needs its own verdict", "in files that need their own verdict"
    if judgement is None or judgement.word == "unknown":
        return "not looked into", "not looked into"
    if judgement.is_stale:
        return "edited since the check ran", "edited since the check ran"
    if judgement.word in _REASONS:
        return _REASONS[judgement.word]
    return ("to look at", "to look at") if judgement.word in LOOK_AT else ("to read by yourself", "to read by yourself")


_REASONS: Final[Mapping[Word, tuple[str, str]]] = {
    "test": ("test", "tests"),
    "weakened": ("weakened test", "weakened tests"),
    "steering": ("that decides how tests run", "that decide how tests run"),
}


def describe_check_run(check: CheckEvidence) -> str:
    """Describe the check over all changes in a few words: `412 tests passed, 4.1 s, canary noticed`."""
    if not check.command or not (check.tests or check.failing):
        return ""
    tests = count("test", check.tests)
    outcome = f"{len(check.failing):,} of {tests} failed" if check.failing else f"{tests} passed"
    seconds = f"{check.seconds:.1f} s" if check.seconds else ""
    return ", ".join(filter(None, (outcome, seconds, _CANARY_WORDS[check.canary])))


_CANARY_WORDS: Final[Mapping[str, str]] = {"noticed": "canary noticed", "missed": "canary missed", "not_run": ""}


def describe_problem(check: CheckEvidence) -> tuple[str, str]:
    """Return what is wrong with the check, as a heading and its reason; empty if nothing is known to be wrong."""
    if not check.problem:
        return "", ""
    if not check.command:
        return "Nothing was run", check.problem
    if check.failing:
        return "The check fails", list_tests(check.failing, 4)
    return "The check proves nothing", check.problem


def iterate_judgements(proof: ProofState, changes: Iterable[Change]) -> Iterator[Placed]:
    """Yield every pending hunk with what is known of it."""
    for change in changes:
        for hunk in change.hunks:
            yield change, hunk, proof.judge(change, hunk)


def explain_hunk(evidence: HunkEvidence) -> list[tuple[str, str]]:
    """Return all that is known of a hunk as rows of a name and a text, in plain words."""
    rows = [("tests", "\n".join(evidence.by_tests)), ("message", evidence.message)]
    rows.append(("lost tests", "\n".join(evidence.lost_tests)))
    rows.append(("runs it", count("test", evidence.tests) if evidence.tests else ""))
    rows.append(("executed", _EXECUTED_WORDS[evidence.executed]))
    plural = "line" if len(evidence.not_run) == 1 else "lines"
    rows.append(("never ran", f"{plural} {format_lines(evidence.not_run, 40)}" if evidence.not_run else ""))
    rows.append(("without it", _describe_need(evidence)))
    others = len(set(evidence.group) - {evidence.hunk})
    rows.append(("taken out", f"together with {count('other hunk', others)}" if others else ""))
    rows += [(f"line {mutant.line}", describe_mutant(mutant)) for mutant in evidence.mutants]
    rows.append(("edit", evidence.substitution))
    rows += [("not tried", evidence.unknown), ("agent says", f"“{evidence.claim}”" if evidence.claim else "")]
    return [(name, text) for name, text in rows if text]


_EXECUTED_WORDS: Final[Mapping[str, str]] = {
    "all": "all of its lines",
    "part": "some of its lines",
    "import": "only while modules are imported, in no test",
    "none": "no line of it",
    "unknown": "",
}


def _describe_need(evidence: HunkEvidence) -> str:
    if evidence.needed == "checked":
        return "a test fails by what it compares"
    if evidence.needed == "unnoticed":
        return f"nothing fails{', in the whole check' if evidence.is_confirmed else ', in the tests that run it'}"
    return _NEED_WORDS.get(evidence.needed, "")


_NEED_WORDS: Final[Mapping[str, str]] = {
    "used": "something crashes before a test compares anything",
    "hangs": "the check never ends",
    "old_tests": "nothing fails; with it, tests as they were before this change do",
    "removed": "nothing fails; whole definitions are gone",
    "same": "nothing fails, but each small change of its lines was noticed",
}


def describe_mutant(mutant: Mutant) -> str:
    """Describe a small change of a line, and who noticed it."""
    by = f" by {list_tests([mutant.by_test])}" if mutant.by_test else ""
    return f"{mutant.old} → {mutant.new} {f'noticed{by}' if mutant.is_noticed else 'unnoticed'}"


def explain_check(check: CheckEvidence, changed: Sequence[HunkEvidence] = ()) -> list[tuple[str, str]]:
    """Return all that is known of the check as rows of a name and a text: the receipt of a proof. `changed`: the
    hunks that were looked into."""
    mutants = [mutant for evidence in changed for mutant in evidence.mutants]
    noticed = sum(mutant.is_noticed for mutant in mutants)
    new_tests = len(check.red_new) + len(check.green_new)
    rows = [
        ("check", check.command),
        ("result", describe_check_run(check)),
        ("failing", "\n".join(check.failing)),
        ("before it", f"{count('test', len(check.known_failing))} failed already" if check.known_failing else ""),
        ("not stable", "\n".join(check.flaky)),
        ("canary", _CANARY_SENTENCES[check.canary] if check.command else ""),
        ("steering", "\n".join(check.steering)),
        ("weakened", "\n".join(f"{place}  {words}" for place, words in check.weakened)),
        ("old tests", f"fail over the new code: {list_tests(check.broken_old, 8)}" if check.broken_old else ""),
        ("new tests", f"{len(check.red_new)} of {new_tests} fail without the change" if new_tests else ""),
        ("", f"pass without it, too: {list_tests(check.green_new, 8)}" if check.green_new else ""),
        ("mutants", f"{noticed} of {len(mutants)} noticed" if mutants else ""),
        ("evidence", f"{count('run', check.runs)}, {check.run_seconds:.0f} s" if check.runs else ""),
    ]
    return [(name, text) for name, text in rows if text]


_CANARY_SENTENCES: Final[Mapping[str, str]] = {
    "noticed": "a fault in code that it runs was noticed",
    "missed": "a fault in code that it claims to run was not noticed",
    "not_run": "",
}
