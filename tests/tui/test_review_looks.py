from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from core.notebooks.editing import delete_cell, insert_cell, replace_source
from core.notebooks.notebook import parse_notebook
from core.protocol.review import (
    Bulk,
    ChangeDiff,
    Check,
    Comment,
    ConflictRegion,
    ConflictSides,
    FileState,
    GitPreview,
    Origin,
)
from core.shadow.diff.diff_lines import build_diff
from core.shadow.diff.hunks import compute_hunks
from tests.support.notebook_files import read_notebook
from tests.tui.review_case import ADDED, CASES, PRICES, REMOVED, ReviewApp, diff_of
from tests.tui.test_review_list import GIT, MODULES, change
from tui.dialogs.comments import CommentsDialog
from tui.dialogs.conflict import ConflictDialog
from tui.dialogs.consent import ChangeConsentDialog, GitConsentDialog
from tui.dialogs.pages import ConfirmDialog

WHY = "The file on disk was changed at lines 134–135 after this change was made."
CLASH = replace(PRICES, change=replace(PRICES.change, conflict=WHY, protected=True))
TORN = replace(
    CASES[3], lines=(*CASES[3].lines[:-1], replace(CASES[3].lines[-1], text="]", eol="none")), note="shown in part"
)


async def painted(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def split_at_third(pilot: Pilot[None]) -> None:
    await pilot.press("v", "j", "j")
    await painted(pilot)


async def one_accepted(pilot: Pilot[None]) -> None:
    await pilot.press("j", "a")
    await painted(pilot)


@pytest.mark.parametrize(
    ("diffs", "size", "before"),
    [
        pytest.param(CASES, (120, 40), painted, id="unified"),
        pytest.param(CASES, (120, 40), split_at_third, id="split"),
        pytest.param(CASES, (60, 16), painted, id="narrow"),
        pytest.param(CASES, (120, 40), one_accepted, id="accepting"),
        pytest.param((CLASH, TORN), (120, 40), painted, id="conflict"),
        pytest.param((), (120, 40), painted, id="empty"),
    ],
)
def test_the_review_looks_as_it_did(snap_compare, diffs, size, before):
    assert snap_compare(ReviewApp(diffs), terminal_size=size, run_before=before)


def build_notebook_diff() -> ChangeDiff:
    """A notebook of which a cell was edited, one is gone, and one is new."""
    base = read_notebook("nbformat_4_5")
    cell = next(candidate for candidate in parse_notebook("", base).cells if candidate.outputs)
    pending = replace_source(parse_notebook("", base), cell, cell.source.replace("(", "(1, ", 1))
    pending = delete_cell(parse_notebook("", pending), parse_notebook("", pending).cells[1])
    cell_source = "## New\n\nof *two* lines"
    pending = insert_cell(
        parse_notebook("", pending), len(parse_notebook("", pending).cells), "markdown", cell_source, {}
    )
    pending = pending.replace(parse_notebook("", pending).cells[-1].id.encode(), b"0badcafe")
    state = FileState(blob="b", size=len(base))
    change = replace(PRICES.change, path="pages/course.ipynb", hunks=compute_hunks(base, pending), base=state)
    return build_diff(change, base, pending)


@pytest.mark.parametrize("size", [(120, 40), (60, 16)], ids=["wide", "narrow"])
def test_a_notebook_is_reviewed_as_its_cells(snap_compare, size):
    assert snap_compare(ReviewApp((build_notebook_diff(),)), terminal_size=size, run_before=painted)


SIZES = pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
PYTEST = Check(call="c", command="pytest -q", exit_code=0, kind="tests")
COMMENT = Comment(path=PRICES.change.path, hunk=PRICES.change.hunks[0].id, text="Why not round()?", start=5, lines=1)
WORKED = replace(
    PRICES,
    change=replace(
        PRICES.change,
        origin=Origin(tool="search_replace", turn="t", todo="d"),
        check=PYTEST,
        risk="runs whenever pytest starts here",
    ),
)
LISTED = (
    change("AGENTS.md", "create", protected=True, risk="changes what the agent may do", added=4, removed=0),
    *(change(f"dist/chunk{number}.js", "delete", added=0, removed=90) for number in range(12)),
    change("logo.png", binary=True, base=FileState(blob="a", size=12_000), pending=FileState(blob="b", size=14_200)),
    change("run.sh", "mode", base=FileState(blob="a"), pending=FileState(blob="a", mode=0o755), added=0),
    *(change(f"src/shop/{name}.py", check=PYTEST, added=12, removed=3) for name in ("basket", "prices", "tax")),
    *(change(f"tests/test_{number:02}.py", added=number, removed=1) for number in range(12)),
    change("tests/conftest.py", risk="runs whenever pytest starts here", check=replace(PYTEST, exit_code=1)),
)
SIDES = ConflictSides(
    path="src/shop/prices.py",
    base=FileState(),
    mine=FileState(),
    theirs=FileState(),
    clashes=(
        ConflictRegion(
            start=14,
            base=("    return floor(value * 100) / 100",),
            mine=("    return floor(value * 1000) / 1000",),
            theirs=("    cents = value.quantize(CENT)", "    return cents"),
            before=("def total(self):", "    value = sum(self.items)"),
        ),
        ConflictRegion(start=40, base=(), mine=("x",), theirs=("y",)),
    ),
)


async def worked_over(pilot: Pilot[None]) -> None:
    pane = pilot.app.query_one("ReviewPane")
    pane.browser.set_surroundings(
        (MODULES,), {(COMMENT.path, COMMENT.hunk): COMMENT}, {}, ({"t": 2}, {"d": "Round half up"})
    )
    pane.set_changes(pilot.app.changes)
    await painted(pilot)
    await pilot.press("J", "J")
    await painted(pilot)


async def listed(pilot: Pilot[None]) -> None:
    pane = pilot.app.query_one("ReviewPane")
    pane.browser.set_surroundings((MODULES, GIT), {}, {}, ({}, {}))
    pane.set_changes(LISTED)
    pilot.app.now += 1
    await pilot.press("l", "g", "j", "j")
    await painted(pilot)


async def listed_in_bulk(pilot: Pilot[None]) -> None:
    pane = pilot.app.query_one("ReviewPane")
    origin = Origin(command="python -m tools.vendor --all --refresh && git add -A")
    big = Bulk(root="data/prices.csv", kind="large", files=1, bytes=76_000_000, origin=origin)
    inside = replace(big, root="vendor/lib", kind="generated", files=300, risk="makes git run its contents")
    pane.browser.set_surroundings(
        (replace(big, conflict="It was edited on disk meanwhile."), inside, GIT), {}, {}, ({}, {})
    )
    pane.set_changes(LISTED[:1])
    pilot.app.now += 1
    await pilot.press("l", "G")
    await painted(pilot)


async def settling(pilot: Pilot[None]) -> None:
    pilot.app.push_screen(ConflictDialog(SIDES))
    await pilot.pause()
    await pilot.press("t", "k")
    await painted(pilot)


async def consenting(pilot: Pilot[None]) -> None:
    about = "It changes what the agent may do, or what it is told. Check every line before you accept."
    pilot.app.push_screen(ConfirmDialog("Accept AGENTS.md?", "accept it", explanation=about, no="keep pending"))
    await painted(pilot)


LONG = diff_of(
    ".vscode/tasks.json",
    [("-+", '=>{"tasks": [{"label": "build", "command": "make docs", "runOptions": {"runOn": "folderOpen"}}]}')],
    operation="create",
    protected=True,
    risk="runs automatically when an editor opens the project",
)
COMMITS = """\
commit 0e603f6494a854a25b94bf7ce14edea68a043aed
Author: A <a@b>

    Round [half] up

diff --git a/prices.py b/prices.py
index 64f56cac..f1886bf0 100644
--- a/prices.py
+++ b/prices.py
@@ -1,12 +1,12 @@
"""
PREVIEW = GitPreview(
    root=".git",
    moves=("HEAD: 2ac89889f4 → 0e603f6494", "refs/heads/main: 2ac89889f4 → 0e603f6494"),
    commits=1,
    text=COMMITS + "".join(f"-old {number}\n+new {number}\n" for number in range(12)),
    notes=("commit f505bdd615 “Round [half] up” is made again as 0e603f6494",),
)


async def deleting(pilot: Pilot[None]) -> None:
    pilot.app.push_screen(ChangeConsentDialog(REMOVED.change, REMOVED))
    await painted(pilot)


async def running_by_itself(pilot: Pilot[None]) -> None:
    pilot.app.push_screen(ChangeConsentDialog(LONG.change, LONG))
    await painted(pilot)


async def committing(pilot: Pilot[None]) -> None:
    pilot.app.push_screen(GitConsentDialog(PREVIEW))
    await painted(pilot)


async def not_committing(pilot: Pilot[None]) -> None:
    refused = "prices.py is pending in the review: decide that first."
    pilot.app.push_screen(GitConsentDialog(replace(PREVIEW, refused=refused, moves=(), notes=())))
    await painted(pilot)


async def sending(pilot: Pilot[None]) -> None:
    pilot.app.push_screen(
        CommentsDialog([COMMENT, replace(COMMENT, start=90, text="Two [/x] things:")], change=print, plans={})
    )
    await painted(pilot)


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("before", [worked_over, listed, listed_in_bulk, settling], ids=lambda each: each.__name__)
def test_the_second_storey_looks_as_it_did(snap_compare, size, before):
    app = LookApp((WORKED, ADDED, REMOVED))
    assert snap_compare(app, terminal_size=size, run_before=before)


async def directories(pilot: Pilot[None]) -> None:
    """Many changes below their directories, one of them folded, in conflict, protected or deleted, and a bulk."""
    app = pilot.app
    below_src = [change(f"src/shop/{name}.py") for name in ("basket", "prices", "rounding")]
    api = [
        change("src/api/v1/routes.py", conflict=WHY),
        change("src/api/v1/views.py", "create"),
        change("src/api/app.py"),
    ]
    gone = [change(f"src/old/{name}.py", "delete") for name in ("a", "b", "c")]
    tests = [change(f"tests/unit/test_{name}.py", added=12, removed=3) for name in ("api", "shop")]
    alone = [change("README.md"), change("docs/api.md"), change("tests/unit/AGENTS.md", protected=True)]
    app.pane.browser.set_surroundings((MODULES,), {}, {}, ({}, {}))
    app.pane.set_changes(tuple(sorted((*below_src, *api, *gone, *tests, *alone), key=lambda each: each.path)))
    await pilot.press("l", "g", "j", "j")
    await painted(pilot)


async def directory_folded(pilot: Pilot[None]) -> None:
    await directories(pilot)
    await pilot.press("j", "space", "a")
    await painted(pilot)


async def filtered(pilot: Pilot[None]) -> None:
    await directories(pilot)
    await pilot.press("/", *"src", "enter")
    await painted(pilot)


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("before", [directories, directory_folded, filtered], ids=lambda each: each.__name__)
def test_directories_and_what_a_filter_leaves_of_them_look_as_they_did(snap_compare, size, before):
    assert snap_compare(LookApp(()), terminal_size=size, run_before=before)


@pytest.mark.parametrize("before", [consenting, sending], ids=lambda each: each.__name__)
def test_the_dialogs_of_the_review_look_as_they_did(snap_compare, before):
    assert snap_compare(LookApp((WORKED,)), terminal_size=(80, 24), run_before=before)


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize(
    "before", [deleting, running_by_itself, committing, not_committing], ids=lambda each: each.__name__
)
def test_what_asks_before_it_is_accepted_looks_as_it_did(snap_compare, size, before):
    assert snap_compare(LookApp((WORKED,)), terminal_size=size, run_before=before)


class LookApp(ReviewApp):
    CSS_PATH = "../../tui/app.tcss"
