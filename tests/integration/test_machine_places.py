"""Where commands on the user's machine run: from the project's top, and never unnamed in another repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from core.git.nested_repositories import forbid_bare_repositories
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.shell.user_command import UserCommand
from tests.integration.test_on_machine import on_machine
from tests.integration.test_permissions import asked, engine_of, results, turn
from tests.integration.test_requested_permissions import documents
from tests.support.agent_case import Case, says
from tests.support.boxes import command
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, submit
from tests.support.story import project_at


@pytest.fixture
def project(tmp_path) -> Path:
    configured("")
    root = project_at(tmp_path / "project")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "docs").mkdir()
    (root / "docs" / "page.txt").write_text("page\n")
    return root


def plant(root: Path, place: str, ran: Path, *, is_bare: bool) -> None:
    """A repository with files that anybody can check in (a bare one), or that came in an archive, whose monitor and ssh
    command are ours."""
    at = root / place
    words = ["git", "init", "-q", *(["--bare"] if is_bare else []), str(at)]
    subprocess.run(words, check=True)
    own = at if is_bare else at / ".git"
    with (own / "config").open("a") as config:
        tail = "" if not is_bare else f"\tworktree = {at}\n\tbare = false\n"
        config.write(f'[core]\n{tail}\tfsmonitor = "touch {ran}; false"\n\tsshCommand = "touch {ran}; false"\n')
        config.write('[remote "origin"]\n\turl = ssh://git@example.test/x\n')


async def type_on_machine(engine, session: str, text: str) -> tuple[ev.CommandRan, object]:
    before = engine.state(session).seq
    await submit(engine, cmd.CommandRun(session=session, command=text, on_machine=True))
    seen = await read_until(engine, session, ev.CommandRan, after=before)
    [document] = [event.document for event in seen if isinstance(event, ev.DocumentFinished)]
    return seen[-1], document.metadata


@pytest.mark.parametrize("is_bare", [False, True])
async def test_n31_a_command_of_the_users_own_does_not_run_where_the_agent_changed_to(project, tmp_path, is_bare):
    ran = tmp_path / "ran"
    plant(project, "docs/ex", ran, is_bare=is_bare)
    async with engine_of(project, command("cd docs/ex"), says("ok")) as (engine, session):
        await turn(engine, session)
        assert engine.state(session).shell.directory == "docs/ex"
        place = await engine.query(q.MachinePlaceQuery(session=session, command="git status"))
        assert place == q.MachinePlaceAnswer(directory=str(project))
        done, metadata = await type_on_machine(engine, session, "git status; pwd; cd docs")
        assert done.output.splitlines()[-1] == str(project)
        assert (done.directory, metadata.working_directory) == (".", str(project))
        again, _ = await type_on_machine(engine, session, "pwd")
        assert again.output.splitlines()[-1] == str(project)
        assert engine.state(session).shell.directory == "docs/ex"
    assert not ran.exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("git status", ()),
        ("cd docs/ex && git status", ("docs/ex",)),
        ("cd docs; cd ex; git status", ("docs/ex",)),
        ("cd d*/e?; git status", ("docs/ex",)),
        ("for d in docs/*; do git -C $d status; done", ("docs/bare", "docs/ex", "docs/sub")),
        ("git -C docs/ex/deep status", ("docs/ex",)),
        ("git --work-tree=docs/ex status", ("docs/ex",)),
        ("(cd 'docs/bare'; git log)", ("docs/bare",)),
        ("make -C linked", ("docs/ex", "linked")),
        ("cat docs/page.txt .git/config", ()),
        ("git -C docs/sub pull", ("docs/sub",)),
        ("echo 'unbalanced docs/ex", ("docs/ex",)),
        ("git -C ../elsewhere status", ()),
        ("cat docs/ex/.git/config docs/bare/HEAD", ("docs/bare", "docs/ex")),
    ],
)
async def test_n31_repositories_inside_the_project_are_pointed_out(project, tmp_path, text, named):
    plant(project, "docs/ex", tmp_path / "ran", is_bare=False)
    plant(project, "docs/bare", tmp_path / "ran", is_bare=True)
    (project / "docs" / "ex" / "deep").mkdir()
    (project / "docs" / "sub").mkdir()
    (project / "docs" / "sub" / ".git").write_text("gitdir: ../ex/.git\n")
    (project / "linked").symlink_to("docs/ex")
    (tmp_path / "elsewhere").mkdir()
    async with engine_of(project) as (engine, session):
        place = await engine.query(q.MachinePlaceQuery(session=session, command=text))
        assert place == q.MachinePlaceAnswer(directory=str(project), repositories=named)


async def test_n31_a_top_that_looks_like_a_bare_repository_is_pointed_out(tmp_path):
    configured("")
    root = project_at(tmp_path / "bare")
    for name in ("objects", "refs"):
        (root / name).mkdir()
    (root / "HEAD").write_text("ref: refs/heads/main\n")
    async with engine_of(root) as (engine, session):
        place = await engine.query(q.MachinePlaceQuery(session=session, command="git status"))
        assert place.repositories == (".",)


@pytest.mark.parametrize("is_bare", [False, True])
async def test_n31_what_the_agent_asks_for_names_its_directory_and_the_repository_there(project, tmp_path, is_bare):
    plant(project, "docs/ex", tmp_path / "ran", is_bare=is_bare)
    steps = [command("cd docs/ex"), on_machine("git status"), on_machine("git -C ../ex status"), says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        first, second = asked(await turn(engine, session, "reject_once", "reject_once"))
        assert (first.directory, second.directory) == ("docs/ex", "docs/ex")
        for request in (first, second):
            assert request.containment.startswith("docs/ex is a separate repository inside the project")


RULE = '[permissions]\nallow = ["Machine(git push origin main)", "Machine(touch made.txt)"]\n'


@pytest.mark.parametrize("is_bare", [False, True])
async def test_n32_a_rule_for_the_machine_does_not_hold_below_the_top(project, tmp_path, is_bare):
    configured(RULE)
    ran = tmp_path / "ran"
    plant(project, "docs/ex", ran, is_bare=is_bare)
    push = "git push origin main"
    (project / "docs" / "ex" / "x").mkdir(exist_ok=True)
    steps = [
        on_machine("git push origin main", working_directory="docs/ex"),
        on_machine(f"cd docs/ex && {push}"),
        on_machine("git -C docs/ex push origin main"),
        on_machine(f"GIT_DIR=docs/ex/.git {push}"),
        command("cd docs/ex"),
        on_machine(push),
        on_machine("touch made.txt"),
        command("cd x"),
        on_machine(push),
        says("ok"),
    ]
    async with engine_of(project, *steps, interactive=False) as (engine, session):
        await run_turn(engine, session)
        outputs = results(engine, session)
        assert "but only at the top of the project" in outputs[5]
        assert "docs/ex" in outputs[6]
        assert "docs/ex/x" in outputs[8]
        assert all("refused this call" in outputs[at] for at in (0, 1, 2, 3, 5, 6, 8))
    assert not ran.exists()
    assert not list(project.rglob("made.txt"))


async def test_n32_a_rule_holds_in_the_top_and_again_after_the_shell_is_back(project):
    configured(RULE)
    steps = [command("cd docs"), on_machine("touch made.txt"), command("cd .."), on_machine("touch made.txt"), says("")]
    async with engine_of(project, *steps, interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert [document.permissions for document in documents(engine, session)] == [(), (), (), ("all",)]
    assert (project / "made.txt").exists()
    assert not (project / "docs" / "made.txt").exists()


async def test_n32_no_rule_holds_in_a_top_that_looks_like_a_bare_repository(tmp_path):
    configured(RULE)
    ran, root = tmp_path / "ran", project_at(tmp_path / "bare")
    plant(tmp_path, "bare", ran, is_bare=True)
    async with engine_of(root, on_machine("git push origin main"), says("ok"), interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert "looks like a bare repository" in results(engine, session)[0]
    assert not ran.exists()


async def test_n32_what_the_agent_has_set_does_not_reach_a_command_that_a_rule_lets_out(project, monkeypatch):
    names = (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_KEY_0",
        "GIT_EXEC_PATH",
    )
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Ada")
    look = "env | grep ^GIT_ | sort; git config user.name; git config safe.bareRepository"
    configured(f'[permissions]\nallow = ["Machine({look})"]\n')
    exports = command(" ".join(["export", *(f"{name}=/evil" for name in names), "PATH=/evil:$PATH"]))
    async with engine_of(project, exports, on_machine(look), says("ok"), interactive=False) as (engine, session):
        await run_turn(engine, session)
        output = documents(engine, session)[1].output
        assert "/evil" not in output
        assert output.splitlines()[-2:] == ["Ada", "explicit"]


async def test_n32_a_command_that_a_rule_lets_out_finds_no_program_of_the_project(project, monkeypatch, tmp_path):
    bin_directory = project / "node_modules" / ".bin"
    bin_directory.mkdir(parents=True)
    (bin_directory / "touch").write_text(f"#!/bin/sh\n/usr/bin/touch {tmp_path}/ran\n")
    (bin_directory / "touch").chmod(0o755)
    monkeypatch.setenv("AGENT_TUI_USERS_PATH", f"{bin_directory}{os.pathsep}{os.environ['PATH']}")
    configured(RULE)
    async with engine_of(project, on_machine("touch made.txt"), says("ok"), interactive=False) as (engine, session):
        await run_turn(engine, session)
    assert (project / "made.txt").exists()
    assert not (tmp_path / "ran").exists()
    async with engine_of(project, on_machine("touch made.txt"), says("ok")) as (engine, session):
        assert asked(await turn(engine, session)) == []
    assert not (tmp_path / "ran").exists()
    configured("")
    async with engine_of(project, on_machine("touch made.txt"), says("ok")) as (engine, session):
        await turn(engine, session, "run_on_machine")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("users", ["", "'safe.bareRepository=all'", "'safe.barerepository'='all' 'a.b=c'"])
def test_n32_git_takes_no_files_for_a_bare_repository_whatever_the_user_has_set(tmp_path, users):
    plant(tmp_path, "ex", tmp_path / "ran", is_bare=True)
    environment = {**os.environ, "GIT_CONFIG_PARAMETERS": users}
    if not users:
        del environment["GIT_CONFIG_PARAMETERS"]
    forbid_bare_repositories(environment)
    words = ["git", "config", "safe.bareRepository"]
    answer = subprocess.run(words, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert answer.stdout == "explicit\n", answer.stderr


@pytest.mark.parametrize("answer", ["run_on_machine"])
async def test_n32_git_takes_no_files_for_a_bare_repository_for_what_the_agent_asks(project, tmp_path, answer):
    ran = tmp_path / "ran"
    plant(project, "docs/ex", ran, is_bare=True)
    steps = [command("cd docs/ex"), on_machine("git status"), says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        await turn(engine, session, answer)
        assert "safe.bareRepository" in documents(engine, session)[1].output
    assert not ran.exists()


async def test_n31_where_nothing_holds_it_a_typed_command_has_nothing_of_the_agents_shell(tmp_path):
    case = Case(tmp_path, command("mkdir sub; cd sub; export SET=evil"), says("ok"))
    case.answer_approvals("allow_once")
    await case.turn()
    terminal = case.session.permissions.terminal
    assert (terminal.shell.directory, terminal.shell.variables) == ("sub", {"SET": "evil"})
    await UserCommand(terminal, 'pwd; echo "<$SET>"; cd sub').run()
    [ran] = case.of(ev.CommandRan)
    assert (ran.output.split(), ran.directory) == ([str(case.project), "<>"], ".")
    assert terminal.shell.directory == "sub"
