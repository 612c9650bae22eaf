"""A notebook of a real course is edited through the engine: the review has its cells, the disk what was accepted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from core.engine import Engine, EngineOptions
from core.notebooks.notebook import parse_notebook
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import ToolMessage
from core.protocol.review import ChangeDiff
from tests.support.notebook_files import read_notebook, validate
from tests.support.trust import trust

PATH = "course.ipynb"

READ = {"name": "read_file", "arguments": {"target_file": PATH}}
EDITS = (
    {"cell_idx": 7, "cell_language": "python", "old_string": "", "new_string": "print(split)", "edit_mode": "replace"},
    {"cell_idx": -1, "is_new_cell": True, "cell_language": "markdown", "new_string": "# The end\n\nof it"},
)


def git(project: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / PATH).write_bytes(read_notebook("course"))
    for words in (("init", "-q", "."), ("add", "-A"), ("commit", "-qm", "a course")):
        git(root, *words)
    trust(root)
    return root


def write_script(place: Path) -> str:
    calls = [{"name": "edit_notebook", "arguments": {"target_notebook": PATH, **edit}} for edit in EDITS]
    through = [{"name": "call_tool", "arguments": call} for call in calls]
    steps = [{"tool_calls": [READ]}, *({"tool_calls": [call]} for call in through), "Done."]
    place.write_bytes(msgspec.json.encode({"turns": [{"steps": steps}]}))
    return f"scripted/{place}"


async def play(engine: Engine, session: str) -> None:
    await engine.submit(cmd.TurnSubmit(session=session, text="Mend it"))
    async with contextlib.aclosing(engine.events(session)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.TurnFinished):
                return


async def ask_diff(engine: Engine, session: str) -> ChangeDiff:
    answer = await engine.query(q.DiffQuery(session=session, path=PATH))
    assert isinstance(answer, q.DiffAnswer)
    assert answer.diff is not None
    return answer.diff


async def resolve(engine: Engine, session: str, hunk: str) -> None:
    verdict = cmd.HunkResolve(session=session, path=PATH, verdict="accept", hunks=(hunk,))
    assert isinstance(await engine.submit(verdict), cmd.Ack)
    await engine.wait_idle(session)


async def test_a_cell_of_forty_is_edited_reviewed_and_accepted_alone(tmp_path, project):
    base = read_notebook("course")
    assert len(parse_notebook(PATH, base).cells) == 40
    engine = Engine(project, options=EngineOptions(watch=False, model=write_script(tmp_path / "m.yaml")))
    try:
        opened = await engine.submit(cmd.SessionOpen())
        assert isinstance(opened, cmd.Ack), opened
        session = opened.session
        await play(engine, session)
        results = [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]
        assert "# %% cell 39 · code" in results[0]
        assert "Edited course.ipynb: cell 7 (code): the whole cell was replaced." in results[1]
        assert (project / PATH).read_bytes() == base, "nothing reaches the disk by itself"

        diff = await ask_diff(engine, session)
        edited, added = diff.change.hunks
        assert diff.change.language == "python"
        assert [row.text for row in diff.lines if row.kind == "added"] == [
            "print(split)",
            "# %% cell 40 · markdown",
            "# # The end",
            "# ",
            "# of it",
        ]
        answer = await engine.query(q.HunkQuery(session=session, path=PATH, hunk=added.id))
        assert isinstance(answer, q.HunkAnswer)
        assert (answer.text, answer.start, answer.language) == ("# The end\n\nof it", 1, "markdown")
        text = cmd.HunkEdit(session=session, path=PATH, hunk=added.id, text="# My end")
        assert isinstance(await engine.submit(text), cmd.Ack)
        await engine.wait_idle(session)

        await resolve(engine, session, edited.id)
        validate((project / PATH).read_bytes())
        stat = await asyncio.to_thread(git, project, "diff", "--unified=0", "--", PATH)
        assert stat.count("\n@@") == 1, "git shows one cell"
        now = [cell.source for cell in parse_notebook(PATH, (project / PATH).read_bytes()).cells]
        then = [cell.source for cell in parse_notebook(PATH, base).cells]
        assert now == [*then[:7], "print(split)", *then[8:]]

        [left] = (await ask_diff(engine, session)).change.hunks
        assert left.yours
        await resolve(engine, session, left.id)
        cells = parse_notebook(PATH, (project / PATH).read_bytes()).cells
        assert (len(cells), cells[40].source) == (41, "# My end")
        validate((project / PATH).read_bytes())
    finally:
        await engine.close()


async def test_the_preview_and_a_mention_of_its_lines_show_the_same_cells(tmp_path, project):
    engine = Engine(project, options=EngineOptions(watch=False, model="scripted/demo"))
    try:
        opened = await engine.submit(cmd.SessionOpen())
        assert isinstance(opened, cmd.Ack), opened
        preview = await engine.query(q.FileQuery(session=opened.session, path=PATH))
        assert isinstance(preview, q.FileAnswer)
        assert (preview.language, preview.size, preview.problem) == ("python", len(read_notebook("course")), "")
        lines = preview.text.split("\n")
        at = next(number for number, line in enumerate(lines, 1) if line.startswith("def "))
        answer = await engine.query(q.PromptContextQuery(session=opened.session, text=f"see @{PATH}:{at}-{at}"))
        assert isinstance(answer, q.PromptContextAnswer)
        assert [(item.start, item.end) for item in answer.items if item.path == PATH] == [(at, at)]
        refused = await engine.query(q.PromptContextQuery(session=opened.session, text=f"@{PATH}:{len(lines) + 1}"))
        assert isinstance(refused, q.PromptContextAnswer)
        assert f"has {len(lines) - 1} lines" in str(refused)
    finally:
        await engine.close()


async def test_a_notebook_of_50_mb_is_named_by_its_size_and_never_parsed(tmp_path, project):
    data = json.loads(read_notebook("course"))
    data["cells"].append({"cell_type": "raw", "metadata": {}, "source": "A" * 50_000_000})
    (project / "large.ipynb").write_text(json.dumps(data))
    (project / "broken.ipynb").write_text('{"nbformat": 4, "cells": [')
    engine = Engine(project, options=EngineOptions(watch=False, model="scripted/demo"))
    try:
        large = await engine.query(q.FileQuery(session="", path="large.ipynb"))
        assert isinstance(large, q.FileAnswer)
        assert (large.text, large.problem[:11]) == ("", "The file ha")
        broken = await engine.query(q.FileQuery(session="", path="broken.ipynb"))
        assert isinstance(broken, q.FileAnswer)
        assert (broken.text, broken.problem) == ('{"nbformat": 4, "cells": [', "")
    finally:
        await engine.close()
