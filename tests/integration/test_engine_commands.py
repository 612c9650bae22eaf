"""What the engine does with commands that have no provider in the centre: bulk verdicts, warming up, small models."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import Usage
from core.protocol.review import Origin
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.configured import configured
from tests.support.default_model import access_to
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import MODEL, access, project_at
from tests.support.trust import trust

BIG = ("read_file", {"target_file": "a.txt"})
FULL = Usage(prompt_tokens=80_000, completion_tokens=10)


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


async def test_accepting_everything_leaves_what_is_protected_or_in_conflict_and_says_so(project):
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}
    steps = calls(
        ("search_replace", edit),
        ("write", {"file_path": "new.txt", "contents": "new\n"}),
        ("write", {"file_path": "AGENTS.md", "contents": "Obey.\n"}),
    )
    async with session_in(project, access([steps, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        (project / "a.txt").write_text("one\nmine\nthree\n")
        before = engine.state(session).seq
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        seen = await read_until(engine, session, ev.Notice, after=before)
        assert seen[-1].message.startswith(
            "2 files were left pending: AGENTS.md (protected), a.txt (the file was edited in the"
        )
        assert not any(isinstance(event, ev.ErrorRaised) for event in seen)
        assert (project / "a.txt").read_text() == "one\nmine\nthree\n"
        assert (project / "new.txt").read_text() == "new\n"
        assert not (project / "AGENTS.md").exists()
        assert sorted(engine.state(session).changes) == ["AGENTS.md", "a.txt"]


@pytest.mark.parametrize("verdict", ["accept", "reject"])
@pytest.mark.parametrize("named", [{}, {"paths": ("AGENTS.md", "new.txt")}, {"origin": Origin()}])
async def test_a_verdict_on_several_files_names_each_protected_one_that_it_leaves(project, verdict, named):
    steps = calls(
        ("write", {"file_path": "new.txt", "contents": "new\n"}),
        ("write", {"file_path": "AGENTS.md", "contents": "Obey.\n"}),
    )
    async with session_in(project, access([steps, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        if "origin" in named:
            named = {"origin": engine.state(session).changes["AGENTS.md"].origin}
        before = engine.state(session).seq
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict=verdict, **named))
        seen = await read_until(engine, session, ev.Notice, after=before)
        assert seen[-1].message == "1 file was left pending: AGENTS.md (protected)."
        assert "AGENTS.md" in engine.state(session).changes


async def test_a_change_that_is_in_conflict_no_more_is_accepted_with_the_rest(project):
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}
    async with session_in(project, access([calls(("search_replace", edit)), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        (project / "a.txt").write_text("one\nmine\nthree\n")
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        assert engine.state(session).changes["a.txt"].conflict
        (project / "a.txt").write_text("one\ntwo\nthree\n")
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"


async def test_rules_and_prefix_are_ready_before_the_first_prompt(project):
    trust(project)
    (project / "AGENTS.md").write_text("Write tests first.\n")
    async with session_in(project, access([says("Done.")])) as (engine, session):
        seen = await read_until(engine, session, ev.RulesLoaded)
        assert [rule.path for rule in seen[-1].rules] == ["AGENTS.md"]
        live = engine._find_session(session)
        await live.warm_up
        assert (live.directory.path / "prefix.json").is_file()
        assert live.context is not None
        first_setup = live.context.memory.setup.result()
        seen = await run_turn(engine, session)
        assert not any(isinstance(event, ev.RulesLoaded) for event in seen)
        assert live.context.memory.setup.result() is first_setup


async def test_a_session_that_was_only_warmed_leaves_nothing_behind(project):
    async with session_in(project, access([])) as (engine, session):
        directory = engine._find_session(session).directory.path
    assert not directory.exists()


async def test_the_small_model_writes_the_notes_of_a_compaction(project):
    configured('small_model = "directed/small"\n[context]\ncompactor = "small"\n')
    models = {
        MODEL: DirectedModel([calls(BIG), calls(BIG), says("One.", usage=FULL)]),
        "directed/small": DirectedModel([]),
    }
    models["directed/small"].steps.append(says("Notes: read a.txt."))
    doors = access_to(lambda name, _settings: (models[name], name.partition("/")[2]), MODEL)
    (project / "a.txt").write_text("a long line of text\n" * 20_000)
    async with session_in(project, doors) as (engine, session):
        await run_turn(engine, session)
        assert models["directed/small"].requests == []
        before = engine.state(session).seq
        await submit(engine, cmd.ContextCompact(session=session))
        seen = await read_until(engine, session, ev.ContextCompacted, after=before)
        assert any("Notes: read a.txt." in message.content for message in seen[-1].messages)
        assert [request.model for request in models["directed/small"].requests] == ["small"]
        assert engine.state(session).title == "Do it"


async def test_a_small_model_that_can_not_be_used_is_done_without_and_said(project):
    configured('small_model = "nobody/small"\n')

    def resolve(name, _settings):
        if name != MODEL:
            raise ConfigError(f"there is no provider {name!r}.", hint="Choose another.")
        return DirectedModel([says("Done.")]), "story"

    doors = access_to(resolve, MODEL, cost=None, window=0)
    async with session_in(project, doors) as (engine, session):
        assert (await run_turn(engine, session))[-1].reason == "done"
        notices = [
            notice for notice in await read_until(engine, session, ev.TurnFinished) if isinstance(notice, ev.Notice)
        ]
        prefix = "The small model nobody/small can't be used: there is no provider"
        assert any(notice.message.startswith(prefix) for notice in notices)
