"""The queries and the functions that answer them. No query has an effect; slow ones run in a thread.

To add a query, add its records in `core/protocol/queries/`, a function here, and a row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from core.engine.queries import changes, extensions, files, model_context, sessions
from core.engine.queries.source import QuerySource
from core.protocol import queries as q

Answer = Callable[[QuerySource, Any], q.AnyAnswer | Awaitable[q.AnyAnswer]]

QUERIES: Final[Mapping[type, Answer]] = {
    q.SettingsQuery: sessions.answer_settings,
    q.ConfigQuery: sessions.answer_config,
    q.ManualQuery: sessions.answer_manual,
    q.GuideQuery: sessions.answer_guide,
    q.SessionsQuery: sessions.answer_sessions,
    q.TranscriptSearchQuery: sessions.answer_transcripts,
    q.ExportQuery: sessions.answer_export,
    q.JobsQuery: sessions.answer_jobs,
    q.BackgroundQuery: sessions.answer_background,
    q.PromptHistoryQuery: sessions.answer_prompt_history,
    q.IdleQuery: sessions.answer_idle,
    q.ModelsQuery: sessions.answer_models,
    q.RoutesQuery: sessions.answer_routes,
    q.ContextQuery: sessions.answer_context,
    q.PermissionsQuery: sessions.answer_permissions,
    q.PatternQuery: sessions.answer_pattern,
    q.MachinePlaceQuery: sessions.answer_machine_place,
    q.ProbeLogQuery: sessions.answer_probe_log,
    q.DiffQuery: changes.answer_diff,
    q.HunkQuery: changes.answer_hunk,
    q.ConflictQuery: changes.answer_conflict,
    q.GitPreviewQuery: changes.answer_git_preview,
    q.VerificationQuery: changes.answer_verification,
    q.CommitQuery: changes.answer_commit,
    q.PatchQuery: changes.answer_patch,
    q.PullRequestQuery: changes.answer_pull_request,
    q.CheckpointsQuery: changes.answer_checkpoints,
    q.CheckpointPreviewQuery: changes.answer_checkpoint_preview,
    q.CandidatesQuery: changes.answer_candidates,
    q.PictureQuery: changes.answer_picture,
    q.RulesQuery: extensions.answer_rules,
    q.HooksQuery: extensions.answer_hooks,
    q.MemoryQuery: extensions.answer_memory,
    q.CommandsQuery: extensions.answer_commands,
    q.CommandPreviewQuery: extensions.answer_command_preview,
    q.SnippetsQuery: extensions.answer_snippets,
    q.SkillsQuery: extensions.answer_skills,
    q.ServersQuery: extensions.answer_servers,
    q.AgentsQuery: model_context.answer_agents,
    q.ToolsQuery: model_context.answer_tools,
    q.TreeQuery: files.answer_tree,
    q.PlanFilesQuery: files.answer_plans,
    q.FileQuery: files.answer_file,
    q.FindQuery: files.answer_find,
    q.PromptContextQuery: files.answer_prompt_context,
    q.CompletionQuery: files.answer_completion,
    q.DefinitionQuery: files.answer_definition,
    q.ReferencesQuery: files.answer_references,
    q.HoverQuery: files.answer_hover,
    q.SearchQuery: files.answer_search,
    q.IndexQuery: files.answer_index,
}
