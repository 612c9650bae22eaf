"""The tools that a request offers: which ones, in which order, and in which format a model edits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from core.config.settings import Settings
from core.edit_formats import EDIT_TOOLS, SEARCH_REPLACE, EditFormat
from core.errors import ToolInputInvalid
from core.modes import Mode
from core.providers.base import ToolSpec
from core.providers.catalog.capabilities import find_canonical_capabilities
from core.text.similarity import find_nearest_names
from core.tools.arguments import build_offered_schema, convert_arguments, describe_schema
from core.tools.base import RegisteredTool, Tool, ToolType
from core.tools.builtin import BUILTIN
from core.tools.foreign_calls import explain_missing, fold_name

DEFAULT_FORMAT: Final[EditFormat] = "search_replace"
# The name under which the tool of every format is offered, and that tool.
OFFERED: Final[Mapping[EditFormat, tuple[str, str]]] = {
    format_: (name, tool.name) for tool in EDIT_TOOLS for format_, name in tool.offers.items()
}
EDITOR = SEARCH_REPLACE.name  # The position of the edit tool in the list, whichever format is offered.


def choose_edit_format(model: str, settings: Settings) -> EditFormat:
    """Return the edit format for a model, by its id `provider/name`."""
    edit_format = settings.models[model].edits if model in settings.models else ""
    return edit_format or guess_edit_format(model)


def guess_edit_format(model: str) -> EditFormat:
    """Return the edit format that models of this name are best at."""
    return find_canonical_capabilities(model).edits or DEFAULT_FORMAT


# The tools that are useless where no command can run.
COMMAND_TOOLS: Final = frozenset(
    {"run_terminal_cmd", "run_python", "run_code", "read_terminal", "write_terminal", "stop_terminal"}
)
# The tools that a program of `run_code` can't call: they end, nest or change what the program was allowed under.
NOT_IN_PROGRAMS: Final = frozenset(
    {"run_code", "task", "consult_advisor", "switch_mode", "propose_goal", "finish", "call_tool"}
)


async def _return_at_once(_: str) -> None:
    """Return at once: there are no servers to wait for."""


class Toolset(Mapping[str, ToolType]):
    """Tool classes by name; a tool's module is imported when its class is requested.

    `listed` are the names in the list of every request; `essential` those in the list for a model with a small window.
    The others are called through `call_tool`: those that only a mode needs (`deferred`) are described with that mode,
    and the rest belongs to a dialect or an edit format. Tools in `disabled_names` are never described to the model, but
    can be looked up, so that a call of one gets a reason. `find_external` looks up the tools of servers, which come and
    go and are offered apart from the list. `wait_for_external` waits for the server of a name that is still starting.
    """

    def __init__(self, tools: Iterable[RegisteredTool] = BUILTIN, *, disabled_names: Collection[str] = ()) -> None:
        self.disabled = frozenset(disabled_names)
        self._tools = {tool.name: tool for tool in tools}
        self._aliases = {alias: tool.name for tool in self._tools.values() for alias in tool.aliases}
        names = {**self._aliases, **dict(zip(self._tools, self._tools, strict=True))}
        self._folded = {fold_name(name): tool_name for name, tool_name in names.items()}
        modes = {mode.value: mode.rules.tools for mode in Mode if mode.rules.tools}
        self.deferred: Mapping[str, tuple[str, ...]] = {
            mode: tool_names for mode, names in modes.items() if (tool_names := self._list_enabled(names))
        }
        later = {name for names in modes.values() for name in names}
        listed_names = [tool.name for tool in self._tools.values() if tool.is_listed and tool.name not in later]
        self.listed = self._list_enabled(listed_names)
        self.essential = self._list_enabled(tool.name for tool in self._tools.values() if tool.is_essential)
        self.find_external: Callable[[str], ToolType | None] = lambda _: None
        self.wait_for_external: Callable[[str], Awaitable[None]] = _return_at_once

    def _list_enabled(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that are not disabled; the edit format later decides which tool takes the editor's
        position."""
        return tuple(name for name in names if name == EDITOR or name not in self.disabled)

    def disable(self, names: Collection[str]) -> Toolset:
        """Return these tools with exactly `names` disabled."""
        toolset = Toolset(self._tools.values(), disabled_names=names)
        toolset.find_external, toolset.wait_for_external = self.find_external, self.wait_for_external
        return toolset

    def explain_unknown(self, locations: Mapping[str, str]) -> tuple[str, ...]:
        """Return a sentence about every name that belongs to no tool and no server. `locations`: where every name is
        configured."""
        sentences = []
        for name, location in locations.items():
            if name in self._tools or name.startswith("mcp__"):
                continue
            tool_name = self.resolve_name(name)
            nearest_names = [tool_name] if tool_name != name else find_nearest_names(name[:100], list(self._tools))
            hint = f" Did you mean {' or '.join(nearest_names)}?" if nearest_names else ""
            sentences.append(f"`{location[:150]}` has no effect: there is no tool with that name.{hint}")
        return tuple(sentences)

    def __getitem__(self, name: str) -> ToolType:
        module, _, tool = self._tools[name].location.partition(":")  # A name that a model invented loads no module.
        return cast(ToolType, getattr(import_module(module), tool))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def resolve_name(self, name: str) -> str:
        """Return the tool's own name for any spelling of case and underscores; an unknown name is returned
        unchanged."""
        return name if name in self._tools else self._aliases.get(name) or self._folded.get(fold_name(name), name)

    def list_aliases(self, name: str) -> tuple[str, ...]:
        """List the other names of a tool."""
        return self._tools[name].aliases

    def find(self, name: str) -> ToolType:
        """Return the tool of that name or alias. Raises `ToolInputInvalid`, which suggests similar names."""
        tool_name = self.resolve_name(name)
        if tool_name in self._tools:
            return self[tool_name]
        if (external := self.find_external(name)) is not None:
            return external
        known_names = [tool.name for tool in self._tools.values() if tool.is_listed and tool.name not in self.disabled]
        nearest_names = find_nearest_names(name[:100], known_names)
        guess = f"Did you mean {' or '.join(nearest_names)}? " if nearest_names else ""
        raise ToolInputInvalid(
            f"There is no tool {name[:100]!r}.",
            hint=explain_missing(name) or f"{guess}The tools are: {', '.join(known_names)}.",
            code="tool_unknown",
        )

    def parse(self, name: str, arguments: str) -> Tool[Any]:
        """Return a checked call of `arguments`, JSON as text. Raises `ToolInputInvalid` with a message for
        the model."""
        return convert_arguments(self.find(name), arguments)

    def build_specs(
        self,
        load_text: Callable[[str], str],
        edits: EditFormat = "search_replace",
        names: Sequence[str] | None = None,
    ) -> tuple[ToolSpec, ...]:
        """Return the list that a model is sent: `names`, by default `listed`. `load_text(name)` returns a tool's text.

        Of the edit tools only the one of the format `edits` is in it, under the name that models know.
        """
        selected_names = self.listed if names is None else names
        name_pairs = [OFFERED[edits] if name == EDITOR else (name, name) for name in selected_names]
        return tuple(
            ToolSpec(
                name=name,
                description=load_text(tool_name),
                parameters=build_offered_schema(self[tool_name]),
                freeform=self[tool_name].freeform,
                grammar=self[tool_name].grammar,
                finds_tools=self[tool_name].finds_tools,
            )
            for name, tool_name in name_pairs
            if tool_name not in self.disabled
        )

    def describe(self, name: str, text: str) -> str:
        """Return a tool in prose, for a model that learns of it outside the list: its text and its arguments."""
        schema = build_offered_schema(self[name])
        required_names = schema.get("required", ())
        lines = [
            f"- {key} ({describe_schema(field)}{'' if key in required_names else ', optional'}): {field['description']}"
            for key, field in schema["properties"].items()
        ]
        return "\n".join([text, *(["Arguments:", *lines] if lines else [])])

    def list_parameters(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the arguments of every tool that a program can call, by its name."""
        names = (name for name in self._tools if name not in self.disabled | NOT_IN_PROGRAMS)
        return {name: tuple(build_offered_schema(self[name])["properties"]) for name in names}
