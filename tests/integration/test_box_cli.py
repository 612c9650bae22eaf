from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.box_cases import ORDINARY, as_user, ordinary_python, packages, place_of
from tests.support.program import PROGRAM


def program(*arguments: str, cwd: Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, check=False, **more)


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / ".gitignore").write_text("node_modules/\n")
    return root


def lines(text: str) -> list[tuple[str, str]]:
    return [(line[:11].strip(), line[11:]) for line in text.splitlines()]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_output_and_exit_status_are_the_commands_and_the_effects_are_listed_and_dropped(project):
    before = tree(project)
    ended = program(
        "box", "run", ".", "cat a.txt; sed -i s/two/TWO/ a.txt; touch new; rm .gitignore; exit 7", cwd=project
    )
    assert (ended.returncode, ended.stdout) == (7, "one\ntwo\nthree\n")
    told = lines(ended.stderr)
    assert told[0][0] == "box"
    assert told[0][1].startswith("T")
    assert set(told[1:]) == {("edited", "a.txt"), ("created", "new"), ("deleted", ".gitignore")}
    assert tree(project) == before
    assert "nothing waits" in program("review", ".", cwd=project).stdout


def test_a_kept_stack_is_seen_by_the_next_command_and_by_the_review(project):
    before = tree(project)
    program("box", "run", "--keep", ".", "sed -i s/two/TWO/ a.txt; chmod 755 a.txt; mkdir -p sub; cd sub", cwd=project)
    second = program(
        "box",
        "run",
        "--keep",
        ".",
        "pwd; cat ../a.txt; mkdir -p ../node_modules; echo 1 > ../node_modules/i",
        cwd=project,
    )
    assert second.stdout == f"{project}/sub\none\nTWO\nthree\n"
    assert [kind for kind, _ in lines(second.stderr)[1:]] == ["generated"]
    shown = program("review", ".", cwd=project)
    assert "-two\n+TWO\n" in shown.stdout
    assert "old mode 100644\nnew mode 100755\n" in shown.stdout
    assert "# generated  node_modules" in shown.stdout
    assert tree(project) == before


def test_the_printed_review_is_a_patch_that_git_takes(project, tmp_path):
    program(
        "box", "run", "--keep", ".", "sed -i s/two/TWO/ a.txt; echo x > n; printf y > m; rm .gitignore", cwd=project
    )
    patch = program("review", ".", "--print", cwd=project).stdout
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", project, copy], check=True)
    taken = subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, text=True, capture_output=True, check=False)
    assert taken.stderr == ""
    assert tree(copy) == {"a.txt": b"one\nTWO\nthree\n", "n": b"x\n", "m": b"y"}


def test_verdicts_from_the_command_line_write_and_drop(project):
    program(
        "box",
        "run",
        "--keep",
        ".",
        "sed -i s/two/TWO/ a.txt; echo x > n; mkdir -p node_modules; echo 1 > node_modules/i",
        cwd=project,
    )
    rejected = program("review", ".", "--reject", "n", cwd=project)
    assert (rejected.returncode, rejected.stderr) == (0, "rejected  n\n")
    accepted = program("review", ".", "--accept", "all", "node_modules", cwd=project)
    assert accepted.returncode == 0, accepted.stderr
    assert tree(project) == {"a.txt": b"one\nTWO\nthree\n", ".gitignore": b"node_modules/\n", "node_modules/i": b"1\n"}
    assert "nothing waits" in program("review", ".", cwd=project).stdout


def test_what_is_protected_is_only_accepted_by_its_name(project):
    program("box", "run", "--keep", ".", "mkdir .vscode; echo '{}' > .vscode/settings.json", cwd=project)
    left = program("review", ".", "--accept", "all", cwd=project)
    assert left.returncode == 4
    assert "left      .vscode/settings.json (protected)" in left.stderr
    assert not (project / ".vscode").exists()
    named = program("review", ".", "--accept", ".vscode/settings.json", cwd=project)
    assert (named.returncode, named.stderr) == (0, "accepted  .vscode/settings.json\n")
    assert (project / ".vscode" / "settings.json").read_text() == "{}\n"


def test_plan_mode_keeps_nothing_even_when_it_is_told_to(project):
    before = tree(project)
    ended = program("box", "run", "--mode", "plan", "--keep", ".", "touch x; ls", cwd=project)
    assert "x" in ended.stdout
    assert ("discarded", "all that it changed") in lines(ended.stderr)
    assert tree(project) == before
    assert "nothing waits" in program("review", ".", cwd=project).stdout


def test_time_that_is_over_and_a_box_that_is_not_there_have_codes_of_their_own(project):
    late = program("box", "run", "--timeout", "1", ".", "echo begun; sleep 60", cwd=project)
    assert (late.returncode, late.stdout) == (124, "begun\n")
    env = {**os.environ, "AGENT_TUI_STATE_DIR": str(project / "a.txt")}
    none = program("box", "run", ".", "true", cwd=project, env=env)
    assert none.returncode == 125
    assert none.stderr.startswith("agent-tui: not run: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("box",),
        ("box", "walk"),
        ("box", "run", "."),
        ("box", "run", ".", " "),
        ("box", "run", "--tier", "T9", ".", "x"),
    ],
)
def test_wrong_arguments_start_nothing(project, arguments):
    ended = program(*arguments, cwd=project)
    assert ended.returncode == 2
    assert "agent-tui box run" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not ordinary_python(), reason="nobody here can become an ordinary user")
def test_an_ordinary_user_runs_commands_in_the_box_too():
    with place_of(ORDINARY) as root:
        project = root / "work" / "project"
        (project / "a.txt").write_text("one\n")
        os.chown(project / "a.txt", ORDINARY, ORDINARY)
        env = {
            "HOME": str(root / "home"),
            "PATH": os.environ["PATH"],
            "AGENT_TUI_STATE_DIR": str(root / "state"),
            "PYTHONPATH": str(packages()),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [*as_user(ORDINARY), PROGRAM[1], "box", "run", "--keep", ".", "id -u; rm a.txt; touch b"]
        kept = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
        assert (kept.returncode, kept.stdout) == (0, f"{ORDINARY}\n"), kept.stderr
        assert set(lines(kept.stderr)[1:]) == {("deleted", "a.txt"), ("created", "b")}
        assert (project / "a.txt").exists()
