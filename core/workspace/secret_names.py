"""Files that hold secrets, told by their names: not read without a question, not searched, not shown to commands.

A name alone is enough for what is hardly ever anything else (`.env`, private keys). Names that are as often harmless
count only where git ignores the file: what a project publishes is no secret any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from core.workspace.names import folded

_HARMLESS = re.compile(r"\.(example|sample|template|dist|defaults?|schema|pub)$|^\.env\.(ci|test)$|^cacert\.pem$")
_SECRET = re.compile(
    r"\.env|\.env\.[\w.-]+|\.envrc\.private|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|\.netrc|_netrc|\.pypirc|\.git-credentials"
    r"|\.htpasswd|\.pgpass|\.my\.cnf|.+\.(keystore|jks|kdbx|ppk)|\.vault[_-]?pass(word)?"
)
_SECRET_IF_IGNORED = re.compile(
    r".+\.(env|pem|key|p12|pfx|tfvars|tfstate)|\.npmrc|(secrets?|credentials?)(\.[\w-]+)?\.(json|ya?ml|toml|ini|txt)"
    r"|service[-_]?account[\w-]*\.json|kubeconfig|.*[-_.]secrets?|\.?secrets?|client_secret[\w.-]*\.json|\.dev\.vars"
)
# Part of every name that may be one: most names are none, and this is told fast.
_HINT = re.compile(r"(?i)env|rc|id_|cred|secret|key|pem|p12|pfx|tf|jks|kdb|ppk|pass|cnf|vault|vars|kube|account")

Ignored = Callable[[str, bool], bool]


def is_secret(rel: str, ignored: Ignored) -> bool:
    """Whether a workspace-relative path names such a file. `ignored(rel, is_dir)`: whether git ignores it."""
    name = folded(rel.rpartition("/")[2])
    if _HARMLESS.search(name):
        return False
    return _SECRET.fullmatch(name) is not None or (
        _SECRET_IF_IGNORED.fullmatch(name) is not None and ignored(rel, False)
    )


def may_be_secret(name: str) -> bool:
    """Whether a name is worth a closer look."""
    if name.isascii() and not _HINT.search(name):
        return False
    name = folded(name)
    found = _SECRET.fullmatch(name) or _SECRET_IF_IGNORED.fullmatch(name)
    return found is not None and not _HARMLESS.search(name)
