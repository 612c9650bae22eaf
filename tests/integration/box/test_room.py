"""Commands that write more than there is room for, through the engine: ended and said, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable

import pytest

from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.review import Origin
from core.sandbox.box import BoxLimits, Tier
from core.sandbox.results import CommandResult
from core.shadow.layers import layer_store as layers
from core.shell.command_host import CommandRequest
from core.shell.terminal import Terminal
from tests.integration.box.test_same_as_plain import boxed_session
from tests.support.box_cases import boxes

WRITERS = [tier for tier in boxes() if tier in {Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED}]
MANY = "n=0; while :; do n=$((n+1)); head -c 1000000 /dev/zero > f$n || exit 9; done"


@pytest.fixture(params=WRITERS)
async def terminal(request, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a").write_text("one\n")
    async with boxed_session(tmp_path / "project", request.param) as (engine, session):
        yield engine.terminal(session)


async def ran(terminal: Terminal, command: str, heard: Callable[[str], None] = lambda _: None) -> CommandResult:
    origin = Origin(call=new_id("call"), tool="run_terminal_cmd", command=command)
    async with asyncio.timeout(30):
        return await terminal.run(CommandRequest(command=command, origin=origin), heard)


async def test_r3_many_files_beyond_the_quota_end_the_command_and_what_it_changed_is_dropped(terminal, tmp_path):
    terminal.host.shadow.layers.quota = 60 << 20
    result = await ran(terminal, f"echo two > a; {MANY}")
    assert (result.ended, result.exit_code) == ("disk_full", None)
    assert "room for 60 MB" in result.effects
    location = terminal.host.shadow.layers.location
    assert layers.measure_tree(location) < 1 << 20
    again = await ran(terminal, "cat a; echo three > a; echo more")
    assert (again.output, again.exit_code) == ("one\nmore\n", 0)
    assert (tmp_path / "project" / "a").read_text() == "one\n"
    assert terminal.host.shadow.read("a") == b"three\n"


async def test_r3_what_is_written_to_a_repository_outside_counts_as_well(terminal, tmp_path):
    for name in ("objects", "refs"):
        (tmp_path / ".git" / name).mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/trunk\n")
    terminal.host.shadow.layers.quota = 60 << 20
    result = await ran(terminal, f"cd ../.git/objects && {MANY}")
    assert result.ended == "disk_full"
    assert "room for 60 MB" in result.effects
    assert layers.measure_tree(terminal.host.shadow.layers.location) < 1 << 20
    assert list((tmp_path / ".git" / "objects").iterdir()) == []


async def test_r3_no_file_gets_larger_than_there_is_room_for(terminal, tmp_path):
    terminal.host.shadow.layers.quota = 60 << 20
    result = await ran(
        terminal, "head -c 200000000 /dev/zero > big; echo $?; truncate -s 256G sparse; echo $?; ls -s a"
    )
    assert "File too large" in result.output or "File size limit exceeded" in result.output
    assert result.ended == "exited"
    entry = terminal.host.shadow.stat("big")
    assert entry is None or entry.size <= 60 << 20
    await ran(terminal, "for n in 1 2; do head -c 35000000 /dev/zero > more$n; done")
    with pytest.raises(AgentTuiError, match="the limit is"):
        await ran(terminal, "true")


async def test_r3_a_disk_that_gets_nearly_full_ends_the_command(terminal, tmp_path, monkeypatch):
    speaks = asyncio.Event()
    begun = asyncio.create_task(ran(terminal, "echo two > a; echo here; sleep 60", lambda _: speaks.set()))
    await speaks.wait()
    monkeypatch.setattr("core.shell.disk_guard.MIN_FREE_BYTES", 1 << 60)
    result = await begun
    assert result.ended == "disk_full"
    assert "the disk was nearly full" in result.effects
    monkeypatch.undo()
    assert (await ran(terminal, "cat a")).output == "one\n"


async def test_n15_the_cache_has_a_quota_and_is_begun_anew_when_it_is_over(terminal, monkeypatch):
    monkeypatch.setattr("core.shell.disk_guard.CACHE_QUOTA", 60 << 20)
    result = await ran(terminal, f"mkdir -p ~/.cache/x; cd ~/.cache/x; {MANY}")
    assert (result.ended, result.exit_code) == ("disk_full", None)
    assert "MB of 60 MB; it is emptied" in result.effects
    again = await ran(terminal, "ls -A ~/.cache | grep -x x; echo kept > ~/.cache/one; echo went on")
    assert (again.output, again.exit_code) == ("went on\n", 0)
    assert (await ran(terminal, "cat ~/.cache/one")).output == "kept\n"


async def test_what_a_command_leaves_in_tmp_is_there_for_the_next_until_the_session_closes(terminal):
    await ran(terminal, "echo mine > /tmp/made; cp /bin/sh /tmp/sh; chmod u+s /tmp/sh")
    assert (await ran(terminal, "cat /tmp/made")).output == "mine\n"
    temporary = terminal.host.directory / "tmp"
    assert not (temporary / "sh").stat().st_mode & stat.S_ISUID
    request = await terminal.host.build_passing_request("cat /tmp/made", lowers=(), cwd=".", limits=BoxLimits())
    assert request.temporary is None  # a check that runs alone sees nothing of it
    await terminal.close()
    assert not temporary.exists()


async def test_tmp_has_a_quota_and_is_begun_anew_when_it_is_over(terminal, monkeypatch):
    monkeypatch.setattr("core.shell.disk_guard.TEMPORARY_QUOTA", 60 << 20)
    result = await ran(terminal, f"mkdir -p /tmp/x; cd /tmp/x; {MANY}")
    assert (result.ended, result.exit_code) == ("disk_full", None)
    assert "/tmp was at" in result.effects
    assert "MB of 60 MB; it is emptied" in result.effects
    again = await ran(terminal, "ls -A /tmp | grep -x x; echo went on")
    assert (again.output, again.exit_code) == ("went on\n", 0)
