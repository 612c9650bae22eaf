"""Lines of the Agent Client Protocol, checked against its official schema: each by its method and its side."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).parent / "acp_schema" / "schema.json"


@cache
def load_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA.read_text())
    return schema


@cache
def find_definitions(side: str, method: str) -> dict[str, str]:
    """The names of what a method takes and what it answers: by "Request", "Response" and "Notification"."""
    names = {}
    for name, definition in load_schema()["$defs"].items():
        if definition.get("x-method") == method and definition.get("x-side") in {side, "protocol"}:
            kind = next((end for end in ("Request", "Response", "Notification") if name.endswith(end)), "Request")
            names[kind] = name
    return names


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": load_schema()["$defs"]})


class LineChecker:
    """Checks all lines of one connection. `faults` holds what is wrong, a line each; `count` how many there were."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.count = 0
        self._asked: dict[tuple[str, Any], str] = {}

    def check(self, sender: str, line: dict[str, Any]) -> None:
        """Check a line that `sender` (agent or client) wrote."""
        self.count += 1
        receiver = "client" if sender == "agent" else "agent"
        if line.get("jsonrpc") != "2.0":
            self.faults.append(f"{sender}: no JSON-RPC 2.0: {line}")
        if method := line.get("method"):
            kind = "Request" if "id" in line else "Notification"
            self._asked[(sender, line.get("id"))] = method
            self._validate(receiver, method, kind, line.get("params", {}))
        elif "result" in line:
            self._validate(sender, self._asked[(receiver, line["id"])], "Response", line["result"])
        else:
            errors = [str(error.message) for error in validator("Error").iter_errors(line.get("error"))]
            self.faults += errors

    def _validate(self, side: str, method: str, kind: str, value: Any) -> None:
        if (name := find_definitions(side, method).get(kind)) is None:
            self.faults.append(f"{side} has no {kind} {method}")
            return
        wrong = [f"{name}: {error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(value)]
        self.faults += wrong
