"""Patterns of gitignore(5) mean here what they mean to git, and no pattern takes long."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from core.workspace import IgnoreRules, Workspace
from core.workspace.ignore_patterns import IgnorePatterns
from tests.support.work import lines_run

PIECES = [*"aab*", "**", "?", "/", "/", "**/", "/**", ".", "[ab]", "[!a]", "[^a-b]", "[[:alpha:]]", "[]a]", "\\", "\\*"]
ODD = [
    "[",
    "]",
    "[a",
    "!",
    "#",
    " ",
    "\\ ",
    "é",
    "[[:nope:]]",
    "[a-",
    "[--a]",
    "[\\]]",
    "-",
    "\t",
    "[!/]",
    "[a/b]",
    "\r",
]
NAMES = ["a", "b", "ab", "ba", "aab", "a.b", "é", "a b", "a-", "!a", "#a", "*", "A", "]", "-", ".a", "a\\"]


def pattern(choice: random.Random) -> str:
    parts = choice.choices(PIECES, k=choice.randint(1, 6)) + choice.choices(ODD, k=choice.choice([0, 0, 0, 1]))
    choice.shuffle(parts)
    return choice.choice(["", "", "", "!", "/"]) + "".join(parts)


def path(choice: random.Random) -> str:
    return "/".join(choice.choices(NAMES, k=choice.randint(1, 4)))


def ignored_by_git(project: Path, patterns: bytes, paths: list[str]) -> set[str]:
    (project / ".gitignore").write_bytes(patterns)
    asked = subprocess.run(
        ["git", "-c", "core.quotepath=off", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=project,
        input="\0".join(paths).encode(),
        capture_output=True,
        check=False,
    )
    return {path for path in asked.stdout.decode().split("\0") if path}


@pytest.fixture
def project(tmp_path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@pytest.mark.parametrize("seed", range(12))
def test_n15_random_patterns_ignore_what_git_ignores(project, seed):
    choice = random.Random(seed)
    rules = IgnoreRules(Workspace(project, state_dir=project.parent / "state"))
    differing = []
    for _ in range(25):
        lines = "\n".join(pattern(choice) for _ in range(choice.randint(1, 3))).encode()
        paths = sorted({path(choice) for _ in range(40)})
        expected_paths = ignored_by_git(project, lines, paths)
        rules = IgnoreRules(Workspace(project, state_dir=project.parent / "state"))
        ignored_paths = {candidate for candidate in paths if rules.is_ignored(candidate, False)}
        differing += [
            (lines, differing_path, differing_path in expected_paths)
            for differing_path in ignored_paths ^ expected_paths
        ]
    assert differing == []


@pytest.mark.parametrize(
    ("line", "path_", "wanted"),
    [
        (b"*.pyc", b"a/b.pyc", True),
        (b"/a", b"b/a", None),
        (b"a/", b"a", None),
        (b"a/**/b", b"a/b", True),
        (b"a/**/b", b"a/x/y/b", True),
        (b"a/**", b"a", None),
        (b"**/b", b"b", True),
        (b"b**/c", b"bx/y/c", True),
        (b"trailing   ", b"trailing", True),
        (b"kept\\ ", b"kept ", True),
        (b"[unclosed", b"[unclosed", None),
        (b"end\\", b"end\\", None),
        (b"crlf\r", b"crlf", True),
        (b"\xef\xbb\xbfbom", b"bom", True),
        (b"!no", b"no", False),
        (b"form\x0cfeed", b"form", None),
    ],
)
def test_n15_what_is_peculiar_about_a_line(line, path_, wanted):
    assert IgnorePatterns(line).match(path_, False) is wanted


@pytest.mark.parametrize(
    "line",
    [
        b"*a" * 400 + b"[b]",
        b"*?" * 400 + b"b",
        b"**/" * 400 + b"b",
        b"**/a*" * 200 + b"/b",
        b"[a-z]*" * 400 + b"!",
        b"*" * 100_000,
        b"*a" * 100_000,
    ],
    ids=["stars", "marks", "directories", "both", "brackets", "one star", "longer than any path"],
)
def test_n15_no_pattern_takes_more_work_than_pattern_times_path(line):
    name = b"a" * 200
    long = b"/".join([b"a" * 60] * 20)
    for candidate in (name, long):
        work = lines_run(lambda candidate=candidate: IgnorePatterns(line).match(candidate, False))
        assert not IgnorePatterns(line).match(candidate, False) or set(line) == {ord("*")}
        assert work <= 40 * len(candidate) + 25 * len(line)


def test_patterns_ignore_case_and_normal_form_where_the_file_system_does():
    patterns = IgnorePatterns("Hidden/\n*.LOG\n!keep.log\n/caf\u00e9.txt\n".encode(), folds=True)
    assert patterns.match(b"HIDDEN", True)
    assert patterns.match(b"a/b.Log", False)
    assert patterns.match(b"KEEP.log", False) is False
    assert patterns.match("cafe\u0301.TXT".encode(), False)
    assert IgnorePatterns(b"Hidden/\n").match(b"HIDDEN", True) is None
