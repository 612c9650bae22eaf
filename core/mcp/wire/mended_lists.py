"""Lists of tools as the protocol wants them, mended on their way from a server to the SDK.

The SDK refuses the whole of a list for one tool that is not so, and with it all the tools of a server. What it can't be
without is put there, what is odd is left out; no other message is touched.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

MAX_NAME: Final = 128  # characters of the name of a tool
_TOOL_KEYS: Final = {"title": str, "description": str, "inputSchema": dict, "annotations": dict, "_meta": dict}


@asynccontextmanager
async def mend_streams(streams: AbstractAsyncContextManager[tuple[Any, Any]]) -> AsyncIterator[tuple[Any, Any]]:
    """Return the streams, with the lists of tools that come from a server as the protocol wants them."""
    async with streams as (reading, writing):
        yield _MendedStream(reading), writing


class _MendedStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _MendedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)

    def __aiter__(self) -> _MendedStream:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = mend_tools(result["tools"])
        return item


def mend_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Return the tools that can be called, of each what is as the protocol wants it. A schema of arguments is one of an
    object, as arguments are; that of a result is left out where it is of anything else."""
    mended = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            continue
        kept = {key: tool[key] for key, kind in _TOOL_KEYS.items() if isinstance(tool.get(key), kind)}
        said = {key: each for key, each in kept.pop("annotations", {}).items() if isinstance(each, bool)}
        output = tool.get("outputSchema")
        more = {"outputSchema": output} if isinstance(output, dict) and output.get("type") == "object" else {}
        more |= {"annotations": said} if said else {}
        mended.append({**kept, **more, "name": name, "inputSchema": {**kept.get("inputSchema", {}), "type": "object"}})
    return mended
