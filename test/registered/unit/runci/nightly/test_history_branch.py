"""The branch of the history with real remotes: races, refusals, and what must stay untouched."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import (
    KERNEL,
    LINEAR,
    accept,
    added,
    clone_with_remote,
    date,
    event,
    git,
    night,
    point,
    record,
    series_id,
    write_config,
    write_record,
)

from runci import register_cpu_ci
from runci.cli import main
from runci.core.errors import Exit, RunciError
from runci.nightly.history import store
from runci.nightly.history.additions import Additions
from runci.nightly.history.branch import as_environment, from_token, redacted
from runci.nightly.history.lines import FORMAT, NIGHTS, README, History, path_of
from runci.nightly.history.store import Source, append, read_branch, start_branch

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

BRANCH = "perf-history"


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository whose branch is started; `tmp_path/work` has it as origin."""
    bare, work = clone_with_remote(tmp_path)
    start_branch(work, "origin", BRANCH)
    return bare


@pytest.fixture
def work(remote: Path, tmp_path: Path) -> Path:
    return tmp_path / "work"


def add(work: Path, number: int) -> store.Appended:
    return append(work, "origin", BRANCH, lambda _: added(number), f"Night {number}")


def hook(remote: Path, script: str) -> None:
    path = remote / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def state(folder: Path) -> dict[str, str]:
    """Every file below, git's own among them, by its contents."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def nights_of(work: Path) -> list[str]:
    return [night.night for night in read_branch(work, "origin", BRANCH)[0].nights]


# Starting, reading, appending


def test_the_branch_is_started_once(tmp_path: Path) -> None:
    remote, work = clone_with_remote(tmp_path)
    commit = start_branch(work, "origin", BRANCH)
    assert git(remote, "rev-parse", BRANCH) == commit
    assert git(remote, "rev-list", "--count", BRANCH) == "1"  # an orphan
    assert git(remote, "ls-tree", "-r", "--name-only", BRANCH).split() == [README, FORMAT, NIGHTS]
    assert "by hand" in git(remote, "show", f"{BRANCH}:{README}").replace("\n", " ")
    with pytest.raises(RunciError, match="origin: there already"):
        start_branch(work, "origin", BRANCH)
    assert git(remote, "rev-parse", BRANCH) == commit


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are UTF-8 there")
@pytest.mark.parametrize("url", ["../remote.git", "file"])
def test_a_folder_whose_name_is_no_utf_8(tmp_path: Path, url: str) -> None:
    """A relative address is taken from the top of the work tree, wherever that lies."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 "))
    odd.mkdir()
    remote, work = clone_with_remote(odd)
    git(work, "remote", "set-url", "origin", str(remote) if url == "file" else url)
    start_branch(work, "origin", BRANCH)
    assert add(work, 1).commit == git(remote, "rev-parse", BRANCH)
    assert nights_of(work) == [date(1)]


def test_nights_are_appended_one_commit_each(work: Path, remote: Path) -> None:
    for number in (1, 2, 3):
        done = add(work, number)
        assert (done.lines, done.messages) == (2, ())
        assert done.commit == git(remote, "rev-parse", BRANCH)
    history, commit = read_branch(work, "origin", BRANCH)
    assert history.series[series_id()].points == (point(1), point(2), point(3))
    assert history.nights == tuple(night(n, files=2, after=n - 1) for n in (1, 2, 3))
    assert commit == git(remote, "rev-parse", BRANCH)
    subjects = git(remote, "log", "--format=%s", BRANCH).splitlines()
    assert subjects == ["Night 3", "Night 2", "Night 1", "Start the history of the nightly"]
    assert git(remote, "log", "--format=%m", "--merges", BRANCH) == ""
    changed = git(remote, "diff", "--numstat", f"{BRANCH}~1", BRANCH).splitlines()
    lists = f"2\t2\t{FORMAT}"  # one line for each of the two files
    # Of what was measured nothing is taken away.
    assert changed == [lists, f"1\t0\t{path_of(series_id())}", f"1\t0\t{NIGHTS}"]
    assert git(remote, "fsck", "--strict") == ""


def test_the_same_night_again_changes_nothing(work: Path, remote: Path) -> None:
    add(work, 1)
    before = git(remote, "rev-parse", BRANCH)
    again = add(work, 1)
    assert (again.lines, again.commit) == (0, before)
    assert any("is there already" in message for message in again.messages)
    assert git(remote, "rev-parse", BRANCH) == before


def test_acceptances_and_events_are_appended(work: Path) -> None:
    add(work, 1)
    lines = {series_id(): [accept(1), event(2)]}
    source = Source(work, "origin", BRANCH)
    assert source.append_lines(lines, "Accept").lines == 2
    assert source.append_lines(lines, "Accept").lines == 0
    series = read_branch(work, "origin", BRANCH)[0].series[series_id()]
    assert (series.accepts, series.events) == ((accept(1),), (event(2),))
    with pytest.raises(RunciError, match=r"no series 'F\.linear"):
        source.append_lines({series_id(LINEAR): [accept(1)]}, "Accept")


def test_a_torn_end_is_removed_by_the_commit_that_appends(work: Path, remote: Path) -> None:
    add(work, 1)
    clone = work.parent / "clone"
    git(work, "clone", "-q", "-b", BRANCH, str(remote), str(clone))
    with (clone / path_of(series_id())).open("ab") as stream:
        stream.write(b'{"at":"2026-')
    git(clone, "-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-qam", "Torn")
    git(clone, "push", "-q")
    done = add(work, 2)
    assert any("torn (12 bytes)" in message for message in done.messages)
    history, _ = read_branch(work, "origin", BRANCH)
    assert (history.messages, history.series[series_id()].points) == ((), (point(1), point(2)))
    assert git(remote, "rev-list", "--count", BRANCH) == "4"


# What is not there


def test_a_branch_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    _, work = clone_with_remote(tmp_path)
    with pytest.raises(RunciError, match=r"`runci perf history --init`") as caught:
        read_branch(work, "origin", BRANCH)
    assert caught.value.code == Exit.USAGE
    with pytest.raises(RunciError, match="no such branch"):
        add(work, 1)


@pytest.mark.parametrize("address", ["nowhere", "{}/gone.git", "http://127.0.0.1:1/x.git"])
def test_a_remote_that_is_not_there_is_an_error(work: Path, address: str) -> None:
    address = address.format(work.parent)
    if address != "nowhere":
        git(work, "remote", "set-url", "origin", address)
    remote = "nowhere" if address == "nowhere" else "origin"
    message = "No such remote" if address == "nowhere" else "of origin: cannot be reached"
    for call in (
        lambda: read_branch(work, remote, BRANCH),
        lambda: start_branch(work, remote, BRANCH),
        lambda: append(work, remote, BRANCH, lambda _: added(1), "Night"),
    ):
        with pytest.raises(RunciError, match=message) as caught:
            call()
        assert caught.value.code == Exit.USAGE


def test_a_branch_of_something_else_is_an_error(work: Path, remote: Path) -> None:
    git(remote, "branch", "-m", BRANCH, "elsewhere")
    tree = git(remote, "mktree")
    names = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    commit = git(remote, *names, "commit-tree", tree, "-m", "Empty")
    git(remote, "update-ref", f"refs/heads/{BRANCH}", commit)
    with pytest.raises(RunciError, match=r"perf-history of origin: no format\.json"):
        read_branch(work, "origin", BRANCH)
    with pytest.raises(RunciError, match="no history"):
        add(work, 1)


def test_a_remote_s_name_is_no_option(work: Path) -> None:
    with pytest.raises(RunciError, match="of a remote"):
        read_branch(work, "--upload-pack=touch x", BRANCH)


def test_a_folder_without_git_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunciError):
        read_branch(tmp_path, "origin", BRANCH)


# What must stay as it is


def test_the_user_s_repository_stays_as_it_is(work: Path) -> None:
    (work / "staged").write_text("a")
    git(work, "add", "staged")
    (work / "staged").write_text("b")
    (work / "untracked").write_text("c")
    before = state(work)
    add(work, 1)
    read_branch(work, "origin", BRANCH)
    assert state(work) == before


def test_a_worktree_a_shallow_clone_and_a_hook_s_environment_will_do(
    work: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for message in ("one", "two"):
        git(work, *names, "commit", "-q", "--allow-empty", "-m", message)
    git(work, "push", "-q", "origin", "HEAD:main")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "-b", "main", f"file://{remote}", str(shallow))
    git(work, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    monkeypatch.setenv("GIT_DIR", str(work / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(work / ".git" / "index"))
    assert add(shallow, 1).lines == 2
    assert add(tmp_path / "linked", 2).lines == 2
    (tmp_path / "linked" / "below").mkdir()
    assert nights_of(tmp_path / "linked" / "below") == [date(1), date(2)]
    monkeypatch.delenv("GIT_DIR")
    assert git(shallow, "rev-parse", "--is-shallow-repository") == "true"
    assert git(shallow, "rev-list", "--count", "HEAD") == "1"


def test_a_remote_with_a_relative_path_is_taken_from_the_work_tree(work: Path) -> None:
    git(work, "remote", "set-url", "origin", "../remote.git")
    (work / "below").mkdir()
    assert add(work / "below", 1).lines == 2


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        ("--local", "remote.origin.pushurl", "{other}"),
        ("--global", "remote.origin.pushurl", "{other}"),
        ("--global", "url.{other}.pushInsteadOf", "{remote}"),
        ("--global", "url.{other}.insteadOf", "{remote}"),
    ],
)
def test_pushes_go_where_git_would_push(
    where: str,
    key: str,
    value: str,
    work: Path,
    remote: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "other.git"
    shutil.copytree(remote, other)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    places = {"other": other, "remote": remote}
    git(work, "config", where, key.format(**places), value.format(**places))
    before = git(remote, "rev-parse", BRANCH)
    assert add(work, 1).commit == git(other, "rev-parse", BRANCH)
    assert git(remote, "rev-parse", BRANCH) == before


def test_commits_are_by_who_git_says_else_by_runci(
    work: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")) or name == "EMAIL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    add(work, 1)
    git(work, "config", "user.name", "Ada")
    git(work, "config", "user.email", "ada@example.invalid")
    add(work, 2)
    names = git(remote, "log", "-2", "--format=%an <%ae>, %cn <%ce>", BRANCH).splitlines()
    own, neutral = "Ada <ada@example.invalid>", "runci <runci@users.noreply.invalid>"
    assert names == [f"{own}, {own}", f"{neutral}, {neutral}"]


def test_reading_asks_the_remote_once(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(work, 1)
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    read_branch(work, "origin", BRANCH)
    trace = (tmp_path / "trace").read_text()
    assert re.findall(r"built-in: git (fetch|ls-remote|pull|clone)\b", trace) == ["fetch"]


def test_nothing_is_left_in_the_temporary_folder(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    add(work, 1)
    with pytest.raises(RunciError):
        read_branch(work, "origin", "another")
    assert list((tmp_path / "tmp").iterdir()) == []


# Others push, or the remote refuses


def test_nights_that_push_at_once_are_all_there_once(
    work: Path, remote: Path, tmp_path: Path
) -> None:
    """Seven processes, two with the same night; the remote answers when three pushes have come."""
    log = tmp_path / "pushes"
    hook(remote, f"echo push >> {log}; until test $(wc -l < {log}) -ge 3; do sleep 0.05; done")
    numbers = [1, 2, 3, 4, 5, 6, 6]
    processes = []
    for place, number in enumerate(numbers):
        clone = tmp_path / f"clone{place % 4}"  # some share a repository
        if not clone.exists():
            shutil.copytree(work, clone)
        path = write_record(tmp_path, record(number))
        command = [sys.executable, "-m", "runci", "perf", "record", "--root", str(clone), str(path)]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    ends = [(process.communicate(timeout=120)[0], process.returncode) for process in processes]
    assert [status for _, status in ends] == [0] * len(numbers), ends
    history, _ = read_branch(work, "origin", BRANCH)
    six = [date(number) for number in (1, 2, 3, 4, 5, 6)]
    assert [night.night for night in history.nights] == six
    assert {len(series.points) for series in history.series.values()} == {6}
    assert len(history.series) == 3
    for series in history.series.values():
        assert [point.night for point in series.points] == six
    assert git(remote, "rev-list", "--count", BRANCH) == "7"
    assert len(log.read_text().split()) >= 6 + 2  # of the first three, two had to push again


def test_a_refused_push_is_tried_again_from_the_new_tip(
    work: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LONGEST_WAIT", 0.01)
    shutil.copytree(work, tmp_path / "other")
    seen: list[int] = []

    def changes(history: History) -> Additions:
        seen.append(len(history.nights))
        if len(seen) == 1:
            add(tmp_path / "other", 1)  # another night, after the fetch and before the push
        return added(2)

    assert append(work, "origin", BRANCH, changes, "Night").lines == 2
    assert seen == [0, 1]
    assert nights_of(work) == [date(1), date(2)]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_stopped_record_leaves_nothing_behind(work: Path, remote: Path, tmp_path: Path) -> None:
    before, mark, temporary = git(remote, "rev-parse", BRANCH), tmp_path / "mark", tmp_path / "tmp"
    temporary.mkdir()
    hook(remote, f"touch {mark}; sleep 30; exit 1")
    write_config(work)
    command = [sys.executable, "-m", "runci", "perf", "record", write_record(tmp_path, record(1))]
    with subprocess.Popen(
        command, cwd=work, env={**os.environ, "TMPDIR": str(temporary)}
    ) as process:
        until = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert any(temporary.glob("runci-history-*"))
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not any(temporary.glob("runci-*"))
    assert git(remote, "rev-parse", BRANCH) == before


def test_a_hook_that_refuses_once_costs_one_more_try(
    work: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LONGEST_WAIT", 0.01)
    mark = tmp_path / "mark"
    hook(remote, f"test -e {mark} && exit 0; touch {mark}; echo not now >&2; exit 1")
    assert add(work, 1).lines == 2
    assert mark.exists()
    assert nights_of(work) == [date(1)]


def test_a_remote_that_always_refuses_ends_the_command_with_what_to_do(
    work: Path, remote: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(store, "LONGEST_WAIT", 0.01)
    log = work.parent / "pushes"
    hook(remote, f"echo push >> {log}; exit 1")
    path = write_record(work.parent, record(1))
    before = git(remote, "rev-parse", BRANCH)
    assert main(["perf", "record", "--root", str(work), str(path)]) == Exit.FINDINGS
    said = capsys.readouterr().err
    assert "refused" in said
    assert "pre-receive hook declined" in said
    assert "(8 times): nothing was written" in said
    assert len(log.read_text().split()) == 8
    assert path.exists()
    assert git(remote, "rev-parse", BRANCH) == before


def test_no_push_is_forced(work: Path, remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that somebody replaced meanwhile is appended to as it is, not put back."""
    monkeypatch.setattr(store, "LONGEST_WAIT", 0.01)
    add(work, 1)
    tree = git(remote, "rev-parse", f"{BRANCH}~1^{{tree}}")
    names = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    replaced = git(remote, *names, "commit-tree", tree, "-m", "Another start")
    calls: list[int] = []

    def changes(history: History) -> Additions:
        calls.append(len(history.nights))
        git(remote, "update-ref", f"refs/heads/{BRANCH}", replaced)
        return added(2)

    append(work, "origin", BRANCH, changes, "Night")
    assert calls == [1, 0]
    assert git(remote, "rev-parse", f"{BRANCH}~1") == replaced


# Credentials


class _Recorder(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append({k.lower(): v for k, v in self.headers.items()})  # type: ignore[attr-defined]
        self.send_response(403)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Recorder) as running:
        running.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_credentials_reach_the_remote_and_no_command_line(
    work: Path, server: http.server.HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a checkout keeps them, a header in its settings; or a user in the address."""
    where = f"127.0.0.1:{server.server_port}"
    git(work, "config", f"http.http://{where}/.extraheader", "AUTHORIZATION: basic c2VjcmV0")
    git(work, "remote", "set-url", "origin", f"http://eve:hidden@{where}/a/b.git")
    log = tmp_path / "arguments"
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "git"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(RunciError, match="cannot be reached") as caught:
        read_branch(work, "origin", BRANCH)
    seen = server.seen  # type: ignore[attr-defined]
    assert seen[0]["authorization"] == "basic c2VjcmV0"
    assert "ls-remote" in log.read_text()
    for text in (log.read_text(), str(caught.value)):
        assert "c2VjcmV0" not in text
        assert "hidden" not in text


JOB = {"GITHUB_TOKEN": "t0ken", "GITHUB_SERVER_URL": "https://github.com"}
HERE = "https://github.com/octo/kernels"
HEADER = "AUTHORIZATION: basic " + base64.b64encode(b"x-access-token:t0ken").decode()


@pytest.mark.parametrize(
    ("environment", "urls", "settings", "expected"),
    [
        (JOB, (HERE, HERE), [], [("http.https://github.com/.extraheader", HEADER)]),
        (
            {**JOB, "GITHUB_SERVER_URL": "https://ghe.example.invalid:8443/"},
            ("https://ghe.example.invalid:8443/a/b",) * 2,
            [],
            [("http.https://ghe.example.invalid:8443/.extraheader", HEADER)],
        ),
        ({}, (HERE, HERE), [], []),
        ({"GITHUB_TOKEN": "t0ken"}, (HERE, HERE), [], []),
        ({**JOB, "GITHUB_TOKEN": ""}, (HERE, HERE), [], []),
        (JOB, (HERE, "https://elsewhere.invalid/a/b"), [], []),
        (JOB, ("https://github.com.elsewhere.invalid/a/b",) * 2, [], []),
        (JOB, ("https://github.com:8443/a/b",) * 2, [], []),
        (JOB, ("http://github.com/a/b",) * 2, [], []),
        (JOB, ("git@github.com:a/b.git",) * 2, [], []),
        (JOB, ("https://me:own@github.com/a/b",) * 2, [], []),
        (JOB, ("/a/folder",) * 2, [], []),
        (JOB, ("https://[broken",) * 2, [], []),
        ({**JOB, "GITHUB_SERVER_URL": "http://github.com"}, ("http://github.com/a/b",) * 2, [], []),
        (JOB, (HERE, HERE), [("http.https://github.com/.extraheader", "kept")], []),
        (
            JOB,
            (HERE, HERE),
            [("http.proxy", "http://p.invalid")],
            [("http.https://github.com/.extraheader", HEADER)],
        ),
    ],
)
def test_a_job_s_token_opens_its_own_server_only(
    environment: dict[str, str],
    urls: tuple[str, str],
    settings: list[tuple[str, str]],
    expected: list[tuple[str, str]],
) -> None:
    assert from_token(environment, urls, settings) == expected


def test_git_reads_settings_from_its_environment(tmp_path: Path) -> None:
    given = [("http.https://a.invalid/.extraheader", "A: b c"), ("core.x", "1\n2"), ("core.x", "3")]
    done = subprocess.run(
        ["git", "config", "-z", "--get-regexp", r"extraheader|^core\.x"],
        cwd=tmp_path,
        env={**os.environ, **as_environment(given)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == "".join(f"{key}\n{value}\0" for key, value in given)


def test_addresses_are_shown_without_users() -> None:
    text = "unable to access 'https://me:secret@example.invalid/x': and ssh://git@h/x, a@b"
    assert redacted(text) == (
        "unable to access 'https://***@example.invalid/x': and ssh://***@h/x, a@b"
    )


# The commands on the branch


def test_the_commands_work_on_the_branch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remote, work = clone_with_remote(tmp_path)
    write_config(work, "branch: figures/nightly\n")
    root = ["--root", str(work)]
    assert main(["perf", "history", *root]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "figures/nightly" in said and "no such branch" in said
    assert main(["perf", "history", *root, "--init"]) == Exit.OK
    assert main(["perf", "history", *root, "--init"]) == Exit.USAGE
    assert main(["perf", "history", *root]) == Exit.NOTHING
    path = write_record(tmp_path, record(1))
    assert main(["perf", "record", *root, str(path)]) == Exit.OK
    commit = git(remote, "rev-parse", "figures/nightly")
    assert f"4 lines appended in {commit[:12]}" in capsys.readouterr().out
    assert main(["perf", "history", *root, KERNEL]) == Exit.OK
    assert date(1) in capsys.readouterr().out
    target = tmp_path / "checked out"
    assert main(["perf", "history", *root, "--checkout", str(target)]) == Exit.OK
    files = git(remote, "ls-tree", "-r", "--name-only", "figures/nightly").splitlines()
    assert sorted(state(target)) == sorted(files)
    for name in files:
        assert (target / name).read_text().strip() == git(remote, "show", f"{commit}:{name}")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
