"""A remote server that wants a login, with its issuer: the SDK's server side, as strict as the real ones.

Refresh tokens are rotated, and one that is used again ends the whole login; a token is for one resource alone.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.support.mcp_http import add_tools


class Issuer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """`seconds`: that a token lives; `refuses`: what the user says to a login; `refreshed` and `logins` count."""

    def __init__(self, *, seconds: int = 3600, refuses: bool = False) -> None:
        self.seconds, self.refuses = seconds, refuses
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.spent: set[str] = set()
        self.refreshed = self.logins = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        where = str(params.redirect_uri)
        if self.refuses:
            return construct_redirect_uri(where, error="access_denied", error_description="not you", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or ["use"],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(where, code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        if self.codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant", "this code was used before")
        self.logins += 1
        return self._issue(authorization_code)

    def _issue(self, granted: AuthorizationCode | RefreshToken) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(12)}", f"refresh-{secrets.token_hex(12)}"
        about: dict[str, Any] = {"client_id": granted.client_id, "scopes": granted.scopes, "resource": granted.resource}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + 3600, **about)
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.seconds, scope=" ".join(granted.scopes)
        )

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.spent:  # somebody stole it: nobody has this login any more
            self.access.clear()
            self.refresh.clear()
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        self.spent.add(refresh_token.token)
        del self.refresh[refresh_token.token]
        self.refreshed += 1
        return self._issue(refresh_token)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def build_server(self, url: str) -> MCPServer:
        """Build the server that takes the tokens of this issuer. `url`: its own."""
        base = url.rpartition("/")[0]
        settings: dict[str, Any] = {"issuer_url": base, "resource_server_url": url, "required_scopes": ["use"]}
        registration = ClientRegistrationOptions(enabled=True, valid_scopes=["use"], default_scopes=["use"])
        auth = AuthSettings(client_registration_options=registration, validate_token_resource=True, **settings)
        return add_tools(MCPServer("guarded", auth_server_provider=self, auth=auth))
