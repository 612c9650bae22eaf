"""The bars that ask: what they show, which keys they take, and when."""

from __future__ import annotations

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.geometry import Region
from textual.widgets import OptionList, Static

from core.protocol import commands, queries
from core.protocol.events import ApprovalRequested, ApprovalResolved, SessionStarted, TrustStated
from tui.ask.approval_bar import MOST_ROWS, ApprovalBar, format_subject
from tui.ask.messages import DecisionMade
from tui.input.visibility import is_fully_visible

STARTED = SessionStarted(workspace="/shop", mode="agent", model="scripted/demo")
ALL = ("allow_once", "allow_always", "reject_once", "reject_always")
ASKED = ApprovalRequested(id="apr_1", call="c1", kind="command", subject="npm run build", options=ALL, digest="d")


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    monkeypatch.setattr("tui.ask.approval_bar.GRACE", 0.0)
    monkeypatch.setattr("tui.ask.trust_bar.GRACE", 0.0)


def text_of(on, name):
    return str(on.screen.query_one(name).render())


async def approval(on, request=ASKED):
    on.client.emit(request)
    await on.until(lambda: on.screen.query("#approval") and on.screen.query_one("#approval").has_focus)


def answers(on):
    return [command for command in on.client.commands if isinstance(command, commands.ApprovalAnswer)]


@pytest.mark.parametrize(
    ("key", "decision"), [("y", "allow_once"), ("a", "allow_always"), ("n", "reject_once"), ("N", "reject_always")]
)
async def test_m6_each_answer_has_a_key(stage, key, decision):
    async with stage([STARTED]) as on:
        await approval(on)
        await on.pilot.press(key)
        await on.until(lambda: answers(on))
        assert (answers(on)[0].decision, answers(on)[0].pattern) == (decision, "")


async def test_an_answer_that_is_not_offered_has_no_key(stage):
    async with stage([STARTED]) as on:
        await approval(on, ApprovalRequested(id="apr_1", call="c1", kind="command", subject="make"))
        await on.pilot.press("a", "N", "p", "s")
        assert "always" not in text_of(on, "#approval-keys")
        assert not on.screen.query_one("#approval-pattern").display
        await on.pilot.press("y")
        await on.until(lambda: answers(on))
        assert [answer.decision for answer in answers(on)] == ["allow_once"]


async def test_m8_enter_allows_nothing(stage):
    async with stage([STARTED]) as on:
        await approval(on)
        await on.pilot.press("enter", "enter", "space")
        assert answers(on) == []


async def test_m9_keys_that_come_too_soon_are_no_consent(stage, monkeypatch, clock):
    monkeypatch.setattr("tui.ask.approval_bar.GRACE", 0.4)
    async with stage([STARTED]) as on:
        await approval(on)
        clock[0] += 0.39
        await on.pilot.press("y", "a", "N", "p")
        assert answers(on) == []
        clock[0] += 0.02
        await on.pilot.press("y")
        await on.until(lambda: answers(on))


class LowApp(App[None]):
    """A bar with less room than its command needs."""

    CSS = "#room { height: 5; overflow: hidden; } #approval-subject { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="room"):
            yield ApprovalBar()

    @on(DecisionMade)
    def record(self, message: DecisionMade) -> None:
        self.decisions.append(message.decision)


async def test_m8_a_command_of_which_lines_are_cut_off_takes_no_answer_until_all_of_it_is_visible():
    lines = "\n".join(f"echo {number}" for number in range(6))
    async with LowApp().run_test(size=(80, 40)) as pilot:
        bar = pilot.app.query_one(ApprovalBar)
        bar.show(ApprovalRequested(id="apr_1", call="c1", kind="command", subject=lines, options=ALL))
        bar.focus()
        await pilot.pause()
        await pilot.press("y", "a", "n", "N")
        assert pilot.app.decisions == []
        pilot.app.query_one("#room").styles.height = 30
        await pilot.pause()
        await pilot.press("y")
        assert pilot.app.decisions == ["allow_once"]


def test_m8_padding_carriage_returns_and_invisible_characters_are_shown():
    subject = format_subject("ls" + " " * 5000 + "\n" * 900 + "rm x\r\u202egnp\u200b\U000e0041" + "\t" * 40)
    assert [mark for mark in ("5,000 spaces", "900 line ends", "␍", "‹U+202E") if mark not in subject] == []
    assert not {"\u202e", "\u200b"} & {*subject}
    assert len(subject) < 300


def test_m5_a_blank_at_the_end_tells_two_commands_apart():
    assert format_subject("git push") == "git push"
    assert format_subject("git push ") == "git push‹1 space›"
    assert format_subject("git push\n\n") == "git push‹2 line ends›"


async def test_m8_a_long_command_tells_its_length_and_its_tail(stage):
    async with stage([STARTED]) as on:
        await approval(
            on, ApprovalRequested(id="a", call="c", kind="command", subject="ls " + "x " * 3000 + "; rm -rf y")
        )
        title = text_of(on, "#approval-title")
        assert "6,013 characters" in title
        assert "; rm -rf y" in title


async def test_what_the_model_says_is_apart_and_labelled(stage):
    request = ApprovalRequested(
        id="a",
        call="c",
        kind="command",
        subject="make",
        explanation="safe, press y",
        reason="The rule Shell(make) applies.",
        containment="T1: held",
        network=("example.org",),
        environment=("LD_PRELOAD",),
    )
    async with stage([STARTED]) as on:
        await approval(on, request)
        assert "safe" not in text_of(on, "#approval-about")
        await on.pilot.press("j")
        about = text_of(on, "#approval-about").splitlines()
        assert about[-1] == "the model says: safe, press y"
        assert "can reach: example.org" in "".join(about)
        assert any("LD_PRELOAD" in line for line in about)
        assert any("The rule Shell(make)" in line for line in about)


BOXED = "sandboxed; file changes go to review; no network"
HELD = {
    "containment": BOXED,
    "reason": "Your settings ask before every command.",
    "explanation": "To see that the types are right.",
}
CARDS = {
    "command": ApprovalRequested(
        id="a", call="c", kind="command", subject="npm run build", options=(*ALL, "run_on_machine"), **HELD
    ),
    "bare": ApprovalRequested(
        id="a", call="c", kind="command", subject="make", containment="nothing holds it: it is free"
    ),
    "hosts": ApprovalRequested(
        id="a",
        call="c",
        kind="command",
        subject="pip install requests",
        network=("pypi.org",),
        permissions=("network",),
        reason="It asks to reach pypi.org for this one command.",
        containment=BOXED,
        options=("allow_once", "allow_session", "allow_always", "reject_once", "reject_always"),
    ),
    "host": ApprovalRequested(
        id="a",
        call="c",
        kind="host",
        subject="docs.python.org:443",
        containment="requested by: web_fetch https://docs.python.org/3/library/asyncio-task.html",
        network=("docs.python.org",),
        reason="the conversation holds text from wiki.example, and this host is new in it",
        options=("allow_once", "allow_session", "allow_always", "reject_once"),
    ),
    "tool": ApprovalRequested(id="a", call="c", kind="tool", subject="github: create_issue", options=ALL),
}


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
@pytest.mark.parametrize("card", CARDS)
async def test_a_short_command_is_asked_about_in_five_rows_and_more_is_a_key_away(stage, card, size):
    request = CARDS[card]
    async with stage([STARTED], size=size) as on:
        await approval(on, request)
        bar, about = on.screen.query_one("#approval"), on.screen.query_one("#approval-about")
        await on.until(lambda: 0 < bar.region.height <= MOST_ROWS)
        await on.pilot.pause()  # the card is drawn again for the width that it has got
        assert request.subject in text_of(on, "#approval-text")
        folded = " ".join(str(about.render()).split())
        for granted in ("pypi.org", "not sandboxed", "text from wiki.example"):
            assert granted in folded or granted not in f"{request.reason} {request.containment}"
        for key in "yn":
            assert f"{key} " in text_of(on, "#approval-keys")
        if "j more" in text_of(on, "#approval-keys"):
            await on.pilot.press("j")
            await on.until(lambda: request.explanation in text_of(on, "#approval-about"))
            about_text = " ".join(str(about.render()).split())
            assert [text for text in (request.reason, request.containment) if text not in about_text] == []
            assert is_fully_visible(on.screen.query_one("#approval-keys"))
            await on.pilot.press("k")
            await on.until(lambda: bar.region.height <= MOST_ROWS)
            assert " ".join(str(about.render()).split()) == folded
        await on.pilot.press("y")
        await on.until(lambda: answers(on))


async def test_m6_a_pattern_is_typed_previewed_and_only_then_kept(stage):
    async with stage([STARTED]) as on:
        on.client.answers[queries.PatternQuery] = queries.PatternAnswer(problem="does not match")
        await approval(on)
        await on.pilot.press("p")
        await on.until(lambda: on.screen.focused.id == "approval-pattern")
        assert on.screen.focused.value == "npm run build"
        await on.until(lambda: "does not match" in text_of(on, "#approval-preview"))
        await on.pilot.press("enter")
        assert answers(on) == []
        on.client.answers[queries.PatternQuery] = queries.PatternAnswer(example="npm run anything", also=("npm run x",))
        on.screen.focused.value = "npm run *"
        await on.until(lambda: "npm run anything" in text_of(on, "#approval-preview"))
        await on.pilot.press("enter")
        await on.until(lambda: answers(on))
        assert (answers(on)[0].decision, answers(on)[0].pattern) == ("allow_always", "npm run *")


async def test_escape_goes_from_a_pattern_to_the_choices_and_from_there_to_the_prompt(stage):
    async with stage([STARTED]) as on:
        await approval(on)
        await on.pilot.press("p")
        await on.until(lambda: on.screen.focused.id == "approval-pattern")
        await on.pilot.press("escape")
        await on.until(lambda: on.screen.focused.id == "approval")
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        assert answers(on) == []


async def test_a_host_can_be_granted_once_for_the_session_or_for_good(stage):
    options = ("allow_once", "allow_session", "allow_always", "reject_once")
    async with stage([STARTED]) as on:
        await approval(on, ApprovalRequested(id="n", call="c", kind="network", subject="example.org", options=options))
        assert "needs the network" in text_of(on, "#approval-title")
        assert "pattern" not in text_of(on, "#approval-keys")
        await on.pilot.press("s")
        await on.until(lambda: answers(on))
        assert answers(on)[0].decision == "allow_session"
        on.client.emit(ApprovalResolved(id="n", decision="allow_session"))
        await on.until(lambda: not on.screen.query_one("#approval").display)


ASK_TRUST = TrustStated(state="asked", directory="/home/me/\u202eshop", holds=("AGENTS.md", ".git"))


async def test_i1_trust_is_asked_for_beside_the_prompt_and_takes_one_key(stage, monkeypatch):
    monkeypatch.setattr("tui.chat.prompt.ANSWER_WAIT", 100.0)  # on a busy machine the letters come slowly
    async with stage([STARTED, ASK_TRUST]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        assert on.prompt.has_focus
        asked = text_of(on, "#trust")
        assert "/home/me/‹U+202E" in asked
        assert "AGENTS.md, .git" in asked
        await on.pilot.press(*"yes n")
        assert on.prompt.text == "yes n"
        await on.pilot.press("f3")
        await on.until(
            lambda: commands.TrustSet(session=on.client.commands[-1].session, trusted=True) in on.client.commands
        )
        on.client.emit(TrustStated(state="trusted", directory="/shop"))
        await on.until(lambda: not on.screen.query_one("#trust").display)
        assert on.prompt.text == "yes n"


@pytest.mark.parametrize(("letter", "trusted"), [("y", True), ("n", False)])
async def test_i1_a_letter_alone_in_an_empty_prompt_answers_as_it_does_elsewhere(stage, letter, trusted):
    async with stage([STARTED, ASK_TRUST]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        assert f"{letter}/f" in text_of(on, "#trust")
        await on.pilot.press(letter)
        await on.until(lambda: any(isinstance(command, commands.TrustSet) for command in on.client.commands))
        (sent,) = [command for command in on.client.commands if isinstance(command, commands.TrustSet)]
        assert (sent.trusted, on.prompt.text) == (trusted, "")


async def test_i1_a_letter_is_text_where_it_is_not_alone_or_nothing_is_asked_or_it_comes_too_soon(stage, monkeypatch):
    async with stage([STARTED]) as on:
        await on.pilot.press("y")
        assert not on.prompt.is_answer("y")
        assert on.prompt.text == "y"
    monkeypatch.setattr("tui.ask.trust_bar.GRACE", 1e9)
    async with stage([STARTED, ASK_TRUST]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        assert not on.prompt.is_answer("y")
    monkeypatch.setattr("tui.ask.trust_bar.GRACE", 0.0)
    async with stage([STARTED, ASK_TRUST]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        await on.pilot.press(*"yo")
        on.prompt._answer("y")
        assert on.prompt.text == "yo"


async def test_n3_words_that_were_changed_are_named_and_take_the_same_key(stage):
    names = ("AGENTS.md", "a\u202eb/AGENTS.md", "c/AGENTS.md", "d/AGENTS.md", "e/AGENTS.md")
    async with stage([STARTED, TrustStated(state="asked", directory="/home/me/shop", changed=names)]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        asked = text_of(on, "#trust")
        assert "have changed since you trusted this project: AGENTS.md, a‹U+202E" in asked
        assert "d/AGENTS.md and 1 more." in asked
        assert "f3 load" in " ".join(asked.split())
        await on.pilot.press("f3")
        await on.until(
            lambda: commands.TrustSet(session=on.client.commands[-1].session, trusted=True) in on.client.commands
        )


async def test_i1_trust_steps_aside_for_a_question_that_a_turn_waits_for(stage):
    request = ApprovalRequested(
        id="n",
        call="c",
        kind="command",
        subject="make " * 60,
        containment="sandboxed; file changes go to review; no network",
        reason="Your settings ask before every command.",
        options=ALL,
    )
    async with stage([STARTED, ASK_TRUST], size=(60, 16)) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        assert on.screen.query_one("#trust").size.height <= 3
        await approval(on, request)
        await on.until(lambda: not on.screen.query_one("#trust").display)
        keys = on.screen.query_one("#approval-keys")
        await on.until(lambda: keys.region.height == keys.size.height == 1 and keys.region.bottom <= on.prompt.region.y)
        assert keys.region.bottom <= on.prompt.region.y
        assert keys.region.height == keys.size.height == 1
        on.client.emit(ApprovalResolved(id="n", decision="allow_once"))
        await on.until(lambda: on.screen.query_one("#trust").display)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_m8_of_a_question_about_hosts_every_key_and_every_host_that_is_asked_for_is_on_the_screen(stage, size):
    hosts = tuple(sorted(f"{word}.example.org" for word in ("registry", "downloads", "api", "mirror", "assets")))
    request = ApprovalRequested(
        id="n",
        call="c",
        kind="command",
        subject="\n".join(f"curl https://{host}/{'x' * 40}" for host in hosts * 3),
        containment="sandboxed; file changes go to review",
        network=hosts,
        permissions=("network",),
        reason=f"It asks to reach {', '.join(hosts)} for this one command.",
        explanation="So that the dependencies are there. " * 9,
        options=("allow_once", "allow_session", "allow_always", "reject_once", "reject_always", "run_on_machine"),
    )
    async with stage([STARTED], size=size) as on:
        await approval(on, request)
        keys, about = on.screen.query_one("#approval-keys"), on.screen.query_one("#approval-about")
        assert keys.region.bottom <= on.prompt.region.y
        assert is_fully_visible(keys)
        assert is_fully_visible(on.screen.query_one("#approval-subject"))
        about_text = "".join(line.text for line in about.render_lines(Region(0, 0, *about.size)))
        assert [host for host in hosts if host not in about_text] == []


async def test_i1_a_prompt_is_sent_while_trust_is_still_open(stage):
    async with stage([STARTED, ASK_TRUST]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        await on.pilot.press(*"go", "enter")
        await on.until(lambda: any(isinstance(command, commands.TurnSubmit) for command in on.client.commands))
        await on.pilot.press("f4")
        await on.until(
            lambda: any(
                command.trusted is False for command in on.client.commands if isinstance(command, commands.TrustSet)
            )
        )
        sent = [type(command) for command in on.client.commands]
        assert sent.index(commands.TurnSubmit) < sent.index(commands.TrustSet)


async def test_i1_a_key_for_trust_that_comes_too_soon_is_no_answer(stage, monkeypatch):
    monkeypatch.setattr("tui.ask.trust_bar.GRACE", 1e9)
    async with stage([STARTED, ASK_TRUST]) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        await on.pilot.press("f3")
        assert not any(isinstance(command, commands.TrustSet) for command in on.client.commands)


KEPT = (
    queries.SavedPermission(
        choice="allow", rule="Service(docker)", id="session:Service(docker)", source="this session"
    ),
    queries.SavedPermission(choice="allow", rule="make", id="perm_1", exactly=True, directory="sub"),
    queries.SavedPermission(choice="deny", rule="Read(**/.env)", source="config.toml"),
)
LISTED = {
    queries.PermissionsQuery: queries.PermissionsAnswer(
        trusted=True, kept=KEPT, hosts=("example.org",), services=("docker",)
    ),
    queries.IdleQuery: queries.IdleAnswer(seq=1),
}


def removed(on):
    return [command.id for command in on.client.commands if isinstance(command, commands.PermissionRemove)]


def listed(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


async def test_what_holds_is_listed_with_where_it_comes_from(stage):
    async with stage([STARTED], answers=LISTED) as on:
        await on.open_listing("/permissions", "PermissionsDialog")
        options = on.app.screen.query_one(OptionList)
        rows = [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]
        assert rows == [
            "allow Service(docker)  this session",
            "allow exactly make in sub  permanent",
            "deny  Read(**/.env)  config.toml",
        ]
        assert listed(on, "sum") == "This project is trusted."
        assert "hosts: example.org · services on your machine: docker" in listed(on, "notes")
        assert "For this session" in listed(on, "reason")


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        (["d"], ["session:Service(docker)"]),
        (["delete"], ["session:Service(docker)"]),
        (["j", "r"], ["perm_1"]),
        (["down", "d"], ["perm_1"]),
        (["k", "d"], []),
        (["up", "d", "escape"], []),
        (["up", "d", "q"], []),
    ],
)
async def test_a_permission_is_taken_back_by_a_key_unless_it_stands_in_a_file(stage, keys, ids):
    async with stage([STARTED], answers=LISTED) as on:
        await on.open_listing("/permissions", "PermissionsDialog")
        for key in keys:
            await on.pilot.press(key)
            await on.pilot.pause()
        await on.until(lambda: removed(on) == ids)
        if keys[-1] in {"escape", "q"}:
            assert on.app.screen is on.screen
        elif not ids:
            assert "remove it there" in listed(on, "reason")


async def test_a_permission_is_forgotten_by_its_id(stage):
    async with stage([STARTED], answers=LISTED) as on:
        on.prompt.text = "/permissions remove perm_1"
        on.prompt.action_send()
        await on.until(lambda: removed(on))
        assert removed(on) == ["perm_1"]


async def test_where_nothing_was_allowed_that_is_said(stage):
    answers = {queries.PermissionsQuery: queries.PermissionsAnswer(trusted=False, kept=())}
    async with stage([STARTED], answers=answers) as on:
        await on.open_listing("/permissions", "PermissionsDialog")
        assert listed(on, "sum") == "This project is not trusted."
        assert "no permissions or refusals" in listed(on, "reason")
        await on.pilot.press("d")
        assert removed(on) == []


async def test_what_a_command_asks_for_stands_with_the_hosts_that_it_would_reach(stage):
    async with stage([STARTED]) as on:
        options = ("allow_once", "allow_session", "allow_always", "reject_once")
        about = {"permissions": ("network", "git_write"), "network": ("example.org",), "options": options}
        await approval(on, ApprovalRequested(id="apr_1", call="c1", kind="command", subject="curl", **about))
        assert " can reach: example.org   asks for: network, git_write " in text_of(on, "#approval-about")
        await on.pilot.press("p")
        assert not on.screen.query_one("#approval-pattern").display
        assert "pattern" not in text_of(on, "#approval-keys")
        await on.pilot.press("s")
        await on.until(lambda: answers(on))
        assert answers(on)[0].decision == "allow_session"
