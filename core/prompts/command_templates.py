"""Templates of the `command` dialect: one YAML file, the program's or the user's.

The file may have the form of mini-swe-agent's: the texts and the limits below `agent`, and `timeout` below
`environment`. An unreadable file, an unknown key or an unknown variable is an error with its position. A template sees
its variables alone and runs in Jinja's sandbox, since the file may come from a stranger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.errors import ConfigError
from core.prompts import ROOT, StrictTemplate

DEFAULT = ROOT / "dialects" / "command.yaml"
MAX_BYTES = 256 * 1024
MAX_TIMEOUT = 600
FACTS = frozenset(
    {"system", "release", "version", "machine", "workspace", "model", "shell", "time_limit", "completion_mark",
     "output_limit", "n_model_calls", "model_cost"}
)  # fmt: skip
# The templates of a file, with their variables besides the facts.
TEMPLATES: Mapping[str, frozenset[str]] = {
    "system_template": frozenset(),
    "instance_template": frozenset({"task"}),
    "action_observation_template": frozenset({"output"}),
    "format_error_template": frozenset({"error", "actions"}),
    "timeout_template": frozenset({"action", "output"}),
}
# Keys of mini-swe-agent's files that have no effect here: modes, models and directories are chosen elsewhere.
_UNUSED: Mapping[str, frozenset[str]] = {
    "agent": frozenset({"mode", "confirm_exit", "whitelist_actions"}),
    "environment": frozenset({"env", "cwd", "environment_class"}),
}
_SECTIONS: Mapping[str, frozenset[str]] = {
    "agent": frozenset({*TEMPLATES, "step_limit", "cost_limit"}),
    "environment": frozenset({"timeout"}),
}


class CommandTemplates(Struct, frozen=True, kw_only=True):
    """The templates of the file `path`, with the program's for missing ones. `timeout`: in seconds; `step_limit`,
    `cost_limit` (US dollars): of a turn, 0 = none."""

    path: str
    timeout: int
    step_limit: int
    cost_limit: float
    templates: Mapping[str, StrictTemplate]

    def render(self, name: str, variables: Mapping[str, object]) -> str:
        """Render one template. Raises `ConfigError` that names file, template and variable."""
        return self.templates[name].render(variables)


def load_command_templates(path: Path | None = None) -> CommandTemplates:
    """Load the templates of a file of the user, None = the program's. Raises `ConfigError`."""
    defaults = _read_templates(DEFAULT, None)
    return defaults if path is None else _read_templates(path, defaults)


def _read_templates(path: Path, base: CommandTemplates | None) -> CommandTemplates:
    try:
        stats = path.stat()
        if stats.st_size > MAX_BYTES or not path.is_file():
            raise ConfigError(f"{path} is not a regular file of at most {MAX_BYTES // 1024} KiB.", hint=_HINT)
        return _parse_templates(str(path), path.read_text(encoding="utf-8"), base)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", hint=_HINT) from None


_HINT = "Fix `dialects.command` in your configuration, or remove it."


def _parse_templates(path: str, text: str, base: CommandTemplates | None) -> CommandTemplates:
    data = _flatten(path, text, _load_mapping(path, text))
    known_keys = (*TEMPLATES, "timeout", "step_limit", "cost_limit")
    for key in data:
        if key not in known_keys:
            raise ConfigError(
                f"{path}, line {_find_line(text, str(key))}: unknown key `{key}`.",
                hint=f"Valid here: {', '.join(known_keys)}.",
            )
    timeout = data.get("timeout", base.timeout if base else 30)
    if not isinstance(timeout, int) or isinstance(timeout, bool) or not 1 <= timeout <= MAX_TIMEOUT:
        raise ConfigError(
            f"{path}, line {_find_line(text, 'timeout')}: `timeout` is a number of seconds from 1 to {MAX_TIMEOUT}."
        )
    templates = dict(base.templates) if base else {}
    templates |= {name: _build_template(path, text, name, data[name]) for name in TEMPLATES if name in data}
    step_limit, cost_limit = _read_limit(path, text, data, "step_limit"), _read_limit(path, text, data, "cost_limit")
    return CommandTemplates(
        path=path, timeout=timeout, step_limit=int(step_limit), cost_limit=cost_limit, templates=templates
    )


def _flatten(path: str, text: str, data: dict[Any, Any]) -> dict[Any, Any]:
    """Return the keys of a file without its sections. Raises `ConfigError` for a key that a section does not have."""
    flat = {key: value for key, value in data.items() if key not in {*_SECTIONS, "model"}}
    for section, keys in _SECTIONS.items():
        values = data.get(section) or {}
        if not isinstance(values, dict):
            raise ConfigError(f"{path}, line {_find_line(text, section)}: `{section}` has to be a mapping.")
        for key, value in values.items():
            if key in _UNUSED[section]:
                continue
            if key not in keys:
                message = f"{path}, line {_find_line(text, str(key))}: unknown key `{section}.{key}`."
                raise ConfigError(message, hint=f"Valid there: {', '.join(sorted(keys))}.")
            flat[key] = value
    return flat


def _read_limit(path: str, text: str, data: Mapping[Any, Any], key: str) -> float:
    """Return a limit, 0 = none. Raises `ConfigError`."""
    value = data.get(key, 0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and value >= 0 and (key != "step_limit" or value == int(value)):
        return float(value)
    kind = "a whole number of steps" if key == "step_limit" else "an amount of US dollars"
    raise ConfigError(f"{path}, line {_find_line(text, key)}: `{key}` is {kind}; 0 = no limit.")


def _build_template(path: str, text: str, name: str, source: Any) -> StrictTemplate:
    line = _find_line(text, name)
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(f"{path}, line {line}: `{name}` has to be text.", hint=f"Write `{name}: |` and indent it.")
    return StrictTemplate(source, label=f"{path}, line {line}: `{name}`", known_names=FACTS | TEMPLATES[name])


def _find_line(text: str, key: str) -> int:
    match = re.search(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?\s*:", text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 1


def _load_mapping(path: str, text: str) -> dict[Any, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        data = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}, line {line}: not valid YAML: {error.problem or error.context}.") from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a mapping of texts is expected.", hint=f"Its keys: {', '.join(TEMPLATES)}.")
    return data
