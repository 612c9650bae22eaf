"""What the plug-in counts as a key of the key table that is tried."""

from __future__ import annotations

from textual.actions import SkipAction

from tests.support import recorded
from tests.support.key_rows import PILOT_TESTS, ROWS, KeyRows, list_keys
from tui.search.key_help import KeyHelpDialog

FILES = sorted(path.name for path in PILOT_TESTS.glob("test_*.py"))


async def test_a_row_is_pressed_by_a_key_of_the_table_alone(stage):
    async with stage(recorded.opening(), keymap={"app.models": "f1", "app.keys": "f6"}) as on:
        await on.app.run_action("pages.show_keys", on.screen)
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.press("f6")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        assert ROWS.here == {"keyhelp.leave escape"}
    async with stage(recorded.opening()) as on:
        await on.pilot.press("f1")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        assert ROWS.here == {"keyhelp.leave escape", "app.keys f1"}


async def test_a_key_that_does_nothing_where_it_is_struck_is_not_pressed(stage):
    async with stage(recorded.opening()) as on:
        on.screen.controllers.panes.action_show_pane = _skip
        await on.pilot.press("x", "ctrl+r", "ctrl+z")
        assert ROWS.here == {"prompt.undo ctrl+z"}


async def _skip(_: str) -> None:
    raise SkipAction


async def test_a_dead_key_does_nothing(stage, monkeypatch):
    monkeypatch.setattr(ROWS, "dead", "prompt.undo ctrl+z")
    async with stage(recorded.opening()) as on:
        await on.pilot.press("x", "ctrl+z")
        assert (on.prompt.text, ROWS.here) == ("x", set())


def told(**fields: object) -> dict[str, object]:
    return {"tried": (), "files": (), "is_part": False, **fields}


def test_a_key_that_no_worker_has_tried_is_found_once_all_files_have_run():
    rows, keys = KeyRows(), list_keys()
    rows.merge(told(tried=keys[:9], files=FILES[:5]))
    assert rows.find_untried() == []
    rows.merge(told(tried=keys[8:-2], files=FILES[5:]))
    assert rows.find_untried() == keys[-2:]
    rows.merge(told(is_part=True))
    assert rows.find_untried() == []


def test_what_a_worker_sends_is_plain_and_complete():
    rows = KeyRows()
    rows.merge(told(tried={"b", "a"}, files={"f"}, is_part=True))
    assert rows.dump() == {"tried": ["a", "b"], "files": ["f"], "is_part": True}
