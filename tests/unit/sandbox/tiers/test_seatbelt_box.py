from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.errors import ToolFailed
from core.filesystem.overlay_support import is_whiteout
from core.sandbox.box import BoxLimits, BoxRequest, BoxResult, Tier
from core.sandbox.tiers import seatbelt_box, self_test
from core.sandbox.tiers.seatbelt_box import SeatbeltBox
from core.sandbox.tiers.selection import TierUnavailable, list_tiers, make_box

# A stand-in for sandbox-exec: it keeps the profile, and starts the command without any wall.
PROGRAM = '#!/bin/sh\ncp "$2" "$(dirname "$0")/last.sb"\nshift 2\nexec "$@"\n'


class Place:
    """A box with the stand-in, and a project."""

    def __init__(self, top: Path) -> None:
        self.top, self.project = top, top / "project"
        self.project.mkdir()
        for name in ("a", "b", "secret"):
            (self.project / name).write_text(f"{name}\n")
        program = top / "sandbox-exec"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.box = SeatbeltBox(top / "state", program=str(program))
        self.uppers = 0

    def build_request(self, command: str, **changes: Any) -> BoxRequest:
        self.uppers += 1
        changes.setdefault("upper", self.top / f"upper{self.uppers}")
        if changes["upper"]:
            changes["upper"].mkdir()
        changes.setdefault("limits", BoxLimits(seconds=30, processes=4096))
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.top / "home")}
        return BoxRequest(workspace=self.project, command=command, env=env, **changes)

    async def run(self, command: str, **changes: Any) -> tuple[BoxResult, str, Path]:
        request, chunks = self.build_request(command, **changes), list[str]()
        running = await self.box.start(request, chunks.append)
        return await running.wait(), "".join(chunks), request.upper or self.top

    def read_profile(self) -> str:
        return (self.top / "last.sb").read_text()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    await place.box.close()
    assert list((tmp_path / "state").iterdir()) == []


async def test_a_command_runs_in_a_copy_and_its_changes_become_a_layer(place: Place):
    result, output, upper = await place.run(
        "echo new > a; rm b; pwd; echo $HOME $TMPDIR; cat secret", withheld=("secret",)
    )
    assert (result.exit_code, result.end_reason) == (1 if os.geteuid() else 0, "exited")
    assert output.split()[0].endswith("/project")
    assert str(place.top / "home") not in output
    assert "secret\n" not in output
    assert (upper / "a").read_text() == "new\n"
    assert is_whiteout((upper / "b").lstat())
    assert (place.project / "a").read_text() == "a\n"


async def test_the_profile_names_the_copy_as_writable_and_the_secrets_as_hidden(place: Place):
    _, output, _ = await place.run("pwd", withheld=("secret",), hidden=(place.top / "state", place.top / "private"))
    root = output.strip()
    lines = place.read_profile().splitlines()
    assert any(line.startswith("(allow file-write* ") and f'"{root}"' in line for line in lines)
    denied = [line for line in lines if line.startswith("(deny file-read* file-write*")]
    assert any(f'"{place.project}/secret"' in line and f'"{place.top}/private"' in line for line in denied)
    assert not any(f'"{place.top}/state"' in line for line in denied)
    assert any(f'"{place.top}/state"' in line for line in lines if line.startswith("(deny file-read* (subpath"))


async def test_the_projects_own_path_means_the_copy(place: Place):
    _, _, upper = await place.run(f"cd {place.project} && echo new > a")
    assert (upper / "a").read_text() == "new\n"
    assert (place.project / "a").read_text() == "a\n"


@pytest.mark.parametrize("sees_environments", [True, False])
async def test_nothing_that_a_command_started_outlives_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, sees_environments: bool
):
    if not sees_environments:  # of other processes, as on macOS
        monkeypatch.setattr(seatbelt_box, "kill_marked_processes", lambda _variable, _value: None)
    sleep = f"9{os.getpid():07}"
    script = f"import os\nif os.fork() == 0:\n os.setsid()\n os.execv('/bin/sleep', ['sleep', '{sleep}'])\n"
    result, _, _ = await place.run(f'(setsid sleep {sleep} &) ; sleep {sleep} & python3 -c "{script}"; sleep 0.2')
    assert result.end_reason == "exited"
    assert [process for process in psutil.process_iter(["cmdline"]) if sleep in (process.info["cmdline"] or [])] == []


@pytest.mark.parametrize(
    ("command", "limits", "reason"),
    [
        ("sleep 60", BoxLimits(seconds=0.3, processes=4096), "timed_out"),
        ("yes", BoxLimits(seconds=30, output=100_000, processes=4096), "flooded"),
    ],
)
async def test_limits_end_a_command(place: Place, command: str, limits: BoxLimits, reason: str):
    result, _, _ = await place.run(command, limits=limits)
    assert (result.exit_code, result.end_reason) == (None, reason)


async def test_file_sizes_and_open_files_are_limited(place: Place):
    _, output, _ = await place.run(
        "ulimit -n; ulimit -f", limits=BoxLimits(open_files=300, file_size=1 << 20, processes=4096)
    )
    files, blocks = output.split()
    assert files == "300"
    assert blocks in {"2048", "1024"}  # of 512 bytes, or 1024 in bash


async def test_input_and_stop_reach_it(place: Place):
    chunks: list[str] = []
    running = await place.box.start(place.build_request("cat; echo end", interactive=True), chunks.append)
    running.send(b"sent\n")
    running.close_input()
    assert (await running.wait()).exit_code == 0
    assert "".join(chunks) == "sent\nend\n"
    running = await place.box.start(place.build_request("echo x > late; sleep 60"), chunks.append)
    assert (await running.stop()).end_reason == "stopped"


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["", "in the background"])
async def test_an_interrupt_reaches_it_though_this_program_may_ignore_it(place: Place, handler: Any):
    is_ready = asyncio.Event()
    trap = place.build_request("trap 'exit 3' INT; sh -c 'echo ready; exec sleep 600'; exit 4")
    before = signal.signal(signal.SIGINT, handler)
    try:
        running = await place.box.start(trap, lambda text: is_ready.set() if "ready" in text else None)
    finally:
        signal.signal(signal.SIGINT, before)
    async with asyncio.timeout(30):
        await is_ready.wait()
    running.interrupt()
    assert (await running.wait()).exit_code == 3


async def test_errors_are_separate_if_asked_for(place: Place):
    output, errors = list[str](), list[str]()
    running = await place.box.start(place.build_request("echo out; echo err >&2"), output.append, errors.append)
    await running.wait()
    assert ("".join(output), "".join(errors)) == ("out\n", "err\n")


async def test_a_program_that_is_missing_is_a_refusal_and_nothing_is_left(tmp_path: Path):
    (tmp_path / "project").mkdir()
    box = SeatbeltBox(tmp_path / "state", program=str(tmp_path / "missing"))
    with pytest.raises(ToolFailed, match="could not be started") as refused:
        await box.start(BoxRequest(workspace=tmp_path / "project", command="true", env={}), print)
    assert refused.value.code == "box_refused"
    await box.close()
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.parametrize("has_proc", [True, False])
async def test_a_system_whose_sandbox_holds_nothing_does_not_pass_the_self_test(
    place: Place, monkeypatch: pytest.MonkeyPatch, has_proc: bool
):
    monkeypatch.setattr(self_test, "_HAS_PROC", has_proc)
    monkeypatch.setattr(self_test, "SECONDS", 30.0)
    attempts = {item.name: item for item in await self_test.run_self_test(place.box, place.top / "state")}
    assert set(attempts) == set(self_test.ITEMS)
    assert {name for name, item in attempts.items() if item.held} == {"workspace", "survivors"}
    assert "a port of the host was reached" in attempts["network"].found


@pytest.mark.skipif(Tier.SEATBELT in list_tiers(), reason="macOS")
def test_it_is_offered_on_macos_only(tmp_path: Path):
    with pytest.raises(TierUnavailable, match="only macOS"):
        make_box(Tier.SEATBELT, tmp_path)
