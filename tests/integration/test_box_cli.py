from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.sandbox.box import Tier
from tests.support.box_cases import ORDINARY, Boxed, as_user, boxes, ordinary_python, packages, place_of
from tests.support.box_tiers import found
from tests.support.program import PROGRAM, run


def program(
    *arguments: str, cwd: Path, env: Mapping[str, str] = os.environ, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    ended = asyncio.run(run(cwd, *arguments, env=env, stdin=stdin.encode()))
    return subprocess.CompletedProcess(arguments, ended.code, ended.out, ended.err)


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
    rows = lines(ended.stderr)
    assert rows[0][0] == "sandbox"
    assert rows[0][1].startswith("T")
    assert set(rows[1:]) == {("edited", "a.txt"), ("created", "new"), ("deleted", ".gitignore")}
    assert tree(project) == before
    assert "nothing pending" in program("review", ".", cwd=project).stdout


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
    result = program("review", ".", cwd=project)
    assert "-two\n+TWO\n" in result.stdout
    assert "old mode 100644\nnew mode 100755\n" in result.stdout
    assert "# generated  node_modules" in result.stdout
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


def test_a_patch_has_links_and_odd_names_as_git_has_them(project, tmp_path):
    (project / "old link").symlink_to("a.txt")
    (project / "gone").symlink_to("a.txt")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", project, copy], check=True)
    links = "ln -sfn elsewhere 'old link'; rm gone; ln -s a.txt new; chmod 755 a.txt; echo Obey > AGENTS.md"
    names = "echo 1 > 'we ird'; echo 2 > 'q\"u\\o'; echo 3 > $(printf 'b\\377d'); echo 4 > ünï"
    program("box", "run", "--keep", ".", f"{links}; {names}", cwd=project)
    patch = program("review", ".", cwd=project).stdout
    taken = subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, text=True, capture_output=True, check=False)
    assert taken.stderr == ""
    program("review", ".", "--accept", "all", "AGENTS.md", cwd=project)
    assert {path: path.readlink() for path in copy.iterdir() if path.is_symlink()} == {
        copy / "old link": Path("elsewhere"),
        copy / "new": Path("a.txt"),
    }
    assert tree(copy) == tree(project)
    assert {b"we ird", b'q"u\\o', b"b\xffd", "ünï".encode()} <= {os.fsencode(path.name) for path in copy.iterdir()}
    assert os.access(copy / "a.txt", os.X_OK)


def test_n16a_a_rename_is_printed_and_accepted_as_one(project, tmp_path):
    (project / "d").mkdir()
    (project / "d" / "ö 1").write_text("one\n")
    program("box", "run", "--keep", ".", "mv a.txt 'b c.txt'; mv d e", cwd=project)
    patch = program("review", ".", "--print", cwd=project).stdout
    assert patch.count("similarity index 100%\nrename from ") == patch.count("diff --git") == 2
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", project, copy], check=True)
    taken = subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, text=True, capture_output=True, check=False)
    assert taken.stderr == ""
    accepted = program("review", ".", "--accept", "a.txt", "b c.txt", "e/ö 1", cwd=project)
    assert (accepted.returncode, accepted.stderr.count("accepted  ")) == (0, 2), accepted.stderr
    assert {path for path in tree(project) if path != ".gitignore"} == {"b c.txt", "e/ö 1"}
    assert tree(copy) == tree(project)
    assert not (project / "d").exists()


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
    assert "nothing pending" in program("review", ".", cwd=project).stdout


def test_what_is_protected_is_only_accepted_by_its_name(project):
    program("box", "run", "--keep", ".", "mkdir .vscode; echo '{}' > .vscode/settings.json", cwd=project)
    left = program("review", ".", "--accept", "all", cwd=project)
    assert left.returncode == 4
    (line,) = [
        row for row in left.stderr.splitlines() if row.startswith("left      .vscode/settings.json (protected: ")
    ]
    assert line.endswith("it is accepted only by name)")
    assert not (project / ".vscode").exists()
    result = program("review", ".", "--accept", ".vscode/settings.json", cwd=project)
    assert (result.returncode, result.stderr) == (0, "accepted  .vscode/settings.json\n")
    assert (project / ".vscode" / "settings.json").read_text() == "{}\n"


def test_plan_mode_keeps_nothing_even_when_it_is_told_to(project):
    before = tree(project)
    ended = program("box", "run", "--mode", "plan", "--keep", ".", "touch x; ls", cwd=project)
    assert "x" in ended.stdout
    assert ("discarded", "all its changes") in lines(ended.stderr)
    assert tree(project) == before
    assert "nothing pending" in program("review", ".", cwd=project).stdout


def test_time_that_is_over_and_a_box_that_is_not_there_have_codes_of_their_own(project):
    late = program("box", "run", "--timeout", "1", ".", "echo begun; sleep 60", cwd=project)
    assert (late.returncode, late.stdout) == (124, "begun\n")
    env = {**os.environ, "AGENT_TUI_STATE_DIR": str(project / "a.txt")}
    none = program("box", "run", ".", "true", cwd=project, env=env)
    assert none.returncode == 125
    assert none.stderr.startswith("agent-tui: not run: ")


def test_output_is_passed_on_byte_for_byte_also_when_its_reader_has_gone(project):
    data = bytes(range(256)) * 300 + b"\xff no newline"
    (project / "data").write_bytes(data)
    words = [*PROGRAM, "box", "run", ".", "cat data; cat data >&2; touch made"]
    both = subprocess.run(words, cwd=project, capture_output=True, check=True)
    assert both.stdout == data
    assert both.stderr.startswith(data + b"\nsandbox ")
    words[-1] = "cat data; touch made"
    source, sink = os.pipe()
    os.close(source)
    ended = subprocess.run(words, cwd=project, stdout=sink, stderr=subprocess.PIPE, text=True, check=False)
    os.close(sink)
    assert ended.returncode == 0
    assert lines(ended.stderr)[1:] == [("created", "made")]


def test_a_terminal_gets_nothing_that_it_would_act_on_t1(project):
    screen, theirs = pty.openpty()
    words = [*PROGRAM, "box", "run", ".", "printf '\\033]52;c;aaaa\\a\\033[2Jred\\n\\377'"]
    subprocess.run(words, cwd=project, stdout=theirs, stderr=subprocess.PIPE, check=True)
    assert os.read(screen, 4096).decode() == "red\r\n\ufffd"
    os.close(theirs)
    os.close(screen)


def test_what_ends_a_command_and_what_can_not_be_opened_is_told(project):
    killed = program("box", "run", ".", "kill -9 $$", cwd=project)
    assert killed.returncode == 137
    flooded = program("box", "run", ".", "yes", cwd=project)
    assert flooded.returncode == 125
    assert lines(flooded.stderr)[1][1].startswith("it wrote more than 10 MB")
    odd = project / "a name\nof 'two' lines"
    odd.mkdir()
    assert program("box", "run", str(odd), "pwd; cat", cwd=project, stdin="x").stdout == f"{odd}\n"


@pytest.mark.parametrize(
    ("directory", "words"), [("nope", "no directory 'nope'\n"), ("a.txt", "is a file"), ("", "is empty")]
)
def test_a_directory_that_is_none_is_an_error_and_nothing_starts(project, directory, words):
    ended = program("box", "run", directory, "true", cwd=project)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in ended.stderr


def test_a_tier_that_is_not_here_is_not_replaced_and_says_why(project):
    missing = [trial.tier for trial in found().reasons if not trial.ok]
    if not missing:
        pytest.skip("this machine offers every tier")
    ended = program("box", "run", "--tier", missing[0], ".", "touch made", cwd=project)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert ended.stderr.startswith(f"agent-tui: not run: no sandbox here: {missing[0]}: ")
    assert not (project / "made").exists()


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
        result = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (0, f"{ORDINARY}\n"), result.stderr
        assert set(lines(result.stderr)[1:]) == {("deleted", "a.txt"), ("created", "b")}
        assert (project / "a.txt").exists()


def test_n5_the_printed_review_shows_the_commits_and_a_verdict_says_why_it_was_not_carried_out(project):
    identity = "git -c user.name=t -c user.email=t@example.org"
    begin = f"git init -q; git add .; {identity} commit -qm first"
    subprocess.run(["sh", "-c", begin], cwd=project, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, check=True).stdout
    program("box", "run", "--keep", ".", f"sed -i s/two/REJECTED/ a.txt; {identity} commit -qam Sweep", cwd=project)
    stdout = program("review", ".", "--print", cwd=project).stdout
    remarks = [line for line in stdout.splitlines() if line.startswith("#")]
    assert any("Sweep" in line for line in remarks)
    assert any("+REJECTED" in line for line in remarks)
    waits = program("review", ".", "--accept", ".git", cwd=project)
    assert (waits.returncode, "a.txt is pending in the review" in waits.stderr) == (4, True)
    program("review", ".", "--reject", "a.txt", cwd=project)
    done = program("review", ".", "--accept", ".git", cwd=project)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "accepted  .git")
    after = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, check=True).stdout
    assert after == head
    assert not [path for path, data in tree(project).items() if b"REJECTED" in data]


def test_n5_a_state_of_git_that_the_project_moved_on_below_is_left_with_the_reason(project):
    identity = "git -c user.name=t -c user.email=t@example.org"
    subprocess.run(["sh", "-c", f"git init -q; git add .; {identity} commit -qm first"], cwd=project, check=True)
    program("box", "run", "--keep", ".", f"{identity} commit -q --allow-empty -m theirs", cwd=project)
    subprocess.run(["sh", "-c", f"{identity} commit -q --allow-empty -m mine"], cwd=project, check=True)
    left = program("review", ".", "--accept", ".git", cwd=project)
    assert left.returncode == 4
    assert "changed in the project since the command" in left.stderr


def test_standard_output_and_standard_error_are_kept_apart_and_the_report_can_go_to_a_file(project, tmp_path):
    command = "echo out; printf 'err\\377' >&2; printf '\\376out'; touch new"
    words = [*PROGRAM, "box", "run", "--report", "report", ".", command]
    ended = subprocess.run(words, cwd=project, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"out\n\xfeout", b"err\xff")
    assert [name for name, _ in lines((project / "report").read_text())] == ["sandbox", "created"]
    (project / "report").unlink()
    ended = subprocess.run([*PROGRAM, "box", "run", ".", command], cwd=project, capture_output=True, check=False)
    assert ended.stdout == b"out\n\xfeout"
    assert ended.stderr.startswith(b"err\xff\nsandbox    T")


def test_n14_a_name_can_not_forge_a_line_of_the_report(project):
    name = "a\\nsandbox    T9\\ncreated    innocent\\x1b[2J\\u202e\\\\x"
    (project / "make.py").write_text(f"open('{name}', 'w')\n")
    ended = program("box", "run", ".", "python3 make.py", cwd=project)
    rows = lines(ended.stderr)
    assert len(rows) == 2
    assert rows[1] == ("created", "a\\nsandbox    T9\\ncreated    innocent\\x1b[2J\\u202e\\\\x")


def test_n14_names_that_look_alike_are_told_apart_in_the_report(project):
    ended = program("box", "run", ".", "echo > раy; echo > 'b  c '", cwd=project)
    assert [name for _, name in lines(ended.stderr)[1:]] == ["b  c\\x20", "‹ра·Cyrillic›y"]


@pytest.mark.parametrize("tier", boxes())
async def test_standard_error_is_heard_apart_in_every_tier(tier: Tier):
    with place_of(os.geteuid()) as root:
        case = Boxed(tier, os.geteuid(), root)
        out: list[str] = []
        errors: list[str] = []
        spec = case.spec("echo out; echo err >&2; cat nothing")
        running = await case.box().start(spec, out.append, errors.append)
        assert (await running.wait()).exit_code == 1
        await case.close()
    assert "".join(out) == "out\n"
    assert "".join(errors).startswith("err\ncat: nothing")


def test_p19_below_the_top_of_a_repository_git_works_and_secrets_above_are_kept(project):
    part = project / "part"
    part.mkdir()
    (part / "b.txt").write_text("b\n")
    (project / ".gitignore").write_text("node_modules/\n.env\n*.pem\n")
    (project / ".env").write_text("PASSWORD=above-the-part\n")
    (project / "node_modules" / "p").mkdir(parents=True)
    (project / "node_modules" / "p" / ".env").write_text("PASSWORD=above-the-part\n")
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=project, check=True)
    before = tree(project)
    acts = (
        "cat ../.env ../node_modules/p/.env; cat ../a.txt; git add . && git commit -qm x; echo x > ../a.txt; touch new"
    )
    ended = program("box", "run", ".", acts, cwd=part, env={**os.environ, "GIT_AUTHOR_NAME": "t"})
    assert "above-the-part" not in ended.stdout
    assert "one\ntwo\nthree\n" in ended.stdout
    effects = dict(lines(ended.stderr))
    assert effects["created"] == "new"
    assert "is outside the workspace" in ended.stderr
    assert tree(project) == before
