from __future__ import annotations

import asyncio
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
import psutil
import pytest

from core.clock import monotonic
from core.protocol import events as ev
from core.sandbox.box import BoxLimits, Tier
from tests.support.agent_case import says
from tests.support.box_cases import ATTEMPT, Boxed, boxes, tree
from tests.support.box_driver import command_lines
from tests.support.boxes import boxed as case_in_a_box
from tests.support.boxes import command
from tests.support.terminals import all_of
from tests.support.verdicts import accept_everything

KEY = f"sk-planted-{uuid4().hex}"  # other tests run at the same time, and some tiers show their command lines
LONG = str(7_000_000 + os.getpid())  # seconds that only our own processes sleep
PROBE = (
    ATTEMPT
    + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
)
ARCHIVES = """
import io, os, sys, tarfile
outside = sys.argv[1]
tarfile.TarFile.extraction_filter = staticmethod(lambda member, path: member)
def entry(name, kind=tarfile.REGTYPE, link=""):
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, link, 8 if kind == tarfile.REGTYPE else 0
    return found
archives = {
    "up": [entry("../escaped"), entry("../sibling/notes.txt")],
    "absolute": [entry(outside + "/notes.txt"), entry("/usr/local/escaped")],
    "linked": [entry("link", tarfile.SYMTYPE, outside), entry("link/notes.txt")],
    "hard": [entry("name", tarfile.LNKTYPE, outside + "/notes.txt"), entry("name")],
    "plain": [entry("inside")],
}
for name, entries in archives.items():
    with tarfile.open(name + ".tar", "w") as archive:
        for each in entries:
            archive.addfile(each, io.BytesIO(b"escaped\\n"))
    for each in entries:
        try:
            with tarfile.open(name + ".tar") as archive:
                archive.extractall(".")
        except (OSError, KeyError, tarfile.TarError) as error:
            print(name, type(error).__name__)
    os.system("tar -xPf %s.tar 2>/dev/null; rm -f link name" % name)
"""


def exists(path: str) -> bool:
    return os.path.lexists(path)


def was_reached(listening: socket.socket) -> bool:
    return bool(select.select([listening], [], [], 0)[0])


async def test_p17_archives_and_patches_that_lead_out_change_nothing_there(boxed: Boxed):
    notes = boxed.write("work/sibling/notes.txt", "mine\n")
    notes.chmod(0o666)
    boxed.write("work/project/unpack.py", ARCHIVES)
    boxed.write("work/project/a.txt", "one\n")
    boxed.write(
        "work/project/out.patch",
        "--- a/a.txt\n+++ b/../sibling/notes.txt\n@@ -1 +1 @@\n-mine\n+escaped\n"
        "--- /dev/null\n+++ b/../escaped\n@@ -0,0 +1 @@\n+escaped\n",
    )
    before = tree(boxed.root / "work")
    ran = await boxed.run(
        f"python3 unpack.py {notes.parent}; git apply --unsafe-paths -p1 out.patch;"
        "patch -p1 --force < out.patch; cat inside",
        readable=(notes.parent,),
    )
    assert tree(boxed.root / "work") == before
    assert not exists("/usr/local/escaped")
    assert ran.output.endswith("escaped\n")
    assert ran.upper is not None
    assert (ran.upper / "inside").read_text() == "escaped\n"


async def test_s4_levers_that_a_command_makes_are_in_the_layer_alone_and_git_outside_acts_on_none(boxed: Boxed):
    boxed.write("work/project/a.txt", "one\n")
    mark = boxed.root / "work" / "acted"
    ran = await boxed.run(
        "git init -q . && git config core.fsmonitor 'touch ../acted; true' && git config core.pager 'touch ../acted' &&"
        "printf '#!/bin/sh\\ntouch ../acted\\n' > .git/hooks/post-index-change && chmod +x .git/hooks/*;"
        "mkdir .cursor .vscode; echo 1 > .cursor/mcp.json; echo 1 > .vscode/tasks.json;"
        "echo Obey > AGENTS.md; echo made"
    )
    assert ran.output.endswith("made\n")
    assert ran.upper is not None
    names = {path.name for path in ran.upper.iterdir()}
    assert {".git", ".cursor", ".vscode", "AGENTS.md"} <= names
    assert [path.name for path in boxed.workspace.iterdir()] == ["a.txt"]
    git = ["git", "-c", "safe.directory=*", "status"]
    outside = subprocess.run(git, cwd=boxed.workspace, capture_output=True, check=False)  # noqa: ASYNC221
    assert outside.returncode != 0
    assert not mark.exists()
    again = await boxed.run("git status --short; cat AGENTS.md", lowers=(ran.upper,))
    assert again.output.endswith("Obey\n")
    assert not mark.exists()


@pytest.mark.parametrize("tier", boxes())
async def test_s4_m11_levers_of_a_command_wait_for_a_yes_of_their_own(tmp_path: Path, tier: Tier):
    makes = (
        "mkdir .cursor .vscode; echo 1 > .cursor/mcp.json; echo 1 > .vscode/tasks.json; echo 1 > AGENTS.md; echo 1 > a"
    )
    async with case_in_a_box(tmp_path, command(makes), says("."), tier=tier) as case:
        case.answer_approvals("allow_once")
        await case.turn()
        accept_everything(case.shadow)
        assert case.tree() == {"a": b"1\n"}
        waiting = {path: change.risk for path, change in case.state.changes.items() if change.protected}
        assert set(waiting) == {".cursor/mcp.json", ".vscode/tasks.json", "AGENTS.md"}
        assert "what the agent may do" in waiting["AGENTS.md"]
        assert "what the agent may do" in waiting[".cursor/mcp.json"]
        assert case.of(ev.EffectsRecorded)[0].discarded is False


@contextmanager
def sockets_of(boxed: Boxed) -> Iterator[dict[str, socket.socket]]:
    """Listening sockets that everybody may connect to: beside the project, in it, at home, below /opt, and nameless."""
    boxed.write("work/x")
    places = [boxed.root / "work" / "beside", boxed.workspace / "within", boxed.home / "agent"]
    if os.geteuid() == 0:
        places.append(Path(f"/opt/box-test-{os.getpid()}.sock"))
    with ExitStack() as stack:
        sockets = {}
        for address in (*map(str, places), f"\0box-test-{os.getpid()}"):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(address)
            listening.listen()
            listening.setblocking(False)
            sockets[address] = listening
        for place in places:
            place.chmod(0o777)
            stack.callback(place.unlink)
        yield sockets


async def test_s6_what_listens_on_the_machine_hears_of_no_command(boxed: Boxed):
    with sockets_of(boxed) as listening, socket.create_server(("127.0.0.1", 0)) as port:
        port.setblocking(False)
        tries = "".join(
            f"attempt({place!r}, lambda: socket.socket(1, {kind}).connect({place!r}))\n"
            for place in listening
            for kind in (1, 2, 5)
        )
        tries += f"attempt('tcp', lambda: socket.create_connection({port.getsockname()!r}, 1))\n"
        boxed.write("work/project/probe.py", PROBE + tries)
        ran = await boxed.run("python3 probe.py", readable=(boxed.root / "work" / "beside",))
        reached = [place for place, server_socket in listening.items() if was_reached(server_socket)]
        assert not was_reached(port)
    assert reached == []
    assert "WENT THROUGH" not in ran.output
    assert ran.output.count("refused:") == 3 * len(listening) + 1


async def test_s7_a_process_of_the_same_user_is_out_of_reach(boxed: Boxed):
    asleep = [shutil.which("sleep") or "/bin/sleep", "60"]
    own_group = {"user": boxed.uid, "group": boxed.uid, "process_group": 0}  # else a failure would end the tests
    with subprocess.Popen(asleep, **own_group, env={"PLANTED": KEY}) as victim:  # noqa: ASYNC220
        tries = (
            f"pid = {victim.pid}\n"
            "attempt('kill', lambda: os.kill(pid, 9))\n"
            "attempt('group', lambda: os.killpg(os.getpgid(pid), 9))\n"
            "attempt('ptrace', lambda: call('ptrace', 16, pid, 0, 0))\n"
            "attempt('seize', lambda: call('ptrace', 0x4206, pid, 0, 0))\n"
            "buffer = ctypes.create_string_buffer(16)\n"
            "vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16)\n"
            "attempt('read', lambda: call('process_vm_readv', pid, vector, 1, vector, 1, 0))\n"
            "attempt('pidfd', lambda: call('syscall', 424, os.pidfd_open(pid), 9, 0, 0))\n"
            "attempt('limits', lambda: call('prlimit64', pid, 7, vector, 0))\n"
            "for name in ('mem', 'environ', 'maps', 'fd/0', 'root/etc/passwd', 'cwd/x'):\n"
            "    attempt(name, lambda: os.read(os.open(f'/proc/{pid}/{name}', os.O_RDONLY), 64))\n"
            "attempt('clear', lambda: open(f'/proc/{pid}/clear_refs', 'w').write('1'))\n"
        )
        boxed.write("work/project/probe.py", PROBE + tries)
        ran = await boxed.run("python3 probe.py; cat /proc/[0-9]*/environ")
        still = victim.poll() is None
        victim.kill()
    assert still
    assert KEY not in ran.output
    assert "WENT THROUGH" not in ran.output
    assert ran.output.count("refused:") == 14


async def test_s8_k1_nothing_outlives_a_command_and_no_process_it_sees_has_a_key(boxed: Boxed):
    ran = await boxed.run_apart(
        f"setsid -f sleep {LONG}; nohup sleep {LONG} >/dev/null 2>&1 & disown; (sleep {LONG} &); trap '' TERM HUP;"
        f"python3 -c 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep({LONG})';"
        "env; cat /proc/*/environ /proc/*/cmdline; echo; echo ended",
        env={"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "MY_TOKEN": KEY},
    )
    assert (ran.code, ran.output.splitlines()[-1]) == (0, "ended")
    assert KEY not in ran.output
    assert "LANG=C.UTF-8" in ran.output
    assert ran.apart is not None
    assert not ran.apart.lives(LONG)


async def test_s8_a_program_that_is_killed_takes_all_of_its_command_with_it(boxed: Boxed):
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.support.box_cases import MAKERS\n"
        "from core.sandbox.box import BoxRequest, Tier\n"
        "async def main():\n"
        "    box = MAKERS[Tier(sys.argv[1])](Path(sys.argv[2]))\n"
        f"    spec = BoxRequest(workspace=Path(sys.argv[3]), command=sys.argv[4], env={boxed.env()!r})\n"
        "    running = await box.start(spec, lambda text: print(text, end='', flush=True))\n"
        "    await running.wait()\n"
        "asyncio.run(main())\n"
    )
    endless = f"setsid -f sleep {LONG}; trap '' TERM HUP INT; echo ready; sleep {LONG}; sleep {LONG}"
    words = boxed.program(script, str(boxed.tier), str(boxed.state), str(boxed.workspace), endless)
    app = await asyncio.create_subprocess_exec(*words, env=boxed.program_env(), cwd="/", stdout=asyncio.subprocess.PIPE)
    assert app.stdout is not None
    assert await app.stdout.readline() == b"ready\n"
    below = psutil.Process(app.pid).children(recursive=True)
    assert any(LONG in process.cmdline() for process in below)
    watched = {process.pid: os.pidfd_open(process.pid) for process in below}
    app.send_signal(signal.SIGKILL)
    await app.wait()
    assert await asyncio.to_thread(living, watched, 1) == []


def living(watched: Mapping[int, int], seconds: float) -> list[int]:
    """Those of the processes, with a descriptor for each, that have not ended by then. The descriptors are closed."""
    until = monotonic() + seconds
    left = [pid for pid, place in watched.items() if not select.select([place], [], [], max(0, until - monotonic()))[0]]
    for place in watched.values():
        os.close(place)
    return left


SHOWING = """
import asyncio, json, os, sys
from pathlib import Path
import msgspec
from core.sandbox.box import BoxRequest, Tier
from tests.support.box_cases import MAKERS
from tests.support.box_driver import command_lines
async def main():
    data = Path(sys.argv[3]).read_bytes()
    spec = msgspec.json.decode(data, type=BoxRequest, dec_hook=lambda kind, value: kind(value))
    box, pieces = MAKERS[Tier(sys.argv[1])](Path(sys.argv[2])), []
    ended = await (await box.start(spec, pieces.append)).wait()
    await box.close()
    with open("/dev/tty", "w") as terminal:
        terminal.write("the terminal itself works")
    Path(sys.argv[4]).write_text("".join(pieces))
asyncio.run(main())
"""
TO_THE_TERMINAL = """
for t in /dev/tty /proc/self/fd/0 /proc/$PPID/fd/0 /proc/1/fd/1 /dev/console /dev/pts/[0-9]*; do echo reached >$t; done
python3 -c "import fcntl; fcntl.ioctl(0, 0x5412, b'x')"
python3 -c "import fcntl, os; fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x')"
python3 -c "import os; [os.write(n, b'reached') for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')]"
tty; stty sane < /dev/tty; echo tried
"""


async def test_s10_a_program_that_has_a_terminal_shows_nothing_of_what_a_command_sends_it(boxed: Boxed):
    spec = msgspec.json.encode(boxed.spec(TO_THE_TERMINAL), enc_hook=str)
    paths = boxed.write("state/spec.json", spec), boxed.write("state/output", "")
    words = boxed.program(SHOWING, str(boxed.tier), str(boxed.state), *map(str, paths))
    pid, terminal = pty.fork()
    if pid == 0:
        os.fchown(0, boxed.uid, -1)
        os.chdir("/")
        os.execve(words[0], words, boxed.program_env())
    terminal_output = await asyncio.to_thread(all_of, terminal)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, terminal_output.decode()
    assert terminal_output == b"the terminal itself works"
    output = paths[1].read_text()
    assert "not a tty" in output
    assert output.endswith("tried\n")


async def test_r1_endless_output_ends_at_the_limit_and_costs_no_memory(boxed: Boxed):
    limits = BoxLimits(seconds=30, output=3_000_000)
    ran = await boxed.run_apart(
        f"(setsid sh -c 'cat /dev/zero; : zero{LONG}' &); exec yes", limits=limits, upper=None, raw=True
    )
    assert (ran.exit.end_reason, ran.code) == ("flooded", None)
    assert 3_000_000 <= len(ran.output) < 4_000_000
    assert ran.apart is not None
    assert ran.apart.grown < 50 << 20
    assert not ran.apart.lives(f"zero{LONG}")


async def test_r2_a_fork_bomb_stays_below_its_bound_and_goes_with_its_command(boxed: Boxed):
    limits, most = BoxLimits(seconds=0.6, processes=200), 0
    bomb = f": bomb{LONG}; b() {{ b | b & }}; b 2>/dev/null; exec sleep {LONG}"
    running = asyncio.ensure_future(boxed.run_apart(bomb, limits=limits, upper=None))
    while not running.done():
        most = max(most, sum(f"bomb{LONG}" in line for line in command_lines()))
        await asyncio.wait([running], timeout=0.05)
    ran = running.result()
    assert ran.exit.end_reason == "timed_out"
    assert 1 < most < 600
    assert ran.apart is not None
    assert not ran.apart.lives(LONG)


async def test_output_that_is_asked_for_raw_is_every_byte(own: Boxed):
    data = bytes(range(256)) * 3
    own.write("work/project/data", data)
    ran = await own.run("cat data", raw=True)
    assert ran.output.encode("utf-8", "surrogateescape") == data


async def test_r4_what_forked_processes_share_does_not_count_against_them(boxed: Boxed):
    many = "import os\na = bytearray(b'x') * (64 << 20)\nfor _ in '123': os.fork()\nimport time; time.sleep(0.3)"
    ran = await boxed.run(f'python3 -c "{many}"', limits=BoxLimits(seconds=30, memory=200 << 20))
    assert (ran.exit.end_reason, ran.code) == ("exited", 0)
