"""Trees of the program's own that go: however deep, whatever permissions are in them, and nothing beside them."""

from __future__ import annotations

import os
import subprocess

import pytest

from core.filesystem.removal import remove_path, remove_tree
from tests.support.deep import deepen
from tests.support.steps import few_calls_deep, steps_of


def test_n15_a_tree_of_any_depth_is_removed(tmp_path):
    tree = tmp_path / "tree"
    counts = []
    for levels in (500, 1_000, 5_000):
        tree.mkdir()
        deepen(tree, levels, "leaf")
        with few_calls_deep(170):
            counts.append(steps_of(lambda: remove_tree(tree)))
        assert list(tmp_path.iterdir()) == []
    assert counts[1] < 2.5 * counts[0]
    assert counts[2] < 5.5 * counts[1]


def test_n15_links_in_a_tree_go_and_what_they_lead_to_stays(tmp_path):
    linked_directory, tree = tmp_path / "kept", tmp_path / "tree"
    linked_directory.mkdir()
    (linked_directory / "file").write_text("kept")
    (tree / "in").mkdir(parents=True)
    (tree / "in" / "link").symlink_to(linked_directory)
    (tree / "alias").symlink_to(linked_directory / "file")
    remove_tree(tree)
    (tmp_path / "link").symlink_to(linked_directory)
    remove_path(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (linked_directory / "file").read_text() == "kept"


def test_n15_shut_directories_and_pipes_go(tmp_path):
    tree = tmp_path / "tree"
    (tree / "shut" / "in").mkdir(parents=True)
    os.mkfifo(tree / "shut" / "in" / "pipe")
    (tree / "shut" / "in").chmod(0)
    (tree / "shut").chmod(0)
    tree.chmod(0)
    remove_path(tree)
    remove_path(tree)
    remove_tree(tree / "never" / "there")
    assert not tree.exists()


@pytest.mark.skipif("__import__('os').geteuid() != 0")
def test_n15_what_can_not_be_removed_holds_nothing_else_up(tmp_path):
    tree = tmp_path / "tree"
    for name in "abc":
        (tree / name).mkdir(parents=True)
        (tree / name / "file").write_text(name)
    if subprocess.run(
        ["mount", "--bind", str(tree / "b"), str(tree / "b")], capture_output=True, check=False
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(OSError, match="busy"):
            remove_tree(tree)
        assert [path.name for path in tree.iterdir()] == ["b"]
    finally:
        subprocess.run(["umount", str(tree / "b")], check=True)
