from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.sandbox.box import Tier
from tests.support.box_cases import ORDINARY, Boxed

LISTENER = """
import os, socket, sys
os.chdir(sys.argv[1])
own = socket.socket(socket.AF_UNIX)
own.bind("relative.sock"), own.listen(), os.chmod("relative.sock", 0o777)
other = socket.socket(socket.AF_UNIX)
other.bind("before.sock"), other.listen(), os.chmod("before.sock", 0o777), os.rename("before.sock", "renamed.sock")
print("ready", flush=True)
sys.stdin.readline()
late = socket.socket(socket.AF_UNIX)
late.bind("late.sock"), late.listen(), os.chmod("late.sock", 0o777)
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagrams.bind("datagrams.sock"), os.chmod("datagrams.sock", 0o777)
print("late", flush=True)
sys.stdin.readline()
for each in (own, other, late):
    each.setblocking(False)
    try:
        each.accept()
        print("reached", each.getsockname())
    except BlockingIOError:
        pass
try:
    print("got", datagrams.recv(10, socket.MSG_DONTWAIT))
except BlockingIOError:
    print("nothing")
"""
ATTEMPTS = """
import os, socket, sys
place = sys.argv[1]
print("waiting", flush=True)
sys.stdin.readline()
for name in ("relative", "renamed", "late", "datagrams"):
    kind = socket.SOCK_DGRAM if name == "datagrams" else socket.SOCK_STREAM
    for way in (f"{place}/{name}.sock", "descriptor", "directory"):
        try:
            if way == "descriptor":
                way = f"/proc/self/fd/{os.open(place, os.O_PATH)}/{name}.sock"
            elif way == "directory":
                os.chdir(place)
                way = f"{name}.sock"
            with socket.socket(socket.AF_UNIX, kind) as tried:
                tried.connect(way)
                tried.send(b"x")
            print("WENT THROUGH", way)
        except OSError as error:
            print("refused:", error.strerror)
"""


@contextmanager
def visible_directory() -> Iterator[Path]:
    """One that commands see, whatever they run in."""
    place = Path(tempfile.mkdtemp(prefix="box-test-", dir="/opt"))
    place.chmod(0o777)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that every command sees")
@pytest.mark.parametrize("apart", [False, True], ids=["", "netns"])
async def test_n8_no_socket_is_reached_however_and_whenever_it_was_bound(own: Boxed, apart: bool):
    with visible_directory() as place:
        words = [*(("unshare", "--net") if apart else ()), sys.executable, "-c", LISTENER, str(place)]
        with subprocess.Popen(  # noqa: ASYNC220
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as listening:
            assert listening.stdin is not None
            assert listening.stdout is not None
            assert listening.stdout.readline() == "ready\n"
            own.write("work/project/attempts.py", ATTEMPTS)
            heard, waits = [], asyncio.Event()
            spec = own.spec(f"exec python3 attempts.py {place} 2>&1", interactive=True)
            running = await own.box().start(spec, lambda text: (heard.append(text), waits.set())[0])
            await waits.wait()
            listening.stdin.write("\n")
            listening.stdin.flush()
            assert listening.stdout.readline() == "late\n"
            running.send(b"\n")
            assert (await running.wait()).exit_code == 0
            listener_output = listening.communicate("\n")[0]
    assert listener_output == "nothing\n"
    assert "".join(heard).count("refused:") == 12


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that every command sees")
async def test_n8_a_pipe_of_the_machine_leads_nowhere(boxed: Boxed):
    with visible_directory() as place:
        os.mkfifo(place / "pipe")
        (place / "pipe").chmod(0o666)
        reader = os.open(place / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        await boxed.run(f"timeout 2 sh -c 'echo reached > {place}/pipe'; ls {place}")
        assert os.read(reader, 10) == b""
        os.close(reader)


async def test_n8_unix_sockets_work_among_the_programs_of_a_command(own: Boxed):
    program = (
        "import os, socket, tempfile\n"
        "for place in (os.getcwd(), tempfile.gettempdir()):\n"
        "    server = socket.socket(socket.AF_UNIX)\n"
        "    server.bind(place + '/s.sock'), server.listen()\n"
        "    socket.socket(socket.AF_UNIX).connect(place + '/s.sock')\n"
        "    print('connected')\n"
        "one, other = socket.socketpair()\n"
        "print(one.send(b'x'))\n"
    )
    own.write("work/project/sockets.py", program)
    ran = await own.run("python3 sockets.py")
    assert ran.output == "connected\nconnected\n1\n"


def not_for_everybody(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and not path.stat().st_mode & 0o004]


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
async def test_n13_root_in_a_box_reads_of_the_machine_what_everybody_may(own: Boxed):
    with visible_directory() as place:
        for name, mode in (("all", 0o644), ("own", 0o600), ("group", 0o640), ("shut/all", 0o644)):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(f"content of {name}\n")
            (place / name).chmod(mode)
        (place / "shut").chmod(0o700)
        words = " ".join(f"'{path}'" for path in not_for_everybody(Path("/etc")))
        ran = await own.run(f"cat {place}/*  {place}/shut/all; cat {words} | head -c 1 | wc -c")
    assert "content of all\n" in ran.output
    assert ran.output.count("content of") == 1
    assert ran.output.endswith("0\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
async def test_n13_in_a_workspace_of_another_user_root_is_that_user_and_has_no_rights_beyond(own: Boxed):
    if own.tier is not Tier.NAMESPACES:
        pytest.skip("only T1 works in workspaces of others for root; there root has no rights beyond in any tier")
    boxed = Boxed(own.tier, ORDINARY, own.root)
    for name in ("project/a.txt", "sub/one"):
        boxed.write(f"work/{name}", "a\n")
    lower = own.state / "lower"
    (lower / "deep").mkdir(parents=True)
    (lower / "deep" / "pending").write_text("of the agent\n")
    cache = own.state / "cache"
    (cache / "old").mkdir(parents=True)
    own.write("work/project/roots", "root's\n", mode=0o600)
    boxed.give(boxed.workspace)
    ran = await own.run(
        "id -u; id -G; grep Cap /proc/self/status | cut -f 2 | sort -u; cat roots; echo b >> a.txt; chown 0 a.txt;"
        "echo more >> deep/pending; touch ~/.cache/old/x ~/y /tmp/z deep/new; echo out > /dev/stdout;"
        "mkdir d; stat -c %u d",
        lowers=(lower,),
        cache=cache,
    )
    lines = ran.output.splitlines()
    assert lines[:3] == [str(ORDINARY), str(ORDINARY), "0000000000000000"]
    assert ran.output.count("Permission denied") == 1
    assert ran.output.count("not permitted") == 1
    assert lines[-2:] == ["out", str(ORDINARY)]
    assert ran.upper is not None
    assert (ran.upper / "deep" / "pending").read_text() == "of the agent\nmore\n"
    assert {path.stat().st_uid for path in ran.upper.rglob("*")} == {ORDINARY}
