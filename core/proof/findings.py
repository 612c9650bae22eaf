"""The evidence of a change as it grows: the class of each hunk at once, and what runs of the check add to it.

Whoever asked for a proof hears of each piece as soon as it is there, so that a proof which is stopped was not for
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from core.proof.classes.contracts import find_contracts, find_file_contract
from core.proof.classes.path_kinds import classify_file
from core.proof.classes.uniform_edits import Place
from core.proof.classes.weakened_tests import WeakenedTest, find_touched, find_weakened_tests
from core.proof.hunk_classes import ChangedText, classify_hunks
from core.proof.runs.line_reports import GO_ENDING, RUBY_ENDING
from core.proof.runs.records import RunRecord
from core.proof.runs.v8_coverage import ENDINGS
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.review import is_prose
from core.shell.verification.steering_files import is_test_file

_RECORDED: Final = (".py", GO_ENDING, RUBY_ENDING, *ENDINGS)


class ProofReport(Protocol):
    """Hears of the evidence: of each hunk at the beginning, and whenever more is known of it or of the check."""

    def report_hunk(self, evidence: HunkEvidence, /) -> None: ...

    def report_check(self, evidence: CheckEvidence, /) -> None: ...


class Findings:
    """The evidence of a change. `known`: verdicts on hunks that still hold from an earlier proof."""

    def __init__(
        self,
        texts: Sequence[ChangedText],
        command: str,
        report: ProofReport | None = None,
        known: Mapping[Place, HunkEvidence] | None = None,
    ) -> None:
        self.texts = {text.change.path: text for text in texts}
        self._report = report
        self.known = {place: evidence for place, evidence in (known or {}).items() if _holds(evidence)}
        self.classes = classify_hunks(texts)
        self._contracts, self._touched = self._find_contracts(), self._find_touched()
        self.evidence = {place: self._begin(place) for place in self.classes}
        self.check = CheckEvidence(
            command=command,
            steering=tuple(path for path in self.texts if self.get_kind(path) == "steering"),
            weakened=self._find_weakened(),
        )

    def report_all(self) -> None:
        """Report everything that is known."""
        if self._report is not None:
            for evidence in self.evidence.values():
                self._report.report_hunk(evidence)
            self._report.report_check(self.check)

    def update(self, place: Place, **fields: object) -> None:
        """Add to the evidence of a hunk; it is reported if it is new."""
        evidence = replace(self.evidence[place], **fields)
        if evidence != self.evidence[place]:
            self.evidence[place] = evidence
            if self._report is not None:
                self._report.report_hunk(evidence)

    def update_check(self, **fields: object) -> None:
        """Add to the evidence of the check; it is reported if it is new."""
        check = replace(self.check, **fields)
        if check != self.check:
            self.check = check
            if self._report is not None:
                self._report.report_check(check)

    def list_places(self, kind: str) -> list[Place]:
        """Return the hunks of a kind."""
        return [place for place, evidence in self.evidence.items() if evidence.kind == kind]

    def get_kind(self, path: str) -> str:
        """Return what the hunks of a file are: `code` if one of them is."""
        kinds = {self.classes[path, hunk.id].kind for hunk in self.texts[path].change.hunks}
        return next((kind for kind in ("code", "test", "steering") if kind in kinds), "")

    def find_dependencies(self, tests: Collection[str], record: RunRecord) -> tuple[str, ...]:
        """Return the changed files on which a verdict depends that these tests give; () = all of them. A file whose
        lines are not recorded may be read by any test."""
        files = [record.lines.get(test) or record.lines.get(test.partition("::")[0], {}) for test in tests]
        if not files or not all(files):
            return ()
        recorded = list_recorded(self.texts.values())
        paths = {path for lines in files for path in lines} | {test.partition("::")[0] for test in tests}
        paths |= {path for path in self.texts if path not in recorded and not is_silent(path)}
        return tuple(path for path in self.texts if path in paths)

    def _begin(self, place: Place) -> HunkEvidence:
        hunk_class = self.classes[place]
        evidence = HunkEvidence(
            path=place[0],
            hunk=place[1],
            kind=hunk_class.kind,
            partner=hunk_class.partner,
            substitution=hunk_class.substitution,
            contract=self._contracts.get(place, ""),
            touched=self._touched.get(place, ()),
        )
        known = self.known.get(place)
        if known is None or known.kind not in (evidence.kind, hunk_class.unless_noticed):
            self.known.pop(place, None)
            return evidence
        static = {name: getattr(evidence, name) for name in ("partner", "substitution", "contract", "touched")}
        return replace(known, **static)

    def _find_touched(self) -> dict[Place, tuple[str, ...]]:
        """Return the names of the tests that each hunk of tests touches."""
        touched = dict[Place, tuple[str, ...]]()
        for path, text in self.texts.items():
            if self.get_kind(path) == "test":
                names = find_touched(path, text.pending.decode("utf-8", "replace"), text.change.hunks)
                touched |= {(path, hunk): tuple(sorted(functions)) for hunk, functions in names.items()}
        return touched

    def _find_contracts(self) -> dict[Place, str]:
        """Return in words what hunks change that code elsewhere relies on."""
        contracts = dict[Place, str]()
        for path, text in self.texts.items():
            if (contract := find_file_contract(path)) is not None:
                contracts |= {(path, hunk.id): contract.words for hunk in text.change.hunks}
            elif any(self.classes[path, hunk.id].kind == "code" for hunk in text.change.hunks):
                old, new = (data.decode("utf-8", "replace") for data in (text.base, text.pending))
                by_hunk = find_contracts(path, old, new, text.change.hunks)
                contracts |= {(path, hunk): contract.words for hunk, contract in by_hunk.items()}
        return contracts

    def _find_weakened(self) -> tuple[tuple[str, str], ...]:
        sides = {
            path: (text.base.decode("utf-8", "replace"), text.pending.decode("utf-8", "replace"))
            for path, text in self.texts.items()
            if is_test_file(path) and not text.change.binary
        }
        weakened = (test for test in find_weakened_tests(sides) if test.weakness != "other_expectation")
        return tuple((f"{test.path}:{self._find_touched_line(test)}", test.describe()) for test in weakened)

    def _find_touched_line(self, test: WeakenedTest) -> int:
        """Return the first line of a test that a hunk touches, that of the test if none does."""
        hunks = self.texts[test.path].change.hunks
        if test.weakness == "deleted":
            starts = (max(hunk.old_start, test.line) for hunk in hunks if hunk.old_start + hunk.old_lines > test.line)
        else:
            starts = (max(hunk.new_start, test.line) for hunk in hunks if hunk.new_start + hunk.new_lines >= test.line)
        return next((line for line in starts if line <= test.end + 1), test.line)


def describe_unrun(texts: Sequence[ChangedText]) -> tuple[CheckEvidence, tuple[HunkEvidence, ...]]:
    """Return what is known of a change without any run: the class of each hunk, weakened tests, steering."""
    findings = Findings(texts, "")
    return findings.check, tuple(findings.evidence.values())


def list_recorded(texts: Iterable[ChangedText]) -> list[str]:
    """Return the changed files whose lines a run records, tests among them: those in a language in which it can."""
    return [
        text.change.path
        for text in texts
        if text.change.path.endswith(_RECORDED) and text.change.pending.kind == "file"
    ]


def is_silent(path: str) -> bool:
    """Return True for a file that no test reads: prose, by its name."""
    return is_prose(path) or classify_file(path, "") == "docs"


def find_outdated(
    evidence: Collection[HunkEvidence], proven: Collection[str], edited: Collection[str]
) -> list[HunkEvidence]:
    """Return the evidence that edits of some files have outdated. `proven`: the files that were changed when it was
    found. What depended on a file that was none of them is not known, so an edit there outdates everything."""
    acting = {path for path in edited if not is_silent(path)}
    is_new = not acting <= set(proven)
    return [one for one in evidence if acting and (is_new or not one.depends_on or acting & {*one.depends_on})]


def _holds(evidence: HunkEvidence) -> bool:
    return evidence.needed != "unknown" and not evidence.is_stale
