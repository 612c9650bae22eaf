from __future__ import annotations

from tui.themes.building import SYNTAX
from tui.widgets.highlight import CHUNK_LINES, HighlightedText

CODE = ['"""A doc string', 'over two lines."""', "def f(x: int) -> str:", "    return 'a'  # why", ""]


def painted(lines: list[str], language: str = "python", path: str = "a.py") -> HighlightedText:
    painting = HighlightedText(lines, language, path)
    for chunk in range(painting.find_chunk(len(lines) - 1) + 1):
        painting.highlight_chunk(chunk)
    return painting


def words(painting: HighlightedText, lines: list[str], index: int) -> list[tuple[str, str]]:
    return [(lines[index][start:end], role) for start, end, role in painting.get_spans(index) or ()]


def test_code_gets_roles_that_have_a_look():
    painting = painted(CODE)
    assert ("def", "syntax_keyword") in words(painting, CODE, 2)
    assert ("# why", "syntax_comment") in words(painting, CODE, 3)
    assert words(painting, CODE, 1) == [('over two lines."""', "syntax_string")]
    assert {role for line in range(5) for _, _, role in painting.get_spans(line) or ()} <= SYNTAX.keys()


def test_a_line_has_no_spans_until_its_chunk_is_painted():
    lines = ["x = 1"] * (CHUNK_LINES + 5)
    painting = HighlightedText(lines, "python", "")
    painting.highlight_chunk(1)
    assert painting.get_spans(0) is None
    assert painting.get_spans(CHUNK_LINES) == [(4, 5, "syntax_number")]


def test_the_file_name_decides_when_the_language_is_unknown():
    assert words(painted(CODE, "no such language", "a.py"), CODE, 2)[0] == ("def", "syntax_keyword")


def test_text_that_nobody_knows_stays_plain():
    assert painted(CODE, "", "no-suffix").get_spans(2) == ()


def test_a_break_ends_an_open_string():
    lines = ['"""begins and does not end', "x = 1"]
    painting = HighlightedText(lines, "python", "", breaks=[1])
    for chunk in (0, 1):
        painting.highlight_chunk(chunk)
    assert painting.get_spans(1) == [(4, 5, "syntax_number")]


def test_a_very_long_line_is_left_plain_and_shifts_nothing():
    lines = ["x = 1", "y = '" + "a" * 5_000 + "'", "z = 2"]
    painting = painted(lines)
    assert painting.get_spans(1) == ()
    assert painting.get_spans(2) == [(4, 5, "syntax_number")]


def test_every_look_is_made_of_theme_variables():
    allowed = {"bold", "italic", "underline", "on"}
    for style in SYNTAX.values():
        assert all(word[0] == "$" or word.rstrip("%").isdigit() or word in allowed for word in style.split())
