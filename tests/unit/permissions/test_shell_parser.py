"""Commands are taken apart with certainty or not at all."""

from __future__ import annotations

import pytest

from core.permissions.shell_parser import split_command, strip_quotes

TRICKS = [
    "git show > ~/.ssh/x",
    "find . -exec rm {} +; echo ${v@P}",
    "git$IFS-status",
    "git${IFS}status",
    "ls\rrm -rf .",
    "cat <<EOF\nrm\nEOF",
    "cat <<< x",
    ";".join(["true"] * 60),
    "echo $((a[$(rm x)]))",
    "diff <(rm x) y",
    "tee >(rm x)",
    "if true; then rm x; fi",
    "for f in *; do rm $f; done",
    "f() { rm x; }; f",
    "{ rm x; }",
    "! rm x",
    "time rm x",
    "echo hi # ls",
    "ls \\\nrm",
    "ls \\",
    "echo 'open",
    'echo "open',
    "echo `rm \\`ls\\``",
    "(ls",
    "ls )",
    "echo $(ls",
    "ls > $HOME/x",
    "ls > *",
    "ls\u00a0\u202ex",
    "ls \x1b[31m",
    "ls \u200b x",
    "cd sub && echo x > y",
    "(" * 9 + "ls" + ")" * 9,
    "",
    "   ",
]


@pytest.mark.parametrize("command", TRICKS)
def test_m7_what_can_not_be_taken_apart_with_certainty_is_not(command):
    parts = split_command(command)
    assert not parts.is_certain
    assert not parts.is_plain


@pytest.mark.parametrize(
    ("command", "commands"),
    [
        ("git status", ("git status",)),
        ("  git   status ", ("git status",)),
        ("a && b || c; d | e & f\ng", ("a", "b", "c", "d", "e", "f", "g")),
        ("echo $(rm x) `ls`", ("rm x", "ls", "echo $(rm x) `ls`")),
        ('echo "$(git push)"', ("git push", 'echo "$(git push)"')),
        ("(a; (b))", ("a", "b")),
        ("echo 'a;b' \"c && d\" e\\;f", ("echo 'a;b' \"c && d\" e\\;f",)),
        ("A=$(evil) ls", ("evil", "A=$(evil) ls")),
        ("make 2>&1 >/dev/null", ("make",)),
    ],
)
def test_each_command_of_a_compound_one_is_found(command, commands):
    parts = split_command(command)
    assert parts.is_certain
    assert parts.commands == commands
    assert (parts.writes, parts.reads) == ((), ())


def test_the_files_of_redirections_are_named():
    parts = split_command("sort < in.txt >> 'out file' 2> err; (x) &> all; y <> both > |z")
    assert not parts.is_certain
    parts = split_command("sort < in.txt >> 'out file' 2> err; (x) &> all; y <> both >| z")
    assert parts.commands == ("sort", "x", "y")
    assert parts.writes == ("out file", "err", "all", "both", "z")
    assert parts.reads == ("in.txt", "both")


@pytest.mark.parametrize(
    "command", ["bash -c 'x'", "env x", "find . -exec x", "sudo x", "'ba'sh -c x", "{ls,-a}", "l? x"]
)
def test_m7_what_runs_what_it_is_given_is_not_plain(command):
    assert not split_command(command).is_plain


def test_a_command_without_its_quotes_is_what_the_shell_runs():
    assert strip_quotes("A=1 B=2 /usr/bin/'g'i\"t\" pu\\sh") == "git push"
