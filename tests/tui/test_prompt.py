from __future__ import annotations

import asyncio

import pytest
from textual.events import Paste

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.queries import (
    AnyAnswer,
    AnyQuery,
    CommandsAnswer,
    CommandsQuery,
    Completion,
    CompletionAnswer,
    CompletionQuery,
    PromptCommand,
    PromptHistoryAnswer,
    PromptHistoryQuery,
)
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.slash_commands import (
    ADVICE,
    ALIASES,
    SLASH_COMMANDS,
    describe_unknown_command,
    find_completions,
    parse_alias,
    parse_slash_command,
)

FOUND = CompletionAnswer(
    completions=(Completion(word="shop/tax.py"), Completion(word="shop/till.py"), Completion(word="branch", note="it"))
)


async def test_enter_sends_and_shift_enter_does_not(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"ab", "shift+enter", *"cd", "ctrl+j", "e")
        assert on.prompt.text == "ab\ncd\ne"
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "ab\ncd\ne"
        assert on.prompt.text == ""


async def test_an_empty_prompt_is_not_sent(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("enter", "space", "enter")
        await on.pilot.pause(0.05)
        assert on.sent(c.TurnSubmit) == []


async def test_t7_a_paste_of_a_megabyte_becomes_a_chip_unseen_and_is_expanded_when_sent(stage, monkeypatch):
    text = "line of text\r\n" * 75_000 + "\x1b[201~rm -rf /\n"
    async with stage(recorded.opening()) as on:
        edited, edit = list[str](), on.prompt.edit
        monkeypatch.setattr(on.prompt, "edit", lambda change: edited.append(change.text) or edit(change))
        on.prompt.post_message(Paste(text))
        await on.until(lambda: on.prompt.text)
        assert edited == ["[pasted 75,001 lines #1]"]
        assert on.prompt.text == "[pasted 75,001 lines #1]"
        assert on.sent(c.TurnSubmit) == []
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "line of text\n" * 75_000 + "rm -rf /\n"


async def test_t7_a_newline_inside_a_small_paste_does_not_send(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.post_message(Paste("one\ntwo\n"))
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == "one\ntwo\n"
        assert on.sent(c.TurnSubmit) == []


async def test_what_looks_like_a_chip_but_is_none_is_left_as_it_is(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.text = "see [pasted 1.0 MB #7]"
        assert on.prompt.expanded_text == "see [pasted 1.0 MB #7]"


async def test_the_history_of_the_workspace_is_at_the_edges(stage):
    history = PromptHistoryAnswer(prompts=("first", "second"))
    async with stage(recorded.opening(), answers={PromptHistoryQuery: history}) as on:
        await on.pilot.pause(0.05)
        await on.pilot.press(*"draft", "up")
        assert on.prompt.text == "second"
        await on.pilot.press("up")
        assert on.prompt.text == "first"
        await on.pilot.press("down", "down")
        assert on.prompt.text == "draft"


async def test_files_are_completed_after_an_at_sign(stage):
    async with stage(recorded.opening(), answers={CompletionQuery: FOUND}) as on:
        await on.pilot.press(*"see @ta")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("down", "enter")
        await on.until(lambda: not on.prompt.is_completing)
        assert on.prompt.text == "see @shop/till.py "
        assert on.sent(c.TurnSubmit) == []


async def test_a_mention_that_is_complete_is_sent_at_once(stage):
    async with stage(recorded.opening(), answers={CompletionQuery: FOUND}) as on:
        await on.pilot.press(*"see @shop/tax.py")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "see @shop/tax.py"


class LateClient(ScriptedClient):
    """Completes a word of one letter at once, a longer one when it is told to."""

    is_told: asyncio.Event
    found: CompletionAnswer

    async def query(self, query: AnyQuery) -> AnyAnswer:
        if not isinstance(query, CompletionQuery):
            return await super().query(query)
        if len(query.pattern) <= 1:
            return FOUND
        await self.is_told.wait()
        return self.found


@pytest.mark.parametrize(
    ("found", "text", "is_sent"),
    [(FOUND, "see @shop/tax.py ", False), (CompletionAnswer(), "see @tax.py:10-20", True)],
)
async def test_a_list_for_what_stood_there_before_the_last_letters_completes_nothing(
    stage, monkeypatch, found, text, is_sent
):
    monkeypatch.setattr("tests.tui.conftest.ScriptedClient", LateClient)
    monkeypatch.setattr(LateClient, "is_told", asyncio.Event(), raising=False)
    monkeypatch.setattr(LateClient, "found", found, raising=False)
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"see @t")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press(*"ax.py:10-20", "enter")
        assert on.prompt.text == "see @tax.py:10-20"
        LateClient.is_told.set()
        await on.until(lambda: not on.prompt.is_completing)
        sent = [command.text for command in on.sent(c.TurnSubmit)]
        assert (sent or [on.prompt.text], bool(sent)) == ([text], is_sent)


async def test_commands_are_completed_after_a_slash_and_escape_closes_the_list(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("/", "m", "o")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("escape")
        await on.until(lambda: not on.prompt.is_completing)
        assert on.prompt.text == "/mo"
        await on.pilot.press("d")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("tab")
        await on.until(lambda: on.prompt.text == "/mode ")
        assert on.prompt.has_focus


async def test_the_prompt_grows_with_its_text_up_to_a_bound(stage):
    async with stage(recorded.opening()) as on:
        assert on.prompt.size.height == 1
        on.prompt.text = "\n".join("abcdefghijklmnopqrst")
        await on.pilot.pause()
        assert on.prompt.size.height == 10


async def test_the_external_editor_writes_the_prompt(stage, monkeypatch, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " more" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    async with stage(recorded.opening()) as on:
        from contextlib import nullcontext

        monkeypatch.setattr(on.app, "suspend", nullcontext)
        await on.pilot.press(*"some", "ctrl+g")
        assert on.prompt.text == "some more"


async def test_an_editor_that_fails_leaves_the_prompt_as_it_was(stage, monkeypatch):
    monkeypatch.setenv("EDITOR", "/bin/false")
    async with stage(recorded.opening()) as on:
        from contextlib import nullcontext

        monkeypatch.setattr(on.app, "suspend", nullcontext)
        await on.pilot.press(*"some", "ctrl+g")
        assert on.prompt.text == "some"
        assert "failed" in next(iter(on.app._notifications)).message


async def test_page_keys_scroll_the_conversation_unless_the_prompt_needs_them(stage):
    notices = [e.Notice(level="info", message=f"line {number}") for number in range(100)]
    async with stage([*recorded.turn(), *notices], size=(80, 24)) as on:
        bottom = on.transcript.scroll_offset.y
        await on.pilot.press("pageup", "pageup")
        height = on.transcript.size.height
        assert (on.transcript.scroll_offset.y, on.prompt.has_focus) == (bottom - 2 * (height - 1), True)
        await on.pilot.press("pagedown")
        assert on.transcript.scroll_offset.y == bottom - height + 1
        on.prompt.text = "\n" * 30
        on.prompt.move_cursor((30, 0))
        await on.pilot.pause()
        before = on.transcript.scroll_offset.y
        await on.pilot.press("pageup")
        assert (on.transcript.scroll_offset.y, on.prompt.cursor_location[0] < 30) == (before, True)
        await on.pilot.press("ctrl+pageup")
        assert on.transcript.scroll_offset.y < before
        await on.pilot.press("ctrl+pagedown")
        assert on.transcript.scroll_offset.y == before


async def test_a_long_completion_takes_one_line(stage):
    word = "ChangeListTests.test_total_ordering_optimization.ModelAdmin"
    answer = CompletionAnswer(
        completions=(Completion(word=word, note="class · tests/admin_changelist/tests.py:1335"),) * 3
    )
    async with stage(recorded.opening(), answers={CompletionQuery: answer}, size=(80, 24)) as on:
        await on.pilot.press(*"@M")
        await on.until(lambda: on.prompt.is_completing)
        await on.until(lambda: on.screen.query_one("CompletionList").size.height)
        assert on.screen.query_one("CompletionList").size.height == 3


OWN = CommandsAnswer(
    commands=(
        PromptCommand(
            name="commute",
            description="Create a commit",
            kind="command",
            scope="project",
            source=".claude",
            path=".claude/commands/commute.md",
            hint="[message]",
        ),
        PromptCommand(
            name="plan", description="Mine", kind="skill", scope="user", source=".claude", path="~/.claude/skills/plan"
        ),
    )
)


async def test_commands_of_the_users_own_are_completed_beside_those_of_the_screen_and_sent(stage):
    async with stage(recorded.opening(), answers={CommandsQuery: OWN}) as on:
        await on.pilot.press("slash", *"comm")
        await on.until(lambda: on.prompt.is_completing)
        completions = [word for word, _ in find_completions("comm", OWN.commands)]
        assert completions == ["commit", "comments", "commute"]
        await on.pilot.press("down", "down", "enter")
        await on.until(lambda: on.prompt.text == "/commute ")
        await on.pilot.press(*"now", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "/commute now"


async def test_one_that_a_command_of_the_screen_covers_is_called_with_its_scope(stage):
    async with stage(recorded.opening(), answers={CommandsQuery: OWN}) as on:
        await on.pilot.press("slash", *"user")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("enter")
        await on.until(lambda: on.prompt.text == "/user:plan ")
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text.strip() == "/user:plan"


@pytest.mark.parametrize(("typed", "meant"), [("/reveiw", "/review"), ("/quti", "/quit"), ("/setings", "/settings")])
def test_a_slip_is_told_with_the_name_that_was_meant(typed, meant):
    description = describe_unknown_command(typed)
    assert description.startswith(f"{typed} is not a command. Did you mean {meant}")
    assert parse_slash_command(meant) or parse_alias(meant)


OF_OTHERS = """
add-dir agents allowed-tools bashes branch btw bug checkpoint clear color compact config context continue copy cost
desktop diff doctor effort exit export fast feedback fork help hooks ide init install-github-app keybindings login
logout mcp memory mobile model output-style passes permissions plan plugin pr-comments privacy-settings quit
release-notes
reload-plugins remote-control remote-env rename reset resume review rewind sandbox security-review settings skills stats
status statusline stickers tasks terminal-setup theme todos upgrade usage vim voice
agent approvals clean collab debug-config experimental goal mention new personality plugins ps side stop title
connect details editor mcps models open q redo session sessions share subagents summarize themes thinking timeline undo
unshare variants
add architect ask chat-mode code commit drop edit editor-model git lint load ls map multiline-mode ok paste read-only
reasoning-effort report run save settings test think-tokens tokens weak-model web
about auto-run commands-help compress copy-conversation-id debug max-mode new-chat rules setup-terminal shell
auth directory extensions restore tools
"""


def test_every_command_of_the_other_agents_runs_or_is_answered_with_what_to_do():
    words = set(OF_OTHERS.split()) - {"color", "commands-help", "run"}  # /run is a place on this machine
    silent = [word for word in words if not (parse_slash_command(f"/{word}") or parse_alias(f"/{word}"))]
    left = [word for word in silent if f"No /{word} here" not in describe_unknown_command(f"/{word}")]
    assert left == []


def test_no_other_name_hides_one_of_ours_and_each_means_one_of_ours():
    ours = {command.word for command in SLASH_COMMANDS}
    assert not ours & (ALIASES.keys() | ADVICE.keys())
    assert not ALIASES.keys() & ADVICE.keys()
    assert {meant.partition(" ")[0] for meant in ALIASES.values()} <= ours


def test_an_alias_hands_its_argument_on_and_never_drops_words_of_a_prompt():
    assert parse_alias("/settings ui.theme") == parse_slash_command("/config ui.theme")
    assert parse_alias("/ask") == parse_slash_command("/mode ask")
    assert parse_alias("/ask what is this?") is None
    assert describe_unknown_command("/ask what is this?").startswith("/ask is /mode ask")
    assert parse_alias("/clear\nand more") is None
    assert parse_alias("clear") is None
    assert parse_alias("/home") is None


async def test_an_alias_is_offered_with_what_it_is_and_does_it(stage):
    assert dict(find_completions("exi")) == {"exit": "= /quit · Quit"}
    async with stage(recorded.opening()) as on:
        await on.pilot.press("slash", *"clea")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        await on.pilot.press("slash", *"exit", "enter")
        await on.until(lambda: on.app._exit)


async def test_a_command_of_the_users_own_goes_before_the_name_that_another_agent_has(stage):
    own = CommandsAnswer(
        commands=(
            PromptCommand(name="cost", description="Mine", kind="command", scope="user", source="yours", path="c.md"),
        )
    )
    assert [text for word, text in find_completions("cost", own.commands) if word == "cost"] == ["[user command] Mine"]
    async with stage(recorded.opening(), answers={CommandsQuery: own}) as on:
        await on.pilot.press(*"/cost", "escape", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "/cost"


async def test_what_has_no_counterpart_is_answered_with_the_key_and_stays_in_the_prompt(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"/paste", "enter")
        await on.until(lambda: on.app._notifications)
        assert [notification.message for notification in on.app._notifications] == [
            "No /paste here. ctrl+v attaches the picture on the clipboard."
        ]
        await on.until(lambda: on.prompt.text == "/paste")


def test_a_command_is_found_by_its_own_name_behind_a_scope_or_a_plug_in():
    brought = PromptCommand(
        name="acme:comb", description="Comb", kind="skill", scope="user", source="acme", path="~/.claude/plugins/acme"
    )
    own = (brought, *OWN.commands)
    assert [word for word, _ in find_completions("com", own)] == [
        "compact",
        "commit",
        "comments",
        "commute",
        "acme:comb",
        "compress",
    ]
    assert [word for word, _ in find_completions("plan", own)] == ["plan", "plans", "user:plan"]
    assert [word for word, _ in find_completions("shell", own)] == ["reset_shell"]
    assert [word for word, _ in find_completions("zz", own)] == []
    assert len({word for word, _ in find_completions("", own)}) == len(find_completions("", own))


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_the_menu_is_as_tall_as_the_window_allows_and_never_covers_the_line_that_is_typed(stage, size):
    async with stage(recorded.opening(), size=size) as on:
        await on.pilot.press("/")
        await on.until(lambda: (matches := on.screen.query("CompletionList")) and matches.first().size.height > 3)
        await on.pilot.pause()
        menu, centre = on.screen.query_one("CompletionList"), on.screen.query_one("#centre")
        assert menu.region.bottom <= on.prompt.region.y
        assert on.prompt.region.bottom <= centre.region.bottom
        assert menu.size.height >= min(size[1] - 8, 30)
        words = [str(menu.get_option_at_index(index).prompt) for index in range(5)]
        assert all(word.startswith("/") for word in words)
        assert len({len(word) - len(word[1:].partition(" ")[2].lstrip()) for word in words}) == 1
        await on.pilot.resize_terminal(size[0], 14)
        await on.pilot.pause()
        assert menu.region.bottom <= on.prompt.region.y
        assert on.prompt.region.bottom <= centre.region.bottom


async def test_a_loop_is_started_listed_and_stopped(stage):
    loop = e.LoopStarted(id="loop_1", prompt="check the build", seconds=600)
    run = e.TurnStarted(prompt="check the build", mode="agent", model="story", cause="loop", loop="loop_1")
    async with stage(recorded.opening()) as on:
        on.prompt.text = "/loop 10m check the build --when make --prints FAIL"
        on.prompt.action_send()
        await on.until(lambda: on.sent(c.LoopStart))
        sent = on.sent(c.LoopStart)[0]
        assert (sent.text, sent.seconds, sent.command, sent.pattern) == ("check the build", 600, "make", "FAIL")
        await on.emit(loop, run)
        texts = [block.text for block in on.screen.state.transcript.blocks]
        assert texts[-3:] == [
            "loop_1: the prompt is sent every 10 minutes, at most 100 times.",
            "loop_1, run 1: sent by the program",
            "check the build",
        ]
        on.prompt.text = "/loop stop loop_1"
        on.prompt.action_send()
        await on.until(lambda: on.sent(c.LoopStop))
        assert on.sent(c.LoopStop)[0].id == "loop_1"


async def test_a_turn_that_no_prompt_began_is_not_shown_as_one(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(e.TurnStarted(prompt="job_1 ended: make", mode="agent", model="story", cause="job"))
        last = on.screen.state.transcript.blocks[-1]
        assert (last.kind, last.text) == ("notice", "The agent goes on: a background command has ended.")


@pytest.mark.parametrize("command", SLASH_COMMANDS, ids=lambda command: command.word)
def test_a_command_that_is_typed_in_full_is_offered_first(command):
    assert find_completions(command.word)[0][0] == command.word
