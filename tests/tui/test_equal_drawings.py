"""What somebody decides by is drawn so that it can be read back: equal drawings stand for equal texts only."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import product

import pytest
from textual.app import ComposeResult
from textual.widget import Widget

from core.cli.review_output import LineForms, render_patch
from core.protocol.documents import Option, Question
from core.protocol.queries import FileAnswer
from core.protocol.review import ChangeDiff
from core.text.exposure import expose_text
from tests.contract.source_tree import modules
from tests.support.exposed_text import read_back
from tests.tui.review_case import diff_of
from tui.ask.approval_bar import format_subject
from tui.ask.question_parts import AnswerDraft, render_body
from tui.dialogs.patch import PatchView
from tui.files.file_view import FileView
from tui.review.diff.view import DiffView
from tui.text import expose_line, restore_blanks
from tui.themes.appearance import ThemedApp

SEQUENCES = ("\x1b", "\x1b[", "\x9b", "\x1b]", "\x9d", "\x07", "\x1b\\", "\x9c", "m", "x")
ODD = (
    *"ab \t\r\x0c\x00\x7f\x85‹›·␛␊␣⇥⊘…\u00a0\u00ad\u200b\u200d\u2003\u2028\u202e\u2800\u3000\u3164\u1160\ufe0f\ufeff",
    *("\U000e0041", "\ue000", "\udc80", "\u0301", "e\u0301", "é", "⚠", "⚠\ufe0f", "✅", "✅\ufe0f", "A\ufe0f", "A"),
    *("х", "аре", "are", "xх", "𝐞", "ｅ", "日本", "👨\u200d👩", "👨👩", "a\tb", "a   b", "a    b", "a ", "a  "),
    *("‹U+200B›", "a\u200b", "‹х·Cyrillic›", "␍␊", "a ⊘ no newline at end", "", "\t", "    ", "\u200b\u200b"),
)
TEXTS = tuple(
    dict.fromkeys(
        (
            *("".join(parts) for size in (1, 2, 3) for parts in product(SEQUENCES, repeat=size)),
            *ODD,
            *(chr(code) for code in range(0x20, 0x110000, 1_499)),
        )
    )
)
PROGRAM_OUTPUT = {
    "tui.chat.command_rows",
    "tui.chat.tool_call_rows",
    "tui.dialogs.commits",
    "tui.debug.board_rows",
    "tui.debug.run_comparison",
    "tui.dialogs.listings.servers",
    "tui.dialogs.pages",
}


class OneWidget(ThemedApp[None]):
    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


def make_diff(texts: Sequence[str] = TEXTS) -> ChangeDiff:
    return diff_of("a.py", [("-+", f"{'x'}\n=>" + "\n".join(texts))])


def check(drawn: Sequence[str], texts: Sequence[str] = TEXTS) -> None:
    assert [read_back(line.rstrip(" ")) for line in drawn] == list(texts)


@pytest.mark.parametrize("is_split", [False, True], ids=["rows", "columns"])
async def test_n21_hunks_are_drawn_so_that_they_can_be_read_back(is_split):
    view = DiffView()
    async with OneWidget(view).run_test(size=(160, 20)) as pilot:
        view.show(make_diff())
        view.set_split(is_split)
        await pilot.pause()
        page = view.pages[0]
        start = view.painter.measure_gutter(page)
        start += (view.painter.get_column_width() + 1) if is_split else 0
        rows = [at for at in range(page.height) if page.get_row(at).right >= 0]
        check([view.render_row(row, view.row_width, 0).text[start:] for row in rows])


async def test_n21_a_file_is_drawn_so_that_it_can_be_read_back():
    view = FileView()
    async with OneWidget(view).run_test(size=(160, 20)) as pilot:
        texts = [text for text in TEXTS if text != "\r"]  # a line end of its own file
        view.show_text(FileAnswer(path="a.py", text="\n".join([*texts, "end"])))
        await pilot.pause()
        start = view._get_gutter_width() + 1
        drawn = [view.render_row(row, view.row_width, 0).text[start - 1 :] for row in range(len(texts))]
        check(drawn, texts)


async def test_n21_a_patch_is_drawn_so_that_it_can_be_read_back():
    texts = [f"+{text}" for text in TEXTS]
    view = PatchView("\n".join([*texts, "+end"]))
    async with OneWidget(view).run_test(size=(160, 20)) as pilot:
        await pilot.pause()
        check([view.render_row(row, view.row_width, 0).text for row in range(len(texts))], texts)


def test_n21_options_of_a_question_are_drawn_so_that_they_can_be_read_back():
    options = tuple(Option(id=str(at), label=text) for at, text in enumerate(TEXTS))
    rows = render_body(Question(id="q", text="Which?", options=options), AnswerDraft(), "", 400)
    drawn = ["".join(text for text, _ in row.pieces) for row in rows[1:]]
    check([line.split(" ", 3)[-1] if at else line.removeprefix("❯ 1 ") for at, line in enumerate(drawn)])


@pytest.mark.parametrize("text", ["a\x1b]0;b\x07c", "a\u00a0b  c", "a\tb", "\u3164", "х"])
def test_n21_the_text_of_a_question_hides_nothing(text):
    [row] = render_body(Question(id="q", text=text), AnswerDraft(), "", 200)
    assert read_back("".join(piece for piece, _ in row.pieces)) == text


def test_n21_commands_that_differ_are_asked_about_in_other_words():
    assert len({format_subject(command) for command in TEXTS}) == len(TEXTS)
    assert len({expose_line(command) for command in TEXTS}) == len(TEXTS)


def test_n21_a_printed_patch_hides_nothing_either():
    added = [
        line for line in render_patch(make_diff(), LineForms(expose_text)) if line.startswith("+") and line[:3] != "+++"
    ]
    texts = [read_back(line[1:]) for line in added]
    assert texts == list(TEXTS)


def test_n21_what_is_copied_has_its_tabs_and_blanks():
    from tui.text import expose_text as expose

    for text in ("\ta\tb  c \t ", "a   b", "    ", "\t\t", "ab\tc"):
        visible_text = expose(text)
        assert restore_blanks(visible_text, 0, len(visible_text)) == text


def test_n21_only_what_programs_print_has_sequences_taken_out():
    users = {
        module.name
        for module in modules("tui")
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.module == "tui.text"
        if any(alias.name == "render_output" for alias in node.names)
    }
    assert users == PROGRAM_OUTPUT
