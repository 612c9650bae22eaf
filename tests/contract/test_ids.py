"""An id in a record is one name: a record with another one is refused where it is decoded, whatever its field."""

from __future__ import annotations

import ast

import msgspec
import pytest

from core.ids import DraftName, Id, OptionalId
from core.protocol.commands import AnyCommand
from core.protocol.events import Envelope
from core.protocol.queries import AnyQuery
from core.records import convert, decode_json
from tests.contract.source_tree import ROOT, modules

HOSTILE = (
    *("../x", "..", ".", "/etc/x", "a/b", "a\\b", "~", "~root", "a\n", "\n", "a\0b", ".ssh", "-rf", "a ", " a", "a."),
    *("x" * 300, "CON", "nul.txt", "com1", "C:x", "a:b", "é", "a\u202eb", "%2e%2e"),
)
NAMES = {
    *("id", "ids", "session", "turn", "checkpoint", "candidate_of", "layers", "blob", "digest"),
    *("document", "steers", "void_documents", "attachments", "forked_from", "temporary"),
}
# Calls are numbered by models and hosted agents, in any words (`core/shell/long_output.py` names a file after one); a
# `subagent` is a title.
# What no path is made of: a model or another program chose it, and older sessions hold such.
TEXTS = {
    *("Todo.id", "TodoSet.id", "TodoStatusUpdate.id", "TodoVerified.id"),
    *("Option.id", "Question.id", "Hypothesis.id", "Probe.id", "ProbeRemoved.ids", "ToolCall.id", "PlanComment.id"),
    *("HookRan.id", "HookRow.id", "ModelChoice.id", "ProviderStatus.id", "JobInfo.id", "ContextPart.id"),
    # Compared with a digest of ours, and nothing else.
    *("ServerControl.digest", "GoalChecked.digest", "ServerRow.digest", "ApprovalRequested.digest", "SavedRule.digest"),
    # Made here and never decoded.
    *("AcceptedEdit.id", "AcceptedEdit.turn", "CommandLayer.id"),
}
PACKAGES = ("protocol", "background", "shadow", "permissions", "sessions")
CHECKED = {"Id", "OptionalId", "DraftName", "tuple[Id, ...]"}


def list_fields() -> dict[str, str]:
    """The annotation of each field that holds ids as texts, by its record and name."""
    fields = {}
    for path in (path for package in PACKAGES for path in (ROOT / "core" / package).rglob("*.py")):
        for record in ast.walk(ast.parse(path.read_text("utf-8"))):
            for field in record.body if isinstance(record, ast.ClassDef) and record.keywords else ():
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    kind = ast.unparse(field.annotation)
                    if field.target.id in NAMES and (kind in CHECKED or "str" in kind):
                        fields[f"{record.name}.{field.target.id}"] = kind
    return fields


def test_n36_every_id_of_every_record_is_of_a_checked_type_or_is_a_text_that_names_no_file():
    fields = list_fields()
    assert len(fields) > 80
    assert {name for name, kind in fields.items() if kind not in CHECKED} == TEXTS


@pytest.mark.parametrize("kind", [Id, OptionalId, DraftName, tuple[Id, ...]], ids=str)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_n36_no_record_takes_a_hostile_id(text, kind):
    if kind is DraftName and text == ".ssh":
        return
    value = [text] if kind not in {Id, OptionalId, DraftName} else text
    with pytest.raises(msgspec.ValidationError):
        convert(value, kind)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_n36_commands_queries_and_events_refuse_it_in_words(text):
    for kind, record in (
        (AnyCommand, {"type": "checkpoint.restore", "id": text}),
        (AnyQuery, {"type": "export", "session": text}),
        (Envelope, {"seq": 1, "session": "ses_1", "at": 1, "event": {"type": "layers.changed", "layers": [text]}}),
        (Envelope, {"seq": 1, "session": text, "at": 1, "event": {"type": "session.closed"}}),
    ):
        with pytest.raises(msgspec.ValidationError, match=r"`str` that is an id: letters, digits"):
            decode_json(msgspec.json.encode(record), kind)


def test_n36_an_id_of_ours_is_taken():
    assert [convert(identifier, Id) for identifier in ("ses_0h2k3m4n5p6q7r8s", "a" * 64, "com10", "console", "h1.2-x")]
    assert convert("", OptionalId) == ""
    with pytest.raises(msgspec.ValidationError):
        convert("", Id)


def test_n36_the_directory_of_a_session_is_asked_of_the_store_which_checks_its_id():
    joined = [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in modules("core")
        if module.path.name != "store.py"
        for node in module.nodes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if isinstance(node.left, ast.Attribute) and node.left.attr in {"sessions_path", "subagents_path"}
    ]
    assert joined == []
