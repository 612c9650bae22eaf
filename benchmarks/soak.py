"""A thousand commands of every kind through one session, and what they leave: processes, mounts, descriptors, files
and memory. A session is open for days, so whatever a command leaves would in the end take the machine's last of it.

What is counted is what stays after the first commands, when everything that is made once has been made.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import psutil

from benchmarks.served import environment, home, project
from benchmarks.table import Result
from core.engine import Engine, EngineOptions
from core.ids import new_id
from core.protocol import commands as cmd
from core.protocol.review import Origin
from core.shell.command_host import CommandRequest
from core.shell.terminal import Terminal
from tests.support.story import access
from tests.support.trust import trust

KINDS = (
    "true",
    "echo more >> package000/module01.py",
    "mkdir -p node_modules/p; echo $$ > node_modules/p/i.js; rm -rf node_modules/q; mkdir node_modules/q",
    "setsid sleep 300 > /dev/null 2>&1 & setsid -f sleep 300; echo left",
    "rm -rf package001; mkdir package001; echo again > package001/module01.py",
    "head -c 3000000 /dev/zero > $(mktemp); mktemp -d > /dev/null; exit 3",
    "seq 100000; ln -sf nowhere link; chmod 700 package000",
    'python3 -c \'import sqlite3; sqlite3.connect("node_modules/base").execute("create table if not exists t(n)")\'',
)
TURN = 20  # commands, then it is all decided and made one


def measure(*, quick: bool) -> Iterator[Result]:
    """The kinds in turn; every now and then one is stopped, one runs in the background, and all is decided."""
    many, first = (200, 60) if quick else (1_000, 200)
    with home() as folder, mock.patch.dict(os.environ, environment(folder)):
        (folder / "tmp").mkdir()
        tempfile.tempdir = str(folder / "tmp")
        root = project(folder / "project", 500)
        trust(root)
        try:
            yield from asyncio.run(_soak(root, many, first))
        finally:
            tempfile.tempdir = None


async def _soak(path: Path, many: int, first: int) -> list[Result]:
    engine = Engine(path, options=EngineOptions(watch=False), models=access([]))
    try:
        opened = await engine.submit(cmd.SessionOpen(mode="agent"))
        if not isinstance(opened, cmd.Ack):
            raise TypeError(f"no session: {opened}")
        terminal = engine.terminal(opened.session)
        await _commands(terminal, range(first))
        before, began = _traces(terminal), time.perf_counter()
        await _commands(terminal, range(first, many))
        took = (time.perf_counter() - began) / (many - first)
        after = _traces(terminal)
    finally:
        await engine.close()
    limits = {"MB of the engine's memory": 12.0, "MB of the fork server's memory": 2.0}
    left = [
        Result(
            what=f"soak: {trace} more after {many:,} commands than after {first}",
            value=after[trace] - before[trace],
            unit="",
            limit=limits.get(trace, 0),
        )
        for trace in before
    ]
    processes, label = len(_children()), f"soak: a command on {terminal.host.box.tier}, its review included"
    return [
        *left,
        Result(what="soak: processes left when the engine is closed", value=processes, unit="", limit=0),
        Result(what=label, value=took * 1000, unit="ms"),
    ]


async def _commands(terminal: Terminal, numbers: range) -> None:
    for number in numbers:
        order = _order(KINDS[number % len(KINDS)])
        if number % 25 == 24:
            await _stopped(terminal)
        elif number % 25 == 12:
            started = await terminal.start_job(_order("echo job; sleep 300"), lambda _: None, wait=0.0)
            await terminal.jobs.stop(started.job)
        else:
            await terminal.run(order, lambda _: None)
        if number % TURN == TURN - 1:
            _decide(terminal, accept=number % (2 * TURN) == TURN - 1)
    await asyncio.sleep(1)  # the end of what was stopped last
    gc.collect()


def _order(command: str) -> CommandRequest:
    return CommandRequest(command=command, origin=Origin(call=new_id("call"), tool="run_terminal_cmd", command=command))


async def _stopped(terminal: Terminal) -> None:
    event = asyncio.Event()
    running = asyncio.ensure_future(terminal.run(_order("echo here; sleep 300"), lambda _: event.set()))
    await event.wait()
    running.cancel()
    await asyncio.wait({running})
    for _ in range(500):
        if not terminal.host.shadow.layers.open_layers:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("a command that was stopped goes on")


def _decide(terminal: Terminal, *, accept: bool) -> None:
    """As at the end of a turn: what is pending is accepted or rejected, what was kept is made one layer."""
    shadow = terminal.host.shadow
    verdict = "accept" if accept else "reject"
    for change in shadow.list_changes():
        if change.path in shadow.state.changes:
            shadow.resolve(change.path, (), verdict)
    for bulk in shadow.state.bulks:
        shadow.resolve_bulk(bulk.root, verdict)
    shadow.squash()


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _traces(terminal: Terminal) -> dict[str, float]:
    servers = [child.memory_info().rss for child in _children()]
    layers = terminal.host.shadow.layers.location
    return {
        "processes": len(_children()),
        "mounts": len(Path("/proc/self/mountinfo").read_bytes().splitlines()),
        "descriptors": psutil.Process().num_fds(),
        "threads": psutil.Process().num_threads(),
        "temporary files": len(list(Path(tempfile.gettempdir()).iterdir())),
        "layers": len([path for path in layers.iterdir() if path.is_dir() and "verdict" not in path.name]),
        "MB of the engine's memory": psutil.Process().memory_info().rss / (1 << 20),
        "MB of the fork server's memory": max(servers, default=0) / (1 << 20),
    }
