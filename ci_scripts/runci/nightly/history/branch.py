"""git: the branch of the history, in a repository of its own that is thrown away afterwards."""

from __future__ import annotations

import base64
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from runci.core.errors import RunciError
from runci.core.git import Answer, ask_git, run_git

# Nothing else of a repository's own settings is needed to reach its remote.
_OWN = re.compile(r"(http|url|credential|ssh|protocol)\.|core\.(sshcommand|gitproxy|askpass)$")
# Without any of these a remote is pushed to where it is fetched from.
_PUSHES = re.compile(r"remote\..*\.pushurl$|url\..*\.pushinsteadof$", re.DOTALL)
_ASKED = r"^((http|url|credential|ssh|protocol|user|remote)\.|core\.(sshcommand|gitproxy|askpass)$)"
SECONDS = 300.0  # for one exchange with the remote
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_NAME = "history"  # of the remote in the temporary repository
_TIP = "refs/heads/tip"
_NEW = "refs/heads/new"
Setting: TypeAlias = tuple[str, str, str]  # scope, key, value


class RefusedError(RunciError):
    """The remote did not take the push: somebody else was first, or it says no."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of one remote, as seen from `folder`, the temporary repository.

    `shown` names both for messages, without credentials.
    """

    folder: Path
    name: str
    shown: str
    environment: Mapping[str, str] = field(repr=False)

    @property
    def ref(self) -> str:
        """Its name on the remote."""
        return f"refs/heads/{self.name}"

    def exists(self) -> bool:
        """Whether the remote has it. Raises RunciError where the remote cannot be asked."""
        answer = self._ask("ls-remote", "--exit-code", _NAME, self.ref)
        if answer.status not in (0, 2):
            reason = self._failed("cannot be reached", answer)
            raise RunciError(f"{reason}: --remote names another; a job needs GITHUB_TOKEN")
        return answer.status == 0

    def fetch(self) -> str:
        """Get the newest commit and give it. Raises RunciError where there is none."""
        answer = self._ask(
            "fetch", "--quiet", "--no-tags", "--depth=1", _NAME, f"+{self.ref}:{_TIP}"
        )
        if answer.status:
            if not self.exists():  # asked only now: it is an exchange with the remote more
                raise RunciError(
                    f"{self.shown}: no such branch: start it once with `runci perf history --init`"
                )
            raise self._failed("cannot be fetched", answer)
        return (self.folder / "FETCH_HEAD").read_text("ascii", "replace").partition("\t")[0]

    def files(self, commit: str) -> dict[str, bytes]:
        """Every file of a commit."""
        paths, objects = [], []
        for entry in self._run("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]:
            about, path = entry.split(b"\t", 1)
            _, kind, name = about.split(b" ")
            if kind == b"blob":  # a submodule has no contents here
                paths.append(os.fsdecode(path))
                objects.append(name)
        out = self._run("cat-file", "--batch", stdin=b"\n".join([*objects, b""]))
        return dict(zip(paths, _contents(out, len(objects)), strict=True))

    def commit(self, parent: str | None, files: Mapping[str, bytes], message: str) -> str:
        """Make a commit with these files changed, and give it. `parent` None starts a branch."""
        who = self._run("var", "GIT_COMMITTER_IDENT").decode("utf-8", "replace").strip()
        parts = [f"commit {_NEW}\nmark :1\ncommitter {who}\n".encode(), _data(message.encode())]
        parts += [f"from {parent}\n".encode()] if parent else []
        for path, content in sorted(files.items()):
            parts += [f"M 100644 inline {path}\n".encode(), _data(content)]
        parts.append(b"get-mark :1\n")
        made = self._run("fast-import", "--quiet", "--force", stdin=b"".join(parts))
        return made.decode().strip()

    def push(self, commit: str) -> None:
        """Put the branch forward to `commit`. Raises RefusedError where the remote does not."""
        answer = self._ask("push", "--no-verify", "--porcelain", _NAME, f"{commit}:{self.ref}")
        if answer.status:
            raise RefusedError(str(self._failed("the push was refused", answer)))

    def _ask(self, *args: str, stdin: bytes = b"") -> Answer:
        return ask_git(
            self.folder, *args, stdin=stdin, environment=self.environment, seconds=SECONDS
        )

    def _run(self, *args: str, stdin: bytes = b"") -> bytes:
        answer = self._ask(*args, stdin=stdin)
        if answer.status:
            raise self._failed(f"git {args[0]} failed", answer)
        return answer.out

    def _failed(self, what: str, answer: Answer) -> RunciError:
        said = [line for line in answer.out.decode("utf-8", "replace").splitlines() if "\t" in line]
        refused = [line.split("\t")[-1] for line in said if line.startswith("!")]
        reason = next(iter(refused), answer.reason)
        return RunciError(f"{self.shown}: {what}: {redacted(reason)}")


@contextmanager
def open_branch(root: Path, remote: str, name: str) -> Iterator[Branch]:
    """The branch `name` of `remote`, which is a remote of the repository `root`, or an address."""
    known = _settings(root)
    top, form = _about(root)
    fetch_url, push_url = _urls(root, top, remote, known)
    own = [(key, value) for scope, key, value in known if scope == "local" and _OWN.match(key)]
    settings = [
        *own,
        *from_token(os.environ, (fetch_url, push_url), own),
        (f"remote.{_NAME}.url", fetch_url),
        (f"remote.{_NAME}.pushurl", push_url),
        *_identity(known),
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        # One pack each, not a file an object: faster to write, and to throw away.
        ("fetch.unpackLimit", "1"),
        ("fastimport.unpackLimit", "1"),
    ]
    with tempfile.TemporaryDirectory(prefix="runci-history-") as folder:
        place = Path(folder)
        run_git(place, "init", "--quiet", "--bare", "--template=", f"--object-format={form}")
        environment = {
            **as_environment(settings),
            "GIT_DIR": folder,
            "GIT_TERMINAL_PROMPT": os.environ.get("GIT_TERMINAL_PROMPT", "0"),
        }
        yield Branch(place, name, f"{name} of {redacted(remote)}", environment)


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


def _urls(root: Path, top: Path, remote: str, known: Sequence[Setting]) -> tuple[str, str]:
    """Where to fetch and where to push; a relative path is taken from `top`."""
    if remote.startswith("-"):
        raise RunciError(f"--remote {remote}: not the name of a remote")
    fetch_url = _absolute(top, _url(root, remote))
    if not any(_PUSHES.match(key) for _, key, _ in known):
        return fetch_url, fetch_url
    return fetch_url, _absolute(top, _url(root, remote, "--push"))


def _url(root: Path, remote: str, *more: str) -> str:
    """The address of a remote, as git rewrites it; `remote` itself where it is no name of one."""
    answer = ask_git(root, "remote", "get-url", *more, remote)
    if not answer.status:
        return os.fsdecode(answer.out).strip()
    if "/" not in remote and not (root / remote).exists():
        raise RunciError(f"{root.as_posix()}: {redacted(answer.reason)}: name --remote")
    return remote


def _absolute(top: Path, url: str) -> str:
    """An address as it is; a path, which git takes from the top of the work tree, whole."""
    if "://" in url or (":" in url and not Path(url).exists()):
        return url
    return os.path.normpath(top.absolute() / url)


def _about(root: Path) -> tuple[Path, str]:
    """The top of the work tree, `root` where there is none, and the object format."""
    answer = ask_git(root, "rev-parse", "--show-object-format", "--show-toplevel")
    form, _, top = os.fsdecode(answer.out).partition("\n")
    if not form:
        raise RunciError(f"git rev-parse failed in {root.as_posix()}: {answer.reason}")
    return Path(top.rstrip("\n") or root), form


def _settings(root: Path) -> list[Setting]:
    """What git has set about reaching remotes, and about who is at work."""
    answer = ask_git(root, "config", "--show-scope", "--includes", "-z", "--get-regexp", _ASKED)
    words = answer.out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    pairs = zip(words[::2], (entry.partition("\n") for entry in words[1::2]), strict=True)
    return [(scope, key, value) for scope, (key, _, value) in pairs]


def _identity(known: Sequence[Setting]) -> list[tuple[str, str]]:
    """Whoever git says is at work there, else runci."""
    # The last of each counts, as in git.
    who = {key: value.strip() for _, key, value in known if key in ("user.name", "user.email")}
    if len(who) == 2 and all(who.values()):
        return sorted(who.items())
    return [("user.name", "runci"), ("user.email", "runci@users.noreply.invalid")]


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _contents(out: bytes, count: int) -> Iterator[bytes]:
    """The objects in the answer of `cat-file --batch`."""
    at = 0
    for _ in range(count):
        end = out.index(b"\n", at)
        size = int(out[at:end].split(b" ")[2])
        yield out[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
