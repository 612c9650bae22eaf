"""Approvals and questions that are put to the user through the editor.

A request that was closed, that the editor never showed, or that took too long has no answer: it is recorded as the
program's, and the model learns that nobody answered. Only a choice counts as the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.acp.agent_methods import ClientCapabilities
from core.acp.client_methods import (
    CreateElicitationRequest,
    CreateElicitationResponse,
    ElicitationSchema,
    EnumOption,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from core.acp.connection import AcpError, Connection, PeerGone
from core.acp.content import ToolCallUpdate
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import Question, QuestionAnswer
from core.records import convert
from core.transports.acp.tool_calls import ShownCall, build_text

TOO_LATE: Final = "Your answer to “{}” came too late; it had no effect."
NOBODY: Final = "Nobody answered in the editor: that is not a refusal by the user."
_OPTIONS: Final[dict[str, tuple[str, PermissionOptionKind]]] = {
    "allow_once": ("Allow once", "allow_once"),
    "allow_session": ("Allow in this session", "allow_always"),
    "allow_always": ("Always allow", "allow_always"),
    "run_on_machine": ("Run unsandboxed", "allow_once"),
    "reject_once": ("Reject", "reject_once"),
    "reject_always": ("Never allow", "reject_always"),
}
# Of a command that asks to leave the sandbox: a yes without "run_on_machine" is one to the sandbox.
_MACHINE_OPTIONS: Final = _OPTIONS | {
    "allow_once": ("Run sandboxed", "allow_once"),
    "allow_always": ("Always run unsandboxed", "allow_always"),
}
_KINDS: Final = {"command": "execute", "machine": "execute", "network": "fetch", "host": "fetch", "mode": "switch_mode"}
_OWN: Final = "__own"  # suffix of the field for a free answer in a form


class ClientAsker(Struct, eq=False):
    """Sends requests to one client. `seconds`: the time limit of every answer; `show_text`: shows a line to the
    user."""

    peer: Connection
    capabilities: ClientCapabilities
    session: str
    seconds: float
    show_text: Callable[[str], None]

    async def choose(
        self,
        call: ToolCallUpdate,
        options: Sequence[PermissionOption],
        *,
        on_late: Callable[[str], None] | None = None,
    ) -> str:
        """Return the id of the chosen option, "" = none was chosen. Raises `CancelledError`. A late choice goes to
        `on_late`; without that the user learns that it came too late."""
        request = RequestPermissionRequest(session_id=self.session, tool_call=call, options=tuple(options))
        report_late = on_late or (lambda _: self.show_text(TOO_LATE.format(call.title or "that")))

        def handle_late(response: Any) -> None:
            if choice := _read_choice(response, options):
                report_late(choice)

        try:
            return _read_choice(
                await self.peer.request(
                    "session/request_permission", request, seconds=self.seconds, on_late=handle_late
                ),
                options,
            )
        except (AcpError, PeerGone, TimeoutError):
            return ""

    async def approve(self, request: ev.ApprovalRequested, call: ShownCall | None) -> cmd.ApprovalAnswer:
        """Return the answer to an approval. Raises `CancelledError`."""
        labels = _MACHINE_OPTIONS if request.kind == "machine" else _OPTIONS
        options = [
            PermissionOption(option_id=option, name=labels[option][0], kind=labels[option][1])
            for option in request.options
        ]
        choice = await self.choose(_build_approval(request, call), options)
        if not choice:
            return cmd.ApprovalAnswer(
                session=self.session, id=request.id, decision="reject_once", note=NOBODY, by="program"
            )
        decision = convert(choice, ev.ApprovalDecision)
        return cmd.ApprovalAnswer(session=self.session, id=request.id, decision=decision)

    async def ask(self, event: ev.QuestionAsked, call: ShownCall | None) -> cmd.QuestionReply:
        """Return the answer to a question. Raises `CancelledError`."""
        elicitation = self.capabilities.elicitation
        if elicitation is not None and elicitation.form is not None:
            answers = await self._ask_by_form(event)
        else:
            answers = await self._ask_one_by_one(event, call)
        if answers is None:
            return cmd.QuestionReply(session=self.session, id=event.id, by="program")
        return cmd.QuestionReply(session=self.session, id=event.id, answers=answers)

    async def _ask_by_form(self, event: ev.QuestionAsked) -> tuple[QuestionAnswer, ...] | None:
        request = CreateElicitationRequest(
            message=event.title or "\n\n".join(question.text for question in event.questions),
            session_id=self.session,
            tool_call_id=event.call or None,
            requested_schema=ElicitationSchema(properties=dict(_iterate_properties(event.questions))),
        )
        try:
            response = await self.peer.request(
                "elicitation/create",
                request,
                seconds=self.seconds,
                on_late=partial(self._report_late_answer, request.message),
            )
            answer = convert(response, CreateElicitationResponse)
        except (AcpError, PeerGone, TimeoutError, msgspec.ValidationError):
            return None
        if answer.action == "decline":
            return ()
        return _read_form(event.questions, answer.content or {}) if answer.action == "accept" else None

    def _report_late_answer(self, message: str, response: Any) -> None:
        if isinstance(response, dict) and response.get("action") == "accept":
            self.show_text(TOO_LATE.format(message))

    async def _ask_one_by_one(
        self, event: ev.QuestionAsked, call: ShownCall | None
    ) -> tuple[QuestionAnswer, ...] | None:
        answers = list[QuestionAnswer]()
        for question in event.questions:
            options = [
                PermissionOption(option_id=option.id, name=option.label, kind="allow_once")
                for option in question.options
            ]
            options.append(PermissionOption(option_id=_OWN, name="None of these", kind="reject_once"))
            tool_call_update = ToolCallUpdate(
                tool_call_id=event.call or event.id,
                kind="other",
                status="pending",
                title=question.text,
                name=call.name if call is not None else None,
                content=(build_text("\n\n".join(filter(None, (event.title, question.text)))),),
                raw_input=call.raw_input if call is not None else {"question": question.text},
            )
            if not (choice := await self.choose(tool_call_update, options)):
                return None
            if choice != _OWN:
                answers.append(QuestionAnswer(question=question.id, options=(choice,)))
        return tuple(answers)


def _read_choice(response: Any, options: Sequence[PermissionOption]) -> str:
    """Return the id of the option that a response chose, "" = none of them."""
    try:
        outcome = convert(response, RequestPermissionResponse).outcome
    except msgspec.ValidationError:
        return ""
    option_id = outcome.option_id if isinstance(outcome, SelectedPermissionOutcome) else ""
    return option_id if option_id in {option.option_id for option in options} else ""


def _build_approval(request: ev.ApprovalRequested, call: ShownCall | None) -> ToolCallUpdate:
    """Build the complete state of the call to approve: what will run, where, the reason, and the rights that it
    gets."""
    details = (
        ("Directory", request.directory if request.directory != "." else ""),
        ("Why", request.reason),
        ("Contained by", request.containment),
        ("The model says", request.explanation),
        ("Reaches", ", ".join(request.network)),
        ("Asks for", ", ".join(request.permissions)),
        ("Variables", ", ".join(request.environment)),
    )
    mark = "$ " if request.kind in {"command", "machine"} else ""
    text = "\n".join((f"{mark}{request.subject}", *(f"{name}: {detail}" for name, detail in details if detail)))
    raw = call.raw_input if call is not None else {"subject": request.subject}
    return ToolCallUpdate(
        tool_call_id=request.call or request.id,
        kind=convert(_KINDS.get(request.kind, call.kind if call is not None else "other"), Any),
        status="pending",
        title=_build_title(request),
        name=call.name if call is not None else None,
        content=(*(call.diffs.values() if call is not None else ()), build_text(text)),
        locations=(call.locations or None) if call is not None else None,
        raw_input=raw,
    )


def _build_title(request: ev.ApprovalRequested) -> str:
    heads = {"mode": "Switch to the mode", "network": "Let it reach", "host": "Reach", "machine": "Unsandboxed:"}
    return " ".join(f"{heads.get(request.kind, '')} {request.subject}".split())[:300]


def _iterate_properties(questions: Iterable[Question]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the properties of a form: the options of every question, and a field for a free answer."""
    for question in questions:
        labels = {"title": question.header or question.text, "description": question.text}
        options = [EnumOption(value=option.id, title=option.label).to_schema() for option in question.options]
        if options and question.allow_multiple:
            yield question.id, {"type": "array", **labels, "items": {"anyOf": options}}
        elif options:
            recommended_id = next((option.id for option in question.options if option.recommended), None)
            default = {"default": recommended_id} if recommended_id is not None else {}
            yield question.id, {"type": "string", **labels, "oneOf": options, **default}
        text_labels = labels if not options else {"title": "In your own words", "description": question.text}
        yield f"{question.id}{_OWN}", {"type": "string", **text_labels}


def _read_form(questions: Iterable[Question], content: Mapping[str, Any]) -> tuple[QuestionAnswer, ...]:
    """Return the answers of a form; empty fields are no answers."""
    answers = list[QuestionAnswer]()
    for question in questions:
        value, own_words = content.get(question.id), content.get(f"{question.id}{_OWN}")
        choices = value if isinstance(value, list) else [value]
        option_ids = [option.id for option in question.options if option.id in choices]
        text = own_words.strip() if isinstance(own_words, str) else ""
        if option_ids or text:
            answers.append(QuestionAnswer(question=question.id, options=tuple(option_ids), text=text))
    return tuple(answers)
