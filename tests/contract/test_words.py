"""Names are the field's words: functions are verbs, locals are nouns, a public class name stands once.

Docstrings say what the caller gets, and comments are sentences with a subject.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator

from tests.contract.source_tree import ROOT, Function, Module, modules, program

HOUSE = program()
# Past participles that do not end in -ed. What is also a base form (read, put, cut, set, let, run, split …) is a verb.
IRREGULAR = re.compile(
    "begun|bound|broken|built|chosen|done|drawn|driven|fallen|found|frozen|given|gone|grown|heard|held|hidden|kept|known"
    "|left|lost|made|meant|met|said|seen|sent|shown|sold|sought|spent|spoken|stood|stuck|swept|taken|taught|thought|told"
    "|torn|understood|won|worn|wound|woven|written"
)
VERBS_IN_ED = re.compile("bed|embed|exceed|feed|need|proceed|seed|shed|speed|succeed|wed")
# Names that say what was done to a thing, or only that there is one.
PRONOUN = re.compile("each|elem|found|given|kept|made|said|shown|things?|told")
# A comment that begins so leaves out who does it. Behind code, the code is the subject.
SUBJECTLESS = re.compile(
    r"#\s+(is|are|was|were|has|have|had|gets?|takes?|goes|comes|stands?|lies|keeps?|makes|gives|holds|may|must|needs|will"
    r"|would|does|stays|means|belongs|waits|told|said|kept|found)\b",
    re.IGNORECASE,
)
RIDDLE = re.compile(r"(What|Whether|How|Where|Who|Whose|Which|Why)\b")


def where(module: Module, node: ast.AST) -> str:
    return f"{module.path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 0)}"


def is_property(function: Function) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def is_participle(word: str) -> bool:
    return bool(IRREGULAR.fullmatch(word)) or (word.endswith("ed") and not VERBS_IN_ED.fullmatch(word))


def test_no_function_is_named_by_a_participle():
    wrong = [
        f"{where(module, function)} {function.name}"
        for module in HOUSE
        for function in module.functions
        if not is_property(function) and is_participle(function.name.strip("_").partition("_")[0])
    ]
    assert wrong == []


def test_no_public_class_name_stands_twice():
    places = defaultdict(list)
    for module in HOUSE:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(where(module, node))
    assert {name: locations for name, locations in places.items() if len(locations) > 1} == {}


def test_a_docstring_says_what_the_caller_gets():
    wrong = [
        where(module, node)
        for module in HOUSE
        for node in module.nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and RIDDLE.match(ast.get_docstring(node) or "")
    ]
    assert wrong == []


def list_locals(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the locals and parameters of a module, but for those of a comprehension or a lambda on one line."""
    hidden: set[int] = set()
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):  # fields, which may be the words of a protocol
            hidden |= {id(field.target) for field in node.body if isinstance(field, ast.AnnAssign)}
        short = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda
        if isinstance(node, short) and node.lineno == node.end_lineno:
            hidden |= {id(part) for part in ast.walk(node)}
    for node in module.nodes:
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.arg):
            yield node, node.arg


def test_no_local_is_named_by_a_pronoun_or_a_participle_alone():
    wrong = [
        f"{where(module, node)} {name}"
        for module in (*HOUSE, *modules("benchmarks"))
        for node, name in list_locals(module)
        if PRONOUN.fullmatch(name.strip("_"))
    ]
    assert wrong == []


def test_a_pronoun_is_seen_outside_of_a_short_comprehension():
    sample = "found = 1\nx = [each for each in y]\nfor each in y:\n    pass\n"
    names = [name for _, name in list_locals(Module(ROOT / "core" / "sample.py", sample))]
    assert [name for name in names if PRONOUN.fullmatch(name)] == ["found", "each"]


def list_comments(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of the comments on lines of their own, without the lines that continue one."""
    previous_line = -1
    for token in tokenize.generate_tokens(iter(module.text.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            if token.start[0] != previous_line + 1:
                yield token.start[0], token.string
            previous_line = token.start[0]


def test_a_comment_has_a_subject():
    wrong = [
        f"{module.path.relative_to(ROOT).as_posix()}:{line} {comment}"
        for module in HOUSE
        for line, comment in list_comments(module)
        if SUBJECTLESS.match(comment)
    ]
    assert wrong == []


def test_a_comment_without_a_subject_is_seen():
    sample = Module(ROOT / "core" / "sample.py", "# Is kept\n# for long.\nx = 1  # takes a lock\n")
    assert list(list_comments(sample)) == [(1, "# Is kept")]
    assert SUBJECTLESS.match("# is kept for the next turn")
    assert not SUBJECTLESS.match("# The text is kept for the next turn.")
