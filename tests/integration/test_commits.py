"""The content of commits of accepted hunks, in real repositories: what goes in, and what stays the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import events as ev
from core.protocol import queries as q
from tests.support.agent_case import calls, says
from tests.support.commits import (
    LINES,
    accept_all,
    accept_hunks,
    commit,
    edited,
    git,
    make_repository,
    preview,
    writes,
)
from tests.support.open_session import run_turn, session_in
from tests.support.story import access


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_repository(tmp_path, monkeypatch)


async def test_files_that_are_named_are_committed_alone_and_the_others_wait(project):
    paths = ("a.txt", "sub/b.txt", "sub/c.txt", "subway.txt")
    edits = [writes("a.txt", edited(2)), *(calls(("write", {"file_path": p, "contents": "x\n"})) for p in paths[1:])]
    async with session_in(project, access([*edits, says("Done.")])) as (engine, session):
        await run_turn(engine, session, "Write them.")
        for path in paths:
            await accept_hunks(engine, session, path, 0)
        answer = await engine.query(q.CommitQuery(session=session, paths=("sub",)))
        assert [file.path for file in answer.groups[0].files] == ["sub/b.txt", "sub/c.txt"]
        (event,) = await commit(engine, session, answer)
        assert event.files == ("sub/b.txt", "sub/c.txt")
        left = await preview(engine, session)
        assert [file.path for file in left.groups[0].files] == ["a.txt", "subway.txt"]
        none = await engine.query(q.CommitQuery(session=session, paths=("sub",)))
        assert none.refused == "nothing that was accepted below sub is waiting for a commit."


async def test_two_of_three_hunks_are_committed_and_nothing_else_changes(project):
    (project / "own.txt").write_text("mine\nnot staged\n")
    (project / "staged.txt").write_text("staged\n")
    git(project, "add", "staged.txt")
    async with session_in(project, access([writes("a.txt", edited(2, 15, 28)), says("Done.")])) as (engine, session):
        await run_turn(engine, session, "Renew the lines. They are old.")
        await accept_hunks(engine, session, "a.txt", 0, 2)
        answer = await preview(engine, session)
        assert (answer.branch, answer.staged, answer.hooks) == ("main", 1, ())
        (group,) = answer.groups
        assert group.message == "Renew the lines\n"
        assert [(file.path, file.operation, file.added, file.removed) for file in group.files] == [
            ("a.txt", "edit", 2, 2)
        ]
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
        assert (event.branch, event.subject, event.files) == ("main", "Renew the lines", ("a.txt",))
        assert (await preview(engine, session)).refused == "nothing that was accepted is waiting for a commit."
    assert (
        git(project, "log", "--format=%an <%ae> %s")
        == "Ada <ada@example.org> Renew the lines\nMe <me@example.org> first\n"
    )
    assert git(project, "show", "--format=", "--name-only") == "a.txt\n"
    assert git(project, "show", "HEAD:a.txt") == edited(2, 28)
    assert git(project, "status", "--porcelain") == " M own.txt\nA  staged.txt\n"


async def test_the_users_own_lines_of_the_same_file_stay_out(project):
    (project / "a.txt").write_text("my own\n" + LINES)
    proposed = "my own\n" + edited(15)
    async with session_in(project, access([writes("a.txt", proposed), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        with (project / "a.txt").open("a") as file:
            file.write("my own end\n")
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
    assert git(project, "show", "HEAD:a.txt") == edited(15)
    assert git(project, "diff", "--stat", "--", "a.txt").endswith("2 insertions(+)\n")
    assert git(project, "status", "--porcelain") == " M a.txt\n"


async def test_what_is_staged_of_the_same_file_stays_staged(project):
    (project / "a.txt").write_text(edited(2))
    git(project, "add", "a.txt")
    async with session_in(project, access([writes("a.txt", edited(2, 20)), says("Done.")])) as (engine, session):
        (event,) = await commit(engine, session, await accept_all(engine, session))
        assert isinstance(event, ev.CommitMade)
    assert git(project, "show", "HEAD:a.txt") == edited(20)
    assert git(project, "show", ":a.txt") == edited(2, 20)
    assert git(project, "status", "--porcelain") == "M  a.txt\n"


async def test_staged_lines_that_clash_with_accepted_ones_are_a_refusal(project):
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        (project / "b").write_text(LINES.replace("line 2\n", "line two\n"))
        oid = git(project, "hash-object", "-w", "b").strip()
        git(project, "update-index", "--cacheinfo", f"100644,{oid},a.txt")
        (failed,) = await commit(engine, session, answer)
        assert isinstance(failed, ev.CommitFailed)
        assert failed.stage == "check"
        assert "a.txt is staged with other changes of the same lines" in failed.message
    assert git(project, "log", "--format=%s") == "first\n"
    assert git(project, "rev-parse", ":a.txt").strip() == oid


async def test_what_the_user_took_back_or_changed_since_is_as_they_have_it(project):
    async with session_in(project, access([writes("a.txt", edited(2, 15, 28)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        (project / "a.txt").write_text(edited(15, 28).replace("28 new", "28 newer"))
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
    assert git(project, "show", "HEAD:a.txt") == edited(15, 28).replace("28 new", "28 newer")
    assert git(project, "status", "--porcelain") == ""


async def test_a_commit_that_the_user_made_themselves_is_not_made_again(project):
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        git(project, "commit", "-qam", "by hand")
        assert (await preview(engine, session)).refused
        (failed,) = await commit(engine, session, answer)
        assert isinstance(failed, ev.CommitFailed)
        assert failed.message == "there is a new commit since you opened this preview."


async def test_files_are_created_removed_and_made_programs(project):
    (project / "gone.txt").write_text("gone\n")
    (project / "run.sh").write_text("echo\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "more")
    turn = calls(
        ("write", {"file_path": "new/ä b.txt", "contents": "new\n"}),
        ("run_terminal_cmd", {"command": "rm gone.txt; chmod +x run.sh; ln -s a.txt link", "is_background": False}),
    )
    async with session_in(project, access([turn, says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        assert {file.path: file.operation for file in answer.groups[0].files} == {
            "gone.txt": "delete",
            "link": "create",
            "new/ä b.txt": "create",
            "run.sh": "edit",
        }
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
    raw = git(project, "-c", "core.quotePath=off", "show", "--raw", "--format=").splitlines()
    assert [line.split()[1] + " " + line.split("\t")[1] for line in raw] == [
        "000000 gone.txt",
        "120000 link",
        "100644 new/ä b.txt",
        "100755 run.sh",
    ]
    assert git(project, "status", "--porcelain") == ""


async def test_one_commit_for_each_prompt_also_in_one_file(project):
    models = access([writes("a.txt", edited(2)), says("Done."), writes("a.txt", edited(2, 20)), says("Done.")])
    async with session_in(project, models) as (engine, session):
        await accept_all(engine, session, "Renew line two.")
        await accept_all(engine, session, "Renew line twenty.")
        answer = await preview(engine, session, "prompt")
        assert [group.title for group in answer.groups] == ["Renew line two.", "Renew line twenty."]
        assert [group.files[0].added for group in answer.groups] == [1, 1]
        events = await commit(engine, session, answer)
        assert [event.subject for event in events] == ["Renew line two", "Renew line twenty"]
    assert git(project, "show", "HEAD~1:a.txt") == edited(2)
    assert git(project, "show", "HEAD:a.txt") == edited(2, 20)
    assert git(project, "log", "--format=%s") == "Renew line twenty\nRenew line two\nfirst\n"
    assert git(project, "status", "--porcelain") == ""


async def test_line_endings_are_stored_as_git_is_told_to(project):
    git(project, "config", "core.autocrlf", "true")
    (project / "a.txt").unlink()
    git(project, "checkout", "--", "a.txt")
    assert b"\r\n" in (project / "a.txt").read_bytes()
    turn = calls(("str_replace", {"file_path": "a.txt", "old_string": "line 3\n", "new_string": "line 3 new\n"}))
    async with session_in(project, access([turn, says("Done.")])) as (engine, session):
        answer = await accept_all(engine, session)
        assert [(file.added, file.removed) for file in answer.groups[0].files] == [(1, 1)]
        (event,) = await commit(engine, session, answer)
        assert isinstance(event, ev.CommitMade)
    assert git(project, "show", "HEAD:a.txt") == edited(3)
    assert git(project, "status", "--porcelain") == ""


async def test_a_patch_of_one_hunk_is_applied_by_git(project, tmp_path):
    async with session_in(project, access([writes("a.txt", edited(2, 15, 28)), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        middle = engine.state(session).changes["a.txt"].hunks[1].id
        answer = await engine.query(q.PatchQuery(session=session, paths=("a.txt",), hunks=(middle,)))
        assert isinstance(answer, q.PatchAnswer)
    (tmp_path / "patch").write_bytes(answer.patch)
    git(project, "apply", str(tmp_path / "patch"))
    assert (project / "a.txt").read_text() == edited(15)
