"""A commit that is killed leaves branch, index and files as before or as after, and meanwhile git stages nothing."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import psutil
import pytest
from msgspec import Struct
from msgspec.structs import replace

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sessions.log import read_envelopes
from core.sessions.store import SessionStore
from tests.support.agent_case import says
from tests.support.commits import accept_all, add_hook, commit, edited, git, make_repository, preview, writes
from tests.support.open_session import session_in
from tests.support.story import access
from tests.support.trust import trust

HOST = Path(__file__).parents[1] / "support" / "commit_host.py"
KILLS = int(os.environ.get("AGENT_TUI_KILLS", "4"))


class Place(Struct):
    """A project with accepted hunks, and a copy of it with its state, to begin from again."""

    root: Path
    session: str
    copy: Path

    @property
    def directory(self) -> Path:
        return SessionStore(self.root).sessions_path / self.session

    @property
    def parts(self) -> list[Path]:
        return [self.root, SessionStore(self.root).home]

    def save(self) -> None:
        for part in self.parts:
            shutil.copytree(part, self.copy / part.name, symlinks=True)

    def restore(self) -> None:
        for part in self.parts:
            shutil.rmtree(part)
            shutil.copytree(self.copy / part.name, part, symlinks=True)
        trust(self.root)  # it is another directory now

    def look(self) -> tuple[str, str]:
        """What git knows of the branch and the index, and the files."""
        files = {path.name: path.read_bytes() for path in self.root.iterdir() if path.is_file()}
        return git(self.root, "ls-files", "--stage"), repr(sorted(files.items()))

    @property
    def commits(self) -> list[str]:
        return git(self.root, "log", "--format=%H").split()[:-1]

    @property
    def left(self) -> set[str]:
        """What of a commit still lies about: names in git's directory (but its own locks of branches), and our note."""
        names = {path.name for path in (self.root / ".git").iterdir()}
        return {name for name in names if name == "index.lock" or "agent-tui" in name} | (
            {"commit.json"} & {path.name for path in self.directory.iterdir()}
        )

    def read_made(self) -> list[str]:
        envelopes = read_envelopes(self.directory / "log.jsonl")
        return [envelope.event.id for envelope in envelopes if isinstance(envelope.event, ev.CommitMade)]


@pytest.fixture
async def place(tmp_path, monkeypatch) -> Place:
    """Two prompts' edits of one file were accepted, and the user has lines of that file and a new file staged."""
    root = make_repository(tmp_path, monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (root / "a.txt").write_text(edited(10))
    (root / "staged.txt").write_text("staged\n")
    git(root, "add", "a.txt", "staged.txt")
    turns = [writes("a.txt", edited(2, 10)), says("Done."), writes("a.txt", edited(2, 10, 20)), says("Done.")]
    async with session_in(root, access(turns)) as (engine, session):
        await accept_all(engine, session, "Renew line two.")
        await accept_all(engine, session, "Renew line twenty.")
    setup = Place(root, session, tmp_path / "copy")
    setup.save()
    return setup


@contextlib.contextmanager
def host_of(place: Place, split: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, str(HOST), str(place.root), place.session, split]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        try:
            yield host
        finally:
            kill_all(place, host.pid)


def kill_all(place: Place, pid: int) -> None:
    """End a process and all that it started, as a machine does that goes down: nobody gets to do anything more."""
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        top.suspend()
        while family := [child for child in top.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]:
            for child in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        top.kill()
    while orphans := list_processes(place):  # their parents ended before they were listed
        for orphan in orphans:
            with contextlib.suppress(psutil.NoSuchProcess):
                orphan.kill()
        psutil.wait_procs(orphans)


def wait_for_git(place: Place) -> None:
    """Wait until no git works on a commit, or is about to: one may start another until the last has ended."""
    while processes := list_processes(place):
        psutil.wait_procs(processes)


def list_processes(place: Place) -> list[psutil.Process]:
    """Return what runs for the project: the host, its forks that are no program of their own yet, and each git."""
    return [process for process in psutil.process_iter() if is_of(process, place)]


def is_of(process: psutil.Process, place: Place) -> bool:
    directory = str(place.root.parent)
    with contextlib.suppress(psutil.Error):
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return any(directory in text for text in (*process.cmdline(), *process.environ().values()))
    return False


async def start_again(place: Place) -> list[str]:
    """Open another session and then the one that was killed; return what was said of it."""
    async with session_in(place.root, access()) as (engine, other):
        log = SessionStore(place.root).sessions_path / other / "log.jsonl"
        messages = [e.event.message for e in read_envelopes(log)
                if isinstance(e.event, ev.Notice)]  # fmt: skip
        await engine.close()
    async with session_in(place.root, access(), cmd.SessionResume(session=place.session)) as (engine, session):
        assert engine.state(session).turns
    return messages


async def test_n41_a_commit_killed_at_any_moment_is_before_or_after_once_the_program_starts_again(place):
    after, duration = await measure(place)
    chance, seen = random.Random(41), set[int]()
    for part in range(KILLS):
        place.restore()
        with host_of(place, "prompt") as host:
            with contextlib.suppress(subprocess.TimeoutExpired):
                host.wait(timeout=duration * 1.1 * (part + chance.random()) / KILLS)
            if part % 2:
                host.kill()
                wait_for_git(place)
        await check_ends(place, after)
        seen.add(len(place.commits))
    assert len(seen) > 1


async def measure(place: Place) -> tuple[dict[int, tuple[str, str]], float]:
    """What is seen after none, one and both of two commits, and how long both take in seconds."""
    after = {0: place.look()}
    with host_of(place, "prompt") as host:
        begun = monotonic()
        assert host.stdout is not None
        assert host.stdout.read() == b"CommitMade CommitMade\n"
        duration = monotonic() - begun
    after[2] = place.look()
    assert not place.left
    place.restore()
    async with session_in(place.root, access(), cmd.SessionResume(session=place.session)) as (engine, session):
        answer = await preview(engine, session, "prompt")
        await commit(engine, session, replace(answer, groups=answer.groups[:1]))
    after[1] = place.look()
    assert len(set(after.values())) == 3
    return after, duration


async def check_ends(place: Place, after: dict[int, tuple[str, str]]) -> None:
    count = len(place.commits)
    assert place.look() == after[count] or "index.lock" in place.left  # then git stages nothing over it
    await start_again(place)
    assert len(place.commits) == count
    assert place.look() == after[count]
    assert place.read_made() == place.commits[::-1]
    assert not place.left


@pytest.mark.parametrize("phase", ["pre-commit", "prepared", "committed", "post-commit"])
@pytest.mark.parametrize("dies", ["engine", "git", "all"])
async def test_n41_a_commit_killed_while_git_runs_its_hooks_comes_to_one_of_two_ends(place, phase, dies):
    after, _ = await measure(place)
    place.restore()
    name = "reference-transaction" if phase in {"prepared", "committed"} else phase
    state = f'[ "$1" = {phase} ] && grep -q refs/heads/main && ' if name != phase else ""
    victims = {"engine": "$ENGINE", "git": "$PPID", "all": "$ENGINE $SHELL_PID $PPID"}[dies]
    pids = "GIT=$PPID; SHELL_PID=$(ps -o ppid= $GIT); ENGINE=$(ps -o ppid= $SHELL_PID)"
    add_hook(place.root, name, f"{state}{{ {pids}; kill -9 {victims.replace('$PPID', '$GIT')}; }}\nexit 0")
    with host_of(place, "prompt") as host:
        assert host.stdout is not None
        host.stdout.read()
        if dies == "engine":
            wait_for_git(place)
    (place.root / ".git" / "hooks" / name).unlink()
    count = len(place.commits)
    assert count == (0 if phase in {"pre-commit", "prepared"} and dies != "engine" else 2 if dies == "git" else 1)
    await check_ends(place, after)
