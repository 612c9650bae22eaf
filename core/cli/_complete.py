"""`agent-tui _complete KIND [PREFIX]`: completion candidates that only this machine knows, one a line.

A shell runs it at every press of Tab. So it reads only small files (session summaries, the configuration, the caches of
models), starts nothing and reports no errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from core.arguments import Arguments, Front
from core.cli.completion import FIRST_WORDS
from core.cli.parsing import MODES
from core.exits import ExitCode
from core.providers.catalog.presets import KNOWN
from core.records import parse_json, parse_toml
from core.user_dirs import get_cache_dir, get_config_dir

MAX_CANDIDATES: Final = 200
MAX_BYTES: Final = 1_000_000  # of a file that is read


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateArguments(Arguments):
    front: ClassVar[Front] = "_complete"
    kind: str
    prefix: str = ""


def parse(argv: Sequence[str]) -> CandidateArguments:
    """Accept any words: a shell can't show an error message."""
    return CandidateArguments(directory=Path(), kind="".join(argv[:1]), prefix="".join(argv[1:2]))


def run(arguments: CandidateArguments) -> int:
    """Print the candidates."""
    candidates: dict[str, None] = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for candidate in _list_candidates(arguments.kind):
            if candidate.startswith(arguments.prefix) and candidate.isprintable() and " " not in candidate:
                candidates[candidate] = None
            if len(candidates) == MAX_CANDIDATES:
                break
    sys.stdout.write("".join(f"{candidate}\n" for candidate in candidates))
    return ExitCode.DONE


def _list_candidates(kind: str) -> Iterator[str]:
    yield from FIRST_WORDS.get(kind, ())
    if kind in {"attach", "sessions", "session_ids"}:
        yield from (summary["id"] for summary in _load_summaries())
    elif kind == "models":
        yield from _list_models()
    elif kind == "modes":
        yield from MODES
    elif kind == "mcp":
        yield from _list_servers()


def _load_summaries() -> list[dict[str, Any]]:
    """Load the summaries of the sessions in this directory, the most recently used first."""
    from core.sessions.store import SessionStore

    summaries: list[dict[str, Any]] = []
    for directory in SessionStore(Path()).list_directories()[:MAX_CANDIDATES]:
        with suppress(OSError, ValueError, KeyError):
            summaries.append(_load_json(directory / "summary.json")["info"])
    return summaries


def _load_json(path: Path) -> Any:
    with path.open("rb") as file:
        return parse_json(file.read(MAX_BYTES))


def _load_config() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return parse_toml((get_config_dir() / "config.toml").read_text(encoding="utf-8"))
    return {}


def _list_models() -> Iterator[str]:
    """List the models that were used here, are configured, are suggested, or were listed by endpoints."""
    config = _load_config()
    yield from (summary["model"] for summary in _load_summaries() if summary.get("model"))
    yield from (str(config[key]) for key in ("model", "small_model", "apply_model") if config.get(key))
    yield from config.get("models", {})
    providers = {name: preset.base_url for name, preset in KNOWN.items()}
    providers |= {name: str(provider.get("base_url", "")) for name, provider in config.get("providers", {}).items()}
    for name, preset in KNOWN.items():
        yield from (f"{name}/{model}" for model in preset.suggested)
    for file in sorted((get_cache_dir() / "models").glob("*.json")):
        with suppress(OSError, ValueError):
            listing = _load_json(file)
            names = [name for name, address in providers.items() if address and listing["origin"].startswith(address)]
            yield from (f"{name}/{model}" for name in names for model in listing["models"])


def _list_servers() -> Iterator[str]:
    """List the MCP servers in the files of the user and the project."""
    for file in (get_config_dir() / "mcp.json", Path(".mcp.json"), Path(".cursor/mcp.json")):
        with suppress(OSError, ValueError):
            yield from _load_json(file)["mcpServers"]
