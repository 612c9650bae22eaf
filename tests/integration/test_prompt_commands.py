"""`/name` in a prompt: command files and skills, rendered by the engine, on the screen as in `-p`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.messages import UserMessage
from tests.support.agent_case import says
from tests.support.open_session import run_turn, session_in
from tests.support.program import environment, run
from tests.support.provider_server import provider_server
from tests.support.story import access
from tests.support.trust import trust

COMMIT = "---\nargument-hint: [message]\n---\nMade: !`touch made.txt; ls`\nCommit $ARGUMENTS, see @a.txt.\n"


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    write(root, {".claude/commands/git/commit.md": COMMIT, "a.txt": "alpha\n", "b.txt": "beta\n"})
    return root


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def send(engine, session, text):
    await run_turn(engine, session, cmd.TurnSubmit(session=session, text=text))
    messages = engine._find_session(session).state.messages
    return next(
        message.content
        for message in reversed(messages)
        if isinstance(message, UserMessage) and message.origin == "user"
    )


async def test_a_command_is_sent_with_its_arguments_its_output_and_the_files_it_names(project):
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        sent = await send(engine, session, "/commit the fix @b.txt")
        assert "Made: a.txt\nb.txt\nmade.txt\nCommit the fix @b.txt, see @a.txt." in sent
        assert "alpha" in sent
        assert "beta" in sent
        assert not (project / "made.txt").exists()
        assert engine._find_session(session).state.turns[-1].prompt == "/commit the fix @b.txt"


async def test_what_a_command_prints_mentions_nothing(project):
    write(project, {".claude/commands/who.md": "By: !`echo @nobody @a.txt`"})
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        sent = await send(engine, session, "/who")
        assert "By: @nobody @a.txt" in sent
        assert "alpha" not in sent


async def test_i1_in_a_project_that_is_not_trusted_nothing_of_it_is_called_and_nothing_runs(project):
    write(Path.home() / ".claude/commands", {"mine.md": "Mine: !`touch made.txt`"})
    async with session_in(project, access([says("ok")])) as (engine, session):
        assert "Commit" not in await send(engine, session, "/commit the fix")
        answer = await engine.query(q.CommandsQuery(session=session))
        assert [command.name for command in answer.commands] == ["mine"]
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="/mine"))
        assert isinstance(reply, cmd.Reject)
        assert "was not run: the user has not trusted this project" in reply.message
        assert not (project / "made.txt").exists()


async def test_snippets_of_the_project_are_offered_once_it_is_trusted(project):
    write(project, {".agent-tui/snippets/bug.md": "$0 is wrong."})
    async with session_in(project, access([says("ok")])) as (engine, session):
        answer = await engine.query(q.SnippetsQuery(session=session))
        assert (answer.snippets, answer.is_trusted) == ((), False)
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        (snippet,) = (await engine.query(q.SnippetsQuery(session=session))).snippets
        assert (snippet.name, snippet.text, snippet.path) == ("bug", "$0 is wrong.", ".agent-tui/snippets/bug.md")


async def test_a_command_that_fails_is_not_sent_and_says_so(project):
    write(project, {".claude/commands/bad.md": "See !`echo oh; exit 4`"})
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="/bad"))
        assert isinstance(reply, cmd.Reject)
        assert "`echo oh; exit 4` failed (exit code 4): oh" in reply.message
        assert ".claude/commands/bad.md" in reply.hint
        assert engine._find_session(session).state.turns == []


async def test_a_skill_is_called_like_a_command_and_counts_as_open(project):
    skill = "---\ndescription: d\ndisable-model-invocation: true\n---\nFill $0 in.\n"
    write(project, {".claude/skills/pdf/SKILL.md": skill})
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        sent = await send(engine, session, "/pdf form.pdf")
        assert '<skill name="pdf"' in sent
        assert "Fill form.pdf in." in sent
        assert "available_skills" not in sent
        assert engine._find_session(session).state.skills["pdf"].by_user
        answer = await engine.query(q.SkillsQuery(session=session))
        assert [(entry.name, entry.state) for entry in answer.skills] == [("pdf", "open")]


@pytest.mark.parametrize("text", ["/etc is full", " /commit x", "see /commit", "/nothing"])
async def test_other_words_are_sent_as_they_stand(project, text):
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        assert f"<user_query>\n{text}\n</user_query>" in await send(engine, session, text)


async def test_a_call_is_seen_before_it_is_sent_and_nothing_runs_for_it(project):
    trust(project)
    async with session_in(project, access([])) as (engine, session):
        answer = await engine.query(q.CommandPreviewQuery(session=session, text="/commit now"))
        assert answer == q.CommandPreviewAnswer(
            path=".claude/commands/git/commit.md",
            text="Made: !`touch made.txt; ls`\nCommit now, see @a.txt.",
            runs=("touch made.txt; ls",),
        )
        refused = await engine.query(q.CommandPreviewQuery(session=session, text="/nothing"))
        assert isinstance(refused, q.RefusedAnswer)


async def test_a_call_is_sent_without_a_screen(project):
    trust(project)
    async with provider_server(["ok"], strict=True) as server:
        env = environment(server)
        ended = await run(project, "-p", "/commit the fix", "--model", "openai/tiny-1", env=env)
        assert (ended.code, ended.out.strip()) == (0, "ok")
        assert "Commit the fix, see @a.txt." in server.answered[0].raw.decode()


async def test_the_shell_lists_checks_and_explains(project):
    write(
        project,
        {".claude/skills/pdf/SKILL.md": "---\nname: PDF\ndescription: d\n---\nx", ".claude/skills/q/SKILL.md": ""},
    )
    env = environment(None)
    listed = await run(project, "commands", env=env)
    assert "This project is not trusted" in listed.out
    trust(project)
    listed = await run(project, "commands", env=env)
    assert "/commit [message]  [project command: .claude/commands/git/commit.md]" in listed.out
    explanation = await run(project, "commands", "explain", "commit", "now", env=env)
    assert "! would run sandboxed, and its changes would be dropped: touch made.txt; ls" in explanation.out
    assert "Commit now, see @a.txt." in explanation.out
    assert (await run(project, "commands", "explain", "x", env=env)).code == 1
    skills = await run(project, "skills", env=env)
    assert "+ PDF  .claude/skills/pdf/SKILL.md" in skills.out
    checked = await run(project, "skills", "check", env=env)
    assert checked.code == 1
    assert "the name 'PDF' does not follow the standard" in checked.out
    assert ".claude/skills/q/SKILL.md is not a skill: it has no description" in checked.out
    assert json.loads((await run(project, "skills", "--json", env=env)).out)["skills"][0]["name"] == "PDF"
    assert not (project / "made.txt").exists()
