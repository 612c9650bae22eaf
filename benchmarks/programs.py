"""Programs of the model (`run_code`) against the same jobs call by call: tokens, steps and seconds.

Three scripted jobs are done in the real gate and a real box, each as one program and as the calls that a careful model
would send, eight at a time. The model's own thinking time is not in the seconds, and would be saved with every step.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from benchmarks.table import Result
from core.protocol.messages import AssistantMessage, Message
from core.providers.base import ModelRequest
from core.sandbox.box import Box, Tier
from core.sandbox.tiers.namespaces import NamespaceBox
from tests.support.agent_case import Case, Step, calls, says
from tests.support.tokens import list_tokens, tokens

MODULES: Final = 40
TOGETHER: Final = 8  # calls of one message
Call = tuple[str, dict[str, Any]]


class Job(Struct, frozen=True):
    """A job: the program, and the calls that do the same. `answer` is in what the program prints."""

    name: str
    code: str
    calls: list[Call]
    answer: str


class Spent(Struct, frozen=True):
    """The tokens of all requests, those of the last one, the steps and the seconds of a turn."""

    paid: int
    kept: int
    steps: int
    seconds: float


class _HeldBox:
    tier = Tier.NAMESPACES

    def __init__(self) -> None:
        self.box = NamespaceBox()

    async def find(self) -> Box | None:
        return self.box

    def describe(self) -> str:
        return "a box"


FIND: Final = """
paths = glob_file_search("src/*.py")
for path, text in zip(paths, parallel([(read_file, path) for path in paths])):
    if "import six" in text and '\"\"\"' not in text:
        print(path)
"""
EDIT: Final = """
paths = sorted({hit["path"] for hit in grep(r"old_name\\(", path="src")})
for path in paths:
    search_replace(path, "old_name(", "new_name(", replace_all=True)
print(len(paths), "files edited")
"""
COUNT: Final = """
from collections import Counter
print(Counter(hit["text"].split("TODO(")[1].split(")")[0] for hit in grep(r"TODO\\(", path="src")).most_common(3))
"""


def list_jobs() -> list[Job]:
    """List the jobs: many reads, many edits, and searches whose matches are only counted."""
    paths = [f"src/module{number:02}.py" for number in range(MODULES)]
    reads: list[Call] = [("read_file", {"target_file": path}) for path in paths]
    edits: list[Call] = [
        (
            "search_replace",
            {"file_path": path, "old_string": "old_name(", "new_string": "new_name(", "replace_all": True},
        )
        for path in paths[::2]
    ]
    owners = ("ann", "bob", "cy")
    searches: list[Call] = [("grep", {"pattern": rf"TODO\({owner}\)", "path": "src"}) for owner in owners]
    listing: Call = ("glob_file_search", {"glob_pattern": "src/*.py"})
    return [
        Job("read 40 files, name 3", FIND, [listing, *reads], "src/module07.py"),
        Job("edit 20 files", EDIT, [("grep", {"pattern": r"old_name\(", "path": "src"}), *edits], "20 files edited"),
        Job("count 120 matches", COUNT, searches, "('ann', 40)"),
    ]


def fill(project: Path) -> None:
    """Write the modules that the jobs are about, about 60 lines each."""
    (project / "src").mkdir()
    for number in range(MODULES):
        head = "import six\n" if number % 13 == 7 else '"""A module."""\nimport six\n' if number % 5 == 0 else ""
        todos = "".join(f"# TODO({owner}): look at case {number}\n" for owner in ("ann", "bob", "cy"))
        body = "".join(f"def function_{line}(value):\n    return value * {line + number}\n\n" for line in range(18))
        use = "old_name(1)\n" if number % 2 == 0 else "other(1)\n"
        (project / f"src/module{number:02}.py").write_text(f"{head}{todos}{body}{use}")


def measure(*, quick: bool) -> Iterator[Result]:
    """Every job once each way; `quick` makes no difference."""
    for job in list_jobs():
        program = calls(("call_tool", {"name": "run_code", "arguments": {"code": job.code}}))
        ours = asyncio.run(_play([program], job.answer))
        one_by_one = asyncio.run(_play(_split(job.calls), ""))
        for unit, field in (("tokens", "paid"), ("tokens", "kept"), ("steps", "steps"), ("s", "seconds")):
            what = {"paid": "input of all requests", "kept": "left in the conversation"}.get(field, field)
            yield Result(
                what=f"a program: {job.name}, {what}",
                value=getattr(ours, field),
                unit=unit,
                yardstick=getattr(one_by_one, field),
                yardstick_name="call by call",
                ratio_limit=1.0 if field in {"paid", "steps"} else None,
            )


def _split(job_calls: list[Call]) -> list[Step]:
    return [calls(*job_calls[start : start + TOGETHER]) for start in range(0, len(job_calls), TOGETHER)]


async def _play(steps: list[Step], answer: str) -> Spent:
    with tempfile.TemporaryDirectory(prefix="programs-bench-", dir="/var/tmp") as folder:
        held = _HeldBox()
        case = Case(Path(folder), *steps, says("Done."), box=held)
        fill(case.project)
        await case.session.terminal.find_box()
        began = time.perf_counter()
        finished = await case.turn()
        seconds = time.perf_counter() - began
        await case.session.terminal.close()
        await held.box.close()
        if finished.reason != "done" or answer not in "\n".join(case.results()):
            raise RuntimeError(f"the job was not done: {case.results()}")
        sizes = list(map(_count, case.model.requests))
        return Spent(sum(sizes), sizes[-1] - sizes[0], len(sizes), seconds)


def _count(request: ModelRequest) -> int:
    return tokens(request.system) + list_tokens(request.tools) + sum(map(_count_message, request.messages))


def _count_message(message: Message) -> int:
    written = [call.arguments for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return tokens(message.content) + sum(tokens(json.dumps(arguments)) for arguments in written)
