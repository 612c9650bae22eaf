"""Plans through the engine: going back takes a plan back that the session wrote, and none that its user changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.config.loading import load_with_notices
from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import Plan
from tests.support.agent_case import Step, calls, says
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import TODOS, access, project_at
from tests.support.trust import trust

PLANNED = calls(("create_plan", {"name": "A plan", "overview": "Two steps", "plan": "# Do it", "todos": TODOS}))
CHANGED = calls(("update_plan", {"plan": "# Do it well"}))


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "src" / "project")


@pytest.fixture(params=["", "docs/plans", "~/plans"])
def place(request, tmp_path, project) -> Path:
    """The directory of plans, as the user's configuration names it; the usual one without a word."""
    if not request.param:
        return project / ".cursor" / "plans"
    return project / set_place(request.param)


def set_place(directory: str) -> Path:
    config = Path("~/.config/agent-tui/config.toml").expanduser()
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[plans]\ndirectory = "{directory}"\n')
    return Path(directory).expanduser()


def planning(project: Path, *steps: Step, resume: str = ""):
    opening = cmd.SessionResume(session=resume) if resume else cmd.SessionOpen(mode="plan")
    return session_in(project, access(steps), opening)


def files(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in place.iterdir()} if place.is_dir() else {}


async def listed(engine: Engine, session: str) -> list[q.CheckpointInfo]:
    answer = await engine.query(q.CheckpointsQuery(session=session))
    assert isinstance(answer, q.CheckpointsAnswer)
    return list(answer.checkpoints)


async def go_back(engine: Engine, session: str, name: str, what: str = "both") -> list[ev.AnyEvent]:
    before = engine.state(session).seq
    await submit(engine, cmd.CheckpointRestore(session=session, id=name, what=what))
    return await read_until(engine, session, ev.CheckpointRestored, after=before)


def plan_at_hand(engine: Engine, session: str) -> Plan:
    state = engine.state(session)
    return state.plans[state.current_plan_path]


async def test_going_back_removes_a_plan_that_only_the_session_made_and_forth_brings_it_back(project, place):
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        written = files(place)
        assert len(written) == 1
        [mark] = await listed(engine, session)
        assert mark.files == 1
        preview = await engine.query(q.CheckpointPreviewQuery(session=session, id=mark.id))
        assert isinstance(preview, q.CheckpointPreviewAnswer)
        [row] = preview.paths
        assert (Path(row.path).name, row.disk, row.reason) == (next(iter(written)), "delete", "")
        await go_back(engine, session, mark.id)
        state = engine.state(session)
        assert files(place) == {}
        assert (state.plans, state.current_plan_path, state.todos, state.todos_plan_path) == ({}, "", (), "")
        await go_back(engine, session, (await listed(engine, session))[-1].id)
        assert files(place) == written
        assert plan_at_hand(engine, session).name == "A plan"
        assert [todo.id for todo in state.todos] == ["a", "b"]


async def test_going_back_with_the_files_alone_leaves_no_todos_of_a_plan_that_is_gone(project, place):
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        await go_back(engine, session, (await listed(engine, session))[0].id, "files")
        state = engine.state(session)
        assert (files(place), state.plans, state.todos, state.todos_plan_path) == ({}, {}, (), "")


async def test_going_back_with_the_conversation_alone_leaves_the_file(project, place):
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        written = files(place)
        await submit(
            engine,
            cmd.CheckpointRestore(session=session, id=(await listed(engine, session))[0].id, what="conversation"),
        )
        assert files(place) == written


@pytest.mark.parametrize("later", [False, True])
async def test_a_plan_that_its_user_edited_stays_and_is_named(project, place, later):
    # later: the session wrote to the file once more, with the edit in it
    async with planning(project, PLANNED, says("Planned."), CHANGED, says("Better.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        [file] = place.iterdir()
        file.write_text(file.read_text().replace("Two steps", "Two steps of mine"))
        if later:
            await run_turn(engine, session, "Better")
        events = await go_back(engine, session, (await listed(engine, session))[0].id)
        [left] = events[-1].left
        assert (Path(left.path).name, "stays as it is" in left.reason) == (file.name, True)
        assert "Two steps of mine" in file.read_text()
        assert ("# Do it well" in file.read_text()) is later


async def test_going_back_over_a_change_of_a_plan_restores_what_it_was(project, place):
    async with planning(project, PLANNED, says("Planned."), CHANGED, says("Better.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        written = files(place)
        await run_turn(engine, session, "Better")
        better = files(place)
        assert better != written
        await go_back(engine, session, (await listed(engine, session))[1].id)
        assert files(place) == written
        assert plan_at_hand(engine, session).body == "# Do it"
        await go_back(engine, session, (await listed(engine, session))[-1].id)
        assert files(place) == better
        assert plan_at_hand(engine, session).body == "# Do it well"


async def test_a_change_of_a_plan_that_its_user_changed_further_is_not_taken_back(project, place):
    async with planning(project, PLANNED, says("Planned."), CHANGED, says("Better.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        await run_turn(engine, session, "Better")
        [file] = place.iterdir()
        file.write_text(file.read_text().replace("well", "very well"))
        events = await go_back(engine, session, (await listed(engine, session))[1].id)
        assert len(events[-1].left) == 1
        assert "# Do it very well" in file.read_text()


async def test_a_plan_that_its_user_removed_stays_away(project, place):
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        [file] = place.iterdir()
        file.unlink()
        events = await go_back(engine, session, (await listed(engine, session))[0].id)
        assert events[-1].left == ()
        assert files(place) == {}


async def test_a_restart_between_changes_nothing_of_that(project, place):
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        written = files(place)
    async with planning(project, resume=session) as (engine, session):
        assert plan_at_hand(engine, session).name == "A plan"
        answer = await engine.query(q.PlanFilesQuery(session=session))
        assert [Path(path).name for path in answer.paths] == list(written)
        await go_back(engine, session, (await listed(engine, session))[0].id)
        assert files(place) == {}


async def test_a_plan_is_mentioned_and_built_wherever_it_is(project, place):
    ticks = calls(("todo_write", {"merge": True, "todos": [{"id": "a", "status": "completed"}]}))
    async with planning(project, PLANNED, says("Planned."), says("Yes."), ticks, says("Done.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        [file] = place.iterdir()
        prompt = await engine.query(q.PromptContextQuery(session=session, text="What of @plan:a-plan?"))
        assert isinstance(prompt, q.PromptContextAnswer)
        assert (prompt.problems, [context_item.label[:7] for context_item in prompt.items]) == ((), ["@plan ·"])
        await run_turn(engine, session, "What of @plan:a-plan?")
        assert "overview: Two steps" in str(engine.state(session).messages)
        await run_turn(engine, session, cmd.PlanBuild(session=session, path=engine.state(session).current_plan_path))
        assert "status: completed" in file.read_text()


@pytest.mark.parametrize(
    ("directory", "expected"), [("docs/plans", "docs/plans"), ("~/plans", ""), ("../plans", ""), ("/tmp/plans", "")]
)
async def test_a_project_names_a_place_in_it_only(project, directory, expected):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui/config.toml").write_text(f'[plans]\ndirectory = "{directory}"\n')
    trust(project)
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        ignored = "`plans.directory` was ignored: a project can set it only to a path inside it"
        assert any(ignored in notice for notice in load_with_notices(project).notices) is not bool(expected)
        await run_turn(engine, session, "Plan it")
        assert len(files(project / (expected or ".cursor/plans"))) == 1


async def test_a_place_that_holds_no_plans_is_said_to_the_agent_and_nothing_is_written(project):
    set_place(".git/plans")
    async with planning(project, PLANNED, says("I can't.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        assert "a directory of git's own state" in str(engine.state(session).messages)
        assert not (project / ".git/plans").exists()


async def test_the_users_own_place_is_not_moved_by_a_project(tmp_path, project):
    place = set_place("~/plans")
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui/config.toml").write_text('[plans]\ndirectory = "docs/plans"\n')
    trust(project)
    async with planning(project, PLANNED, says("Planned.")) as (engine, session):
        await run_turn(engine, session, "Plan it")
        assert len(files(place)) == 1
        assert not (project / "docs").exists()
