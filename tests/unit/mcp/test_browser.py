"""The browser's server: what it is started with, where its two programs are found, and what is said without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.config.settings import BrowserSettings
from core.mcp.browser import build_browser_server, explain_no_browser
from core.user_dirs import get_config_dir
from tests.contract.source_tree import ROOT
from tests.support.configured import configured


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The one folder of programs; Chromium and Chrome of this machine are not there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr("core.mcp.browser._BROWSER_PATHS", ())
    return directory


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_both_are_found_by_path_and_the_script_behind_its_link(place, tmp_path):
    script = program(tmp_path / "node_modules/@playwright/mcp/cli.js")
    (place / "playwright-mcp").symlink_to(script)
    node, chrome = program(place / "node"), program(place / "google-chrome")
    server = build_browser_server(BrowserSettings())
    assert server.command[:2] == (str(node), str(script))
    assert server.command[server.command.index("--executable-path") + 1] == str(chrome)
    assert "--proxy-server" in server.command
    assert server.is_own


def test_a_package_in_the_users_own_folder_is_found(place):
    program(place / "node")
    program(place / "chromium")
    script = program(get_config_dir() / "browser/node_modules/@playwright/mcp/cli.js")
    assert build_browser_server(BrowserSettings()).command[1] == str(script)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ((), "There is no Chromium on this machine. Install it (apt install chromium)"),
        (("chromium",), "Playwright's MCP server is not installed. npm install -g @playwright/mcp"),
        (("chromium", "playwright-mcp"), "Playwright's MCP server is not installed."),
    ],
)
def test_what_is_missing_is_told_in_a_line_with_the_way_to_get_it(place, there, said):
    for name in there:
        program(place / name)
    explanation = explain_no_browser(BrowserSettings())
    assert explanation.startswith(said)
    assert "\n" not in explanation


def test_the_settings_go_before_what_is_found_and_the_docs_example_is_one(place, tmp_path):
    from core.config.loading import load_settings

    text = (ROOT / "docs" / "mcp-and-web.md").read_text(encoding="utf-8")
    example = next(part for part in text.split("```toml\n") if part.startswith("[browser]")).partition("```")[0]
    chrome, node = program(tmp_path / "opt/chrome"), program(place / "node")
    configured(example.replace("/opt/chromium/chrome", str(chrome)))
    server = build_browser_server(load_settings().browser)
    assert server.command[:2] == (str(node), "/opt/playwright-mcp/cli.js")
    assert str(chrome) in server.command


def test_a_program_that_is_not_there_is_named(place):
    assert ("`browser.executable`: nothing is not a program.") in explain_no_browser(
        BrowserSettings(executable="nothing")
    )
    program(place / "chromium")
    assert "`browser.command`: nothing is not a program." in explain_no_browser(BrowserSettings(command=("nothing",)))
