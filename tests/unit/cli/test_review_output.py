"""A printed patch says the same to a program as on a terminal, but for letters that only look alike."""

from __future__ import annotations

import pytest

from core.cli.review_output import (
    FOR_PROGRAMS,
    LINE_END_SIGNS,
    LineForms,
    render_git_preview,
    render_patch,
)
from core.protocol.review import Change, ChangeDiff, DiffLine, FileState, GitPreview, Hunk
from core.text.exposure import expose_full_line

FOR_PEOPLE = LineForms(expose_full_line, LINE_END_SIGNS)


def print_line(text: str, forms: LineForms, *, eol: str = "", note: str = "", **known: object) -> list[str]:
    hunk = Hunk(id="a", old_start=1, old_lines=0, new_start=1, new_lines=1)
    state = FileState(blob="b", size=1)
    change = Change(path="a.py", operation="edit", base=state, pending=state, hunks=(hunk,), **known)  # type: ignore[arg-type]
    line = DiffLine(kind="added", old=0, new=1, text=text, hunk=0, eol=eol)
    return list(render_patch(ChangeDiff(change=change, lines=(line,), note=note), forms))


@pytest.mark.parametrize("forms", [FOR_PROGRAMS, FOR_PEOPLE], ids=["pipe", "terminal"])
def test_n21_a_mark_in_a_text_is_no_character_that_is_hidden(forms):
    pairs = [("a\u200b", "a‹U+200B›"), ("\x1b[0m", "␛[0m"), ("a\u061cb", "a‹U+061C›b"), ("a\u200db", "a‹U+200D›b")]
    for hidden, literal in pairs:
        assert print_line(hidden, forms)[-1] == f"+{literal}"
        assert print_line(literal, forms)[-1] != f"+{literal}"


def test_n21_a_terminal_shows_blanks_tabs_and_line_ends():
    texts = [("a", ""), ("a", "crlf"), ("a ", ""), ("a\t", ""), ("a   ", ""), ("аре", ""), ("are", ""), ("e\u0301", "")]
    lines = [print_line(text, FOR_PEOPLE, eol=eol)[-1] for text, eol in texts]
    assert lines[:4] == ["+a", "+a␍␊", "+a␣", "+a⇥  "]
    assert len(set(lines)) == len(texts)


def test_n21_a_pipe_keeps_tabs_blanks_and_letters():
    assert print_line("\tаре e\u0301 ", FOR_PROGRAMS)[-1] == "+\tаре e\u0301 "


def test_n21_where_a_link_leads_is_told_with_letters_that_look_alike_named():
    assert "# a.py: symbolic link to g‹е·Cyrillic›n.py" in print_line(
        "a", FOR_PEOPLE, note="symbolic link to g\u0435n.py"
    )


def test_n23_why_a_change_is_protected_is_printed_with_it():
    assert "# a.py: protected: holds a line" in print_line("a", FOR_PROGRAMS, protected=True, risk="holds a line")


def test_n21_messages_of_commits_hide_nothing():
    messages = ["a\u200bb", "a‹U+200B›b", "p\u0430y", "pay", "e\u0301", "é", "a ", "a"]
    lines = list(render_git_preview(GitPreview(root=".git", text="\n".join(messages))))
    assert len(set(lines)) == len(messages)
    assert lines[0] == "a‹U+200B›b"
