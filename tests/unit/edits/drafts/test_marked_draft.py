from __future__ import annotations

from core.edits.drafts.alignment import assign_scopes
from core.edits.drafts.line_matches import DraftToken, ResultRow
from core.edits.drafts.marked_draft import MarkedDraft
from core.edits.indentation import measure_depth

FILE = ["one()", "two()", "", "three()", "four()"]


def describe(draft: list[str], rows: list[tuple[int | None, int | None]], file: list[str] = FILE) -> MarkedDraft:
    kinds = ["marker" if row.strip() == "..." else "line" for row in draft]
    tokens = [DraftToken(kind, row, measure_depth(row)) for kind, row in zip(kinds, draft, strict=True)]  # type: ignore[arg-type]
    return MarkedDraft(file, assign_scopes(tokens), [ResultRow(*row) for row in rows])


def test_a_gap_lies_between_lines_that_stay_and_says_what_goes_and_comes():
    draft = describe(["one()", "new()", "three()", "..."], [(0, 0), (1, None), (2, 3), (None, 4)])
    (gap,) = draft.iterate_gaps()
    assert (gap.removed, gap.added, gap.is_retained_above, gap.is_retained_below) == ((1,), (1,), False, False)


def test_a_side_is_kept_where_a_marker_lies_between_it_and_what_comes():
    draft = describe(["one()", "new()", "..."], [(0, 0), (1, None), (None, 1), (None, 3), (None, 4)])
    (gap,) = draft.iterate_gaps()
    assert (gap.removed, gap.added, gap.is_retained_above, gap.is_retained_below) == ((), (1,), False, True)


def test_a_marker_within_what_comes_splits_the_gap():
    draft = describe(["new()", "...", "other()"], [(0, None), (2, None)])
    (gap,) = draft.iterate_gaps()
    assert gap.is_split
    assert gap.removed == (0, 1, 3, 4)


def test_a_marker_in_an_inner_scope_is_not_beside_lines_outside_of_it():
    file = ["def one():", "    a()", "def two():", "    b()", "def three():", "    c()"]
    draft = describe(["def one():", "    ...", "def three():", "    ..."], [(0, 0), (None, 1), (2, 4), (None, 5)], file)
    (gap,) = draft.iterate_gaps()
    assert (gap.removed, gap.is_retained_above, gap.is_retained_below) == ((2, 3), False, False)


def test_a_run_ends_where_the_draft_or_the_file_goes_on_otherwise_and_knows_the_marker_next_to_it():
    draft = describe(["one()", "two()", "three()", "new()", "..."], [(0, 0), (1, 1), (2, 3), (3, None), (None, 4)])
    assert draft.find_run(ResultRow(2, 3), -1, 0) == (["one()", "two()", "", "three()"], False)
    assert draft.find_run(ResultRow(0, 0), 1, 0)[0] == ["one()", "two()", "", "three()"]
    marked = describe(["...", "three()", "new()"], [(None, 0), (None, 1), (1, 3), (2, None), (None, 4)])
    assert marked.find_run(ResultRow(1, 3), -1, 0) == (["three()"], True)


def test_pieces_are_the_filled_lines_between_markers():
    draft = describe(["one()", "", "two()", "...", "", "...", "four()"], [])
    assert list(draft.iterate_pieces()) == [[0, 2], [6]]


def test_places_of_lines_are_all_those_where_the_file_has_them_one_after_the_other():
    draft = describe(["..."], [], ["a", "b", "a", "b", "c"])
    assert draft.find_positions(["a", "b"]) == [range(2), range(2, 4)]
    assert draft.find_positions(["b", "c", "d"]) == []
