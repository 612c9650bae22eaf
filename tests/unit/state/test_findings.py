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


def heads(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(each.severity, each.title, each.place) for each in found]


def test_the_reference_right_before_a_head_is_its_place_and_a_suggestion_its_lines():
    (found,) = read_findings(
        [text("I looked."), PLACE, text("**high: It breaks**\nAlways.\n\nReally."), code("x = 2", "suggestion"), OTHER]
    )
    assert heads([found]) == [("high", "It breaks", "a.py:3")]
    assert (found.end, found.quote, found.suggestion) == (4, "x = 1", "x = 2")
    assert found.text == "Always.\n\nReally.\n`b.py:9`", "a second place is named in the text"


def test_a_head_before_its_reference_gets_it_and_other_code_stays_in_the_text():
    found = read_findings(
        [text("Some.\n### [medium] — First\nOne."), OTHER, code("run()", "python"), text("1. LOW - Second"), PLACE]
    )
    assert heads(found) == [("medium", "First", "b.py:9"), ("low", "Second", "a.py:3")]
    assert found[0].text == "One.\n```python\nrun()\n```"
    assert found[0].suggestion is None


def test_the_gravest_stand_first_and_one_without_a_place_has_none():
    found = read_findings([text("low: a\nhigh: b\nmedium: c\nhigh: d")])
    assert heads(found) == [("high", "b", ""), ("high", "d", ""), ("medium", "c", ""), ("low", "a", "")]


def test_prose_with_the_words_in_it_is_no_finding():
    said = "The load is high: nobody knows.\nA medium change - fine.\nhighest: no\nThis has low coupling.\nhigh"
    assert read_findings([PLACE, text(said), OTHER]) == []


@given(st.lists(st.sampled_from([*SEVERITIES, PLACE, OTHER, "words", code("z", "suggestion")]), max_size=12))
def test_every_head_is_one_finding_and_a_reference_is_the_place_of_at_most_one(parts):
    documents = [text(f"{each}: T{at}" if each in SEVERITIES else each) if isinstance(each, str) else each
                 for at, each in enumerate(parts)]  # fmt: skip
    found = read_findings(documents)
    assert len(found) == sum(each in SEVERITIES for each in parts if isinstance(each, str))
    places = sum(not isinstance(each, str) and isinstance(each, d.CodeReferenceDocument) for each in parts)
    assert sum(bool(each.path) for each in found) <= places
