"""What a prompt brings with it, through the engine: shown, sent, refused, steered, listed and left out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import Usage, UserMessage
from tests.support.agent_case import calls, says
from tests.support.folded import fold_events
from tests.support.open_session import read_until, session_in, submit
from tests.support.story import access, project_at
from tests.support.trust import trust

UTILS = "// helpers\n\nexport function add(a: number, b: number) {\n  return a - b;\n}\n"
LOOK = calls(("read_file", {"target_file": "src/utils.ts"}))


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / "src").mkdir(exist_ok=True)
    (root / "src" / "utils.ts").write_text(UTILS)
    return root


def session_of(project, *steps):
    return session_in(project, access(steps))


def sent(engine, session, at=-1):
    """A message of the user's as the model has it."""
    own = [
        message
        for message in engine.state(session).messages
        if isinstance(message, UserMessage) and message.origin == "user"
    ]
    return own[at].content


async def run(engine, session, text, **more):
    after = engine.state(session).seq
    await submit(engine, cmd.TurnSubmit(session=session, text=text, **more))
    await read_until(engine, session, ev.TurnFinished, after=after)


async def test_a_request_holds_what_was_shown_without_what_was_removed(project):
    async with session_of(project, says("Yes."), says("Yes.")) as (engine, session):
        question = q.PromptContextQuery(session=session, text="fix add in utils.ts")
        answer = await engine.query(question)
        assert [context_item.label for context_item in answer.items] == ["src/utils.ts", "add · src/utils.ts:3-5"]
        await run(engine, session, question.text, excluded=("file:src/utils.ts",))
        message = sent(engine, session)
        assert '<file path="src/utils.ts" lines="3-5" symbol="add">\nexport function add(' in message
        assert "// helpers" not in message
        await run(engine, session, question.text)
        assert "// helpers" in sent(engine, session)


@pytest.mark.parametrize("text", ["see @nonexist.py", "see @src/utils.ts:90", "@https://me@example.org/", "@nowhere"])
async def test_a_mention_of_nothing_is_refused_before_a_turn_and_sent_as_text_when_the_user_says_so(project, text):
    async with session_of(project, says("Yes.")) as (engine, session):
        reply = await engine.submit(cmd.TurnSubmit(session=session, text=text))
        assert isinstance(reply, cmd.Reject)
        assert reply.code == "mention_unknown"
        assert not engine.state(session).turns
        mention = text.removeprefix("see ")
        assert reply.message.startswith(mention)
        await run(engine, session, text, excluded=(mention,))
        assert text in sent(engine, session)


async def test_nothing_is_looked_for_in_what_was_pasted(project):
    text = "look: @nothing.py @src/utils.ts"
    async with session_of(project, says("Yes.")) as (engine, session):
        await run(engine, session, text, pasted=((6, len(text)),))
        assert "<attached_files>" not in sent(engine, session)


def test_without_a_screen_an_unknown_mention_is_wrong_usage(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    code = run_print(PrintArguments(directory=project, prompt="see @utlis.ts"), models=access([says("no")]))
    assert code == ExitCode.USAGE
    assert "Did you mean @src/utils.ts?" in capsys.readouterr().err


async def test_the_text_on_screen_goes_along_with_the_cursor_and_the_selection(project):
    viewing = cmd.Viewing(path="src/utils.ts", line=4, start=3, end=4, selected="export function add\n  return")
    async with session_of(project, says("Yes.")) as (engine, session):
        await run(engine, session, "why?", open_files=("src/utils.ts", "a.txt"), viewing=viewing)
        message = sent(engine, session)
        assert "src/utils.ts (the cursor is on line 4; lines 3-4 are selected)\n    export function add\n" in message
        assert "\na.txt\n" in message


async def test_what_is_mentioned_to_a_running_turn_goes_along(project):
    hold = asyncio.Event()
    async with session_of(project, [hold, *LOOK], says("Yes.")) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="go")), cmd.Ack)
        await read_until(engine, session, ev.StepStarted)
        refused = await engine.submit(cmd.TurnSteer(session=session, text="also @nope.ts"))
        assert refused.code == "mention_unknown"
        await submit(engine, cmd.TurnSteer(session=session, text="mind @src/utils.ts:3-5"))
        hold.set()
        await read_until(engine, session, ev.TurnFinished)
        message = sent(engine, session)
        assert 'lines="3-5">\nexport function add(' in message
        assert message.index("<attached_files>") < message.index("<user_query>")


async def test_the_sources_of_the_session_are_mentioned_by_their_words(project):
    edit = calls(("write", {"file_path": "new.txt", "contents": "fresh words\n"}))
    async with session_of(project, edit, says("Yes."), says("Yes.")) as (engine, session):
        empty = await engine.query(q.PromptContextQuery(session=session, text="@diff @terminal @plan @session @rule:x"))
        assert [problem.key for problem in empty.problems] == ["@diff", "@terminal", "@plan", "@session", "@rule:x"]
        await run(engine, session, "write it")
        await run(engine, session, "is @diff right?")
        message = sent(engine, session)
        assert "--- new.txt (create)\n+fresh words" in message
        answer = await engine.query(q.PromptContextQuery(session=session, text="@diff"))
        assert [context_item.label for context_item in answer.items] == ["@diff · 1 file"]


async def test_an_earlier_session_is_mentioned_by_its_prompts(project):
    async with session_of(project, says("Yes.")) as (engine, session):
        await run(engine, session, "paint the shed green")
    async with session_of(project, says("Yes.")) as (engine, session):
        await run(engine, session, "go on from @session")
        assert "1. paint the shed green" in sent(engine, session)


async def test_every_part_of_the_context_is_listed_and_one_can_be_left_out(project):
    async with session_of(project, LOOK, says("Yes."), says("Yes.")) as (engine, session):
        await run(engine, session, "fix @src/utils.ts:3-5")
        report = await engine.query(q.ContextQuery(session=session))
        parts = {context_part.name: context_part for context_part in report.parts}
        assert {"system prompt", "tools", "project layout", "src/utils.ts:3-5", "results of read_file"} <= set(parts)
        assert all(context_part.reason for context_part in report.parts)
        assert (
            sum(context_part.tokens for context_part in report.parts)
            == report.used
            == engine.state(session).context_used
        )
        assert parts["src/utils.ts:3-5"].reason == "sent with “fix @src/utils.ts:3-5”"
        refusal = await engine.submit(cmd.ContextDrop(session=session, part=parts["answers"].id))
        assert refusal.code == "part_kept"
        for name in ("src/utils.ts:3-5", "results of read_file"):
            answer = await engine.query(q.ContextQuery(session=session))
            [part] = [context_part for context_part in answer.parts if context_part.name == name]
            await submit(engine, cmd.ContextDrop(session=session, part=part.id))
        texts = "\n".join(message.content for message in engine.state(session).messages)
        assert "return a - b" not in texts
        assert texts.count("(left out by the user: about") == 2
        rejection = await engine.submit(cmd.ContextDrop(session=session, part=parts["src/utils.ts:3-5"].id))
        assert rejection.code == "part_unknown"
        events = [event async for event in take(engine, session)]
        assert fold_events(events).messages == engine.state(session).messages
        await run(engine, session, "fix @src/utils.ts:3-5")
        assert "return a - b" in sent(engine, session)


async def test_the_parts_of_a_resumed_session_add_up_before_its_first_turn(project):
    async with session_of(project, LOOK, says("Yes.", usage=Usage(prompt_tokens=9_000))) as (engine, session):
        await run(engine, session, "fix @src/utils.ts:3-5")
        used = engine.state(session).context_used
    async with session_in(project, access([]), cmd.SessionResume(session=session)) as (engine, session):
        report = await engine.query(q.ContextQuery(session=session))
        assert sum(part.tokens for part in report.parts) == report.used == used
        assert report.parts[0].name == "system prompt and tools"
        await submit(engine, cmd.ModeSet(session=session, mode="ask"))
        await engine.submit(cmd.ContextCompact(session=session))  # makes the context of a turn, and calls no model
        await engine.wait_idle(session)
        report = await engine.query(q.ContextQuery(session=session))
        assert sum(part.tokens for part in report.parts) == report.used == engine.state(session).context_used


async def take(engine, session):
    """All events so far, as envelopes."""
    last = engine.state(session).seq
    async for envelope in engine.events(session):
        yield envelope
        if envelope.seq >= last:
            return


async def test_what_is_kept_from_the_agent_is_not_offered_behind_an_at_and_rules_are(project):
    (project / ".cursorignore").write_text("src/kept.ts\n")
    (project / "src" / "kept.ts").write_text("x\n")
    (project / ".cursor" / "rules").mkdir(parents=True)
    (project / ".cursor" / "rules" / "utility.mdc").write_text("---\nalwaysApply: false\n---\nBe kind.\n")
    trust(project)
    async with session_of(project, says("Yes.")) as (engine, session):

        async def complete(pattern):
            answer = await engine.query(q.CompletionQuery(session=session, pattern=pattern))
            return [(completion.word, completion.note) for completion in answer.completions]

        assert (await complete("util"))[:2] == [("rule:utility", "rule"), ("src/utils.ts", "")]
        assert ("rule:utility", "rule") in await complete("rule:ut")
        for lines in (":", ":1", ":10-", ":10-20", "#", "#L", "#L10-L20"):
            assert await complete(f"utils.ts{lines}") == [(f"src/utils.ts{lines}", "")]
            assert await complete(f"src/utils.ts{lines}") == []
        assert not any("kept" in word for word, _ in await complete("kept"))
        await run(engine, session, "Tidy up. @rule:utility")
        assert "Be kind." in sent(engine, session)
