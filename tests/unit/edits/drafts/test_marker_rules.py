from __future__ import annotations

import random

import pytest

from benchmarks.edit_corpus.outcomes import LOST, STALE, Tally, edits
from benchmarks.edit_corpus.shapes import FORMATS, SHAPES
from core.edits.errors import EditError, UndecidedEdit
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy
from tests.unit.edits.drafts.test_placed_draft_draft_placement import synthetic

SHOP = """import json

LIMIT = 10


def total(items):
    result = 0
    for item in items:
        result += item.price
    return result


def save(items, path):
    text = json.dumps(items)
    path.write_text(text)
    return len(text)
"""
CART = """const cart = [];

function add(item) {
  cart.push(item);
  notify("added", item);
  render(cart);
}

function clear() {
  cart.length = 0;
  render(cart);
}
"""


def apply(text: str, draft: str, format_: str, path: str) -> str:
    if format_ == "lazy":
        return apply_lazy(text, draft, path)
    return apply_drafts(text, f'<file_edit path="{path}">\n{draft}</file_edit>', path)


def lay(text: str, draft: str, format_: str, path: str) -> str | None:
    """The text after a draft; None when it was refused."""
    try:
        return apply(text, draft, format_, path)
    except EditError:
        return None


both = pytest.mark.parametrize("format_", FORMATS)


@both
@pytest.mark.parametrize(
    "draft",
    [
        "# ...\ndef total(items):\n    count = len(items)\n# ...\n",
        "# ...\n    result = 0\n    for each in sorted(items):\n        # ...\n",
        "# ...\n    text = json.dumps(items)\n    path.write_bytes(text.encode())\n    # ...\n",
        "# ...\n    text = json.dumps(items, indent=2)\n    return len(text)\n# ...\n",
    ],
    ids=["the start of a body", "the head of a loop", "the last line", "the first line"],
)
def test_lines_that_a_marker_stands_for_stay_or_the_edit_is_refused(format_: str, draft: str):
    done = lay(SHOP, draft, format_, "shop.py")
    edited_lines = {"result = 0", "text = json.dumps(items)", "return len(text)"}
    removed_lines = [line for line in SHOP.splitlines() if done is not None and line not in done.splitlines()]
    assert all(line.strip() in edited_lines for line in removed_lines), done


@both
def test_a_new_head_takes_the_place_of_the_one_whose_body_the_marker_keeps(format_: str):
    done = lay(CART, "// ...\nfunction add(item, count = 1) {\n  // ...\n}\n// ...\n", format_, "cart.js")
    assert done == CART.replace("add(item) {", "add(item, count = 1) {")


@both
def test_a_line_that_defines_the_same_name_takes_the_place_of_the_old_one_beside_a_marker(format_: str):
    done = lay(SHOP, "import json\n\nLIMIT = 20\n# ...\n", format_, "shop.py")
    assert done == SHOP.replace("LIMIT = 10", "LIMIT = 20")


@both
@pytest.mark.parametrize(
    "draft",
    [
        '  cart.push(item);\n  notify("put", item);\n  render(cart);\n// ...\n',
        '// ...\n  cart.push(item);\n  notify("put", item);\n  render(cart);\n',
    ],
    ids=["no marker before", "no marker after"],
)
def test_lines_outside_of_a_draft_with_a_marker_at_one_end_are_never_gone(format_: str, draft: str):
    done = lay(CART, draft, format_, "cart.js")
    assert done in (None, CART.replace('"added"', '"put"'))


def test_a_piece_of_a_file_without_a_range_and_without_a_marker_is_not_taken_for_all_of_it():
    assert lay(CART, '  cart.push(item);\n  notify("put", item);\n', "draft", "cart.js") is None


@both
@pytest.mark.parametrize(
    "draft",
    [
        "// ...\n  basket.push(item);\n  count += 1;\n  show(basket);\n// ...\n",
        '// ...\n  cart.push(entry);\n  count += 1;\n  notify("put", entry);\n// ...\n',
        "// ...\n  basket.push(item);\n  count += 1;\n",
        "  basket.push(item);\n  count += 1;\n// ...\n",
    ],
    ids=["no line of it", "lines much like it", "at the end", "at the start"],
)
def test_what_speaks_of_lines_that_are_not_there_is_written_nowhere(format_: str, draft: str):
    assert lay(CART, draft, format_, "cart.js") is None


@both
def test_an_edit_none_of_whose_lines_is_there_is_refused_and_not_left_to_the_edit_agent(format_: str):
    draft = "// ...\n  basket.push(entry);\n  count += 1;\n  show(basket);\n// ...\n"
    with pytest.raises(EditError, match="None of the edit's lines is in the file") as raised:
        apply(CART, draft, format_, "cart.js")
    assert not isinstance(raised.value, UndecidedEdit)


@both
def test_something_much_like_the_target_is_not_written_over(format_: str):
    near = CART.replace('notify("added", item);', 'notify("added", item, 2);').replace("cart.push", "cart.unshift")
    draft = '// ...\n  cart.push(item);\n  log(item);\n  notify("added", item);\n// ...\n'
    assert lay(near, draft, format_, "cart.js") is None


@both
def test_words_that_say_that_something_stays_are_never_written_into_a_file(format_: str):
    text = "[package]\nname = 'shop'\nversion = '1'\nauthors = []\n"
    done = lay(text, "nothing changes before this\nversion = '2'\nauthors = []\n", format_, "a.toml")
    assert done in (None, text.replace("'1'", "'2'"))


@both
def test_of_two_places_the_one_with_more_of_the_shown_lines_is_not_passed_over(format_: str):
    text = "begin()\n  one()\n  stop()\nend()\n" + "begin()\n  open()\n  two()\n  stop()\nend()\n"
    done = lay(text, "// ...\n  open()\n  two()\n  stop()\n  three()\n// ...\n", format_, "a.js")
    assert done in (None, text.replace("  two()\n  stop()\n", "  two()\n  stop()\n  three()\n"))


def place(text: str, body: str, first: int, last: int, path: str) -> str | None:
    """The text after a draft of a range of lines; None when it was refused."""
    try:
        return apply_drafts(text, f'<file_edit path="{path}" start={first} end={last}>\n{body}</file_edit>', path)
    except EditError:
        return None


CHECKS = "".join(f"if ask('{name}') != '{name}':\n    fail(body)\n\n" for name in ("one", "two", "three", "four"))


def test_a_draft_that_begins_in_the_middle_of_its_range_loses_nothing_before_it():
    body = "if ask('three') != '3':\n    fail(body)\n\nif ask('four') != 'four':\n# no changes after\n"
    done = place(CHECKS, body.replace("'3'", "'three'").replace("\n\nif", "\n\nstop()\n\nif"), 2, 11, "a.py")
    assert done is None or all(row in done.splitlines() for row in CHECKS.splitlines())
    assert done is None or done.count("fail(body)") == 4


def test_one_of_two_equal_lines_at_the_end_of_a_range_does_not_go():
    text = "report(\n    text,\n    true,\n    true,\n    none,\n)\nstop(1)\n"
    assert place(text, "# ...\nreport(\n    text,\n    true,\n", 1, 4, "a.py") is None


@both
def test_an_import_that_stays_elsewhere_does_not_come_twice(format_: str):
    text = '"""Doc."""\n\nimport sys\n\nfrom shop import log\n\nimport typing\n\nT = typing.Any\n'
    draft = '"""Doc."""\n\nimport sys\nimport typing\n\nfrom shop import log\n\n# ...\n'
    assert lay(text, draft, format_, "a.py") is None


@both
def test_a_heading_beside_one_with_the_same_words_is_not_added(format_: str):
    text = "# Changes\n\n## v4.0 (unreleased)\n\n- one\n- two\n"
    assert lay(text, "# Changes\n\n## v4.0 (2019)\n<!-- ... -->\n", format_, "a.md") is None


@both
def test_a_head_that_opens_other_brackets_is_not_a_version_of_the_old_one(format_: str):
    text = "fn new() {\n    Shop {\n        a: 1,\n    }\n}\n"
    draft = "// ...\nfn new() {\n    // ...\n    Shop::of(Shop {\n        // ...\n"
    done = lay(text, draft, format_, "a.rs")
    assert done is None or "    Shop {\n" in done


@both
def test_a_table_whose_entries_take_the_place_of_old_ones_is_not_new(format_: str):
    text = '[package]\nname = "a"\n\n[ved]\npretty = "1.1"\nsnap = "1.2"\ncmd = "3"\n'
    draft = '# ...\n\n[dev]\npretty = "1.0"\nsnap = "0.3"\n# ...\n'
    assert lay(text, draft, format_, "a.toml") is None


@both
def test_versions_of_lines_around_one_line_of_the_file_are_not_written(format_: str):
    text = 'cmd = "1.1"\ntest = "0.4"\npty = "0.4"\nother = "2"\n'
    assert lay(text, '# ...\ncmd = "1.0"\ntest = "0.4"\npty = "0.5"\n# ...\n', format_, "a.toml") is None


@both
def test_the_end_of_a_docstring_tells_no_place(format_: str):
    text = '"""Doc.\n"""\n\nimport a\n\nrun(a)\n'
    assert lay(text, '# ...\n"""\n\nfrom b import c\nfrom d import e\n# ...\n', format_, "a.py") is None


@both
@pytest.mark.parametrize("last", ["# License", "**As easy as:**"])
def test_a_section_that_breaks_off_is_not_put_at_the_end(format_: str, last: str):
    text = "# Shop\n\n## Use\n\nCall it.\n"
    assert lay(text, f"<!-- ... -->\n\n## Authors\n\nSee there.\n\n{last}\n", format_, "a.md") is None


def test_a_new_section_in_a_range_within_the_file_is_not_taken():
    text = "# Shop\n\nCall it:\n\n```js\nrun()\nstop()\n```\n"
    assert place(text, "<!-- no changes -->\n## Catch\n\nIt can be caught.\n", 1, 6, "a.md") is None


def test_a_draft_that_breaks_a_file_that_parsed_is_not_taken():
    text = "struct A {\n    a: u8,\n}\n\nstruct B {\n    b: u8,\n}\n"
    body = "// ...\nstruct A {\n// no changes here\nstruct B {\n    c: String,\n"
    done = place(text, body, 1, 5, "a.rs")
    assert done is None or "}\n\nstruct B" in done


def test_a_file_written_without_its_licence_and_without_a_marker_is_left_to_the_edit_agent():
    text = "// One\n// Two words\n// Three words\n// Four words\n\nuse a::b;\n\nfn main() {\n    b();\n}\n"
    with pytest.raises(UndecidedEdit, match="does not say what happens to the lines before"):
        apply_lazy(text, "// Four words\n\nuse a::b;\n\nfn main() {\n    b(1);\n}\n", "a.rs")


@both
@pytest.mark.parametrize("shape", [*SHAPES, STALE])
def test_no_shape_of_an_edit_loses_lines_or_is_written_elsewhere(format_: str, shape: str):
    chance = random.Random(11)
    made_of = [change for change in (synthetic(chance) for _ in range(60)) if change.spans]
    tally = Tally()
    for edit in edits(made_of, format_, 40, 11, shape=shape):
        tally.add(edit)
    assert tally.all.total() >= 10
    assert not [outcome for outcome, _ in tally.wrong if outcome in (LOST, STALE)], tally.wrong[0]
