"""Side questions (`/btw`) as a screen shows them: the answer so far, then the whole one with its cost."""

from __future__ import annotations

from dataclasses import dataclass

from core.protocol.events import AsideAnswered
from core.text.display_names import shorten_model


@dataclass(slots=True)
class AsideState:
    """A side question. `text`: the answer as far as it is known; `answered` None = it is being answered."""

    question: str = ""
    text: str = ""
    answered: AsideAnswered | None = None


def describe_cost(event: AsideAnswered) -> str:
    """Describe in one line which model answered and at what cost, "" = none was asked."""
    usage = event.usage
    if not usage.prompt_tokens and not usage.completion_tokens and usage.cost is None:
        return ""
    share = min(usage.cached_tokens / usage.prompt_tokens, 1.0) if usage.prompt_tokens else 0.0
    cached = f" ({share:.0%} from the cache)" if usage.cached_tokens else ""
    cost = "price unknown" if usage.cost is None else f"{'~' if usage.estimated else ''}${usage.cost:.4f}"
    tokens = f"{usage.prompt_tokens:,} tokens in{cached}, {usage.completion_tokens:,} out"
    return f"{shorten_model(event.model)} · {tokens} · {cost}"
