# ruff: noqa: E501 (a table of lines)
from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from core.plans.yaml_parser import YamlError, YamlMapping, YamlNode, YamlScalar, YamlSequence, parse_yaml

lines = st.lists(
    st.sampled_from(
        [
            "a: b", "a:", "b: 'x'", 'c: "y" # z', "  - id: x", "    k: v", "- id: y", "  k: w", "- x", "  - [a]", "d: [a, b]",
            "# c", "", "  # c", "e: a: b", "f: x #y", "g: x # y", "    more", "h: null", "  - null", "i: ~", "j: -1", "k: [1]",
            "l:  two", "m : x", "n:x", "'q': r", "- - x", "-", "o: |", "p: >-", "    text", "q: &a x", "r: *a", "s: [a", "t: {}",
            "u: 'it''s'", "v: x'y", "w: (a) [b] {c}", "x: a,b", "y: 'a' b", "z: 1.5:3", "...", "a1: x:", "b1: 'x'# y",
        ]
    ),
    max_size=9,
)  # fmt: skip


def scalars(node: YamlNode | None) -> Iterator[YamlScalar]:
    """The scalars of a tree whose place is their own."""
    match node:
        case YamlScalar():
            yield from [node] if node.is_own else []
        case YamlSequence():
            for child in node.items if node.is_own else ():
                yield from scalars(child)
        case YamlMapping():
            for pair in node.pairs if node.is_own else ():
                yield from () if pair.is_merged else (pair.key, *scalars(pair.value))


@settings(max_examples=300, deadline=None)
@given(lines)
def test_whatever_is_written_a_word_stands_where_its_node_says_or_the_text_is_refused(rows):
    text = "\n".join(rows) + "\n"
    root, line = None, 1
    try:
        root = parse_yaml(text)
    except YamlError as error:
        line = error.line
    assert 1 <= line <= len(rows) + 1
    for scalar in scalars(root):
        if not scalar.style and scalar.text is not None and "\n" not in text[scalar.start : scalar.end]:
            assert text[scalar.start : scalar.end] == scalar.text
            assert text.count("\n", 0, scalar.start) + 1 == scalar.line
