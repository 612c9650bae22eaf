"""Reads a scripted model's YAML file. Whatever is wrong in it is named with file, line and what is valid there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from core.errors import ConfigError

MAX_BYTES: Final = 4_000_000
FINISHES: Final = ("stop", "tool_calls", "length", "refused")
Pattern = re.Pattern[str]


class ScriptCall(Struct, frozen=True, kw_only=True):
    """`arguments` as written: a mapping, or text that is sent as it is (to play malformed JSON)."""

    name: str
    arguments: Any
    id: str = ""


class ScriptFault(Struct, frozen=True, kw_only=True):
    """`times`: how often the step fails before its content is played, 0 = always."""

    code: str
    status: int = 0
    message: str = ""
    retry_after: float | None = None
    times: int = 0


class ScriptCondition(Struct, frozen=True, kw_only=True):
    """All that is said has to hold. `result`, `prompt`, `told` are searched for; `step` counts from 1."""

    result: Pattern | None = None
    prompt: Pattern | None = None
    told: Pattern | None = None
    mode: str = ""
    failed: bool | None = None
    step: int = 0


class ScriptStep(Struct, frozen=True, kw_only=True):
    """One answer. `cut`: the stream ends after this share of it (0–1) without a finish."""

    line: int
    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptCall, ...] = ()
    when: ScriptCondition | None = None
    usage: Mapping[str, int] | None = None
    finish: str = ""
    fault: ScriptFault | None = None
    cut: float | None = None
    chunk: int = 0
    delay_ms: float = 0
    tokens_per_second: float | None = None


class ScriptTurn(Struct, frozen=True, kw_only=True):
    """The answers to one prompt. `match` None: any prompt, when it is this turn's turn. `suggest`: a prompt for it."""

    line: int
    steps: tuple[ScriptStep, ...]
    match: Pattern | None = None
    mode: str = ""
    repeat: bool = False
    suggest: str = ""


class Script(Struct, frozen=True, kw_only=True):
    """A whole script. `otherwise` answers a prompt that no turn is left for, `notes` a request without tools."""

    path: str
    turns: tuple[ScriptTurn, ...]
    otherwise: tuple[ScriptStep, ...] = ()
    notes: tuple[ScriptStep, ...] = ()
    tokens_per_second: float = 0
    chunk: int = 0
    context_window: int = 0


def read_script(path: Path) -> Script:
    """Raises `ConfigError` with file and line."""
    try:
        data = path.read_bytes()[: MAX_BYTES + 1]
        text = data.decode()
    except OSError as error:
        raise ConfigError(
            f"the script {path} can't be read: {error.strerror}.",
            hint="Name a YAML file: scripted/FILE.",
            code="script_unreadable",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the script {path} is not UTF-8 (byte {error.start}).", code="script_invalid") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"the script {path} is larger than {MAX_BYTES:,} bytes.", code="script_invalid")
    return _ScriptReader(str(path)).read(text)


class _ScriptReader:
    """Checks the parsed YAML piece by piece, with the line of each."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _build_error(self, line: int, what: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self._path}, line {line}: {what}.", hint=hint, code="script_invalid")

    def _parse_yaml(self, text: str) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            return YAML(typ="rt").load(text)
        except MarkedYAMLError as error:
            mark = error.context_mark if "end of stream" in str(error.problem) else error.problem_mark
            line = mark.line + 1 if mark else 1
            raise self._build_error(line, f"not valid YAML: {error.problem or error.context}") from None
        except YAMLError as error:
            raise self._build_error(1, f"not valid YAML: {error}") from None

    def read(self, text: str) -> Script:
        root = self._parse_yaml(text)
        if isinstance(root, list):
            return Script(path=self._path, turns=(ScriptTurn(line=1, steps=self._read_steps(root, 1)),))
        known = ("name", "turns", "steps", "otherwise", "notes", "tokens_per_second", "chunk", "context_window")
        table = self._read_table(root, 1, known, "a script")
        turns = tuple(self._read_turn(each, line) for each, line in self._read_items(table, "turns"))
        if "steps" in table:
            turns = (ScriptTurn(line=self._line_of(table, "steps"), steps=self._read_branch(table, "steps")), *turns)
        if not turns and "otherwise" not in table:
            raise self._build_error(1, "the script has no answers", "Give it `turns:`, `steps:` or `otherwise:`.")
        return Script(
            path=self._path,
            turns=turns,
            otherwise=self._read_branch(table, "otherwise"),
            notes=self._read_branch(table, "notes"),
            tokens_per_second=self._read_number(table, "tokens_per_second", 0),
            chunk=int(self._read_number(table, "chunk", 0)),
            context_window=int(self._read_number(table, "context_window", 0)),
        )

    def _read_turn(self, node: Any, line: int) -> ScriptTurn:
        if isinstance(node, list):
            return ScriptTurn(line=line, steps=self._read_steps(node, line))
        table = self._read_table(node, line, ("match", "mode", "repeat", "steps", "suggest"), "a turn")
        steps = self._read_branch(table, "steps")
        if not steps:
            raise self._build_error(line, "a turn without steps", "Give it `steps:`, a list of answers.")
        return ScriptTurn(
            line=line,
            steps=steps,
            match=self._read_pattern(table, "match"),
            mode=self._read_text(table, "mode"),
            repeat=bool(table.get("repeat", False)),
            suggest=self._read_text(table, "suggest"),
        )

    def _read_branch(self, table: Any, key: str) -> tuple[ScriptStep, ...]:
        if key not in table:
            return ()
        node, line = table[key], self._line_of(table, key)
        return self._read_steps(node if isinstance(node, list) else [node], line)

    def _read_steps(self, nodes: Any, line: int) -> tuple[ScriptStep, ...]:
        return tuple(self._read_step(node, self._item_line_of(nodes, place, line)) for place, node in enumerate(nodes))

    def _read_step(self, node: Any, line: int) -> ScriptStep:
        if isinstance(node, str):
            return ScriptStep(line=line, text=str(node))
        known = ("text", "reasoning", "tool_calls", "when", "usage", "finish", "error", "cut")
        table = self._read_table(node, line, (*known, "chunk", "delay_ms", "tokens_per_second"), "a step")
        finish = self._read_text(table, "finish")
        if finish and finish not in FINISHES:
            raise self._build_error(
                self._line_of(table, "finish"), f"finish: {finish!r}", f"Valid: {', '.join(FINISHES)}."
            )
        pace = self._read_number(table, "tokens_per_second", 0) if "tokens_per_second" in table else None
        return ScriptStep(
            line=line,
            text=self._read_text(table, "text"),
            reasoning=self._read_text(table, "reasoning"),
            calls=tuple(self._read_call(each, at) for each, at in self._read_items(table, "tool_calls")),
            when=self._read_condition(table),
            usage=self._read_usage(table),
            finish=finish,
            fault=self._read_fault(table),
            cut=self._read_cut(table),
            chunk=int(self._read_number(table, "chunk", 0)),
            delay_ms=self._read_number(table, "delay_ms", 0),
            tokens_per_second=pace,
        )

    def _read_call(self, node: Any, line: int) -> ScriptCall:
        table = self._read_table(node, line, ("name", "arguments", "id"), "a tool call")
        if not self._read_text(table, "name"):
            raise self._build_error(line, "a tool call without a name")
        return ScriptCall(
            name=table["name"], arguments=_to_builtins(table.get("arguments", {})), id=self._read_text(table, "id")
        )

    def _read_condition(self, table: Any) -> ScriptCondition | None:
        if "when" not in table:
            return None
        node, line = table["when"], self._line_of(table, "when")
        if isinstance(node, str):
            return ScriptCondition(result=self._read_pattern(table, "when"))
        inner = self._read_table(node, line, ("result", "prompt", "told", "mode", "failed", "step"), "`when`")
        return ScriptCondition(
            result=self._read_pattern(inner, "result"),
            prompt=self._read_pattern(inner, "prompt"),
            told=self._read_pattern(inner, "told"),
            mode=self._read_text(inner, "mode"),
            failed=bool(inner["failed"]) if "failed" in inner else None,
            step=int(self._read_number(inner, "step", 0)),
        )

    def _read_fault(self, table: Any) -> ScriptFault | None:
        if "error" not in table:
            return None
        known = ("code", "status", "message", "retry_after", "times")
        inner = self._read_table(table["error"], self._line_of(table, "error"), known, "`error`")
        return ScriptFault(
            code=self._read_text(inner, "code"),
            status=int(self._read_number(inner, "status", 0)),
            message=self._read_text(inner, "message"),
            retry_after=self._read_number(inner, "retry_after", 0) if "retry_after" in inner else None,
            times=int(self._read_number(inner, "times", 0)),
        )

    def _read_cut(self, table: Any) -> float | None:
        value = table.get("cut")
        if value is None or value is False:
            return None
        return 0.5 if value is True else min(self._read_number(table, "cut", 0.5), 1.0)

    def _read_usage(self, table: Any) -> dict[str, int] | None:
        if "usage" not in table:
            return None
        known = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens")
        inner = self._read_table(table["usage"], self._line_of(table, "usage"), known, "`usage`")
        return {name: int(self._read_number(inner, name, 0)) for name in inner}

    def _read_items(self, table: Any, key: str) -> list[tuple[Any, int]]:
        """The entries of a list, each with its line."""
        nodes = table.get(key)
        if nodes is None:
            return []
        line = self._line_of(table, key)
        if not isinstance(nodes, list):
            raise self._build_error(line, f"`{key}` is not a list", "Begin each entry with `- `.")
        return [(node, self._item_line_of(nodes, place, line)) for place, node in enumerate(nodes)]

    def _read_table(self, node: Any, line: int, known: tuple[str, ...], what: str) -> Any:
        if not isinstance(node, dict):
            raise self._build_error(
                line, f"{what} has to be a mapping, not {_describe_type(node)}", f"Its keys: {', '.join(known)}."
            )
        for key in node:
            if key not in known:
                raise self._build_error(
                    self._line_of(node, key), f"{what} has no key `{key}`", f"Its keys: {', '.join(known)}."
                )
        return node

    def _read_text(self, table: Any, key: str) -> str:
        value = table.get(key, "")
        if value is None or isinstance(value, str):
            return str(value or "")
        raise self._build_error(
            self._line_of(table, key), f"`{key}` is {_describe_type(value)}, not a text", "Put it in quotes."
        )

    def _read_number(self, table: Any, key: str, default: float) -> float:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self._build_error(self._line_of(table, key), f"`{key}` is {value!r}, not a number of at least 0")
        return float(value)

    def _read_pattern(self, table: Any, key: str) -> Pattern | None:
        text = self._read_text(table, key)
        try:
            return re.compile(text) if text else None
        except re.error as error:
            raise self._build_error(
                self._line_of(table, key), f"`{key}` is not a regular expression: {error}"
            ) from None

    def _line_of(self, table: Any, key: str) -> int:
        try:
            return int(table.lc.key(key)[0]) + 1
        except (AttributeError, KeyError, TypeError):
            return 1

    def _item_line_of(self, nodes: Any, place: int, default: int) -> int:
        try:
            return int(nodes.lc.item(place)[0]) + 1
        except (AttributeError, KeyError, TypeError):
            return default


def _describe_type(value: Any) -> str:
    kinds = ((dict, "a mapping"), (list, "a list"), (str, "a text"), (bool, "true or false"), (int | float, "a number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "nothing")


def _to_builtins(value: Any) -> Any:
    """YAML's own kinds of text, numbers and tables as plain ones."""
    return str(value) if isinstance(value, str) else json.loads(json.dumps(value, default=str))
