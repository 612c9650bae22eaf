"""The review through the engine: cut, edit, comment, settle, judge by origin, confirm what acts by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.renames import find_renames
from core.protocol.review import Change, ConflictChoice, Origin
from tests.support.agent_case import calls, says
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import access, project_at
from tests.unit.shadow.command_layer import Layer

NEW = "".join(f"line {number}\n" for number in range(6))


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def writes(*paths: str, text: str = NEW) -> list[object]:
    return calls(*(("write", {"file_path": path, "contents": text}) for path in paths))


def change_of(engine: Engine, session: str, path: str) -> Change:
    return engine.state(session).changes[path]


async def refused(engine: Engine, command: cmd.AnyCommand) -> cmd.Reject:
    reply = await engine.submit(command)
    assert isinstance(reply, cmd.Reject)
    return reply


async def test_a_hunk_is_split_and_edited_and_the_model_is_told(project):
    models = access([writes("new.txt"), says("Done."), says("Seen.")])
    async with session_in(project, models) as (engine, session):
        await run_turn(engine, session)
        hunk = change_of(engine, session, "new.txt").hunks[0].id
        await submit(engine, cmd.HunkSplit(session=session, path="new.txt", hunk=hunk))
        first, second = change_of(engine, session, "new.txt").hunks
        text = await engine.query(q.HunkQuery(session=session, path="new.txt", hunk=second.id))
        assert isinstance(text, q.HunkAnswer)
        assert (text.text, text.start) == ("line 3\nline 4\nline 5\n", 4)
        edit = cmd.HunkEdit(session=session, path="new.txt", hunk=second.id, text="mine\n")
        await submit(engine, edit)
        accept = cmd.HunkResolve(session=session, path="new.txt", verdict="accept")
        await submit(engine, accept)
        assert (project / "new.txt").read_text() == "line 0\nline 1\nline 2\nmine\n"
        assert (await refused(engine, edit)).code == "change_unknown"
        seen = await run_turn(engine, session, "Go on")
        contents = [event.message.content for event in seen if isinstance(event, ev.MessageAppended)]
        assert any("+mine" in str(content) and "edited" in str(content) for content in contents)
        assert engine.state(session).edited_hunks == {}
    assert first.new_lines == 3


async def test_a_part_that_falls_into_no_others_is_joined_with_them_and_so_is_any_part_on_request(project):
    text = "a = 1\n\nb = f(\n    2,\n)\n"
    async with session_in(project, access([writes("new.py", text=text), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        (whole,) = change_of(engine, session, "new.py").hunks
        for join in (cmd.HunkSplit, cmd.HunkJoin):
            await submit(engine, cmd.HunkSplit(session=session, path="new.py", hunk=whole.id))
            first, second = change_of(engine, session, "new.py").hunks
            assert (first.new_lines, second.new_lines) == (2, 3)
            assert engine.state(session).review.last_split == ("new.py", first.id)
            await submit(engine, join(session=session, path="new.py", hunk=second.id))
            assert change_of(engine, session, "new.py").hunks == (whole,)
        reply = await refused(engine, cmd.HunkJoin(session=session, path="new.py", hunk=whole.id))
        assert reply.code == "not_joinable"
        assert engine.state(session).review.last_split is None


async def test_a_hunk_that_cannot_be_split_is_refused_at_once_and_nothing_of_it_is_in_the_conversation(project):
    async with session_in(project, access([writes("new.txt", text="one line\n"), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        before = engine.state(session).seq
        hunk = change_of(engine, session, "new.txt").hunks[0].id
        reply = await refused(engine, cmd.HunkSplit(session=session, path="new.txt", hunk=hunk))
        assert reply.code == "not_divisible"
        assert engine.state(session).seq == before


async def test_comments_wait_and_go_back_as_one_message(project):
    models = access([writes("new.txt", "other.txt"), says("Done."), says("I see.")])
    async with session_in(project, models) as (engine, session):
        await run_turn(engine, session)
        for path in ("other.txt", "new.txt"):
            hunk = change_of(engine, session, path).hunks[0].id
            say = cmd.HunkComment(session=session, path=path, hunk=hunk, text=f"Why {path}?")
            await submit(engine, say)
        assert len(engine.state(session).review.comments) == 2
        before = engine.state(session).seq
        await submit(engine, cmd.CommentsSend(session=session, note="Look."))
        seen = await read_until(engine, session, ev.TurnFinished, after=before)
        (prompt,) = [event.prompt for event in seen if isinstance(event, ev.TurnStarted)]
        assert prompt.startswith("Look.\n\nMy comments")
        assert prompt.index("1. `new.txt`, lines 1-6:\n```diff\n+line 0") < prompt.index("2. `other.txt`")
        assert prompt.endswith("Why other.txt?")
        assert engine.state(session).review.comments == {}
        assert (await refused(engine, cmd.CommentsSend(session=session))).code == "no_comment"


async def test_a_comment_goes_with_its_hunk_when_that_is_accepted_and_comes_back_with_it(project):
    models = access([writes("new.txt", "other.txt"), says("Done.")])
    async with session_in(project, models) as (engine, session):
        await run_turn(engine, session)
        review = engine.state(session).review
        for path in ("new.txt", "other.txt"):
            hunk = change_of(engine, session, path).hunks[0].id
            await submit(engine, cmd.HunkComment(session=session, path=path, hunk=hunk, text=f"Why {path}?"))
        await submit(engine, cmd.HunkResolve(session=session, path="new.txt", verdict="accept"))
        await submit(engine, cmd.HunkResolve(session=session, path="other.txt", verdict="reject"))
        assert [comment.path for comment in review.comments.values()] == ["other.txt"]
        for _ in range(2):
            await submit(engine, cmd.VerdictUndo(session=session))
        assert {comment.path for comment in review.comments.values()} == {"new.txt", "other.txt"}
        hunks = {(path, change_of(engine, session, path).hunks[0].id) for path in ("new.txt", "other.txt")}
        assert set(review.comments) == hunks


async def test_s4_a_protected_change_is_accepted_only_when_that_is_confirmed(project):
    async with session_in(project, access([writes("AGENTS.md", "conftest.py"), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        accept = cmd.HunkResolve(session=session, path="AGENTS.md", verdict="accept")
        no = await refused(engine, accept)
        assert no.code == "confirmation_needed"
        assert no.message == "AGENTS.md changes what the agent may do or is told."
        assert not (project / "AGENTS.md").exists()
        confirmed = cmd.HunkResolve(session=session, path="AGENTS.md", verdict="accept", confirmed=True)
        await submit(engine, confirmed)
        assert (project / "AGENTS.md").read_text() == NEW
        await submit(engine, cmd.HunkResolve(session=session, path="conftest.py", verdict="accept"))
        assert (project / "conftest.py").read_text() == NEW


async def test_everything_of_one_call_or_turn_is_judged_at_once(project):
    models = access([writes("a1", "a2"), says("Done."), writes("b1", "AGENTS.md"), says("Done.")])
    async with session_in(project, models) as (engine, session):
        await run_turn(engine, session)
        await run_turn(engine, session)
        origins = {path: change.origin for path, change in engine.state(session).changes.items()}
        await submit(
            engine,
            cmd.HunkResolve(session=session, path="", verdict="accept", origin=Origin(call=origins["a2"].call)),
        )
        assert sorted(engine.state(session).changes) == ["AGENTS.md", "a1", "b1"]
        await submit(
            engine,
            cmd.HunkResolve(session=session, path="", verdict="reject", origin=Origin(turn=origins["b1"].turn)),
        )
        assert sorted(engine.state(session).changes) == ["AGENTS.md", "a1"]
        nobody = cmd.HunkResolve(session=session, path="", verdict="accept", origin=Origin(command="rm"))
        assert (await refused(engine, nobody)).code == "change_unknown"
        assert ((project / "a2").exists(), (project / "a1").exists()) == (True, False)


async def test_p18_several_files_are_judged_together_and_what_can_not_be_written_is_left(project):
    paths = ("d1/a", "d1/b", "d2/c", "AGENTS.md")
    async with session_in(project, access([writes(*paths), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        (project / "d2").write_text("a file in the way\n")
        some = cmd.HunkResolve(session=session, path="", paths=("d1/b", "d2/c", "AGENTS.md"), verdict="accept")
        await submit(engine, some)
        assert sorted(engine.state(session).changes) == ["AGENTS.md", "d1/a", "d2/c"]
        assert (project / "d1/b").read_text() == NEW
        none = cmd.HunkResolve(session=session, path="", paths=("d1/b",), verdict="reject")
        assert (await refused(engine, none)).message == "nothing of these files is pending."


async def test_p14_a_conflict_is_shown_as_three_sides_and_settled(project):
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}
    async with session_in(project, access([calls(("search_replace", edit)), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        (project / "a.txt").write_text("one\nmine\nthree\n")
        accept = cmd.HunkResolve(session=session, path="a.txt", verdict="accept")
        await submit(engine, accept)
        problem = (await read_until(engine, session, ev.ErrorRaised))[-1]
        assert (problem.code, problem.path) == ("review_conflict", "a.txt")
        answer = await engine.query(q.ConflictQuery(session=session, path="a.txt"))
        assert isinstance(answer, q.ConflictAnswer)
        assert [(clash.mine, clash.theirs) for clash in answer.sides.clashes] == [(("mine",), ("TWO",))]
        settle = cmd.ConflictResolve(
            session=session, path="a.txt", choices=(ConflictChoice(take="both"),), mine=answer.sides.mine.blob
        )
        await submit(engine, settle)
        assert (await engine.query(q.ConflictQuery(session=session, path="a.txt"))).sides is None
        await submit(engine, accept)
        assert (project / "a.txt").read_text() == "one\nmine\nTWO\nthree\n"
        assert (await refused(engine, settle)).code == "no_conflict"


@pytest.mark.parametrize("verdict", ["accept", "reject"])
@pytest.mark.parametrize("said", [{"path": "new.txt"}, {"path": "old.txt"}, {"path": ""}])
async def test_n16a_a_rename_has_one_verdict_that_is_given_and_taken_back_whole(project, said, verdict):
    (project / "old.txt").write_text(NEW)
    before = {"a.txt", "old.txt"}
    async with session_in(project, access([])) as (engine, session):
        layer = Layer(engine._find_session(session))
        layer.delete("old.txt")
        layer.put("new.txt", NEW.encode())
        layer.absorb()
        state = engine.state(session)
        assert find_renames(state.changes) == {"new.txt": "old.txt"}
        await submit(engine, cmd.HunkResolve(session=session, verdict=verdict, **said))
        assert not state.changes
        after = {"a.txt", "new.txt"} if verdict == "accept" else before
        assert {path.name for path in project.iterdir()} == after
        await submit(engine, cmd.VerdictUndo(session=session))
        assert {path.name for path in project.iterdir()} == before
        assert (find_renames(state.changes), state.review.verdicts) == ({"new.txt": "old.txt"}, [])
        (project / "old.txt").write_text("mine\n")
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        assert {path.name: path.read_text() for path in project.iterdir() if path.name != "a.txt"} == {
            "old.txt": "mine\n"
        }
        assert sorted(state.changes) == ["new.txt", "old.txt"]


async def test_what_is_not_there_is_refused_with_what_is_wrong(project):
    async with session_in(project, access([writes("new.txt"), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        for command in (
            cmd.HunkSplit(session=session, path="new.txt", hunk="gone"),
            cmd.HunkJoin(session=session, path="new.txt", hunk="gone"),
            cmd.HunkEdit(session=session, path="new.txt", hunk="gone", text=""),
            cmd.HunkComment(session=session, path="new.txt", hunk="gone", text="x"),
        ):
            assert (await refused(engine, command)).code == "hunk_unknown"
        rejection = await refused(engine, cmd.BulkResolve(session=session, root="node_modules", verdict="accept"))
        assert rejection.code == "bulk_unknown"
        answer = await engine.query(q.HunkQuery(session=session, path="new.txt", hunk="gone"))
        assert isinstance(answer, q.RefusedAnswer)


async def test_n16e_accepting_everything_takes_the_clean_hunks_of_a_file_in_conflict_and_leaves_the_clash(project):
    lines = [f"line {number}\n" for number in range(1, 41)]
    (project / "a.txt").write_text("".join(lines))
    edits = [
        ("search_replace", {"file_path": "a.txt", "old_string": f"line {number}\n", "new_string": f"new {number}\n"})
        for number in (5, 15, 25, 35)
    ]
    async with session_in(project, access([calls(*edits), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        lines[14] = "mine\n"
        (project / "a.txt").write_text("".join(lines))
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        left = change_of(engine, session, "a.txt")
        assert (len(left.hunks), left.clean_hunks) == (1, ())
        for number in (5, 25, 35):
            lines[number - 1] = f"new {number}\n"
        assert (project / "a.txt").read_text() == "".join(lines)
        assert left.conflict
