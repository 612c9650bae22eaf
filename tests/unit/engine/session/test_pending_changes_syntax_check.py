from __future__ import annotations

import asyncio

import pytest

from core.engine.session.pending_changes import MAX_BYTES, SyntaxChecker
from core.protocol import events as ev
from core.shadow.content.blob_store import BlobStore
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from core.workspace import Workspace


class Desk:
    """A shadow whose changes are looked at, as a session has it."""

    def __init__(self, root) -> None:
        self.project, state = root / "project", root / "state"
        self.project.mkdir()
        blobs = BlobStore(state / "blobs")
        self.review = ReviewState()
        self.shadow = Shadow(Workspace(self.project, state_dir=state), blobs, self.emit, self.review)
        self.flagging = SyntaxChecker(self.review, blobs, self.emit)
        self.count = 0

    def emit(self, event: ev.AnyEvent) -> None:
        self.count += 1
        self.review.apply(event)
        if hasattr(self, "flagging") and isinstance(event, ev.ChangeProposed | ev.ChangeRevised):
            self.flagging.observe(event)

    async def looked(self) -> dict[str, str]:
        """What is flagged once everything was looked at."""
        while self.flagging._tasks.is_busy:
            await asyncio.wait(set(self.flagging._tasks._tasks))
        return {path: change.broken for path, change in self.review.changes.items()}


@pytest.mark.parametrize(
    ("path", "before", "after", "broken"),
    [
        ("a.py", "x = 1\n", "x = (1\n", "line 1: "),
        ("a.py", None, "def f(:\n", "line 1: "),
        ("a.json", '{"a": 1}', '{"a": 1,,}', "line 1: "),
        ("a.py", "x = (1\n", "x = ((1\n", ""),
        ("a.py", "x = 1\n", "x = 2\n", ""),
        ("a.txt", "x = 1\n", "x = (1\n", ""),
        ("a.py", "x = 1\n", "x = (1\n" + "# more\n" * (MAX_BYTES // 7 + 1), ""),
        ("a.py", "x = 1\n", "x = (1\0\n", ""),
    ],
    ids=["broken", "new", "json", "broken before", "sound", "no language", "large", "binary"],
)
async def test_what_parsed_and_does_not_any_more_is_flagged(tmp_path, path, before, after, broken):
    desk = Desk(tmp_path)
    if before is not None:
        (desk.project / path).write_text(before)
    desk.shadow.write(path, after.encode(), None)
    flagged = await desk.looked()
    assert flagged[path].startswith(broken)
    assert bool(flagged[path]) is bool(broken)


async def test_an_edit_that_mends_it_takes_the_flag_away_and_an_edit_meanwhile_is_looked_at_alone(tmp_path):
    desk = Desk(tmp_path)
    (desk.project / "a.py").write_text("x = 1\n")
    desk.shadow.write("a.py", b"x = (1\n", None)
    assert (await desk.looked())["a.py"] != ""
    for text in (b"x = (2\n", b"x = (3\n", b"x = 4\n"):
        desk.shadow.write("a.py", text, None)
    before = desk.count
    assert await desk.looked() == {"a.py": ""}
    assert desk.count == before


async def test_nothing_is_told_after_the_end(tmp_path):
    desk = Desk(tmp_path)
    desk.shadow.write("a.py", b"x = (1\n", None)
    desk.flagging.close()
    desk.shadow.write("b.py", b"x = (1\n", None)
    assert await desk.looked() == {"a.py": "", "b.py": ""}


def test_without_an_event_loop_nothing_is_looked_at(tmp_path):
    desk = Desk(tmp_path)
    desk.shadow.write("a.py", b"x = (1\n", None)
    assert {path: change.broken for path, change in desk.review.changes.items()} == {"a.py": ""}
