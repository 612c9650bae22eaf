from __future__ import annotations

import importlib
import pkgutil

import pytest
from textual.content import Content
from textual.widgets import OptionList

import tui
from core.engine.shared.box import build_box_event
from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.models import ModelChoice
from core.protocol.queries import (
    ContextAnswer,
    ContextPart,
    ContextQuery,
    ModelsAnswer,
    ModelsQuery,
)
from core.sandbox.box import Tier
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.ask.approval_bar import GRACE
from tui.bridge import SessionRequest
from tui.dialogs.dialog import Dialog
from tui.dialogs.pages import ConfirmDialog, PageDialog
from tui.key_table import KEYS
from tui.keymap import SCOPE_TITLES, select_known_keys
from tui.search.key_help import KeyHelpDialog
from tui.search.palette import PaletteDialog
from tui.settings_check import check_interface, is_key
from tui.slash_commands import SLASH_COMMANDS, parse_slash_command

START = e.TurnStarted(prompt="go", mode="agent", model="m")
REQUEST = e.ApprovalRequested(id="a1", call="c1", kind="command", subject="pytest -q", containment="none")


def test_every_key_has_its_own_id_and_says_what_it_does():
    assert len({key.id for key in KEYS}) == len(KEYS)
    assert all(key.tooltip and key.label and key.keys for key in KEYS)


def test_no_two_keys_of_one_scope_are_the_same():
    taken = [(key.scope, part) for key in KEYS for part in key.keys.split(",")]
    assert len(set(taken)) == len(taken)


def test_a_keymap_with_an_unknown_id_is_told_and_the_rest_is_kept():
    keymap = {"app.quit": "f11", "app.nothing": "x"}
    assert select_known_keys(keymap) == {"app.quit": "f11"}
    assert [key for key, *_ in check_interface("", keymap)] == [("ui", "keymap", "app.nothing")]


@pytest.mark.parametrize(
    ("keymap", "words"),
    [
        ({"review.acept": "a"}, ("unknown key id", "Did you mean review.accept")),
        ({"review.accept": "ctrl+foo"}, ("no key is called 'ctrl+foo'",)),
        ({"review.accept": "r"}, ("r is also the key of review.reject (Reject)", "“Review”")),
        ({"review.accept": "ctrl+p"}, ("ctrl+p is also the key of app.palette",)),
        ({"review.accept": "h", "review.reject": "h"}, ("h is also the key of review.reject",)),
    ],
)
def test_what_is_wrong_with_a_keymap_is_told_once_with_what_to_do(keymap, words):
    (problem,) = check_interface("", keymap)
    assert all(word in f"{problem[1]} {problem[2]}" for word in words)


def test_a_key_that_moved_away_is_free_for_another_action():
    assert not [*check_interface("", {"review.accept": "r", "review.reject": "full_stop,ctrl+x"})]


def test_a_theme_that_there_is_not_is_told_with_those_that_there_are():
    (problem,) = check_interface("nrd", {})
    assert problem[0] == ("ui", "theme")
    assert "nord" in problem[2]
    assert not [*check_interface("nord", {})]


def test_a_theme_of_the_users_own_is_known_and_a_mistake_in_one_is_told(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "agent-dark"\n')
    (tmp_path / "wrong.toml").write_text('primary = "no colour"\n')
    problems = [*check_interface("mine", {}, syntax="nothing", themes=tmp_path)]
    assert [key for key, *_ in problems] == [("ui", "theme"), ("ui", "syntax")]
    assert "wrong.toml" in problems[0][1]


def test_every_key_of_the_table_is_one_that_a_terminal_can_send():
    assert [key.id for key in KEYS for part in key.keys.split(",") if not is_key(part)] == []


async def test_shift_tab_goes_through_the_modes(stage):
    async with stage(recorded.opening()) as on:
        for mode in ("plan", "ask", "debug", "agent"):
            await on.pilot.press("shift+tab")
            await on.until(lambda mode=mode: on.sent(c.ModeSet) and on.sent(c.ModeSet)[-1].mode == mode)
            await on.emit(e.ModeChanged(mode=mode))
            assert on.screen.has_class(f"-mode-{mode}")


@pytest.mark.parametrize(
    ("found", "note"),
    [
        ([build_box_event(Tier.NAMESPACES)], "commands run sandboxed"),
        ([build_box_event(Tier.LANDLOCK)], "commands ask first"),
        ([build_box_event(Tier.NONE)], "commands ask first"),
        ([build_box_event(Tier.NAMESPACES), e.PolicyChanged(policy="confirm")], "commands ask first"),
        ([build_box_event(Tier.NAMESPACES), e.PolicyChanged(policy="human")], "you type the commands"),
        ([build_box_event(Tier.CONTAINER)], "commands run on a copy"),
        ([build_box_event(Tier.IN_PLACE)], "commands run in the project itself"),
    ],
)
async def test_the_menu_of_modes_says_who_lets_a_command_run(stage, found, note):
    async with stage([*recorded.opening(), *found]) as on:
        await on.pilot.press("ctrl+full_stop")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        options = [str(option.prompt) for option in on.app.screen.query_one(OptionList).options]
        assert sum(option.endswith(f"edits go to your review, {note}") for option in options) == 1


@pytest.mark.parametrize(
    ("key", "screen"), [("ctrl+full_stop", "PickerDialog"), ("ctrl+p", "PaletteDialog"), ("f1", "KeyHelpDialog")]
)
async def test_a_key_opens_a_dialog_and_escape_closes_it(stage, key, screen):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(key)
        await on.until(lambda: type(on.app.screen).__name__ == screen)
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus


@pytest.mark.parametrize("key", ["escape", "q", "enter", "f1"])
async def test_each_key_that_closes_a_page_closes_it(stage, key):
    async with stage(recorded.opening()) as on:
        on.screen.context.show(PageDialog("A page", Content("Text")))
        await on.until(lambda: isinstance(on.app.screen, PageDialog))
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False), ("escape", False), ("q", False)])
async def test_each_key_of_a_question_says_yes_or_no(stage, key, answer):
    answers: list[bool | None] = []
    async with stage(recorded.opening()) as on:
        on.screen.context.show(ConfirmDialog("Go?", "go"), answers.append)
        await on.asked()
        await on.pilot.press(key)
        await on.until(lambda: answers)
        assert answers == [answer]


async def test_the_mode_menu_chooses_by_typing(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+full_stop", *"ask", "enter")
        await on.until(lambda: on.sent(c.ModeSet))
        assert on.sent(c.ModeSet)[0].mode == "ask"


async def test_escape_interrupts_a_turn_from_the_prompt(stage):
    async with stage([*recorded.opening(), START]) as on:
        await on.pilot.press("escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))
        assert len(on.sent(c.TurnInterrupt)) == 1


async def test_escape_leaves_the_conversation_without_interrupting(stage):
    async with stage([*recorded.opening(), START]) as on:
        await on.pilot.press("ctrl+up")
        assert on.transcript.has_focus
        await on.pilot.press("escape")
        assert on.prompt.has_focus
        assert on.sent(c.TurnInterrupt) == []


async def test_quitting_asks_while_a_turn_runs(stage):
    async with stage([*recorded.opening(), START]) as on:
        await on.pilot.press("ctrl+q")
        await on.asked()
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.press("ctrl+q")
        await on.asked()
        await on.pilot.press("y")
        await on.until(lambda: on.app._exit)
        assert on.app.return_code == 0


def list_dialogs(base: type[Dialog] = Dialog) -> list[type[Dialog]]:
    return [kind for subclass in base.__subclasses__() for kind in (subclass, *list_dialogs(subclass))]


def test_every_dialog_can_be_left_with_the_program_and_explained():
    for _, name, _ in pkgutil.walk_packages(tui.__path__, "tui."):
        importlib.import_module(name)
    dialogs = list_dialogs()
    assert len(dialogs) > 20
    for dialog in dialogs:
        keys = dialog._merged_bindings.key_to_bindings
        assert {binding.action for binding in keys["ctrl+q"]} <= {"sessions.quit", "leave"}, dialog
        assert keys["ctrl+q"][0].priority
        assert {binding.action for binding in keys["f1"]} <= {"pages.show_keys", "leave"}, dialog


@pytest.mark.parametrize("opening", [["ctrl+p"], ["f1"], [*"/theme", "enter"], ["ctrl+full_stop"]])
async def test_quitting_works_in_a_dialog_as_behind_it(stage, opening):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*opening)
        await on.until(lambda: on.app.screen is not on.screen)
        await on.pilot.press("ctrl+q")
        await on.until(lambda: on.app._exit)
    async with stage([*recorded.opening(), START]) as on:
        await on.pilot.press(*opening)
        await on.until(lambda: on.app.screen is not on.screen)
        dialog = on.app.screen
        await on.pilot.press("ctrl+q")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        question = on.app.screen
        await on.pilot.press("ctrl+q")
        assert on.app.screen is question
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is dialog)
        assert not on.app._exit


async def test_f1_explains_the_keys_of_a_dialog_first(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, PaletteDialog))
        await on.pilot.press("f1")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        text = on.app.screen.query_one("#keyhelp-text")
        await on.until(lambda: str(text.render()).startswith(SCOPE_TITLES["picker"]))
        await on.pilot.press("f1")
        await on.until(lambda: isinstance(on.app.screen, PaletteDialog))
        assert not on.app._exit


async def test_quitting_is_immediate_when_nothing_runs(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+q")
        assert on.app._exit


async def test_an_approval_takes_the_focus_of_an_empty_prompt_after_a_grace(stage, clock):
    async with stage([*recorded.opening(), START, REQUEST]) as on:
        await on.until(lambda: on.screen.query("#approval") and on.screen.query_one("#approval").has_focus)
        await on.pilot.press("y", "enter")
        assert on.sent(c.ApprovalAnswer) == []
        clock[0] += GRACE + 0.1
        await on.pilot.press("enter")
        assert on.sent(c.ApprovalAnswer) == []
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.ApprovalAnswer))
        assert on.sent(c.ApprovalAnswer)[0].decision == "allow_once"
        await on.emit(e.ApprovalResolved(id="a1", decision="allow_once"))
        await on.until(lambda: on.prompt.has_focus)


async def test_an_approval_never_takes_keys_from_what_is_being_written(stage, monkeypatch):
    monkeypatch.setattr("tui.ask.approval_bar.GRACE", 0.0)
    async with stage([*recorded.opening(), START]) as on:
        await on.pilot.press(*"why")
        await on.emit(REQUEST)
        await on.until(lambda: on.screen.query("#approval"))
        await on.pilot.press("n", "y")
        assert on.prompt.text == "whyny"
        assert on.sent(c.ApprovalAnswer) == []
        await on.pilot.press("f2", "n")
        await on.until(lambda: on.sent(c.ApprovalAnswer))
        assert on.sent(c.ApprovalAnswer)[0].decision == "reject_once"


async def test_a_key_can_be_remapped_by_its_id(stage):
    async with stage(recorded.opening(), keymap={"app.keys": "f5"}) as on:
        await on.pilot.press("f5")
        await on.until(lambda: on.app.screen is not on.screen)
        assert isinstance(on.app.screen, KeyHelpDialog)


SENT = {
    "/mode ask": c.ModeSet,
    "/model openai/x": c.ModelSet,
    "/effort low": c.EffortSet,
    "/new": c.SessionOpen,
    "/resume ses_1": c.SessionResume,
    "/compact": c.ContextCompact,
    "/accept all": c.HunkResolve,
    "/reject shop/tax.py": c.HunkResolve,
    "/undo": c.VerdictUndo,
    "/build some.plan.md": c.PlanBuild,
}


@pytest.mark.parametrize("text", SENT)
async def test_a_slash_command_becomes_a_command_of_the_engine(stage, text):
    async with stage(recorded.opening()) as on:
        on.client.commands.clear()
        on.prompt.text = text
        on.prompt.action_send()
        await on.until(lambda: on.sent(SENT[text]))
        assert on.sent(c.TurnSubmit) == []


@pytest.mark.parametrize("text", ["/bisect", "/bisect make test"])
async def test_a_search_for_the_call_that_broke_a_check_is_a_turn(stage, text):
    async with stage(recorded.opening()) as on:
        on.prompt.text = text
        on.prompt.action_send()
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert [(turn.text, turn.anyway) for turn in on.sent(c.TurnSubmit)] == [(text, True)]


@pytest.mark.parametrize("word", ["help", "keys", "context", "theme", "mode", "model"])
async def test_a_slash_command_opens_a_page_or_a_list(stage, word):
    answers = {
        ModelsQuery: ModelsAnswer(models=(ModelChoice(id="a/b"),), providers=(), default="a/b"),
        ContextQuery: ContextAnswer(parts=(ContextPart(name="system", tokens=900),), used=900, window=1000),
    }
    async with stage(recorded.opening(), answers=answers) as on:
        on.prompt.text = f"/{word}"
        on.prompt.action_send()
        await on.until(
            lambda: type(on.app.screen).__name__ in {"PageDialog", "PickerDialog", "ContextDialog", "KeyHelpDialog"}
        )
        assert on.app.screen is not on.screen


async def test_the_list_of_themes_shows_each_as_the_cursor_moves_and_escape_brings_the_old_one_back(stage):
    async with stage(recorded.opening()) as on:
        before, chosen = on.app.theme, on.app.appearance.chosen
        await on.pilot.press(*"/theme", "enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.press(*"nord")
        await on.until(lambda: on.app.theme == "nord")
        await on.pilot.press("escape")
        await on.until(lambda: on.app.theme == before and on.app.screen is on.screen)
        assert on.app.appearance.chosen == chosen
        assert on.sent(c.ThemeKeep) == []
        await on.pilot.press(*"/theme", "enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.press("down", "down")
        await on.until(lambda: on.app.theme != before)
        theme = on.app.theme
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.ThemeKeep))
        assert on.app.theme == theme


async def test_n16a_a_theme_that_was_chosen_is_kept(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.text = "/theme agent-light"
        on.prompt.action_send()
        await on.until(lambda: on.sent(c.ThemeKeep))
        assert (on.sent(c.ThemeKeep)[0].theme, on.app.theme) == ("agent-light", "agent-light")


async def test_every_slash_command_is_a_method_of_a_controller(stage):
    async with stage() as on:
        targets = {command.word: command.action.split(".") for command in SLASH_COMMANDS}
        controllers = on.screen.controllers.by_name
        assert [word for word, (name, act) in targets.items() if not hasattr(controllers[name], f"action_{act}")] == []
    assert parse_slash_command("/nothing") is None
    assert parse_slash_command("/etc/passwd is what?") is None


async def test_a_word_that_is_no_command_stays_in_the_prompt_unless_a_space_or_a_path_says_otherwise(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.text = "/aceptt all"
        on.prompt.submit()
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == "/aceptt all"
        assert "Did you mean /accept?" in next(iter(on.app._notifications)).message
        sent = [" /aceptt all", "/tmp is full", "/no/such/path is gone", "/zzz\nis a line of the log"]
        for text in sent:
            on.prompt.text = text
            on.prompt.submit()
        await on.until(lambda: len(on.sent(c.TurnSubmit)) == len(sent))
        assert [command.text for command in on.sent(c.TurnSubmit)] == sent


async def test_ctrl_c_empties_the_prompt_which_can_be_undone_and_leaves_on_the_second_press_if_nothing_runs(
    stage, monkeypatch
):
    monkeypatch.setattr("tui.screens.controllers.sessions.QUIT_TWICE_SECONDS", 600.0)  # on a busy machine, too
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"some", "ctrl+c")
        await on.until(lambda: not on.prompt.text)
        await on.pilot.press("ctrl+z")
        await on.until(lambda: on.prompt.text == "some")
        await on.pilot.press("shift+home", "ctrl+c")
        assert (on.prompt.text, on.app.clipboard) == ("some", "some")
        await on.pilot.press("end", "ctrl+c", "ctrl+c")
        await on.until(lambda: on.app._notifications)
        await on.emit(START)
        await on.pilot.press("ctrl+c", "ctrl+c")
        assert on.app.return_code is None
        assert "esc stops" in [*on.app._notifications][-1].message
        await on.emit(e.TurnFinished(reason="interrupted"))
        await on.pilot.press("ctrl+c", "ctrl+c")
        await on.until(lambda: on.app.return_code == 0)
        assert on.sent(c.TurnInterrupt) == []


@pytest.mark.parametrize(("size", "kept"), [((60, 16), 1), ((120, 40), 2)])
async def test_what_is_told_covers_nothing_that_is_typed_and_does_not_pile_up_in_a_small_window(size, kept):
    async def connect() -> ScriptedClient:
        return ScriptedClient(recorded.opening())

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=size, notifications=True) as pilot:
        app.main.context.notify_user("One thing.", is_error=True)
        await pilot.pause()
        app.main.context.notify_user("Another thing, which is so long that it takes more than a single line. " * 2)
        await pilot.pause(0.1)
        regions = [toast.region for toast in app.main.query("Toast")]
        assert len(regions) == kept
        assert not any(region.overlaps(app.main.query_one("#prompt").region) for region in regions)


async def test_a_toast_behind_a_dialog_is_not_read_twice():
    async def connect() -> ScriptedClient:
        return ScriptedClient(recorded.opening())

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.main.context.notify_user("the index is gone.")
        while not app.main.query("Toast"):
            await pilot.pause()
        (behind,) = app.main.query("ToastRack")
        assert behind.display
        await pilot.press("f1")
        while app.screen is app.main or not app.screen.query("Toast"):
            await pilot.pause()
        assert not behind.display
        await pilot.press("escape")
        while app.screen is not app.main:
            await pilot.pause()
        assert behind.display
        assert [notification.message for notification in app._notifications] == ["The index is gone."]
