"""The browser as a built-in MCP server: Playwright's server over an installed Chromium, both located on this machine.

It runs in the sandbox like any server with a command, and through the session's proxy, so it reaches only granted
hosts. Nothing is downloaded.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.config.settings import BrowserSettings
from core.errors import ConfigError
from core.mcp.server_config import ServerConfig
from core.sandbox.inside.messages import PROXY_PORT
from core.user_dirs import get_config_dir

SERVER: Final = "chromium"
BROWSER_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_BROWSER_PATHS: Final = (
    "/usr/lib/chromium/chromium",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_PACKAGE: Final = "node_modules/@playwright/mcp/cli.js"
# Disables Chromium's own background requests, which would look like requests of the page. Of two feature lists the last
# one wins, so ours repeats Playwright's.
_BROWSER_CONFIG: Final = Path(__file__).with_name("chromium.json")
OUTPUT: Final = "/tmp/browser"  # in the box, whose /tmp is its own
NO_BROWSER: Final = "There is no Chromium on this machine."
NO_SERVER: Final = "Playwright's MCP server is not installed."
_INSTALL: Final = "brew install --cask chromium" if sys.platform == "darwin" else "apt install chromium"
BROWSER_HINT: Final = f"Install it ({_INSTALL}), or set `browser.executable`."
SERVER_HINT: Final = "npm install -g @playwright/mcp, or set `browser.command`."


def build_browser_server(settings: BrowserSettings) -> ServerConfig:
    """Build the configuration of the browser's server. Raises `ConfigError` with the missing part and how to install
    it."""
    executable = _find_executable(settings)
    return ServerConfig(
        name=SERVER,
        source="built in",
        command=(
            *_find_command(settings),
            *("--headless", "--isolated", "--no-webmcp", "--block-service-workers"),
            "--no-sandbox",  # Chromium's own sandbox can't be created inside of ours
            "--allow-unrestricted-file-access",  # our sandbox limits the files
            *("--config", str(_BROWSER_CONFIG)),
            *("--executable-path", executable),
            *("--output-dir", OUTPUT),
            *("--proxy-server", f"http://127.0.0.1:{PROXY_PORT}"),
            *("--proxy-bypass", "<-loopback>,localhost,127.0.0.1"),  # granted services
        ),
        is_own=True,
    )


def find_programs(settings: BrowserSettings) -> tuple[str, str]:
    """Find Chromium and the script of its server. Raises `ConfigError`."""
    return _find_executable(settings), _find_command(settings)[-1]


def explain_no_browser(settings: BrowserSettings) -> str | None:
    """Explain which part of the browser is missing and how to install it; None: no part is."""
    try:
        build_browser_server(settings)
    except ConfigError as problem:
        return problem.format_with_hint()
    return None


def _find_executable(settings: BrowserSettings) -> str:
    if settings.executable:
        executable = shutil.which(settings.executable)
        if executable is None:
            raise ConfigError(f"`browser.executable`: {settings.executable} is not a program.", hint=BROWSER_HINT)
        return executable
    paths = (shutil.which(program) for program in (*BROWSER_NAMES, *_BROWSER_PATHS))
    first = next((path for path in paths if path is not None), None)
    if first is None:
        raise ConfigError(NO_BROWSER, hint=BROWSER_HINT)
    return first


def _find_command(settings: BrowserSettings) -> tuple[str, ...]:
    if settings.command:
        program = shutil.which(settings.command[0])
        if program is None:
            raise ConfigError(f"`browser.command`: {settings.command[0]} is not a program.", hint=SERVER_HINT)
        return (program, *settings.command[1:])
    node, script = shutil.which("node"), next(filter(Path.is_file, _list_scripts()), None)
    if node is None or script is None:
        raise ConfigError(NO_SERVER, hint=SERVER_HINT)
    return (str(Path(node).resolve()), str(script))


def _list_scripts() -> Iterator[Path]:
    """List the possible paths of the server's script: beside the program that npm installs, and in the user's
    folder."""
    if (program := shutil.which("playwright-mcp")) is not None:
        yield Path(program).resolve()
    yield get_config_dir() / "browser" / _PACKAGE
