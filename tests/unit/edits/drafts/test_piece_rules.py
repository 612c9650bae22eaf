from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.edit_corpus.shapes import FORMATS
from core.edits.drafts import alignment, marker_rules, markers
from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from tests.unit.edits.drafts.test_marker_rules import CART, SHOP, lay

both = pytest.mark.parametrize("format_", FORMATS)
SOURCES = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (alignment, markers, marker_rules)]
TRIALS = 12


def choose_span(rows: list[str], chance: random.Random) -> tuple[int, int]:
    """Seven lines of a file, of which the first three and the last three tell one place."""
    while True:
        first = chance.randint(0, len(rows) - 8)
        ends = (rows[first : first + 3], rows[first + 4 : first + 7])
        places = ["\n".join(rows).count("\n".join(end)) for end in ends]
        if places == [1, 1] and all(sum(map(str.isalnum, end[at])) > 8 for end in ends for at in (0, -1)):
            return first, first + 7


def reword(row: str) -> str:
    return re.sub(r"[A-Za-z_]{3,}", lambda word: word[0][::-1], row)


@both
@pytest.mark.parametrize("stands", ["nothing", "the first line", "the last line"])
@pytest.mark.parametrize("is_removed", [False, True], ids=["reworded", "removed"])
def test_an_edit_whose_target_was_written_anew_or_is_gone_changes_nothing(format_: str, stands: str, is_removed: bool):
    chance = random.Random(f"{format_} {stands} {is_removed}")
    for text in SOURCES * (TRIALS // len(SOURCES)):
        rows = text.splitlines()
        first, last = choose_span(rows, chance)
        draft_rows = [*rows[first : first + 3], "audit_trail(1)", "audit_trail(2)", *rows[first + 4 : last]]
        retained_index = {"nothing": None, "the first line": first, "the last line": last - 1}[stands]
        now = [row if index == retained_index else reword(row) for index, row in enumerate(rows[first:last], first)]
        now = ([rows[retained_index]] if retained_index is not None else []) if is_removed else now
        aged = "\n".join([*rows[:first], *now, *rows[last:]]) + "\n"
        draft = "\n".join(["# ... existing code ...", *draft_rows, "# ... existing code ...", ""])
        assert lay(aged, draft, format_, "a.py") in (None, aged)


@both
def test_no_line_outside_of_what_an_edit_shows_is_ever_gone(format_: str):
    chance = random.Random(7)
    for text in SOURCES * TRIALS:
        rows = text.splitlines()
        first, last = choose_span(rows, chance)
        draft_rows = rows[first:last]
        draft_rows[chance.randint(0, 6)] = chance.choice(("audit_trail(1)", reword(draft_rows[3])))
        draft_rows = draft_rows[chance.randint(0, 2) : 7 - chance.randint(0, 2)]
        ends = ["# ... existing code ..."] * chance.choice((1, 2))
        done = lay(text, "\n".join([ends[0], *draft_rows, *ends[1:], ""]), format_, "a.py")
        rest = iter([] if done is None else done.splitlines())
        assert done is None or all(row in rest for row in (*rows[:first], *rows[last:]))


@both
@pytest.mark.parametrize(
    "draft",
    [
        "# ...\n    result = 0\n    count = len(items)\n    limit = max(items)\n# ...\n",
        "# ...\n    note(items)\n    log(path)\n    text = json.dumps(items)\n# ...\n",
        "# ...\n    text = json.dumps(items)\n    # It is written.\n    stop(path)\n    # Then:\n# ...\n",
        "# ...\n    result = 0\n    for row in rows:\n        count(row)\n        add(row)\n# ...\n",
    ],
    ids=["after a line", "before a line", "with remarks", "a block without a name"],
)
def test_beside_a_marker_one_thing_comes_at_most(format_: str, draft: str):
    assert lay(SHOP, draft, format_, "shop.py") is None


@both
def test_one_thing_beside_a_line_of_the_file_is_added(format_: str):
    draft = "// ...\nfunction count() {\n  return cart.length;\n}\n\nfunction clear() {\n// ...\n"
    expected_text = CART.replace("function clear", "function count() {\n  return cart.length;\n}\n\nfunction clear")
    assert lay(CART, draft, format_, "cart.js") == expected_text


@both
@pytest.mark.parametrize(
    ("text", "draft", "path"),
    [
        (SHOP, "# ...\n\n\ndef audit(items):\n    return sorted(items)\n", "shop.py"),
        (SHOP, "import sys\n# ...\n", "shop.py"),
        ("# Shop\n\nCall it.\n", "<!-- ... -->\n\n## Thanks\n\nTo all.\n", "a.md"),
        ('[a]\nb = "1"\n', '# ...\n\n[c]\nd = "1"\n', "a.toml"),
    ],
    ids=["a definition", "an import", "a section", "a table"],
)
def test_what_shows_no_line_of_the_file_is_not_added_to_it(format_: str, text: str, draft: str, path: str):
    assert lay(text, draft, format_, path) is None


@both
def test_a_new_definition_is_taken_where_the_edit_shows_a_line_of_the_file_elsewhere(format_: str):
    draft = "import json\n# ...\n\n\ndef audit(items):\n    return sorted(items)\n"
    assert lay(SHOP, draft, format_, "shop.py") == SHOP + "\n\ndef audit(items):\n    return sorted(items)\n"


@both
def test_an_attribute_is_no_version_of_another_one(format_: str):
    text = "#[inline(always)]\nfn fill() {\n    a();\n}\n\nfn detect() {\n    b();\n}\n"
    assert lay(text, "// ...\n#[inline(never)]\n// ...\n", format_, "a.rs") is None


@both
def test_a_bare_comment_sign_does_not_tell_on_which_side_of_it_lines_come(format_: str):
    text = "//! One.\n//!\n//! ### Two\n//!\n//! More.\n"
    draft = "// ...\n//! New words.\n//!\n//! ### Two\n// ...\n"
    assert lay(text, draft, format_, "a.rs") is None


@both
def test_an_entry_is_not_put_below_a_line_that_is_indented_otherwise(format_: str):
    text = "env:\n  GO: on\n\njobs:\n  test:\n    name: a\n    steps:\n    - uses: b\n"
    assert lay(text, "# ...\n    env:\n      FLAGS: c\n      # ...\n", format_, "a.yml") is None


@both
def test_a_draft_is_not_widened_where_the_file_is_indented_as_it_is(format_: str):
    inner = "    def close():\n        stop(app)\n        drop(app)\n    late(close)\n"
    text = f"def client():\n{inner}\n\ndef login():\n    pass\n"
    draft = "# ...\n    yield app\n    stop(app)\n    drop(app)\n\n\ndef login():\n# ...\n"
    assert lay(text, draft, format_, "a.py") is None


def test_a_range_within_the_file_begins_and_ends_with_lines_of_it_or_a_marker():
    rows = CART.splitlines()
    for first, last in pairwise(range(1, len(rows), 3)):
        body = "\n".join(["  audit(item);", "// ...", rows[last - 1], ""])
        draft = f'<file_edit path="cart.js" start={first + 1} end={last}>\n{body}</file_edit>'
        with pytest.raises(EditError, match=r"unlike its range|Nothing was changed"):
            apply_drafts(CART, draft, "cart.js")
