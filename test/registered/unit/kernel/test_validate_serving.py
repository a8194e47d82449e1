"""`validate serve` against a real server process: each planted fault is found, nothing else is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from serving_run import PAIR, command, manifest, requests, serve, servers, table, wait_for

from runci import register_cpu_ci
from sm120_ba.validate.serving.processes import free_port, is_alive

register_cpu_ci(est_time=75, stage="base-b", runner_config="cpu")

SIX = ("A1", "B1", "B2", "A2", "A3", "B3")


def test_equal_arms_have_no_difference(tmp_path: Path) -> None:
    """A fake model that sleeps, so that the time is that of the sleep."""
    text = manifest(server=("--step-ms", "20", "--gather-ms", "30"), boots=SIX)
    status, report, said = serve(tmp_path, text)
    assert (status, report["failures"]) == (0, []), said
    verdicts = {row[""] for row in table(report, "B against A")}
    assert verdicts <= {"within the margin", "undecided"}
    assert [row["equal in all boots"] for row in table(report, "Answers")] == [4, 4]
    assert not any(re.search("May be claimed: [12] at once", note) for note in report["notes"])
    for row in table(report, "Groups"):
        assert row["failed"] == 0
        assert row["most at once, sampled"] == row["at once"], row
    assert servers(tmp_path) == []
    assert (tmp_path / "out/report.svg").read_text().count("<svg") == 1
    check_records(tmp_path, said)


def check_records(folder: Path, said: str) -> None:
    for boot in SIX:
        measured = [one for one in requests(folder, boot) if one["concurrency"]]
        assert [(one["concurrency"], one["index"]) for one in measured if one["index"] == 0]
        assert sorted((one["concurrency"], one["index"]) for one in measured) == [
            (c, i) for c in (1, 2) for i in range(4)
        ]
        for one in measured:
            assert one["tokens"] == len(one["ids"]) == 4
            assert [count for _, count in one["chunks"]] == [1, 2, 3, 4]
            # Four steps of 20 ms: the first token after one of them, the last after all.
            assert one["ttft_s"] == one["chunks"][0][0] >= 0.02
            assert one["chunks"][-1][0] >= 0.08
        assert f"{boot}: " in said


def test_a_slowdown_is_claimed(tmp_path: Path) -> None:
    """Twenty times a sleep of 60 ms a request, which no noise of this machine is."""
    text = manifest(
        "slowdown:20",
        server=("--step-ms", "30"),
        boots=SIX,
        load="requests = 4\nconcurrencies = [2]",
        tokens=2,
    )
    status, report, said = serve(tmp_path, text)
    assert status == 1, said
    assert "output tokens/s" in {one["what"].partition(":")[0] for one in report["failures"]}
    assert {one["where"] for one in report["failures"]} == {"2 at once"}
    a, b = table(report, "Arms")
    assert a["output tokens/s"] > 5 * b["output tokens/s"]
    assert b["TTFT P50 ms"] > 5 * a["TTFT P50 ms"]


REQUEST_FAULTS = {  # by request of the group at 1: what its error must say
    "status_500": "status 500",
    "dropped_stream": "connection broke after 2 tokens",
    "fewer_tokens": "3 tokens came, and 4 were asked for",
    "error_in_stream": "error in the stream.*planted",
    "hang": "no end within 2 s, after 2 tokens",
    "no_done": r"without \[DONE\]",
    "no_tokens": "0 tokens came",
    "other_prompt_tokens": "counted 11 prompt tokens, and 10 were sent",
}


def test_a_server_may_open_a_port_far_above_its_own() -> None:
    assert all(free_port() + 10_000 < 65_536 for _ in range(50))


@pytest.mark.parametrize("endpoint", ["generate", "completions"])
def test_each_fault_of_a_request_is_found(tmp_path: Path, endpoint: str) -> None:
    names = [*REQUEST_FAULTS, *(["aborts"] if endpoint == "generate" else [])]
    expected = [REQUEST_FAULTS.get(name, "aborted.*planted") for name in names]
    text = manifest(
        ",".join(f"{name}:{i}" for i, name in enumerate(names, 1)),
        load="requests = 12\nconcurrencies = [1]",
        endpoint=endpoint,
        request_s=2.0,
    )
    status, report, said = serve(tmp_path, text)
    assert status == 1, said
    failures = [(one["where"], one["what"]) for one in report["failures"]]
    assert len(failures) == len(expected), failures
    for i, pattern in enumerate(expected):
        where, what = failures[i]
        assert where == f"B1, 1 at once, request {i}"
        assert re.search(pattern, what), what
    assert all(one["ended_s"] - one["admitted_s"] < 15 for one in requests(tmp_path, "B1"))
    # Every request is kept, and those around are whole.
    assert [one["error"] is None for one in requests(tmp_path, "B1")] == [
        *[False] * len(expected),
        *[True] * (12 - len(expected)),
    ]
    assert all(row[""].startswith("not judged") for row in table(report, "B against A"))


def test_another_token_is_found(tmp_path: Path) -> None:
    """The third request of B, which is the third of the first group."""
    for i, server in enumerate([(), ("--incremental",)]):
        folder = tmp_path / str(i)
        folder.mkdir()
        status, report, said = serve(folder, manifest("wrong_token:3", server=server))
        assert status == 1, said
        (failure,) = report["failures"]
        assert failure["where"] == "1 at once, request 2"
        a, b = (requests(folder, boot)[2]["ids"] for boot in PAIR)
        assert f"first the one at 1: {b[1]} in place of {a[1]}" in failure["what"]
        rows = {row["at once"]: row for row in table(report, "Answers")}
        assert (rows[1]["equal in all boots"], rows[1]["differ in B only"]) == (3, 1)
        assert (rows[2]["equal in all boots"], rows[2]["differ in B only"]) == (4, 0)


def test_without_token_ids_equality_is_unknown(tmp_path: Path) -> None:
    text = manifest("wrong_token:3", server=("--no-token-ids",), endpoint="completions")
    status, report, said = serve(tmp_path, text)
    assert status == 0, said
    assert [row["unknown"] for row in table(report, "Answers")] == [4, 4]
    assert any("unknown whether they are equal" in note for note in report["notes"])
    assert {one["tokens"] for one in requests(tmp_path, "B1")} == {4}


BOOT_FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("exit_at_start", {}, "ended with status 7 before it was healthy"),
    ("never_healthy", {"start_s": 2.0}, "not healthy within 2 s: /health gave status 503"),
    ("slow_start:30", {"start_s": 2.0}, "not healthy within 2 s"),
    (
        "crash:6",
        {"load": "requests = 8\nconcurrencies = [1]"},
        "the server ended with status 3 by itself",
    ),
]


@pytest.mark.parametrize(("fault", "options", "expected"), BOOT_FAULTS)
def test_a_boot_that_fails_keeps_the_rest(
    tmp_path: Path, fault: str, options: dict[str, Any], expected: str
) -> None:
    text = manifest(fault, boots=("B1", "A1"), **options)
    status, report, said = serve(tmp_path, text)
    assert status == 1, said
    assert any(one["where"] == "B1" and expected in one["what"] for one in report["failures"]), (
        report["failures"]
    )
    assert {row["failed"] for row in table(report, "Groups") if row["boot"] == "A1"} == {0}
    if fault.startswith("crash"):
        errors = [one["error"] for one in requests(tmp_path, "B1")]
        assert [error is None for error in errors] == [*[True] * 5, False, False, False]
    assert servers(tmp_path) == []


def test_a_slow_start_is_waited_for(tmp_path: Path) -> None:
    status, report, said = serve(tmp_path, manifest("slow_start:2"))
    assert status == 0, said
    waited = {row["boot"]: row["healthy after s"] for row in table(report, "Boots")}
    assert waited["B1"] > 1.5


def test_children_that_outlive_the_server_are_ended(tmp_path: Path) -> None:
    """One lost its parent, the other its environment; both have a session of their own."""
    status, report, said = serve(tmp_path, manifest("outliving_child,hidden_child"))
    assert status == 0, said
    killed = {row["boot"]: row["killed after SIGTERM"] for row in table(report, "Boots")}
    assert killed["A1"] == "none"
    pids = re.findall(r"\S+ \(pid (\d+)\)", killed["B1"])
    assert len(pids) == 2
    assert any("outlived SIGTERM" in note for note in report["notes"])
    assert not any(is_alive(int(pid)) for pid in pids)
    assert servers(tmp_path) == []


def test_a_server_that_queues_is_warned_of(tmp_path: Path) -> None:
    status, report, said = serve(
        tmp_path, manifest("narrow", server=("--step-ms", "20", "--gather-ms", "30"))
    )
    assert status == 0, said
    warned = [note for note in report["notes"] if "were seen to run" in note]
    assert len(warned) == 1
    assert "B1 was asked 2 requests at once, and at most 1" in warned[0]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, report, _ = serve(tmp_path, manifest(more=f"port = {port}"))
    assert status == 1
    assert [one["where"] for one in report["failures"] if "is taken" in one["what"]] == [*PAIR]


def test_the_warm_up_is_outside_timing(tmp_path: Path) -> None:
    load = "requests = 4\nconcurrencies = [2]\nwarm_up_prefix = 6"
    status, report, said = serve(tmp_path, manifest("status_500:1", load=load))
    assert status == 1, said
    assert [one["where"] for one in report["failures"]] == ["B1, warm-up, request 0"]
    rows = table(report, "Groups")
    assert [(row["at once"], row["requests"], row["failed"]) for row in rows] == [(2, 4, 0)] * 2
    # Six of ten ids were seen before, of the first measured request, too.
    first = [requests(tmp_path, boot)[1] for boot in PAIR]
    assert all(one["cached_tokens"] >= 6 for one in first)
    assert all(row["cached %"] >= 60 for row in rows)


def test_killed_in_the_middle_of_a_boot_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "manifest.toml"
    # On a port of its own, which the server that was left behind holds.
    port = f"port = {free_port()}"
    text = manifest("slowdown:150", server=("--step-ms", "1"), more=port)
    path.write_text(text)
    out = tmp_path / "out"
    words = command(path, "--out", str(out))
    harness = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: (out / "B1/requests.jsonl").exists() and bool(requests(tmp_path, "B1")))
    harness.kill()
    harness.wait()
    assert len(servers(tmp_path)) == 1
    before = {file.name: file.read_bytes() for file in (out / "A1").iterdir()}

    path.write_text(text.replace("slowdown:150", "slowdown:2"))
    other = subprocess.run([*words, "--resume"], capture_output=True, text=True, check=False)
    assert (other.returncode, "manifest" in other.stderr) == (2, True), other.stderr
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (again.returncode, "--resume" in again.stderr) == (2, True), again.stderr

    status, report, said = serve(tmp_path, text, "--resume")
    assert status == 0, said
    assert {file.name: file.read_bytes() for file in (out / "A1").iterdir()} == before
    assert requests(tmp_path, "B1.broken-1")
    assert len(requests(tmp_path, "B1")) == 8
    assert any("B1.broken-1" in note for note in report["notes"])
    assert servers(tmp_path) == []

    # Nothing is left to run: the report is made anew, and is the same.
    picture = (out / "report.svg").read_bytes()
    assert serve(tmp_path, text, "--resume")[:2] == (0, report)
    assert (out / "report.svg").read_bytes() == picture


@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGINT, ()), (signal.SIGHUP, ()), (signal.SIGTERM, (signal.SIGHUP,))],
)
def test_a_signal_ends_the_server_too(
    tmp_path: Path, number: signal.Signals, ignored: tuple[signal.Signals, ...]
) -> None:
    """One that the command was started to ignore, as by nohup, does nothing."""

    def signals() -> None:
        for one in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(one, signal.SIG_IGN if one in ignored else signal.SIG_DFL)

    path = tmp_path / "manifest.toml"
    path.write_text(manifest(server=("--step-ms", "500")))
    out = tmp_path / "out"
    words = command(path, "--out", str(out))
    harness = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=signals,  # noqa: PLW1509 (there are no threads)
    )
    wait_for(lambda: (out / "A1/requests.jsonl").exists() and bool(servers(tmp_path)))
    for one in ignored:
        harness.send_signal(one)
    beside = subprocess.run([*words, "--resume"], capture_output=True, text=True, check=False)
    assert (beside.returncode, "another run" in beside.stderr) == (2, True), beside.stderr
    assert len(servers(tmp_path)) == 1
    harness.send_signal(number)
    _, said = harness.communicate(timeout=30)
    assert (harness.returncode, "Traceback" in said) == (130, False), said
    assert servers(tmp_path) == []
    assert not (out / "A1/boot.json").exists()


def test_a_real_model(tmp_path: Path) -> None:
    """The small random Qwen3-Next, which answers the same after each boot."""
    text = manifest(
        server=("--model", "small"),
        load="requests = 2\nconcurrencies = [1]",
        endpoint="completions",
        start_s=110.0,
        request_s=60.0,
    )
    status, report, said = serve(tmp_path, text)
    assert status == 0, said
    assert [row["equal in all boots"] for row in table(report, "Answers")] == [2]
    assert report["compared"] == 4
    assert json.dumps(report).count("SHA-256") >= 2


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
