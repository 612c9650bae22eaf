from __future__ import annotations

import json
import subprocess
from pathlib import Path

from msgspec.structs import replace

from core.engine.export.documents import export_session, write_export
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage
from core.protocol.review import Bulk, Change, FileState, Hunk, VerdictRecord
from core.sessions.record_format import encode_record
from core.shadow.content.blob_store import BlobStore

FIRST, SECOND, THIRD = b"one\ntwo\n", b"ONE\ntwo\n", b"ONE\nTWO\n"
ABSENT = FileState(kind="absent")


def hunk(name: str) -> Hunk:
    return Hunk(id=name, old_start=1, old_lines=1, new_start=1, new_lines=1)


def state(directory: Path, data: bytes) -> FileState:
    (directory / "blobs").mkdir(parents=True, exist_ok=True)
    return FileState(blob=BlobStore(directory / "blobs").put(data), size=len(data))


def accepted(path: str, before: FileState, after: FileState) -> ev.VerdictGiven:
    record = VerdictRecord(
        id=f"v_{path}", path=path, verdict="accept", hunks=(hunk("h"),),
        base_before=before, base_after=after, pending_before=after, pending_after=after,
    )  # fmt: skip
    return ev.VerdictGiven(verdict=record)


def pending(path: str, base: FileState, after: FileState) -> ev.ChangeProposed:
    return ev.ChangeProposed(change=Change(path=path, operation="edit", base=base, pending=after, hunks=(hunk("h"),)))


def write_log(directory: Path, workspace: Path, *events: ev.AnyEvent) -> Path:
    (directory / "blobs").mkdir(parents=True, exist_ok=True)
    workspace.mkdir(exist_ok=True)
    call = ToolCall(id="c1", name="run_terminal_cmd", arguments='{"command": "ls"}')
    look = ToolCall(id="c2", name="read_file", arguments='{"target_file":"a"}')
    usage = Usage(prompt_tokens=10, completion_tokens=2, cached_tokens=4, cost=0.25)
    all_events = (
        ev.SessionStarted(workspace=str(workspace), mode="agent", model="m/one", title="T"),
        ev.TurnStarted(prompt="Go", mode="agent", model="m/one"),
        ev.MessageAppended(message=UserMessage(content="Go")),
        ev.MessageAppended(message=AssistantMessage(content="Look.", tool_calls=(call, look), model="m/one")),
        ev.StepFinished(step=1, usage=usage),
        ev.MessageAppended(message=ToolMessage(call_id="c1", content="a", is_error=True)),
        *events,
        ev.TurnFinished(reason="limit", steps=1, usage=usage),
    )
    with (directory / "log.jsonl").open("wb") as file:
        for seq, event in enumerate(all_events, 1):
            file.write(encode_record(ev.Envelope(seq=seq, session=directory.name, at=seq * 1000, event=event)))
    return directory


def read_patch(directory: Path, instance: str = "") -> dict:
    (prediction,) = json.loads(export_session(directory, "preds", instance=instance).text).values()
    return prediction


def test_a_prediction_has_what_was_accepted_and_what_is_pending_on_top_of_it(tmp_path):
    directory, workspace = tmp_path / "ses_a", tmp_path / "shop"
    first, second, third = (state(directory, data) for data in (FIRST, SECOND, THIRD))
    events = (
        accepted("a.txt", first, second),
        pending("a.txt", second, third),
        pending("new.txt", ABSENT, first),
        accepted("old.txt", first, ABSENT),
    )
    prediction = read_patch(write_log(directory, workspace, *events))
    assert (prediction["instance_id"], prediction["model_name_or_path"]) == ("shop", "m/one")
    for name in ("a.txt", "old.txt"):
        (workspace / name).write_bytes(FIRST)
    subprocess.run(["git", "apply"], cwd=workspace, input=prediction["model_patch"].encode(), check=True)
    assert {path.name: path.read_bytes() for path in workspace.iterdir()} == {"a.txt": THIRD, "new.txt": FIRST}


def test_edits_of_the_user_between_two_verdicts_are_no_part_of_it(tmp_path):
    directory = tmp_path / "ses_a"
    first, second = state(directory, b"one\ntwo\nthree\nfour\n"), state(directory, b"ONE\ntwo\nthree\nfour\n")
    mine = state(directory, b"ONE\ntwo\nthree\nmine\n")
    last = state(directory, b"1\ntwo\nthree\nmine\n")
    again = accepted("a.txt", mine, last)
    events = (accepted("a.txt", first, second), ev.VerdictGiven(verdict=replace(again.verdict, id="v2")))
    patch = read_patch(write_log(directory, tmp_path / "shop", *events))["model_patch"]
    assert "+1\n" in patch
    assert "mine" not in patch


def test_what_commands_wrote_in_place_is_part_of_it_in_its_turn(tmp_path):
    directory = tmp_path / "ses_a"
    first, second, third = (state(directory, data) for data in (FIRST, SECOND, THIRD))
    effects = ev.EffectsRecorded(
        call="c1", command="sed", created=("b.txt", "__pycache__/a.pyc"), edited=("a.txt",), in_place=True
    )
    fourth = state(directory, b"ONE\nTWO\n3\n")
    last = ev.VerdictGiven(verdict=replace(accepted("a.txt", third, fourth).verdict, id="v2"))
    events = (
        accepted("a.txt", first, second),
        effects,
        ev.FileWritten(path="a.txt", state=third, before=second),
        ev.FileWritten(path="b.txt", state=first, before=ABSENT),
        ev.FileWritten(path="__pycache__/a.pyc", state=first, before=ABSENT),
        last,
        ev.FileWritten(path="a.txt", state=fourth, before=third),
    )
    workspace = tmp_path / "shop"
    patch = read_patch(write_log(directory, workspace, *events))["model_patch"]
    (workspace / "a.txt").write_bytes(FIRST)
    subprocess.run(["git", "apply"], cwd=workspace, input=patch.encode(), check=True)
    contents = {path.name: path.read_bytes() for path in workspace.iterdir()}
    assert contents == {"a.txt": b"ONE\nTWO\n3\n", "b.txt": FIRST}


def test_the_id_of_the_task_can_be_given_and_what_is_missing_is_said(tmp_path):
    directory = tmp_path / "ses_a"
    bulk = Bulk(root=".git", kind="git", files=3, bytes=9)
    lost = pending("lost.txt", FileState(blob="0" * 64, size=3), ABSENT)
    write_log(directory, tmp_path / "shop", lost, ev.LayersChanged(layers=(), bulks=(bulk,)))
    answer = export_session(directory, "preds", instance="shop__1")
    assert json.loads(answer.text)["shop__1"]["model_patch"] == ""
    assert [note.split(" (")[0] for note in answer.notes] == ["left out  lost.txt", "left out  .git"]


def test_the_file_of_mini_swe_agent_has_messages_and_the_patch_at_its_end(tmp_path):
    directory = tmp_path / "ses_a"
    change = pending("a.txt", state(directory, FIRST), state(directory, SECOND))
    write_log(directory, tmp_path / "shop", change)
    written = json.loads(export_session(directory, "mini", instance="shop__1").text)
    assert (written["trajectory_format"], written["instance_id"]) == ("mini-swe-agent-1.1", "shop__1")
    info = written["info"]
    assert info["model_stats"] == {"instance_cost": 0.25, "api_calls": 1}
    assert (info["config"]["model"]["model_name"], info["exit_status"]) == ("m/one", "LimitsExceeded")
    user, answer, result, end = written["messages"]
    assert (user["role"], user["content"]) == ("user", "Go")
    assert [listed["function"]["name"] for listed in answer["tool_calls"]] == ["run_terminal_cmd", "read_file"]
    actions = [action["command"] for action in answer["extra"]["actions"]]
    assert actions == ["ls", 'read_file {"target_file":"a"}']
    assert answer["extra"]["response"]["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    assert (result["role"], result["tool_call_id"], result["extra"]["returncode"]) == ("tool", "c1", 1)
    assert (end["role"], end["content"]) == ("exit", info["submission"])
    assert "+ONE" in info["submission"]


def test_a_file_is_replaced_only_if_that_is_wanted(tmp_path):
    answer = export_session(write_log(tmp_path / "ses_a", tmp_path / "shop"), "atif")
    assert answer.name == "t.atif.json"
    target = tmp_path / "t.json"
    target.write_text("old")
    write_export(answer, target, replace=True)
    assert json.loads(target.read_text())["schema_version"] == "ATIF-v1.8"
