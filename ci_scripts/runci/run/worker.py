"""The child that runs test files: through pytest, or as scripts (`python FILE`), counted alike.

It runs in a fork of the server, or in a fresh interpreter: `python -m runci.run.worker SPEC`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runci.core.selected import Selected
from runci.run import processes
from runci.run.events import Sink

Only = Mapping[str, Sequence[str]]  # by file, the tests of it that run
_ARGUMENTS = ("-v", "--capture=no", "--continue-on-collection-errors")


def warm_up() -> None:
    """Import what each child would: pytest and its installed plugins, but nothing of the project.

    An empty session loads the plugins as pytest does, with their asserts rewritten, which takes
    longer than most test files.
    """
    import tempfile

    import pytest

    importlib.import_module("runci.run.scripts")
    added = os.environ.pop("PYTEST_ADDOPTS", None)
    with tempfile.TemporaryDirectory(prefix="runci-") as folder:
        (Path(folder) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        options = ["-q", "--collect-only", "--capture=no", "-p", "no:cacheprovider"]
        pytest.main([*options, "-c", f"{folder}/pytest.ini", f"--rootdir={folder}", folder])
    if added is not None:
        os.environ["PYTEST_ADDOPTS"] = added


def work(spec: Mapping[str, Any], events: int, answers: int) -> int:
    """Run the job's files, report each test on `events`; gives the exit status.

    Asked by `processes.ASK`, it and its forks write their stacks to `answers`.
    """
    _own_state(answers)
    sink = Sink(events, spec["tool_log"])
    _note_own_signals(sink)
    files: Sequence[str] = spec["files"]
    processes.name_this(files[0].rpartition("/")[2])
    only: Only = spec["only"]
    selected = Selected.of(spec["selected"])
    try:
        if spec["script"]:
            code = _script(files[0], sink, only, selected)
        else:
            options = spec["options"]
            code = run_pytest(files, spec["root"], sink, only, selected, options=options)
    except Exception as error:
        from runci.run.raised import chain, is_ours

        if is_ours(error):
            sink.send({"event": "fault", "message": f"{type(error).__name__}: {error}"})
        else:
            for file in files:
                sink.send({"event": "raised", "test": file, "raised": [chain(error)]})
        raise
    sink.send({"event": "done", "code": code})
    return code


def _note_own_signals(sink: Sink) -> None:
    """Tell of each signal that this process sends to itself, its group or its keeper.

    Who sent a SIGKILL cannot be asked afterwards, and a test that ends itself by one has failed.
    """
    own = {0, -1, os.getpid(), -os.getpid(), os.getppid()}

    def note(number: int) -> None:
        sink.send({"event": "signal", "name": processes.signal_name(number)})

    def noted(event: str, arguments: tuple[Any, ...]) -> None:
        to_itself = event in ("os.kill", "os.killpg") and arguments[0] in own
        if (to_itself or event == "signal.pthread_kill") and arguments[1]:
            note(arguments[1])

    def raise_signal(number: int) -> None:
        note(number)
        original(number)

    sys.addaudithook(noted)
    original, signal.raise_signal = signal.raise_signal, raise_signal  # which has no audit event


def _own_state(answers: int) -> None:
    """Undo what a fork shares: the stacks' destination, random state."""
    import faulthandler

    with contextlib.suppress(OSError, ValueError):
        # Who is told to end says where every thread was; the parent shows it if it has not looked.
        kept = stat.S_ISREG(os.fstat(answers).st_mode)
        last = answers if kept else os.dup(2)
        faulthandler.register(signal.SIGTERM, last, all_threads=True, chain=True)
        faulthandler.register(processes.ASK, answers, all_threads=True)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def run_pytest(
    files: Sequence[str],
    root: str,
    sink: Sink,
    only: Only,
    selected: Selected,
    *,
    options: Sequence[str] = (),
    debugger: bool = False,
) -> int:
    """pytest's exit status; each test is told to `sink`, unless a person is at the debugger."""
    import shutil
    import tempfile

    import pytest

    from runci.run.narrow import PytestNarrow
    from runci.run.reporter import PytestReporter, PytestSelection

    sys.argv = ["pytest", *files]
    # A cache of its own: several children would write one at once, and `--lf` leaves nothing out.
    cache = Path(tempfile.gettempdir()) / f"runci-cache-{os.getpid()}"
    # It cannot be written where a name is no text.
    kept = ["-o", f"cache_dir={cache}"] if all(map(_is_text, files)) else ["-p", "no:cacheprovider"]
    given = [*selected.options, *selected.arguments]
    # Of an option that stands there twice pytest takes the last: ours come after the suite's.
    # Files before what is given: an option may take the word after it.
    arguments = [*options, *_ARGUMENTS, f"--rootdir={root}", *kept, *files, *given]
    arguments += ["--pdb"] if debugger else []
    plugins: list[object] = [] if debugger else [PytestReporter(sink)]
    if selected:
        plugins.append(PytestNarrow(sink, selected, files))
    if only:  # the last is the first to choose
        plugins.append(PytestSelection(sink, only))
    try:
        return int(pytest.main(arguments, plugins=plugins))
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _is_text(name: str) -> bool:
    return name.isascii() or name.encode("utf-8", "replace").decode() == name


def _script(file: str, sink: Sink, only: Only, selected: Selected) -> int:
    """As `python FILE` would; a status that says nothing of failed tests does not hide them.

    A selection is made where the script's tests run, since no two main blocks take arguments alike.
    """
    import runpy
    import traceback

    from runci.run.raised import chain
    from runci.run.scripts import watch_scripts

    watch_scripts(sink, file, only.get(file, ()), selected)
    sys.argv = [file]
    sys.path[0] = os.path.dirname(os.path.abspath(file))  # noqa: PTH100, PTH120
    sink.send({"event": "start", "test": file})
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return int(error.code or 0)
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
        sink.send({"event": "raised", "test": file, "raised": [chain(error)]})
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    """The fresh interpreter."""
    spec = json.loads(arguments[0])
    events, answers = int(spec["events"]), int(spec["answers"])
    if spec["tool"]:
        from runci.run.instrumented import own_descriptor

        events, answers = (own_descriptor(one, spec["holder"]) for one in (events, answers))
    for descriptor in (events, answers):
        os.set_inheritable(descriptor, False)
    return work(spec, events, answers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
