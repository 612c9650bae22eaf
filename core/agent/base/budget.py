"""The budget of a turn and its subagents: limits, usage so far, and the accesses that a subagent gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from core.config.settings import TurnLimits
from core.errors import AgentTuiError
from core.modes import Access
from core.protocol.messages import Usage
from core.state.session import add_usage
from core.text.counting import count

# A subagent writes no plans (PLAN) and starts no subagents (SPAWN).
DEFAULT_ACCESSES: Final = frozenset(
    {Access.READ, Access.ASK, Access.TODO, Access.PROPOSE, Access.EXEC, Access.JOB, Access.NET, Access.EXTERNAL}
)


class LimitReached(AgentTuiError):
    """A limit of the user ends the turn; this is no fault."""

    code = "limit_reached"


NO_LIMITS: Final = TurnLimits(max_steps=0)


class TurnBudget(Struct, eq=False):
    """Steps and usage of a turn so far, checked against the present limits. They count for the parent, too.
    `_template_limits`: those of the templates of a dialect."""

    _limits: Callable[[], TurnLimits]
    _parent: TurnBudget | None = None
    _template_limits: Callable[[], TurnLimits] = lambda: NO_LIMITS
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    unpriced_model: str = ""

    def add(self, usage: Usage, model: str = "") -> None:
        """Add usage. `model`: the id of the model that used it, "" = not known."""
        self.usage = add_usage(self.usage, usage)
        if usage.cost is None and usage.prompt_tokens + usage.completion_tokens:
            self.mark_unpriced(model or "the model")
        if self._parent is not None:
            self._parent.add(usage, model)

    def mark_unpriced(self, model: str) -> None:
        """Record that the price of this model is not known."""
        self.unpriced_model = self.unpriced_model or model
        if self._parent is not None:
            self._parent.mark_unpriced(model)

    def begin_step(self) -> int:
        """Count a step and return its number."""
        self.steps += 1
        if self._parent is not None:
            self._parent.begin_step()
        return self.steps

    def check_end(self) -> None:
        """Check the limits when a turn is done: its last step may be over them. Raises `LimitReached`."""
        limits, tokens = self._limits(), self.usage.prompt_tokens + self.usage.completion_tokens
        hint = "The answer is complete; raise the limit with /limits or `{}` in your configuration, or ask for less."
        if limits.max_tokens and tokens > limits.max_tokens:
            raise LimitReached(f"{tokens:,} tokens were used (max_tokens).", hint=hint.format("limits.max_tokens"))
        if limits.max_cost and (self.usage.cost or 0.0) > limits.max_cost:
            raise LimitReached(f"{self._format_cost()} were used (max_cost).", hint=hint.format("limits.max_cost"))

    def _format_cost(self) -> str:
        return f"{'~' if self.usage.estimated else ''}${self.usage.cost or 0.0:.2f}"

    def check(self) -> None:
        """Check the limits before a step. Raises `LimitReached`."""
        if self._parent is not None:
            self._parent.check()
        self._check_templates()
        limits, tokens = self._limits(), self.usage.prompt_tokens + self.usage.completion_tokens
        hint = "Send another message to continue, or raise the limit with /limits or `{}` in your configuration."
        if limits.max_steps and self.steps >= limits.max_steps:
            steps = count("step", self.steps)
            raise LimitReached(f"Stopped after {steps} (max_steps).", hint=hint.format("limits.max_steps"))
        if limits.max_tokens and tokens >= limits.max_tokens:
            raise LimitReached(f"Stopped after {tokens:,} tokens (max_tokens).", hint=hint.format("limits.max_tokens"))
        if limits.max_cost and (self.usage.cost or 0.0) >= limits.max_cost:
            raise LimitReached(
                f"Stopped at a cost of {self._format_cost()} (max_cost).", hint=hint.format("limits.max_cost")
            )
        if limits.max_cost and self.unpriced_model:
            raise LimitReached(
                f"Stopped: the price of {self.unpriced_model} is unknown, so max_cost "
                f"(${limits.max_cost:.2f}) can't be enforced.",
                hint="Set its price in US dollars per million tokens: "
                f'[models."{self.unpriced_model}"] price = {{ input = 1.0, output = 5.0 }}. Or '
                "remove the limit: /limits cost 0.",
            )

    def _check_templates(self) -> None:
        own_limits, hint = self._template_limits(), "The file in `dialects.command` sets it. Another message goes on."
        if own_limits.max_steps and self.steps >= own_limits.max_steps:
            raise LimitReached(f"Stopped after {count('step', self.steps)} (step_limit).", hint=hint)
        if own_limits.max_cost and (cost := self.usage.cost or 0.0) >= own_limits.max_cost:
            raise LimitReached(f"Stopped at a cost of ${cost:.2f} (cost_limit).", hint=hint)


class SubagentLimits(Struct, frozen=True, kw_only=True):
    """Limits of a subagent: the present grants of its parent session, and the budget that all subagents of a turn
    share.

    `tools`: names of the tools that it may use, None = all; `denied`: those that it may not; a name that ends in `*` is
    a prefix in both. `kind`: the name of the kind of subagent."""

    parent_grants: Callable[[Access], bool]
    budget: TurnBudget
    requested: frozenset[Access] = DEFAULT_ACCESSES
    tools: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    kind: str = "generalPurpose"

    def is_tool_allowed(self, name: str) -> bool:
        """True if a tool may be used."""
        return (self.tools is None or _is_among(name, self.tools)) and not _is_among(name, self.denied)

    def is_allowed(self, access: Access) -> bool:
        """True if an access was requested and the parent session grants it now."""
        return access in self.requested and self.parent_grants(access)


def _is_among(name: str, names: frozenset[str]) -> bool:
    return name in names or any(pattern[-1:] == "*" and name.startswith(pattern[:-1]) for pattern in names)
