"""Pictures in the prompt and in the conversation."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Paste
from textual.widgets import Static

from core.attachments.pictures import render_preview
from core.attachments.preparation import prepare_attachment
from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.attachment_labels import format_label
from core.protocol.messages import ToolMessage, UserMessage
from core.protocol.queries import PictureAnswer, PictureQuery
from tests.support import recorded
from tests.support.fake_clipboard import clipboard_of
from tests.support.pictures import picture
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest

PNG = picture(64, 48)
SHOWN = prepare_attachment(PNG, "shot.png").attachment
LABEL = format_label(SHOWN, 1)


def takes(client: ScriptedClient, command: c.AnyCommand) -> None:
    """As the engine does: what is attached gets the next label."""
    if isinstance(command, c.AttachmentAdd):
        number = sum(isinstance(envelope.event, e.AttachmentAdded) for envelope in client.log) + 1
        client.emit(e.AttachmentAdded(label=format_label(SHOWN, number), attachment=SHOWN, request=command.request))


def refuses(_: ScriptedClient, command: c.AnyCommand) -> c.Reject | None:
    if isinstance(command, c.AttachmentAdd):
        return c.Reject(code="attachment_refused", message="shot.png is damaged.", hint="Save it anew.")
    return None


def _app(client: ScriptedClient) -> AgentApp:
    async def connect() -> ScriptedClient:
        return client

    return AgentApp(connect, SessionRequest(model="scripted/demo"))


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """A desktop whose clipboard holds this."""

    def held(types: dict[str, bytes]) -> None:
        monkeypatch.setenv("PATH", str(clipboard_of(tmp_path, types, "xclip")))
        monkeypatch.setenv("DISPLAY", ":9")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)

    return held


@pytest.mark.parametrize("key", ["ctrl+v", "alt+v"])
async def test_the_key_attaches_the_picture_on_the_clipboard(stage, desktop, key):
    desktop({"image/png": PNG})
    async with stage(recorded.opening(), react=takes) as on:
        await on.pilot.press(*"see", key)
        await on.until(lambda: LABEL in on.prompt.text)
        assert on.prompt.text == f"see {LABEL} "
        assert [command.data for command in on.sent(c.AttachmentAdd)] == [PNG]
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text.startswith(f"see {LABEL}")


async def test_enter_waits_for_what_is_under_way(stage, desktop):
    desktop({"image/png": PNG})
    async with stage(recorded.opening(), react=takes) as on:
        on.prompt.hold()
        await on.pilot.press(*"what", "enter")
        assert on.prompt.text == "what"
        assert on.sent(c.TurnSubmit) == []
        on.prompt.release(LABEL, is_whole=True)
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == f"what {LABEL} "


async def test_what_is_refused_is_told_and_nothing_is_sent(stage, desktop):
    desktop({"image/png": PNG})
    async with stage(recorded.opening(), react=refuses) as on:
        await on.pilot.press(*"what", "ctrl+v")
        await on.until(lambda: on.app._notifications)
        assert "shot.png is damaged." in next(iter(on.app._notifications)).message
        on.prompt.hold()
        await on.pilot.press("enter")
        on.prompt.release("")
        await on.pilot.press("!")
        assert on.prompt.text == "what!"
        assert on.sent(c.TurnSubmit) == []


async def test_a_missing_tool_is_named(stage, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+v")
        await on.until(lambda: on.app._notifications)
        assert (
            "xclip is missing. Install it: apt (or dnf, pacman) install xclip"
            in next(iter(on.app._notifications)).message
        )


async def test_text_on_the_clipboard_is_pasted_by_the_same_key(stage, desktop):
    desktop({"UTF8_STRING": b"some words"})
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+v")
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == "some words"


async def test_an_empty_paste_tries_the_clipboard_and_says_nothing_if_there_is_nothing(stage, desktop):
    desktop({"image/png": PNG})
    async with stage(recorded.opening(), react=takes) as on:
        on.prompt.post_message(Paste(""))
        await on.until(lambda: LABEL in on.prompt.text)
        assert on.prompt.text == f"{LABEL} "
    desktop({})
    async with stage(recorded.opening(), react=takes) as on:
        on.prompt.post_message(Paste(""))
        await on.pilot.pause(0.1)
        await on.until(lambda: not on.prompt._hold_count)
        assert not on.app._notifications


async def test_dropped_files_become_labels_and_other_words_stay_text(stage, tmp_path):
    for name in ("a b.png", "c.png"):
        (tmp_path / name).write_bytes(PNG)
    async with stage(recorded.opening(), react=takes) as on:
        on.prompt.post_message(Paste(f"'{tmp_path}/a b.png' {tmp_path}/c.png"))
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == f"{LABEL} {format_label(SHOWN, 2)} "
        assert [command.path for command in on.sent(c.AttachmentAdd)] == [f"{tmp_path}/a b.png", f"{tmp_path}/c.png"]
        on.prompt.text = ""
        on.prompt.post_message(Paste(f"look at {tmp_path}/c.png"))
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == f"look at {tmp_path}/c.png"


async def test_a_label_is_removed_whole_and_comes_back_with_undo(stage):
    async with stage([*recorded.opening(), e.AttachmentAdded(label=LABEL, attachment=SHOWN)]) as on:
        on.prompt.insert(f"see {LABEL}")
        await on.pilot.press("backspace")
        assert on.prompt.text == "see "
        await on.pilot.press("ctrl+z")
        assert on.prompt.text == f"see {LABEL}"
        on.prompt.move_cursor((0, 4))
        await on.pilot.press("delete")
        assert on.prompt.text == "see "
        await on.pilot.press("backspace")
        assert on.prompt.text == "see"


async def test_a_refused_prompt_comes_back_with_its_picture(stage):
    def blind(_: ScriptedClient, command: c.AnyCommand) -> c.Reject | None:
        if isinstance(command, c.TurnSubmit):
            return c.Reject(code="attachment_not_taken", message="m takes no pictures.", hint="/model n")
        return None

    async with stage(recorded.opening(), react=blind) as on:
        on.prompt.insert(f"see {LABEL}")
        await on.pilot.press("enter")
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == f"see {LABEL}"


def conversation(words: str) -> list[e.AnyEvent]:
    call = d.ToolCallMetadata(
        tool_name="read_file",
        tool_call_id="c1",
        arguments={"target_file": "b.png"},
        result=d.ToolResult(status="success"),
    )
    return [
        *recorded.opening(),
        e.AttachmentAdded(label=LABEL, attachment=SHOWN),
        e.TurnStarted(prompt=words, mode="agent", model="m"),
        e.MessageAppended(message=UserMessage(content=words, attachments=(SHOWN,))),
        e.DocumentStarted(id="d1", sequence=1, kind="tool_call", title="read_file"),
        e.DocumentFinished(document=d.ToolCallDocument(id="d1", sequence=1, metadata=call)),
        e.MessageAppended(message=ToolMessage(call_id="c1", content="image", attachments=(SHOWN,))),
    ]


async def test_enter_on_what_the_user_said_shows_the_picture(stage):
    answers = {PictureQuery: PictureAnswer(rows=render_preview(PNG, 40, 12))}
    async with stage(conversation("What is @shot.png?"), answers=answers) as on:
        assert any("▣ image shot.png 64×48 png" in line for line in on.lines())
        blocks = {block.kind: block for block in on.screen.state.blocks}
        assert blocks["tool_call"].attachments == (SHOWN,)
        await on.pilot.press("ctrl+up", "g", "enter")
        await on.until(lambda: on.app.screen is not on.screen)
        await on.until(lambda: on.client.queries and isinstance(on.client.queries[-1], PictureQuery))
        assert on.client.queries[-1].digest == SHOWN.digest
        await on.pilot.press("escape")
        assert on.app.screen is on.screen


async def test_of_several_pictures_one_after_the_other_is_shown(stage):
    second = prepare_attachment(picture(32, 16), "plot.png").attachment
    user_message = UserMessage(content="See @shot.png and @plot.png", attachments=(SHOWN, second))
    events = [
        *recorded.opening(),
        e.TurnStarted(prompt=user_message.content, mode="agent", model="m"),
        e.MessageAppended(message=user_message),
    ]
    answers = {PictureQuery: PictureAnswer(rows=render_preview(PNG, 40, 12))}
    async with stage(events, answers=answers) as on:
        await on.pilot.press("ctrl+up", "g", "enter")
        await on.until(lambda: on.app.screen is not on.screen)

        def look() -> tuple[str, str]:
            return str(on.app.screen.query_one(".dialog-title", Static).render())[:6], on.client.queries[-1].digest

        await on.until(lambda: look() == ("1 of 2", SHOWN.digest))
        for following, before in (("right", "left"), ("n", "p")):
            await on.pilot.press(following)
            await on.until(lambda: look() == ("2 of 2", second.digest))
            await on.pilot.press(before)
            await on.until(lambda: look() == ("1 of 2", SHOWN.digest))
        assert "image shot.png" in str(on.app.screen.query_one(".dialog-title", Static).render())
        await on.pilot.press("enter")
        await on.until(lambda: on.app.screen is on.screen)


async def test_a_label_in_what_was_said_is_not_told_of_twice(stage):
    async with stage(conversation(f"What is {LABEL}?")) as on:
        assert sum("64×48" in line for line in on.lines()) == 1


async def test_a_click_on_a_label_shows_what_it_stands_for(stage):
    answers = {PictureQuery: PictureAnswer(rows=render_preview(PNG, 40, 12))}
    async with stage([*recorded.opening(), e.AttachmentAdded(label=LABEL, attachment=SHOWN)], answers=answers) as on:
        on.prompt.insert(f"see {LABEL}")
        await on.pilot.click(on.prompt, offset=(10, 0))
        await on.until(lambda: on.app.screen is not on.screen)
        await on.pilot.press("q")
        assert on.prompt.text == f"see {LABEL}"


SIZES = pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")


async def settled(pilot: Any, client: ScriptedClient) -> None:
    app: Any = pilot.app
    while app.main.state.seq < len(client.log):
        await pilot.pause(0.01)
    await pilot.pause(0.2)


@SIZES
def test_a_picture_as_it_is_looked_at(snap_compare, size):
    answers = {PictureQuery: PictureAnswer(rows=render_preview(picture(320, 240), size[0] - 8, size[1] - 7))}
    events = [*conversation("What is @shot.png?"), e.TurnFinished(reason="done")]
    client = ScriptedClient(events, answers=answers)

    async def look(pilot: Any) -> None:
        await settled(pilot, client)
        for key in ("ctrl+up", "g", "enter"):
            await pilot.press(key)
            pilot.app.key_filter.keystrokes.flush()
            await pilot.pause(0.1)

    assert snap_compare(_app(client), terminal_size=size, run_before=look)


@SIZES
def test_a_prompt_with_pictures(snap_compare, size):
    client = ScriptedClient([*conversation(f"What is {LABEL}?"), e.TurnFinished(reason="done")])

    async def write(pilot: Any) -> None:
        await settled(pilot, client)
        pilot.app.main.query_one("#prompt").insert(f"Compare {format_label(SHOWN, 2)} with {LABEL}: which is sharper?")
        await pilot.pause(0.2)

    assert snap_compare(_app(client), terminal_size=size, run_before=write)
