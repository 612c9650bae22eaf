"""The query for what can be committed: accepted hunks that no commit has yet."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.queries.base import Answer, Query
from core.protocol.review import CommitTopic

CommitSplit = Literal["none", "todo", "prompt", "topic"]


class CommitQuery(Query, frozen=True, kw_only=True, tag="commit"):
    """Preview the next commit of accepted hunks. `split`: one commit for all, or one for each todo, prompt or topic;
    `topics`: as in `commit.sorted`; edits that they do not name are one more. `paths`: of these files and what lies
    below these directories alone, () = of all."""

    split: CommitSplit = "none"
    topics: tuple[CommitTopic, ...] = ()
    paths: tuple[str, ...] = ()


class CommitFile(Struct, frozen=True, kw_only=True):
    """A path that a commit changes. `added`, `removed`: lines; `problem`: why it has to stay out ("" = it goes in)."""

    path: str
    operation: Literal["create", "edit", "delete"]
    added: int = 0
    removed: int = 0
    problem: str = ""


class CommitGroup(Struct, frozen=True, kw_only=True):
    """One proposed commit. `edits`: the accepted edits by id (see `PlannedCommit`); `files` as they are with the groups
    before it committed; `prompts` and `todos`: their texts; `checks`: commands that passed over its hunks before they
    were accepted, with the tests that they counted; `message`: made of all that without a model."""

    title: str
    edits: tuple[str, ...]
    files: tuple[CommitFile, ...]
    message: str
    prompts: tuple[str, ...] = ()
    todos: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


class CommitAnswer(Answer, frozen=True, kw_only=True, tag="commit"):
    """`head`: the last commit ("" = none yet) on `branch` ("" = detached). `refused`: why nothing can be committed.
    `hooks`: those of the repository that a commit runs, by name. `staged`: paths that the user has staged, which stay
    so. `left_out`: accepted, and why they can't be committed."""

    branch: str = ""
    head: str = ""
    refused: str = ""
    hint: str = ""
    groups: tuple[CommitGroup, ...] = ()
    left_out: tuple[CommitFile, ...] = ()
    hooks: tuple[str, ...] = ()
    staged: int = 0


class PullRequestQuery(Query, frozen=True, kw_only=True, tag="pull_request"):
    """Preview a pull request of the current branch."""


class PullRequestAnswer(Answer, frozen=True, kw_only=True, tag="pull_request"):
    """`branch` is pushed to the `remote` at `url` and is to go into `base`; where HEAD is on the base itself, it is a
    proposed name. `commits`: subjects of those that `base` does not have, oldest first. `program`: gh or glab, "" =
    neither is installed, so that it ends with the push. `title`, `body`: made without a model. `refused`: why there
    can't be one."""

    branch: str = ""
    base: str = ""
    remote: str = ""
    url: str = ""
    program: str = ""
    commits: tuple[str, ...] = ()
    title: str = ""
    body: str = ""
    refused: str = ""
    hint: str = ""


class PatchQuery(Query, frozen=True, kw_only=True, tag="patch"):
    """Changes as a patch for `git apply`: those that are `pending`, or `accepted` and in no commit yet. `paths`: files
    and directories that it is limited to; () = all. `hunks`: of pending files only these, by id; () = all."""

    which: Literal["pending", "accepted"] = "pending"
    paths: tuple[str, ...] = ()
    hunks: tuple[str, ...] = ()


class PatchAnswer(Answer, frozen=True, kw_only=True, tag="patch"):
    """`patch`: its bytes (base64 in JSON), none for no change. `left_out`: paths of which it has nothing, and why."""

    patch: bytes
    paths: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
