"""The command that prints headers for a remote server (`headersHelper`): run in the box before each connection.

It is a project's program like any other server: nothing runs before the yes to its entry, it has no network and sees
nothing that commands do not see, and what it writes is gone with it. Its output is data: JSON, an object of texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from core.errors import ConfigError
from core.mcp.server_config import ServerConfig, Variables
from core.records import decode_json
from core.shell.command_host import CommandHost
from core.shell.server_process import ServerProcess

SECONDS: Final = 10.0
MOST: Final = 65_536  # characters of an output
_WANTED: Final = 'It has to print an object such as {"Authorization": "Bearer …"}, and to need no network.'


async def read_headers(
    config: ServerConfig, variables: Variables, host: CommandHost, log: Callable[[str], None]
) -> Mapping[str, str]:
    """Return the headers that the command of an entry prints, none if it has no command. `log` takes its errors.

    Raises `ConfigError` for an output that is none, `ToolFailed` where there is no box.
    """
    if not config.headers_command:
        return {}
    env = {
        **variables.expand_all(config.env),
        "CLAUDE_PROJECT_DIR": str(variables.workspace),
        "CLAUDE_CODE_MCP_SERVER_NAME": config.name,
        "CLAUDE_CODE_MCP_SERVER_URL": variables.expand(config.url),
    }
    process = ServerProcess(host, keeps_effects=False, folder=config.folder)
    pieces: list[str] = []
    too_much = asyncio.Event()

    def take(piece: str) -> None:
        pieces.append(piece)
        if sum(map(len, pieces)) > MOST:
            too_much.set()

    running = await process.start(("/bin/sh", "-c", config.headers_command), env, take, log)
    flood = asyncio.ensure_future(too_much.wait())
    end = asyncio.ensure_future(running.wait())
    try:
        await asyncio.wait((flood, end), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if too_much.is_set():
            raise _build_error(f"prints more than {MOST:,} characters")
        if not end.done():
            raise _build_error(f"did not end within {SECONDS:.0f} seconds")
        if code := end.result().exit_code:
            raise _build_error(f"ended with exit code {code}")
    finally:
        flood.cancel()
        await process.stop()
    return _parse("".join(pieces))


def _parse(text: str) -> Mapping[str, str]:
    try:
        return decode_json(text, dict[str, str])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise _build_error("printed no JSON object of texts") from None


def _build_error(problem: str) -> ConfigError:
    return ConfigError(f'its "headersHelper" {problem}', hint=_WANTED)
