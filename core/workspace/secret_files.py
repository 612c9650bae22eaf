"""Files that hold secrets: recognized by name, and their values masked in the output of commands.

Secret files are not read without a question, not searched and not visible to commands. A name alone suffices if it
hardly ever has another meaning (`.env`, private keys). Ambiguous names count only if git ignores the file: published
files are not secret. A command can't read such a file, but its values may also be in git's history, in a log or in a
process that was started earlier, so they are masked in its output. A value counts as secret if it has letters and
digits, or is long, or is a line of a key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from core.filesystem.open_files import read_open_file
from core.patterns import compile_lazily
from core.secrets import MASK, count_overlap
from core.workspace.file_names import fold_name, to_os_name

_HARMLESS = compile_lazily(
    r"\.(example|sample|template|dist|defaults?|schema|pub)(\.json|\.ya?ml)?$|^\.env\.(ci|test)$|^cacert\.pem$"
)
_SECRET = compile_lazily(
    r"\.env|\.env\.[\w.-]+|\.envrc\.private|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|\.netrc|_netrc|\.pypirc|\.git-credentials"
    r"|\.htpasswd|\.pgpass|pgpass\.conf|\.my\.cnf|\.mylogin\.cnf|.+\.(keystore|jks|kdbx?|ppk|p8|ovpn|agekey)"
    r"|\.vault[_-]?(pass(word)?|token)|gha-creds-[\w-]+\.json|secring\.(gpg|pgp)|\.dockercfg|\.?recentservers\.xml"
    r"|\.(bash|zsh|psql|mysql|rediscli|sqlite|node_repl|python|irb)_history|fish_history"
    r"|\.authinfo(\.gpg)?|\.rediscli_auth|\.dockerconfigjson|\.dev\.vars\.[\w-]+|http-client\.private\.env\.json"
    r"|\.(github|gitlab|gh|npm|nomad|consul)[-_]token|wallet\.dat|logins\.json|key[34]\.db|.+\.keychain(-db)?"
)
_SECRET_IF_IGNORED = compile_lazily(
    r".+\.(env|pem|key|p12|pfx|tfvars|tfstate|asc|gpg)|.+\.tfvars\.json|.+\.tfstate\.(backup|[\d.]+)|\.npmrc|\.envrc"
    r"|(secrets?|credentials?)(\.[\w-]+)?\.(json|ya?ml|toml|ini|txt|xml)|auth\.json"
    r"|service[-_]?account[\w-]*\.json|kubeconfig|.*[-_.]secrets?|\.?secrets?|client_secret[\w.-]*\.json|\.dev\.vars"
    r"|credentials|\.s3cfg|\.boto|\.?rclone\.conf|\.databrickscfg|application_default_credentials\.json"
    r"|[\w.-]*firebase-adminsdk[\w.-]*\.json|\.yarnrc\.yml|\.?pip\.conf|\.terraformrc|terraform\.rc|\.sentryclirc"
    r"|sentry\.properties|\.renviron|local\.settings\.json|wp-config\.php|(key|keystore|signing)\.properties"
    r"|\.?htpasswd|\.ftpconfig|sftp(-config)?\.json|\.remote-sync\.json|\.?msmtprc|\.fetchmailrc"
    r"|(github|gitlab|gh|npm|access|auth|api|bearer|refresh)[-_]?tokens?(\.(txt|json|ya?ml))?|tokens?\.(json|pickle|txt)"
    r"|\.?api[-_]?keys?(\.(txt|json|ya?ml))?|\.?passwords?(\.(txt|json|ya?ml))?|\.passwd|private[-_]key|(deploy|github)_(key|rsa)"
    r"|(gcp|google|aws|azure)[-_](key|credentials)[\w-]*\.json|[\w-]+[-.]credentials(\.(json|ya?ml|toml))?|kaggle\.json"
    r"|([\w-]+\.)?kubeconfig(\.ya?ml)?|\.modal\.toml|\.pdm\.toml|\.curlrc|\.wgetrc|\.snowsql|connections\.toml"
    r"|appsettings\.[\w-]+\.json|cypress\.env\.json|mnemonic\.txt|wg\d+\.conf|vault[-_]pass(word)?(\.txt)?|\.clasprc\.json"
)
# Names that mean nothing without their directory, which hardly ever contains other files.
_SECRET_TAIL = compile_lazily(
    r"(?:.*/)?(?:\.docker/config\.json|\.kube/(?:config|cache/.+)|\.config/(?:gh|glab-cli|hub|configstore)/.+"
    r"|\.aws/(?:credentials|config)|\.azure/.+\.json|\.config/gcloud/.+|\.codex/auth\.json|\.composer/auth\.json"
    r"|\.m2/settings(?:-security)?\.xml|\.gem/credentials|\.cargo/credentials(?:\.toml)?|\.gnupg/.+"
    r"|\.(?:claude/\.credentials|gemini/(?:oauth_creds|google_accounts)|qwen/oauth_creds)\.json|\.claude\.json"
    r"|\.config/github-copilot/(?:apps|hosts)\.json|\.config/(?:hcloud/cli\.toml|doctl/config\.yaml|ngrok/ngrok\.yml)"
    r"|\.config/(?:fly|linode-cli|netlify|op|openai|planetscale|scw|stripe|turso|solana|wandb|argocd|exercism)(?:/.+)?"
    r"|\.config/(?:pypoetry/auth\.toml|hub|teleport/.+|helm/registry/.+|configstore/.+)|\.fly/config\.yml|\.ngrok2/.+"
    r"|\.(?:kaggle/kaggle\.json|huggingface/token|cache/huggingface/(?:stored_)?tokens?|hex/hex\.config|oci/config)"
    r"|\.(?:snowflake/.+\.toml|snowsql/config|supabase/access-token|planetscale/.+|stripe/.+|solana/.+\.json|tsh/.+)"
    r"|\.(?:dbt/profiles\.yml|heroku/.+|netlify/config\.json|okta/.+|op/config|twilio-cli/.+|sbt/\.credentials)"
    r"|\.(?:ivy2/\.credentials|dart/.+|dbeaver/credentials-config\.json|vault-token|doppler/.+|aws/sso/cache/.+)"
    r"|\.(?:gradle/gradle\.properties|bundle/config|nuget/nuget\.config|idea/(?:datasources\.local|webservers)\.xml)"
    r"|\.config/sops/age/keys\.txt|\.local/share/keyrings/.+|\.ssh/(?!known_hosts|config$|.+\.pub$).+)"
)
# Names of backup copies by editors and people: `.env~`, `.id_rsa.swp`, `id_rsa.bak`.
_COPY = compile_lazily(r"#(.+)#|\.(.+)\.sw[a-p]|(.+?)(?:~|\.(?:bak|backup|old|orig|save))")
# A part of every name of a secret, in lower case (ignoring case takes five times as long). Most names have none.
_QUICK_CHECK = compile_lazily(
    r"env|rc|id_|cred|secret|key|pem|p12|pfx|tf|jks|kdb|ppk|pass|cnf|vault|vars|kube|account|s3cfg|boto|rclone|"
    r"databricks|firebase|\.p8|ovpn|auth|gha-|gpg|pgp|\.asc|history|dockercfg|servers|pip|sentry|renv|settings|"
    r"wp-config|properties|htpass|ftp|sync|api|token|wallet|logins|keychain|config|kaggle|toml|wg\d|mnemonic"
)
IsIgnored = Callable[[str, bool], bool]
MAX_FILES = 50
MAX_BYTES = 64 * 1024
MAX_VALUES = 200
MIN_LENGTH = 8
LONG_LENGTH = 20
_ASSIGNED = compile_lazily(r"""[\w.-]*?[\w-]["']?\s*[:=]\s*["']?(?P<value>[^\s"',;]+)""")
_KEY_LINE = compile_lazily(r"[A-Za-z0-9+/=_-]{40,2000}")


def is_secret(rel: str, is_ignored: IsIgnored) -> bool:
    """True if a workspace-relative path is that of a secret file. `is_ignored(rel, is_dir)`: True if git ignores it."""
    names = _list_candidate_names(rel.rpartition("/")[2])
    if any(_SECRET.fullmatch(name) for name in names) or _has_secret_tail(rel):
        return True
    return any(_SECRET_IF_IGNORED.fullmatch(name) for name in names) and is_ignored(rel, False)


def _has_secret_tail(rel: str) -> bool:
    if not rel.startswith(".") and "/." not in rel:  # most paths
        return False
    return _SECRET_TAIL.fullmatch("/".join(map(fold_name, rel.split("/")))) is not None


def may_be_secret_path(rel: str) -> bool:
    """True if a path may be that of a secret, by its name or its directories."""
    return may_be_secret(rel.rpartition("/")[2]) or _has_secret_tail(rel)


def may_be_secret(name: str) -> bool:
    """True if a name may be that of a secret; fast for other names."""
    if name.isascii() and not _QUICK_CHECK.search(name.lower()):
        return False
    return any(
        _SECRET.fullmatch(candidate_name) or _SECRET_IF_IGNORED.fullmatch(candidate_name)
        for candidate_name in _list_candidate_names(name)
    )


def _list_candidate_names(name: str) -> list[str]:
    """Return the name and the name of its original if it is a backup; without harmless ones."""
    name = fold_name(name)
    match = _COPY.fullmatch(name)
    original = next(filter(None, match.groups())) if match else name
    return [candidate for candidate in dict.fromkeys((name, original)) if not _HARMLESS.search(candidate)]


def find_secret_values(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the secret values of these files (workspace-relative), the longest first; an unreadable file has none."""
    values: set[str] = set()
    candidate_paths = [path for path in paths if may_be_secret_path(path)]
    for path in candidate_paths[:MAX_FILES]:
        for line in _read_text(root, path).splitlines():
            values.update(_find_in_line(line.strip()))
    return tuple(sorted(values, key=lambda value: (-len(value), value))[:MAX_VALUES])


def _find_in_line(line: str) -> list[str]:
    if line.startswith(("#", "-----")):
        return []
    if _KEY_LINE.fullmatch(line):
        return [line]
    return [match["value"] for match in _ASSIGNED.finditer(line) if _is_secret_value(match["value"])]


def _is_secret_value(value: str) -> bool:
    if len(value) < MIN_LENGTH or value.startswith(("/", "./", "~", "$")):
        return False
    if "://" in value:  # an address is harmless unless it contains a user
        return "@" in value
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return has_both or len(value) >= LONG_LENGTH


def _read_text(root: Path, path: str) -> str:
    try:
        descriptor = os.open(os.fsencode(root) + b"/" + to_os_name(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return read_open_file(descriptor, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class SecretMasker:
    """Masks `values` in text that arrives in chunks; a tail that may be the beginning of a value is buffered."""

    def __init__(self, on_text: Callable[[str], None], values: tuple[str, ...] = ()) -> None:
        self.values = values
        self._on_text = on_text
        self._buffer = ""
        self.masked_count = 0

    def feed(self, text: str) -> None:
        text = self._buffer + text
        for value in self.values:
            if value in text:
                self.masked_count += text.count(value)
                text = text.replace(value, MASK)
        keep = max((count_overlap(text, value) for value in self.values), default=0)
        self._buffer = text[len(text) - keep :]
        if len(text) > keep:
            self._on_text(text[: len(text) - keep])

    def finish(self) -> None:
        """Flush the buffer."""
        text, self._buffer = self._buffer, ""
        if text:
            self._on_text(text)
