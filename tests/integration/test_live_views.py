"""A running job and a new command see the same project, whatever the agent, the user and other commands do."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable

import pytest

from core.errors import AgentTuiError
from core.protocol import events as ev
from core.protocol.review import Origin
from core.shell.command_host import CommandRequest
from tests.support.agent_case import Case, calls, says
from tests.support.boxes import boxed, wait_for_output

LIST = "find . -mindepth 1 ! -type d -printf '%y %P %l\\n' | sort; find . -type f -print0 | sort -z | xargs -0 -r cksum"
NAMES = ("a.txt", "b.txt", "src/a.py", "src/deep/b.py", "src/deep", "src", "link", "docs/x/y.md")
STEPS = 25


class Hands:
    """What changes the project, at random."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._random, self._count = case, random.Random(seed), 0

    async def act(self) -> str:
        """Do something, if it can be done; return its name."""
        action: Callable = self._random.choice(
            (self.write, self.write, self.delete, self.judge, self.judge, self.write_own, self.write_own,
             self.delete_own, self.move_own, self.run_command)
        )  # fmt: skip
        self._count += 1
        try:
            self._last = self._random.choice(NAMES)
            await action(self._last)
        except (AgentTuiError, OSError):  # there is a directory in the place of the file, or the reverse
            return ""
        return f"{action.__name__} {self._last}"

    async def write(self, name: str) -> None:
        self._case.shadow.write(name, f"agent {self._count}\n".encode(), Origin(call="call_1", tool="write"))

    async def delete(self, name: str) -> None:
        self._case.shadow.edit(name, None, Origin(call="call_1", tool="delete"))

    async def judge(self, _: str) -> None:
        changes = self._case.shadow.list_changes()
        if changes:
            change = self._random.choice(changes)
            verdict = self._random.choice(("accept", "reject"))
            self._last = f"{verdict} {change.path}"
            self._case.shadow.resolve(change.path, (), verdict)

    async def write_own(self, name: str) -> None:
        place = self._case.project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # a link would lead to another file
        place.write_text(f"user {self._count}\n")
        self._tell(name)

    async def delete_own(self, name: str) -> None:
        (self._case.project / name).unlink()  # no directory: see below
        self._tell(name)

    async def move_own(self, name: str) -> None:
        place, target = self._case.project / name, self._case.project / f"moved{self._count}"
        if not place.is_dir():
            place.rename(target)
            self._tell(name, target.name)

    async def run_command(self, name: str) -> None:
        line = f"mkdir -p $(dirname {name}); rm -rf {name}; " + self._random.choice(
            (f"echo command {self._count} > {name}", f"ln -s a.txt {name}", f"mkdir {name}; echo 1 > {name}/new", ":")
        )
        request = CommandRequest(command=line, origin=Origin(call=f"call_{self._count}", tool="run_terminal_cmd"))
        await self._case.session.terminal.run(request, lambda _: None)

    def _tell(self, *paths: str) -> None:
        self._case.session.terminal.jobs.note_disk_changes(paths)


async def list_anew(case: Case) -> str:
    """Return what a new command sees."""
    request = CommandRequest(command=LIST, origin=Origin(call="list", tool="run_terminal_cmd"), keeps_effects=False)
    return (await case.session.terminal.run(request, lambda _: None)).output


def start_job(command: str) -> tuple[str, dict[str, object]]:
    return "run_terminal_cmd", {"command": command, "is_background": True, "timeout": 0}


@pytest.mark.parametrize("seed", range(12))
async def test_a_running_job_sees_what_a_new_command_sees(tmp_path, seed):
    job = f"while read -r go; do echo begin $go; {{ {LIST}; }} 2>&1; echo end $go; done"
    async with boxed(tmp_path, calls(start_job(job)), says(".")) as case:
        for name in ("a.txt", "src/a.py", "src/deep/b.py"):
            (case.project / name).parent.mkdir(parents=True, exist_ok=True)
            (case.project / name).write_text("first\n")
        await case.turn()
        hands, jobs = Hands(case, seed), case.session.terminal.jobs
        actions = []
        for number in range(STEPS):
            actions.append(await hands.act())
            await jobs.update_views()
            if jobs.get_job("job_1").execution.missed_count:
                await jobs.restart("job_1")
            jobs.send("job_1", f"{number}\n")
            output = await wait_for_output(case, f"end {number}\n")
            view = output.rpartition(f"begin {number}\n")[2].removesuffix(f"end {number}\n")
            assert view.strip() == (await list_anew(case)).strip(), " ; ".join(actions)
            jobs.get_job("job_1").execution.output.read_new()
        pending = case.shadow.list_visible_states()
        await jobs.end("job_1")
        assert case.shadow.list_visible_states() == pending  # nothing that it was sent is its own work
        effects = case.of(ev.EffectsRecorded)[-1]
        assert effects == ev.EffectsRecorded(call=effects.call, command=job), " ; ".join(actions)


async def test_a_job_below_which_a_directory_of_the_user_is_gone_has_missed_something(tmp_path):
    # What the kernel shows of a directory that is removed or moved below a mounted overlay is left open.
    async with boxed(tmp_path, calls(start_job("read go")), says(".")) as case:
        for name in ("src/deep/b.py", "lib/c.py"):
            (case.project / name).parent.mkdir(parents=True)
            (case.project / name).write_text("first\n")
        await case.turn()
        jobs = case.session.terminal.jobs
        case.shadow.write("src/deep/b.py", b"agent\n", Origin(call="call_1", tool="write"))
        case.shadow.write("lib/c.py", b"agent\n", Origin(call="call_1", tool="write"))
        await jobs.update_views()
        assert jobs.get_job("job_1").execution.missed_count == 0
        shutil.rmtree(case.project / "src")
        jobs.note_disk_changes(("src", "src/deep", "src/deep/b.py"))
        await jobs.update_views()
        assert jobs.get_job("job_1").execution.missed_count >= 1
        await jobs.restart("job_1")
        assert jobs.get_job("job_1").execution.missed_count == 0
        (case.project / "lib").rename(case.project / "library")
        jobs.note_disk_changes(("lib", "library"))
        await jobs.update_views()
        assert jobs.get_job("job_1").execution.missed_count >= 1
