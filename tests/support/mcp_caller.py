"""Calls `say` of the remote server at an address, with the login that is stored: one of several that run at once."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from core.mcp.http_link import HttpLink, build_target
from core.mcp.server_config import ServerConfig, Variables
from core.mcp.wire.elicitation import Elicitation, ElicitationAnswer
from core.mcp.wire.sdk_connection import SdkConnection


async def answer(_: Elicitation) -> ElicitationAnswer:
    return ElicitationAnswer(action="cancel")


async def main() -> None:
    config = ServerConfig(name="far", url=sys.argv[1], transport="http")
    link = HttpLink(config, build_target(config, Variables(Path("/nowhere"), os.environ)))
    connection = SdkConnection(link.open_streams(), lambda: None, answer)
    await connection.load()
    await connection.open(60.0, "")
    result = await connection.call_tool("say", {"text": "hi"}, lambda *_: None)
    print(result.content[0].text)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
