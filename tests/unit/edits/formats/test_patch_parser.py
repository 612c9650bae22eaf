"""Patches as text: all that a text says is read, or the line that belongs to nothing is named."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.edits.errors import EditError
from core.edits.formats.patch_parser import parse_patch
from core.edits.formats.patch_records import split_sign

V4A = "*** Begin Patch\n*** Update File: {0}\n@@\n-old {0}\n+new {0}\n*** End Patch\n"
UNIFIED = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old {0}\n+new {0}\n"
FRAMES = ("{}", "```diff\n{}```\n", "1. Do this:\n\n   ```\n   {}   ```\n")
PROSE = ("", "\n", "Here it is:\n\n- it does this\n- and that\n\n", "I change **it**.\n---\n")
forms = st.sampled_from([V4A, UNIFIED])


def changes(text: str) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    return [(file.path, hunk.rows) for file in parse_patch(text) for hunk in file.hunks]


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text with patches of several files, and the names of these."""
    names = [f"file{number}.py" for number in range(draw(st.integers(1, 4)))]
    parts = [draw(st.sampled_from(PROSE))]
    for name in names:
        patch = draw(forms).format(name)
        frame = draw(st.sampled_from(FRAMES))
        rows = patch.replace("\n", "\n   ").removesuffix("   ") if frame == FRAMES[2] else patch
        parts += [frame.format(rows), draw(st.sampled_from(PROSE))]
    return "".join(parts), names


@given(messages())
def test_every_patch_of_a_text_is_read_in_order(message):
    text, names = message
    assert changes(text) == [(name, (("-", f"old {name}"), ("+", f"new {name}"))) for name in names]


@given(st.lists(forms, min_size=1, max_size=3), st.data())
def test_a_row_of_a_patch_outside_of_every_patch_is_named(parts, data):
    texts = [form.format(f"file{number}") for number, form in enumerate(parts)]
    stray = data.draw(st.sampled_from(["+stray", "-stray", "*** Move to: stray", "*** Rename File: stray"]))
    place = data.draw(st.integers(0, len(texts)))
    texts.insert(place, f"\nSome words.\n\n{stray}\n")
    text = "".join(texts)
    with suppress(EditError):  # the hunk of a diff may go on, whatever its header says
        assert split_sign(stray) in [row for _, rows in changes(text) for row in rows]
        return
    with pytest.raises(EditError, match=rf"line {text.split(stray)[0].count(chr(10)) + 1}: .*stray"):
        parse_patch(text)


ROWS = st.sampled_from(
    [" {}", "-{}", "+{}", "{}", "    {}", "*** Begin Patch", "*** End Patch", " *** End Patch", "*** End of File",
     "*** Update File: {}", "*** Add File: {}", "*** Delete File: {}", "--- a/{}\n+++ b/{}", "@@", "@@ {}",
     "@@ -1,2 +1,2 @@", "```", "```diff", "", "EOF", "apply_patch <<'EOF'", "diff --git a/{0} b/{0}"]
)  # fmt: skip


@settings(max_examples=600)
@given(st.lists(ROWS, max_size=14))
def test_no_line_that_comes_or_goes_is_lost(templates):
    rows = "\n".join(row.format(f"t{number}", f"t{number}") for number, row in enumerate(templates)).split("\n")
    try:
        files = parse_patch("\n".join(rows))
    except EditError:
        return
    read = {(sign, line) for file in files for hunk in file.hunks for sign, line in hunk.rows}
    file_names = {name for file in files for name in (file.path, file.moved_to)}
    for row in rows:
        if re.match(r"[-+]t", row):
            assert (row[0], row[1:]) in read
        elif match := re.match(r"(?:\*\*\* \w+ File: |--- a/|\+\+\+ b/|diff --git a/)(\w+)", row):
            # A line of another kind of patch within a hunk is context that the file has to have.
            assert match[1] in file_names or {(row[0], row[1:]), (" ", row)} & read


@pytest.mark.parametrize(
    "text",
    [
        "apply_patch <<'EOF'\n" + V4A.format("a") + "EOF\nmake test\n",
        "cd sub && apply_patch <<'EOF'\n" + V4A.format("a") + "EOF\n",
        V4A.format("a") + " a line right below\n",
        "*** Begin Patch\n*** Update File: a\n@@\n context\n*** End Patch\n-old\n+new\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: a\n@@\n-a\n+b\n*** Create File: c\n*** End Patch\n",
        "*** Begin Patch\nSome words\n*** Update File: a\n-a\n+b\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: a\nraw\n*** End Patch\n",
        "diff --git a/a b/c\ncopy from a\ncopy to c\n",
        "diff --git a/a b/a\nindex 1..2\nGIT binary patch\nliteral 0\n",
        "diff --git a/a b/a\nindex 1..2\nBinary files a/a and b/a differ\n",
        UNIFIED.format("a") + "\n+more\n" + "\\ No newline\n" + "stray\n+x\n-y\n@@\n",
    ],
)
def test_a_text_with_something_else_in_it_is_refused(text):
    with pytest.raises(EditError, match="line"):
        parse_patch(text)


@pytest.mark.parametrize(
    "text",
    [
        "apply_patch <<'EOF'\n" + V4A.format("a") + "EOF\n",
        'bash -lc \'apply_patch <<"EOF"\n' + V4A.format("a") + "EOF\n'\n",
        "git apply -p1 <<'PATCH'\n" + UNIFIED.format("a") + "PATCH\n",
        V4A.format("a").replace("*** End Patch\n", ""),
        V4A.format("a").replace("*** End Patch\n", "\nThat is what I changed.\n"),
        "```\n" + V4A.format("a").replace("*** End Patch\n", "```\nThat is all:\n\n- one\n"),
        V4A.format("a") + "*** End Patch\n",
        "*** Begin Patch\n" + UNIFIED.format("a") + "*** End Patch\n",
        V4A.format("a").replace("@@\n", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n"),
        "From 12 Mon Sep\nSubject: [PATCH] it\n\n---\n a | 2 +-\n 1 file changed\n\n"
        + UNIFIED.format("a")
        + "-- \n2.39.2\n",
        UNIFIED.format("a") + "\nThis changes:\n\n- the one\n",
        V4A.format("a").replace("\n", "\r\n"),
        V4A.format("a") * 2,
    ],
)
def test_what_stands_around_a_patch_is_passed_over(text):
    assert changes(text) == [("a", (("-", "old a"), ("+", "new a")))]


def test_a_context_line_that_looks_like_a_frame_ends_nothing():
    text = "*** Begin Patch\n*** Update File: a\n@@\n *** End Patch\n *** Update File: b\n-old\n+new\n*** End Patch"
    assert changes(text) == [
        ("a", ((" ", "*** End Patch"), (" ", "*** Update File: b"), ("-", "old"), ("+", "new")))
    ]  # fmt: skip


def test_an_empty_line_in_a_new_file_is_one():
    text = "*** Begin Patch\n*** Add File: a\n+one\n\n+two\n\n*** End Patch\n"
    assert changes(text) == [("a", (("+", "one"), ("+", ""), ("+", "two")))]


def test_a_mode_that_a_diff_asks_for_is_told():
    text = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n" + UNIFIED.format("a")
    assert [file.slips for file in parse_patch(text)] == [("mode",)]


def test_many_lines_without_a_sign_are_read_in_time():
    rows = "".join(f"line {number}\n" for number in range(20_000))
    text = f"*** Begin Patch\n*** Update File: a\n@@\n {rows}+new\n-old\n"
    assert len(changes(text)[0][1]) == 20_002
