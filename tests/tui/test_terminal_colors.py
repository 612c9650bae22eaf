from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES

import tui
from core.protocol import events as e
from tests.support import recorded
from tui.chat.above_prompt import CompletionList
from tui.terminal.capabilities import TerminalCapabilities, detect_capabilities
from tui.themes.appearance import Appearance, ThemedApp
from tui.themes.building import build_themes, read_theme_files
from tui.themes.line_filter import ASCII, SPOKEN, TerminalFilter, find_nearest
from tui.themes.palettes import BASE_ROLES, CHANGE_ROLES, PALETTES, format_indexed

DEPTHS = ("256", "16", "none")
HEX = re.compile(r"#[0-9a-fA-F]{6}\b|\brgba?\(")


def read_variables(theme: str, depth: str) -> dict[str, str]:
    app = ThemedApp()
    app.appearance.set_depth(depth)
    app.appearance.choose(theme)
    app.show_appearance()
    return app.get_css_variables()


def measure_contrast(one: Color, other: Color) -> float:
    """The contrast of two colours, from 1 to 21 (WCAG 2.2)."""

    def measure_luminance(color: Color) -> float:
        parts = [
            channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
            for channel in color.normalized
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    dark, light = sorted((measure_luminance(one), measure_luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def show(theme: str, depth: str, ink: str, ground: str) -> Style:
    """The style in which a terminal shows a colour on another, both by their variables."""
    variables = read_variables(theme, depth)
    terminal_filter = TerminalFilter(depth, variables, {}, is_dark=not theme.endswith("light"))
    style = Style.from_color(Color.parse(variables[ink]).rich_color, Color.parse(variables[ground]).rich_color)
    return terminal_filter.apply([Segment("x", style)], Color(0, 0, 0))[0].style


@pytest.mark.parametrize(
    ("environment", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "vt100"}, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ],
)
def test_the_environment_tells_how_many_colours_there_are(environment, depth):
    assert detect_capabilities(environment).depth == depth


@pytest.mark.parametrize(
    ("environment", "encoding", "has_unicode"),
    [
        ({}, "utf-8", True),
        ({}, "latin-1", False),
        ({"LC_ALL": "C"}, "utf-8", False),
        ({"TERM": "linux"}, "utf-8", False),
    ],
)
def test_a_locale_without_our_signs_is_noticed(environment, encoding, has_unicode):
    assert detect_capabilities(environment, encoding).has_unicode is has_unicode


@pytest.mark.parametrize(("told", "is_dark"), [("15;0", True), ("0;default;15", False), ("0;8", True), ("", None)])
def test_colorfgbg_tells_whether_the_terminal_is_dark(told, is_dark):
    assert detect_capabilities({"COLORFGBG": told}).is_dark is is_dark


@pytest.mark.parametrize(
    ("theme", "numbers"),
    [
        ("agent-dark", (22, 28, 52, 88)),
        ("nord", (22, 28, 52, 88)),
        ("agent-light", (194, 157, 224, 217)),
        ("solarized-light", (194, 157, 224, 217)),
        ("blue-orange-dark", (18, 25, 94, 130)),
    ],
)
def test_changed_lines_have_the_colours_that_were_chosen_among_the_256(theme, numbers):
    styles = [show(theme, "256", "foreground", role) for role in CHANGE_ROLES]
    assert tuple(style.bgcolor.number for style in styles) == numbers


@pytest.mark.parametrize("theme", PALETTES)
def test_a_marked_row_has_the_hue_of_the_cursor_among_256_colours_and_can_be_read(theme):
    marked, roles = show(theme, "256", "foreground", "marked-row"), PALETTES[theme].get_roles(is_indexed=True)
    assert roles["marked-row"] == format_indexed(marked.bgcolor.number)
    ground, primary, ink = (Color.parse(roles[role]) for role in ("marked-row", "primary", "foreground"))
    assert measure_contrast(ink, ground) >= 4.5
    turn = abs(ground.hsl.h - primary.hsl.h)
    assert min(turn, 1 - turn) <= 0.06
    assert ground.hsl.s > 0.2


@pytest.mark.parametrize(("theme", "number"), [("agent-dark", 25), ("agent-light", 153)])
async def test_the_marked_command_is_not_purple_among_256_colours(stage, theme, number):
    async with stage(recorded.opening()) as on:
        on.app.appearance.set_depth("256")
        on.app.appearance.choose(theme)
        on.app.show_appearance()
        await on.pilot.press("/")
        await on.until(lambda: on.screen.query_one(CompletionList).option_count > 3)
        await on.pilot.pause()
        segments = list(on.screen.query_one(CompletionList).render_line(0))
        for line_filter in on.app.get_line_filters():
            segments = line_filter.apply(segments, Color(0, 0, 0))
        assert {segment.style.bgcolor.number for segment in segments if segment.text.strip()} == {number}


def test_a_theme_of_the_users_marks_a_row_in_its_own_colour(tmp_path):
    (tmp_path / "mine.toml").write_text('primary = "#aa0000"\n')
    (tmp_path / "other.toml").write_text('error = "#aa0000"\n')
    mine, other = read_theme_files(tmp_path, {theme.name: theme for theme in build_themes(is_indexed=True)}).themes
    assert "marked-row" not in mine.variables
    assert other.variables["marked-row"] == format_indexed(25)


@pytest.mark.parametrize("theme", [*PALETTES, "nord", "dracula", "solarized-light"])
def test_no_bar_or_pane_is_tinted_among_256_colours(theme):
    for ground in ("surface", "panel"):
        number = show(theme, "256", "foreground", ground).bgcolor.number
        assert number >= 232 or number in {16, 231}, (theme, ground, number)


def test_a_verdict_button_keeps_its_hue_among_256_colours():
    assert show("agent-dark", "256", "foreground", "success-muted").bgcolor.number == 22
    assert show("agent-dark", "256", "foreground", "error-muted").bgcolor.number in {52, 53}


@pytest.mark.parametrize("theme", [*PALETTES, "nord"])
def test_with_16_colours_the_background_is_the_terminals(theme):
    for ground in ("background", "surface", "panel"):
        assert show(theme, "16", "foreground", ground).bgcolor.is_default
    assert show(theme, "16", "foreground", "background").color.is_default


def test_with_16_colours_lines_and_words_differ_from_each_other():
    styles = [show("agent-dark", "16", "foreground", role) for role in CHANGE_ROLES]
    looks = [(style.color.number, style.bgcolor.number, style.bold) for style in styles]
    assert looks == [(10, None, None), (0, 2, True), (9, None, None), (15, 1, True)]
    blue, _, orange, _ = (show("blue-orange-dark", "16", "foreground", role) for role in CHANGE_ROLES)
    assert (blue.color.number, orange.color.number) == (12, 11)


@pytest.mark.parametrize("theme", [name for name in PALETTES if name.endswith("light")])
def test_with_16_colours_no_text_is_yellow_on_a_light_terminal(theme):
    roles = ("primary", "secondary", "warning", "error", "success", "foreground")
    assert {3, 11}.isdisjoint(show(theme, "16", role, "background").color.number for role in roles)


@pytest.mark.parametrize("theme", [*PALETTES, "dracula"])
def test_without_colours_none_is_written_and_what_is_marked_is_inverse(theme):
    marked = show(theme, "none", "background", "primary")
    plain = show(theme, "none", "foreground", "background")
    for style in (marked, plain, show(theme, "none", "foreground", "added-word")):
        assert (style.color.is_default, style.bgcolor.is_default) == (True, True)
    assert (marked.reverse, bool(plain.reverse)) == (True, False)
    assert show(theme, "none", "foreground", "added-word").underline


@pytest.mark.parametrize("depth", DEPTHS)
def test_text_keeps_its_place_and_its_link_when_its_colours_change(depth):
    terminal_filter = TerminalFilter(depth, read_variables("agent-dark", depth), {}, is_dark=True)
    style = Style.parse("bold #ff8800 on #202020")
    placed = [style + Style.from_meta({"offset": (x, 3)}) + Style(link="file:///a") for x in (0, 7)]
    filtered_styles = [
        segment.style
        for segment in terminal_filter.apply([Segment("x", variant) for variant in (style, *placed)], Color(0, 0, 0))
    ]
    assert [filtered_style.meta for filtered_style in filtered_styles] == [{}, {"offset": (0, 3)}, {"offset": (7, 3)}]
    assert [filtered_style.link for filtered_style in filtered_styles] == [None, "file:///a", "file:///a"]
    assert len({filtered_style.clear_meta_and_links() for filtered_style in filtered_styles}) == 1


@pytest.mark.parametrize("depth", DEPTHS)
def test_every_theme_there_is_can_be_shown_at_every_depth(depth):
    for theme in (*PALETTES, *BUILTIN_THEMES):
        style = show(theme, depth, "foreground", "background")
        assert (style.color.triplet, style.bgcolor.triplet) == (None, None)


@pytest.mark.parametrize(("name", "ratio"), [(name, 7 if "contrast" in name else 4.5) for name in PALETTES])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_text_can_be_read_on_the_background(name, ratio, is_indexed):
    roles = PALETTES[name].get_roles(is_indexed=is_indexed)
    ground = Color.parse(roles["background"])
    for role in BASE_ROLES[:6]:
        assert measure_contrast(Color.parse(roles[role]), ground) >= ratio, (role, roles[role])


def test_the_nearest_of_256_colours_to_one_of_them_is_itself():
    assert all(find_nearest(Color.parse(format_indexed(number))) == number for number in range(17, 231))


def test_colours_stand_in_one_module():
    root = Path(tui.__file__).parent
    colour_paths = {
        path.relative_to(root).as_posix()
        for path in (*root.rglob("*.py"), *root.rglob("*.tcss"))
        if HEX.search(path.read_text("utf-8"))
    }
    assert colour_paths == {"themes/palettes.py"}


def test_every_sign_that_is_drawn_has_one_column_of_ascii():
    root = Path(tui.__file__).parent
    drawn = {
        sign
        for path in root.rglob("*.py")
        for sign in path.read_text("utf-8")
        if sign.isprintable() and ord(sign) > 126
    }
    own = {sign.translate(ASCII) for sign in drawn}
    assert {replacement for replacement in own if not replacement.isascii()} <= {
        "«",
        "»",
    }  # of AppleScript, never drawn
    assert all(len(plain) == 1 for table in (ASCII, SPOKEN) for plain in table.values())


def test_signs_become_ascii_where_the_locale_has_no_others():
    appearance = Appearance(TerminalCapabilities(depth="truecolor", has_unicode=False))
    variables = read_variables("agent-dark", "truecolor")
    appearance.complete(variables, is_dark=True)
    (line_filter,) = appearance.list_filters([])
    assert line_filter.apply([Segment("✓ a → b ├─ é", Style())], Color(0, 0, 0))[0].text == "v a > b +- é"


def test_a_theme_file_changes_what_it_says_and_keeps_the_rest(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "agent-light"\nprimary = "#aa0000"\nadded-line = "#ccffcc"\n')
    known = {known_theme.name: known_theme for known_theme in build_themes()}
    theme_files = read_theme_files(tmp_path, known)
    assert theme_files.problems == ()
    (theme,) = theme_files.themes
    assert (theme.name, theme.primary, theme.dark) == ("mine", "#aa0000", False)
    assert theme.background == known["agent-light"].background
    assert theme.variables["added-line"] == "#ccffcc"


def test_each_mistake_of_a_theme_file_is_said_with_its_file(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "nowhere"\nprimray = "#aa0000"\nerror = "reddish"\ndark = "yes"\n')
    (tmp_path / "torn.toml").write_text("primary =\n")
    (tmp_path / "agent-dark.toml").write_text('primary = "#aa0000"\n')
    theme_files = read_theme_files(tmp_path, {theme.name: theme for theme in build_themes()})
    assert theme_files.themes == ()
    problem_text = "\n".join(theme_files.problems)
    for part in ("no theme 'nowhere'", "primray: no such role", "'reddish' is no colour", "dark: true or false"):
        assert re.search(rf"{tmp_path}/mine.toml: .*{part}", problem_text)
    assert re.search(rf"{tmp_path}/torn.toml: .*line 1", problem_text)
    assert "agent-dark is already a theme" in problem_text


def test_code_takes_the_colours_of_a_pygments_style():
    app = ThemedApp()
    assert app.appearance.set_syntax("monokai")
    assert app.get_css_variables()["syntax-keyword"] == "#66d9ef"
    assert not app.appearance.set_syntax("nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["agent-dark", "agent-light"])
@pytest.mark.parametrize(("depth", "wanted"), [("256", None), ("16", "dim"), ("none", "dim")])
async def test_with_few_colours_all_behind_a_dialog_is_in_one_style(stage, theme, depth, wanted):
    async with stage([e.TurnStarted(prompt="**Hello**", mode="agent", model="m")]) as on:
        on.app.appearance.set_depth(depth)
        on.app.appearance.choose(theme)
        on.app.show_appearance()
        await on.pilot.press("ctrl+p")
        await on.until(lambda: on.app.screen is not on.screen)
        await on.pilot.pause()
        strips = on.app.screen._compositor.render_strips()
        beside = [segment.style for strip in strips for segment in strip.crop(0, 8) if segment.text.strip()]
        assert beside
        assert len({(style.color, style.bgcolor, style.bold, style.dim) for style in beside}) == 1
        assert bool(beside[0].dim) == (wanted == "dim")
        assert (beside[0].bgcolor is None or beside[0].bgcolor.is_default) == (wanted == "dim")
