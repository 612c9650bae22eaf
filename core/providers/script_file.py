"""Reader of a scripted model's YAML file. Errors name the file, the line and the valid values.

The path may be a mistake, so no error repeats text of the file.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import fields, replace

from core.errors import ConfigError
from core.filesystem.open_files import read_regular_file
from core.patterns import compile_lazily
from core.protocol.messages import Usage
from core.records import parse_json

MAX_BYTES: Final = 4_000_000
Finish = Literal["", "stop", "tool_calls", "length", "refused"]
Share = Annotated[float | None, "0 to 1"]
Pattern = re.Pattern[str]
_QUOTED: Final = compile_lazily(r"'.*?'(?!\w)|\".*?\"", re.DOTALL)  # Text of the file that the parser quotes.
_UNWRITTEN: Final = frozenset({"line", "path", "cost"})  # Fields that a script can't set.


class ScriptCall(Struct, frozen=True, kw_only=True):
    """A tool call. `arguments` is a mapping, or text that is sent unchanged (to play malformed JSON)."""

    name: str
    arguments: Any = field(default_factory=dict)
    id: str = ""


class ScriptFault(Struct, frozen=True, kw_only=True):
    """An error to play. `times`: how often the step fails before its content is played, 0 = always."""

    code: str = ""
    status: int = 0
    message: str = ""
    retry_after: float | None = None
    times: int = 0


class ScriptCondition(Struct, frozen=True, kw_only=True):
    """A condition whose fields all have to match. `result`, `prompt` and `told` are regular expressions; `step` counts
    from 1."""

    result: Pattern | None = None
    prompt: Pattern | None = None
    told: Pattern | None = None
    mode: str = ""
    failed: bool | None = None
    step: int = 0


class ScriptStep(Struct, frozen=True, kw_only=True):
    """One answer. `cut`: the share of it (0–1) after which the stream ends without a finish."""

    line: int
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptCall, ...] = ()
    when: ScriptCondition | None = None
    usage: Usage | None = None
    finish: Finish = ""
    error: ScriptFault | None = None
    cut: Share = None
    chunk: int = 0
    delay_ms: float = 0
    tokens_per_second: float | None = None


class ScriptTurn(Struct, frozen=True, kw_only=True):
    """The answers to one prompt. `match` None: any prompt, in the order of the turns. `suggest`: a prompt to suggest
    before it."""

    line: int
    match: Pattern | None = None
    mode: str = ""
    repeat: bool = False
    steps: tuple[ScriptStep, ...] = ()
    suggest: str = ""


class Script(Struct, frozen=True, kw_only=True):
    """A script. `steps`: its first turn; `otherwise`: played when no turn is left; `notes`: played for a request
    without tools."""

    path: str
    name: Any = None
    turns: tuple[ScriptTurn, ...] = ()
    steps: tuple[ScriptStep, ...] = ()
    otherwise: tuple[ScriptStep, ...] = ()
    notes: tuple[ScriptStep, ...] = ()
    tokens_per_second: float = 0
    chunk: int = 0
    context_window: int = 0


def read_script(path: Path) -> Script:
    """Read a script. Raises `ConfigError` with file and line."""
    try:
        data = read_regular_file(path, MAX_BYTES + 1)
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
    return _ScriptReader(str(path)).read_script(text)


class _ScriptReader:
    """Validator of the parsed YAML. The keys of a table are the fields of its record, whose types define how values are
    read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._readers: Mapping[Any, Callable[[Any, str], Any]] = {
            str: self._read_text,
            int: self._read_count,
            **dict.fromkeys((float, float | None), self._read_number),
            **dict.fromkeys((bool, bool | None), lambda table, key: bool(table[key])),
            Finish: self._read_finish,
            Share: self._read_share,
            Pattern | None: self._read_pattern,
            tuple[ScriptTurn, ...]: self._read_turns,
            tuple[ScriptStep, ...]: self._read_branch,
            tuple[ScriptCall, ...]: self._read_calls,
            ScriptCondition | None: self._read_condition,
            ScriptFault | None: lambda table, key: ScriptFault(**self._read_inner(table, key, ScriptFault)),
            Usage | None: lambda table, key: Usage(**self._read_inner(table, key, Usage)),
            Any: _read_builtins,
        }

    def _build_error(self, line: int, problem: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self._path}, line {line}: {problem}.", hint=hint, code="script_invalid")

    def _parse_yaml(self, text: str) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            return YAML(typ="rt").load(text)
        except MarkedYAMLError as error:
            mark = error.context_mark if "end of stream" in str(error.problem) else error.problem_mark
            line = mark.line + 1 if mark else 1
            problem = _QUOTED.sub("…", str(error.problem or error.context))
            raise self._build_error(line, f"not valid YAML: {problem}") from None
        except YAMLError:
            raise self._build_error(1, "not valid YAML") from None
        except (RecursionError, MemoryError):
            raise self._build_error(1, "not valid YAML: it is nested too deep") from None

    def read_script(self, text: str) -> Script:
        root = self._parse_yaml(text)
        if isinstance(root, list):
            return Script(path=self._path, turns=(ScriptTurn(line=1, steps=self._read_steps(root, 1)),))
        script = Script(path=self._path, **self._read_fields(root, 1, "a script", Script))
        if "steps" in root:
            first = ScriptTurn(line=_find_key_line(root, "steps"), steps=script.steps)
            script = replace(script, turns=(first, *script.turns))
        if not script.turns and "otherwise" not in root:
            raise self._build_error(1, "the script has no answers", "Give it `turns:`, `steps:` or `otherwise:`.")
        return script

    def _read_turns(self, table: Any, key: str) -> tuple[ScriptTurn, ...]:
        return tuple(self._read_turn(node, line) for node, line in self._read_items(table, key))

    def _read_turn(self, node: Any, line: int) -> ScriptTurn:
        if isinstance(node, list):
            return ScriptTurn(line=line, steps=self._read_steps(node, line))
        values = self._read_fields(node, line, "a turn", ScriptTurn)
        if not values.get("steps"):
            raise self._build_error(line, "a turn without steps", "Give it `steps:`, a list of answers.")
        return ScriptTurn(line=line, **values)

    def _read_branch(self, table: Any, key: str) -> tuple[ScriptStep, ...]:
        node, line = table[key], _find_key_line(table, key)
        return self._read_steps(node if isinstance(node, list) else [node], line)

    def _read_steps(self, nodes: Any, line: int) -> tuple[ScriptStep, ...]:
        return tuple(self._read_step(node, _find_item_line(nodes, index, line)) for index, node in enumerate(nodes))

    def _read_step(self, node: Any, line: int) -> ScriptStep:
        if isinstance(node, str):
            return ScriptStep(line=line, text=str(node))
        return ScriptStep(line=line, **self._read_fields(node, line, "a step", ScriptStep))

    def _read_finish(self, table: Any, key: str) -> str:
        finish = self._read_text(table, key)
        if finish not in get_args(Finish):
            valid = f"Valid: {', '.join(filter(None, get_args(Finish)))}."
            raise self._build_error(_find_key_line(table, key), "`finish` is none of its values", valid)
        return finish

    def _read_calls(self, table: Any, key: str) -> tuple[ScriptCall, ...]:
        return tuple(self._read_call(node, line) for node, line in self._read_items(table, key))

    def _read_call(self, node: Any, line: int) -> ScriptCall:
        values = self._read_fields(node, line, "a tool call", ScriptCall)
        if not values.get("name"):
            raise self._build_error(line, "a tool call without a name")
        return ScriptCall(**values)

    def _read_condition(self, table: Any, key: str) -> ScriptCondition:
        if isinstance(table[key], str):
            return ScriptCondition(result=self._read_pattern(table, key))
        return ScriptCondition(**self._read_inner(table, key, ScriptCondition))

    def _read_share(self, table: Any, key: str) -> float | None:
        value = table[key]
        if value is None or value is False:
            return None
        return 0.5 if value is True else min(self._read_number(table, key), 1.0)

    def _read_items(self, table: Any, key: str) -> list[tuple[Any, int]]:
        nodes, line = table[key], _find_key_line(table, key)
        if nodes is None:
            return []
        if not isinstance(nodes, list):
            raise self._build_error(line, f"`{key}` is not a list", "Begin each entry with `- `.")
        return [(node, _find_item_line(nodes, index, line)) for index, node in enumerate(nodes)]

    def _read_inner(self, table: Any, key: str, record: type[Struct]) -> dict[str, Any]:
        return self._read_fields(table[key], _find_key_line(table, key), f"`{key}`", record)

    def _read_fields(self, node: Any, line: int, subject: str, record: type[Struct]) -> dict[str, Any]:
        """Return the fields of a record from a table. `subject`: the name of the table in an error."""
        types = _list_types(record)
        hint = f"Its keys: {', '.join(types)}."
        if not isinstance(node, dict):
            raise self._build_error(line, f"{subject} has to be a mapping, not {_describe_type(node)}", hint)
        for key in node:
            if key not in types:
                suggestions = difflib.get_close_matches(str(key), types, n=1)
                guess = f", perhaps `{suggestions[0]}`" if suggestions else ""
                raise self._build_error(_find_key_line(node, key), f"{subject} has an unknown key{guess}", hint)
        return {key: self._readers[types[key]](node, key) for key in node}

    def _read_text(self, table: Any, key: str) -> str:
        value = table[key]
        if value is None or isinstance(value, str):
            return str(value or "")
        problem = f"`{key}` is {_describe_type(value)}, not a text"
        raise self._build_error(_find_key_line(table, key), problem, "Put it in quotes.")

    def _read_number(self, table: Any, key: str) -> float:
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            problem = f"`{key}` is not a number of at least 0"
            raise self._build_error(_find_key_line(table, key), problem)
        return float(value)

    def _read_count(self, table: Any, key: str) -> int:
        return int(self._read_number(table, key))

    def _read_pattern(self, table: Any, key: str) -> Pattern | None:
        text = self._read_text(table, key)
        try:
            return re.compile(text) if text else None
        except re.error as error:
            problem = f"`{key}` is not a regular expression: {error.msg}"
            raise self._build_error(_find_key_line(table, key), problem) from None


@cache
def _list_types(record: type[Struct]) -> dict[str, Any]:
    return {field_info.name: field_info.type for field_info in fields(record) if field_info.name not in _UNWRITTEN}


def _find_key_line(table: Any, key: str) -> int:
    try:
        return int(table.lc.key(key)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return 1


def _find_item_line(nodes: Any, index: int, default: int) -> int:
    try:
        return int(nodes.lc.item(index)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return default


def _describe_type(value: Any) -> str:
    kinds = ((dict, "a mapping"), (list, "a list"), (str, "a text"), (bool, "true or false"), (int | float, "a number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "nothing")


def _read_builtins(table: Any, key: str) -> Any:
    """Return ruamel's text, number and table types as plain ones."""
    value = table[key]
    return str(value) if isinstance(value, str) else parse_json(json.dumps(value, default=str))
