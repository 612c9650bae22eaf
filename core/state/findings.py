"""Findings of a code review: parsed from the reviewer's texts, with their state.

A finding begins with a line that names its severity and its title. It refers to the code reference right before that
line, else to the first one after it. A code block marked as `suggestion` is a replacement for the lines of the
reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from core.patterns import compile_lazily
from core.protocol.documents import AnyDocument, CodeBlockDocument, CodeReferenceDocument, TextDocument
from core.protocol.review import Finding, FindingStanding, Severity

SEVERITIES: Final[tuple[Severity, ...]] = ("high", "medium", "low")
SUGGESTION: Final = "suggestion"  # The language of a block that replaces the lines.
_HEAD: Final = compile_lazily(
    r"[#>*_\-\d.()\[\]` \t]*\b(?P<severity>high|medium|low)\b[\])*_`]*\s*(?:[:—–-]|\s[-—–])[*_\s]*(?P<title>\S.*)",
    re.IGNORECASE,
)


class SettledFinding(NamedTuple):
    """The decision on a finding. `turn`: the turn that was asked to fix it, "" = none."""

    standing: FindingStanding
    turn: str = ""


class CodeReview(NamedTuple):
    """The last code review: `turn` is that of the reviewer, `settled` the decisions since, by id."""

    turn: str
    subject: str
    revision: str
    findings: tuple[Finding, ...]
    settled: Mapping[str, SettledFinding] = {}

    def get_standing(self, finding: str) -> SettledFinding:
        """Return the state of a finding."""
        return self.settled.get(finding, SettledFinding("open"))

    def list_open(self) -> list[Finding]:
        """Return the undecided findings, in order."""
        return [finding for finding in self.findings if self.get_standing(finding.id).standing == "open"]


class _Draft(Struct):
    """A finding while it is parsed. `reference`: the code that it is about."""

    severity: Severity
    title: str
    reference: CodeReferenceDocument | None = None
    lines: list[str] = field(default_factory=list)
    suggestion: str | None = None


def read_findings(documents: Iterable[AnyDocument]) -> list[Finding]:
    """Return the findings of a review's documents, the most severe first; their ids count from 1."""
    drafts = list[_Draft]()
    before: CodeReferenceDocument | None = None  # A reference that no text has claimed yet.
    for document in documents:
        match document:
            case CodeReferenceDocument():
                _add_place(drafts, before)
                before = document
                continue
            case TextDocument():
                _read_text(document.content or "", drafts, before)
            case CodeBlockDocument() if drafts:
                _add_place(drafts, before)
                _add_block(drafts[-1], document)
            case _:
                continue
        before = None
    _add_place(drafts, before)
    findings = [_build_finding(number, draft) for number, draft in enumerate(drafts, 1)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _read_text(text: str, drafts: list[_Draft], before: CodeReferenceDocument | None) -> None:
    for number, line in enumerate(text.split("\n")):
        head = _HEAD.fullmatch(line.strip())
        if head is None:
            if number == 0:
                _add_place(drafts, before)
            if drafts:
                drafts[-1].lines.append(line)
            continue
        title = head["title"].strip().strip("*_ ").rstrip(":")
        severity = next(level for level in SEVERITIES if level == head["severity"].lower())
        drafts.append(_Draft(severity, title, before if number == 0 else None))


def _add_place(drafts: list[_Draft], reference: CodeReferenceDocument | None) -> None:
    """Make a reference the location of the current finding, or name it in the text if there is a location already."""
    if reference is None or not drafts:
        return
    if drafts[-1].reference is None:
        drafts[-1].reference = reference
    else:
        drafts[-1].lines.append(f"`{reference.metadata.file_path}:{reference.metadata.start_line}`")


def _add_block(draft: _Draft, block: CodeBlockDocument) -> None:
    if block.metadata.language == SUGGESTION and draft.suggestion is None:
        draft.suggestion = block.content or ""
    else:
        draft.lines += [f"```{block.metadata.language}", block.content or "", "```"]


def _build_finding(number: int, draft: _Draft) -> Finding:
    text, reference = "\n".join(draft.lines).strip(), draft.reference
    finding = Finding(id=str(number), severity=draft.severity, title=draft.title, text=text)
    if reference is None:
        return finding
    metadata = reference.metadata
    return Finding(
        id=finding.id,
        severity=finding.severity,
        title=finding.title,
        text=text,
        path=metadata.file_path.removeprefix("./"),
        start=metadata.start_line,
        end=metadata.end_line,
        quote=reference.content or "",
        suggestion=draft.suggestion,
    )
