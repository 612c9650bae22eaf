"""Why a service refuses a request, in its own words and its own shape."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """`param` and `code` are told by OpenAI only."""

    message: str
    status: int = 400
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None

    def body(self, *, anthropic: bool) -> str:
        if anthropic:
            error = {"type": self.type, "message": self.message}
            return json.dumps({"type": "error", "error": error, "request_id": "req_1"})
        error_of_openai = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": error_of_openai})
