"""Plan and Ask in a project that has tests and a build: commands really run there, and leave every byte as it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.protocol import events as ev
from core.sandbox.box import Tier
from core.sandbox.host_view import is_open_to_all
from tests.support.agent_case import Case, calls, says
from tests.support.box_cases import boxes, tree
from tests.support.boxes import boxed, command

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add(tmp_path):\n    (tmp_path / 'x').write_text('y')\n"
    "    open('by-the-test', 'w').close()\n    assert add(1, 2) == 3\n",
    "Makefile": "all: out/calc.txt\nout/calc.txt: calc.py\n\tmkdir -p out\n\tcp calc.py out/calc.txt\n"
    "\ttouch calc.py\n\techo built\n.PHONY: all\n",
    "notes.txt": "mine\n",
}
WRITERS = (
    "(sleep 0.1; echo late > late.txt) & setsid -f sh -c 'while :; do echo tick >> ticking.txt; done';"
    "nohup sh -c 'sleep 0.1; rm -rf *' >/dev/null 2>&1 & sleep 0.3; test -s ticking.txt && echo written"
)


def everything(case: Case) -> tuple[object, ...]:
    """What is on disk with times and owners, what is pending (but for how tests went), and what the shadow keeps."""
    places = (case.project, case.directory / "blobs", case.directory / "layers")
    infos = {path: path.lstat() for place in places for path in sorted(place.rglob("*"))}
    stats = {path: (info.st_mode, info.st_uid, info.st_ino, info.st_mtime_ns) for path, info in infos.items()}
    pending = {
        path: (replace(change, check=None), case.shadow.read(path)) for path, change in case.state.changes.items()
    }
    return tree(case.project), tree(places[1]), tree(places[2]), stats, pending, case.review.bulks, case.review.layers


@pytest.mark.parametrize(("mode", "tier"), [*(("plan", tier) for tier in boxes()), ("ask", boxes()[0])])
async def test_m2_tests_builds_and_writers_in_the_background_change_nothing(tmp_path, monkeypatch, mode, tier: Tier):
    if tier is Tier.LANDLOCK and os.geteuid() == 0 and not is_open_to_all(Path(sys.executable)):
        pytest.skip("root's commands run as another user there, who can't run this Python")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}")
    steps = [
        command("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q -p no:cacheprovider; ls by-the-test; ls"),
        command("make && cat out/calc.txt; rm -rf out; make -s | tail -1"),
        command("touch x; python3 -c \"open('x','w').write('y')\"; cat x; mv notes.txt other; chmod 777 calc.py; ls"),
        command(WRITERS),
        command("while :; do echo tick >> job.txt; sleep 0.02; done", is_background=True),
        calls(("stop_terminal", {"job": "job_1"})),
        command("git init -q . && git add -A && git status --short; ls -A"),
        says("."),
    ]
    async with boxed(tmp_path, *steps, mode=mode, tier=tier) as case:
        for name, text in FILES.items():
            (case.project / name).write_text(text)
        case.answer_approvals("allow_once")
        case.shadow.write("pending.txt", b"waits\n")
        case.shadow.write("calc.py", b"def add(a, b):\n    return b + a\n")
        case.shadow.prepare_lowers()
        before = everything(case)
        await case.turn()
        await case.session.terminal.close()
        tests, build, plain, writers, _, _, last = case.results()
        assert "1 passed" in tests
        assert "by-the-test" in tests
        assert "return b + a" in build
        assert "built" in build
        assert "other" in plain
        assert "written" in writers
        assert "A  pending.txt" in last
        assert "job.txt" not in last
        assert "late.txt" not in last
        assert everything(case) == before
        assert {event.discarded for event in case.of(ev.EffectsRecorded)} == {True}
