"""Answers to requests that can't be carried out: a status, a code, a sentence, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, NotAuthorizedException

from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError
from core.protocol.client import EngineGone
from core.transports.http.access import HttpRefused
from core.transports.http.guard import encode_problem

# Codes of the engine that are no plain 400: what is named is not there (404), or is in another state by now (409).
STATUSES: Final[Mapping[str, int]] = {
    "session_unknown": 404,
    "approval_unknown": 404,
    "question_unknown": 404,
    "hunk_unknown": 404,
    "change_unknown": 404,
    "checkpoint_unknown": 404,
    "plan_unknown": 404,
    "agent_unknown": 404,
    "already_answered": 409,
    "turn_running": 409,
    "no_turn": 409,
    "session_in_use": 409,
    "review_conflict": 409,
    "state_unusable": 409,
    "session_exists": 409,
    "agent_runs": 409,
    "nothing_to_pull": 409,
    "store_unavailable": 503,
    "closing": 503,
    "internal": 500,
}


def build_problem(status: int, code: str, message: str, hint: str = "") -> Response[bytes]:
    """Return the answer that says what was wrong."""
    return Response(encode_problem(code, message, hint), status_code=status, media_type=MediaType.JSON)


def answer_refusal(_: Request[Any, Any, Any], problem: AgentTuiError) -> Response[bytes]:
    """Answer an error that was raised on purpose."""
    status = problem.status if isinstance(problem, HttpRefused) else STATUSES.get(problem.code, 400)
    return build_problem(status, problem.code, problem.message, problem.hint)


def answer_http(_: Request[Any, Any, Any], problem: HTTPException) -> Response[bytes]:
    """Answer what litestar refuses: no such route, a body that does not fit its records."""
    names = {
        400: "request_invalid",
        404: "route_unknown",
        405: "method_refused",
        NotAuthorizedException.status_code: "no",
    }
    code = names.get(problem.status_code, "request_refused" if problem.status_code < 500 else "internal")
    return build_problem(problem.status_code, code, _describe(problem), "")


def _describe(problem: HTTPException) -> str:
    errors = problem.extra if isinstance(problem.extra, list) else []
    fields = [f"{error.get('key') or 'body'}: {error.get('message')}" for error in errors if isinstance(error, dict)]
    cause = problem.__cause__ or problem.__context__
    if not fields and problem.status_code == 400 and cause is not None:
        return str(cause)
    return "; ".join(fields) or problem.detail


def answer_gone(_: Request[Any, Any, Any], problem: EngineGone) -> Response[bytes]:
    """Answer for an engine that has ended."""
    return build_problem(503, "engine_gone", str(problem))


def answer_fault(_: Request[Any, Any, Any], problem: Exception) -> Response[bytes]:
    """Answer a fault of ours: it is kept, and named."""
    report = describe_crash_report(save_crash_report(problem, "the server"))
    return build_problem(500, "internal", f"unexpected fault: {type(problem).__name__}.", report)


def answer_undecodable(_: Request[Any, Any, Any], problem: Exception) -> Response[bytes]:
    """Answer a body that is no UTF-8, or nests too deep."""
    return build_problem(400, "request_invalid", f"the body can't be read: {problem}.")


ANSWERS: Final[Mapping[Any, Callable[..., Response[bytes]]]] = {
    AgentTuiError: answer_refusal,
    HTTPException: answer_http,
    EngineGone: answer_gone,
    UnicodeDecodeError: answer_undecodable,
    RecursionError: answer_undecodable,
    Exception: answer_fault,
}
