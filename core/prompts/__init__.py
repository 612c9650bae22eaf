"""Prose for models. It explains what the program enforces elsewhere: deleting any of it grants nothing.

Templates are `<directory>/<name>.md.j2` (Jinja, every variable must be given), tool texts `tools/<name>.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import AgentTuiError, ConfigError
from core.modes import Mode
from core.patterns import compile_lazily

if TYPE_CHECKING:
    from jinja2 import Environment

ROOT = Path(__file__).parent
_NAME = compile_lazily(r"(?:[a-z][a-z_]*/)?[a-z][a-z_]*")


class PromptMissing(AgentTuiError):
    """A prompt of the installation is missing or can't be rendered."""

    code = "prompt_missing"


def list_prompts() -> tuple[str, ...]:
    """List the names of all templates, as `render` takes them."""
    names = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.md.j2"))
    return tuple(name.removesuffix(".md.j2") for name in names)


def render(name: str, **variables: object) -> str:
    """Render a template with its variables, without blank lines at either end. Raises `PromptMissing`."""
    from jinja2 import TemplateError

    if not _NAME.fullmatch(name):
        raise PromptMissing(f"{name!r} is not a prompt name.", hint=f"Known: {', '.join(list_prompts())}.")
    try:
        return _create_environment().get_template(f"{name}.md.j2").render(variables).strip()
    except TemplateError as error:
        raise PromptMissing(
            f"The prompt {name!r} can't be rendered: {type(error).__name__}: {error}.",
            hint="Reinstall agent-tui.",
        ) from error


def load_tool_text(name: str) -> str:
    """Load the description of a tool for the model. Raises `PromptMissing`."""
    if not re.fullmatch(r"[a-z][a-z_]*", name):
        raise PromptMissing(f"{name!r} is not a tool name.")
    try:
        return (ROOT / "tools" / f"{name}.md").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PromptMissing(f"The prompt of the tool {name!r} is missing.", hint="Reinstall agent-tui.") from error


def load_short_tool_text(name: str) -> str:
    """Load the description of a tool without its list of details. Raises `PromptMissing`."""
    return load_tool_text(name).split("\n- ", 1)[0].strip()


class StrictTemplate:
    """A template from the user's configuration. `label`: its name in errors; `known_names`: the variables that it may
    use."""

    def __init__(self, source: str, *, label: str, known_names: Set[str]) -> None:
        from jinja2 import StrictUndefined, TemplateSyntaxError
        from jinja2.meta import find_undeclared_variables
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._where = label
        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        try:
            unknown = sorted(find_undeclared_variables(environment.parse(source)) - known_names)
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigError(f"{label}: line {error.lineno} is not a valid template: {error.message}.") from None
        if unknown:
            raise ConfigError(
                f"{label} uses the variable `{unknown[0]}`, which does not exist.",
                hint=f"Available: {', '.join(sorted(known_names))}.",
            )

    def render(self, variables: Mapping[str, object]) -> str:
        """Render without blank lines at either end. Raises `ConfigError`."""
        from jinja2 import TemplateError

        try:
            return self._template.render(variables).strip()
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self._where} can't be filled in: {error}.") from error


@cache
def _create_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(ROOT),
        undefined=StrictUndefined,
        autoescape=False,  # prose for a model, not markup
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        auto_reload=False,
    )
    environment.globals["modes"] = tuple(Mode)  # A mode has a template, `modes/<mode>.md.j2`, and a line in lists.
    return environment
