from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.edits.formats.search_replace import SearchReplaceBlock, apply_blocks, parse_blocks
from core.edits.formats.str_replace import replace_string


def block(search: str, replace: str, marks: int = 7) -> str:
    return f"{'-' * marks} SEARCH\n{search}{'=' * marks}\n{replace}{'+' * marks} REPLACE\n"


def test_several_blocks_with_text_between_are_read_in_order():
    content = "first\n" + block("a\n", "b\n") + "\nthen\n" + block("c\n", "", marks=12)
    assert parse_blocks(content) == (SearchReplaceBlock("a\n", "b\n"), SearchReplaceBlock("c\n", ""))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("no block", "no SEARCH/REPLACE block"),
        ("------- SEARCH\na\n", "line 1: the block that begins in line 1 has no ======="),
        ("------- SEARCH\na\n=======\nb\n", "no \\+\\+\\+\\+\\+\\+\\+ REPLACE"),
        ("------- SEARCH\na\n+++++++ REPLACE\n", "line 3: .* has no ======= line before its end"),
        ("------- SEARCH\na\n------- SEARCH\n", "line 3: .* has no ======= line before"),
        ("=======\n", "no SEARCH/REPLACE block"),
        ("=======\nb\n+++++++ REPLACE\n", "line 1: ======= is outside a block"),
        ("+++++++ REPLACE\n", "REPLACE without a SEARCH before it"),
        ("------ SEARCH\na\n=======\nb\n+++++++ REPLACE\n", "line 3: ======= is outside"),
    ],
)
def test_broken_markers_are_errors_with_their_line(content, words):
    with pytest.raises(EditError, match=words):
        parse_blocks(content)


def test_conflict_markers_of_the_file_are_content():
    conflict = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n"
    (parsed,) = parse_blocks(block(conflict, "a\n"))
    assert parsed == SearchReplaceBlock(conflict, "a\n")
    assert apply_blocks(f"x\n{conflict}y\n", [parsed]).text == "x\na\ny\n"


def test_an_empty_search_stands_for_the_whole_file():
    assert apply_blocks("a\nb\n", parse_blocks(block("", "new\n"))).text == "new\n"
    assert apply_blocks("a\nb\n", parse_blocks(block("", ""))).text == ""


def test_an_empty_replace_deletes_the_lines():
    assert apply_blocks("a\nb\nc\n", parse_blocks(block("b\n", ""))).text == "a\nc\n"
    assert apply_blocks("a\nb", parse_blocks(block("b\n", ""))).text == "a\n"


def test_all_blocks_or_none_and_the_error_names_the_block():
    blocks = parse_blocks(block("a\n", "x\n") + block("missing line\n", "y\n"))
    with pytest.raises(EditError, match="Block 2 of 2"):
        apply_blocks("a\nb\n", blocks)


def test_blocks_may_build_on_each_other():
    blocks = parse_blocks(block("a\n", "x\n") + block("x\nb\n", "y\n"))
    assert apply_blocks("a\nb\n", blocks).text == "y\n"


def test_an_empty_search_beside_others_is_refused():
    with pytest.raises(EditError, match="can't be mixed"):
        apply_blocks("a\n", parse_blocks(block("", "x\n") + block("a\n", "b\n")))


def test_equal_strings_are_refused():
    with pytest.raises(EditError, match="nothing to change"):
        replace_string("a", "a", "a")
