"""Findings are read out of a review's documents, however a model heads and orders them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.protocol import documents as d
from core.protocol.review import Finding
from core.state.findings import SEVERITIES, read_findings

PLACE = d.CodeReferenceDocument(
    id="1",
    sequence=1,
    content="x = 1",
    metadata=d.CodeReferenceMetadata(file_path="./a.py", start_line=3, end_line=4),
)
OTHER = d.CodeReferenceDocument(
    id="2", sequence=2, content="y", metadata=d.CodeReferenceMetadata(file_path="b.py", start_line=9, end_line=9)
)


def text(content: str) -> d.TextDocument:
    return d.TextDocument(id="t", sequence=1, content=content)


def code(content: str, language: str) -> d.CodeBlockDocument:
    return d.CodeBlockDocument(id="c", sequence=1, content=content, metadata=d.CodeBlockMetadata(language=language))


def heads(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.title, finding.place) for finding in findings]


def test_the_reference_right_before_a_head_is_its_place_and_a_suggestion_its_lines():
    (finding,) = read_findings(
        [text("I looked."), PLACE, text("**high: It breaks**\nAlways.\n\nReally."), code("x = 2", "suggestion"), OTHER]
    )
    assert heads([finding]) == [("high", "It breaks", "a.py:3")]
    assert (finding.end, finding.quote, finding.suggestion) == (4, "x = 1", "x = 2")
    assert finding.text == "Always.\n\nReally.\n`b.py:9`", "a second place is named in the text"


def test_a_head_before_its_reference_gets_it_and_other_code_stays_in_the_text():
    findings = read_findings(
        [text("Some.\n### [medium] — First\nOne."), OTHER, code("run()", "python"), text("1. LOW - Second"), PLACE]
    )
    assert heads(findings) == [("medium", "First", "b.py:9"), ("low", "Second", "a.py:3")]
    assert findings[0].text == "One.\n```python\nrun()\n```"
    assert findings[0].suggestion is None


def test_the_gravest_stand_first_and_one_without_a_place_has_none():
    findings = read_findings([text("low: a\nhigh: b\nmedium: c\nhigh: d")])
    assert heads(findings) == [("high", "b", ""), ("high", "d", ""), ("medium", "c", ""), ("low", "a", "")]


def test_prose_with_the_words_in_it_is_no_finding():
    prose = "The load is high: nobody knows.\nA medium change - fine.\nhighest: no\nThis has low coupling.\nhigh"
    assert read_findings([PLACE, text(prose), OTHER]) == []


@given(st.lists(st.sampled_from([*SEVERITIES, PLACE, OTHER, "words", code("z", "suggestion")]), max_size=12))
def test_every_head_is_one_finding_and_a_reference_is_the_place_of_at_most_one(parts):
    documents = [text(f"{part}: T{at}" if part in SEVERITIES else part) if isinstance(part, str) else part
                 for at, part in enumerate(parts)]  # fmt: skip
    findings = read_findings(documents)
    assert len(findings) == sum(part in SEVERITIES for part in parts if isinstance(part, str))
    places = sum(not isinstance(part, str) and isinstance(part, d.CodeReferenceDocument) for part in parts)
    assert sum(bool(finding.path) for finding in findings) <= places
