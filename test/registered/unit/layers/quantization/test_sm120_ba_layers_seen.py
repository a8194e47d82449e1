"""What SGLang's log says of the layers, and what the file counts; runs on the CPU.

Calls pass the hook as SGLang would make them, on a dispatcher whose launches are recorded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import BF16, Spec, pretend_sm120

from runci import register_cpu_ci
from sm120_ba import config, dispatch, layers_seen, sglang_hooks

register_cpu_ci(est_time=12, stage="base-a", runner_config="cpu")

NAME = "model.layers.{}.linear_attn.in_proj_ba"


def layer(number: int = 0, n: int = 48, k: int = 5120, dtype: torch.dtype = BF16) -> Any:
    return SimpleNamespace(prefix=NAME.format(number), weight=torch.zeros(n, k, dtype=dtype))


class SeenCase(unittest.TestCase):
    """SGLang initialized with the flag on, on what passes for a GPU of 12.0."""

    def setUp(self) -> None:
        self.runtime = pretend_sm120(self)
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        environ = {config.FLAG: "1", layers_seen.FOLDER: str(self.folder / "new")}
        self.enterContext(mock.patch.dict(os.environ, environ))
        self.enterContext(mock.patch.object(config, "_capability", return_value=(12, 0)))
        options = mock.patch.object(sglang_hooks, "_server_options", return_value=("auto", False))
        self.enterContext(options)
        self.addCleanup(layers_seen.start, {})
        self.addCleanup(config.reset)

    if sys.version_info < (3, 11):

        def enterContext(self, context: Any) -> Any:  # noqa: N802
            self.addCleanup(context.__exit__, None, None, None)
            return context.__enter__()

    def initialize(self) -> str:
        """As SGLang's scheduler does; the one line of the log."""
        with self.assertLogs("sm120_ba", "INFO") as logs:
            sglang_hooks.after_initialize(None)
        (line,) = logs.output
        return line

    def call(self, one: Any, rows: int = 4, bias: torch.Tensor | None = None) -> None:
        x = torch.ones(rows, one.weight.shape[1], dtype=one.weight.dtype)
        original = lambda _method, layer, x, bias: F.linear(x, layer.weight, bias)  # noqa: E731
        y = sglang_hooks.around_apply(original, None, one, x, bias)
        self.assertTrue(torch.equal(y, F.linear(x, one.weight, bias)))

    def lines(self, *calls: Any) -> list[str]:
        """The log of these calls, without the dispatcher's own."""
        with self.assertLogs("sm120_ba", "INFO") as logs:
            layers_seen.logger.info("first")
            for one in calls:
                one()
        return [line for line in logs.output[1:] if "sm120_ba.dispatch" not in line]

    def file(self) -> dict[str, Any]:
        layers_seen.current().write()
        (path,) = (self.folder / "new").iterdir()
        return json.loads(path.read_text("utf-8"))


class TestLog(SeenCase):
    """One line a size: which layers fit and which do not."""

    def test_a_model_without_a_fitting_layer(self) -> None:
        self.assertNotIn("enabled", self.initialize())
        lines = self.lines(
            *(lambda i=i: self.call(layer(i, 96)) for i in range(4)),
            *(lambda: self.call(layer(0, 96)) for _ in range(20)),
        )
        (line,) = lines
        for part in ("96 x 5120", "5120 to 96", NAME.format(0)):
            self.assertIn(part, line)
        self.assertEqual(dispatch.stats().fast, 0)

    def test_each_size_once(self) -> None:
        self.initialize()
        sizes = ((48, 5120, BF16), (96, 5120, BF16), (64, 2048, BF16), (48, 5120, torch.float16))
        layers = [layer(i, *sizes[i % 4]) for i in range(12)]
        lines = self.lines(*(lambda one=one: self.call(one) for one in layers * 3))
        self.assertEqual(len(lines), 4)
        self.assertIn("48 x 5120 take the kernel at 2 to 8", lines[0])
        for line, part in zip(
            lines[1:], ("5120 to 96", "2048 to 64", "torch.float16"), strict=True
        ):
            self.assertIn(part, line)
        again = self.initialize(), self.lines(lambda: self.call(layer()))
        self.assertEqual(len(again[1]), 1, "a new initialization says it again")

    def test_a_fitting_layer_that_still_falls_back_is_said_once(self) -> None:
        self.initialize()
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        calls = [lambda rows=rows: self.call(layer(), rows) for rows in (4, 5, 4, 5, 1, 64)]
        fits, surprise = self.lines(*calls)
        self.assertIn("take the kernel", fits)
        self.assertIn("DETERMINISTIC", surprise)

    def test_a_layer_is_proved_when_it_is_loaded_and_in_no_forward(self) -> None:
        self.runtime = pretend_sm120(self, warm=False)
        self.initialize()
        one = layer()
        (fits, cold) = self.lines(lambda: self.call(one))
        self.assertIn("where it was proved", fits)
        self.assertIn("NOT_PROVED", cold)
        self.assertEqual(self.runtime.loads, [])
        self.initialize()
        loaded = lambda one: sglang_hooks.after_loading(None, None, one)  # noqa: E731
        (line,) = self.lines(lambda: loaded(one), lambda: loaded(layer(1)), lambda: self.call(one))
        self.assertIn("48 x 5120 take the kernel at 2 to 8 tokens (", line)
        self.assertEqual((self.runtime.loads, dispatch.stats().fast), ([-1], 1))

    def test_loading_decides_where_nothing_was_initialized(self) -> None:
        self.runtime = pretend_sm120(self, warm=False)
        decided, line = self.lines(lambda: sglang_hooks.after_loading(None, None, layer()))
        self.assertIn("looking for layers", decided)
        self.assertIn("take the kernel", line)

    def test_other_layers_are_not_looked_at(self) -> None:
        self.runtime = pretend_sm120(self, warm=False)
        self.initialize()
        others = (SimpleNamespace(prefix="a.in_proj_qkvz"), SimpleNamespace())
        lines = self.lines(
            *(lambda one=one: sglang_hooks.after_loading(None, None, one) for one in others)
        )
        self.assertEqual((lines, self.runtime.loads), ([], []))

    def test_a_refused_proof_is_named(self) -> None:
        self.runtime = pretend_sm120(self, warm=False)
        self.runtime.failure = RuntimeError("no compiler")
        self.initialize()
        lines = self.lines(lambda: sglang_hooks.after_loading(None, None, layer()))
        self.assertIn("UNAVAILABLE", lines[-1])

    def test_proved_takes_the_sizes_of_the_table_on_more_gpus(self) -> None:
        self.runtime = pretend_sm120(self, (9, 0), warm=False)
        self.enterContext(mock.patch.dict(os.environ, {config.FLAG: "proved"}))
        self.enterContext(mock.patch.object(config, "_capability", return_value=(9, 0)))
        self.assertIn("its table", self.initialize())
        one, another = layer(0, 64, 2048), layer(1, 40)
        loaded = [
            lambda one=one: sglang_hooks.after_loading(None, None, one) for one in (one, another)
        ]
        fits, other = self.lines(*loaded, lambda: self.call(one, 15), lambda: self.call(another))
        self.assertIn("64 x 2048 take the kernel at 2 to 15 tokens (", fits)
        self.assertIn("5120 to 40", other)
        self.assertEqual(dispatch.stats().fast, 1)

    def test_what_is_expected_is_not_said(self) -> None:
        self.initialize()
        calls = [lambda rows=rows: self.call(layer(), rows) for rows in (1, 64)]
        self.assertEqual(len(self.lines(*calls)), 1)

    def test_not_enabled_says_and_counts_nothing_of_layers(self) -> None:
        with mock.patch.dict(os.environ, {config.FLAG: "0"}):
            self.assertIn("not enabled", self.initialize())
        self.assertEqual(self.lines(lambda: self.call(layer())), [])
        document = self.file()
        self.assertEqual((document["enabled"], document["layers"]), (False, {}))
        self.assertIn(config.FLAG, document["reason"])


class TestFile(SeenCase):
    """One JSON file a process."""

    def counts(self, document: dict[str, Any], number: int = 0) -> dict[tuple[Any, ...], Any]:
        calls = document["layers"][NAME.format(number)]["calls"]
        return {(c["rows"], c["captured"]): (c["kernel"], c["before"], c["why"]) for c in calls}

    def test_eager_calls_and_captured_sites_by_layer_and_rows(self) -> None:
        self.initialize()
        for rows in (4, 4, 1, 64, 8):
            self.call(layer(), rows)
        self.call(layer(1, 96))
        self.call(layer(), bias=torch.ones(48, dtype=BF16))
        capturing = mock.patch.object(layers_seen.current(), "_capturing", return_value=True)
        with capturing:
            for rows in (1, 4, 8):
                self.call(layer(), rows)
        document = self.file()
        self.assertEqual(
            self.counts(document),
            {
                (1, False): (0, 1, "ROWS"),
                (1, True): (0, 1, "ROWS"),
                (4, False): (2, 1, "BIAS"),
                (4, True): (1, 0, None),
                (8, False): (1, 0, None),
                (8, True): (1, 0, None),
                (64, False): (0, 1, "ROWS"),
            },
        )
        self.assertEqual(self.counts(document, 1), {(4, False): (0, 1, "WEIGHT_SHAPE")})
        kinds = {name: (one["size"], one["why_never"]) for name, one in document["layers"].items()}
        self.assertEqual(kinds[NAME.format(0)], ([48, 5120], None))
        self.assertEqual(kinds[NAME.format(1)][0], [96, 5120])
        self.assertIn("5120 to 96", kinds[NAME.format(1)][1])
        self.assertEqual((document["enabled"], document["pid"]), (True, os.getpid()))

    def test_it_is_written_soon_without_another_call(self) -> None:
        with mock.patch.object(layers_seen, "DELAY", 0.05):
            self.initialize()
            self.call(layer())
            (path,) = (self.folder / "new").iterdir()
            end = time.monotonic() + 10
            while not json.loads(path.read_text("utf-8"))["layers"] and time.monotonic() < end:
                time.sleep(0.02)
        self.assertEqual(self.counts(json.loads(path.read_text("utf-8")))[4, False], (1, 0, None))

    def test_an_earlier_initialization_writes_nothing_more(self) -> None:
        with mock.patch.object(layers_seen, "DELAY", 0.05):
            self.initialize()
            self.call(layer())
            self.initialize()
            time.sleep(0.3)
        (path,) = (self.folder / "new").iterdir()
        self.assertEqual(json.loads(path.read_text("utf-8"))["layers"], {})

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_forked_process_has_a_file_of_its_own(self) -> None:
        one, x = layer(), torch.ones(4, 5120, dtype=BF16)
        self.initialize()
        with mock.patch.object(layers_seen, "DELAY", 0.1):
            self.call(one)  # its timer runs, and the fork is made without it
            child = os.fork()
            if child == 0:
                layers_seen.current().count(one.prefix, x, one.weight, None, True)
                time.sleep(1)
                os._exit(0)
            os.waitpid(child, 0)
        paths = {path.stem.rpartition("-")[2]: path for path in (self.folder / "new").iterdir()}
        document = json.loads(paths[str(child)].read_text("utf-8"))
        self.assertEqual(self.counts(document)[4, False], (2, 0, None))

    def test_threads_lose_no_count(self) -> None:
        self.initialize()
        layers = [layer(i) for i in range(4)]
        work = lambda one: [self.call(one) for _ in range(50)]  # noqa: E731
        threads = [threading.Thread(target=work, args=(one,)) for one in layers * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            self.file()
            thread.join()
        document = self.file()
        for number in range(4):
            self.assertEqual(self.counts(document, number), {(4, False): (100, 0, None)})

    def test_a_folder_that_cannot_be_written_is_said_once(self) -> None:
        blocked = self.folder / "file"
        blocked.write_text("")
        with (
            mock.patch.dict(os.environ, {layers_seen.FOLDER: str(blocked)}),
            self.assertLogs("sm120_ba", "WARNING") as logs,
        ):
            sglang_hooks.after_initialize(None)
            self.call(layer())
            layers_seen.current().write()
        self.assertEqual(len(logs.output), 1)
        self.assertIn(str(blocked), logs.output[0])

    def test_without_the_variable_there_is_no_file(self) -> None:
        del os.environ[layers_seen.FOLDER]
        self.initialize()
        self.call(layer())
        self.assertEqual(list(self.folder.iterdir()), [])
        timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
        self.assertFalse([timer for timer in timers if not timer.finished.is_set()])

    def test_a_process_that_ends_has_written_and_two_do_not_share_a_file(self) -> None:
        code = (
            "import torch\n"
            "from sm120_ba import layers_seen\n"
            "seen = layers_seen.start()\n"
            "x, w = torch.ones(4, 5120).bfloat16(), torch.ones(48, 5120).bfloat16()\n"
            "seen.count('a.in_proj_ba', x, w, None, False)\n"
        )
        for _ in range(2):
            subprocess.run([sys.executable, "-c", code], check=True)
        documents = [json.loads(p.read_text("utf-8")) for p in (self.folder / "new").iterdir()]
        self.assertEqual(len(documents), 2)
        for document in documents:
            (call,) = document["layers"]["a.in_proj_ba"]["calls"]
            self.assertEqual((call["before"], call["why"]), (1, "NOT_CUDA"))

    def test_other_inputs_are_left_alone(self) -> None:
        self.initialize()
        weight = Spec().weight()
        for x in (None, (1, 2), torch.ones(2, 3, 5120, dtype=BF16)):
            layers_seen.current().count("a.in_proj_ba", x, weight, None, False)
        self.assertEqual(self.file()["layers"]["a.in_proj_ba"]["calls"], [])


if __name__ == "__main__":
    unittest.main()
