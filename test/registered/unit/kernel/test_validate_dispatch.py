"""The dispatch audit: what was expected, what was found, and every difference; runs on the CPU.

Kernels are played by `torch.mm`; which branch ran is read from the dispatcher's counts.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import torch
from planted_models import play_sm120, refused_by, tiny
from validating import two_ranks, validate

from runci import register_cpu_ci
from sm120_ba import config, dispatch
from sm120_ba.config import Mode
from sm120_ba.graph_audit import BA_KERNEL, names_in
from sm120_ba.reasons import Reason
from sm120_ba.validate.dispatch import (
    KERNEL,
    LINEAR,
    Graph,
    Seen,
    Site,
    Weight,
    audit,
    expected_answer,
    judge,
)

register_cpu_ci(est_time=40, stage="base-b", runner_config="cpu")

LAYER = "layers.0.in_proj_ba"
BA = Weight((48, 5120))


def model() -> torch.nn.Module:
    return tiny("cpu").eval().requires_grad_(False)


def sites(report: Mapping[str, Any], rank: int = 0) -> dict[tuple[str, int, bool], str]:
    found = report["details"]["ranks"][rank]["sites"]
    return {(one["layer"], one["m"], one["captured"]): one["answer"] for one in found}


class TestExpected(unittest.TestCase):
    """Branch: data only."""

    def test_expected_answer(self) -> None:
        proved = {2: None, 3: "BITS_DIFFER", 4: None}
        table: list[tuple[Weight, int, Mode, Reason | None, str]] = [
            (BA, 2, Mode.ALLOWLIST, None, KERNEL),
            (BA, 3, Mode.ALLOWLIST, None, "BITS_DIFFER"),
            (BA, 8, Mode.ALLOWLIST, None, "NOT_PROVED"),
            (BA, 1, Mode.ALLOWLIST, None, "ROWS"),
            (BA, 9, Mode.ALLOWLIST, None, "ROWS"),
            (BA, 9, Mode.PROVED, None, "ROWS"),
            (BA, 2, Mode.ALLOWLIST, Reason.NOT_SM120, "NOT_SM120"),
            (Weight((48, 5120), bias=True), 2, Mode.ALLOWLIST, Reason.NOT_SM120, "BIAS"),
            (Weight((48, 5120), "torch.float32"), 2, Mode.ALLOWLIST, None, "DTYPE"),
            (Weight((48, 5120), requires_grad=True), 2, Mode.ALLOWLIST, None, "REQUIRES_GRAD"),
            (Weight((64, 2048)), 2, Mode.ALLOWLIST, None, "COLUMNS"),
            (Weight((64, 2048)), 2, Mode.PROVED, None, KERNEL),
            (Weight((96, 5120)), 2, Mode.ALLOWLIST, None, "WEIGHT_SHAPE"),
            (Weight((64, 2048)), 16, Mode.PROVED, None, "ROWS"),
            (Weight((64, 2048)), 64, Mode.PROVED, None, "ROWS"),
        ]
        for weight, m, mode, refusal, answer in table:
            with self.subTest(weight=weight, m=m, mode=mode, refusal=refusal):
                self.assertEqual(expected_answer(weight, m, mode, refusal, proved), answer)

    def test_judge(self) -> None:
        eager, graph = Site(LAYER, 4, captured=False), Site(LAYER, 4, captured=True)
        calls = {eager: 2, graph: 2}

        def seen(rank: int = 0, **changed: Any) -> Seen:
            answers = dict.fromkeys(calls, KERNEL)
            found = {"answers": answers, "expected": answers, "calls": calls} | changed
            return Seen(rank, **found)

        def graphs(arm: str, **nodes: int) -> tuple[Graph, ...]:
            return (Graph(4, arm, {**nodes, "gemm": 1}),)

        rows = {eager: "ROWS", graph: "ROWS"}
        mixed = {eager: KERNEL, graph: "ROWS"}
        table = {
            "as expected": ([seen()], 0),
            "two ranks alike": ([seen(), seen(1)], 0),
            "kernel in place of F.linear": ([seen(expected=rows)], 2),
            "F.linear in place of the kernel": ([seen(answers=rows)], 2),
            "in the graph only": ([seen(answers=mixed)], 1),
            "another reason": ([seen(answers=rows, expected={**rows, eager: "NOT_CUDA"})], 1),
            "any reason": ([seen(answers=rows, expected=dict.fromkeys(rows, LINEAR))], 0),
            "any reasons": (
                [
                    seen(
                        answers={**rows, eager: "NOT_CUDA+ROWS"},
                        expected=dict.fromkeys(rows, LINEAR),
                    )
                ],
                0,
            ),
            "the kernel among them": (
                [
                    seen(
                        answers={**rows, eager: "ROWS+kernel"}, expected=dict.fromkeys(rows, LINEAR)
                    )
                ],
                1,
            ),
            "no reason": ([seen(answers={eager: "not counted"}, expected={eager: LINEAR})], 1),
            "not called": ([seen(answers={eager: KERNEL})], 1),
            "not expected": ([seen(expected={eager: KERNEL})], 1),
            "both answers": ([seen(answers={**mixed, graph: "ROWS+kernel"})], 1),
            "ranks that differ": ([seen(), seen(1, answers=rows, expected=rows)], 2),
            "a rank without a call": ([seen(), seen(1, answers={}, expected={})], 2),
            "nodes": ([seen(graphs=graphs("candidate", **{BA_KERNEL: 2}))], 0),
            "a node too few": ([seen(graphs=graphs("candidate", **{BA_KERNEL: 1}))], 1),
            "a node too many": ([seen(graphs=graphs("candidate", **{BA_KERNEL: 3}))], 1),
            "no node": ([seen(graphs=graphs("candidate"))], 1),
            "nodes of F.linear": (
                [seen(answers=rows, expected=rows, graphs=graphs("candidate", **{BA_KERNEL: 1}))],
                1,
            ),
            "baseline": ([seen(graphs=graphs("baseline"))], 0),
            "a node in the baseline": ([seen(graphs=graphs("baseline", **{BA_KERNEL: 1}))], 1),
            "a call in the baseline": ([seen(baseline_calls=1)], 1),
        }
        for case, (ranks, count) in table.items():
            with self.subTest(case):
                self.assertEqual(len(judge(ranks)), count, judge(ranks))
        (failure, _) = judge(table["ranks that differ"][0])
        self.assertIn("rank 1: ROWS", failure.what)


class TestModel(unittest.TestCase):
    """Branch: calls of a model, on the CPU or on what passes for a GPU of 12.0."""

    def test_on_the_cpu_all_fall_back_which_is_expected(self) -> None:
        words = ("dispatch", "--model", "small", "--rows", "1,2,4,8,9")
        status, report, printed = validate(*words)
        self.assertEqual((status, report["compared"]), (0, 15), printed)
        self.assertEqual(set(sites(report).values()), {"NOT_CUDA"})
        self.assertIn("NOT_CUDA", report["notes"][0])

    def test_played_it_takes_the_kernel_at_2_to_8(self) -> None:
        play_sm120(self)
        report = audit(model(), (1, 2, 3, 8, 9))
        self.assertEqual(report.failures, ())
        wanted = {1: "ROWS", 2: KERNEL, 3: KERNEL, 8: KERNEL, 9: "ROWS"}
        found = sites({"details": report.details})
        self.assertEqual({m: found[LAYER, m, False] for m in wanted}, wanted)

    def test_a_call_that_falls_back_against_expectation(self) -> None:
        play_sm120(self)
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.addCleanup(dispatch.DEFAULT._devices.clear)
        report = audit(model(), (4,), expect=lambda _layer, _m: KERNEL)
        self.assertEqual(report.status, 1)
        self.assertEqual(len(report.failures), 2)
        self.assertIn("DETERMINISTIC", report.failures[0].what)

    def test_one_layer_that_differs_is_named(self) -> None:
        play_sm120(self)
        one = model()
        one.layers[1]["in_proj_ba"].weight.data = torch.randn(5120, 48).bfloat16().t()
        report = audit(one, (4,))
        (failure,) = report.failures
        self.assertIn("layers.1.in_proj_ba, M=4, eager", failure.where)
        self.assertIn("STRIDES", failure.what)
        self.assertEqual(audit(one, (4,), layers=["layers.0.*"]).status, 0)

    def test_the_model_is_as_before(self) -> None:
        one = model()
        before = {name: list(vars(module)) for name, module in one.named_modules()}
        audit(one, (2,))
        after = {name: list(vars(module)) for name, module in one.named_modules()}
        self.assertEqual(after, before)


class TestForce(unittest.TestCase):
    """Branch: what a proof refuses, and `force=True` from Python alone."""

    def test_what_is_refused_falls_back_and_force_says_bits_may_differ(self) -> None:
        for reason in ("BITS_DIFFER", "NOT_FASTER"):
            with self.subTest(reason):
                play_sm120(self, refused_by(reason, (3, 4)))
                plain = audit(model(), (2, 3, 4), mode="proved")
                forced = audit(model(), (2, 3, 4), mode="proved", force=True)
                again = audit(model(), (2, 3, 4), mode="proved")
                self.assertEqual([one.status for one in (plain, forced, again)], [0, 0, 0])
                for report, answer in ((plain, reason), (forced, KERNEL), (again, reason)):
                    found = sites({"details": report.details})
                    self.assertEqual(found[LAYER, 4, False], answer)
                    self.assertEqual(found[LAYER, 2, False], KERNEL)
                    self.assertEqual(report.settings["force"], answer == KERNEL)
                    told = "48 x 5120, M=4" in " ".join(report.notes)
                    self.assertEqual(told, answer == KERNEL)

    def test_force_takes_no_void_proof_and_no_other_gpu(self) -> None:
        play_sm120(self, refused_by("NO_POWER", (4,)))
        found = sites({"details": audit(model(), (4,), force=True).details})
        self.assertEqual(found[LAYER, 4, False], "NO_POWER")
        play_sm120(self, refused_by("BITS_DIFFER", (4,)), (9, 0))
        found = sites({"details": audit(model(), (4,), force=True).details})
        self.assertEqual(found[LAYER, 4, False], "NOT_SM120")

    def test_force_is_for_the_m_that_were_asked_for(self) -> None:
        played = play_sm120(self, refused_by("BITS_DIFFER", tuple(range(2, 9))))
        played.warmup("cpu")
        with self.assertLogs("sm120_ba", "WARNING"):
            self.assertIsNone(played.warmup("cpu", rows=[4], force=True))
        (proof,) = played.proof()["proofs"]
        forced = {int(m): row["forced"] for m, row in proof["rows"].items() if row["forced"]}
        self.assertEqual(forced, {4: "BITS_DIFFER"})
        x, weight = (torch.ones(n, 5120, dtype=torch.bfloat16) for n in (5, 48))
        self.assertIsNone(played.why_not(x[:4], weight))
        self.assertEqual(played.why_not(x, weight), Reason.BITS_DIFFER)

    def test_no_option_sets_it(self) -> None:
        for word in ("--force", "--force=1"):
            status, _, printed = validate("dispatch", "--model", "planted_models:tiny", word)
            self.assertEqual(status, 2, printed)


class TestExpectations(unittest.TestCase):
    """Branch: the file of --expect, with a model that never takes the kernel."""

    def audited(self, text: str) -> tuple[int, dict[str, Any], str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "expect.json")
            path.write_text(text)
            words = ("--model", "planted_models:tiny", "--rows", "1,2", "--expect", str(path))
            return validate("dispatch", *words)

    def test_status(self) -> None:
        table = [
            ('{"*": {"1-2": "NOT_CUDA"}}', 0, 0),
            ('{"*": {"1-2": "F.linear"}}', 0, 0),
            ('{"layers.0.*": {"1": "NOT_CUDA", "2": "kernel"}, "*": {"1,2": "F.linear"}}', 1, 1),
            ('{"*": {"1-2": "ROWS"}}', 1, 4),
            ('{"*": {"1": "NOT_CUDA"}}', 1, 2),
            ('{"other": {"1-2": "NOT_CUDA"}}', 1, 4),
            ("{}", 1, 4),
        ]
        for text, status, failures in table:
            with self.subTest(text):
                found, report, printed = self.audited(text)
                self.assertEqual((found, len(report["failures"])), (status, failures), printed)

    def test_wrong_files_are_2_and_named(self) -> None:
        wrong = ("", "[]", "1", '{"*": 1}', '{"*": {"0": "ROWS"}}', '{"*": {"x": "ROWS"}}')
        for text in (*wrong, '{"*": {"1": "rows"}}', '{"*": {"1": 1}}', '{"*": {"1": ["ROWS"]}}'):
            with self.subTest(text):
                status, report, printed = self.audited(text)
                self.assertEqual((status, report), (2, {}))
                self.assertIn("expect.json", printed)

    def test_wrong_use_is_2(self) -> None:
        tiny_model = ("--model", "planted_models:tiny")
        for words in (
            (),
            (*tiny_model, "--stats", "."),
            (*tiny_model, "--expect", "/nowhere.json"),
            (*tiny_model, "--rows", "0"),
            (*tiny_model, "--rows", "4-2"),
            (*tiny_model, "--rows", ""),
            (*tiny_model, "--rows", "1-100000000000"),
            (*tiny_model, "--layers", "nothing.*"),
            (*tiny_model, "--device", "cuda:77"),
            (*tiny_model, "--device", "gpu"),
            (*tiny_model, "--steps", "0"),
            ("--model", "planted_models:no_embedding"),
            ("--model", "planted_models:nothing"),
            ("--stats", "/nowhere"),
        ):
            with self.subTest(words):
                self.assertEqual(validate("dispatch", *words)[0], 2)


RANK = """
import os, sys, torch, unittest
import torch.distributed as distributed
distributed.init_process_group("gloo")
from types import SimpleNamespace
from unittest import mock
from planted_models import play_sm120, refused_by
from sm120_ba import config, layers_seen, sglang_hooks
test = unittest.TestCase()
refused = tuple(map(int, sys.argv[1 + distributed.get_rank()].split(",")))
play_sm120(test, refused_by("BITS_DIFFER", refused))
with mock.patch.object(config, "_capability", return_value=(12, 0)), mock.patch.object(
    sglang_hooks, "_server_options", return_value=("auto", False)
):
    for number in range(2):
        name = f"model.layers.{number}.linear_attn.in_proj_ba"
        layer = SimpleNamespace(prefix=name, weight=torch.ones(48, 5120).bfloat16())
        sglang_hooks.after_loading(None, None, layer)
        for m in (1, 2, 4):
            x = torch.ones(m, 5120).bfloat16()
            sglang_hooks.around_apply(lambda *a: torch.ones(1), None, layer, x)
layers_seen.current().write()
"""


class TestTwoRanks(unittest.TestCase):
    """Branch: two processes that meet over gloo."""

    def test_models_of_two_ranks(self) -> None:
        for name, status in (("tiny", 0), ("tiny_with_a_bias_at_rank_1", 1)):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "report.json")
                words = ("--model", f"planted_models:{name}", "--rows", "2")
                command = ("-m", "sm120_ba", "validate", "dispatch", *words, "--report", str(path))
                first, second = two_ranks(*command)
                self.assertEqual((first.returncode, second.returncode), (status,) * 2, first.stderr)
                self.assertEqual(second.stdout, "")
                report = json.loads(path.read_text())
                self.assertEqual(report["settings"]["ranks"], 2)
                self.assertEqual(report["tables"][0]["columns"][-2:], ["rank 0", "rank 1"])
                self.assertEqual(sites(report, 0)[LAYER, 2, False], "NOT_CUDA")
                answer = "BIAS" if status else "NOT_CUDA"
                self.assertEqual(sites(report, 1)[LAYER, 2, False], answer)
                self.assertEqual(len(report["failures"]), 2 * status)

    def test_the_files_of_a_server_s_ranks(self) -> None:
        for refused, status in ((("9", "9"), 0), (("9", "4"), 1)):
            with self.subTest(refused), tempfile.TemporaryDirectory() as folder:
                environ = {"SM120_BA_STATS_DIR": folder, config.FLAG: "1"}
                for one in two_ranks("-c", RANK, *refused, **environ):
                    self.assertEqual(one.returncode, 0, one.stderr)
                found, report, printed = validate("dispatch", "--stats", folder)
                self.assertEqual(found, status, printed)
                for rank, rows in enumerate(refused):
                    answers = sites(report, rank)
                    wanted = {1: "ROWS", 2: KERNEL, 4: "BITS_DIFFER" if rows == "4" else KERNEL}
                    name = "model.layers.1.linear_attn.in_proj_ba"
                    self.assertEqual({m: answers[name, m, False] for m in wanted}, wanted)
                differ = [one for one in report["failures"] if "ranks differ" in one["what"]]
                self.assertEqual(len(differ), 2 * status)
                expect = Path(folder, "expect.json")
                expect.write_text('{"*": {"1": "ROWS", "2-8": "kernel"}}')
                words = ("dispatch", "--stats", folder, "--expect", str(expect))
                self.assertEqual(validate(*words)[0], 0 if refused == ("9", "9") else 1)


class TestStats(unittest.TestCase):
    """Branch: files of a server that are not as they should be."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, pid: int = 1, **changed: Any) -> None:
        call = {"rows": 4, "captured": True, "kernel": 1, "before": 0, "why": None}
        layer = {"size": [48, 5120], "dtype": "torch.bfloat16", "why_never": None}
        rows = {"4": {"refused": None, "forced": None}}
        document = {
            "version": 3,
            "rank": None,
            "ranks": None,
            "enabled": True,
            "mode": "1",
            "proofs": [{"shape": "48 x 5120", "keys": {}, "rows": rows}],
            "layers": {"a.in_proj_ba": {**layer, "calls": [call]}},
        }
        path = self.folder / f"sm120_ba-host-{pid}.json"
        path.write_text(json.dumps({**document, **changed}))

    def test_status(self) -> None:
        call = {"rows": 4, "captured": True, "kernel": 1, "before": 0, "why": None}
        fell = {**call, "kernel": 0, "before": 3, "why": "AUTOCAST"}
        layer = {"size": [48, 5120], "dtype": "torch.bfloat16", "why_never": None}
        never = {**layer, "size": [40, 5120], "why_never": "it maps 5120 to 40"}
        forced = [{"shape": "48 x 5120", "rows": {"4": {"refused": None, "forced": "BITS_DIFFER"}}}]
        other = {**fell, "why": "SUBCLASS"}
        table = {
            "as expected": ({}, 0),
            "nothing was proved": ({"proofs": []}, 1),
            "not enabled": ({"enabled": False}, 1),
            "fell back": ({"layers": {"a": {**layer, "calls": [fell]}}}, 1),
            "once": ({"layers": {"a": {**layer, "calls": [{**fell, "kernel": 2}]}}}, 1),
            "one was not called": (
                {"layers": {"a": {**layer, "calls": [call]}, "b": {**layer, "calls": []}}},
                1,
            ),
            "none was called": ({"layers": {"a": {**layer, "calls": []}}}, 3),
            "another size": ({"layers": {"a": {**never, "calls": [other]}}}, 0),
            "forced": ({"proofs": forced}, 0),
        }
        for case, (changed, status) in table.items():
            with self.subTest(case):
                self.write(**changed)
                found, report, printed = validate("dispatch", "--stats", str(self.folder))
                self.assertEqual(found, status, printed)
                self.assertEqual(report["settings"]["force"], case == "forced")

    def test_what_cannot_be_read_is_2(self) -> None:
        def status() -> int:
            return validate("dispatch", "--stats", str(self.folder))[0]

        for changed in (
            {"version": 2},
            {"ranks": "2"},
            {"layers": []},
            {"layers": {"a": {}}},
            {"proofs": [1]},
        ):
            with self.subTest(changed):
                self.write(**changed)
                self.assertEqual(status(), 2)
        (self.folder / "sm120_ba-host-1.json").write_text("{")
        self.assertEqual(status(), 2)

    def test_two_files_of_one_rank_are_2_but_a_process_without_layers_is_none(self) -> None:
        def status() -> int:
            return validate("dispatch", "--stats", str(self.folder))[0]

        self.write(1, rank=0)
        self.write(2, rank=None, layers={})
        self.assertEqual(status(), 0)
        self.write(2, rank=0)
        self.assertEqual(status(), 2)

    def test_a_rank_that_wrote_nothing_is_a_failure(self) -> None:
        table: list[tuple[dict[str, Any], int]] = [
            ({"rank": 0, "ranks": 1}, 0),
            ({"rank": 0, "ranks": 2}, 1),  # the last one died
            ({"rank": 1, "ranks": 2}, 1),
            ({"rank": 0, "ranks": 2, "layers": {}}, 3),
        ]
        for changed, status in table:
            with self.subTest(changed):
                self.write(**changed)
                found, report, printed = validate("dispatch", "--stats", str(self.folder))
                self.assertEqual(found, status, printed)
                told = " ".join(one["what"] for one in report["failures"])
                self.assertEqual("no call" in told, status == 1)
        self.write(1, rank=0, ranks=2)
        self.write(2, rank=1, ranks=2, layers={})  # it died before its model was loaded
        self.assertEqual(validate("dispatch", "--stats", str(self.folder))[0], 1)


class PlayedDriver:
    """The driver's graph calls over a tree: a node is a kernel's name, a copy, or a list."""

    def __init__(self, tree: list[Any]) -> None:
        self.objects: list[Any] = []
        self.root = self.handle(tree)

    def handle(self, value: Any) -> int:
        self.objects.append(value)
        return len(self.objects)

    def of(self, handle: ctypes.c_void_p | int) -> Any:
        number = handle.value if isinstance(handle, ctypes.c_void_p) else handle
        return self.objects[(number or 0) - 1]

    def cuGraphGetNodes(self, graph: Any, nodes: Any, count: Any) -> int:  # noqa: N802
        tree = self.of(graph)
        count._obj.value = len(tree)
        for i, node in enumerate(tree if nodes is not None else ()):
            nodes[i] = self.handle(node)
        return 0

    def cuGraphNodeGetType(self, node: Any, kind: Any) -> int:  # noqa: N802
        value = self.of(node)
        kind._obj.value = 4 if isinstance(value, list) else 1 if value == "copy" else 0
        return 0

    def cuGraphChildGraphNodeGetGraph(self, node: Any, child: Any) -> int:  # noqa: N802
        child._obj.value = self.handle(self.of(node))
        return 0

    def cuGraphKernelNodeGetParams_v2(self, node: Any, parameters: Any) -> int:  # noqa: N802
        parameters._obj.function = node.value
        return 0

    def cuFuncGetName(self, name: Any, function: Any) -> int:  # noqa: N802
        name._obj.value = self.of(function).encode()
        return 0


class TestGraphNodes(unittest.TestCase):
    """Branch: nodes of a graph and of the graphs within it; the driver is played."""

    def test_child_graphs_are_looked_into(self) -> None:
        table: list[tuple[list[Any], list[str]]] = [
            ([], []),
            (["a", "copy", "b"], ["a", "b"]),
            (["a", ["ba", ["ba", "copy"], "c"], "b"], ["a", "ba", "ba", "c", "b"]),
            ([[]], []),
        ]
        for tree, names in table:
            with self.subTest(tree=tree):
                played: Any = PlayedDriver(tree)
                self.assertEqual(names_in(played, played.root), names)


if __name__ == "__main__":
    unittest.main()
