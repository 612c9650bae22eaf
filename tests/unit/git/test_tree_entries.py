"""The rules by which git stores a path, compared with what git itself stores."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from core.git.repository import open_repository
from core.git.tree_entries import LineEnds, find_ignored, find_submodules, is_binary, read_path_rules

ATTRIBUTES = {
    "nothing": "",
    "text": "*.txt text",
    "auto": "*.txt text=auto",
    "binary": "*.txt -text",
    "eol": "*.txt eol=crlf",
    "auto eol": "*.txt text=auto eol=lf",
    "old name": "*.txt crlf",
    "old name off": "*.txt -crlf",
    "old name input": "*.txt crlf=input",
}
AUTOCRLF = ("", "true", "input", "false")
PIECES = (b"one\n", b"two\r\n", b"\r\n", b"\n", b"\r", b"\0", b"\x1a", b"\x7f", b"\x01", b"\xe4\r\n", b"\t\f\b\x1b")


def git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True).stdout


def write_random(chance: random.Random) -> bytes:
    return b"".join(chance.choices(PIECES, weights=(9, 9, 4, 4, 1, 1, 1, 1, 1, 3, 1), k=chance.randint(0, 30)))


def make_repository(root: Path, attributes: str, autocrlf: str) -> Path:
    root.mkdir()
    git(root, "init", "-q")
    git(root, "config", "core.safecrlf", "false")
    (root / ".gitattributes").write_text(attributes + "\n")
    if autocrlf:
        git(root, "config", "core.autocrlf", autocrlf)
    return root


@pytest.mark.parametrize("autocrlf", AUTOCRLF)
@pytest.mark.parametrize("attributes", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_line_ends_are_stored_as_git_stores_them(tmp_path, attributes, autocrlf):
    root = make_repository(tmp_path / "p", attributes, autocrlf)
    chance = random.Random(f"{attributes} {autocrlf}")
    before, after = ({f"{number}.txt": write_random(chance) for number in range(60)} for _ in range(2))
    for contents in (before, after):  # the second time git minds what is in its index
        for name, data in contents.items():
            (root / name).write_bytes(data)
        stored = {name: git(root, "cat-file", "blob", f":{name}") for name in before} if contents is after else {}
        git(root, "add", ".")
        with open_repository(root) as repository:
            rules = read_path_rules(repository, [name.encode() for name in contents])
        for name, data in contents.items():
            expected = git(root, "cat-file", "blob", f":{name}")
            assert rules[name.encode()].store_line_ends(data, stored.get(name, b"")) == expected, (data, stored)


def test_encodings_and_filters_of_a_path_are_known(tmp_path):
    root = make_repository(tmp_path / "p", "*.u16 working-tree-encoding=UTF-16\n*.id ident\n*.bin filter=lfs\n", "")
    with open_repository(root) as repository:
        rules = read_path_rules(repository, [b"a.u16", b"a.id", b"a.bin", b"a.txt"])
    assert (rules[b"a.u16"].encoding, rules[b"a.u16"].is_rewritten) == ("UTF-16", True)
    assert (rules[b"a.id"].is_rewritten, rules[b"a.bin"].has_filter) == (True, True)
    assert (rules[b"a.txt"].line_ends, rules[b"a.txt"].is_rewritten) == (LineEnds.UNCHANGED, False)


def test_an_empty_file_is_no_binary_one():
    assert not is_binary(b"")
    assert is_binary(b"\0")


def test_ignored_paths_are_those_that_git_does_not_track(tmp_path):
    root = make_repository(tmp_path / "p", "", "")
    (root / ".gitignore").write_text("out/\n*.log\n!keep.log\n")
    (root / "tracked.log").write_text("")
    git(root, "add", "-f", "tracked.log")
    with open_repository(root) as repository:
        paths = [b"out/a", b"b.log", b"keep.log", b"c.txt", b"tracked.log", "ä ö.log".encode()]
        assert find_ignored(repository, paths) == {b"out/a", b"b.log", "ä ö.log".encode()}
        assert find_submodules(repository, "", [b"out"]) == set()
