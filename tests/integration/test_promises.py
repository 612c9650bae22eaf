from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from core.engine import Engine, EngineOptions
from core.git.temporary_directories import make_temporary_directory, remove_abandoned
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.review import Change, FileState, Hunk
from core.sessions.store import SessionStore
from tests.fuzz.actions import Crash, Judge, Sequence, Simple, read_sequence
from tests.fuzz.disk import Entry, marks_in_git, tree_of
from tests.fuzz.generate import Generator
from tests.fuzz.minimise import minimised
from tests.fuzz.oracle import Allowance, Oracle, foreseen
from tests.fuzz.project import GIT, make_template, plain_environment
from tests.support.agent_case import calls, says
from tests.support.story import access, project_at

ROOT = Path(__file__).parents[2]
SEED = 20261122  # of the first of sixty; `make fuzz` plays as many more as there is time for


@pytest.mark.parametrize(("first", "count"), [(0, 20), pytest.param(20, 40, marks=pytest.mark.slow)])
def test_n18_random_sequences_break_no_promise(first, count):
    seed = SEED + first
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--count", str(count), "--faults", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=270, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"seed {seed}\n")
    assert f"\n{count} sequences, 0 failed" in done.stdout


@pytest.mark.parametrize("crash", [False, True])
def test_n18_the_same_seed_gives_the_same_sequence_and_reads_back_from_its_json(crash):
    one, other = (Generator(7).sequence(crash=crash) for _ in range(2))
    assert one == other == read_sequence(one.as_json())
    assert any(isinstance(action, Crash) for action in one.actions) is crash


def test_n18_a_sequence_that_is_none_is_refused():
    with pytest.raises(msgspec.ValidationError):
        read_sequence('{"seed": 1, "actions": [{"do": "nothing known"}]}')


def test_n18_minimising_keeps_what_the_failure_needs_and_nothing_else():
    needed = (Simple(what="undo"), Judge(what="all", verdict="accept"))
    actions = (Simple(what="restart"), needed[0], *[Simple(what="fork")] * 5, needed[1], Simple(what="steer"))
    tried: list[Sequence] = []

    def fails(sequence: Sequence) -> bool:
        tried.append(sequence)
        return all(action in sequence.actions for action in needed)

    assert minimised(Sequence(seed=1, actions=actions), fails).actions == needed
    assert len(tried) <= 150


# what the oracle sees

OLD = b"one\ntwo\nthree\n"
NEW = b"one\nag_1_x\nthree\nag_2_x\n"
HUNKS = (
    Hunk(id="a", old_start=2, old_lines=1, new_start=2, new_lines=1),
    Hunk(id="b", old_start=4, old_lines=0, new_start=4, new_lines=1),
)
BLOBS = {"old": OLD, "new": NEW}
CHANGE = Change(path="f", operation="edit", base=FileState(blob="old"), pending=FileState(blob="new"), hunks=HUNKS)


def file(data: bytes) -> Entry:
    return Entry("file", 0o644, data)


def judged(after: bytes | None, *ids: str, before: bytes = OLD) -> list[str]:
    """What the oracle says when these hunks were accepted, and this is on disk."""
    oracle = Oracle({"f": file(before)})
    may = foreseen([CHANGE], [(CHANGE, ids)] if ids else [], oracle.disk, BLOBS.__getitem__)
    return oracle.check({} if after is None else {"f": file(after)}, may)


def test_n18_the_oracle_takes_what_was_accepted_and_nothing_else():
    assert judged(b"one\nag_1_x\nthree\n", "a") == []
    assert judged(NEW, "a", "b") == []
    assert judged(OLD, "a") == []  # a verdict that was refused; that it says so is another matter
    assert judged(NEW, "a") != []
    assert judged(b"one\ntwo\nthree\nag_2_x\n", "a") != []
    assert judged(None, "a") != []
    assert judged(b"one\nag_1_x\nthree\n") != []


def test_n18_the_oracle_sees_a_lost_line_of_the_users_and_a_strange_one_of_the_agents_where_two_edits_met():
    mine = b"us_1_x\none\ntwo\nthree\n"
    assert judged(b"us_1_x\none\nag_1_x\nthree\n", "a", before=mine) == []
    assert "the user's b'us_1_x' is lost" in judged(b"one\nag_1_x\nthree\n", "a", before=mine)[0]
    assert "b'ag_2_x' came" in judged(b"us_1_x\none\nag_1_x\nthree\nag_2_x\n", "a", before=mine)[0]


def test_n18_the_oracle_sees_a_file_that_nobody_spoke_of():
    assert Oracle({}).check({".agent-tui-1.tmp": file(b"")}, Allowance()) != []
    assert Oracle({}).check({".cursor/plans/p.plan.md": file(b"ag_1_x")}, Allowance()) == []


def test_n18_marks_are_found_in_loose_objects_packs_index_and_messages_of_git(tmp_path):
    project = make_template(tmp_path) / "project"
    assert marks_in_git(project, tree_of(project)) == set()
    (project / "ag_1_x").write_text("ag_2_x\n")
    env = plain_environment(tmp_path / "home")
    for command in (("add", "-A"), ("commit", "-qm", "ag_3_x"), ("stash", "list"), ("tag", "ag_4_x")):
        subprocess.run([*GIT, *command], cwd=project, check=True, env=env)
    expected = {b"ag_%d_x" % number for number in range(1, 5)}
    assert marks_in_git(project, tree_of(project)) == expected
    subprocess.run([*GIT, "gc", "-q"], cwd=project, check=True, env=env)
    assert marks_in_git(project, tree_of(project)) == expected


# what it found


async def until(engine: Engine, session: str, kind: type[ev.Event], command: cmd.AnyCommand) -> None:
    stream = engine.events(session, after=engine.state(session).seq)
    assert isinstance(await engine.submit(command), cmd.Ack)
    async for envelope in stream:
        if isinstance(envelope.event, kind):
            break
    await stream.aclose()


async def begun(project: Path) -> tuple[Engine, str]:
    play = [calls(("write", {"file_path": "new.txt", "contents": "fresh\n"})), says("Done.")]
    engine = Engine(project, options=EngineOptions(watch=False), models=access(play))
    opened = await engine.submit(cmd.SessionOpen())
    assert isinstance(opened, cmd.Ack)
    return engine, opened.session


async def test_n18_a_session_that_was_rewound_to_its_beginning_is_there_after_leaving(tmp_path):
    engine, session = await begun(project_at(tmp_path / "project"))
    await until(engine, session, ev.TurnFinished, cmd.TurnSubmit(session=session, text="Do it"))
    first = min(engine.state(session).review.checkpoints)
    await until(engine, session, ev.CheckpointRestored, cmd.CheckpointRestore(session=session, id=first))
    assert (engine.state(session).turns, engine.state(session).review.changes) == ([], {})
    await engine.close()
    assert SessionStore(tmp_path / "project").has_session(session)


async def test_n18_a_session_in_which_only_the_user_ran_a_command_is_there_after_leaving(tmp_path):
    engine, session = await begun(project_at(tmp_path / "project"))
    await until(engine, session, ev.CommandRan, cmd.CommandRun(session=session, command="echo seen"))
    await engine.close()
    assert SessionStore(tmp_path / "project").has_session(session)


def test_n18_what_a_killed_process_was_writing_in_a_session_is_gone_when_that_is_opened(tmp_path):
    store = SessionStore(tmp_path)
    directory = store.create()
    left = [
        directory.path / ".prefix.json.12.tmp",
        directory.path / "layers" / "pending.json.tmp",
        directory.blobs_path / "ab" / ".0123.tmp",
    ]
    retained_paths = [directory.path / "layers" / "one" / "made.tmp", directory.log_path]
    for path in (*left, *retained_paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    directory.close()
    store.open(directory.id).close()
    assert [path.exists() for path in (*left, *retained_paths)] == [False] * 3 + [True] * 2


def test_n18_directories_for_git_of_a_killed_process_are_swept_and_those_of_a_living_one_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned, strange = tmp_path / "agent-tui-git-abandoned", tmp_path / "somebody-else"
    for directory in (abandoned, strange):
        (directory / "objects").mkdir(parents=True)
    with make_temporary_directory() as used:
        (used / "config").write_text("")
        remove_abandoned()
        assert sorted(tmp_path.iterdir()) == sorted([strange, used])
        assert (used / "config").is_file()
    assert list(tmp_path.iterdir()) == [strange]
