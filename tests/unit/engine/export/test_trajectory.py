from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from core.engine.export.documents import export_session
from core.errors import StateError
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, Attachment, ToolCall, ToolMessage, Usage, UserMessage
from core.protocol.review import Change, Check, FileState, Hunk, Origin, VerdictRecord
from core.sessions.record_format import encode_record
from core.shadow.content.blob_store import BlobStore
from tests.support.atif import list_faults

KEY = "sk-" + "a1b2c3d4" * 4
USAGE = Usage(prompt_tokens=100, completion_tokens=10, cached_tokens=40, reasoning_tokens=3, cost=0.5)


def write_log(directory: Path, *events: ev.AnyEvent) -> Path:
    (directory / "blobs").mkdir(parents=True, exist_ok=True)
    start = ev.SessionStarted(workspace="/work/shop", mode="agent", model="m/one", title="T")
    with (directory / "log.jsonl").open("wb") as file:
        for seq, event in enumerate((start, *events), 1):
            file.write(encode_record(ev.Envelope(seq=seq, session=directory.name, at=seq * 1000, event=event)))
    return directory


def read(directory: Path) -> dict:
    trajectory = json.loads(export_session(directory, "atif").text)
    assert list_faults(trajectory) == []
    return trajectory


def said(text: str, **fields) -> ev.MessageAppended:
    return ev.MessageAppended(message=UserMessage(content=text, **fields))


def answered(text: str, *calls: ToolCall, **fields) -> tuple[ev.AnyEvent, ...]:
    message = AssistantMessage(content=text, tool_calls=calls, model="m/one", **fields)
    return (
        ev.StepStarted(step=1),
        ev.MessageAppended(message=message),
        ev.StepFinished(step=1, usage=USAGE, model="m/one"),
    )


def returned(call: str, text: str, **fields) -> ev.MessageAppended:
    return ev.MessageAppended(message=ToolMessage(call_id=call, content=text, **fields))


TURN = ev.TurnStarted(prompt="Go", mode="agent", model="m/one")
END = ev.TurnFinished(reason="done", steps=1, usage=USAGE)


def call(name: str, arguments: str = "{}", tool: str = "read_file") -> ToolCall:
    return ToolCall(id=name, name=tool, arguments=arguments)


def test_an_answer_has_its_calls_their_results_and_its_usage(tmp_path):
    calls = (call("c1", '{"target_file": "a.py"}'), call("c2", "not json"))
    events = (
        TURN,
        said("Go"),
        said("Be brief.", origin="program"),
        *answered("Look.", *calls),
        ev.ToolFinished(call="c1", tool="read_file", status="completed", duration_ms=7),
        returned("c1", "1|x"),
        returned("c2", "wrong", is_error=True),
        END,
    )
    user, note, answer = read(write_log(tmp_path / "ses_a", *events))["steps"]
    assert (user["source"], user["message"]) == ("user", "Go")
    assert (note["source"], note["extra"]) == ("system", {"origin": "program"})
    assert [listed["arguments"] for listed in answer["tool_calls"]] == [{"target_file": "a.py"}, {"text": "not json"}]
    assert answer["tool_calls"][0]["extra"]["duration_ms"] == 7
    assert answer["tool_calls"][1]["extra"] == {"malformed": True}
    results = answer["observation"]["results"]
    assert [(result["source_call_id"], result["content"]) for result in results] == [("c1", "1|x"), ("c2", "wrong")]
    assert results[1]["extra"] == {"is_error": True}
    assert answer["metrics"] == {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cached_tokens": 40,
        "cost_usd": 0.5,
        "extra": {"reasoning_tokens": 3},
    }
    assert answer["llm_call_count"] == 1


def test_the_sum_counts_what_other_models_did_beside_the_answers(tmp_path):
    events = (TURN, said("Go"), *answered("Done."), ev.ModelUsed(job="apply", model="m/two", usage=USAGE), END)
    trajectory = read(write_log(tmp_path / "ses_a", *events))
    totals = trajectory["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_cached_tokens"], totals["total_cost_usd"]) == (200, 80, 1.0)
    assert set(totals["extra"]["usage_by_job_and_model"]) == {"chat m/one", "apply m/two"}
    assert totals["total_steps"] == len(trajectory["steps"]) == 2


def test_a_model_call_without_an_answer_is_a_step_that_was_paid_for(tmp_path):
    events = (TURN, said("Go"), ev.StepStarted(step=1), ev.StepFinished(step=1, usage=USAGE), END)
    step = read(write_log(tmp_path / "ses_a", *events))["steps"][-1]
    assert (step["source"], step["message"], step["metrics"]["prompt_tokens"]) == ("agent", "", 100)


def test_a_failed_turn_says_how_it_ended(tmp_path):
    failed = ev.TurnFinished(reason="failed", message="gone", steps=1)
    trajectory = read(write_log(tmp_path / "ses_a", TURN, said("Go"), *answered("Hm."), failed))
    (turn,) = trajectory["extra"]["turns"]
    assert (turn["stop_reason"], turn["stop_message"]) == ("failed", "gone")


def test_answers_that_were_rewound_are_left_out(tmp_path):
    mark = ev.CheckpointCreated(id="check_1", seq=3, prompt="Go")
    events = (
        TURN, said("Go"), mark, *answered("First."), END,
        ev.ConversationRewound(to_seq=3, checkpoint="check_1"), *answered("Second."), END,
    )  # fmt: skip
    steps = read(write_log(tmp_path / "ses_a", *events))["steps"]
    assert [step["message"] for step in steps] == ["Go", "Second."]


def test_a_compaction_is_a_step_and_a_copy_of_another_session_is_marked(tmp_path):
    short = UserMessage(content="We looked at a.py.", origin="program")
    events = (
        TURN, said("Go"), ev.SessionForked(source="ses_0"),
        ev.ContextCompacted(messages=(UserMessage(content="Go"), short), before_tokens=900, after_tokens=50),
        *answered("Done."), END,
    )  # fmt: skip
    first, compacted, last = read(write_log(tmp_path / "ses_a", *events))["steps"]
    assert first["is_copied_context"] is True
    assert "is_copied_context" not in last
    assert (compacted["source"], compacted["message"]) == ("system", "We looked at a.py.")
    assert compacted["extra"]["compaction"] == {"before_tokens": 900, "after_tokens": 50}


def test_attachments_are_named_and_keys_and_paths_are_masked(tmp_path):
    picture = Attachment(digest="d" * 64, media_type="image/png", name="a.png")
    text = f"{KEY} in /work/shop/a.py, not /work/shopping, {Path.home()}/x"
    events = (TURN, said(text, attachments=(picture,)), *answered("Hm."), END)
    written = read(write_log(tmp_path / "ses_a", *events))
    message = written["steps"][0]["message"]
    assert message == "[redacted] in ./a.py, not /work/shopping, ~/x"
    assert written["steps"][0]["extra"]["attachments"][0]["name"] == "a.png"


def test_subagents_are_embedded_where_they_were_called(tmp_path):
    directory = tmp_path / "ses_a"
    write_log(directory / "children" / "sub_1", TURN, said("Look"), *answered("Seen."), END)
    write_log(directory / "children" / "sub_2", TURN, said("Build"), *answered("Built."), END)
    events = (
        TURN, said("Go"), *answered("Ask.", call("c1", tool="task")),
        ev.SubagentStarted(id="sub_1", agent="explore", call="c1", title="Look"),
        ev.SubagentStarted(id="sub_2", todo="t1", title="Build"),
        ev.SubagentStarted(id="sub_3", todo="t2", title="Lost"),
        ev.SubagentFinished(id="sub_2", reason="done", said="Built."),
        returned("c1", "Seen."), END,
    )  # fmt: skip
    trajectory = read(write_log(directory, *events))
    assert [child["trajectory_id"] for child in trajectory["subagent_trajectories"]] == ["sub_1", "sub_2"]
    assert {child["session_id"] for child in trajectory["subagent_trajectories"]} == {"ses_a"}
    (called,) = trajectory["steps"][1]["observation"]["results"]
    assert called["content"] == "Seen."
    assert called["subagent_trajectory_ref"][0]["trajectory_id"] == "sub_1"
    (built,) = trajectory["steps"][2]["observation"]["results"]
    assert (built["content"], built["subagent_trajectory_ref"][0]["trajectory_id"]) == ("Built.", "sub_2")


def test_a_hosted_agent_is_told_by_its_documents(tmp_path):
    ran = d.TerminalCommandMetadata(command="ls", output="a.py", exit_code=0, tool_call_id="c1", is_reported=True)
    events = (
        TURN,
        ev.DocumentFinished(document=d.TextDocument(id="1", sequence=1, content="Hello.")),
        ev.DocumentFinished(document=d.TerminalCommandDocument(id="2", sequence=2, metadata=ran)),
        ev.DocumentFinished(document=d.ReasoningDocument(id="3", sequence=3, content="Hm.")),
        ev.TurnFinished(reason="done", usage=USAGE),
    )
    user, text, command = read(write_log(tmp_path / "ses_a", *events))["steps"]
    assert (user["source"], user["message"], text["message"]) == ("user", "Go", "Hello.")
    assert command["tool_calls"][0]["arguments"]["command"] == "ls"
    assert command["observation"]["results"][0]["content"] == "a.py"
    assert command["metrics"]["prompt_tokens"] == 100


def test_a_session_without_a_message_is_no_trajectory(tmp_path):
    with pytest.raises(StateError, match="no message yet"):
        export_session(write_log(tmp_path / "ses_a"), "atif")


def edited(directory: Path) -> tuple[ev.AnyEvent, ...]:
    """A hunk that a call made, a check that ran over it, and the verdict."""
    blobs = BlobStore(directory / "blobs")
    (directory / "blobs").mkdir(parents=True, exist_ok=True)
    old, new = (FileState(blob=blobs.put(data), size=len(data)) for data in (b"k = 1\n", b"k = 2\n"))
    hunk = Hunk(id="h1", old_start=1, old_lines=1, new_start=1, new_lines=1)
    check = Check(call="c2", command="pytest -q", exit_code=0, kind="tests", tests="1 passed")
    origin = Origin(call="c1", tool="search_replace")
    change = Change(path="a.py", operation="edit", base=old, pending=new, hunks=(hunk,), origin=origin, check=check)
    verdict = VerdictRecord(
        id="v1", path="a.py", verdict="accept", hunks=(hunk,), base_before=old, base_after=new,
        pending_before=new, pending_after=new, origin=origin, check=check,
    )  # fmt: skip
    return (
        ev.ChangeProposed(change=change),
        ev.CheckRecorded(check=check),
        ev.ChangeResolved(path="a.py"),
        ev.VerdictGiven(verdict=verdict),
    )


def test_verdicts_and_checks_stand_with_the_calls_that_they_are_about(tmp_path):
    directory = tmp_path / "ses_a"
    calls = (call("c1", tool="search_replace"), call("c2", '{"command": "pytest -q"}', tool="run_terminal_cmd"))
    events = (TURN, said("Go"), *answered("Edit.", *calls), *edited(directory), END)
    trajectory = read(write_log(directory, *events))
    edit, run = trajectory["steps"][1]["tool_calls"]
    assert edit["extra"]["hunks"] == [{"path": "a.py", "id": "h1", "verdict": "accept"}]
    assert (run["extra"]["check"]["exit_code"], run["extra"]["check"]["tests"]) == (0, "1 passed")
    (change,) = trajectory["extra"]["changes"]
    assert (change["verdict"], change["tool_call_id"], change["check"]["command"]) == ("accept", "c1", "pytest -q")
    assert change["diff"] == "-k = 1\n+k = 2"


def test_the_faults_of_other_trajectories_are_found(tmp_path):
    good = read(write_log(tmp_path / "ses_a", TURN, said("Go"), *answered("Hm.", call("c1")), returned("c1", "x"), END))

    def broken(change) -> list[str]:
        copy = msgspec.json.decode(msgspec.json.encode(good))
        change(copy)
        return list_faults(copy)

    assert broken(lambda copy: copy.update(mine=1))
    assert broken(lambda copy: copy["steps"][0].update(step_id=2))
    assert broken(lambda copy: copy["steps"][0].update(metrics={}))
    assert broken(lambda copy: copy["steps"][1]["observation"]["results"][0].update(source_call_id="c9"))
    assert broken(lambda copy: copy.update(subagent_trajectories=[good, good]))
    assert broken(lambda copy: copy["steps"][1].update(llm_call_count=0))
