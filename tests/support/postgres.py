"""A real PostgreSQL server for the tests of a module: on a port of loopback, in a directory that goes with it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def find_programs() -> Path | None:
    """The directory of the server's programs; None: it is not installed."""
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if paths:
        return paths[0].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


class Server:
    """`url`: how its newest database is connected to. It can be stopped and started again: its data stay."""

    def __init__(self, programs: Path, place: Path, port: int) -> None:
        self._programs, self._place, self.port = programs, place, port
        self._count = 0

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/test{self._count}"

    def create_database(self) -> None:
        self._count += 1
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "tester")
        self.run("createdb", *address, "--template=template0", f"test{self._count}")

    def _as_user(self) -> list[str]:
        """It refuses to run as root."""
        return ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []

    def run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [*self._as_user(), str(self._programs / program), *words],
            cwd=self._place,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self._place} -c fsync=off -c max_connections=60"
        log = str(self._place / "log")
        self.run("pg_ctl", "-D", str(self._place / "data"), "-l", log, "-w", "-t", "60", "-o", options, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self._place / "data"), "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def postgres_server(programs: Path) -> Iterator[Server]:
    place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(programs, place, port)
    try:
        if os.geteuid() == 0:
            os.chown(place, pwd.getpwnam("nobody").pw_uid, -1)
        server.run("initdb", "-D", str(place / "data"), "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8")
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(AssertionError):
                server.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
