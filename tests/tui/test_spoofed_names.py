"""Two names that differ are never drawn alike, and no name can be written that acts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from core.text.display_names import mark_lookalikes
from tests.support import recorded
from tests.tui.test_review_list import change
from tui.ask.approval_bar import format_subject
from tui.dialogs.consent import ChangeConsentDialog
from tui.review.change_list import ChangeList
from tui.text import format_path

SPOOFED = {
    "zero width": "pa\u200by.py",
    "bidi": "\u202eyp.yap",
    "tag": "pay\U000e0041.py",
    "cyrillic": "р\u0430y.py",
    "wholly cyrillic": "р\u0430у.py",
    "greek": "p\u03b1y.py",
    "full width": "\uff50ay.py",
    "decomposed": "pa\u0301y.py",
    "variation selector": "pay\ufe0f.py",
    "escape": "\x1b[1mpay.py",
    "newline": "pay\n.py",
    "trailing blank": "pay.py ",
    "no-break space": "pay\u00a0.py",
    "two blanks": "pay  .py",
    "tab": "pay\t.py",
    "one dot leader": "pay\u2024py",
    "soft hyphen": "pay\u00ad.py",
    "surrogate": "pay\udce9.py",
}
ALIKE = ("pay.py", "p\u00e1y.py", "pay .py", "pay‹U+200B›.py", "pa‹U+200B›y.py", "pay␊.py", "␛[1mpay.py")


@pytest.mark.parametrize("name", SPOOFED.values(), ids=SPOOFED)
def test_n14_t4_a_name_that_could_be_taken_for_another_is_drawn_as_what_it_is(name):
    label = format_path(name)
    assert label not in {format_path(other_name) for other_name in (*ALIKE, *SPOOFED.values()) if other_name != name}
    assert label != "pay.py"
    assert label.isprintable()
    assert any(mark in label for mark in ("‹", "␊", "␛", "␉"))


@pytest.mark.parametrize(
    "name", ["отчёт.py", "日本pay.py", "mañana.txt", "straße", "π.py", "a b.py", "naïve/😀.md", "Ω.c"]
)
def test_n14_names_of_the_worlds_languages_are_left_in_peace(name):
    assert format_path(name) == name


def test_n14_a_name_that_is_too_long_keeps_its_end():
    assert format_path("deep/" * 90 + "pay.py", 20) == "…ep/deep/deep/pay.py"


LETTERS = st.sampled_from(
    list("pay. \u200b\u0430\u0440\u03b1\uff50\u0301\ufe0f\u00ad\n\t\r\x1b‹›␊␛…U+200B\u00a0\u00e1")
)


@given(st.text(LETTERS, min_size=1, max_size=9), st.text(LETTERS, min_size=1, max_size=9))
def test_n14_no_two_names_are_drawn_alike(one, other):
    assert (format_path(one) == format_path(other)) == (one == other)


def test_n14_a_command_that_is_asked_about_names_letters_that_look_like_others():
    assert "‹е·Cyrillic›" in format_subject("pip install r\u0435quests")
    assert format_subject("echo naïve отчёт") == "echo naïve отчёт"
    assert "U+2044" in mark_lookalikes("rm -r a\u2044b")


async def test_n14_tree_review_dialog_and_conversation_show_the_difference(stage):
    names = ("pay.py", "pa\u200by.py", "р\u0430y.py", "pay\n.py")
    changes = [e.ChangeProposed(change=change(name, operation="delete")) for name in names]
    edits = [
        e.DocumentFinished(
            document=d.FileEditDocument(
                id=f"d{at}",
                sequence=at,
                content="",
                metadata=d.FileEditMetadata(
                    file_path=name,
                    operation="edit",
                    diff=d.FileEditDiff(old_string="a", new_string="b", start_line=1, end_line=1),
                ),
            )
        )
        for at, name in enumerate(names, start=1)
    ]
    tree = q.TreeAnswer(path="", entries=tuple(q.TreeEntry(name=name, kind="file") for name in names))
    async with stage([*recorded.opening(), *changes, *edits], size=(200, 60), answers={q.TreeQuery: tree}) as on:
        await on.until(lambda: on.screen.query("FileTree"))
        await on.pilot.press("ctrl+r")
        await on.pilot.press("l")
        await on.until(lambda: on.screen.query_one(ChangeList).display and on.screen.query_one(ChangeList).size.height)
        await on.pilot.pause(0.2)
        listed = on.screen.query_one(ChangeList)
        rows = [listed.render_line(y).text for y in range(4)]
        files = on.screen.query_one("FileTree")
        drawn = [files.render_line(y).text for y in range(8)]
        for place in (rows, drawn, on.lines()):
            text = "\n".join(place)
            assert all(spelling in text for spelling in ("pa‹U+200B›y.py", "‹ра·Cyrillic›y.py", "pay␊.py")), text
        on.app.push_screen(ChangeConsentDialog(changes[2].change, None))
        await on.pilot.pause(0.1)
        title = str(on.app.screen.query_one(".dialog-title").content)
        assert title == "Delete ‹ра·Cyrillic›y.py?"
