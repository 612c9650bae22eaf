"""The dialog of the settings: searched, changed in place, and what another place says is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import Input, OptionList, Static

from core.protocol.commands import Ack, Reject, SettingKeep
from core.protocol.queries import ConfigAnswer, ConfigQuery, SettingRow, SettingsAnswer, SettingsProblem, SettingsQuery
from tests.support import recorded
from tui.dialogs.listings.settings import SettingInput

ROWS = (
    SettingRow(key="model", value="openai/x", default="", own="openai/x", origin="user", source="/c.toml, line 1"),
    SettingRow(key="privacy", value=False, default=False, kind="flag", meaning="keep nothing of a session"),
    SettingRow(
        key="limits.max_steps",
        value=5,
        default=100,
        own=50,
        kind="number",
        origin="project",
        source=".agent-tui/config.toml, line 3",
        meaning="model calls in one turn; 0 = no limit",
        valid="a whole number, 0 = no limit",
    ),
    SettingRow(
        key="limits.max_cost",
        value=1.5,
        default=0.0,
        kind="number",
        origin="command line",
        source="--max-cost on the command line",
    ),
    SettingRow(
        key="commands.policy", value="auto", default="auto", kind="choice", choices=("confirm", "auto", "human")
    ),
    SettingRow(key="commands.checks", value=[], default=[], kind="list", meaning="how checks of the code begin"),
    SettingRow(key="ui.theme", value="", default="", meaning="the colours of the screen"),
    SettingRow(key="agent_servers", kind="table", value=["work"], elsewhere="agent-tui config edit opens your file."),
)
FOUND = ConfigAnswer(settings=ROWS, problems=(SettingsProblem(level="warning", message="There is no theme."),))
ANSWERS = {ConfigQuery: FOUND}
SEARCH = "#settings-search"


def said(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


def rows(on):
    options = on.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]


def saved(on):
    return [(command.key, command.text) for command in on.sent(SettingKeep)]


async def search(on, text):
    await on.open_listing("/config", "SettingsDialog")
    await on.pilot.press(*text)
    await on.until(lambda: on.app.screen.query_one(SEARCH, Input).value == text.replace("space", " "))
    await on.pilot.pause()


async def test_each_setting_has_its_value_and_where_that_comes_from(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/config", "SettingsDialog")
        assert [row.split() for row in rows(on)] == [
            ["model", "openai/x", "user"],
            ["privacy", "false", "default"],
            ["limits.max_steps", "5", "project"],
            ["limits.max_cost", "1.5", "command", "line"],
            ["commands.policy", "auto", "default"],
            ["commands.checks", "–", "default"],
            ["ui.theme", "–", "default"],
            ["agent_servers", '["work"]'],
        ]
        assert said(on, "notes") == "! There is no theme."
        assert said(on, "sum") == "8 settings; your config.toml sets 2"
        await on.pilot.press("down", "down")
        await on.until(lambda: "Model calls in one turn" in said(on, "reason"))
        assert "Valid: a whole number, 0 = no limit. Default: 100." in said(on, "reason")
        assert "This project sets 5 (.agent-tui/config.toml, line 3);" in said(on, "reason")
        assert "a value of your own holds here only if it is stricter." in said(on, "reason")
        await on.pilot.press("up", "up", "up")
        await on.until(lambda: "agent-tui config edit" in said(on, "reason"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("max", ["limits.max_steps", "limits.max_cost"]),
        ("colours", ["ui.theme"]),
        ("CODE", ["commands.checks"]),
        ("nothing of", ["privacy"]),
        ("zzz", []),
    ],
)
async def test_words_leave_what_has_them_in_its_name_or_its_description(stage, text, names):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/config", "SettingsDialog")
        on.app.screen.query_one(SEARCH, Input).value = text
        await on.until(lambda: [row.split()[0] for row in rows(on)] == names)
        assert ("No setting matches" in said(on, "reason")) == (not names)


async def test_a_flag_is_turned_and_shows_what_holds_then(stage):
    def keep(client, command):
        if isinstance(command, SettingKeep):
            turned = replace(ROWS[1], value=True, own=True, origin="user", source="/c.toml, line 2")
            client.answers[ConfigQuery] = ConfigAnswer(settings=(ROWS[0], turned, *ROWS[2:]))
            return Ack()
        return None

    async with stage(recorded.opening(), answers=dict(ANSWERS), react=keep) as on:
        await search(on, "privacy")
        await on.pilot.press("enter")
        await on.until(lambda: [row.split() for row in rows(on)] == [["privacy", "true", "user"]])
        assert saved(on) == [("privacy", "true")]
        assert "Saved in your config.toml: true." in said(on, "reason")
        await on.pilot.press("enter")
        await on.until(lambda: saved(on)[1:] == [("privacy", "false")])


async def test_one_of_a_few_words_is_chosen_from_a_list(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await search(on, "policy")
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        assert [row.split()[-1] for row in rows(on)] == ["confirm", "default", "human"]
        await on.pilot.press("down", "enter")
        await on.until(lambda: saved(on) == [("commands.policy", "human")])
        await on.until(lambda: "Saved in your config.toml" in said(on, "reason"))


async def test_a_theme_is_one_of_those_that_the_screen_has(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await search(on, "theme")
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        assert rows(on)[0].split()[:2] == ["●", "–"]
        await on.pilot.press(*"nord", "enter")
        await on.until(lambda: saved(on) == [("ui.theme", "nord")])


@pytest.mark.parametrize(
    ("name", "before", "typed", "sent"),
    [
        ("max_steps", "50", "70", ("limits.max_steps", "70")),
        ("max_cost", "0.0", "2.5", ("limits.max_cost", "2.5")),
        ("model", "openai/x", "a/b", ("model", "a/b")),
        ("checks", "[]", '["pytest"]', ("commands.checks", '["pytest"]')),
    ],
)
async def test_texts_numbers_and_lists_are_typed_below(stage, name, before, typed, sent):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await search(on, name)
        await on.pilot.press("enter")
        line = on.app.screen.query_one(SettingInput)
        await on.until(lambda: line.has_focus)
        assert line.value == before
        await on.pilot.press("home", *["delete"] * len(before), "up", "down")
        assert line.value == ""
        line.value = typed
        await on.pilot.press("enter")
        await on.until(lambda: saved(on) == [sent])
        await on.until(lambda: on.app.screen.query_one(SEARCH).has_focus)


async def test_a_value_that_is_refused_stays_with_the_reason_below_it(stage):
    refusal = Reject(
        code="config_invalid", message="`limits.max_steps`: 'many' can't be read.", hint="Valid: a number."
    )
    react = lambda _, command: refusal if isinstance(command, SettingKeep) else None  # noqa: E731
    async with stage(recorded.opening(), answers=ANSWERS, react=react) as on:
        await search(on, "steps")
        await on.pilot.press("enter", *"x", "enter")
        await on.until(lambda: "Not saved. `limits.max_steps`" in said(on, "reason"))
        line = on.app.screen.query_one(SettingInput)
        assert (line.has_focus, line.value) == (True, "50x")
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen.query_one(SEARCH).has_focus)
        assert "Not saved" not in said(on, "reason")
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)


async def test_a_value_goes_back_to_its_default(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/config", "SettingsDialog")
        await on.pilot.press("delete")
        await on.until(lambda: saved(on) == [("model", None)])
        await on.until(lambda: "Removed from your config.toml, where it was openai/x." in said(on, "reason"))
        await on.pilot.press("down", "ctrl+r")
        await on.until(lambda: "Your config.toml doesn't set it." in said(on, "reason"))
        await on.pilot.press("up", "up", "delete", "enter")
        await on.pilot.pause()
        assert saved(on) == [("model", None)]


async def test_a_meaning_is_a_sentence_without_the_marks_of_the_manual(stage):
    row = SettingRow(
        key="x", meaning="`a*` or *said so*, such as `b *`", kind="choice", choices=("one",), default="one"
    )
    async with stage(recorded.opening(), answers={ConfigQuery: ConfigAnswer(settings=(row,))}) as on:
        await on.open_listing("/config", "SettingsDialog")
        await on.until(lambda: said(on, "reason").startswith("a* or said so, such as b *.\n"))
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        assert str(on.app.screen.query_one(".dialog-about", Static).content) == "a* or said so, such as b *."


async def test_the_page_keys_move_the_mark_by_what_is_in_view_and_stop_at_the_ends(stage):
    many = tuple(SettingRow(key=f"limits.of_{number}") for number in range(60))
    async with stage(recorded.opening(), answers={ConfigQuery: ConfigAnswer(settings=many)}) as on:
        await on.open_listing("/config", "SettingsDialog")
        options = on.app.screen.query_one(OptionList)
        page = options.scrollable_content_region.height - 1
        await on.pilot.press("pagedown")
        await on.until(lambda: options.highlighted == page > 3)
        await on.pilot.press("pageup")
        await on.until(lambda: options.highlighted == 0)
        await on.pilot.press("down", "pageup")
        await on.until(lambda: options.highlighted == 0)
        await on.pilot.press(*["pagedown"] * 30)
        await on.until(lambda: options.highlighted == 59)
        assert options.scroll_offset.y > 0


async def test_delete_takes_a_letter_of_the_search_where_there_is_one(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await search(on, "xmodel")
        await on.pilot.press("home", "delete")
        await on.until(lambda: on.app.screen.query_one(SEARCH, Input).value == "model")
        assert saved(on) == []
        await on.pilot.press("end", "delete")
        await on.until(lambda: saved(on) == [("model", None)])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            SettingRow(
                key="permissions.allow", kind="list", origin="command line", source="--allow on the command line"
            ),
            "--allow on the command line adds to your config.toml.",
        ),
        (
            SettingRow(key="permissions.deny", kind="list", origin="project", source=".agent-tui/config.toml, line 9"),
            "This project adds to your config.toml: .agent-tui/config.toml, line 9.",
        ),
        (
            SettingRow(
                key="providers.openai.base_url", value="http://x", origin="environment", source="OPENAI_BASE_URL"
            ),
            "OPENAI_BASE_URL in the environment sets http://x. Your config.toml has no effect until it is unset.",
        ),
        (
            SettingRow(key="plans.directory", value="notes", origin="project", source=".agent-tui/config.toml, line 1"),
            "a value of your own would win.",
        ),
        (SettingRow(key="model", value="a/b", origin="user", source="/c.toml, line 1"), "From /c.toml, line 1."),
    ],
    ids=lambda row: getattr(row, "key", ""),
)
async def test_what_is_stronger_is_named_with_what_has_to_happen_before_the_users_own_holds(stage, row, words):
    async with stage(recorded.opening(), answers={ConfigQuery: ConfigAnswer(settings=(row,))}) as on:
        await on.open_listing("/config", "SettingsDialog")
        await on.until(lambda: words in said(on, "reason"))
        assert saved(on) == []


async def test_what_begins_with_the_next_session_says_so_when_it_is_saved(stage):
    row = SettingRow(key="mode", value="agent", default="agent", begins="in the next session")
    async with stage(recorded.opening(), answers={ConfigQuery: ConfigAnswer(settings=(row,))}) as on:
        await on.open_listing("/config", "SettingsDialog")
        await on.pilot.press("enter", "enter")
        await on.until(lambda: "It takes effect in the next session." in said(on, "reason"))
        assert saved(on) == [("mode", "agent")]


async def test_a_change_that_another_place_outweighs_says_so(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await search(on, "cost")
        await on.pilot.press("enter", "enter")
        await on.until(lambda: "Saved in your config.toml" in said(on, "reason"))
        assert "--max-cost on the command line sets 1.5." in said(on, "reason")
        assert "Your config.toml has no effect unless you start without it." in said(on, "reason")


async def test_a_change_of_the_screens_own_settings_is_seen_at_once(stage):
    def keep(client, command):
        if isinstance(command, SettingKeep):
            client.answers[SettingsQuery] = SettingsAnswer(theme="nord")
            return Ack()
        return None

    async with stage(recorded.opening(), answers=dict(ANSWERS), react=keep) as on:
        await search(on, "theme")
        await on.pilot.press("enter", *"nord", "enter")
        await on.until(lambda: on.app.theme == "nord")
        assert saved(on) == [("ui.theme", "nord")]


async def test_a_style_that_there_is_not_is_refused_before_it_is_sent(stage):
    row = SettingRow(key="ui.syntax", value="", default="")
    async with stage(recorded.opening(), answers={ConfigQuery: ConfigAnswer(settings=(row,))}) as on:
        await on.open_listing("/config", "SettingsDialog")
        await on.pilot.press("enter", *"monkai", "enter")
        await on.until(lambda: "Pygments has no style 'monkai'" in said(on, "reason"))
        assert saved(on) == []
        await on.pilot.press(*["backspace"] * 6, *"monokai", "enter")
        await on.until(lambda: saved(on) == [("ui.syntax", "monokai")])


async def test_several_problems_are_counted(stage):
    problems = [SettingsProblem(level="error", message=f"Mistake {number}.") for number in range(3)]
    async with stage(answers={ConfigQuery: ConfigAnswer(settings=ROWS, problems=tuple(problems))}) as on:
        await on.open_listing("/config", "SettingsDialog")
        assert said(on, "notes") == "✗ Mistake 0.\n! 2 more: agent-tui config check names them all."


async def test_what_is_typed_is_saved_where_it_was_begun_wherever_the_mouse_has_moved_the_mark(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await search(on, "max")
        await on.pilot.press("enter")
        await on.pilot.click(OptionList, offset=(3, 1))
        await on.until(lambda: on.app.screen.query_one(OptionList).highlighted == 1)
        assert on.app.screen.query_one(SettingInput).has_focus
        await on.pilot.press("0", "enter")
        await on.until(lambda: saved(on) == [("limits.max_steps", "500")])


async def test_the_rows_are_made_anew_for_another_width_while_a_value_is_typed(stage):
    async with stage(recorded.opening(), answers=ANSWERS, size=(120, 40)) as on:
        await search(on, "max")
        await on.pilot.press("down", "enter", "9")
        wide = rows(on)[1]
        await on.pilot.resize_terminal(60, 16)
        await on.until(lambda: len(rows(on)[1]) < len(wide))
        assert on.app.screen.query_one(SettingInput).has_focus
        await on.pilot.press("enter")
        await on.until(lambda: saved(on) == [("limits.max_cost", "0.09")])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
def test_the_settings_look_as_they_did(looks, size):
    assert looks(recorded.opening(), size, keys=["slash", *"config", "enter", "down", "down"], answers=ANSWERS)
