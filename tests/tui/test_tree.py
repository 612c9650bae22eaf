from __future__ import annotations

import gc

import pytest
from textual.pilot import Pilot

from core.protocol.queries import TreeAnswer, TreeEntry
from tests.tui.panes_case import MARKS, PaneApp, tree_app
from tui.files.file_tree import MAX_DEPTH, MAX_ENTRIES, DirectoryRefused, FileTree
from tui.files.matches import shorten_directory
from tui.files.pane import FilePane, FindInput


async def settle(pilot: Pilot[None], *keys: str) -> FileTree:
    for key in keys:
        await pilot.press(key)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return pilot.app.query_one(FileTree)


def rows(tree: FileTree) -> list[str]:
    return [tree.render_line(y).text.rstrip() for y in range(min(tree.last_line + 1, tree.size.height))]


def names(tree: FileTree) -> list[str]:
    return [line.node.data.path for line in tree._tree_lines if line.node.data]


async def open_shop(pilot: Pilot[None]) -> FileTree:
    await settle(pilot)
    return await settle(pilot, "down", "down", "down", "right", "right", "right")


async def test_only_what_is_open_is_read():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        await settle(pilot)
        assert app.loads == [""]
        tree = await open_shop(pilot)
        assert app.loads == ["", "src", "src/shop"]
        assert "src/shop/prices.py" in names(tree)


async def test_what_is_read_anew_before_it_was_begun_leaves_nothing_unawaited(recwarn):
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot)
        tree._start_reading(tree.root)
        tree._start_reading(tree.root)
        while len(app.loads) < 2:
            await pilot.pause()
        gc.collect()
    assert [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)] == []


async def test_left_folds_and_goes_up_and_an_open_directory_is_not_read_twice():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await open_shop(pilot)
        await settle(pilot, "left", "left")
        assert tree.cursor_node.data.path == "src"
        await settle(pilot, "left")
        assert "src/shop" not in names(tree)
        await settle(pilot, "right")
        assert app.loads.count("src") == 1


async def test_a_file_that_is_looked_for_is_walked_to_and_shown_and_escape_leads_back_to_the_tree():
    paths = ("src/main.py", "src/shop/prices.py", "src/shop/zones.py")

    async def find(_: str) -> tuple[str, ...]:
        return paths

    app = PaneApp(lambda app: FilePane(app.tree, find))
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot, "/", "s", "down", "down", "up", "enter")
        assert [message.path for message in app.posted] == ["src/shop/prices.py"]
        assert tree.has_focus
        assert tree.cursor_node.data.path == "src/shop/prices.py"
        await settle(pilot, "/", "s", "escape")
        assert (tree.has_focus, tree.display, app.query_one(FindInput).display) == (True, True, False)
        assert len(app.posted) == 1


async def test_enter_and_a_click_choose_a_file_but_not_a_directory():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot, "down", "enter")
        assert app.posted == []
        at = names(tree).index("README.md")
        await pilot.click(FileTree, offset=(4, at))
        await settle(pilot, "enter")
        assert [message.path for message in app.posted] == ["README.md", "README.md"]


async def test_pending_changes_are_marked_and_what_they_delete_is_struck_through():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        await open_shop(pilot)
        tree = app.query_one(FileTree)
        tree.set_marks(MARKS)
        lines = rows(await settle(pilot))
        assert any(row.endswith("prices.py ●") for row in lines)
        assert any(row.endswith("rounding.py +") for row in lines)
        assert any(row.endswith("old.py -") for row in lines)
        assert any(row.endswith("src/ ·") for row in lines)
        at = next(y for y, row in enumerate(lines) if "old.py" in row)
        assert any(s.style and s.style.strike for s in tree.render_line(at) if "old.py" in s.text)
        tree.set_marks({})
        assert not any("old.py" in row or row.endswith("●") for row in rows(await settle(pilot)))


async def test_new_and_lost_files_show_while_open_directories_stay_open():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await open_shop(pilot)
        cursor = tree.cursor_node.data.path
        app.project["src"] = [("app", "directory", False), ("shop", "directory", False)]
        tree.refresh_paths(["src/main.py", "docs/unopened.md"])
        entry_names = names(await settle(pilot))
        assert "src/main.py" not in entry_names
        assert entry_names.index("src/app") < entry_names.index("src/shop") < entry_names.index("src/shop/prices.py")
        assert tree.cursor_node.data.path == cursor
        assert "docs" not in app.loads


async def test_ignored_names_are_dimmed():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot)
        colours = {s.text: s.style.color for y in range(6) for s in tree.render_line(y) if s.style}
        assert colours["debug.log"] != colours["README.md"]


async def test_hostile_names_are_shown_and_chosen_as_they_are_t1_p10():
    app = tree_app()
    name = "\x1b[31m[@click=app.quit]x[/]\u202e\n\x07.py"
    app.project[""] = [(name, "file", False), ("", "file", False), ("-rf", "file", False)]
    async with app.run_test(size=(60, 20)) as pilot:
        tree = await settle(pilot)
        assert all(row.isprintable() for row in rows(tree))
        assert "[@click=app.quit]x[/]" in rows(tree)[0]
        await pilot.click(FileTree, offset=(6, 0))
        await pilot.pause()
        assert [message.path for message in app.posted] == [name]


async def test_a_directory_of_any_size_shows_its_first_entries_and_counts_the_rest():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot)
        flat = tuple(TreeEntry(name=f"f{index}", kind="file") for index in range(MAX_ENTRIES + 7))

        async def load(path: str) -> TreeAnswer:
            return TreeAnswer(path=path, entries=flat, truncated=3)

        tree._load = load
        tree.refresh_paths(["f1"])
        await settle(pilot)
        assert tree.last_line == MAX_ENTRIES
        assert tree.root.children[-1].data.name == "… 10 more"


async def test_a_directory_that_cannot_be_read_is_told_and_can_be_tried_again():
    app = tree_app()
    del app.project["docs"]
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot, "down", "right")
        assert [notification.severity for notification in app._notifications] == ["warning"]
        app.project["docs"] = [("index.md", "file", False)]
        await settle(pilot, "left", "right")
        assert "docs/index.md" in names(tree)


async def test_a_directory_that_may_not_be_read_says_so_in_its_place_and_can_be_tried_again():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await settle(pilot)
        load, tree._load = tree._load, refuse
        await settle(pilot, "down", "right")
        assert names(tree)[:2] == ["docs", "docs/Permission denied."]
        assert not app._notifications
        tree._load = load
        await settle(pilot, "left", "right")
        assert names(tree)[:2] == ["docs", "docs/index.md"]


async def refuse(path: str) -> TreeAnswer:
    raise DirectoryRefused("Permission denied.")


async def test_when_anything_may_have_changed_what_is_open_is_read_again_and_the_rest_when_it_is_opened():
    app = tree_app()
    async with app.run_test(size=(40, 20)) as pilot:
        tree = await open_shop(pilot)
        tree._find_node("src/shop").collapse()
        before = len(app.loads)
        app.project["src"] = [("app", "directory", False), ("shop", "directory", False)]
        app.project["src/shop"] = [("new.py", "file", False)]
        tree.refresh_all()
        entry_names = names(await settle(pilot))
        assert "src/app" in entry_names
        assert "src/main.py" not in entry_names
        assert app.loads[before:] == ["", "src"]
        tree._find_node("src/shop").expand()
        entry_names = names(await settle(pilot))
        assert "src/shop/new.py" in entry_names
        assert "src/shop/prices.py" not in entry_names


async def marked(pilot: Pilot[None]) -> None:
    await open_shop(pilot)
    pilot.app.query_one(FileTree).set_marks(MARKS)
    await settle(pilot)


async def test_n15_directories_in_directories_are_opened_only_so_far_and_that_is_said():
    app = tree_app()
    deepest = "/".join("d" * (MAX_DEPTH + 1))
    for count in range(MAX_DEPTH + 20):
        app.project["/".join(["d"] * count)] = [("d", "directory", False)]
    async with app.run_test(size=(160, 40)) as pilot:
        tree = await settle(pilot)
        tree.reveal_path("d/" * 2_000 + "leaf")
        await settle(pilot)
        assert tree.cursor_node.data.path == deepest
        assert "use find for deeper files" in tree.cursor_node.data.name
        await settle(pilot, "right", "enter")
        assert max(map(len, names(tree))) == len(deepest)
        assert app.posted == []


@pytest.mark.parametrize("size", [(120, 40)])
def test_the_tree_looks_as_it_did(snap_compare, size):
    assert snap_compare(tree_app(), terminal_size=size, run_before=marked)


@pytest.mark.parametrize(
    ("directory", "others", "shown"),
    [
        ("src/app", [], "src/app"),
        ("packages/billing/src/main/models/of/all", ["packages/shop/src/main/models/of/all"], "…/billing/…"),
        ("packages/billing/src/main/models", ["packages/shop/src/main/views"], "…/billing/src/main/models"),
        ("one/two/three/four/five/six/seven/eight", [], "…e/four/five/six/seven/eight"),
    ],
)
def test_a_long_directory_keeps_what_tells_it_from_those_of_files_of_the_same_name(directory, others, shown):
    assert shorten_directory(directory, others, 28) == shown
