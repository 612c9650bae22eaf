"""Logins of an ACP client: the login methods, the check for a model, and stored keys.

They concern the user's configuration and keys, whatever project an editor opens afterwards.
"""

from __future__ import annotations

import asyncio
from typing import Final

from core.acp.agent_methods import AuthMethodAgent, AuthMethodTerminal
from core.acp.connection import AUTH_REQUIRED, INVALID_PARAMS, AcpError
from core.config.loading import load_settings
from core.protocol import commands as cmd
from core.protocol.models import ProviderStatus

SETUP: Final = "--setup"
_KEYS: Final = "OPENAI_API_KEY, ANTHROPIC_API_KEY or the variable in your configuration"


def list_methods(*, has_terminal: bool) -> tuple[AuthMethodAgent | AuthMethodTerminal, ...]:
    """List the login methods. `has_terminal`: the client can start our command in a terminal."""
    text = f"Set {_KEYS} where your editor starts agent-tui, or run agent-tui acp {SETUP} in a terminal."
    environment_method = AuthMethodAgent(id="environment", name="An existing key", description=text)
    if not has_terminal:
        return (environment_method,)
    text = "Choose a provider and paste a key, in a terminal."
    return (AuthMethodTerminal(id="setup", name="Set up a model", description=text, args=(SETUP,)), environment_method)


async def check_login(method: str) -> None:
    """Raise `AcpError` unless the login method exists and a model is set up."""
    if method not in {"environment", "setup"}:
        raise AcpError(f"there is no login method {method!r}", number=INVALID_PARAMS)
    from core.providers.discovery import discover_models

    answer = await discover_models(await asyncio.to_thread(load_settings), probe=False)
    if not answer.default:
        raise build_refusal(answer.reason)


def build_refusal(reason: str) -> AcpError:
    """Build the error of a request that needs a model when none is set up."""
    return AcpError(f"no model is set up: {reason or 'there is no key'}", number=AUTH_REQUIRED)


async def list_providers() -> tuple[ProviderStatus, ...]:
    """List the providers that can be set up, with the source of their keys."""
    from core.providers.discovery import discover_models

    return (await discover_models(await asyncio.to_thread(load_settings), probe=False)).providers


async def save_login(command: cmd.ProviderConfigure) -> None:
    """Save a key and a model. Raises `ConfigError`, `StateError`."""
    from core.engine.configuration.settings_file import save_provider

    await asyncio.to_thread(lambda: save_provider(command, load_settings()))


async def forget_keys() -> None:
    """Forget stored keys; those of the environment stay."""
    from core.providers.connection.keys import forget_stored_key

    for provider in await list_providers():
        await asyncio.to_thread(forget_stored_key, provider.id, base_url=provider.base_url)
