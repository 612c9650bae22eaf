"""A project with a real fault (a key of a cache leaves out what the value depends on), and a model that finds it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from core.protocol import events as ev
from core.protocol.documents import QuestionAnswer
from tests.support.agent_case import Case, Step, calls

PRICES = """\
_CACHE = {}


def price(item, currency):
    key = item
    if key not in _CACHE:
        _CACHE[key] = _look_up(item, currency)
    return _CACHE[key]


def _look_up(item, currency):
    rates = {"eur": 1, "usd": 2}
    return {"tea": 3, "cup": 5}[item] * rates[currency]
"""
FAULT = """\
from prices import price

assert price("tea", "eur") == 3
assert price("tea", "usd") == 6, price("tea", "usd")
"""
MENDED = PRICES.replace("    key = item\n", "    key = (item, currency)\n")
RUN = "python3 check.py"
LOG = (
    "import json as _j, os as _o; _f = open(_o.environ['AGENT_TUI_PROBE_LOG'], 'a'); "
    "_f.write(_j.dumps({{'hypothesisId': '{name}', 'location': 'prices.py:{line}', 'message': '{message}', "
    "'data': {data}}}) + '\\n'); _f.close()"
)
SUPPOSED = {
    "hypotheses": [
        {"statement": "The key leaves the currency out.", "expected": "The same key for both currencies."},
        {"statement": "The rate is looked up wrongly.", "expected": "A wrong rate."},
        {"statement": "The cache is filled before the call.", "expected": "A hit at the first call."},
    ]
}


SHOP = """\
const pause = () => new Promise((done) => setTimeout(done, 5));
let stock = 1;

async function take() {
  const seen = stock;
  await pause();
  if (seen < 1) return false;
  stock = seen - 1;
  return true;
}

Promise.all([take(), take()]).then((sold) => process.exit(sold[0] && sold[1] ? 1 : 0));
"""
MENDED_SHOP = SHOP.replace(
    "  const seen = stock;\n  await pause();\n", "  const seen = stock--;\n  await pause();\n"
).replace("  stock = seen - 1;\n", "")
_NODE_LOG = (
    "require('fs').appendFileSync(process.env.AGENT_TUI_PROBE_LOG, "
    "JSON.stringify({hypothesisId: 'H1', location: 'shop.js:7', message: 'seen', data: {seen, stock}}) + '\\n');"
)
RACE = {
    "hypotheses": [
        {"statement": "Both see the stock before either of them takes from it."},
        {"statement": "The stock is wrong from the beginning."},
        {"statement": "The stock is never lowered."},
    ]
}
SHOP_PROBE = ("probe_add", {"file_path": "shop.js", "line": 7, "code": _NODE_LOG, "hypothesis_id": "H1"})
SHOW_RACE = ("reproduce", {"command": "node shop.js"})
RACE_VERDICTS = (
    ("hypothesis_verdict", {"id": "H1", "verdict": "confirmed", "evidence": ["r1:1", "r1:2"]}),
    ("hypothesis_verdict", {"id": "H2", "verdict": "rejected", "evidence": ["r1:1"]}),
    ("hypothesis_verdict", {"id": "H3", "verdict": "inconclusive"}),
)


def project(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "prices.py").write_text(PRICES)
    (root / "check.py").write_text(FAULT)
    return root


def shop(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "shop.js").write_text(SHOP)
    return root


def probe(line: int, name: str, message: str, data: str) -> tuple[str, dict[str, Any]]:
    code = LOG.format(name=name, line=line, message=message, data=data)
    return "probe_add", {"file_path": "prices.py", "line": line, "code": code, "hypothesis_id": name}


PROBES = (
    probe(6, "H1", "key", "{'key': key, 'currency': currency, 'hit': key in _CACHE}"),
    probe(13, "H2", "rate", "{'currency': currency, 'rate': rates[currency]}"),
)
REPRODUCE = ("reproduce", {"command": RUN})
VERDICTS = (
    ("hypothesis_verdict", {"id": "H1", "verdict": "confirmed", "evidence": ["r1:1", "r1:3"], "reason": "Same key."}),
    ("hypothesis_verdict", {"id": "H2", "verdict": "rejected", "evidence": ["r1:2"], "reason": "The rate is right."}),
    ("hypothesis_verdict", {"id": "H3", "verdict": "rejected", "evidence": ["r1:1"], "reason": "A miss at first."}),
)
FIX = ("write", {"file_path": "prices.py", "contents": MENDED})
COMPARE = ("read_probe_log", {"run": "r1", "compare_with": "r2"})


def search() -> list[Step]:
    """From hypotheses to the verdicts."""
    read = ("read_file", {"target_file": "prices.py"})
    return [calls(("hypotheses_set", SUPPOSED), read), calls(*PROBES), calls(REPRODUCE), calls(*VERDICTS)]


def answering(case: Case, *choices: str) -> None:
    """The user answers one question after the other, as soon as it waits, and lets every command run."""
    left = list(choices)

    def answer(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ApprovalRequested):
            asyncio.get_running_loop().call_soon(case.session.user.resolve_approval, event.id, "allow_once")
        if isinstance(event, ev.QuestionAsked):
            reply = QuestionAnswer(question=event.questions[0].id, options=(left.pop(0),))
            asyncio.get_running_loop().call_soon(case.session.user.resolve_question, event.id, (reply,))

    case.on_event = answer
