"""Stacks as plain data: what the tools print, what is folded, what stands once, what is told."""

from __future__ import annotations

import json
import sys

import pytest

from runci.run.stacks import (
    FRAMES,
    Frame,
    Process,
    Thread,
    brief,
    fold,
    from_faulthandler,
    from_pyspy,
    show,
    told,
)

from runci import register_cpu_ci  # isort: skip

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = "/repo"
TEST = Frame("test_a", "/repo/t/test_x.py", 16)
WAIT = Frame("Popen.wait", "/usr/lib/python3.11/multiprocessing/popen_fork.py", 43)
PYTEST = Frame("runtest", "/v/lib/python3.11/site-packages/_pytest/runner.py", 250)
PLUGGY = Frame("call", "/v/lib/python3.11/site-packages/pluggy/_caller.py", 197)
OURS = Frame("work", "/own/run/worker.py", 58)
RUNPY = Frame("_run_code", "<frozen runpy>", 88)
NATIVE = Frame("clock_nanosleep", "/lib/libc.so.6", 0, native=True)
EVAL = Frame("_PyEval_Vector", "/lib/libpython3.11.so.1.0", 0, native=True)

ANSWER = """\
noise of whoever wrote here
Thread 0x00007f540c2806c0 [worker] (most recent call first):
  File "/repo/t/test_x.py", line 3 in other
  File "/usr/lib/python3.11/threading.py", line ??? in run
  ...

Current thread 0x00007f540cdbab80 (most recent call first):
  Garbage-collecting
  File "/repo/a "b", line 1 in c.py", line 5 in <module>

  File "/repo/t/test_x.py", line 9 in of_nobody
Thread 0x00007f540cdbab81 (most recent call first):
  <no Python frame>
"""


def test_an_answer_of_faulthandler() -> None:
    main, other = from_faulthandler(ANSWER)
    assert main.frames == (Frame("<module>", '/repo/a "b", line 1 in c.py', 5),)
    assert other.name == "worker"
    assert [(f.function, f.line) for f in other.frames] == [("other", 3), ("run", 0)]
    assert from_faulthandler("") == from_faulthandler("Segmentation fault\n") == ()


def spied(number: int, name: str, *frames: dict[str, object]) -> dict[str, object]:
    return {"pid": 7, "os_thread_id": number, "thread_name": name, "frames": [*frames]}


def test_an_answer_of_pyspy() -> None:
    python = {"name": "test_a", "filename": "/repo/t/test_x.py", "module": None, "line": 16}
    native = {"name": "read", "filename": "/lib/libc.so.6", "module": "/lib/libc.so.6", "line": 0}
    answer = [spied(9, "worker", python), spied(7, "MainThread", native, python), spied(8, "")]
    main, other = from_pyspy(json.dumps(answer))
    assert (main.name, other.name) == ("MainThread", "worker")
    assert main.frames == (Frame("read", "/lib/libc.so.6", 0, native=True), TEST)


@pytest.mark.parametrize("text", ["", "Error: no", "{}", "[1]", '[{"pid": 1}]', "[[]]"])
def test_what_is_no_answer_of_pyspy(text: str) -> None:
    assert from_pyspy(text) == ()


@pytest.mark.parametrize(
    ("frames", "shown"),
    [
        ((WAIT, TEST, PYTEST, PLUGGY, OURS, RUNPY), [WAIT, TEST, 4]),
        ((TEST, PYTEST, WAIT, PLUGGY), [TEST, 1, WAIT, 1]),
        ((PYTEST, PLUGGY, TEST), [PYTEST, 1, TEST]),  # where it is stays
        ((NATIVE, EVAL, TEST, EVAL, PYTEST, EVAL), [NATIVE, EVAL, TEST, 1]),
        ((NATIVE, EVAL), [NATIVE, EVAL]),
        ((), []),
    ],
)
def test_fold(frames: tuple[Frame, ...], shown: list[Frame | int]) -> None:
    assert fold(frames, "/own/") == shown


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("RANK", True),
        ("LOCAL_RANK", True),
        ("WORLD_SIZE", True),
        ("LOCAL_WORLD_SIZE", True),
        ("MASTER_ADDR", True),
        ("MASTER_PORT", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("NCCL_DEBUG", True),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", True),
        ("GLOO_SOCKET_IFNAME", True),
        ("GITHUB_TOKEN", False),
        ("MY_NCCL_TOKEN", False),
        ("RANKING", False),
        ("FRANK", False),
        ("rank", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("MASTER_PASSWORD", False),
    ],
)
def test_variables_that_are_told(name: str, is_told: bool) -> None:
    environment = f"PATH=/bin\0{name}=a=b\0\0TOKEN=NCCL_DEBUG".encode()
    assert told(environment) == (((name, "a=b"),) if is_told else ())


def test_a_value_is_bounded_and_need_be_no_text() -> None:
    assert told(b"RANK=" + b"\xff" * 400)[0][1] == "\\xff" * 50


def rank(number: int, *threads: Thread, **more: object) -> Process:
    return Process(number, f"pid {number}", threads=threads, **more)  # type: ignore[arg-type]


def test_processes_at_the_same_place_stand_once() -> None:
    # py-spy names the class and sees native calls, faulthandler does neither.
    by_signal = Thread((Frame("wait", WAIT.file, 43), TEST), "")
    by_spy = Thread((NATIVE, WAIT, TEST), "MainThread")
    elsewhere = Thread((Frame("test_a", TEST.file, 17),), "MainThread")
    lines = show(
        [
            rank(1, by_signal, variables=(("RANK", "0"),)),
            rank(2, elsewhere),
            rank(3, by_spy, variables=(("RANK", "1"),)),
            rank(4, by_signal, state="D", channel="nv_wait", tasks=3),
        ],
        ROOT,
    )
    assert lines == [
        "test_a  t/test_x.py:16: pid 1 (rank 0), pid 3 (rank 1), pid 4",
        "test_a  t/test_x.py:17: pid 2",
        "3 processes:",
        "pid 1: sleeping, 1 thread RANK=0",
        "pid 3: sleeping, 1 thread RANK=1",
        "pid 4: in the kernel at nv_wait, 3 threads",
        "  thread MainThread",
        "    clock_nanosleep  (libc.so.6)",
        f"    Popen.wait  {WAIT.file}:43",
        "    test_a  t/test_x.py:16",
        "pid 2: sleeping, 1 thread",
        "  thread MainThread",
        "    test_a  t/test_x.py:17",
    ]


@pytest.mark.parametrize(
    ("threads", "words"),
    [
        ((Thread((NATIVE, WAIT, TEST, PYTEST)),), "test_a  t/test_x.py:16"),
        ((Thread((NATIVE, WAIT, Frame("f", "<string>", 3), PYTEST)),), "f  <string>:3"),
        ((Thread((WAIT, PYTEST)), Thread((TEST,))), f"Popen.wait  {WAIT.file}:43"),
        ((Thread((NATIVE,)),), "futex_wait"),
        ((), "futex_wait"),
    ],
)
def test_where_a_process_is_in_few_words(threads: tuple[Thread, ...], words: str) -> None:
    assert brief(rank(1, *threads, channel="futex_wait"), ROOT) == words
    assert brief(rank(1, channel="0", state="R"), ROOT) == "running"


def test_of_many_processes_at_one_place_all_are_named() -> None:
    many = [rank(n, Thread((TEST,)), variables=(("RANK", str(n)),)) for n in range(100, 200)]
    lines = show(many, ROOT)
    assert len(lines) < 20
    assert "pid 199 (rank 199)" in lines[-3]
    assert lines[1] == "100 processes:"
    assert lines[-1] == "    test_a  t/test_x.py:16"


def test_threads_at_the_same_place_stand_once() -> None:
    pool = [Thread((WAIT,), f"worker-{number}") for number in (1, 2)]
    lines = show([rank(1, Thread((TEST,), "MainThread"), *pool)], ROOT)
    assert lines[1::2] == ["  thread MainThread", "  2 threads: worker-1, worker-2"]


def test_programs_without_python_are_where_the_kernel_says() -> None:
    lines = show([rank(1, kernel=("futex_wait",)), rank(2, kernel=("futex_wait",)), rank(3)], ROOT)
    assert lines[:2] == ["sleeping: pid 1, pid 2, pid 3", "2 processes:"]
    assert lines[4:] == ["    futex_wait  (kernel)", "pid 3: sleeping, 1 thread"]


def test_a_deep_stack_is_cut_and_counted() -> None:
    deep = tuple(Frame(f"f{number}", "/repo/t/x.py", number) for number in range(FRAMES + 5))
    lines = show([rank(1, Thread(deep))], ROOT)
    assert len(lines) == 2 + FRAMES + 1
    assert (lines[2], lines[-1]) == ("    f0  t/x.py:0", "    ... 5 more")


def test_a_long_name_is_cut() -> None:
    shown = show([rank(1, Thread((Frame("f" * 4000, "/lib/libtorch.so", 0, native=True),)))], ROOT)
    assert len(shown[-1]) < 150


def test_files_of_packages_are_short() -> None:
    file = "/v/lib/python3.11/site-packages/torch/distributed/c10d.py"
    shown = show([rank(1, Thread((Frame("all_reduce", file, 3),)))], ROOT)[-1]
    assert shown == "    all_reduce  torch/distributed/c10d.py:3"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
