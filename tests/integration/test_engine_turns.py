from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.engine import Engine, EngineOptions
from core.engine.session.recovery import complete_results
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.transports.stdio_client import connect
from tests.support.agent_case import Step, calls, says
from tests.support.commits import git
from tests.support.configured import ASKS, configured
from tests.support.open_session import session_in
from tests.support.story import access, project_at, story

HOST = Path(__file__).parents[1] / "support" / "engine_host.py"


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def session_of(project: Path, *steps: Step):
    return session_in(project, access(steps))


async def until_end(client: Client, session: str, answer: ev.ApprovalDecision = "reject_once") -> list[ev.AnyEvent]:
    seen = []
    stream = client.events(session)
    async for envelope in stream:
        seen.append(envelope.event)
        if isinstance(envelope.event, ev.ApprovalRequested):
            await client.submit(cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision=answer))
        if isinstance(envelope.event, ev.TurnFinished):
            break
    await stream.aclose()
    return seen


async def test_a_second_prompt_is_rejected_while_a_turn_runs_and_a_message_steers_it(project):
    hold = asyncio.Event()
    async with session_of(project, [hold, *calls(("read_file", {"target_file": "a.txt"}))]) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="one")), cmd.Ack)
        second = await engine.submit(cmd.TurnSubmit(session=session, text="two"))
        assert second.code == "turn_running"
        assert isinstance(await engine.submit(cmd.TurnSteer(session=session, text="mind the gap")), cmd.Ack)
        await engine.wait_idle(session)
        hold.set()
        seen = await until_end(engine, session)
        assert [event.text for event in seen if isinstance(event, ev.TurnSteered)] == ["mind the gap"]
        assert seen[-1].reason == "done"
        assert any("mind the gap" in getattr(message, "content", "") for message in engine.state(session).messages)


async def test_v9_an_interrupt_does_not_wait_for_the_model_and_leaves_a_valid_history(project):
    async with session_of(project, [asyncio.Event(), *says("never")]) as (engine, session):
        await engine.submit(cmd.TurnSubmit(session=session, text="one"))
        await engine.wait_idle(session)
        assert isinstance(await engine.submit(cmd.TurnInterrupt(session=session)), cmd.Ack)
        seen = await until_end(engine, session)
        assert seen[-1].reason == "interrupted"
        messages = engine.state(session).messages
        assert complete_results(messages) == messages
        await engine.submit(cmd.TurnSubmit(session=session, text="again"))


async def test_the_first_prompt_names_the_session_and_is_kept_for_the_history(project):
    async with session_of(project, says("a"), says("b")) as (engine, session):
        text = "Fix the very long thing that is described here in far more than sixty letters\nand more"
        await engine.submit(cmd.TurnSubmit(session=session, text=text))
        await until_end(engine, session)
        assert engine.state(session).title == "Fix the very long thing that is described here in far more…"
        assert await engine.query(q.PromptHistoryQuery()) == q.PromptHistoryAnswer(prompts=(text,))
        report = await engine.query(q.ContextQuery(session=session))
        assert {"system prompt", "tools", "project layout", "answers"} <= {part.name for part in report.parts}
        assert report.used > 0


async def test_a_branch_that_is_checked_out_meanwhile_is_told_with_the_next_prompt_or_change_on_disk(project):
    git(project, "init", "-q", "-b", "main")
    async with session_of(project, says("a")) as (engine, session):
        assert engine.state(session).branch == "main"
        git(project, "checkout", "-q", "-b", "topic")
        await engine.submit(cmd.TurnSubmit(session=session, text="go on"))
        await engine.wait_idle(session)
        assert engine.state(session).branch == "topic"
        git(project, "checkout", "-q", "-b", "other")
        engine._on_disk_changed(())
        assert engine.state(session).branch == "other"


async def test_edits_policy_auto_writes_at_the_end_of_each_step_and_can_be_undone(project):
    configured('[edits]\npolicy = "auto"\n')
    async with session_of(project, *story()) as (engine, session):
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        await until_end(engine, session)
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
        assert (project / "new.txt").read_text() == "fresh\n"
        assert not engine.state(session).changes
        assert not engine.state(session).unreported_verdicts
        for _ in range(2):
            await engine.submit(cmd.VerdictUndo(session=session))
        await engine.wait_idle(session)
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert not (project / "new.txt").exists()


async def test_d4_a_full_disk_stops_the_turn_with_a_clear_message_and_loses_nothing(project, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would leave a torn one that others load
    async with session_of(project, *story()) as (engine, session):
        log = engine._find_session(session).log
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        await engine.submit(cmd.ModeSet(session=session, mode="debug"))
        await engine.wait_idle(session)
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 900, hard))
        try:
            await engine.submit(cmd.TurnSubmit(session=session, text="go"))
            seen = await until_end(engine, session)
            assert seen[-1].reason == "failed"
            assert any(isinstance(event, ev.ErrorRaised) and "written" in event.message for event in seen)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="again")), cmd.Ack)
        await engine.wait_idle(session)
    again = Engine(project, options=EngineOptions(watch=False), models=access())
    assert isinstance(await again.submit(cmd.SessionResume(session=session)), cmd.Ack)
    assert again.state(session).turns[0].reason == "failed"
    assert again.state(session).turns[1].prompt == "again"
    await again.close()


async def test_a_client_that_comes_late_may_answer_what_waits(project):
    configured(ASKS)
    async with session_of(project, calls(("run_terminal_cmd", {"command": "true"}))) as (engine, session):
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        early = engine.events(session)
        async for envelope in early:
            if isinstance(envelope.event, ev.ApprovalRequested):
                break
        await early.aclose()
        wrong = cmd.ApprovalAnswer(session=session, id=envelope.event.id, decision="allow_session")
        assert (await engine.submit(wrong)).code == "decision_not_offered"
        seen = await until_end(engine, session, answer="allow_once")
        resolved = next(event for event in seen if isinstance(event, ev.ApprovalResolved))
        assert (resolved.decision, resolved.by) == ("allow_once", "user")


async def test_closing_the_engine_interrupts_and_the_log_says_so(project):
    engine = Engine(project, options=EngineOptions(watch=False), models=access([[asyncio.Event()]]))
    session = (await engine.submit(cmd.SessionOpen())).session
    await engine.submit(cmd.TurnSubmit(session=session, text="go"))
    await engine.wait_idle(session)
    await engine.close()
    again = Engine(project, options=EngineOptions(watch=False), models=access())
    await again.submit(cmd.SessionResume(session=session))
    assert [turn.reason for turn in again.state(session).turns] == ["interrupted"]
    await again.close()


def kinds(events: list[ev.AnyEvent]) -> list[str]:
    skipped = (ev.LossyEvent, ev.SessionStarted, ev.SessionResumed)
    return [type(event).__name__ for event in events if not isinstance(event, skipped)]


async def test_the_same_turn_gives_the_same_events_through_every_front_end(tmp_path):
    async with session_of(project_at(tmp_path / "one"), *story()) as (engine, session):
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        inside = kinds(await until_end(engine, session))
    program = (sys.executable, str(HOST))
    client = await connect(ScreenArguments(directory=project_at(tmp_path / "two"), program=program))
    reply = await client.submit(cmd.SessionOpen())
    await client.submit(cmd.TurnSubmit(session=reply.session, text="go"))
    outside = kinds(await until_end(client, reply.session))
    await client.close()
    printed = await asyncio.to_thread(_in_a_process, project_at(tmp_path / "three"))
    assert of_the_turn(inside) == of_the_turn(outside)
    assert sorted(printed) == sorted(inside) == sorted(outside)


def of_the_turn(names: list[str]) -> list[str]:
    """Without what the machine is found to have meanwhile, at any moment."""
    return [name for name in names if name != ev.BoxFound.__name__]


def _in_a_process(project: Path) -> list[str]:
    code = (
        f"import sys; sys.path.insert(0, {str(HOST.parents[2])!r})\n"
        "from core.cli.arguments import parse; from core.cli.print_mode.headless import run_print\n"
        "from tests.support.story import access, story\n"
        "run_print(parse(sys.argv[1:]), models=access(story()))"
    )
    command = [sys.executable, "-c", code, "-p", "go", "--output-format", "stream-json", str(project)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    names = {kind.__struct_config__.tag: kind for kind in ev.AnyEvent.__args__}
    lines = [json.loads(line) for line in done.stdout.splitlines()][:-1]
    kinds = [names[line["event"]["type"]] for line in lines]
    return [kind.__name__ for kind in kinds if not issubclass(kind, ev.LossyEvent)]


async def test_a_reader_that_leaves_ends_the_run_without_a_traceback(project):
    code = (
        f"import sys; sys.path.insert(0, {str(HOST.parents[2])!r})\n"
        "import agent_tui, core.engine.shared.models as access, core.cli.print_mode.headless as headless\n"
        "from tests.support.agent_case import says\n"
        "from tests.support import story\n"
        "run = headless.run_print\n"
        "headless.run_print = lambda o: run(o, models=story.access([says('word ' * 50000)]))\n"
        "sys.exit(agent_tui.main())"
    )
    reader, writer = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        "-p",
        "go",
        str(project),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=writer,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writer)
    os.close(reader)
    _, err = await process.communicate()
    assert b"Traceback" not in err
    assert process.returncode == 1


async def test_ctrl_c_ends_a_run_in_good_order(project):
    code = (
        f"import sys; sys.path.insert(0, {str(HOST.parents[2])!r})\n"
        "import asyncio\n"
        "from core.cli.arguments import parse; from core.cli.print_mode.headless import run_print\n"
        "from core.providers.base import TextDelta; from tests.support import story\n"
        "model = story.access([[TextDelta('thinking'), asyncio.Event()]])\n"
        "sys.exit(run_print(parse(sys.argv[1:]), models=model))"
    )
    command = [sys.executable, "-c", code, "-p", "go", "--output-format", "stream-json", str(project)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    async for line in process.stdout:
        if b'"document.delta"' in line:
            break
    process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()
    result = json.loads(out.splitlines()[-1])["response"]
    assert process.returncode == 130
    assert (result["status"], result["metadata"]["stopReason"]) == ("error", "interrupted")
    assert result["documents"][0]["content"] == "thinking"
