"""The values that options and settings may have. Nothing slow is imported: they are needed before the first frame."""

from __future__ import annotations

from typing import Final, Literal, get_args

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ServiceTier = Literal["fast", "flex", "2h", "8h"]
TierChoice = Literal["", "standard", ServiceTier]
HangupRule = Literal["ssh", "always", "never"]
ColorChoice = Literal["auto", "truecolor", "256", "16", "none"]
GlyphChoice = Literal["auto", "unicode", "ascii"]
PromptKeys = Literal["default", "vim"]
OutputFormat = Literal["text", "json", "stream-json"]
ContainerChoice = Literal["container", "in-place"]
CONTAINER_CHOICES: Final[tuple[ContainerChoice, ...]] = get_args(ContainerChoice)
SandboxChoice = Literal["auto", ContainerChoice]
