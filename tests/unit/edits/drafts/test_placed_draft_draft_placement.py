# ruff: noqa: E501  (a draft is a line)
from __future__ import annotations

import random
import subprocess
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.edit_corpus.changes import Change, Span, changes
from benchmarks.edit_corpus.outcomes import Tally, edits
from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy

ROOT = Path(__file__).resolve().parents[3]
LAST = "be25396ac5f4986a67d047631d2728b4453b49cb"  # of the project's commits; later ones would be other cases each day
MARK = "# ... existing code ..."
WORDS = ["load", "save", "open", "close", "read", "write", "user", "item", "row", "page", "node", "file"]
MODULE = '''import os
import sys

VALUE = 1


class Store:
    """Keep rows.

    Rows are kept in order.
    They are never changed.
    """

    def load(self, path):
        with open(path) as file:
            rows = file.readlines()
        self.rows = rows
        self.path = path
        self.changed = False
        return len(rows)

    def save(self, path):
        with open(path, "w") as file:
            file.writelines(self.rows)
        self.changed = False
'''


def made(text: str, draft: str, format_: str) -> str | None:
    """The text after a draft in one of the two formats; None when it was refused."""
    try:
        if format_ == "lazy":
            return apply_lazy(text, draft, "store.py")
        return apply_drafts(text, f'<file_edit path="store.py">\n{draft}</file_edit>', "store.py")
    except EditError:
        return None


FORMATS = pytest.mark.parametrize("format_", ["lazy", "draft"])


@FORMATS
def test_n7_what_stands_between_two_anchors_of_a_marker_stays(format_: str):
    long = MODULE + "".join(f"\n\ndef step_{number}():\n    return {number}\n" for number in range(60))
    draft = f'{MARK}\n    def load(self, path):\n        with open(path, "rb") as file:\n{MARK}\n\ndef step_59():\n    return 60\n'
    expected_text = long.replace("open(path) as", 'open(path, "rb") as').replace("return 59", "return 60")
    assert made(long, draft, format_) in (None, expected_text)


@FORMATS
def test_n7_the_tail_of_a_method_in_whose_middle_a_draft_ends_stays(format_: str):
    draft = f"{MARK}\n    def load(self, path):\n        with open(path) as file:\n            rows = list(file)\n        self.rows = rows\n        self.path = path\n{MARK}\n"
    assert made(MODULE, draft, format_) == MODULE.replace("file.readlines()", "list(file)")


@FORMATS
def test_n7_the_head_of_a_docstring_in_whose_middle_a_draft_begins_is_there_once(format_: str):
    draft = (
        f'{MARK}\n    Rows are kept in order.\n    They never change.\n    """\n\n    def load(self, path):\n{MARK}\n'
    )
    assert made(MODULE, draft, format_) == MODULE.replace("are never changed", "never change")


@FORMATS
def test_n7_a_marker_after_the_imports_stands_for_what_follows_them(format_: str):
    draft = f"import os\nimport sys\nimport time\n\nVALUE = 1\n# no changes here\n        self.changed = False\n        return max(len(rows), 1)\n\n    def save(self, path):\n{MARK}\n"
    expected_text = MODULE.replace("import sys\n", "import sys\nimport time\n").replace(
        "len(rows)", "max(len(rows), 1)"
    )
    assert made(MODULE, draft, format_) == expected_text


@FORMATS
def test_n7_a_line_of_the_file_that_looks_like_a_marker_stays_a_line(format_: str):
    text = MODULE.replace("        self.path = path\n", f"        {MARK}\n        self.path = path\n")
    draft = f"# no changes before\n        self.rows = list(rows)\n        {MARK}\n        self.path = path\n        self.changed = False\n# no changes after\n"
    draft = draft.replace("before\n", "before\n            rows = file.readlines()\n")
    assert made(text, draft, format_) == text.replace("self.rows = rows", "self.rows = list(rows)")


@FORMATS
def test_n7_white_space_at_the_ends_of_untouched_lines_stays(format_: str):
    text = MODULE.replace("\n\n    def save", "\n    \t\n    def save").replace("= path\n", "= path  \n")
    draft = f"{MARK}\n        self.rows = rows\n        self.path = path\n        self.changed = False\n        return len(self.rows)\n\n    def save(self, path):\n{MARK}\n"
    assert made(text, draft, format_) == text.replace("return len(rows)", "return len(self.rows)")


@FORMATS
@pytest.mark.parametrize("words", ["no changes here", "unchanged", "the rest of the file is unchanged"])
def test_n7_words_of_a_marker_never_land_in_the_file(words: str, format_: str):
    draft = f"{words}\n        self.rows = rows\n        self.path = str(path)\n        self.changed = False\n{words}\n"
    done = made(MODULE, draft, format_)
    assert done in (None, MODULE.replace("self.path = path", "self.path = str(path)"))


@FORMATS
def test_n7_a_piece_that_fits_twice_is_refused(format_: str):
    text = "".join(f"def f{number}():\n    begin()\n    work()\n    end()\n\n\n" for number in range(3))
    assert made(text, f"{MARK}\n    begin()\n    rest()\n    end()\n{MARK}\n", format_) is None


def synthetic(chance: random.Random) -> Change:
    """Functions of few words, some of whose lines change, come or go."""
    before: list[str] = []
    for number in range(chance.randint(4, 14)):
        before += [f"def {chance.choice(WORDS)}_{number}({chance.choice(WORDS)}):"]
        before += [f"    {chance.choice(WORDS)}({chance.choice(WORDS)}, {chance.randint(1, 9)})" for _ in range(6)]
        before += [f"    return {chance.choice(WORDS)}", "", ""]
    before.append("main()")
    after = list(before)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(1, len(after) - 1)
        fresh = [f"    {chance.choice(WORDS)}.fresh({chance.randint(10, 99)})"] * chance.randint(0, 1)
        after[place : place + chance.randint(0, 2)] = fresh
    codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    spans = tuple(Span(*code[1:]) for code in codes if code[0] != "equal")
    return Change("synthetic", "", "work.py", "python", "\n".join(before) + "\n", "\n".join(after) + "\n", spans)


@FORMATS
def test_n7_no_edit_of_a_synthetic_corpus_is_wrong(format_: str):
    chance = random.Random(7)
    made_of = [change for change in (synthetic(chance) for _ in range(150)) if change.spans]
    tally = Tally()
    for edit in edits(made_of, format_, 100, 7, shape="careful"):
        tally.add(edit)
    assert not tally.wrong, tally.wrong[0]
    assert tally.all["right"] >= 90, list(tally.rows())


@FORMATS
def test_n7_no_edit_of_this_projects_own_commits_is_wrong(format_: str):
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", LAST], check=False, capture_output=True).returncode:
        pytest.skip("there is no history here, or not enough of it")
    chance = random.Random(7)
    made_of = [change for change, _ in zip(changes(ROOT, chance, commits=60, revision=LAST), range(60), strict=False)]
    assert len(made_of) >= 20
    tally = Tally()
    for edit in edits(made_of, format_, 40, 7, shape="careful"):
        tally.add(edit)
    assert not tally.wrong, tally.wrong[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "", "}", "  x", MARK]), min_size=3, max_size=30), st.data())
def test_n7_a_marker_never_deletes_what_it_stands_for(rows: list[str], data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=2, max_size=6, unique=True)))
    draft = ["// no changes before"] if cuts[0] else []
    for first, last in zip(cuts[::2], cuts[1::2], strict=False):
        indent = "  " if last < len(rows) and rows[last].startswith("  ") else ""  # of what it stands for
        draft += [*rows[first:last], f"{indent}// no changes here"]
    text = "\n".join(rows) + "\n"
    for format_ in ("lazy", "draft"):
        done = made(text, "\n".join(draft) + "\n", format_)
        assert done is None or sorted(filter(str.strip, done.split("\n"))) == sorted(filter(str.strip, rows))


def test_n7_what_closes_something_in_a_marker_is_not_written_twice():
    rows = ["load", "load", "save", "load", "", "}", "  x", "load", "save"]
    draft = ["load", "// no changes here", "save", "// no changes here", *rows[4:], "// no changes here"]
    for format_ in ("lazy", "draft"):
        assert made("\n".join(rows) + "\n", "\n".join(draft) + "\n", format_) in {None, "\n".join(rows) + "\n"}
