"""Accepting everything that commands did gives, byte for byte, what they would have done to the project itself."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.shadow.overlay_mount import needs_mounts, output, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts

NAMES = ("a", "b", "c.py", "d.log", "node_modules", "é\n-x", "build", "link", "to nowhere")
START = {
    "a/b/c.py": b"one\ntwo\nthree\n",
    "a/a": b"\x00\x01binary",
    "a/build/old.o": b"object",
    "b": b"text\r\n",
    "node_modules/a/b": b"module\n",
    "node_modules/c.py": b"x = 1\n",
    "d.log": b"log\n",
}
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)


def quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def operation(kind: str, one: str, other: str, number: int) -> str:
    first, second = quoted(f"./{one}"), quoted(f"./{other}")
    above = quoted(f"./{Path(one).parent}")
    if kind == "copy" and other.startswith(one):  # what cp makes of that depends on the order of the directory
        kind = "append"
    return {
        "write": f"mkdir -p {above}; printf 'new {number}\\n' > {first}",
        "append": f"printf 'more {number}\\n' >> {first}",
        "edit": f"sed -i 's/two/TWO {number}/' {first}",
        "remove": f"rm -rf {first}",
        "rename": f"mv {first} {second}",
        "chmod": f"[ -f {first} ] && chmod {('755', '600', '444')[number % 3]} {first}",
        "link": f"ln -s {second} {first}",
        "mkdir": f"mkdir -p {first}",
        "replace": f"rm -rf {first}; mkdir -p {first}; echo again > {first}/c.py",
        "become": f"rm -rf {first}; echo file {number} > {first}",
        "copy": f"cp -r {first} {second}",
        "directory mode": f"[ -d {first} ] && [ ! -L {first} ] && chmod {('755', '700', '750')[number % 3]} {first}",
    }[kind]


KINDS = (
    *("write", "append", "edit", "remove", "rename", "chmod"),
    *("link", "mkdir", "replace", "become", "copy", "directory mode"),
)
operations = st.builds(operation, st.sampled_from(KINDS), paths, paths, st.integers(0, 9))
commands = st.lists(operations, min_size=1, max_size=5).map(
    lambda each: "; ".join(f"( {one} ) || true" for one in each)
)


Tree = dict[str, tuple[str, int, bytes]]


def tree(root: Path) -> Tree:
    entries = {}
    for path in sorted(root.rglob("*")):
        stats = path.lstat()
        mode = stat.S_IMODE(stats.st_mode)
        if stat.S_ISLNK(stats.st_mode):
            entries[str(path.relative_to(root))] = ("link", 0, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(stats.st_mode):
            entries[str(path.relative_to(root))] = ("directory", mode, b"")
        else:
            entries[str(path.relative_to(root))] = ("file", mode, path.read_bytes())
    return entries


def started(place: Path) -> tuple[ReviewCase, Path]:
    review = ReviewCase(place)
    review.put(".gitignore", b"*.log\nbuild/\n")
    for path, data in START.items():
        review.put(path, data)
    (review.root / "link").symlink_to("a")
    (review.root / "to nowhere").symlink_to("nowhere")
    copy = place / "copy"
    shutil.copytree(review.root, copy, symlinks=True)
    return review, copy


def accept_everything(review: ReviewCase) -> None:
    for _ in range(len(review.state.changes) + 1):
        for change in review.shadow.list_changes():
            if change.path in review.state.changes:
                review.shadow.resolve(change.path)
    for bulk in review.state.bulks:
        review.shadow.resolve_bulk(bulk.root)


def ends(place: Path, given_commands: Sequence[str]) -> tuple[Tree, Tree]:
    """What is there and what there has to be after each command over the ones before it, and everything accepted, taken
    back, and accepted again."""
    review, copy = started(place)
    before = tree(review.root)
    for command in given_commands:
        subprocess.run(["sh", "-c", command], cwd=copy, check=True, capture_output=True)
        run(review, command)
        assert tree(review.root) == before
        assert output(review, "find . | sort").split("\n") == listed(copy)
    expected_tree = tree(copy)
    accept_everything(review)
    assert tree(review.root) == expected_tree
    assert (review.state.changes, review.state.bulks, review.shadow.prepare_lowers()) == ({}, (), ())
    while review.state.verdicts:
        review.shadow.undo()
    assert tree(review.root) == before
    accept_everything(review)
    return tree(review.root), expected_tree


@given(st.lists(commands, min_size=1, max_size=3))
@settings(max_examples=15)
def test_s2_d10_commands_in_layers_come_to_what_they_do_on_disk_and_back(given_commands):
    place = Path(tempfile.mkdtemp())
    try:
        actual_tree, expected_tree = ends(place, given_commands)
        assert actual_tree == expected_tree
    finally:
        shutil.rmtree(place)


AGAIN = "rm -rf build; mkdir -p build/empty; echo made > build/out"
NAMED = {
    "a generated directory is made again as it was": [AGAIN, AGAIN],
    "a generated directory of the project is made again": [
        "rm -rf node_modules; mkdir -p node_modules/a; printf 'module\\n' > node_modules/a/b"
    ],
    "a directory with a generated one in it is made again": [
        "mkdir -p a/build; echo 1 > a/build/x",
        "rm -rf a; mkdir -p a/build/empty; echo 1 > a/build/x; echo 2 > a/build/y",
    ],
    "a new directory loses all that was in it": ["mkdir -p c.py/d; echo > c.py/d/a", "rm -rf c.py/d/a"],
    "an empty directory takes the place of a file": ["rm b; mkdir b"],
    "a directory goes of which a part was emptied before": ["rm -rf a; mkdir -p a/b; echo 1 > a/a", "rm -rf a"],
    "a directory in the place of a file loses all that was in it": ["rm b; mkdir b; echo > b/a", "rm b/a"],
}


@pytest.mark.parametrize("name", NAMED)
def test_s2_d10_it_comes_to_the_same_when(tmp_path, name):
    actual_tree, expected_tree = ends(tmp_path, NAMED[name])
    assert actual_tree == expected_tree


def test_a_file_that_was_only_touched_stays_the_users(tmp_path):
    review, _ = started(tmp_path)
    run(review, "touch b; echo more >> d.log")
    review.put("b", b"the user's\n")
    assert output(review, "cat b d.log") == "the user's\nlog\nmore\n"
    assert [(bulk.root, bulk.files) for bulk in review.state.bulks] == [("**/*.log", 1)]


@pytest.mark.parametrize("link", ["link", "to nowhere"])
def test_a_link_may_become_a_directory(tmp_path, link):
    review, copy = started(tmp_path)
    before = tree(review.root)
    command = f"rm '{link}'; mkdir -p '{link}/b'; echo new > '{link}/b/c.py'; echo a > '{link}/a'"
    subprocess.run(["sh", "-c", command], cwd=copy, check=True)
    run(review, command)
    assert output(review, f"cat '{link}/a' '{link}/b/c.py'") == "a\nnew\n"
    assert review.shadow.read(f"{link}/a") == b"a\n"
    assert set(review.state.changes) == {link, f"{link}/a", f"{link}/b/c.py"}
    review.shadow.resolve(f"{link}/a")
    accept_everything(review)
    assert tree(review.root) == tree(copy)
    while review.state.verdicts:
        review.shadow.undo()
    assert tree(review.root) == before


def listed(root: Path) -> list[str]:
    done = subprocess.run(["sh", "-c", "find . | sort"], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.split("\n")
