"""Convert a checked command line to the options of an engine."""

from __future__ import annotations

from core.cli.arguments import SessionArguments
from core.engine import EngineOptions


def build_engine_options(arguments: SessionArguments, *, interactive: bool = True, watch: bool = True) -> EngineOptions:
    return EngineOptions(
        mode=arguments.mode,
        model=arguments.model,
        effort=arguments.effort,
        max_steps=arguments.max_steps,
        max_cost=arguments.max_cost,
        max_tokens=arguments.max_tokens,
        interactive=interactive,
        watch=watch,
        trust=arguments.trust,
        private=arguments.private,
    )
