from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from core.protocol.events import DiagnosticsReported
from core.protocol.language import Diagnostic
from tests.support import recorded
from tests.tui.review_case import CASES, PRICES, TESTS, ReviewApp, diff_of
from tui.review.diff.layout import Remarks, clean_lines, layout_diff
from tui.review.diff.view import DiffView
from tui.widgets.diagnostics import build_diagnostic_badges, describe_hunk, format_diagnostic, summarize_diagnostics
from tui.widgets.text_rows import measure_text

PATH = PRICES.change.path
LONG = 'Argument to bound method "quantize" is incorrect: Expected "Decimal | None", found "str" of the other locale'


def diagnostic(line: int, message: str = "Name `Item` used when not defined", **more: object) -> Diagnostic:
    fields: dict[str, object] = {"column": 1, "code": "unresolved-reference", "source": "ty", **more}
    return Diagnostic(path=PATH, line=line, message=message, **fields)  # type: ignore[arg-type]


def report(*diagnostics: Diagnostic, sources: tuple[str, ...] = ("ty",)) -> DiagnosticsReported:
    return DiagnosticsReported(path=PATH, diagnostics=diagnostics, sources=sources)


FOUND = report(
    diagnostic(10, column=26, end_line=10, end_column=30),
    diagnostic(135, LONG, column=16, code="invalid-argument-type", end_line=135, end_column=59),
    diagnostic(135, "`value` is never read", severity="warning", code="F841", source="ruff"),
    diagnostic(240, "`total` is not defined here any more"),
)


def lay_out(*diagnostics: Diagnostic, room: int = 0, two: bool = False) -> list[tuple[str, str, str]]:
    page = layout_diff(PRICES, clean_lines(PRICES), Remarks(diagnostics=diagnostics), room=room, is_split=two)
    texts = [line.text for line in clean_lines(PRICES)]
    return [(row.kind, row.severity, row.text or (texts[row.right] if row.right >= 0 else "")) for row in page.rows]


@pytest.mark.parametrize("two", [False, True], ids=["one", "two"])
def test_what_is_found_stands_below_its_line_and_what_is_out_of_sight_at_the_end(two):
    rows = lay_out(*FOUND.diagnostics, two=two)
    at = rows.index(("line", "", "        self.items: list[Item] = []"))
    assert rows[at + 1] == ("diagnostic", "error", "Name `Item` used when not defined  (ty unresolved-reference)")
    below = [row for row in rows if row[0] == "diagnostic"]
    assert [severity for _, severity, _ in below] == ["error", "error", "warning", "error"]
    assert rows[-1] == (
        "diagnostic",
        "error",
        "line 240: `total` is not defined here any more  (ty unresolved-reference)",
    )


def test_a_line_without_a_number_is_the_whole_file():
    assert lay_out(diagnostic(0, "cannot be parsed"))[-1][2].startswith("cannot be parsed")


def test_a_flood_of_diagnostics_is_bounded_and_long_ones_are_wrapped():
    rows = [row for row in lay_out(*(diagnostic(135, "x " * 5_000) for _ in range(900)), room=40) if row[1]]
    assert len(rows) == 3 * 4 + 1
    assert rows[-1][2] == "… and 897 more here"
    assert all(measure_text(row[2]) <= 40 for row in rows)
    assert rows[3][2].endswith("…")


def test_what_a_server_says_is_text():
    hostile = format_diagnostic(diagnostic(1, "[red]no\x1b[2J\n\u202eway[/]", code="\x07", source="a\nb"))
    assert hostile.isprintable()
    assert hostile.startswith("[red]no␛[2J ‹U+202E›way[/]")


def test_badges_count_what_is_not_listed_as_well():
    cut = DiagnosticsReported(path=PATH, diagnostics=(diagnostic(1),), more_errors=1_400, more_warnings=7)
    assert [text.strip() for text, _ in build_diagnostic_badges(cut)] == ["✗ 1,401 errors", "! 7 warnings"]
    assert summarize_diagnostics({PATH: cut})[PATH][0] == "✗999"


def test_badges_count_errors_and_warnings_and_evidence_needs_a_server():
    assert [text.strip() for text, _ in build_diagnostic_badges(FOUND)] == ["✗ 3 errors", "! 1 warning"]
    assert build_diagnostic_badges(report()) == build_diagnostic_badges(None) == []
    first, second, third, _ = PRICES.change.hunks
    assert describe_hunk(report(), first)[0].strip() == "✓ 0 new errors (ty)"
    assert describe_hunk(report(sources=()), first)[0] == ""
    assert describe_hunk(None, first)[0] == ""
    assert describe_hunk(FOUND, second)[0].strip() == "✗ 1 new error"
    assert describe_hunk(FOUND, first)[0] == ""  # nothing in it, but it may have made those elsewhere
    assert describe_hunk(report(diagnostic(135, severity="warning")), third)[0].strip() == "! 1 new warning"
    assert summarize_diagnostics({PATH: FOUND, "b.py": report()}) == {PATH: ("✗3", "bold $text-error")}


def shown(app: ReviewApp) -> list[str]:
    view = app.query_one(DiffView)
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def examined(pilot: Pilot[None], *reports: DiagnosticsReported) -> None:
    app = pilot.app
    assert isinstance(app, ReviewApp)
    app.pane.browser.set_surroundings((), {}, {report.path: report for report in reports}, ({}, {}))
    app.pane.set_changes(app.changes)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def test_what_is_found_comes_and_goes_without_moving_the_hunk():
    app = ReviewApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await examined(pilot)
        await pilot.press("j")
        before = next(y for y, row in enumerate(shown(app)) if "2/4" in row)
        await examined(pilot, FOUND)
        rows = shown(app)
        assert rows[before].startswith("▌ hunk 2/4")
        assert "✗ 1 new error" in rows[before]
        at = next(y for y, row in enumerate(rows) if "self.items: list[Item]" in row)
        assert "✗" in rows[at][:12]
        assert "Name `Item` used when not defined" in rows[at + 1]
        await examined(pilot, report())
        assert "Name `Item`" not in "\n".join(shown(app))
        assert "✓ 0 new errors (ty)" in shown(app)[before]


async def test_the_characters_that_are_meant_are_underlined_behind_tabs_too():
    app = ReviewApp([diff_of(PATH, [("-+", "a=>\tb = cd")])])
    async with app.run_test(size=(80, 24)) as pilot:
        await examined(pilot, report(diagnostic(1, column=6, end_line=1, end_column=8)))
        row = next(strip for strip in map(app.query_one(DiffView).render_line, range(6)) if "b = cd" in strip.text)
        assert "".join(segment.text for segment in row if segment.style is not None and segment.style.underline) == "cd"


async def with_diagnostics(pilot: Pilot[None]) -> None:
    await examined(pilot, FOUND, replace(report(), path=TESTS.change.path))
    await pilot.press("j", "j")


async def with_diagnostics_split(pilot: Pilot[None]) -> None:
    await with_diagnostics(pilot)
    await pilot.press("v")


async def with_diagnostics_listed(pilot: Pilot[None]) -> None:
    await with_diagnostics(pilot)
    await pilot.press("l")


@pytest.mark.parametrize(
    ("size", "before"),
    [
        pytest.param((60, 16), with_diagnostics, id="narrow"),
        pytest.param((80, 24), with_diagnostics, id="small"),
        pytest.param((120, 40), with_diagnostics, id="wide"),
        pytest.param((200, 60), with_diagnostics_split, id="split"),
        pytest.param((80, 24), with_diagnostics_listed, id="listed"),
    ],
)
def test_diagnostics_look_as_they_did(snap_compare, size, before):
    assert snap_compare(ReviewApp(CASES), terminal_size=size, run_before=before)


async def test_the_review_and_the_tree_follow_what_is_reported(stage):
    async with stage([*recorded.opening(), *recorded.turn()], size=(160, 40)) as on:
        path = next(iter(on.screen.state.changes))
        await on.until(lambda: on.panes.review is not None)
        await on.emit(DiagnosticsReported(path=path, diagnostics=(diagnostic(1),), sources=("ty",)))
        await on.until(lambda: on.panes.review.browser._diagnostics)
        assert on.screen.query_one("FileTree")._diagnostics == {path: ("✗1", "bold $text-error")}
