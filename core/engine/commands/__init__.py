"""The commands of a session, each with the function that checks it and returns its effect.

A check reads the present state and raises `AgentTuiError` for a command that can't be carried out; the effect runs
after the answer. To add a command, add its record in `core/protocol/commands/`, a function here, and a row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from core.engine.commands import (
    agents,
    attachments,
    checkpoints,
    findings,
    loops,
    plans,
    review,
    settings,
    terminal,
    turns,
)
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.protocol import commands as cmd

Check = Callable[[Session, Any], Effect | Awaitable[Effect]]

# Commands for which a proof gives way: they change what is pending or written, or need the machine.
STOPPING: Final = frozenset(
    {
        *(cmd.TurnSubmit, cmd.TurnSteer, cmd.LoopStart, cmd.AsideAsk, cmd.CommandRun, cmd.ProofStop),
        *(cmd.HunkResolve, cmd.BulkResolve, cmd.ConflictResolve, cmd.VerdictUndo, cmd.ProvenAccept, cmd.ChangesVerify),
        *(
            cmd.HunkSplit,
            cmd.HunkJoin,
            cmd.HunkEdit,
            cmd.HunkTestRequest,
            cmd.SymbolRename,
            cmd.CommentsSend,
            cmd.FindingsFix,
        ),
        *(cmd.CheckpointRestore, cmd.BestRun, cmd.BestTake, cmd.PlanBuild, cmd.BackgroundPull),
    }
)
COMMANDS: Final[Mapping[type, Check]] = {
    cmd.TurnSubmit: turns.prepare_submit,
    cmd.GoalStop: turns.prepare_goal_stop,
    cmd.LoopStart: loops.prepare_loop_start,
    cmd.LoopStop: loops.prepare_loop_stop,
    cmd.AsideAsk: turns.prepare_aside,
    cmd.AsideStop: turns.prepare_aside_stop,
    cmd.TurnSteer: turns.prepare_steer,
    cmd.TurnUnsteer: turns.prepare_unsteer,
    cmd.TurnInterrupt: turns.prepare_interrupt,
    cmd.DraftKeep: turns.prepare_draft,
    cmd.ContextWarm: turns.prepare_cache_warming,
    cmd.ContextCompact: turns.prepare_compaction,
    cmd.ContextDrop: turns.prepare_context_drop,
    cmd.AttachmentAdd: attachments.prepare_attachment_effect,
    cmd.ApprovalAnswer: turns.prepare_approval,
    cmd.QuestionReply: turns.prepare_question_reply,
    cmd.CommandRun: terminal.prepare_run,
    cmd.JobStop: terminal.prepare_job_stop,
    cmd.JobAbsorb: terminal.prepare_job_absorb,
    cmd.JobRestart: terminal.prepare_job_restart,
    cmd.PortOpen: terminal.prepare_port_open,
    cmd.PortClose: terminal.prepare_port_close,
    cmd.ShellReset: terminal.prepare_reset,
    cmd.HunkResolve: review.prepare_resolve,
    cmd.ReviewPolicyKeep: review.prepare_policy,
    cmd.ChangesVerify: review.prepare_verify,
    cmd.ChangesProve: review.prepare_prove,
    cmd.ProofStop: review.prepare_proof_stop,
    cmd.ProvenAccept: review.prepare_proven_accept,
    cmd.MutantDismiss: review.prepare_mutant_dismissal,
    cmd.HunkTestRequest: review.prepare_hunk_test,
    cmd.BulkResolve: review.prepare_bulk_resolve,
    cmd.ConflictResolve: review.prepare_conflict_resolve,
    cmd.VerdictUndo: review.prepare_undo,
    cmd.HunkSplit: review.prepare_split,
    cmd.HunkJoin: review.prepare_join,
    cmd.HunkEdit: review.prepare_edit,
    cmd.HunkComment: review.prepare_comment,
    cmd.SymbolRename: review.prepare_symbol_rename,
    cmd.CommentsSend: review.prepare_comments_send,
    cmd.CommitDraft: review.prepare_commit_draft,
    cmd.CommitSort: review.prepare_commit_sort,
    cmd.CommitMake: review.prepare_commit,
    cmd.PullRequestDraft: review.prepare_pull_request_draft,
    cmd.PullRequestOpen: review.prepare_pull_request,
    cmd.FindingsFix: findings.prepare_fix,
    cmd.FindingsDismiss: findings.prepare_dismissal,
    cmd.CheckpointRestore: checkpoints.prepare_restore,
    cmd.PlanEdit: plans.prepare_edit,
    cmd.PlanComment: plans.prepare_comment,
    cmd.PlanBuild: plans.prepare_build,
    cmd.TodoSet: plans.prepare_todo_status,
    cmd.BestRun: agents.prepare_best_run,
    cmd.BestTake: agents.prepare_best_take,
    cmd.BackgroundStart: agents.prepare_background_start,
    cmd.BackgroundMessage: agents.prepare_background_message,
    cmd.BackgroundStop: agents.prepare_background_stop,
    cmd.BackgroundDelete: agents.prepare_background_delete,
    cmd.BackgroundPull: agents.prepare_background_pull,
    cmd.SessionRename: settings.prepare_rename,
    cmd.SessionTag: settings.prepare_tag,
    cmd.SessionExport: settings.prepare_export,
    cmd.GuideKeep: settings.prepare_guide,
    cmd.SessionDelete: settings.refuse_deletion,
    cmd.ModeSet: settings.prepare_mode,
    cmd.ModelSet: settings.prepare_model,
    cmd.EffortSet: settings.prepare_effort,
    cmd.TierSet: settings.prepare_tier,
    cmd.MemoryAdd: settings.prepare_note,
    cmd.MemoryJudge: settings.prepare_note_verdict,
    cmd.PermissionRemove: settings.prepare_permission_removal,
    cmd.ServerControl: settings.prepare_server_control,
    cmd.LimitsSet: settings.prepare_limits,
    cmd.PolicySet: settings.prepare_policy,
}
