from __future__ import annotations

import difflib
import json
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.edits import matches
from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy
from core.edits.formats.line_plan import LineRange, apply_line_plan, find_unplanned_changes, parse_line_plan
from core.edits.formats.patch import apply_patch
from core.text.lines import number_lines
from core.transports.edit_service import FORMATS, answer

words = st.text(alphabet="abcdefgh(){}=;, é", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
texts = st.lists(words, min_size=1, max_size=20, unique=True)
endings = st.sampled_from(["\n", "\r\n"])


def joined(lines: list[str], end: str = "\n") -> str:
    return "".join(line + end for line in lines)


def changes(before: list[str], after: list[str]) -> list[dict[str, object]]:
    line_changes = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            last = i2 if i2 > i1 else None
            line_changes.append({"start_line": i1 + 1, "end_line": last, "replacement": joined(after[j1:j2])})
    return line_changes


@given(texts, texts, endings)
def test_the_plan_of_a_difference_makes_the_other_text(before, after, end):
    plan = parse_line_plan(json.dumps(changes(before, after)))
    assert (
        apply_line_plan(joined(before, end), plan)
        == apply_line_plan(joined(before, end), plan[::-1])
        == joined(after, end)
    )


@given(texts, texts)
def test_what_a_plan_changes_is_what_it_names(before, after):
    plan = parse_line_plan(json.dumps(changes(before, after)))
    text = joined(before)
    assert find_unplanned_changes(text, apply_line_plan(text, plan), plan) == []
    line_numbers = {
        n
        for line_range in plan
        for n in range(line_range.start_line, (line_range.end_line or line_range.start_line - 1) + 1)
    }
    other = next((n for n in range(1, len(before) + 1) if n not in line_numbers), None)
    if other is not None and not plan:
        wrong = apply_line_plan(text, [LineRange(start_line=other, end_line=other, replacement="other line")])
        assert find_unplanned_changes(text, wrong, plan) == [other]


@given(texts, texts, endings)
def test_the_unified_diff_of_two_texts_makes_the_other(before, after, end):
    rows = difflib.unified_diff(joined(before).splitlines(True), joined(after).splitlines(True), "a/x", "b/x")
    patch = "".join(rows)
    if patch:
        assert apply_patch(joined(before, end), patch, "x") == joined(after, end)


@given(texts, st.data())
def test_a_draft_of_a_range_replaces_that_range_alone(lines, data):
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    draft = f'<file_edit path="x" start={first} end={last}>\nnew\n</file_edit>'
    assert apply_drafts(joined(lines), draft, "x") == joined([*lines[: first - 1], "new", *lines[last:]])


@given(texts, st.data())
def test_a_lazy_edit_of_one_line_between_its_neighbours_changes_that_line_alone(lines, data):
    rows = [f"line_{number} {line}" for number, line in enumerate(lines)]
    place = data.draw(st.integers(0, len(rows) - 1))
    after = [*rows[:place], "fresh line", *rows[place + 1 :]]
    around = after[max(0, place - 1) : place + 2]
    draft = "\n".join(["# ... existing code ...", *around, "# ... existing code ..."])
    done = None
    with suppress(EditError):
        done = apply_lazy(joined(rows), draft, "x.txt")
    assert done is None or [row for row in rows if row != rows[place]] == [
        row for row in done.splitlines() if row in rows and row != rows[place]
    ]


ANYTHING = st.text(alphabet="-+=<>@* \nabPSEARCHLUBginthdFle:/.0123{}[]\"'`\\|#…é", max_size=200)


@settings(max_examples=300)
@given(st.sampled_from(sorted(FORMATS)), st.text(alphabet="ab \t\r\n#.{}", max_size=60), ANYTHING)
def test_no_parser_fails_on_any_text(form, original, edit):
    answered = answer(json.dumps({"id": 1, "format": form, "path": "x.py", "original": original, "edit_text": edit}))
    assert answered.get("error") != "internal"


def test_a_near_duplicate_is_never_taken_for_what_was_meant():
    assert matches(500, 7) == 0


def test_a_listing_counts_from_the_line_that_it_begins_with():
    assert number_lines("a\nb\n", first=9) == "     9|a\n    10|b"
