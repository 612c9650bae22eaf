from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.edits.formats.line_plan import apply_line_plan, parse_line_plan
from core.edits.formats.search_replace import apply_search_replace

TEXT = "one\ntwo\nthree\nfour\n"
PLAN = '[{"start_line": 2, "end_line": 2, "replacement": "TWO"}]'
CODE = "a = 1\nb = 2\nc = 3\nd = 4\n"
BLOCK = "------- SEARCH\nc = 3\n=======\nc = 4\n+++++++ REPLACE\n"


@pytest.mark.parametrize(
    "written",
    [
        PLAN,
        f"```json\n{PLAN}\n```",
        f"Here is the plan [for line 2]:\n\n{PLAN}\n\nIt changes {{one}} line.",
        f"The plan:\n```json\n{PLAN}\n```\nThat is all.",
        PLAN.replace('"}', '",}'),
        PLAN.replace("]", ",]"),
        PLAN.replace(": 2", ': "2"'),
        PLAN.replace(": 2", ": 2.0"),
        f'{{"edits": {PLAN}}}',
        f"\ufeff{PLAN}",
        f"[{PLAN[1:-1]}, {PLAN[1:-1]}]",
    ],
)
def test_n7_a_valid_line_plan_is_taken_however_it_is_wrapped(written: str):
    assert apply_line_plan(TEXT, parse_line_plan(written)) == "one\nTWO\nthree\nfour\n"


def test_n7_a_line_plan_may_hold_line_breaks_and_text_that_looks_like_json():
    written = '[{"start_line": 2, "end_line": 2, "replacement": "x = [1,]\n\ty = {,}"}]'
    assert apply_line_plan(TEXT, parse_line_plan(written)) == "one\nx = [1,]\n\ty = {,}\nthree\nfour\n"


def test_n7_the_line_after_the_last_one_is_where_a_plan_adds():
    written = '[{"start_line": 5, "end_line": 5, "replacement": "five"}]'
    assert apply_line_plan(TEXT, parse_line_plan(written)) == TEXT + "five\n"


@pytest.mark.parametrize(
    "written",
    [
        f"{PLAN}\nor:\n{PLAN.replace('TWO', 'ZWEI')}",
        PLAN.replace('"end_line": 2', '"end_line": 1'),
        PLAN.replace("[", "").replace("]", "")[:-1],
        PLAN.replace(": 2,", ": 2.5,"),
        f"[{PLAN[1:-1]}, {PLAN[1:-1].replace('TWO', 'ZWEI')}]",
    ],
)
def test_n7_a_line_plan_that_may_mean_two_things_is_refused(written: str):
    with pytest.raises(EditError):
        apply_line_plan(TEXT, parse_line_plan(written))


@pytest.mark.parametrize(
    "reply",
    [
        "------- SEARCH\nc = 3\n=======\nc = 4\n=======\nc = 5\n+++++++ REPLACE\n",
        "<<<<<<< SEARCH\nc = 3\n=======\nc = 4\n=======\n>>>>>>> REPLACE\n",
        "------- SEARCH\nc = 3\nc = 4\n+++++++ REPLACE\n",
        "------- SEARCH\nc = 3\n=======\nc = 4\n",
        f"{BLOCK}------- SEARCH\nd = 4\n",
        f"{BLOCK}------- SEAR",
        "------- SEARCH\nc = 3\n=======\n<<<<<<< SEARCH\nc = 4\n+++++++ REPLACE\n",
        "<<<<<<< SEARCH\nc = 3\n=======\nc = 4\n>>>>>>> REPLAC\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\nc = 3\n=======\nc = 4\n<<<<<<< REPLACE\n>>>>>>> REPLACE\n",
        "------- SEARCH\nc = 3\n=======\n  ------- SEARCH\nc = 4\n+++++++ REPLACE\n",
    ],
)
def test_n7_a_reply_whose_markers_do_not_pair_is_refused(reply: str):
    with pytest.raises(EditError):
        apply_search_replace(CODE, reply, "a.py")


def test_n7_markers_that_are_content_are_still_read():
    nested = "------- SEARCH\nc = 3\n=======\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n+++++++ REPLACE\n"
    done = apply_search_replace(CODE, nested, "a.md").text
    assert done == CODE.replace("c = 3\n", "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n")
    ruled = "Title\n=======\n\ntext\n"
    heading = "------- SEARCH\nTitle\n=======\n=======\nHead\n=======\n+++++++ REPLACE\n"
    assert apply_search_replace(ruled, heading, "a.md").text == "Head\n=======\n\ntext\n"
