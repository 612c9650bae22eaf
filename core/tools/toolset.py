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
from core.providers.catalog.capabilities import find_canonical_name
from core.text.similarity import find_nearest_names
from core.tools.arguments import build_offered_schema, convert_arguments, describe_schema
from core.tools.base import RegisteredTool, Tool, ToolType
from core.tools.builtin import BUILTIN

OTHERS: Final[EditFormat] = "search_replace"
# The name under which a format's tool is offered, and that tool.
OFFERED: Final[Mapping[EditFormat, tuple[str, str]]] = {
    format_: (name, tool.name) for tool in EDIT_TOOLS for format_, name in tool.offers.items()
}
EDITOR = SEARCH_REPLACE.name  # its place in the list is that of whichever edit format is offered


def choose_edit_format(model: str, settings: Settings) -> EditFormat:
    """The format for a model, by its id `provider/name`."""
    edit_format = settings.models[model].edits if model in settings.models else ""
    return edit_format or guess_edit_format(model)


def guess_edit_format(model: str) -> EditFormat:
    """The format that models of this name are best at."""
    return find_canonical_name(model).edits or OTHERS


async def _wait_for_nothing(_: str) -> None:
    """Return at once: there are no servers."""


def _fold_name(name: str) -> str:
    return name[:100].replace("_", "").replace("-", "").lower()


class Toolset(Mapping[str, ToolType]):
    """Tool classes by name; a tool's module is imported when its class is asked for.

    `listed` are the names in the list that every request carries; `essential` those in the list of a model whose
    window is small. The others are called through `call_tool`: those that a mode alone needs (`deferred`) are described
    with that mode, and the rest is what a dialect or an edit format has words of its own for. A model is told of none
    that is `disabled_names`; one is found all the same, so that who calls it hears why it is not run. `find_external`
    finds the tools of servers, which come and go: they are offered beside the list. `wait_for_external` waits for the
    server of a name that is still starting.
    """

    def __init__(self, tools: Iterable[RegisteredTool] = BUILTIN, *, disabled_names: Collection[str] = ()) -> None:
        self.disabled = frozenset(disabled_names)
        self._tools = {tool.name: tool for tool in tools}
        self._aliases = {alias: tool.name for tool in self._tools.values() for alias in tool.aliases}
        names = {**self._aliases, **dict(zip(self._tools, self._tools, strict=True))}
        self._folded = {_fold_name(name): tool_name for name, tool_name in names.items()}
        modes = {mode.value: mode.rules.tools for mode in Mode if mode.rules.tools}
        self.deferred: Mapping[str, tuple[str, ...]] = {
            mode: tool_names for mode, names in modes.items() if (tool_names := self._keep(names))
        }
        later = {name for names in modes.values() for name in names}
        listed_names = [tool.name for tool in self._tools.values() if tool.is_listed and tool.name not in later]
        self.listed = self._keep(listed_names)
        self.essential = self._keep(tool.name for tool in self._tools.values() if tool.is_essential)
        self.find_external: Callable[[str], ToolType | None] = lambda _: None
        self.wait_for_external: Callable[[str], Awaitable[None]] = _wait_for_nothing

    def _keep(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those that are not disabled; which tool stands in the editor's place, the edit format says later."""
        return tuple(name for name in names if name == EDITOR or name not in self.disabled)

    def disable(self, names: Collection[str]) -> Toolset:
        """Return these tools with exactly `names` disabled."""
        toolset = Toolset(self._tools.values(), disabled_names=names)
        toolset.find_external, toolset.wait_for_external = self.find_external, self.wait_for_external
        return toolset

    def explain_unknown(self, locations: Mapping[str, str]) -> tuple[str, ...]:
        """Return a sentence about each name that is the own name of none, and of no tool of a server. `locations`: each
        with the place where it stands."""
        sentences = []
        for name, location in locations.items():
            if name in self._tools or name.startswith("mcp__"):
                continue
            tool_name = self.resolve_name(name)
            nearest_names = [tool_name] if tool_name != name else find_nearest_names(name[:100], list(self._tools))
            hint = f" Did you mean {' or '.join(nearest_names)}?" if nearest_names else ""
            sentences.append(f"`{location[:150]}` has no effect: there is no tool of that name.{hint}")
        return tuple(sentences)

    def __getitem__(self, name: str) -> ToolType:
        module, _, tool = self._tools[name].location.partition(":")  # a name that a model made up loads no module
        return cast(ToolType, getattr(import_module(module), tool))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def resolve_name(self, name: str) -> str:
        """Return the tool's own name, however its letters and underscores are written; as given if it is of none."""
        return name if name in self._tools else self._aliases.get(name) or self._folded.get(_fold_name(name), name)

    def list_aliases(self, name: str) -> tuple[str, ...]:
        """List the other names that a tool is called by."""
        return self._tools[name].aliases

    def find(self, name: str) -> ToolType:
        """Return the tool of that name or alias. Raises `ToolInputInvalid`, which names near ones."""
        tool_name = self.resolve_name(name)
        if tool_name in self._tools:
            return self[tool_name]
        if (external := self.find_external(name)) is not None:
            return external
        known_names = [tool.name for tool in self._tools.values() if tool.is_listed and tool.name not in self.disabled]
        nearest_names = find_nearest_names(name[:100], known_names)
        hint = f"Did you mean {' or '.join(nearest_names)}? " if nearest_names else ""
        raise ToolInputInvalid(
            f"There is no tool {name[:100]!r}.",
            hint=f"{hint}The tools are: {', '.join(known_names)}.",
            code="tool_unknown",
        )

    def parse(self, name: str, arguments: str) -> Tool[Any]:
        """Return a checked call of `arguments`, JSON as text. Raises `ToolInputInvalid` in words for a model."""
        return convert_arguments(self.find(name), arguments)

    def build_specs(
        self,
        load_text: Callable[[str], str],
        edits: EditFormat = "search_replace",
        names: Sequence[str] | None = None,
    ) -> tuple[ToolSpec, ...]:
        """Return the list that a model is sent: `names`, by default `listed`. `load_text(name)` is a tool's text.

        Of the tools that edit a file the one of the format `edits` is in it, under the name that models know it by.
        """
        selected_names = self.listed if names is None else names
        name_pairs = [OFFERED[edits] if name == EDITOR else (name, name) for name in selected_names]
        return tuple(
            ToolSpec(
                name=name,
                description=load_text(tool_name),
                parameters=build_offered_schema(self[tool_name]),
                freeform=self[tool_name].freeform,
            )
            for name, tool_name in name_pairs
            if tool_name not in self.disabled
        )

    def describe(self, name: str, text: str) -> str:
        """Return a tool in prose, for a model that is told of it outside of the list: its text and its arguments."""
        schema = build_offered_schema(self[name])
        required_names = schema.get("required", ())
        lines = [
            f"- {key} ({describe_schema(field)}{'' if key in required_names else ', optional'}): {field['description']}"
            for key, field in schema["properties"].items()
        ]
        return "\n".join([text, *(["Arguments:", *lines] if lines else [])])
