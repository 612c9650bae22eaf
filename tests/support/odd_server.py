"""An MCP server whose answers to calls are not as the protocol wants them: over its streams, SSE or streamable HTTP.

A tool's name says what its answer is. It stands alone, so that it can be copied into a project.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

SAID = '{"content":[{"type":"text","text":"whole"}]}'
ANSWERS = {
    "half_character": '{"jsonrpc":"2.0","id":@,"result":{"content":[{"type":"text","text":"half \\ud83d of it"}]}}',
    "half_in_a_key": '{"jsonrpc":"2.0","id":@,"result":{"content":[],"structuredContent":{"\\udc00":1}}}',
    "error_is_a_text": '{"jsonrpc":"2.0","id":@,"error":"out of paper"}',
    "error_is_a_number": '{"jsonrpc":"2.0","id":@,"error":7}',
    "error_without_message": '{"jsonrpc":"2.0","id":@,"error":{"code":5}}',
    "error_with_a_code_in_words": '{"jsonrpc":"2.0","id":@,"error":{"code":"E_PAPER","message":"out of paper"}}',
    "result_is_a_text": '{"jsonrpc":"2.0","id":@,"result":"whole"}',
    "result_is_a_list": '{"jsonrpc":"2.0","id":@,"result":[1]}',
    "result_is_nothing": '{"jsonrpc":"2.0","id":@,"result":null}',
    "no_result": '{"jsonrpc":"2.0","id":@}',
    "content_is_a_text": '{"jsonrpc":"2.0","id":@,"result":{"content":"whole"}}',
    "number_with_a_point": f'{{"jsonrpc":"2.0","id":@.0,"result":{SAID}}}',
    "number_is_a_text": f'{{"jsonrpc":"2.0","id":"@","result":{SAID}}}',
    "number_is_a_list": f'{{"jsonrpc":"2.0","id":[@],"result":{SAID}}}',
    "number_of_nobody": f'{{"jsonrpc":"2.0","id":99999,"result":{SAID}}}',
    "no_number": f'{{"jsonrpc":"2.0","result":{SAID}}}',
    "error_of_no_number": '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"can not parse that"}}',
    "no_version": f'{{"id":@,"result":{SAID}}}',
    "version_is_a_number": f'{{"jsonrpc":2.0,"id":@,"result":{SAID}}}',
    "batch": f'[{{"jsonrpc":"2.0","id":@,"result":{SAID}}}]',
    "cut_off": '{"jsonrpc":"2.0","id":@,"result":{"content":[{"type":"text","te',
    "too_deep": '{"jsonrpc":"2.0","id":@,"result":' + '{"a":' * 500 + "1" + "}" * 502,
    "byte_order_mark": f'\ufeff{{"jsonrpc":"2.0","id":@,"result":{SAID}}}',
}


def answer(message: dict[str, Any], version: str = "2025-06-18") -> str:
    """Return the answer to a request as it is sent, "" = there is none."""
    number, method = message.get("id"), message.get("method")
    if number is None:
        return ""
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        result: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ANSWERS]}
    elif method == "tools/call":
        return ANSWERS[message["params"]["name"]].replace("@", str(number))
    else:
        return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "Method not found"}})
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result})


class OddHttp:
    """The same as an ASGI application. `kind`: "http", with JSON as answers; "stream", with events; "sse"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._events: asyncio.Queue[str] = asyncio.Queue()
        self.refused = ""  # a tool whose call is answered with a fault of HTTP

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await (self._send_events(send) if self.kind == "sse" else self._reply(send, 405))
            return
        message = json.loads((await receive())["body"])
        reply = answer(message)
        if self.refused and (message.get("params") or {}).get("name") == self.refused:
            await self._reply(send, 500)
        elif self.kind == "sse":
            self._events.put_nowait(reply)
            await self._reply(send, 202)
        elif not reply:
            await self._reply(send, 202)
        elif self.kind == "stream":
            await self._reply(send, 200, f"event: message\ndata: {reply}\n\n", "text/event-stream")
        else:
            await self._reply(send, 200, reply, "application/json")

    async def _reply(self, send: Any, status: int, body: str = "", kind: str = "text/plain") -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": body.encode()})

    async def _send_events(self, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        events = self._events = asyncio.Queue()  # of this connection
        event = "event: endpoint\ndata: /mcp\n\n"
        while True:
            await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
            while not (reply := await events.get()):
                pass
            event = f"event: message\ndata: {reply}\n\n"


def main() -> None:
    for line in iter(sys.stdin.readline, ""):
        if reply := answer(json.loads(line)):
            os.write(1, f"{reply}\n".encode())


if __name__ == "__main__":
    main()
