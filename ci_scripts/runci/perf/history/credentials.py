"""How git gets at a remote: settings through its environment, where no other process sees them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

# Nothing else of a repository's own settings is needed to reach its remote.
SETTINGS = r"^(http|url|credential|ssh|protocol)\.|^core\.(sshcommand|gitproxy|askpass)$"
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def as_environment(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """git's settings as the variables that it reads them from."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def from_token(
    environment: Mapping[str, str], urls: Sequence[str], settings: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The setting by which a job's GITHUB_TOKEN opens the remote `urls`; none where it does not.

    Only for GITHUB_SERVER_URL itself over https, and only where `settings` bring no header of their
    own (a checkout that kept its credentials): two such headers are refused.
    """
    token, server = environment.get("GITHUB_TOKEN"), environment.get("GITHUB_SERVER_URL")
    if not token or not server:
        return []
    wanted = _origin(server)
    if wanted is None or not urls or any(_origin(url) != wanted for url in urls):
        return []
    if any(key.lower().endswith(".extraheader") and value for key, value in settings):
        return []
    encoded = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return [(f"http.{server.rstrip('/')}/.extraheader", f"AUTHORIZATION: basic {encoded}")]


def redacted(text: str) -> str:
    """A message of git without what stands before the @ of an address."""
    return _IN_URL.sub("***@", text)


def _origin(url: str) -> tuple[str, int | None] | None:
    """Host and port of an https address without a user of its own."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host and parts.scheme == "https" and parts.username is None else None
