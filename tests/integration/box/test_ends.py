from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from core.errors import ToolFailed
from core.sandbox.box import BoxLimits, RunningCommand, Tier
from core.sandbox.tiers.namespaces import NamespaceBox
from tests.support.box_cases import MARK, ROOT, Boxed
from tests.support.processes import list_processes


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def gone(processes: list[psutil.Process], limit: float) -> bool:
    """Whether they end within a time. A zombie has ended, whoever should have reaped it."""
    _, left = await asyncio.to_thread(psutil.wait_procs, processes, limit)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in left)


class Heard:
    """The output of a command, and the moments at which something was in it."""

    def __init__(self) -> None:
        self.text = ""
        self._more = asyncio.Event()

    def __call__(self, piece: str) -> None:
        self.text += piece
        self._more.set()

    async def wait_for(self, word: str) -> None:
        async with asyncio.timeout(60):
            while word not in self.text:
                self._more.clear()
                await self._more.wait()


async def started(own: Boxed, command: str, **changes: object) -> tuple[RunningCommand, Heard]:
    heard = Heard()
    return await own.box().start(own.spec(command, **changes), heard), heard


async def test_s8_what_left_its_session_is_gone_when_the_command_ends(own: Boxed):
    ran = await own.run(f"setsid -f sleep {MARK}1; nohup sleep {MARK}1 & disown; (sleep {MARK}1 &) ; echo ended")
    assert (ran.code, ran.output) == (0, "ended\n")
    assert list_processes(f"sleep {MARK}1") == []


async def test_s8_when_the_app_is_killed_everything_ends_within_a_second(own: Boxed):
    program = (
        "import asyncio, sys; from pathlib import Path; from tests.support.box_cases import MAKERS; "
        "from core.sandbox.box import BoxRequest, Tier\n"
        "async def main():\n"
        f"    box = MAKERS[Tier({str(own.tier)!r})](Path({str(own.state)!r}))\n"
        f"    spec = BoxRequest(workspace=Path({str(own.workspace)!r}), command=sys.argv[1], env={own.env()!r})\n"
        "    running = await box.start(spec, lambda text: print(text, flush=True))\n"
        "    await running.wait()\n"
        "asyncio.run(main())\n"
    )
    app = subprocess.Popen(  # noqa: ASYNC220 - it is not waited for
        [sys.executable, "-c", program, f"setsid -f sleep {MARK}2; trap '' TERM; echo ready; sleep {MARK}2"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert app.stdout is not None
    assert app.stdout.readline() == "ready\n"
    assert len(list_processes(f"sleep {MARK}2")) >= 2
    below = psutil.Process(app.pid).children(recursive=True)
    app.send_signal(signal.SIGKILL)
    app.wait()
    assert await gone(below, 1)
    assert list_processes(f"sleep {MARK}2") == []
    app.stdout.close()


async def test_r1_a_command_that_never_stops_writing_is_stopped_at_the_limit(own: Boxed):
    memory = psutil.Process().memory_info().rss
    limits = BoxLimits(seconds=30, output=3_000_000)
    running, heard = await started(own, "yes", limits=limits)
    ended = await running.wait()
    assert (ended.end_reason, ended.exit_code) == ("flooded", None)
    assert 3_000_000 <= len(heard.text) < 4_000_000
    assert psutil.Process().memory_info().rss - memory < 50 << 20


async def test_r2_a_fork_bomb_is_bounded_and_leaves_nothing(own: Boxed):
    limits = BoxLimits(seconds=1, processes=200)
    running, _ = await started(own, f": sleepy{MARK}3; b() {{ b | b & }}; b; sleep {MARK}3", limits=limits)
    ending = asyncio.ensure_future(running.wait())
    most = 0
    while not ending.done():
        most = max(most, len(list_processes(f"{MARK}3")))
        await asyncio.wait([ending], timeout=0.05)
    assert ending.result().end_reason == "timed_out"
    assert list_processes(f"{MARK}3") == []
    assert 50 < most < 300


async def test_r4_a_command_that_takes_too_much_memory_ends_with_a_word_about_it(boxed: Boxed):
    hog = "python3 -c 'a = []\nwhile True: a.append(bytearray(b\"x\") * (8 << 20))'"
    ran = await boxed.run(f"exec {hog}", limits=BoxLimits(seconds=30, memory=128 << 20))
    assert (ran.exit.end_reason, ran.code) == ("out_of_memory", None)


@pytest.fixture
def groupless(own: Boxed) -> Boxed:
    """A box on a machine that lets us make no control groups."""
    if own.tier is Tier.NAMESPACES:
        own.opened.append(NamespaceBox(control_groups=False))
    return own


async def test_r2_a_fork_bomb_is_bounded_where_there_are_no_control_groups(groupless: Boxed):
    limits = BoxLimits(seconds=30, processes=200)
    bomb = "import os, signal\nn = 0\nwhile os.fork():\n    n += 1\n    print(n, flush=True)\nsignal.pause()\n"
    groupless.write(f"work/project/bomb{MARK}.py", bomb)
    ran = await groupless.run(f"python3 bomb{MARK}.py; echo over", limits=limits)
    assert ran.output.endswith("Resource temporarily unavailable\nover\n")
    assert 100 < int([line for line in ran.output.splitlines() if line.isdigit()][-1]) <= 301
    assert list_processes(f"bomb{MARK}.py") == []


async def test_r4_memory_is_watched_from_pid_one_where_there_are_no_control_groups(groupless: Boxed):
    hog = "a = [bytearray(b'x') * (8 << 20) for _ in range(100)]; input()"
    ran = await groupless.run(f'python3 -c "{hog}" < <(sleep 20)', limits=BoxLimits(seconds=30, memory=128 << 20))
    assert (ran.exit.end_reason, ran.code) == ("out_of_memory", None)


async def test_r5_a_command_past_its_time_ends_whatever_it_holds_on_to(boxed: Boxed):
    child = f"setsid -f sh -c 'trap \"\" TERM; sleep {MARK}4; :'"
    command = f"trap '' TERM INT HUP; {child}; echo here; while :; do sleep 1; done"
    ran = await boxed.run(command, limits=BoxLimits(seconds=1.5))
    assert (ran.exit.end_reason, ran.code, ran.output) == ("timed_out", None, "here\n")
    assert ran.exit.duration_ms >= 1500
    assert list_processes(f"sleep {MARK}4") == []


async def test_a_command_that_is_stopped_may_clean_up_first(own: Boxed):
    running, heard = await started(own, "trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    await heard.wait_for("ready")
    ended = await running.stop()
    assert (ended.end_reason, ended.exit_code) == ("stopped", None)
    assert heard.text.endswith("cleaned\n")


async def test_a_child_gets_the_grace_too_and_what_ignores_it_is_killed(own: Boxed):
    polite = "(trap 'sleep 0.3; echo child cleaned; exit' TERM; echo polite; while :; do sleep 0.05; done)"
    command = f"{polite} & (trap '' TERM; echo ready; sleep {MARK}5)"
    running, heard = await started(own, command)
    await heard.wait_for("ready")
    await heard.wait_for("polite")
    ended = await running.stop()
    assert ended.end_reason == "stopped"
    assert "child cleaned" in heard.text
    assert list_processes(f"sleep {MARK}5") == []


async def test_an_interrupt_reaches_what_runs_in_the_foreground(own: Boxed):
    # A shell without a trap that does not wait for its command yet is ended by an interrupt, and the box with it; a
    # Python that is about to read hears of it when it has read.
    command = "trap 'echo heard' INT; sh -c 'echo ready; exec sleep 600'; echo after $?"
    running, heard = await started(own, command, interactive=True)
    await heard.wait_for("ready")
    running.interrupt()
    ended = await running.wait()
    assert heard.text == "ready\nheard\nafter 130\n"
    assert ended.end_reason == "exited"


async def test_input_arrives_however_much_it_is(own: Boxed):
    running, heard = await started(own, "head -c 3000000 | wc -c; read line; echo got $line", interactive=True)
    running.send(b"x" * 3_000_000)
    running.send(b"the line\n")
    assert (await running.wait()).exit_code == 0
    assert heard.text == "3000000\ngot the line\n"


async def test_without_interaction_there_is_no_input(own: Boxed):
    running, heard = await started(own, "cat; readlink /proc/self/fd/0")
    assert (await running.wait()).exit_code == 0
    assert heard.text == "/dev/null\n"
    with pytest.raises(ToolFailed, match="no standard input"):
        running.send(b"x")


async def test_exit_codes_and_signals_are_told_as_a_shell_does(boxed: Boxed):
    assert (await boxed.run("exit 7")).code == 7
    assert (await boxed.run("kill -SEGV $$")).code == 128 + signal.SIGSEGV
    assert (await boxed.run("no-such-program-here")).code == 127


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cwd": "not/there"}, "directory can't be entered"),
        ({"workspace": Path("/var/tmp/there-is-no-such-workspace")}, "can't be read"),
        ({"command": "echo \0"}, "NUL"),
        ({"command": "true " + "x" * 200_000}, "too long"),
        ({"lowers": (Path("/var/tmp/there-is-no-such-layer"),)}, "could not be set up"),
    ],
    ids=["cwd", "workspace", "nul", "long", "layer"],
)
async def test_what_cannot_be_started_says_why_and_leaves_nothing(own: Boxed, changes: dict[str, object], message: str):
    changes = dict(changes)
    command = str(changes.pop("command", "true"))
    await own.run("true")
    before = descriptors()
    with pytest.raises(ToolFailed, match=message):
        await own.box().start(own.spec(command, **changes), Heard())
    assert descriptors() == before
    assert (await own.run("echo fine")).output == "fine\n"


async def test_a_server_that_was_killed_is_started_again(own: Boxed):
    others = psutil.Process().children(recursive=True)  # such as servers that other tests go on with
    running, heard = await started(own, f"echo ready; sleep {MARK}6")
    await heard.wait_for("ready")
    below = [child for child in psutil.Process().children(recursive=True) if child not in others]
    for child in psutil.Process().children():
        if child in below:
            child.kill()
    ended = await running.wait()
    assert (ended.end_reason, ended.exit_code) == ("lost", None)
    assert await gone(below, 5)
    assert list_processes(f"sleep {MARK}6") == []
    assert (await own.run("echo again")).output == "again\n"


async def test_cancelling_a_wait_leaves_the_command_running(own: Boxed):
    running, heard = await started(own, "echo ready; read x; echo went on", interactive=True)
    waiting = asyncio.create_task(running.wait())
    await heard.wait_for("ready")
    waiting.cancel()
    await asyncio.wait([waiting])
    running.send(b"\n")
    assert (await running.wait()).exit_code == 0
    assert heard.text == "ready\nwent on\n"


async def test_closing_the_box_ends_every_command(own: Boxed):
    others = psutil.Process().children()
    runs = [await started(own, f"echo ready; sleep {MARK}{number}") for number in (7, 8)]
    for _, heard in runs:
        await heard.wait_for("ready")
    await own.close()
    assert [(await running.wait()).end_reason for running, _ in runs] == ["stopped", "stopped"]
    assert list_processes(f"sleep {MARK}") == []
    assert psutil.Process().children() == others


async def test_d12_many_commands_leave_no_process_mount_or_descriptor(own: Boxed):
    def traces() -> tuple[int, int, int]:
        children = len(psutil.Process().children(recursive=True))
        mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
        return children, mounts, descriptors()

    await own.run("true", upper=None)
    before = traces()
    for _ in range(50 if own.tier is Tier.NAMESPACES else 15):
        assert (await own.run("true", upper=None)).code == 0
    assert all(now <= then for now, then in zip(traces(), before, strict=True))
