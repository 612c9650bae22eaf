from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from core.cli.review_output import list_diff_ranges
from tests.support import dockerlike

ROOT = Path(__file__).parents[2]
LINES = [f"line {number}" for number in range(1, 31)]
SCRIPT = """
- text: I look.
  tool_calls:
    - name: search_replace
      arguments:
        file_path: text.txt
        old_string: "line 5 of the pull\\nline 6 of the pull"
        new_string: line 5, mended
    - name: search_replace
      arguments: {file_path: text.txt, old_string: "line 8\\n", new_string: "line 8\\n```\\nline 8a\\n"}
    - name: search_replace
      arguments: {file_path: text.txt, old_string: "line 28", new_string: "line 28, far away"}
    - name: write
      arguments: {file_path: new.txt, contents: "new\\n"}
- Done.
"""


def git(project: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.strip()


class PullRequestApi(ThreadingHTTPServer):
    """`POST …/pulls/7/reviews` as GitHub takes it: every comment names a line of the pull request's diff, on a side."""

    def __init__(self, project: Path, base: str, head: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.head = head
        self.right: set[tuple[str, int]] = set()  # lines of the right side, counted anew from the diff's signs
        self.reviews: list[dict[str, Any]] = []
        path, number = "", 0
        for line in git(project, "diff", f"{base}...{head}").splitlines():
            if line.startswith("+++ b/"):
                path = line[6:]
            elif line.startswith("@@"):
                number = int(re.search(r"\+(\d+)", line)[1])
            elif path and line[:1] in {" ", "+"}:
                self.right.add((path, number))
                number += 1

    def find_fault(self, review: dict[str, Any]) -> str:
        if review.get("commit_id") != self.head:
            return "commit_id is not part of the pull request"
        if review.get("event") not in {"COMMENT", "APPROVE", "REQUEST_CHANGES"} or not review.get("body"):
            return "event and body are wanted"
        return next(filter(None, map(self._find_wrong_comment, review.get("comments", ()))), "")

    def _find_wrong_comment(self, comment: dict[str, Any]) -> str:
        if set(comment) - {"path", "body", "line", "side", "start_line", "start_side"}:
            return "unknown field"
        has_line = isinstance(comment.get("line"), int) and comment.get("side") in {"RIGHT", "LEFT"}
        if not has_line or not comment.get("body"):
            return "body, side and line are wanted"
        first = comment.get("start_line", comment["line"])
        if "start_line" in comment and (comment.get("start_side") != comment["side"] or first >= comment["line"]):
            return "start_line must precede the end line, on the same side"
        if not all((comment["path"], number) in self.right for number in range(first, comment["line"] + 1)):
            return "pull_request_review_thread.line must be part of the diff"
        return ""


class _Handler(BaseHTTPRequestHandler):
    server: PullRequestApi

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer token-of-the-run":
            return self.answer(401, {"message": "Bad credentials"})
        if self.path != "/repos/me/shop/pulls/7/reviews":
            return self.answer(404, {"message": "Not Found"})
        if fault := self.server.find_fault(review):
            return self.answer(422, {"message": "Unprocessable Entity", "errors": [fault]})
        self.server.reviews.append(review)
        return self.answer(200, {"id": 1})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def pull(tmp_path):
    project = tmp_path / "shop"
    project.mkdir()
    git(project, "init", "-q")
    (project / "text.txt").write_text("\n".join(LINES) + "\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "base")
    base = git(project, "rev-parse", "HEAD")
    changed = [f"{line} of the pull" if line in {"line 5", "line 6"} else line for line in LINES]
    (project / "text.txt").write_text("\n".join(changed) + "\n")
    git(project, "commit", "-qam", "pull")
    api = PullRequestApi(project, base, git(project, "rev-parse", "HEAD"))
    threading.Thread(target=api.serve_forever, daemon=True).start()
    yield project, base, api
    api.shutdown()
    api.server_close()


def run_workflow(tmp_path: Path, project: Path, base: str, api: PullRequestApi, prefix: str = "") -> None:
    """Run the steps of the workflow in the page, but for those that only GitHub can. `prefix`: what starts the
    program."""
    page = (ROOT / "docs/headless-and-ci.md").read_text(encoding="utf-8")
    workflow = YAML(typ="safe").load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    program = tmp_path / "bin/agent-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {prefix} {sys.executable} {ROOT / "agent_tui.py"} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "model.yaml").write_text(SCRIPT)
    environment = os.environ | {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "MODEL": f"scripted/{tmp_path / 'model.yaml'}",
        "BASE": base,
        "HEAD": api.head,
        "NUMBER": "7",
        "GITHUB_TOKEN": "token-of-the-run",
        "GITHUB_REPOSITORY": "me/shop",
        "GITHUB_API_URL": f"http://127.0.0.1:{api.server_port}",
    }
    steps = [
        job_step["run"] for job_step in workflow["jobs"]["review"]["steps"] if job_step.get("name") in {"look", "post"}
    ]
    assert len(steps) == 2
    for step in steps:
        command = ["bash", "-e", "-o", "pipefail", "-c", step]
        ran = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=50, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("place", ["here", "container"])
def test_the_workflow_posts_hunks_as_suggestions_where_the_diff_has_their_lines(tmp_path, pull, place):
    if place == "container" and not dockerlike.is_possible():
        pytest.skip("only root can play a container")
    project, base, api = pull
    prefix = f"{sys.executable} {dockerlike.__file__}" if place == "container" else ""
    run_workflow(tmp_path, project, base, api, prefix)
    [review] = api.reviews
    first, second = review["comments"]
    assert (first["start_line"], first["line"], first["body"]) == (5, 6, "```suggestion\nline 5, mended\n```")
    assert (second["line"], second["body"]) == (8, "````suggestion\nline 8\n```\nline 8a\n````")
    assert "start_line" not in second
    assert review["body"].startswith("2 suggestions by agent-tui.")
    assert "+line 28, far away" in review["body"]
    assert "+++ b/new.txt" in review["body"]
    assert git(project, "status", "--porcelain") == ""


def test_the_stand_in_refuses_what_the_real_one_refuses(pull):
    _, _, api = pull
    good = {"path": "text.txt", "line": 5, "side": "RIGHT", "body": "x"}
    review = {"commit_id": api.head, "event": "COMMENT", "body": "b"}
    assert api.find_fault(review | {"comments": [good]}) == ""
    for wrong in (
        {"line": 28},
        {"side": ""},
        {"line": None},
        {"start_line": 6, "start_side": "RIGHT"},
        {"position": 1},
    ):
        assert api.find_fault(review | {"comments": [good | wrong]}) != ""
    assert api.find_fault(review | {"commit_id": "0" * 40}) != ""


def test_lines_of_a_diff_are_read_by_path_also_where_they_look_like_its_heads():
    diff = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,4 @@
 one
--- two
+++ b/fake.txt
+@@ -9 +9 @@
 three
@@ -10 +11 @@ context
-x
+y
diff --git a/gone b/gone
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
--- "a/\\303\\244"
+++ "b/\\303\\244"
@@ -0,0 +1,2 @@
+1
+2
"""
    assert list_diff_ranges(diff) == {"a.txt": [range(1, 5), range(11, 12)], "ä": [range(1, 3)]}
