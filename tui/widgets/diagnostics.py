"""Formats new diagnostics of pending text by line, hunk and file.

The engine has already removed diagnostics that the user's version has as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from core.protocol.events import DiagnosticsReported
from core.protocol.language import Diagnostic
from core.protocol.review import Hunk
from core.text.counting import count
from tui.text import fit_line
from tui.widgets.text_rows import Piece

SEVERITY_SIGNS: Final[Mapping[str, Piece]] = {
    "error": ("✗", "bold $text-error"),
    "warning": ("!", "bold $text-warning"),
    "information": ("i", "$text-primary"),
    "hint": ("i", "$text-primary"),
}
BACKGROUNDS: Final[Mapping[str, str]] = {"error": "on $error 12%", "warning": "on $warning 12%"}
UNDERLINE: Final = "underline"
DiagnosticReports = Mapping[str, DiagnosticsReported]  # by path
NO_REPORTS: Final[DiagnosticReports] = MappingProxyType({})
MAX_MESSAGE: Final = 400  # characters
MAX_PER_LINE: Final = 3


def group_by_line(diagnostics: Sequence[Diagnostic]) -> dict[int, list[Diagnostic]]:
    """Return the diagnostics by line, 0 = of the whole file; those of a line with the worst first."""
    ranks = list(SEVERITY_SIGNS)
    by_line: dict[int, list[Diagnostic]] = {}
    for diagnostic in sorted(
        diagnostics, key=lambda diagnostic: (diagnostic.line, ranks.index(diagnostic.severity), diagnostic.column)
    ):
        by_line.setdefault(max(diagnostic.line, 0), []).append(diagnostic)
    return by_line


def format_diagnostic(diagnostic: Diagnostic) -> str:
    """Format a diagnostic on one line: message, code and source."""
    origin = " ".join(filter(None, (fit_line(diagnostic.source, 20), fit_line(diagnostic.code, 40))))
    message = fit_line(diagnostic.message, MAX_MESSAGE) or "no message"
    return f"{message}  ({origin})" if origin else message


def count_severities(diagnostics: Iterable[Diagnostic]) -> tuple[int, int]:
    """Return the number of errors and of warnings."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    return severities.count("error"), severities.count("warning")


def count_reported(report: DiagnosticsReported) -> tuple[int, int]:
    """Return the number of errors and of warnings in a file, with those that are not listed."""
    errors, warnings = count_severities(report.diagnostics)
    return errors + report.more_errors, warnings + report.more_warnings


def build_diagnostic_badges(report: DiagnosticsReported | None) -> list[Piece]:
    """Return the badges of a file: its new errors and warnings."""
    errors, warnings = count_reported(report) if report is not None else (0, 0)
    badges = [(f" ✗ {count('error', errors)} ", "bold $text-error")] if errors else []
    return badges + ([(f" ! {count('warning', warnings)} ", "bold $text-warning")] if warnings else [])


def describe_hunk(report: DiagnosticsReported | None, hunk: Hunk) -> Piece:
    """Format the diagnostics of a hunk; "" = none."""
    if report is None:
        return "", ""
    inside = range(hunk.new_start, hunk.new_start + max(hunk.new_lines, 1))
    errors, warnings = count_severities(diagnostic for diagnostic in report.diagnostics if diagnostic.line in inside)
    if errors:
        return f" ✗ {count('new error', errors)}", "bold $text-error"
    if warnings:
        return f" ! {count('new warning', warnings)}", "bold $text-warning"
    if not report.sources or any(diagnostic.severity == "error" for diagnostic in report.diagnostics):
        return "", ""
    return f" ✓ 0 new errors ({fit_line(', '.join(report.sources), 24)})", "$text-success"


def summarize_diagnostics(diagnostics: DiagnosticReports) -> dict[str, Piece]:
    """Return the worst severity's sign and count by file, without files that have neither errors nor warnings."""
    summaries: dict[str, Piece] = {}
    for path, report in diagnostics.items():
        errors, warnings = count_reported(report)
        if errors or warnings:
            sign, style = SEVERITY_SIGNS["error" if errors else "warning"]
            summaries[path] = (f"{sign}{min(errors or warnings, 999)}", style)
    return summaries
