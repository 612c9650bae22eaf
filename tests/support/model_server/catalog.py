"""The models as their makers describe them: what each takes and refuses. Data for the rules and for `/v1/models`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_FIVE: Final = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, kw_only=True)
class Claude:
    """`thinking`: the types that a request may ask for. `disabled_up_to`: the highest effort at which thinking may be
    off, "" = any. `bound`: its reasoning is bound to all that was before it.
    """

    pattern: str
    thinking: tuple[str, ...]
    efforts: tuple[str, ...] = _FIVE
    disabled_up_to: str = ""
    sampling: bool = False
    forced_choice: bool = True
    prefill: bool = False
    bound: bool = False
    default_display: str = "summarized"
    max_input_tokens: int = 1_000_000
    max_tokens: int = 128_000


CLAUDES: Final = (
    Claude(
        pattern=r"claude-(opus-5-5|fable-5-[12]|mythos-5-[12])",
        thinking=("adaptive",),
        forced_choice=False,
        bound=True,
        default_display="omitted",
    ),
    Claude(
        pattern=r"claude-sonnet-5-5",
        thinking=("adaptive", "between_tools"),
        forced_choice=False,
        bound=True,
        default_display="omitted",
    ),
    Claude(pattern=r"claude-haiku-5-5", thinking=("adaptive", "disabled"), bound=True, max_input_tokens=200_000),
    Claude(
        pattern=r"claude-(sonnet|opus|fable)-5$",
        thinking=("adaptive", "disabled"),
        disabled_up_to="high",
        default_display="omitted",
    ),
    Claude(pattern=r"claude-opus-4-[78]", thinking=("adaptive", "disabled"), default_display="omitted"),
    Claude(
        pattern=r"claude-(opus|sonnet)-4-6",
        thinking=("adaptive", "enabled", "disabled"),
        efforts=("low", "medium", "high", "max"),
        sampling=True,
    ),
    Claude(
        pattern=r"claude-opus-4-5",
        thinking=("enabled", "disabled"),
        efforts=("low", "medium", "high"),
        sampling=True,
        prefill=True,
        max_input_tokens=200_000,
        max_tokens=64_000,
    ),
    Claude(
        pattern=r"claude-",
        thinking=("enabled", "disabled"),
        efforts=(),
        sampling=True,
        prefill=True,
        max_input_tokens=200_000,
        max_tokens=64_000,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Gpt:
    """`chat_tools`: why function tools are refused on chat completions, "" = they are taken. `freeform`: custom tools
    are taken.
    """

    pattern: str
    efforts: tuple[str, ...]
    chat_tools: str = ""
    sampling: bool = False
    freeform: bool = True


_WITHOUT_NONE: Final = (
    "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
    "To use function tools, use /v1/responses."
)
_WITH_NONE: Final = (
    "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)
GPTS: Final = (
    Gpt(pattern=r"gpt-6(\.\d+)?-astra|gpt-6\.[12]-sol|gpt-5\.6-cyber", efforts=_FIVE, chat_tools=_WITHOUT_NONE),
    Gpt(pattern=r"gpt-(6|5\.6)", efforts=("none", *_FIVE), chat_tools=_WITH_NONE),
    Gpt(pattern=r"gpt-5\.[1-5]", efforts=("none", "low", "medium", "high", "xhigh")),
    Gpt(pattern=r"gpt-5|o\d", efforts=("minimal", "low", "medium", "high")),
    Gpt(pattern=r"gpt-(3|4)", efforts=(), sampling=True, freeform=False),
)


def claude_of(model: str) -> Claude | None:
    """None: a model that no rule is known of."""
    return next((claude for claude in CLAUDES if re.match(claude.pattern, model)), None)


def gpt_of(model: str) -> Gpt | None:
    """None: a model that no rule is known of, such as one of another maker."""
    return next((gpt for gpt in GPTS if re.match(gpt.pattern, model)), None)


def listed(model: str) -> dict[str, Any]:
    """The model as `GET /v1/models/{id}` tells it."""
    claude = claude_of(model)
    if claude is None:
        return {"id": model, "object": "model", "created": 1, "owned_by": "somebody"}
    line = next((family for family in ("haiku", "sonnet", "opus", "fable", "mythos") if family in model), None)
    return {
        "id": model,
        "type": "model",
        "display_name": model.replace("-", " ").title(),
        "created_at": "2026-09-01T00:00:00Z",
        "lifecycle": "active",
        "line": line,
        "max_input_tokens": claude.max_input_tokens,
        "max_tokens": claude.max_tokens,
        "capabilities": _capabilities(claude),
    }


def _capabilities(claude: Claude) -> dict[str, Any]:
    efforts = {name: _has(name in claude.efforts) for name in _FIVE}
    types = {name: _has(name in claude.thinking) for name in ("adaptive", "between_tools", "disabled", "enabled")}
    tools = {"supported": True, "code_execution": _has(True), "web_search": _has(True)}
    return {
        "batch": _has(True),
        "citations": _has(True),
        "code_execution": _has(True),
        "context_management": {"supported": True, "clear_thinking_20251015": _has(True)},
        "effort": {"supported": bool(claude.efforts), **efforts},
        "image_input": _has(True),
        "pdf_input": _has(True),
        "server_tools": tools,
        "structured_outputs": _has(True),
        "thinking": {"supported": True, "types": types},
    }


def _has(supported: bool) -> dict[str, bool]:
    return {"supported": supported}
