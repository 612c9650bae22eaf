"""Hunks of notebooks are their cells: whatever is accepted and whatever is left, it can be opened."""

from __future__ import annotations

import random

import pytest

from core.notebooks.editing import delete_cell, insert_cell, replace_source
from core.notebooks.notebook import parse_notebook
from core.shadow.diff.cell_regions import build_cell_diff
from core.shadow.diff.hunks import compute_hunks, remove_hunks, select_hunks
from core.shadow.diff.three_way_merge import merge_three_way
from tests.support.notebook_files import STYLES, build_styles, edit_by_chance, read_notebook, validate


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["nbformat_4", "nbformat_4_5", "seaborn"])
def test_any_subset_of_any_edits_is_a_valid_notebook(name, style):
    chance = random.Random(f"{name} {style}")
    base = build_styles(name)[style]
    for _ in range(8):
        pending = edit_by_chance(base, chance, chance.randint(1, 5))
        hunks = compute_hunks(base, pending)
        assert select_hunks(base, pending, hunks) == pending
        for _ in range(5):
            validate(select_hunks(base, pending, [hunk for hunk in hunks if chance.random() < 0.5]))
        for hunk in hunks:
            validate(select_hunks(base, pending, [hunk]))
        left, now, then = hunks, base, pending
        for hunk in chance.sample(hunks, len(hunks)):
            if chance.random() < 0.5:
                now = select_hunks(now, then, [one for one in left if one.id == hunk.id])
                left = remove_hunks(left, {hunk.id}, "accept")
            else:
                then = select_hunks(now, then, [one for one in left if one.id != hunk.id])
                left = remove_hunks(left, {hunk.id}, "reject")
            validate(now)
            validate(then)
        assert now == then


def read(data: bytes):
    return parse_notebook("n.ipynb", data)


def replace(data: bytes, index: int, source: str) -> bytes:
    return replace_source(read(data), read(data).cells[index], source)


def test_each_edited_new_or_removed_cell_is_one_hunk():
    base = read_notebook("nbformat_4_5")
    pending = replace(base, 0, "# Another\n\ntitle\n\nof several lines")
    pending = delete_cell(read(pending), read(pending).cells[4])
    pending = insert_cell(read(pending), 2, "markdown", "new", {})
    for text in ("one behind the last", "two"):
        pending = insert_cell(read(pending), len(read(pending).cells), "code", text, {})
    assert len(compute_hunks(base, pending)) == 5


def test_only_the_metadata_of_the_notebook_is_one_hunk_of_its_own():
    base = read_notebook("nbformat_4_5")
    pending = replace(base.replace(b'"nbformat_minor": 5', b'"nbformat_minor": 6'), 1, "x")
    assert [hunk.old_lines for hunk in compute_hunks(base, pending)][-1] == 1
    assert len(compute_hunks(base, pending)) == 2


def test_two_agents_who_edit_other_cells_are_merged_and_in_the_same_they_clash():
    base = read_notebook("nbformat_4_5")
    mine, theirs = replace(base, 0, "mine"), replace(base, 2, "theirs")
    both = merge_three_way(base, mine, theirs)
    assert both is not None
    assert [cell.source for cell in read(both).cells][:3:2] == ["mine", "theirs"]
    assert merge_three_way(base, mine, replace(base, 0, "theirs")) is None


def show(base: bytes, pending: bytes, context: int = 1) -> list[str]:
    cell_diff = build_cell_diff(compute_hunks(base, pending), base, pending, context)
    assert cell_diff is not None
    signs = {"removed": "-", "added": "+", "context": " ", "gap": "@"}
    return [f"{signs[row.kind]}{row.text}" for row in cell_diff.lines]


def test_the_lines_are_those_of_the_cell_with_its_outputs_in_a_word():
    base = read_notebook("nbformat_4_5")
    cell = next(notebook_cell for notebook_cell in read(base).cells if notebook_cell.outputs)
    rows = show(base, replace(base, cell.index, cell.source + "\nmore()"))
    assert "+more()" in rows
    [output] = [row for row in rows if row.startswith("-# →")]
    assert output.startswith(f"-# → run {cell.execution_count} · ")
    assert not any('"' in row and "source" in row for row in rows), "no JSON is shown"
    assert any(row.startswith(f" # %% cell {cell.index} · code") for row in rows), "the head tells which cell it is"


def test_a_new_cell_shows_as_added_and_no_other_as_changed():
    base = read_notebook("nbformat_4_5")
    count = len(read(base).cells)
    for place in (0, 3, count):
        rows = show(base, insert_cell(read(base), place, "markdown", "Hello\n\nthere", {}), 0)
        changed = [row for row in rows if row[0] in "+-"]
        assert changed[0].startswith(f"+# %% cell {place} · markdown · id ")
        assert changed[1:] == ["+# Hello", "+# ", "+# there"]


def test_numbers_of_cells_that_moved_on_are_no_difference():
    base = read_notebook("nbformat_4_5")
    pending = replace(delete_cell(read(base), read(base).cells[0]), 3, "x = 2")
    heads = [row for row in show(base, pending) if row[0] == "+" and "%%" in row]
    assert heads == []


def test_a_hunk_that_is_layout_only_is_shown_as_it_is_written():
    base = read_notebook("nbformat_4_5")
    pending = base.replace(b'"metadata": {},', b'"metadata": {\n   },', 1)
    assert build_cell_diff(compute_hunks(base, pending), base, pending, 3) is None


@pytest.mark.parametrize(("base", "pending"), [(b"", "new"), ("new", b"")])
def test_a_whole_notebook_shows_its_cells(base, pending):
    data = read_notebook("seaborn")
    sides = [data if side == "new" else b"" for side in (base, pending)]
    kinds = {row[0] for row in show(*sides)}
    assert kinds == ({"+"} if pending == "new" else {"-"})


ONE_LINE_CELLS = b"""{
 "cells": [
  {"cell_type": "markdown", "id": "4f1a", "metadata": {}, "source": ["# Prices"]},
  {"cell_type": "code", "execution_count": 2, "id": "9c2e", "metadata": {}, "outputs": [], "source": ["total([1, 2])"]}
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
"""


def test_a_cell_of_one_line_is_shown_where_a_new_one_follows_it():
    pending = replace(ONE_LINE_CELLS, 1, "total([1, 2, 3])")
    pending = insert_cell(read(pending), 2, "markdown", "The end", {})
    rows = show(ONE_LINE_CELLS, pending, 3)
    assert [row for row in rows if "total" in row] == ["-total([1, 2])", "+total([1, 2, 3])"]
    assert any(row.startswith("+# %% cell 2 · markdown") for row in rows)


def test_a_change_in_a_cell_of_no_hunk_is_shown_as_it_is_written():
    base = read_notebook("nbformat_4_5")
    pending = replace(replace(base, 0, "one"), 3, "two")
    hunks = compute_hunks(base, pending)
    assert len(hunks) == 2
    assert build_cell_diff(hunks[1:], base, pending, 3) is None
