"""The same-input shadow: what it counts, what it must never do, and its own test; on the CPU.

CUDA graphs are played: counters get what a replay would add.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import torch
import torch.nn.functional as F  # noqa: N812
from planted_models import never_twice_the_same, off_at_four, play_sm120, refuses, tiny
from validating import two_ranks, validate

from runci import register_cpu_ci
from sm120_ba import config, dispatch, sglang_hooks
from sm120_ba.validate import calls as model_calls
from sm120_ba.validate.calls import Calls
from sm120_ba.validate.shadow import (
    Compared,
    Live,
    Shadow,
    Tried,
    add_differences,
    compare,
    report,
    self_test,
    shadow,
    shadowed,
    void_reason,
)
from sm120_ba.validate.ulp import distance, one_step_off

register_cpu_ci(est_time=14, stage="base-b", runner_config="cpu")

BF16 = torch.bfloat16
LAYERS = ("layers.0.in_proj_ba", "layers.1.in_proj_ba")
NAN, INF = float("nan"), float("inf")


def model() -> torch.nn.Module:
    return tiny("cpu").eval().requires_grad_(False)


class TestDistance(unittest.TestCase):
    """Branch: data only."""

    def test_steps(self) -> None:
        table = [
            (1.0, 1.0, 0),
            (1.0, 1.0078125, 1),
            (1.0, 0.99609375, 1),
            (-1.0, -1.0078125, 1),
            (1.0, 2.0, 128),
            (0.0, -0.0, 1),
            (-0.0, -0.0, 0),
            (2.0**-133, -(2.0**-133), 3),
            (INF, 3.3895313892515355e38, 1),
            (INF, INF, 0),
            (INF, -INF, 2 * 0x7F80 + 1),
            (NAN, NAN, 0),
            (NAN, 1.0, 65535),
            (-INF, NAN, 65535),
        ]
        for a, b, steps in table:
            with self.subTest(a=a, b=b):
                x, y = torch.tensor([a], dtype=BF16), torch.tensor([b], dtype=BF16)
                self.assertEqual((distance(x, y).item(), distance(y, x).item()), (steps, steps))

    def test_every_value_is_one_step_from_the_next(self) -> None:
        values = torch.arange(-(2**15), 2**15).to(torch.int16).view(BF16)
        values = values[~values.isnan()]
        values = values[values.float().sort(stable=True).indices]
        # -0 and +0 compare equal: put them in order.
        zeros = values == 0
        values[zeros] = torch.tensor([-0.0, 0.0], dtype=BF16)
        self.assertEqual(set(distance(values[1:], values[:-1]).tolist()), {1})

    def test_payloads_and_other_widths(self) -> None:
        nans = torch.tensor([0x7FC0, 0x7F81, -1], dtype=torch.int16).view(BF16)
        self.assertEqual(distance(nans, nans.flip(0)).tolist(), [0, 0, 0])
        for dtype in (torch.float16, torch.float32):
            x = torch.tensor([1.0, -2.0, 0.0], dtype=dtype)
            away = torch.nextafter(x.float(), torch.tensor(INF)) if dtype == torch.float32 else None
            found = distance(x, x if away is None else away)
            self.assertEqual(found.tolist(), [0, 0, 0] if away is None else [1, 1, 1])
        for other in (torch.zeros(3), torch.zeros(2, dtype=BF16)):
            with self.assertRaises(ValueError):
                distance(torch.zeros(3, dtype=BF16), other)

    def test_one_step_off_differs_in_one_element_whatever_it_is(self) -> None:
        for first in (0.0, -0.0, 1.0, -1.5, NAN, INF, -INF, 3.3895313892515355e38):
            with self.subTest(first=first):
                x = torch.full((2, 3), first, dtype=BF16)
                kept = x.clone()
                steps = distance(one_step_off(x), x)
                self.assertEqual(((steps > 0).sum().item(), (steps[0, 0] > 0).item()), (1, True))
                self.assertEqual(distance(x, kept).sum().item(), 0)


class TestCounting(unittest.TestCase):
    """Branch: one Shadow and calls made by hand."""

    def test_differences_add_up_by_path(self) -> None:
        watch = Shadow()
        y = torch.ones(4, 48, dtype=BF16)
        for layer, other in (("a", y.clone()), ("a", one_step_off(y)), ("b", 2 * y)):
            watch.observe(layer, torch.ones(4, 8), y, lambda other=other: other)
        watch.observe("a", torch.ones(2, 8), y[:2], y[:2].clone)
        self.assertEqual(
            watch.compared(),
            {
                Live("a", 2, captured=False): Compared(1, 96, 0, 0),
                Live("a", 4, captured=False): Compared(2, 384, 1, 1),
                Live("b", 4, captured=False): Compared(1, 192, 192, 128),
            },
        )
        self.assertEqual(watch.failures, {})

    def test_rows_are_batch_times_sequence(self) -> None:
        watch = Shadow()
        watch.observe("a", torch.ones(2, 3, 8), torch.ones(2, 3, 4), lambda: torch.ones(2, 3, 4))
        self.assertEqual(list(watch.compared()), [Live("a", 6, captured=False)])

    def test_comparing_waits_for_no_device(self) -> None:
        """A tensor without data raises where a value is asked for, as a capture would."""
        counters = torch.zeros(4, dtype=torch.int64, device="meta")
        y = torch.empty(4, 48, dtype=BF16, device="meta")
        add_differences(counters, y, torch.empty_like(y))
        one_step_off(y)

    def test_what_a_graph_holds_goes_to_counters_that_were_there_before(self) -> None:
        watch = Shadow(capturing=lambda: True)
        y = torch.ones(4, 48)
        watch.observe("a", y, y, y.clone)
        self.assertIn("prepare", watch.failures["a, M=4, graph"])
        self.assertEqual(watch.compared(), {})
        watch.prepare(y.device)
        watch.observe("b", y, y, y.clone)
        self.assertEqual(watch.compared(), {Live("b", 4, captured=True): Compared(1, 192, 0, 0)})

    def test_in_and_out_of_inference_mode(self) -> None:
        watch = Shadow()
        with torch.inference_mode():
            y = torch.ones(4, 48)
            watch.observe("a", y, y, y.clone)
        y = torch.ones(4, 48, requires_grad=True)
        watch.observe("a", y, y, y.clone)
        self.assertEqual(watch.failures, {})
        self.assertEqual(watch.compared()[Live("a", 4, captured=False)].calls, 2)

    def test_what_cannot_be_compared_is_a_failure_and_nothing_is_raised(self) -> None:
        y = torch.ones(4, 48, dtype=BF16)
        x = torch.ones(4, 8)

        def in_place() -> torch.Tensor:
            return y.mul_(2)

        def into_the_input() -> torch.Tensor:
            x.add_(1)
            return y.clone()

        def refusing() -> torch.Tensor:
            raise RuntimeError("planted")

        others = {
            "shape": lambda: torch.ones(4, 47, dtype=BF16),
            "dtype": lambda: torch.ones(4, 48),
            "the same memory": lambda: y,
            "a view of it": lambda: y.view(4, 48),
            "in place": in_place,
            "input": into_the_input,
            "raises": refusing,
            "no tensor": lambda: None,
        }
        for case, other in others.items():
            with self.subTest(case):
                watch = Shadow()
                watch.observe("a", x, y, other)
                self.assertEqual(list(watch.failures), ["a, M=4, eager"])
                self.assertEqual(report(watch).status, 1)

    def test_more_paths_than_slots_are_told(self) -> None:
        with mock.patch("sm120_ba.validate.shadow.SLOTS", 2):
            watch = Shadow()
            y = torch.ones(1, 1)
            for layer in "abc":
                watch.observe(layer, y, y, y.clone)
            self.assertEqual((len(watch.compared()), list(watch.failures)), (2, ["c, M=1, eager"]))
            self.assertIn("more than 2 paths", watch.failures["c, M=1, eager"])

    def test_a_share_is_chosen_by_the_seed(self) -> None:
        def chosen(sample: float, seed: int) -> list[int]:
            watch, found, y = Shadow(sample, seed), [], torch.ones(1, 1)
            for number in range(400):
                watch.observe("a", y, y, lambda number=number: found.append(number) or y.clone())
            self.assertEqual(sum(one.calls for one in watch.compared().values()), len(found))
            return found

        quarter = chosen(0.25, 1)
        self.assertEqual(quarter, chosen(0.25, 1))
        self.assertNotEqual(quarter, chosen(0.25, 2))
        self.assertTrue(70 < len(quarter) < 130, len(quarter))
        self.assertEqual(chosen(1.0, 3), list(range(400)))


class TestModel(unittest.TestCase):
    """Branch: `shadowed` and `compare` on a model whose logits are the layers' outputs."""

    def logits(self, one: torch.nn.Module) -> torch.Tensor:
        ids = model_calls.token_ids(one, 4, 5, torch.device("cpu"))
        with torch.no_grad():
            found: torch.Tensor = one(ids)
        return found

    def test_a_shadow_changes_no_logit(self) -> None:
        one = model()
        before = self.logits(one)
        layers = model_calls.chosen(one, None)
        garbage = lambda x, w, _b: torch.full((*x.shape[:-1], len(w)), NAN, dtype=BF16)  # noqa: E731
        for other in (garbage, off_at_four, refuses, F.linear):
            with shadowed(layers, F.linear, other, Shadow()) as watch:
                self.assertTrue(torch.equal(self.logits(one), before))
            self.assertEqual(len(watch.called), 2)
        self.assertTrue(torch.equal(self.logits(one), before))

    def test_the_one_that_drives_is_what_the_model_says(self) -> None:
        one = model()
        plain = self.logits(one)
        layers = model_calls.chosen(one, None)
        with shadowed(layers, off_at_four, F.linear, Shadow()):
            self.assertFalse(torch.equal(self.logits(one), plain))

    def test_a_difference_is_found_at_its_path_whoever_drives(self) -> None:
        one = model()
        layers, calls = model_calls.chosen(one, None), Calls((1, 4, 8), 3)
        for drive, other in ((F.linear, off_at_four), (off_at_four, F.linear)):
            found = compare(one, layers, calls, drive, other)
            self.assertIsNone(found.void)
            self.assertEqual(found.self_tested, 6)
            for name in LAYERS:
                for m in calls.rows:
                    differing = 3 * (m == 4)
                    wanted = Compared(3, 3 * m * 48, differing, int(m == 4))
                    self.assertEqual(found.compared[Live(name, m, captured=False)], wanted)
            told = report([found])
            self.assertEqual((told.status, len(told.failures)), (1, 2))

    def test_the_function_for_a_server(self) -> None:
        one = model()
        with shadow(one, "torch", "planted_models:off_at_four", layers=["layers.1.*"]) as watch:
            self.logits(one)
        told = report(watch)
        self.assertEqual((told.status, told.compared, len(told.failures)), (1, 192, 1))
        with shadow(one) as watch:
            self.logits(one)
        self.assertEqual((report(watch).status, report(watch).compared), (0, 384))
        self.assertEqual(report(Shadow()).status, 3)


class TestSelfTest(unittest.TestCase):
    """Branch: runs of which nothing may be concluded."""

    def test_faults_of_the_comparison_void_the_run(self) -> None:
        one = model()
        layers, calls = model_calls.chosen(one, None), Calls((1, 4), 2)

        def nothing(_counters: Any, _y: Any, _other: Any) -> None:
            pass

        def blind(counters: torch.Tensor, y: torch.Tensor, _other: Any) -> None:
            add_differences(counters, y, y.clone())

        def blind_at_four(counters: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> None:
            add_differences(counters, y, y.clone() if len(y) == 4 else other)

        def by_value(counters: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> None:
            near = torch.where((y - other).abs() < 0.1, y, other)
            add_differences(counters, y, near)

        def always(counters: torch.Tensor, y: torch.Tensor, _other: Any) -> None:
            add_differences(counters, y, one_step_off(y))

        def overwritten(counters: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> None:
            counters.zero_()
            add_differences(counters, y, other)

        for add in (nothing, blind, blind_at_four, by_value, always, overwritten):
            with self.subTest(add.__name__):
                self.assertIsNotNone(self_test(one, layers, calls, F.linear, add)[0])
        self.assertEqual(self_test(one, layers, calls, F.linear), (None, 4))

    def test_what_does_not_repeat_itself_is_void(self) -> None:
        one = model()
        layers = model_calls.chosen(one, None)
        found = compare(one, layers, Calls((2,)), never_twice_the_same, F.linear)
        self.assertIn("repeat", str(found.void))
        told = report([found])
        self.assertEqual((told.status, told.compared), (1, 0))
        self.assertIsNotNone(compare(one, layers, Calls((2,)), one_buffer, F.linear).void)

    def test_void_reason(self) -> None:
        eager, graph = Live("a", 4, captured=False), Live("a", 4, captured=True)
        called = {eager: 3, graph: 1}
        same = {eager: Compared(3, 12, 0, 0), graph: Compared(2, 8, 0, 0)}
        off = {eager: Compared(3, 12, 3, 1), graph: Compared(2, 8, 2, 1)}
        clean, corrupted = Tried(called, same, {}), Tried(called, off, {})

        def changed(half: Tried, path: Live, **fields: int) -> Tried:
            found = dict(half.compared)
            found[path] = replace(found[path], **fields)
            return replace(half, compared=found)

        table = {
            "right": (clean, corrupted, False),
            "a graph's replay was not counted": (changed(clean, graph, calls=1), corrupted, True),
            "clean differs": (changed(clean, graph, differing=1, largest=1), corrupted, True),
            "eager not seen": (clean, changed(corrupted, eager, differing=0), True),
            "graph not seen": (clean, changed(corrupted, graph, differing=0), True),
            "one replay not seen": (clean, changed(corrupted, graph, differing=1), True),
            "more seen": (clean, changed(corrupted, eager, differing=4), True),
            "no distance": (clean, changed(corrupted, eager, largest=0), True),
            "no path": (clean, replace(corrupted, compared={eager: off[eager]}), True),
            "not called": (replace(clean, called={eager: 3}), corrupted, True),
            "not comparable": (clean, replace(corrupted, failures={"a": "b"}), True),
        }
        for case, (first, second, void) in table.items():
            with self.subTest(case):
                reason = void_reason((eager, graph), 2, first, second)
                self.assertEqual(reason is not None, void, reason)
        self.assertIsNotNone(void_reason((), 2, Tried({}, {}, {}), Tried({}, {}, {})))


def one_buffer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
    """Returns one buffer again and again, so that two results are one."""
    return torch.add(F.linear(x, w, b), 0, out=_BUFFER)


_BUFFER = torch.empty(2, 1, 48, dtype=BF16)


class TestCommand(unittest.TestCase):
    """Branch: the command line."""

    def test_driven_by_both_on_the_small_model(self) -> None:
        for drive in ("candidate", "baseline"):
            words = ("shadow", "--model", "small", "--rows", "2", "--steps", "1", "--drive", drive)
            status, found, printed = validate(*words)
            # No kernel on a CPU, so F.linear was compared with itself.
            self.assertEqual((status, found["compared"]), (3, 0), printed)
            self.assertEqual([row[5:7] for row in found["tables"][0]["rows"]], [[2 * 48, 0]] * 3)
            self.assertEqual(found["settings"]["drive"], drive)
            self.assertIn("NOT_CUDA", " ".join(found["notes"]))
            self.assertIn("3 live paths", " ".join(found["notes"]))
            (cost,) = found["tables"][1]["rows"]
            self.assertAlmostEqual(cost[5], cost[4] / cost[3])

    def test_played_the_kernel_is_what_is_compared(self) -> None:
        play_sm120(self)
        words = ("shadow", "--model", "planted_models:tiny", "--rows", "1,2,8", "--steps", "1")
        status, found, printed = validate(*words)
        self.assertEqual(status, 0, printed)
        self.assertIn("took the kernel in 4 calls", " ".join(found["notes"]))

    def test_a_layer_that_gets_its_input_by_name(self) -> None:
        words = ("--model", "planted_models:by_name", "--rows", "2")
        status, _, printed = validate("shadow", *words, "--candidate", "planted_models:equal")
        self.assertEqual(status, 0, printed)

    def test_a_layer_with_a_forward_of_its_own_is_named(self) -> None:
        for command in ("shadow", "dispatch"):
            status, _, printed = validate(command, "--model", "planted_models:own_forward")
            self.assertEqual(status, 2, printed)
            self.assertIn("Doubled", printed)

    def test_status(self) -> None:
        tiny_model = ("--model", "planted_models:tiny", "--rows", "2,4", "--steps", "1")
        off = "planted_models:off_at_four"
        table = [
            (("--candidate", off), 1),
            (("--candidate", off, "--drive", "baseline"), 1),
            (("--baseline", off), 1),
            (("--baseline", off, "--candidate", off), 0),
            (("--candidate", "torch"), 0),
            (("--model", "planted_models:no_model"), 2),
            (("--candidate", off, "--rows", "2"), 0),
            (("--candidate", "planted_models:never_twice_the_same"), 1),
            (("--candidate", "planted_models:refuses", "--drive", "baseline"), 1),
            (("--sample", "0.0000001"), 3),
            (("--sample", "0"), 2),
            (("--sample", "1.5"), 2),
            (("--sample", "x"), 2),
            (("--candidate", "nothing"), 2),
            (("--candidate", "planted_models:nothing"), 2),
            (("--drive", "both"), 2),
        ]
        for words, status in table:
            with self.subTest(words):
                found, _, printed = validate("shadow", *tiny_model, *words)
                self.assertEqual(found, status, printed)

    def test_two_ranks_and_the_one_that_differs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            words = ("--model", "planted_models:tiny", "--rows", "2", "--report", str(path))
            candidate = ("--candidate", "planted_models:off_at_rank_1")
            done = two_ranks("-m", "sm120_ba", "validate", "shadow", *words, *candidate)
            self.assertEqual([one.returncode for one in done], [1, 1], done[0].stderr)
            found = json.loads(path.read_text())
        self.assertEqual(len(found["failures"]), 2)
        self.assertTrue(all("rank 1" in one["where"] for one in found["failures"]))
        self.assertEqual([row[0] for row in found["tables"][0]["rows"]], [0, 0, 1, 1])


class TestSGLang(unittest.TestCase):
    """Branch: SGLang's hook with a Shadow, as a plugin sets it."""

    def test_each_result_of_the_kernel_is_compared_with_sglang_s_own(self) -> None:
        play_sm120(self)
        self.addCleanup(config.reset)
        watch = Shadow()
        layer = SimpleNamespace(
            prefix="model.layers.0.linear_attn.in_proj_ba",
            weight=torch.randn(48, 5120, generator=torch.Generator().manual_seed(1)).bfloat16(),
        )

        def original(_method: Any, one: Any, x: torch.Tensor, bias: Any) -> torch.Tensor:
            return off_at_four(x, one.weight, bias)

        with (
            mock.patch.dict("os.environ", {config.FLAG: "1"}),
            mock.patch.object(config, "_capability", return_value=(12, 0)),
            mock.patch.object(sglang_hooks, "_server_options", return_value=("auto", False)),
            mock.patch.object(sglang_hooks, "observe", watch.observe),
        ):
            sglang_hooks.after_loading(None, None, layer)
            for m in (1, 2, 4):
                x = torch.ones(m, 5120, dtype=BF16)
                y = sglang_hooks.around_apply(original, None, layer, x)
                self.assertTrue(torch.equal(y, F.linear(x, layer.weight)), m)
        self.assertEqual(dispatch.stats().fast, 2)
        found = {path.m: one.differing for path, one in watch.compared().items()}
        self.assertEqual(found, {2: 0, 4: 1})

    def test_the_plugin_of_the_readme(self) -> None:
        text = (Path(__file__).parents[4] / "kernel/README.md").read_text()
        (code,) = (
            part.partition("```")[0]
            for part in text.split("```python\n")
            if "sglang_hooks.observe" in part.partition("```")[0]
        )
        self.addCleanup(setattr, sglang_hooks, "observe", sglang_hooks.observe)
        names: dict[str, Any] = {}
        exec(code, names)
        with mock.patch("atexit.register") as register:
            names["register"]()
        (write,) = register.call_args.args
        x = torch.ones(2, 8)
        self.addCleanup(os.chdir, Path.cwd())
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write()
            self.assertEqual(list(Path(folder).iterdir()), [])
            for _ in range(1000):
                sglang_hooks.observe("a.in_proj_ba", x, x, x.clone)
            write()
            found = json.loads(next(Path(folder).glob("shadow-*.json")).read_text())
        self.assertEqual(found["failures"], [])
        self.assertTrue(0 < found["compared"] < 50 * 16)


if __name__ == "__main__":
    unittest.main()
