"""All that waits as a list: directories where there are many, deletions summed up, bulks on a line, found by words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.protocol import events as e
from core.protocol.review import Bulk, Change, Check, FileState, Hunk, Operation, Origin
from tests.support import recorded
from tests.tui.review_case import CASES, PRICES, ReviewApp
from tests.tui.test_review import resolved, settle, text_of
from tui.review import messages as review_messages
from tui.review.change_list import ChangeList
from tui.review.descriptions import build_badges, describe_attributes, describe_bulk
from tui.review.list_rows import build_rows

HUNK = Hunk(id="h", old_start=1, old_lines=1, new_start=1, new_lines=1)
NPM = Origin(command="npm install", tool="run_terminal_cmd")
MODULES = Bulk(root="node_modules", kind="generated", files=3210, bytes=48_000_000, origin=NPM)
GIT = Bulk(root=".git", kind="git", files=14, bytes=9_000, origin=Origin(command="git commit -m x"))


def change(path: str, operation: Operation = "edit", **more: object) -> Change:
    base = FileState(kind="absent", mode=0) if operation == "create" else FileState(blob="a", size=9)
    pending = FileState(kind="absent", mode=0) if operation == "delete" else FileState(blob="b", size=10)
    fields: dict[str, object] = {"base": base, "pending": pending, "hunks": (HUNK,), "added": 1}
    return Change(path=path, operation=operation, **{**fields, **more})  # type: ignore[arg-type]


def names(rows: object) -> list[str]:
    return [f"{row.kind[0]} {row.name}" for row in rows]  # type: ignore[attr-defined]


def drawn(listed: ChangeList) -> list[str]:
    return [listed.render_line(y).text.rstrip() for y in range(listed.count_rows())]


def around(app: ReviewApp, *bulks: Bulk) -> None:
    app.pane.browser.set_surroundings(bulks, {}, {}, ({}, {}))
    app.pane.set_changes(app.changes)


def test_a_directory_has_a_row_once_it_holds_two_files():
    assert names(build_rows([change("src/a.py"), change("docs/b.md"), change("c.py")], ())) == [
        "f c.py",
        "f docs/b.md",
        "f src/a.py",
    ]
    assert names(build_rows([change("src/a.py"), change("src/b.py")], ())) == ["d src", "f src/a.py", "f src/b.py"]
    many = [change(f"src/{part}/{number:02}.py") for part in "ab" for number in range(20)]
    rows = build_rows([*many, change("top.py")], ())
    assert [row.name for row in rows if row.kind == "directory"] == ["src", "src/a", "src/b"]
    assert len(rows) == 44
    closed = build_rows([*many, change("top.py")], (), toggled_names={"src/a"})
    assert len(closed) == 24


def test_a_directory_whose_files_are_all_in_one_below_it_has_no_row_of_its_own():
    deep = [change(f"src/core/deep/{name}.py") for name in ("one", "two")]
    assert names(build_rows(deep, ()))[0] == "d src/core/deep"
    rows = build_rows([*deep, change("src/core/a.py"), change("src/core/wide/b.py"), change("docs/a.md")], ())
    assert [(row.name, row.below, row.depth, len(row.members)) for row in rows if row.kind == "directory"] == [
        ("src/core", "", 0, 4),
        ("src/core/deep", "src/core", 1, 2),
    ]
    assert ("src/core/wide/b.py", "src/core") in [(row.name, row.below) for row in rows]
    closed = build_rows([*deep, change("src/core/a.py")], (), toggled_names={"src/core"})
    assert names(closed) == ["d src/core"]


def test_what_is_deleted_below_a_directory_is_summed_up_in_it_and_judged_with_it():
    deleted = [change(f"src/old/{name}.py", "delete") for name in "abc"]
    rows = build_rows([change("src/new.py"), *deleted], ())
    assert [(row.name, row.depth, row.is_deleted, row.members) for row in rows] == [
        ("src", 0, False, (0, 1, 2, 3)),
        ("src/new.py", 1, False, (0,)),
        ("src/old", 1, True, (1, 2, 3)),
    ]


async def test_a_name_that_does_not_fit_is_cut_with_a_mark_and_keeps_its_end():
    app = ReviewApp([])
    async with app.run_test(size=(40, 12)) as pilot:
        path = "a/very/long/way/down/to/where/it/is/kept/prices.py"
        app.pane.set_changes((change(path, check=Check(call="c", command="pytest", exit_code=0, kind="tests")),))
        await settle(pilot, "l")
        (row,) = [line for line in drawn(app.query_one(ChangeList)) if "prices.py" in line]
        assert "…" in row
        assert "prices.py" in row
        assert "✓ passed" in row


async def test_what_stands_behind_a_name_gives_way_first_and_says_that_it_goes_on():
    app = ReviewApp([])
    async with app.run_test(size=(60, 12)) as pilot:
        around(app, replace(MODULES, conflict="It was edited on disk meanwhile, in many places."))
        await settle(pilot)
        (row,) = [line for line in drawn(app.query_one(ChangeList)) if "node_modules" in line]
        assert "node_modules · 3,210 files" in row
        assert row.split("!")[0].rstrip().endswith("…")


def test_a_deleted_directory_is_one_line_that_can_be_opened():
    deletions = [change(f"dist/sub/{number}.js", "delete") for number in range(12)]
    rows = build_rows([*deletions, change("src/a.py")], ())
    assert names(rows) == ["d dist", "f src/a.py"]
    assert (rows[0].is_deleted, rows[0].members) == (True, tuple(range(12)))
    assert len(build_rows([*deletions, change("src/a.py")], (), toggled_names={"dist"})) == 14
    other_rows = build_rows([*deletions, change("dist/index.js")], ())
    assert names(other_rows) == ["d dist", "f dist/index.js", "d dist/sub"]


def test_words_find_paths_commands_and_bulks():
    changes = [change("src/app.py"), change("tests/test_app.py"), change("lock.json", origin=NPM)]
    assert names(build_rows(changes, (MODULES,), pattern="APP test")) == ["f tests/test_app.py"]
    assert names(build_rows(changes, (MODULES,), pattern="npm")) == ["f lock.json"]
    assert names(build_rows(changes, (MODULES,), pattern="mod")) == ["b node_modules"]


async def test_a_directory_with_nothing_left_in_it_is_no_bulk(stage):
    empty = Bulk(root=".vscode", kind="generated", files=0, bytes=0)
    async with stage([*recorded.opening(), e.LayersChanged(layers=("1",), bulks=(MODULES, empty))]) as on:
        assert [bulk.root for bulk in on.screen.state.bulks] == ["node_modules"]


@pytest.mark.parametrize(
    ("bulk", "words"),
    [
        (MODULES, "node_modules · 3,210 files · 48 MB · generated by `npm install`"),
        (GIT, "git state · 14 files of .git · by `git commit -m x`"),
        (Bulk(root="out", kind="generated", files=1, bytes=12, deleted=3), "out · 1 file · 12 B · 3 deleted"),
        (
            Bulk(root="out", kind="generated", files=1, bytes=12, stale="made from an older Cargo.toml"),
            "out · 1 file · 12 B · may be stale: made from an older Cargo.toml",
        ),
    ],
)
def test_a_bulk_is_one_line_in_words(bulk, words):
    assert "".join(text for text, _ in describe_bulk(bulk)) == words


def test_what_is_special_is_told_in_plain_words():
    image = change(
        "a.png", base=FileState(blob="a", size=12_000), pending=FileState(blob="b", size=14_200), binary=True
    )
    assert describe_attributes(image) == ["binary 12 kB → 14 kB"]
    script = change("run.sh", "mode", base=FileState(mode=0o644), pending=FileState(mode=0o755))
    assert describe_attributes(script) == ["mode 644 → 755"]
    assert describe_attributes(change("l", pending=FileState(kind="symlink", blob="t"))) == ["file → symbolic link"]
    assert describe_attributes(change("x", "create", pending=FileState(mode=0o755))) == ["executable"]
    assert [text.strip() for text, _ in build_badges(change("AGENTS.md", "create", protected=True))] == [
        "! protected",
        "create",
    ]
    assert [text.strip() for text, _ in build_badges(change("Makefile", risk="runs"))] == ["⚑ runs"]
    assert [text.strip() for text, _ in build_badges(change("a.py", broken="line 2: ')' is missing"))] == ["✗ syntax"]


async def test_l_shows_the_list_and_enter_goes_to_the_hunks_of_a_file():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        around(app, MODULES)
        await settle(pilot, "l")
        listed = app.query_one(ChangeList)
        assert (listed.has_focus, app.pane.browser.diff_view.display) == (True, False)
        assert "node_modules · 3,210 files" in drawn(listed)[-1]
        view = await settle(pilot, "down", "j", "up", "enter")
        assert (view.has_focus, view.diff.change.path) == (True, CASES[1].change.path)
        assert not listed.display


async def test_rows_of_the_list_are_judged_with_the_keys_of_hunks():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        around(app, MODULES)
        await settle(pilot, "l", "a", "R", "G", "r")
        ids = tuple(hunk.id for hunk in PRICES.change.hunks)
        assert resolved(app)[0] == (PRICES.change.path, ids, "accept", "")
        assert resolved(app)[1][2] == "reject"
        assert (app.posted[-1].root, app.posted[-1].verdict) == ("node_modules", "reject")
        await settle(pilot, "r")
        assert sum(isinstance(message, review_messages.BulkResolved) for message in app.posted) == 1
        app.pane.reopen("node_modules")
        await settle(pilot, "r")
        assert sum(isinstance(message, review_messages.BulkResolved) for message in app.posted) == 2


async def test_a_directory_is_judged_without_what_is_protected_in_it():
    app = ReviewApp([])
    async with app.run_test(size=(120, 40)) as pilot:
        many = tuple(change(f"src/{number:02}.py", protected=number == 5) for number in range(30))
        app.pane.set_changes(many)
        app.now += 1
        await settle(pilot, "l", "up", "up", "a")
        (asked,) = app.posted
        assert (len(asked.paths), "src/05.py" in asked.paths, asked.verdict) == (29, False, "accept")
        notices = [notification.message for notification in app._notifications]
        assert notices == ["1 protected file: decide on it separately."]
        assert "00.py …" in "\n".join(drawn(app.query_one(ChangeList)))


async def test_n16a_a_directory_that_moved_is_one_row_that_says_so():
    app = ReviewApp([])
    async with app.run_test(size=(120, 40)) as pilot:
        moved = [
            change(f"new/pkg/{number:02}.py", "rename", renamed_from=f"pkg/{number:02}.py", added=0)
            for number in range(100)
        ]
        zz = (change("zz/c.py"), change("zz/d.py"))
        app.pane.set_changes((*moved, change("zz/a.py"), change("zz/b.py", "rename", renamed_from="c.py"), *zz))
        app.now += 1
        await settle(pilot, "l", "g")
        lines = drawn(app.query_one(ChangeList))
        assert lines[0].split("▾ ")[1].split("  ") == ["pkg/ → new/pkg/", "100 files renamed"]
        assert any(line.split("▾ ")[-1].startswith("zz/  4 files") and "renamed" not in line for line in lines)
        await settle(pilot, "a")
        (asked,) = app.posted
        assert (len(asked.paths), asked.verdict) == (100, "accept")


async def test_slash_finds_and_escape_shows_all_again():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "/", *"tests")
        listed = app.query_one(ChangeList)
        assert [row.name for row in listed._rows] == ["tests/test_prices.py"]
        view = await settle(pilot, "enter", "enter")
        assert view.diff.change.path == "tests/test_prices.py"
        await settle(pilot, "/", *"zzz")
        assert any("No matches" in line for line in drawn(listed))
        await settle(pilot, "escape")
        assert [row.name for row in listed._rows if row.kind == "file"] == sorted(diff.change.path for diff in CASES)


async def test_capital_a_is_for_all_that_a_filter_shows_and_a_for_its_row():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "/", *"shop", "enter")
        assert str(app.query_one(".review--progress").render()).strip() == "3 of 4 files  / shop"
        await settle(pilot, "A")
        (asked,) = app.posted
        assert (asked.verdict, asked.pattern, asked.by_hunk) == ("accept", "shop", False)
        assert [(one.path, ids) for one, ids in asked.hunks] == [
            (diff.change.path, tuple(hunk.id for hunk in diff.change.hunks))
            for diff in CASES
            if "shop" in diff.change.path
        ]
        app.posted.clear()
        await settle(pilot, "G", "r")
        assert [command.path for command in app.posted] == ["src/shop/rounding.py"]
        app.posted.clear()
        await settle(pilot, "L", "R")
        (asked,) = app.posted
        assert (asked.verdict, asked.by_hunk) == ("reject", True)
        assert [(one.path, len(ids)) for one, ids in asked.hunks] == [("src/shop/prices.py", 4), ("src/shop/old.py", 1)]


async def test_escape_clears_a_filter_before_it_leaves_the_review_in_the_lines_too():
    app = ReviewApp()
    left: list[object] = []
    app.action_leave = lambda: left.append(1)
    async with app.run_test(size=(120, 40)) as pilot:
        app.bind("escape", "leave")
        await settle(pilot, "/", *"tests", "enter", "enter")
        line = app.query_one(".review--progress")
        assert not app.query_one(ChangeList).display
        assert "/ tests" in str(line.render())
        await settle(pilot, "escape")
        assert "/ tests" not in str(line.render())
        assert not left
        await settle(pilot, "l")
        assert len([row for row in app.query_one(ChangeList)._rows if row.kind == "file"]) == len(CASES)
        await settle(pilot, "escape")
        assert left


async def test_a_directory_is_judged_with_the_keys_of_a_file():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        shop = ("src/shop/old.py", "src/shop/prices.py", "src/shop/rounding.py")
        for key, verdict in {"a": "accept", "R": "reject"}.items():
            app.pane.reopen()
            await settle(pilot, *(["l"] if key == "a" else []), "g")
            assert drawn(app.query_one(ChangeList))[0].split("  ")[:2] == ["▌▾ src/shop/", "3 files · 1 deleted"]
            app.posted.clear()
            await settle(pilot, key)
            (asked,) = app.posted
            assert (tuple(sorted(asked.paths)), asked.path, asked.verdict) == (shop, "", verdict)
            assert "…" in drawn(app.query_one(ChangeList))[0]


async def test_directories_fold_and_clicks_choose_and_open():
    app = ReviewApp([])
    async with app.run_test(size=(120, 40)) as pilot:
        app.pane.set_changes(tuple(change(f"src/{number:02}.py") for number in range(30)))
        await settle(pilot, "l", "g", "space")
        listed = app.query_one(ChangeList)
        assert len(listed._rows) == 1
        for key, count in {"right": 31, "left": 1}.items():
            await settle(pilot, key)
            assert len(listed._rows) == count
        await settle(pilot, "enter", "down")
        assert (len(listed._rows), listed.current_row.name) == (31, "src/00.py")
        await pilot.click(ChangeList, offset=(10, 4))
        assert listed.current_row.name == "src/03.py"
        app.diffs = {"src/03.py": PRICES}
        await pilot.click(ChangeList, offset=(10, 4))
        await settle(pilot)
        assert not listed.display


async def test_bulks_alone_open_the_list():
    app = ReviewApp([])
    async with app.run_test(size=(120, 40)) as pilot:
        around(app, GIT)
        await settle(pilot)
        assert app.query_one(ChangeList).display
        app.now += 1
        await settle(pilot, "l")
        assert app.query_one(ChangeList).display
        assert "1 in bulk" in str(app.query_one(".review--progress").render())
        await settle(pilot, "a")
        (asked,) = app.posted
        assert (asked.root, asked.verdict) == (".git", "accept")


async def test_a_layer_of_a_thousand_files_opens():
    layer = tuple(change(f"src/pkg{number % 40:02}/{number:04}.py") for number in range(1_000))
    app = ReviewApp([])
    async with app.run_test(size=(120, 40)) as pilot:
        app.pane.set_changes(layer)
        await settle(pilot, "l", "j", "j")
        assert len(app.query_one(ChangeList)._rows) == 1_041


async def test_when_all_is_settled_the_list_gives_way_to_a_calm_text():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "l")
        app.pane.set_changes(())
        view = await settle(pilot)
        assert not app.query_one(ChangeList).display
        assert "Nothing to review" in text_of(view)
        assert view.has_focus


async def test_the_foot_of_the_list_names_no_key_that_does_nothing(stage):
    events = [*recorded.opening(), e.ChangeProposed(change=change("src/a.py"))]
    async with stage([*events, e.LayersChanged(layers=("1",), bulks=(MODULES,))], size=(80, 24)) as on:
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.screen.query(ChangeList))
        await on.pilot.press("l")
        foot = on.screen.query_one("#side-hint")
        await on.until(lambda: "enter open" in str(foot.render()))
        await on.pilot.press("G")
        await on.until(lambda: "enter open" not in str(foot.render()))
        assert "a accept row" in str(foot.render())
