from __future__ import annotations

import pytest
from textual.widgets import Input, OptionList, Static

from core.protocol import commands as c
from core.protocol.models import ModelChoice, ProviderStatus
from core.protocol.queries import AnyAnswer, AnyQuery, ModelsAnswer, ModelsQuery, SettingsAnswer, SettingsQuery
from core.providers.catalog.presets import KNOWN
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.bridge import SessionRequest
from tui.dialogs.provider import complete_address, name_server

OLLAMA = ProviderStatus(id="ollama", label="Ollama", base_url="http://127.0.0.1:11434/v1", local=True)
OPENAI = ProviderStatus(id="openai", label="OpenAI")
BEFORE = ModelsAnswer(models=(), providers=(OPENAI, OLLAMA))
LOCAL = ModelChoice(id="ollama/qwen", source=OLLAMA.base_url)


@pytest.fixture
def answer_of_a_search(monkeypatch):
    import asyncio

    searched, answer = asyncio.Event(), [BEFORE]
    plain = ScriptedClient.query

    async def query(self: ScriptedClient, asked: AnyQuery) -> AnyAnswer:
        if isinstance(asked, ModelsQuery):
            self.queries.append(asked)
            if asked.discover:
                await searched.wait()
                return answer[0]
            return BEFORE
        return await plain(self, asked)

    monkeypatch.setattr(ScriptedClient, "query", query)

    def tell(models: ModelsAnswer) -> None:
        answer[0] = models
        searched.set()

    return tell


def keeps(_: ScriptedClient, command: c.AnyCommand) -> c.Reply | None:
    return c.Ack() if isinstance(command, c.ProviderConfigure) else None


def found(on) -> str:
    return str(on.app.screen.query_one("#welcome-found", Static).visual)


def ways(on) -> list[str]:
    options = on.app.screen.query_one("#welcome-ways", OptionList)
    return [option.id for option in options.options]


async def welcomed(on) -> None:
    await on.until(lambda: type(on.app.screen).__name__ == "WelcomeDialog" and on.app.screen.query(OptionList))
    await on.pilot.pause(0.05)


async def test_a_local_server_is_not_said_to_be_there_before_it_has_answered(stage, answer_of_a_search):
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        assert "looking…" in found(on)
        assert "✓" not in found(on)
        assert "pick" not in ways(on)
        answer_of_a_search(ModelsAnswer(models=(LOCAL,), providers=(OPENAI, OLLAMA)))
        await on.until(lambda: "✓ Ollama" in found(on))
        assert ways(on)[:2] == ["pick", "demo"]


async def test_a_server_that_does_not_answer_is_told_with_its_problem(stage, answer_of_a_search):
    silent = ProviderStatus(id="ollama", label="Ollama", local=True, problem="not running")
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        answer_of_a_search(ModelsAnswer(models=(), providers=(OPENAI, silent)))
        await on.until(lambda: "not running" in found(on))
        assert "✓" not in found(on)


async def test_a_search_that_ends_before_the_screen_is_there_is_not_lost(stage, answer_of_a_search):
    answer_of_a_search(ModelsAnswer(models=(LOCAL,), providers=(OPENAI, OLLAMA)))
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        assert "✓ Ollama" in found(on)
        assert "looking…" not in found(on)


async def test_in_a_small_window_every_way_on_is_in_sight(stage, answer_of_a_search):
    async with stage(wish=SessionRequest(), size=(60, 16)) as on:
        await welcomed(on)
        options = on.app.screen.query_one("#welcome-ways", OptionList)
        assert options.region.height == len(ways(on)) == 4
        assert options.region.bottom <= 16


async def test_with_every_known_provider_every_way_on_is_in_sight_in_a_small_window(stage, answer_of_a_search):
    known = [ProviderStatus(id=name, label=preset.label, local=preset.local) for name, preset in KNOWN.items()]
    async with stage(wish=SessionRequest(), size=(60, 16)) as on:
        await welcomed(on)
        answer_of_a_search(ModelsAnswer(models=(LOCAL,), providers=tuple(known)))
        await on.until(lambda: "other" in ways(on))
        await on.pilot.pause(0.05)
        options = on.app.screen.query_one("#welcome-ways", OptionList)
        assert ways(on) == ["pick", "demo", "key:anthropic", "key:openai", "other", "address", "leave"]
        assert options.region.height == len(ways(on))
        assert options.region.bottom <= 16
        assert found(on).startswith("✓ Ollama")


async def test_one_enter_takes_the_demo_while_the_search_goes_on(stage, answer_of_a_search):
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen)[0].demo


async def test_what_was_marked_stays_marked_when_the_search_ends(stage, answer_of_a_search):
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        await on.pilot.press("down")
        options = on.app.screen.query_one(OptionList)
        assert options.highlighted_option.id == "key:openai"
        answer_of_a_search(ModelsAnswer(models=(LOCAL,), providers=(OPENAI, OLLAMA)))
        await on.until(lambda: "pick" in ways(on))
        assert options.highlighted_option.id == "key:openai"


async def test_models_that_were_found_are_marked_where_the_user_marked_nothing(stage, answer_of_a_search):
    many = tuple(ModelChoice(id=f"ollama/qwen{number}", source=OLLAMA.base_url) for number in range(10))
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        answer_of_a_search(ModelsAnswer(models=many, providers=(OPENAI, OLLAMA)))
        await on.until(lambda: "pick" in ways(on))
        option = on.app.screen.query_one(OptionList).highlighted_option
        assert (option.id, "10 found" in str(option.prompt)) == ("pick", True)


async def test_the_list_of_models_names_the_one_in_use_where_no_other_was_found(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"/model", "enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        about = on.app.screen.query_one(".dialog-about", Static)
        assert str(about.render()) == "In use: scripted/demo. No other model found; /login adds a key."


async def test_a_model_that_was_found_is_chosen_and_kept(stage, answer_of_a_search):
    async with stage(wish=SessionRequest(), react=keeps) as on:
        await welcomed(on)
        answer_of_a_search(ModelsAnswer(models=(LOCAL,), providers=(OPENAI, OLLAMA)))
        await on.until(lambda: "pick" in ways(on))
        assert on.app.screen.query_one("#welcome-ways", OptionList).highlighted_option.id == "pick"
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen)[0].model == "ollama/qwen"
        assert on.sent(c.ProviderConfigure) == [c.ProviderConfigure(provider="ollama", model="ollama/qwen")]


async def test_after_a_pasted_key_one_of_its_models_is_chosen(stage, answer_of_a_search):
    keyed = ProviderStatus(id="openai", label="OpenAI", key="keyring")
    models = (LOCAL, ModelChoice(id="openai/a"), ModelChoice(id="openai/b"))
    async with stage(wish=SessionRequest(), react=keeps) as on:
        await welcomed(on)
        await on.pilot.press("down", "enter")
        await on.until(lambda: on.app.screen.query_one("#welcome-key", Input).has_focus)
        await on.pilot.press(*"sk-1", "enter")
        await on.until(lambda: on.sent(c.ProviderConfigure))
        answer_of_a_search(ModelsAnswer(models=models, providers=(keyed, OLLAMA)))
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.pause(0.05)
        await on.pilot.press(*"hello", "enter")
        await on.pilot.pause(0.05)
        assert on.sent(c.SessionOpen) == []
        assert "'hello' is not the name of a model" in str(on.app.screen.query_one(".dialog-about", Static).visual)
        await on.pilot.press(*["backspace"] * 5, "down", "enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen)[0].model == "openai/b"
        assert [command.key for command in on.sent(c.ProviderConfigure)] == ["sk-1", ""]


async def test_escape_leads_from_a_key_back_to_the_ways_on(stage, answer_of_a_search):
    async with stage(wish=SessionRequest(), react=keeps) as on:
        await welcomed(on)
        await on.pilot.press("down", "enter")
        line = on.app.screen.query_one("#welcome-key", Input)
        await on.until(lambda: line.has_focus)
        await on.pilot.press(*"sk", "escape")
        assert (line.display, on.app.screen.query_one("#welcome-ways").has_focus) == (False, True)
        await on.pilot.press("up", "enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen)[0].demo


async def test_the_program_can_be_left_before_anything_is_chosen(stage, answer_of_a_search):
    async with stage(wish=SessionRequest()) as on:
        await welcomed(on)
        await on.pilot.press("ctrl+q")
        await on.until(lambda: on.app._exit)
        assert on.sent(c.SessionOpen) == []


WORK = ProviderStatus(id="work", label="work", base_url="https://host.example/v1")


def typed(on, name: str) -> Input:
    return on.app.screen.query_one(f"#address-{name}", Input)


async def filled(on, name: str, url: str, key: str) -> None:
    await on.until(lambda: type(on.app.screen).__name__ == "AddressDialog" and typed(on, "url").has_focus)
    typed(on, "url").value = url
    for field, text in (("name", name), ("key", key)):
        await on.pilot.press("down")
        assert typed(on, field).has_focus
        typed(on, field).value = text
    await on.pilot.press("enter")


@pytest.mark.parametrize("size", [(120, 40), (60, 16)])
async def test_an_address_of_the_users_own_is_kept_and_one_of_its_models_is_taken(stage, answer_of_a_search, size):
    async with stage(wish=SessionRequest(), react=keeps, size=size) as on:
        await welcomed(on)
        assert ways(on) == ["demo", "key:openai", "address", "leave"]
        await on.pilot.press("down", "down", "enter")
        await filled(on, "work", "https://host.example/v1", "sk-of-work")
        await on.until(lambda: on.sent(c.ProviderConfigure))
        command = c.ProviderConfigure(provider="work", base_url="https://host.example/v1", key="sk-of-work")
        assert on.sent(c.ProviderConfigure) == [command]
        answer_of_a_search(ModelsAnswer(models=(LOCAL, ModelChoice(id="work/a")), providers=(OPENAI, OLLAMA, WORK)))
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.pause(0.05)
        assert on.app.screen.query_one(OptionList).option_count == 1
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen)[0].model == "work/a"
        assert on.sent(c.ProviderConfigure)[1] == c.ProviderConfigure(provider="work", model="work/a")


async def test_what_can_be_no_name_and_no_address_is_told_where_it_was_typed(stage, answer_of_a_search):
    async with stage(wish=SessionRequest(), react=keeps) as on:
        await welcomed(on)
        await on.pilot.press("down", "down", "enter")
        await on.until(lambda: type(on.app.screen).__name__ == "AddressDialog" and typed(on, "url").has_focus)
        for name, bad, good in (("url", "ftp://host", "http://127.0.0.1:9/v1"), ("name", "My Server", "mine")):
            typed(on, "name").value = "My Server"
            typed(on, name).value = bad
            await on.pilot.press("enter")
            about_text = str(on.app.screen.query_one("#address-about", Static).visual)
            assert typed(on, name).has_focus
            assert about_text.startswith("A name uses" if name == "name" else "An address is")
            typed(on, name).value = good
        for key, name in (("down", "key"), ("up", "name"), ("up", "url"), ("down", "name")):
            await on.pilot.press(key)
            assert typed(on, name).has_focus
        await on.pilot.press("escape")
        await welcomed(on)
        assert on.sent(c.ProviderConfigure) == []


@pytest.mark.parametrize(
    ("text", "url", "name"),
    [
        ("localhost:8080", "http://localhost:8080/v1", "local-8080"),
        (" 127.0.0.1:1234/ ", "http://127.0.0.1:1234/v1", "local-1234"),
        ("gpu-box:8000", "http://gpu-box:8000/v1", "gpu-box-8000"),
        ("10.0.0.7:8000", "http://10.0.0.7:8000/v1", "at-10-0-0-7-8000"),
        ("[::1]:8080", "http://[::1]:8080/v1", "local-8080"),
        ("localhost", "http://localhost/v1", "local"),
        ("host.example", "https://host.example/v1", "host-example"),
        ("https://host.example", "https://host.example/v1", "host-example"),
        ("HTTPS://host.example/openai/v1/", "https://host.example/openai/v1", "host-example"),
        ("http://host/api", "http://host/api", "host"),
        ("host", "", ""),
        ("host:99999", "", ""),
        ("ftp://host", "", ""),
        ("http://", "", ""),
        ("https://me:secret@host", "", ""),
        ("my server:80", "", ""),
        ("", "", ""),
    ],
)
def test_what_is_typed_for_an_address_is_completed_to_the_url_that_was_meant(text, url, name):
    assert complete_address(text) == url
    assert name_server(url) == name


async def test_host_and_port_are_enough_and_enter_looks_for_the_models(stage, answer_of_a_search):
    async with stage(wish=SessionRequest(), react=keeps) as on:
        await welcomed(on)
        await on.pilot.press("down", "down", "enter")
        await on.until(lambda: type(on.app.screen).__name__ == "AddressDialog" and typed(on, "url").has_focus)
        await on.pilot.press(*"localhost:8080", "enter")
        await on.until(lambda: on.sent(c.ProviderConfigure))
        command = c.ProviderConfigure(provider="local-8080", base_url="http://localhost:8080/v1")
        assert on.sent(c.ProviderConfigure) == [command]


async def test_a_key_for_a_provider_that_is_not_named_is_found_behind_a_list(stage, answer_of_a_search):
    others = tuple(ProviderStatus(id=name, label=name.title()) for name in ("a", "b", "groq"))
    async with stage(wish=SessionRequest(), react=keeps) as on:
        await welcomed(on)
        answer_of_a_search(ModelsAnswer(models=(), providers=(*others, OLLAMA)))
        await on.until(lambda: "other" in ways(on))
        assert ways(on) == ["demo", "key:a", "key:b", "other", "address", "leave"]
        assert "Groq" not in found(on)


async def test_an_address_can_be_named_at_any_time(stage):
    models = ModelsAnswer(models=(ModelChoice(id="work/a"),), providers=(OPENAI, WORK), default="openai/a")
    async with stage(recorded.opening(), answers={ModelsQuery: models}, react=keeps) as on:
        on.prompt.text = "/login address"
        on.prompt.submit()
        await filled(on, "work", "127.0.0.1:9", "")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.pause(0.05)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.ModelSet))
        assert on.sent(c.ModelSet)[0].model == "work/a"
        assert on.sent(c.ProviderConfigure) == [c.ProviderConfigure(provider="work", base_url="http://127.0.0.1:9/v1")]


async def test_a_key_can_be_pasted_at_any_time_and_one_of_its_models_is_taken(stage):
    models = ModelsAnswer(models=(LOCAL, ModelChoice(id="openai/a")), providers=(OPENAI, OLLAMA), default="openai/a")
    async with stage(recorded.opening(), answers={ModelsQuery: models}, react=keeps) as on:
        on.prompt.text = "/login"
        on.prompt.submit()
        for dialog, keys in [
            ("PickerDialog", ["enter"]),
            ("KeyDialog", [*"sk-1", "enter"]),
            ("PickerDialog", ["enter"]),
        ]:
            await on.until(lambda name=dialog: type(on.app.screen).__name__ == name and on.app.screen.query(Input))
            await on.pilot.pause(0.05)
            await on.pilot.press(*keys)
        await on.until(lambda: on.sent(c.ModelSet))
        assert on.sent(c.ProviderConfigure) == [c.ProviderConfigure(provider="openai", key="sk-1")]
        assert on.sent(c.ModelSet)[0].model == "openai/a"


async def test_escape_pastes_no_key(stage):
    models = ModelsAnswer(models=(LOCAL,), providers=(OPENAI, OLLAMA), default="openai/a")
    async with stage(recorded.opening(), answers={ModelsQuery: models}, react=keeps) as on:
        on.prompt.text = "/login"
        on.prompt.submit()
        for dialog, keys in (("PickerDialog", ["enter"]), ("KeyDialog", [*"sk-1", "escape"])):
            await on.until(lambda name=dialog: type(on.app.screen).__name__ == name and on.app.screen.query(Input))
            await on.pilot.pause(0.05)
            await on.pilot.press(*keys)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.ProviderConfigure) == []


async def test_theme_and_keys_of_the_user_are_taken_and_what_is_wrong_is_told(stage):
    settings = SettingsAnswer(theme="agent-light", keymap={"app.keys": "f5", "app.nothing": "x"})
    async with stage(recorded.opening(), answers={SettingsQuery: settings}) as on:
        await on.until(lambda: on.app.theme == "agent-light")
        await on.until(lambda: on.app._notifications)
        assert "app.nothing" in next(iter(on.app._notifications)).message
        await on.pilot.press("f5")
        await on.until(lambda: type(on.app.screen).__name__ == "KeyHelpDialog")


async def test_a_theme_that_is_not_there_is_told(stage):
    async with stage(recorded.opening(), answers={SettingsQuery: SettingsAnswer(theme="nope")}) as on:
        await on.until(lambda: on.app._notifications)
        assert "there is no theme 'nope'" in next(iter(on.app._notifications)).message
        assert on.app.theme == "agent-dark"


@pytest.mark.parametrize(
    ("mode", "shown"), [("agent", "commands: ask"), ("debug", "commands: ask"), ("plan", "off"), ("ask", "off")]
)
async def test_the_status_says_whether_commands_can_run(stage, mode, shown):
    from tui.widgets.status_bar import StatusBar

    async with stage(recorded.opening(mode)) as on:
        assert shown in str(on.screen.query_one(StatusBar).render())
