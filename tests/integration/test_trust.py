"""A project's own words are heard when its user trusts it, and not before."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from core.engine import Engine, EngineOptions
from core.exits import ExitCode
from core.permissions.trust import TrustStore
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from tests.support.agent_case import calls, says
from tests.support.open_session import run_turn, session_in
from tests.support.program import ask
from tests.support.provider_streams import Call
from tests.support.provider_streams import Step as Said
from tests.support.story import access
from tests.support.trust import trust

RULE = "Speak like a pirate."


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository that tries everything before anybody trusted it."""
    root = tmp_path / "project"
    (root / ".agent-tui").mkdir(parents=True)
    (root / ".cursor" / "rules").mkdir(parents=True)
    (root / "sub").mkdir()
    (root / "AGENTS.md").write_text(f"{RULE}\n")
    (root / "sub" / "AGENTS.md").write_text(f"{RULE} Here, too.\n")
    (root / ".cursor" / "rules" / "a.mdc").write_text(f"---\nalwaysApply: true\n---\n{RULE} Always.\n")
    (root / ".agent-tui" / "config.toml").write_text('[permissions]\nask = ["Write(**)"]\n')
    (root / "sub" / "a.txt").write_text("one\n")
    return root


@pytest.fixture
def trap(project, tmp_path) -> Path:
    """Is there when a program of the repository's was run."""
    sprung = tmp_path / "sprung"
    subprocess.run(["git", "init", "-q", project], check=True)
    with (project / ".git" / "config").open("a") as config:
        config.write(f'[core]\nfsmonitor = "touch {sprung}; false"\n')
    return sprung


def engine_of(project: Path, *steps, **options):
    return session_in(project, access(steps), **options)


async def turn(engine: Engine, session: str, text: str = "look at sub/a.txt") -> list[ev.AnyEvent]:
    return await run_turn(engine, session, cmd.TurnSubmit(session=session, text=text, open_files=("sub/a.txt",)))


def told(engine: Engine, session: str) -> str:
    """All that the model of a session was told."""
    live = engine._find_session(session)
    contents = [message.content for message in live.state.messages if isinstance(message, UserMessage)]
    return (live.directory.path / "prefix.json").read_text() + "".join(contents)


def stated(engine: Engine, session: str) -> str:
    return engine.state(session).trust_state


WRITE = calls(("write", {"file_path": "b.txt", "contents": "x"}))


async def test_i1_before_a_yes_nothing_of_the_project_is_heard_and_the_work_goes_on(project, trap):
    async with engine_of(project, WRITE, says("ok")) as (engine, session):
        assert stated(engine, session) == "asked"
        seen = await turn(engine, session)
        assert RULE not in told(engine, session)
        assert "git_status" not in told(engine, session)
        assert not any(isinstance(event, ev.RulesLoaded | ev.ApprovalRequested) for event in seen)
        assert list(engine.state(session).changes) == ["b.txt"]
    assert not trap.exists()


async def test_i1_a_broken_configuration_of_a_stranger_stops_nobody(project):
    (project / ".agent-tui" / "config.toml").write_text("[[[")
    async with engine_of(project, says("ok")) as (engine, session):
        assert (await turn(engine, session))[-1].reason == "done"
        reply = await engine.submit(cmd.TrustSet(session=session, trusted=True))
        assert isinstance(reply, cmd.Reject)
        assert "config.toml" in reply.message
        assert not TrustStore(project).has_trust()


async def test_i1_a_yes_before_the_first_prompt_gives_the_rules_their_place(project):
    async with engine_of(project, WRITE, says("ok")) as (engine, session):
        await engine._find_session(session).warm_up
        assert isinstance(await engine.submit(cmd.TrustSet(session=session, trusted=True)), cmd.Ack)
        assert stated(engine, session) == "trusted"
        await engine.submit(cmd.TurnSubmit(session=session, text="look at sub/a.txt", open_files=("sub/a.txt",)))
        async with contextlib.aclosing(engine.events(session)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.ApprovalRequested):
                    break
        assert told(engine, session).count(RULE) == 3
        await engine.submit(cmd.TurnInterrupt(session=session))
    async with engine_of(project, says("ok")) as (engine, session):
        assert stated(engine, session) == "trusted"


async def test_i1_a_yes_in_the_middle_brings_the_rules_with_the_next_prompt_once(project):
    async with engine_of(project, says("ok"), says("ok"), says("ok")) as (engine, session):
        await turn(engine, session)
        await engine.submit(cmd.TrustSet(session=session, trusted=True))
        await turn(engine, session)
        await turn(engine, session)
        assert told(engine, session).count(RULE) == 3


async def test_i1_a_no_is_not_kept_and_ends_the_question(project):
    async with engine_of(project, says("ok")) as (engine, session):
        await engine.submit(cmd.TrustSet(session=session, trusted=False))
        assert stated(engine, session) == "restricted"
        await turn(engine, session)
        assert RULE not in told(engine, session)
    async with engine_of(project) as (engine, session):
        assert stated(engine, session) == "asked"


async def test_an_empty_directory_is_not_asked_about(tmp_path):
    async with engine_of(tmp_path, says("ok")) as (engine, session):
        assert stated(engine, session) == "trusted"


async def test_i1_without_trust_a_command_that_nothing_holds_does_not_run(project, monkeypatch):
    from core.engine.shared.box import BoxSearchResult, SharedBox
    from core.sandbox.box import Tier

    async def none(_wanted):
        return BoxSearchResult(box=None, tier=Tier.NONE)

    models = access([calls(("run_terminal_cmd", {"command": "touch x"})), says("ok")])
    engine = Engine(project, options=EngineOptions(watch=False), models=models, boxes=SharedBox(none))
    session = (await engine.submit(cmd.SessionOpen())).session
    seen = await turn(engine, session)
    assert not any(isinstance(event, ev.ApprovalRequested) for event in seen)
    assert not (project / "x").exists()
    await engine.close()


async def test_i1_without_a_screen_it_works_and_says_what_it_did_not_hear(project, trap):
    write = Said(calls=[Call(name="write", arguments={"file_path": "b.txt", "contents": "x"})])
    look = Said(calls=[Call(name="run_terminal_cmd", arguments={"command": "cat sub/a.txt"})])
    config = {"AGENT_TUI_CONFIG_DIR": str(project.parent / "config")}
    (project.parent / "config").mkdir()
    (project.parent / "config" / "config.toml").write_text('[commands]\npolicy = "auto"\n')
    ended, requests = await ask(project, write, look, "ok", arguments=("--accept", "all"), env=config)
    assert (ended.code, ended.out) == (ExitCode.DONE, "ok\n")
    assert "not trusted, so not loaded: AGENTS.md, .cursor/rules, .agent-tui/config.toml, .git." in ended.err
    assert "--trust" in ended.err
    assert RULE not in str([request.json for request in requests])
    assert "one" in str(requests[-1].json)
    assert (project / "b.txt").read_text() == "x"
    assert not trap.exists()


OTHER = "Speak like a robot."
SPEAKING = ("AGENTS.md", "sub/AGENTS.md", ".cursor/rules/a.mdc")


def say(project: Path, path: str, text: str = OTHER) -> None:
    front = "---\nalwaysApply: true\n---\n" if path.endswith(".mdc") else ""
    (project / path).write_text(f"{front}{text}\n")


def changed(engine: Engine) -> tuple[str, ...]:
    stated = engine._source.services.trust.build_question()
    return () if stated is None else stated.changed


@pytest.mark.parametrize("path", SPEAKING)
async def test_n3_i1_words_that_were_changed_from_outside_are_not_heard_until_a_new_yes(project, path):
    trust(project)
    say(project, path)
    async with engine_of(project, says("ok"), says("ok"), says("ok")) as (engine, session):
        await turn(engine, session)
        assert stated(engine, session) == "asked"
        assert changed(engine) == (path,)
        assert OTHER not in told(engine, session)
        assert told(engine, session).count(RULE) == 2
        assert isinstance(await engine.submit(cmd.TrustSet(session=session, trusted=True)), cmd.Ack)
        assert stated(engine, session) == "trusted"
        await turn(engine, session)
        assert told(engine, session).count(OTHER) == 1
    async with engine_of(project, says("ok")) as (engine, session):
        assert stated(engine, session) == "trusted"
        await turn(engine, session)
        assert told(engine, session).count(OTHER) == 1


async def test_n3_settings_that_were_changed_from_outside_do_not_hold_until_a_new_yes(project):
    trust(project)
    (project / ".agent-tui" / "config.toml").write_text('[permissions]\ndeny = ["Write(**)"]\n')
    async with engine_of(project, says("ok")) as (engine, session):
        assert changed(engine) == (".agent-tui/config.toml",)
        assert engine._source.services.settings.permissions.deny == ()
        await engine.submit(cmd.TrustSet(session=session, trusted=True))
        assert list(engine._source.services.settings.permissions.deny) == ["Write(**)"]
    (project / ".agent-tui" / "config.toml").write_text("[[[")
    async with engine_of(project, says("ok")) as (engine, session):
        reply = await engine.submit(cmd.TrustSet(session=session, trusted=True))
        assert isinstance(reply, cmd.Reject)
        assert changed(engine) == (".agent-tui/config.toml",)


async def test_n3_a_no_to_what_was_changed_keeps_the_rest_and_asks_again_next_time(project):
    trust(project)
    say(project, "AGENTS.md")
    async with engine_of(project, says("ok"), says("ok")) as (engine, session):
        await engine.submit(cmd.TrustSet(session=session, trusted=False))
        assert stated(engine, session) == "trusted"
        await turn(engine, session)
        assert (OTHER in told(engine, session), told(engine, session).count(RULE)) == (False, 2)
        assert changed(engine) == ()
    assert TrustStore(project).has_trust()
    async with engine_of(project) as (engine, session):
        assert changed(engine) == ("AGENTS.md",)


async def test_n3_a_new_file_that_speaks_is_asked_about_and_one_that_went_is_not(project):
    trust(project)
    (project / ".cursor" / "rules" / "a.mdc").unlink()
    (project / "new").mkdir()
    say(project, "new/AGENTS.md")
    (project / "new" / "x.py").write_text("x\n")
    async with engine_of(project, says("ok")) as (engine, session):
        assert stated(engine, session) == "trusted"
        await engine.submit(cmd.TurnSubmit(session=session, text="look at @new/x.py", open_files=("sub/a.txt",)))
        async with contextlib.aclosing(engine.events(session)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.TrustStated) and envelope.event.changed:
                    break
        assert envelope.event.changed == ("new/AGENTS.md",)
        assert OTHER not in told(engine, session)


async def test_n3_what_the_user_accepted_in_the_review_is_not_asked_about(project):
    trust(project)
    edit = calls(
        ("write", {"file_path": ".cursor/rules/b.mdc", "contents": f"---\nalwaysApply: true\n---\n{OTHER}\n"}),
        ("read_file", {"target_file": "AGENTS.md"}),
        ("search_replace", {"file_path": "AGENTS.md", "old_string": "pirate", "new_string": "parrot"}),
    )
    (project / ".agent-tui" / "config.toml").unlink()
    async with engine_of(project, edit, says("ok")) as (engine, session):
        await turn(engine, session)
        for path in (".cursor/rules/b.mdc", "AGENTS.md"):
            command = cmd.HunkResolve(session=session, path=path, verdict="accept", confirmed=True)
            assert isinstance(await engine.submit(command), cmd.Ack)
        await engine.wait_idle(session)
        assert "parrot" in (project / "AGENTS.md").read_text()
    async with engine_of(project, says("ok")) as (engine, session):
        assert changed(engine) == ()
        await turn(engine, session)
        assert "parrot" in told(engine, session)
        assert OTHER in told(engine, session)


async def test_n3_accepting_a_change_does_not_make_unheard_words_around_it_heard(project):
    trust(project)
    say(project, "AGENTS.md", f"{OTHER}\n\n\n\nSpeak like a pirate.")
    edit = calls(
        ("read_file", {"target_file": "AGENTS.md"}),
        ("search_replace", {"file_path": "AGENTS.md", "old_string": "pirate", "new_string": "parrot"}),
    )
    (project / ".agent-tui" / "config.toml").unlink()
    async with engine_of(project, edit, says("ok")) as (engine, session):
        await turn(engine, session)
        await engine.submit(cmd.HunkResolve(session=session, path="AGENTS.md", verdict="accept", confirmed=True))
        await engine.wait_idle(session)
        assert "parrot" in (project / "AGENTS.md").read_text()
    async with engine_of(project, says("ok")) as (engine, session):
        assert changed(engine) == ("AGENTS.md",)


async def test_n3_going_back_to_words_that_were_trusted_once_asks_nothing(project):
    trust(project)
    say(project, "AGENTS.md")
    trust(project)
    say(project, "AGENTS.md", RULE)
    async with engine_of(project) as (engine, _):
        assert changed(engine) == ()


async def test_n3_without_a_screen_it_says_which_words_were_changed(project):
    trust(project)
    say(project, "AGENTS.md")
    (project / ".agent-tui" / "config.toml").unlink()
    ended, requests = await ask(project, "ok")
    assert (ended.code, ended.out) == (ExitCode.DONE, "ok\n")
    assert "Changed since you trusted this project, so not loaded: AGENTS.md." in ended.err
    assert OTHER not in str(requests[0].json)
    assert RULE in str(requests[0].json)
    ended, requests = await ask(project, "ok", arguments=("--trust",))
    assert OTHER in str(requests[0].json)


async def test_the_flag_trusts_for_one_run(project):
    ended, requests = await ask(project, "ok", arguments=("--trust",))
    assert (ended.code, ended.err) == (ExitCode.DONE, "")
    assert RULE in str(requests[0].json)
    assert not TrustStore(project).has_trust()
