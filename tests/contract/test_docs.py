"""What the reader is told is what the program does: links, commands, tables and names in the documentation."""

from __future__ import annotations

import ast
import os
import pwd
import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from core.cli.arguments import parse
from core.cli.completion import build_parser_tree, iterate_parsers, list_options
from core.cli.help import HelpArguments
from core.cli.help import run as print_help
from core.config import loading
from core.config.manual import find_page, list_pages, read_title
from core.config.settings import (
    AgentServerSettings,
    ModelSettings,
    ModeSettings,
    ProviderSettings,
    RouteSettings,
    ServerSettings,
    Settings,
    ToolSettings,
)
from core.modes import Access, Mode, is_granted
from core.protocol.commands import AnyCommand
from core.protocol.events import AnyEvent
from core.protocol.queries import AnyQuery
from core.workspace import protected_files as lever_names
from tests.contract.source_tree import ROOT, modules, project
from tests.contract.test_layers import LADDER
from tui.key_table import KEYS

README = ROOT / "README.md"
TOPICS = (
    *(
        "start",
        "prompt",
        "review",
        "proof",
        "git",
        "modes",
        "plan",
        "debug",
        "commands",
        "permissions",
        "safety",
        "sessions",
    ),
    *("models", "finding-code", "rules-and-skills", "hooks", "mcp-and-web", "agents", "headless-and-ci"),
    *("editors-and-http", "settings-and-trouble"),
)
DOCS = ROOT / "docs"
DEV = DOCS / "dev"
SETTINGS = DOCS / "settings-and-trouble.md"
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "AGENTS.md", *sorted(DOCS.glob("*.md")), *sorted(DEV.glob("*.md"))]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)[^)\s]*\)")
ANCHOR = re.compile(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)")
ADDRESS = re.compile(r"[a-z]+://\S*(?:pypi|pythonhosted|artifactory|nexus|npmjs)", re.IGNORECASE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def command_lines(page: Path) -> list[str]:
    """The commands of its `sh` blocks without their comments; of a pipe, each part."""
    blocks = re.findall(r"```sh\n(.*?)```", text_of(page), re.DOTALL)
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split(" | ") if part.strip()]


def rows(page: Path, heading: str) -> dict[str, str]:
    """First and second cell of the table under a heading, without backticks."""
    section = text_of(page).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1].strip("`") for row in cells}


def tags(union: object) -> set[str]:
    return {str(record.__struct_config__.tag) for record in get_args(union)}


def shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


def settings(record: type[msgspec.Struct], above: str = "") -> dict[str, str]:
    """Every setting by its dotted key, with its default as it is written."""
    defaults: dict[str, str] = {}
    for field in msgspec.structs.fields(record):
        default = field.default_factory() if callable(field.default_factory) else field.default
        if (above, field.name) == ("", "routes"):
            defaults |= settings(RouteSettings, "routes.JOB.")
        elif (above, field.name) == ("", "modes"):
            defaults |= settings(ModeSettings, "modes.MODE.")
        elif isinstance(default, msgspec.Struct):
            defaults |= settings(type(default), f"{above}{field.name}.")
        elif (above, field.name) == ("", "providers"):
            defaults |= settings(ProviderSettings, "providers.NAME.")
        elif (above, field.name) == ("", "lsp"):
            defaults |= settings(ServerSettings, "lsp.NAME.")
        elif (above, field.name) == ("", "agent_servers"):
            defaults |= settings(AgentServerSettings, "agent_servers.NAME.")
        elif (above, field.name) == ("", "tools"):
            defaults |= settings(ToolSettings, "tools.NAME.")
        elif (above, field.name) == ("", "models"):
            defaults |= settings(ModelSettings, "models.NAME.")
        else:
            defaults[above + field.name] = shown(default)
    return defaults


def tracked() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_the_readme_is_short_and_part_of_the_package():
    assert text_of(README).count("\n") <= 250
    assert project()["readme"] == "README.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page):
    assert [link for link in LINK.findall(text_of(page)) if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", text_of(page))
    headings = re.findall(r"^#{1,6} (.+)$", prose, re.MULTILINE)
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", word).replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_to_a_heading(page):
    targets = [((page.parent / path) if path else page, anchor) for path, anchor in ANCHOR.findall(text_of(page))]
    assert [f"{target.name}#{anchor}" for target, anchor in targets if anchor not in anchors(target)] == []


@pytest.mark.parametrize("name", list_pages())
def test_a_page_of_the_manual_links_to_no_page_that_is_not_installed(name):
    links = [link for link in LINK.findall(text_of(DOCS / f"{name}.md")) if link.endswith(".md")]
    assert [link for link in links if link.removesuffix(".md") not in list_pages()] == []


def test_the_manual_has_its_pages_and_the_keys():
    assert set(list_pages()) == {*TOPICS, "keys"}
    listed = re.findall(r"^\| \[[^\]]+\]\(docs/([\w-]+)\.md\)", text_of(README), re.MULTILINE)
    assert set(listed) >= set(TOPICS)


@pytest.mark.parametrize("name", TOPICS)
def test_help_prints_the_page_by_its_name(name, capsys):
    arguments = parse(["help", name])
    assert isinstance(arguments, HelpArguments)
    assert print_help(arguments) == 0
    assert capsys.readouterr().out.startswith(f"# {read_title(name)}\n")


def program_texts() -> Iterator[str]:
    """The strings of the program, without its docstrings."""
    for module in modules("agent_tui.py", "core", "tui"):
        docstrings = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
        constants = (node for node in module.nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
        yield from (node.value for node in constants if isinstance(node.value, str))


def test_hints_name_topics_that_help_has_and_no_file_that_only_a_checkout_has():
    texts = list(program_texts())
    assert [text for text in texts if re.search(r"\bdocs/[\w-]+\.md\b", text)] == []
    topics = {topic for text in texts for topic in re.findall(r"(?:agent-tui |/)help ([a-z-]+)", text)}
    topics -= {"lists", "shows", "and"}  # of sentences about /help itself
    assert len(topics) > 10
    assert [topic for topic in sorted(topics) if not find_page(topic)] == []


def test_help_lists_the_pages_and_names_them_where_there_is_none(capsys):
    assert print_help(HelpArguments(directory=ROOT)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(list_pages())
    assert print_help(HelpArguments(directory=ROOT, topic="nothing")) == 2
    message = capsys.readouterr().err
    assert [name for name in TOPICS if name not in message] == []


def read_mode_rows(text: str) -> dict[str, list[str]]:
    """The rows of the table of modes by the name of the mode, without the last cell."""
    names = "|".join(mode.title() for mode in Mode)
    lines = re.findall(rf"^\| (?:\[)?({names})(?:\]\([^)]*\))? \| (.+) \|$", text, re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in lines[: len(Mode)]}


@pytest.mark.parametrize("page", [README, DOCS / "modes.md"], ids=lambda page: page.name)
def test_the_table_of_modes_says_what_the_program_grants(page):
    table = read_mode_rows(text_of(page))
    assert list(table) == [mode.title() for mode in Mode]
    for mode in Mode:
        edits, plan, commands, effects = table[mode.title()][:4]
        is_debug = Access.PROBE in mode.rules.grants
        can_edit = Access.PROPOSE in mode.rules.grants
        assert edits == ("once a cause is confirmed" if is_debug else "yes" if can_edit else "no")
        assert plan == ("yes" if Access.PLAN in mode.rules.grants else "ticks todos" if can_edit else "no")
        assert commands == ("yes" if is_granted(mode, Access.EXEC, is_contained=False) else "sandboxed only")
        kept = "goes to review" if mode.rules.keeps_effects else "is dropped"
        assert effects == f"{kept}; dropped until a cause is confirmed" if is_debug else kept


def test_every_page_can_be_reached_from_the_readme():
    seen = {page for page in PAGES if f" {page.relative_to(ROOT)}\n" in text_of(README)}
    waiting = [README]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        linked = [(page.parent / link).resolve() for link in LINK.findall(text_of(page)) if link.endswith(".md")]
        waiting += [path for path in linked if path not in seen and path.is_file()]
    assert set(PAGES) - seen == set()


def test_every_make_target_of_the_readme_exists():
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    lines = [shlex.split(line) for line in command_lines(README) if line.startswith("make")]
    assert len(lines) > 4
    for _, *targets in lines:
        tried = subprocess.run([make, "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
        assert tried.returncode == 0, tried.stderr


def test_every_setting_is_explained_with_its_default():
    assert rows(SETTINGS, "Settings") == settings(Settings)


def test_what_a_project_may_narrow_is_told():
    section = text_of(SETTINGS).split("## What a project may narrow", 1)[1].split("\n## ", 1)[0]
    documented_keys = set(
        re.findall(r"`([a-z_.]+)`", "\n".join(line for line in section.splitlines() if line.startswith("- ")))
    )
    heard = {f"{table}.{key}" if table else key for table, key in {*loading.NARROWER, *loading.ADDED_KEYS}}
    assert heard <= documented_keys
    assert {name for name in documented_keys if "." in name or name == "mode"} == heard


@pytest.mark.parametrize(
    "record",
    ["ResponseMetadata", "PendingChange", "PendingBulk", "ResponseCandidate", "ResponseCheck", "ResponseFinding"],
)
def test_every_field_of_the_response_is_named(record):
    schema = msgspec.json.decode((DOCS / "response.schema.json").read_bytes())
    text = text_of(DOCS / "headless-and-ci.md").split("### The response", 1)[1].split("\n## ", 1)[0]
    assert [field for field in schema["$defs"][record]["properties"] if f"`{field}`" not in text] == []


def test_every_environment_variable_of_ours_is_explained():
    sources = "\n".join(text_of(module.path) for module in modules("agent_tui.py", "core", "tui"))
    variables = set(re.findall(r"AGENT_TUI_[A-Z_]+[A-Z]", sources))
    explained = text_of(SETTINGS)
    assert [name for name in sorted(variables) if name not in explained] == []


def test_the_page_of_keys_is_the_one_that_the_program_gives():
    page = runpy.run_path(str(DOCS / "dev" / "tools" / "key_table.py"))["page"]
    text = text_of(DOCS / "keys.md")
    assert [key.id for key in KEYS if f"`{key.id}`" not in text] == []
    assert text == page(), "run: python docs/dev/tools/key_table.py"


def test_the_man_page_is_written_from_the_parsers_and_has_every_option():
    page = runpy.run_path(str(DOCS / "dev" / "tools" / "man_page.py"))["page"]
    text = (DOCS / "man" / "agent-tui.1").read_text(encoding="utf-8")
    assert text == page(), "run: python docs/dev/tools/man_page.py"
    for parser in iterate_parsers(build_parser_tree()).values():
        options = (name for action in list_options(parser) for name in action.option_strings)
        assert [name for name in options if name.replace("-", "\\-") not in text] == []


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_the_man_page_is_rendered_without_a_warning():
    page = str(DOCS / "man" / "agent-tui.1")
    ran = subprocess.run(["man", "--warnings=w", "-l", page], capture_output=True, text=True, check=True, timeout=20)
    assert ran.stderr == ""
    assert all(word in ran.stdout for word in ("SYNOPSIS", "COMMANDS", "EXIT CODES", "--json-schema FILE"))


def test_the_tables_of_models_are_those_that_the_program_gives():
    page = runpy.run_path(str(DOCS / "dev" / "tools" / "model_tables.py"))["page"]
    text = text_of(DOCS / "models.md")
    assert text == page(text), "run: python docs/dev/tools/model_tables.py"


def test_the_readme_gives_the_keys_of_the_review_as_they_are():
    keys = {key.id: key.keys for key in KEYS}
    rows = re.findall(r"^ +\| (`.+`) \| .+ \|$", text_of(README), re.MULTILINE)
    table_keys = [key for cell in rows for key in re.findall(r"`(.)`", cell)]
    main_actions = ("next", "previous", "next_file", "previous_file", "accept", "reject", "accept_file", "reject_file")
    others = (
        "reason",
        "undo",
        "divide",
        "edit",
        "comment",
        "list",
        "filter",
        "proof",
        "accept_proven",
        "wrap",
        "accept_seen",
        "split",
        "editor",
    )
    assert table_keys == [keys[f"review.{word}"] for word in (*main_actions, *others)]


def test_every_protected_name_is_told():
    text = text_of(DOCS / "review.md")
    listed = {
        name
        for risky_names in (*lever_names.PROTECTED, *lever_names.LABELLED)
        for name in (*risky_names.directories.split(), *risky_names.files.split())
    }
    assert [name for name in sorted(listed) if f"`{name}`" not in text.lower()] == []
    page = runpy.run_path(str(DEV / "tools" / "protected_names.py"))["page"]
    assert text == page(text), "run: python docs/dev/tools/protected_names.py"


def test_modules_that_the_pages_name_exist():
    pages = [page for page in PAGES if page.name != "first-change.md"]  # its reader makes what it names
    paths = {path for page in pages for path in re.findall(r"`((?:core|tui|tests|docs)/[\w/.]+\.\w+)`", text_of(page))}
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (ROOT / path).is_file()] == []


def test_the_architecture_shows_the_ladder_as_it_is_tested():
    lines = re.findall(r"^\| \d \| (.+) \|$", text_of(DEV / "architecture.md"), re.MULTILINE)
    rungs = [set(re.findall(r"`(\w+)`", line)) for line in reversed(lines)]
    exist = {path.stem for path in (ROOT / "core").iterdir()}
    assert rungs == [{unit.removeprefix("core.") for unit in rung} & exist for rung in LADDER]


@pytest.mark.parametrize("union", [AnyCommand, AnyEvent, AnyQuery], ids=["commands", "events", "queries"])
def test_the_architecture_names_every_group_of_the_wire(union):
    table = text_of(DEV / "architecture.md").split("## The wire", 1)[1].split("\n## ", 1)[0]
    groups = {tag.partition(".")[0] for tag in tags(union)}
    assert [group for group in sorted(groups) if not re.search(rf"`{group}[.`]", table)] == []


def test_the_pictures_hold_nothing_that_has_to_be_fetched():
    pictures = sorted((DOCS / "images").glob("*.svg"))
    assert len(pictures) >= 6
    wrong = [path.name for path in pictures if "@font-face" in text_of(path) or text_of(path).count("://") > 1]
    assert wrong == []


def test_every_picture_that_is_shown_is_made_by_the_program():
    shots = {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(text_of(DOCS / "dev" / "tools" / "pictures.py")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"take", "take_small"}
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    assert {path.stem for path in (DOCS / "images").glob("*.svg")} == shots


def test_the_gallery_shows_every_sheet_there_is_and_no_other():
    sheet_names = re.findall(r"\(gallery/([\w-]+)\.webp\)", text_of(DEV / "gallery.md"))
    assert sheet_names
    assert sorted(sheet_names) == sorted(path.stem for path in (DEV / "gallery").glob("*.webp"))


def test_no_file_names_this_machine_or_a_package_index():
    home = pwd.getpwuid(os.getuid()).pw_dir
    places = [f"{place}/" for place in (str(ROOT), home) if place.count("/") > 1 or place == "/root"]
    wrong = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        wrong += [f"{path.relative_to(ROOT)}: {place}" for place in places if place in text]
        wrong += [f"{path.relative_to(ROOT)}: {address}" for address in ADDRESS.findall(text)]
    assert wrong == []


def test_every_hole_that_was_found_has_tests_and_the_page_names_them():
    namespace = runpy.run_path(str(DOCS / "dev" / "tools" / "found_table.py"))
    text = (DEV / "safety-tests.md").read_text(encoding="utf-8")
    assert text == namespace["page"](text), "run: python docs/dev/tools/found_table.py"
    assert namespace["FOUND"].keys() - namespace["tests_by_number"]().keys() == set()
