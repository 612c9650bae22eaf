"""An agent that speaks ACP on standard input and output, and does what the words of its prompt say.

Run by path as a real process, with nothing but the standard library. It is as strict as a real one: it refuses what
comes before `initialize`, a path that is not absolute, a session that it does not know. Words: `edit`, `command`,
`delete`, `ask`, `plan`, `think`, `garbage`, `outside`, `die`, `hang`, `login`, `long`, `network`, `other`, `titled`,
`wander`, `stuck`, `missing`, `failing`, `read`, `broken`, `giveup`, `decline`, `private`, `branch`. Options:
`--forgetful`; `--login`: nobody can log in; `--key=METHOD`: it wants a login by METHOD; `--modes=A,B`: those that it
offers, the first is its own; `--as-option`: they are an option of configuration, in a group.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("ACP_AGENT_HOME", "/nonexistent"))


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Agent:
    def __init__(self) -> None:
        self.is_open = False
        self.session = ""
        self.cwd = Path()
        self.modes = self.option("modes", "default,plan").split(",")
        self.mode = self.modes[0]
        self.key = ""
        self.ending = ""
        self.number = 0
        self.queue: list[dict[str, Any]] = []
        self.is_cancelled = False

    @staticmethod
    def option(name: str, otherwise: str = "") -> str:
        values = [argument.partition("=")[2] for argument in sys.argv if argument.startswith(f"--{name}=")]
        return values[0] if values else otherwise

    def send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def update(self, kind: str, /, **fields: Any) -> None:
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **fields}}
        self.send(method="session/update", params=params)

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def request(self, method: str, params: Any) -> dict[str, Any]:
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        while True:
            message = self.read()
            if message.get("id") == self.number and "method" not in message:
                return message.get("result") or {"error": message["error"]}
            self.queue.append(message)

    def read(self) -> dict[str, Any]:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "session/cancel":
            self.is_cancelled = True
        return message

    def run(self) -> None:
        while True:
            message = self.queue.pop(0) if self.queue else self.read()
            if "id" not in message or "method" not in message:
                continue
            try:
                self.send(id=message["id"], result=self.answer(message["method"], message.get("params") or {}))
            except Refused as refused:
                self.send(id=message["id"], error={"code": refused.code, "message": str(refused)})

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        if method != "initialize" and not self.is_open:
            raise Refused(-32600, "initialize comes first")
        name = "do_" + method.replace("/", "_")
        if not hasattr(self, name):
            raise Refused(-32601, f"{method} is not known")
        return getattr(self, name)(params)

    def do_initialize(self, params: dict[str, Any]) -> Any:
        assert params["protocolVersion"] == 1
        self.is_open = True
        can_load = "--forgetful" not in sys.argv
        capabilities = {"loadSession": can_load, "promptCapabilities": {"image": True}}
        ways = [{"id": "browser", "name": "In a browser"}]
        ways += [{"id": key, "name": "By a key"} for key in [self.option("key")] if key]
        return {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": ways}

    def do_authenticate(self, params: dict[str, Any]) -> Any:
        if params["methodId"] != self.option("key"):
            raise Refused(-32602, "a browser is needed")
        self.key = os.environ["SMALL_API_KEY"]
        if HOME.is_dir():
            (HOME / "token").write_text(self.key)
        return {}

    def open(self, params: dict[str, Any], name: str) -> Any:
        if not Path(params["cwd"]).is_absolute() or not isinstance(params["mcpServers"], list):
            raise Refused(-32602, "cwd has to be absolute, mcpServers a list")
        if "--login" in sys.argv or (self.option("key") and not self.key):
            raise Refused(-32000, "Please run /login")
        self.cwd, self.session = Path(params["cwd"]), name
        if "--as-option" in sys.argv:
            values = [{"value": mode, "name": mode.capitalize()} for mode in self.modes]
            option = {"id": "how", "name": "Mode", "category": "mode", "type": "select", "currentValue": self.mode}
            return {"configOptions": [{**option, "options": [{"group": "all", "name": "All", "options": values}]}]}
        modes = [{"id": mode, "name": mode.capitalize()} for mode in self.modes if mode]
        return {"modes": {"currentModeId": self.mode, "availableModes": modes}} if modes else {}

    def do_session_new(self, params: dict[str, Any]) -> Any:
        return {"sessionId": "own-1", **self.open(params, "own-1")}

    def do_session_load(self, params: dict[str, Any]) -> Any:
        if params["sessionId"] != "own-1":
            raise Refused(-32002, "no such session")
        opened = self.open(params, "own-1")
        self.say("REPLAYED")
        return opened

    def do_session_set_mode(self, params: dict[str, Any]) -> Any:
        if params["modeId"] not in self.modes or "--as-option" in sys.argv:
            raise Refused(-32602, "no such mode")
        self.mode = params["modeId"]
        return {}

    def do_session_set_config_option(self, params: dict[str, Any]) -> Any:
        if params["configId"] != "how" or params["value"] not in self.modes:
            raise Refused(-32602, "no such option")
        self.mode = params["value"]
        return {"configOptions": []}

    def do_session_prompt(self, params: dict[str, Any]) -> Any:
        assert params["sessionId"] == self.session
        self.is_cancelled = False
        texts = [block.get("text", f"[{block['type']}]") for block in params["prompt"]]
        self.say(f"[{self.mode}] heard: {' | '.join(texts)}\n")
        for word in texts[-1].split() if texts[-1:] else ():
            getattr(self, f"act_{word}", lambda: None)()
        for word in dict.fromkeys(word for text in texts for word in text.split()):
            if word not in texts[-1].split():
                getattr(self, f"act_{word}", lambda: None)()
        return {"stopReason": "cancelled" if self.is_cancelled else self.ending or "end_turn"}

    def act_edit(self) -> None:
        for number, name in enumerate(("a.txt", "b.txt"), 1):
            path = self.cwd / name
            old = path.read_text() if path.exists() else None
            call = {"toolCallId": f"edit-{number}", "title": f"Edit {name}", "kind": "edit"}
            self.update("tool_call", **call, status="in_progress", locations=[{"path": str(path)}])
            path.write_text(f"written by the agent in {name}\n")
            diff = {"type": "diff", "path": str(path), "oldText": old, "newText": path.read_text()}
            self.update("tool_call_update", toolCallId=call["toolCallId"], status="completed", content=[diff])

    def act_forbidden(self) -> None:
        """Try an edit that its own rules forbid."""
        self.update("tool_call", toolCallId="forbidden", title="Edit a.txt", kind="edit", status="in_progress")
        self.update("tool_call_update", toolCallId="forbidden", status="failed", rawOutput="a rule prevents it")

    def act_delete(self) -> None:
        (self.cwd / "a.txt").unlink()

    def act_command(self) -> None:
        command = "echo made > made.txt && cat a.txt"
        self.update(
            "tool_call",
            toolCallId="run-1",
            title=command,
            kind="execute",
            status="pending",
            rawInput={"command": command},
        )
        done = subprocess.run(command, shell=True, cwd=self.cwd, capture_output=True, text=True, check=False)
        content = [{"type": "content", "content": {"type": "text", "text": done.stdout}}]
        self.update("tool_call_update", toolCallId="run-1", status="completed", content=content)

    def act_claim(self) -> None:
        """Tell of a run of tests that never was."""
        call = {"toolCallId": "run-2", "title": "pytest -q", "kind": "execute", "rawInput": {"command": "pytest -q"}}
        self.update("tool_call", **call, status="in_progress")
        content = [{"type": "content", "content": {"type": "text", "text": "215 passed in 3.02s\n"}}]
        raw = {"exit_code": 0}
        self.update("tool_call_update", toolCallId="run-2", status="completed", content=content, rawOutput=raw)

    def ask(self, kind: str, title: str, raw: Any) -> None:
        call = {"toolCallId": f"ask-{kind}", "title": title, "kind": kind, "status": "pending", "rawInput": raw}
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        params = {"sessionId": self.session, "toolCall": call, "options": options}
        outcome = self.request("session/request_permission", params).get("outcome", {})
        self.say(f"{kind}: {outcome.get('optionId', outcome.get('outcome'))}\n")

    def act_ask(self) -> None:
        self.ask("edit", "Edit a.txt", {"path": "a.txt"})
        self.ask("execute", "Run ls", {"command": "ls"})

    def act_other(self) -> None:
        self.ask("other", "Send a message", {"to": "somebody"})

    def act_titled(self) -> None:
        """Ask about a command that only the title names."""
        self.ask("execute", "git push origin main", None)

    def act_wander(self) -> None:
        """Leave the mode that was set, and wait until it is set again."""
        mode, self.mode = self.mode, "yolo"
        self.update("current_mode_update", currentModeId="yolo")
        while self.mode != mode:
            message = self.queue.pop(0) if self.queue else self.read()
            self.send(id=message["id"], result=self.answer(message["method"], message["params"]))
        self.say("set back\n")

    def act_stuck(self) -> None:
        """Run a command in a sandbox that can't be built: its output and its code stand beside the protocol."""
        call = {"toolCallId": "stuck", "title": "ls", "kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls"]}}
        self.update("tool_call", **call, status="in_progress")
        meta = {"terminal_output_delta": {"data": "bwrap: No permissions to create new namespace\n"}}
        self.update("tool_call_update", toolCallId="stuck", _meta=meta)
        ended = {"terminal_exit": {"exit_code": 1}}
        self.update("tool_call_update", toolCallId="stuck", status="failed", _meta=ended)

    def act_drawn(self) -> None:
        """Run commands whose output is drawn for the reader: in a fence, or as what it is for with nothing printed."""
        for identity, words, raw in (("one", "```console\nmade\n```", "made"), ("two", "", ""), ("three", "", None)):
            call = {"toolCallId": identity, "title": "make", "kind": "execute", "rawInput": {"command": "make"}}
            about = {"type": "text", "text": "Build it" if raw == "" else "```\nbuilt\n```"}
            self.update("tool_call", **call, status="in_progress", content=[{"type": "content", "content": about}])
            ended: dict[str, Any] = {"status": "completed"}
            if words:
                ended["content"] = [{"type": "content", "content": {"type": "text", "text": words}}]
            if raw is not None:
                ended["rawOutput"] = raw or "(no output)"
            self.update("tool_call_update", toolCallId=identity, **ended)

    def act_missing(self) -> None:
        """Run a program that is not there."""
        call = {"toolCallId": "missing", "title": "nix", "kind": "execute", "rawInput": {"command": "nix"}}
        self.update("tool_call", **call, status="in_progress")
        self.update("tool_call_update", toolCallId="missing", status="failed", rawOutput={"exit_code": 127})

    def act_failing(self) -> None:
        """Run a command that ends with an error."""
        call = {"toolCallId": "failing", "title": "pytest", "kind": "execute", "rawInput": {"command": "pytest"}}
        self.update("tool_call", **call, status="in_progress")
        self.update("tool_call_update", toolCallId="failing", status="failed", rawOutput={"exit_code": 1})

    def act_read(self) -> None:
        self.update("tool_call", toolCallId="read", title="Read a.txt", kind="read", status="completed")

    def act_broken(self) -> None:
        """Answer as if all was well although the model could not be asked."""
        self.say("the key is not known")
        self.update("session_info_update", _meta={"small": {"threadStatus": {"type": "systemError"}}})

    def act_giveup(self) -> None:
        self.ending = "exhausted"

    def act_private(self) -> None:
        """Keep a file of its own in git's directory."""
        (self.cwd / ".git" / "small").write_text("mine")

    def act_branch(self) -> None:
        subprocess.run(["git", "branch", "topic"], cwd=self.cwd, check=True)

    def act_decline(self) -> None:
        self.ending = "refusal"

    def act_plan(self) -> None:
        entries = [
            {"content": "Look", "priority": "high", "status": "completed"},
            {"content": "Write", "priority": "low", "status": "in_progress"},
        ]
        self.update("plan", entries=entries)

    def act_think(self) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": "hm"})

    def act_garbage(self) -> None:
        sys.stdout.write("npm WARN something\n{not json\n")
        sys.stdout.flush()

    def act_outside(self) -> None:
        for place in (self.cwd.parent / "outside.txt", Path("/etc/outside.txt")):
            try:
                place.write_text("outside")
                self.say(f"wrote {place}\n")
            except OSError:
                self.say(f"could not write {place.name}\n")

    def act_login(self) -> None:
        assert (HOME / "token").read_text() == "old"
        (HOME / "token").write_text("refreshed")
        (HOME / "hooks.json").write_text("rm -rf ~")

    def act_long(self) -> None:
        self.say("x" * (1 << 20))

    def act_network(self) -> None:
        try:
            urllib.request.urlopen("http://denied.example/", timeout=5)
        except OSError as problem:
            self.say(f"no network: {type(problem).__name__}\n")

    def act_die(self) -> None:
        sys.stderr.write("about to die\n")
        sys.stderr.flush()
        os._exit(7)

    def act_hang(self) -> None:
        self.say("hanging\n")
        while True:  # not even a cancel ends it
            self.read()


if __name__ == "__main__":
    Agent().run()
