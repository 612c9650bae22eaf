"""Convert a checked command line to the options of an engine."""

from __future__ import annotations

from core.cli.arguments import Options
from core.engine import EngineOptions


def build_engine_options(options: Options, *, interactive: bool = True, watch: bool = True) -> EngineOptions:
    return EngineOptions(
        mode=options.mode,
        model=options.model,
        effort=options.effort,
        max_steps=options.max_steps,
        max_cost=options.max_cost,
        max_tokens=options.max_tokens,
        interactive=interactive,
        watch=watch,
        trust=options.trust,
        private=options.private,
    )
