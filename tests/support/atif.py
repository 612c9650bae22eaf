"""The faults of an ATIF trajectory: those of the published schema, and the rules across fields of Harbor's models.

Harbor 0.26 checks the same with `harbor.utils.trajectory_validator`, which needs a newer Python than this program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

_SCHEMA = Path(__file__).with_name("atif_schema") / "schema.json"
_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


@cache
def _load_validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(_SCHEMA.read_text()))


def list_faults(trajectory: dict[str, Any]) -> list[str]:
    """List what Harbor would refuse in a trajectory."""
    faults = [f"{fault.json_path}: {fault.message}" for fault in _load_validator().iter_errors(trajectory)]
    return faults or list(_list_rule_faults(trajectory))


def _list_rule_faults(trajectory: dict[str, Any]) -> Iterator[str]:
    for index, step in enumerate(trajectory["steps"]):
        if step["step_id"] != index + 1:
            yield f"step {index + 1} has the id {step['step_id']}"
        yield from _list_step_faults(step)
    children = trajectory.get("subagent_trajectories") or []
    names = [child.get("trajectory_id") for child in children]
    if None in names or len(set(names)) != len(names):
        yield f"the ids of the subagents are not unique: {names}"
    for child in children:
        yield from _list_rule_faults(child)


def _list_step_faults(step: dict[str, Any]) -> Iterator[str]:
    number = step["step_id"]
    if step.get("timestamp"):
        datetime.fromisoformat(step["timestamp"])
    if step["source"] != "agent":
        yield from (f"step {number} of {step['source']} has {name}" for name in _AGENT_ONLY if name in step)
    if step["source"] == "agent" and step.get("llm_call_count") == 0:
        yield from (
            f"step {number} has {name} of no model" for name in ("metrics", "reasoning_content") if name in step
        )
    calls = {call["tool_call_id"] for call in step.get("tool_calls") or ()}
    for result in (step.get("observation") or {}).get("results", ()):
        if result.get("source_call_id") not in {None, *calls}:
            yield f"step {number} has a result of {result['source_call_id']}, which it does not call"
        for reference in result.get("subagent_trajectory_ref") or ():
            if reference.get("trajectory_id") is None and reference.get("trajectory_path") is None:
                yield f"step {number} refers to no trajectory"
