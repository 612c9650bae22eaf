"""The difference of two texts, written in each format, makes the one of the other; a second time it is refused."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy
from core.edits.formats.patch import apply_patch
from core.edits.formats.search_replace import apply_search_replace
from core.edits.formats.str_replace import apply_edits

Part = tuple[list[str], list[str]]
words = st.text(alphabet="abcdefgh(){}=;, é", min_size=2, max_size=12).filter(lambda text: text.strip() == text)
plain_lines = st.lists(words, min_size=3, max_size=20, unique=True)
FORMATS: dict[str, Callable[[str, list[str], list[str]], str]] = {
    "search_replace": lambda text, before, after: apply_search_replace(text, blocks(parts(before, after)), "x").text,
    "multi_edit": lambda text, before, after: apply_edits(text, strings(parts(before, after))).text,
    "v4a": lambda text, before, after: apply_patch(text, v4a(before, after), "x"),
    "unified": lambda text, before, after: apply_patch(text, unified(before, after), "x"),
}
every_format = pytest.mark.parametrize("form", list(FORMATS))


def joined(lines: list[str], end: str = "\n") -> str:
    return "".join(line + end for line in lines)


def named(lines: list[str]) -> list[str]:
    """Lines of which none can be taken for another one."""
    return [f"line_{number} {line}" for number, line in enumerate(lines)]


@st.composite
def texts(draw: st.DrawFn) -> Part:
    """A text, and what it becomes when lines in it go, come and change; the first and the last one stay."""
    before = named(draw(plain_lines))
    after = [before[0]]
    for number, line in enumerate(before[1:-1]):
        kind = draw(st.sampled_from(["stays", "stays", "goes", "changes", "comes"]))
        after += [f"fresh_{number} = {number}"] if kind in {"changes", "comes"} else []
        after += [line] if kind in {"stays", "comes"} else []
    return before, [*after, before[-1]]


def parts(before: list[str], after: list[str]) -> list[Part]:
    """What changes, each with the nearest line that stays on both sides; parts that share one are joined."""
    spans: list[tuple[int, int, int, int]] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if spans and i1 - 1 < spans[-1][1]:
            spans[-1] = (spans[-1][0], i2 + 1, spans[-1][2], j2 + 1)
        else:
            spans.append((i1 - 1, i2 + 1, j1 - 1, j2 + 1))
    return [(before[a:b], after[c:d]) for a, b, c, d in spans]


def blocks(changes: list[Part]) -> str:
    return "".join(
        f"------- SEARCH\n{joined(old)}=======\n{joined(new)}+++++++ REPLACE\n" for old, new in changes
    )  # fmt: skip


def strings(changes: list[Part]) -> list[dict[str, str]]:
    return [{"old_string": joined(old), "new_string": joined(new)} for old, new in changes]


def unified(before: list[str], after: list[str]) -> str:
    return "".join(difflib.unified_diff(joined(before).splitlines(True), joined(after).splitlines(True), "a/x", "b/x"))


def v4a(before: list[str], after: list[str]) -> str:
    rows = unified(before, after).splitlines(True)[2:]
    hunks = "".join("@@\n" if row.startswith("@@") else row for row in rows)
    return f"*** Begin Patch\n*** Update File: x\n{hunks}*** End Patch\n"


def lazy(before: list[str], after: list[str]) -> str:
    marker = "# ... existing code ...\n"
    return marker + "".join(joined(new) + marker for _, new in parts(before, after))


@every_format
@settings(max_examples=30)
@given(pair=texts(), end=st.sampled_from(["\n", "\r\n"]))
def test_the_difference_of_two_texts_makes_the_other(form, pair, end):
    before, after = pair
    if before != after:
        assert FORMATS[form](joined(before, end), before, after) == joined(after, end)


@every_format
@settings(max_examples=30)
@given(pair=texts())
def test_an_edit_that_was_made_is_not_made_again(form, pair):
    before, after = pair
    if before != after:
        with pytest.raises(EditError):
            FORMATS[form](joined(after), before, after)


@every_format
@settings(max_examples=30)
@given(pair=texts(), depth=st.integers(1, 3))
def test_lost_indentation_and_white_space_at_line_ends_change_nothing(form, pair, depth):
    before, after = pair
    deep = [[f"{'    ' * depth}{line}" for line in lines] for lines in pair]
    if before == after:
        return
    lossy = [f"{line}  " for line in before], [line if line not in before else f"{line}  " for line in after]
    assert FORMATS[form](joined(deep[0]), before, after) == joined(deep[1])
    assert FORMATS[form](joined(before), *lossy) == joined(after)


@settings(max_examples=30)
@given(texts())
def test_a_lazy_edit_makes_the_other_text_or_is_refused_and_twice_is_once(pair):
    before, after = pair
    if before == after:
        return
    try:
        done = apply_lazy(joined(before), lazy(before, after), "x.txt")
    except EditError:
        return
    assert done == joined(after)
    with suppress(EditError):
        assert apply_lazy(done, lazy(before, after), "x.txt") == done


def test_a_marker_never_stands_for_nothing_while_what_it_stands_for_goes():
    text = "a = 1\nopens = {\nstays = 2\nlast = 3\n"
    draft = "a = 1\nopens = {\n# ... existing code ...\nlast = 3\n"
    try:
        done = apply_lazy(text, draft, "x.txt")
    except EditError as refused:
        done = refused.message
    assert done == text or "code is unchanged" in done


def test_a_lazy_edit_of_two_places_is_made():
    before = [f"value_{number} = {number}" for number in range(20)]
    after = [*before[:4], "value_4 = 44", *before[5:14], "fresh = 1", *before[14:]]
    assert apply_lazy(joined(before), lazy(before, after), "x.py") == joined(after)


@settings(max_examples=30)
@given(texts(), st.randoms(use_true_random=False))
def test_the_order_of_strings_and_blocks_does_not_matter(pair, rng):
    before, after = pair
    changes = parts(before, after)
    rng.shuffle(changes)
    if changes:
        assert apply_edits(joined(before), strings(changes)).text == joined(after)
        assert apply_search_replace(joined(before), blocks(changes), "x").text == joined(after)


@settings(max_examples=30)
@given(texts())
def test_the_draft_of_the_changed_range_makes_the_other_text(pair):
    before, after = pair
    head = next((n for n, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), None)
    if head is None:
        return
    tail = 1
    while before[-tail] == after[-tail] and min(len(before), len(after)) - tail > head:
        tail += 1
    body = joined(after[head : len(after) - tail + 1])
    draft = f"<file_edit path={json.dumps('x')} start={head + 1} end={len(before) - tail + 1}>\n{body}</file_edit>"
    assert apply_drafts(joined(before), draft, "x") == joined(after)
