"""`/review`: the agent looks at a branch, commits or a pull request, and its findings are state that becomes fixes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli import review
from core.cli.print_mode.headless import run_print
from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from tests.support.agent_case import calls, says
from tests.support.commits import edited, git, make_repository
from tests.support.open_session import engine_in, run_turn, session_in, submit
from tests.support.story import access

REVIEW = """\
I looked at everything.

```3:3:a.txt
line 2 new
```
**high: The third line is wrong**
It says *new*, which nobody reads.
```suggestion
line 2
```

```9:9:a.txt
line 5 new
```
### low: The sixth line moved

```2:2:fresh.txt
no such text
```
- medium — Nobody imports this

It is dead.
"""
GH = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/gh-words"
cat "$HOME/diff"
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("sys.stdin", Terminal())
    root = make_repository(tmp_path, monkeypatch)
    git(root, "checkout", "-q", "-b", "topic")
    (root / "a.txt").write_text(edited(2))
    git(root, "commit", "-qam", "change the third")
    (root / "a.txt").write_text(edited(2, 5))
    (root / "fresh.txt").write_text("one\ntwo\n")
    return root


def told(engine: Engine, session: str) -> str:
    messages = engine.state(session).messages
    return next(
        message.content for message in messages if isinstance(message, UserMessage) and message.origin == "user"
    )


async def test_the_branch_is_told_with_what_is_not_committed_and_new_files(project):
    async with session_in(project, access((says("Nothing."),))) as (engine, session):
        await run_turn(engine, session, "/review")
        prompt = told(engine, session)
        assert "topic: 1 commit since main, and uncommitted changes" in prompt
        assert "change the third" in prompt
        assert "+line 2 new" in prompt
        assert "+line 5 new" in prompt
        assert "+++ b/fresh.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n" in prompt
        review = engine.state(session).review.code_review
        assert review is not None
        assert review.findings == ()


@pytest.mark.parametrize(
    ("wanted", "subject", "has", "lacks"),
    [
        ("main", "topic since main, and uncommitted changes", "+line 5 new", "nothing"),
        ("topic~1..topic", "topic~1..topic", "+line 2 new", "+line 5 new"),
        ("other", "other: 1 commit since main", "+line 7 new", "+line 2 new"),
        ("HEAD~1", "the commit ", "+mine", "+line 2 new"),
    ],
)
async def test_a_branch_and_commits_are_told_from_where_they_left(project, wanted, subject, has, lacks):
    git(project, "stash", "-q")
    git(project, "checkout", "-q", "-b", "other", "main")
    (project / "a.txt").write_text(edited(7))
    git(project, "commit", "-qam", "other")
    git(project, "checkout", "-q", "topic")
    git(project, "stash", "pop", "-q")
    async with session_in(project, access((says("Nothing."),))) as (engine, session):
        await run_turn(engine, session, f"/review {wanted}")
        prompt = told(engine, session)
        assert f"Review this change of the project: {subject}" in prompt
        assert has in prompt
        assert lacks not in prompt.partition("<diff>")[2].partition("</diff>")[0]


@pytest.mark.parametrize("wanted", ["nowhere", "--output=x", "topic..nowhere"])
async def test_what_does_not_exist_is_refused_with_a_reason(project, wanted):
    async with session_in(project, access(())) as (engine, session):
        reply = await engine.submit(cmd.TurnSubmit(session=session, text=f"/review {wanted}"))
        assert isinstance(reply, cmd.Reject)
        assert "no branch or commit" in reply.message
        assert not (project / "x").exists()


async def test_findings_are_placed_where_their_lines_stand_and_survive_a_restart(project):
    async with session_in(project, access((says(REVIEW),))) as (engine, session):
        await run_turn(engine, session, "/review")
        code_review = engine.state(session).review.code_review
        assert [(finding.severity, finding.place, finding.end, finding.doubt) for finding in code_review.findings] == [
            ("high", "a.txt:3", 3, ""),
            ("medium", "fresh.txt:2", 2, "these lines have other text"),
            ("low", "a.txt:6", 6, ""),
        ]
        assert code_review.findings[0].title == "The third line is wrong"
        assert code_review.findings[0].text == "It says *new*, which nobody reads."
        assert code_review.findings[0].suggestion == "line 2"
        await submit(engine, cmd.FindingsDismiss(session=session, ids=(code_review.findings[2].id,)))
    async with engine_in(project) as engine:
        await submit(engine, cmd.SessionResume(session=session))
        restored_review = engine.state(session).review.code_review
        assert restored_review.findings == code_review.findings
        assert [finding.severity for finding in restored_review.list_open()] == ["high", "medium"]
        await submit(engine, cmd.FindingsDismiss(session=session, ids=(code_review.findings[2].id,)))
        assert len(engine.state(session).review.code_review.list_open()) == 3


async def test_a_review_changes_nothing_and_the_mode_is_back_after_it(project):
    write = calls(("write", {"file_path": "a.txt", "contents": "gone"}))
    async with session_in(project, access((write, says("Nothing.")))) as (engine, session):
        seen = await run_turn(engine, session, "/review")
        assert [event.mode for event in seen if isinstance(event, ev.TurnStarted)] == ["ask"]
        assert [event.status for event in seen if isinstance(event, ev.ToolFinished)] == ["denied"]
        assert [event.mode for event in seen if isinstance(event, ev.ModeChanged)] == ["ask", "agent"]
        state = engine.state(session)
        assert not state.changes
        assert (state.mode, state.mode_after_turn) == ("agent", "")


async def test_what_waits_is_reviewed_as_the_agent_sees_it_and_a_binary_file_is_only_counted(project):
    writes = calls(("search_replace", {"file_path": "a.txt", "old_string": "line 2 new", "new_string": "line 2 newer"}))
    review = REVIEW.replace("line 2 new\n", "line 2 newer\n", 1)
    async with session_in(project, access((writes, says("Done."), says(review)))) as (engine, session):
        refused = await engine.submit(cmd.TurnSubmit(session=session, text="/review pending"))
        assert refused.code == "nothing_to_review"
        await run_turn(engine, session)
        engine._find_session(session).shadow.write("data.bin", b"\0\1")
        await run_turn(engine, session, "/review pending")
        state = engine.state(session)
        asked = [
            message.content
            for message in state.messages
            if isinstance(message, UserMessage) and message.origin == "user"
        ][-1]
        assert "+line 2 newer" in asked
        assert "GIT binary patch" not in asked
        assert "1 more path differs" in asked
        first = state.review.code_review.findings[0]
        assert (first.path, first.start, first.doubt) == ("a.txt", 3, "")


async def test_a_finding_is_fixed_in_agent_mode_and_its_hunks_come_from_it(project):
    mend = calls(
        ("read_file", {"target_file": "a.txt"}),
        ("search_replace", {"file_path": "a.txt", "old_string": "line 2 new", "new_string": "line 2"}),
    )
    async with session_in(project, access((says(REVIEW), mend, says("Done.")))) as (engine, session):
        await submit(engine, cmd.ModeSet(session=session, mode="ask"))
        await run_turn(engine, session, "/review")
        first = engine.state(session).review.code_review.findings[0]
        await run_turn(engine, session, cmd.FindingsFix(session=session, ids=(first.id,)))
        state = engine.state(session)
        assert state.mode == "agent"
        assert state.turns[-1].prompt == "Fix: The third line is wrong (a.txt:3)"
        assert state.changes["a.txt"].origin.turn == state.turns[-1].id
        assert state.review.code_review.get_standing(first.id) == ("fixing", state.turns[-1].id)
        assert [finding.severity for finding in state.review.code_review.list_open()] == ["medium", "low"]
        asked = [
            message.content
            for message in state.messages
            if isinstance(message, UserMessage) and message.origin == "user"
        ][-1]
        assert "It says *new*, which nobody reads." in asked
        assert "The reviewer suggests" in asked


async def test_an_unknown_finding_and_none_at_all_are_refused(project):
    async with session_in(project, access(())) as (engine, session):
        assert (await engine.submit(cmd.FindingsFix(session=session))).code == "no_code_review"
        await run_turn(engine, session, "/review")
        assert (await engine.submit(cmd.FindingsFix(session=session))).code == "nothing_to_fix"
        assert (await engine.submit(cmd.FindingsFix(session=session, ids=("x",)))).code == "finding_unknown"


@pytest.mark.parametrize("wanted", ["#12", "PR12", "https://github.com/me/project/pull/12/files"])
async def test_a_pull_request_is_read_by_the_users_own_program_as_a_strangers_text(
    project, tmp_path, monkeypatch, wanted
):
    places = tmp_path / "bin"
    places.mkdir()
    (places / "gh").write_text(GH)
    (places / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{places}:/usr/bin:/bin")
    git(project, "remote", "add", "origin", "git@github.com:me/project.git")
    (tmp_path / "home" / "diff").write_text(git(project, "diff", "main", "topic"))
    async with session_in(project, access((says(REVIEW),))) as (engine, session):
        await run_turn(engine, session, f"/review {wanted}")
        assert (tmp_path / "home" / "gh-words").read_text().split() == ["pr", "diff", "12", "--color", "never"]
        state = engine.state(session)
        assert "pull request 12" in told(engine, session)
        assert [finding.doubt for finding in state.review.code_review.findings] == [
            "",
            "the file is not in the diff",
            "these lines are not in the diff",
        ]
        assert "github.com" in state.foreign_sources


async def test_a_pull_request_of_another_repository_is_not_read_with_the_users_login(project):
    git(project, "remote", "add", "origin", "git@github.com:me/project.git")
    async with session_in(project, access(())) as (engine, session):
        address = "https://github.com/other/secret/pull/12"
        reply = await engine.submit(cmd.TurnSubmit(session=session, text=f"/review {address}"))
        assert reply.code == "no_pull_request"
        assert "is not a remote of this project" in reply.message


async def test_a_pull_request_without_a_program_is_refused(project, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    git(project, "remote", "add", "origin", "https://example.org/me/project.git")
    async with session_in(project, access(())) as (engine, session):
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="/review 12"))
        assert reply.code == "no_pull_request"
        assert "A branch needs neither" in reply.hint


def test_the_last_findings_are_printed_as_text_and_as_a_review_of_the_pull_request(project, tmp_path, capsys):
    run_print(PrintArguments(directory=project, prompt="/review"), models=access((says(REVIEW),)))
    capsys.readouterr()
    assert review.run(review.parse([str(project), "--findings"])) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.txt:3: high: The third line is wrong",
        "fresh.txt:2: medium: Nobody imports this (these lines have other text)",
        "a.txt:6: low: The sixth line moved",
    ]
    (tmp_path / "pr.diff").write_text(git(project, "diff", "main", "topic"))
    github = ["--format", "github", "--pr-diff", str(tmp_path / "pr.diff"), "--commit", "abc"]
    assert review.run(review.parse([str(project), "--findings", *github])) == 0
    payload = json.loads(capsys.readouterr().out)
    assert (payload["commit_id"], payload["event"]) == ("abc", "COMMENT")
    assert payload["body"].startswith("3 findings by agent-tui.\n\n**medium: Nobody imports this**")
    assert "fresh.txt:2" in payload["body"]
    assert [(comment["path"], comment["line"]) for comment in payload["comments"]] == [("a.txt", 3), ("a.txt", 6)]
    assert payload["comments"][0]["body"].endswith("```suggestion\nline 2\n```")


def test_the_findings_are_printed_and_in_the_json(project, capsys):
    asked = PrintArguments(directory=project, prompt="/review topic")
    assert run_print(asked, models=access((says(REVIEW),))) == 0
    err = capsys.readouterr().err
    assert "3 findings: 1 high, 1 medium, 1 low\n  fresh.txt:2: these lines have other text\n" in err
    asked = PrintArguments(directory=project, prompt="/review", output_format="json")
    assert run_print(asked, models=access((says(REVIEW),))) == 0
    findings = json.loads(capsys.readouterr().out)["metadata"]["findings"]
    assert [(finding["severity"], finding["path"], finding["startLine"]) for finding in findings] == [
        ("high", "a.txt", 3),
        ("medium", "fresh.txt", 2),
        ("low", "a.txt", 6),
    ]
