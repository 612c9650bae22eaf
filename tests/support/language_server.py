"""A scripted language server: `python language_server.py FAULT...` speaks the protocol, and does what it is told to.

It finds "error: NAME" wherever a line of Python holds `BAD`. Without a fault it behaves.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

FAULTS = set(sys.argv[1:])
TEXTS: dict[str, str] = {}
VERSIONS: dict[str, int] = {}


def write(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    head = b"Content-Length: %d\r\n\r\n" % len(body)
    if "content-type" in FAULTS:
        head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n" + head
    sys.stdout.buffer.write(head + body)
    sys.stdout.buffer.flush()


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def diagnose(uri: str) -> list[dict[str, Any]]:
    diagnostics = []
    for number, line in enumerate(TEXTS.get(uri, "").split("\n")):
        for hit in re.finditer("BAD", line):
            start, end = {"line": number, "character": hit.start()}, {"line": number, "character": hit.end()}
            if "wrong-ranges" in FAULTS:
                start, end = {"line": 4_000_000_000, "character": -3}, {"line": -1, "character": 99}
            diagnostics.append({"range": {"start": start, "end": end}, "message": "bad name", "code": 7, "severity": 1})
    if "nonsense" in FAULTS:
        diagnostics += [{"range": "nowhere"}, None, {"range": {"start": {"line": "x"}}, "message": 3}]  # type: ignore[list-item]
    if "many" in FAULTS:
        return (
            [diagnostics[0] | {"message": f"bad name {number}", "severity": 2} for number in range(50_000)]
            if diagnostics
            else []
        )
    return diagnostics


def push(uri: str) -> None:
    params: dict[str, Any] = {"uri": uri, "diagnostics": diagnose(uri)}
    if "no-version" not in FAULTS:
        params["version"] = VERSIONS[uri]
    write({"method": "textDocument/publishDiagnostics", "params": params})


def answer(message: dict[str, Any]) -> None:
    method, params = message.get("method", ""), message.get("params") or {}
    uri = params.get("textDocument", {}).get("uri", "")
    match method:
        case "initialize":
            pulls = {} if "push" in FAULTS else {"diagnosticProvider": {"interFileDependencies": False}}
            can = {"definitionProvider": True, "renameProvider": True, "hoverProvider": True, **pulls}
            write({"id": message["id"], "result": {"capabilities": can}})
        case "initialized" if "asks" in FAULTS:
            asked = {"items": [{"section": "scripted.level"}, {"section": "nothing"}]}
            write({"id": "a", "method": "workspace/configuration", "params": asked})
            write({"id": "b", "method": "client/registerCapability", "params": {"registrations": []}})
            write({"id": "c", "method": "window/workDoneProgress/create", "params": {"token": 1}})
        case "textDocument/didOpen" | "textDocument/didChange":
            take_text(uri, params)
        case "textDocument/diagnostic":
            write({"id": message["id"], "result": {"kind": "full", "items": diagnose(uri)}})
        case "textDocument/hover":
            write({"id": message["id"], "result": {"contents": TEXTS.get("asked", "a name")}})
        case "textDocument/rename":
            span = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
            edits = [{"range": span, "newText": params["newName"]}]
            write({"id": message["id"], "result": {"changes": {uri: edits}}})
        case "" if message.get("id") in ("a", "b", "c"):
            TEXTS["asked"] = TEXTS.get("asked", "") + json.dumps(message.get("result"))
        case _ if "id" in message:
            write({"id": message["id"], "error": {"code": -32601, "message": "not here"}})


def take_text(uri: str, params: dict[str, Any]) -> None:
    document = params["textDocument"]
    TEXTS[uri] = document["text"] if "text" in document else params["contentChanges"][0]["text"]
    VERSIONS[uri] = document["version"]
    if "push" in FAULTS:
        push(uri)


def misbehave(message: dict[str, Any]) -> None:
    if "crash" in FAULTS and message.get("method") == "textDocument/didOpen":
        sys.stderr.write("a fault of the server\n")
        sys.stderr.flush()
        os._exit(3)
    if "hang" in FAULTS and message.get("method") == "textDocument/diagnostic":
        sys.stdin.buffer.read()  # until it is ended
    if "babble" in FAULTS:
        sys.stdout.write("Welcome to the server!\n" * 2000)
        sys.stdout.flush()
    while "flood" in FAULTS and message.get("method") == "textDocument/didOpen":
        write({"method": "window/logMessage", "params": {"type": 3, "message": "x" * 60_000}})


if __name__ == "__main__":
    while (received := read()) is not None:
        misbehave(received)
        answer(received)
