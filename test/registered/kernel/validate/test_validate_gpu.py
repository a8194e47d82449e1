"""Dispatch audit, shadow and saved activations on a GPU, with CUDA graphs and in proved mode.

Branch: the kernel where it was proved on this GPU and F.linear elsewhere, read from the nodes of
captured graphs and from the dispatcher's counts. Planted faults are found on every GPU.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import unittest
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import torch
import torch.nn.functional as F  # noqa: N812
from planted_models import off_at_four, tiny
from validating import validate

from runci import register_cuda_ci
from sm120_ba import dispatch
from sm120_ba.cuda_driver import check, driver
from sm120_ba.graph_audit import BA_KERNEL, kernel_names, names_in
from sm120_ba.validate import calls as model_calls
from sm120_ba.validate.calls import Calls, Captured
from sm120_ba.validate.dispatch import KERNEL, audit
from sm120_ba.validate.models import load
from sm120_ba.validate.shadow import (
    Compared,
    Live,
    Shadow,
    add_differences,
    compare,
    report,
    self_test,
    shadowed,
)

register_cuda_ci(est_time=120, stage="base-b-kernel-unit", runner_config="1-gpu-small")
register_cuda_ci(est_time=120, stage="base-b-kernel-unit", runner_config="1-gpu-large")

HAS_CUDA = torch.cuda.is_available() and torch.version.cuda is not None
IS_SM90 = HAS_CUDA and torch.cuda.get_device_capability(0) == (9, 0)
ROWS = (1, 2, 4, 8, 9)


def proved(shape: str) -> dict[int, bool]:
    """Whether each M was proved, of what this process warmed up for."""
    (found,) = (one for one in dispatch.proof()["proofs"] if one["shape"] == shape)
    return {int(m): row["refused"] is None for m, row in found["rows"].items()}


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestDispatch(unittest.TestCase):
    """The audit of the small models."""

    def test_proved_mode_of_the_small_model_with_k_2048(self) -> None:
        found = audit(load("small-2048", "cuda:0"), ROWS, mode="proved")
        self.assertEqual(found.failures, ())
        (rank,) = found.details["ranks"]
        takes = proved("64 x 2048")
        for site in rank["sites"]:
            wanted = takes.get(site["m"], False)
            self.assertEqual(site["answer"] == KERNEL, wanted, site)
        self.assertEqual({site["captured"] for site in rank["sites"]}, {False, True})
        for graph in rank["graphs"]:
            takes_it = graph["arm"] == "candidate" and takes.get(graph["m"], False)
            self.assertEqual(graph["nodes"].get(BA_KERNEL, 0), 3 * takes_it, graph)
            self.assertGreaterEqual(sum(graph["nodes"].values()), 3)
        self.assertEqual(len(rank["graphs"]), 2 * len(ROWS))
        if IS_SM90:
            self.assertTrue(takes[2] and takes[4] and takes[8])

    def test_what_is_refused_is_taken_by_force_alone_and_said(self) -> None:
        model = load("small", "cuda:0")
        plain = audit(model, (1, 4), mode="proved")
        forced = audit(model, (1, 4), mode="proved", force=True)
        again = audit(model, (1, 4), mode="proved")
        self.assertEqual((plain.failures, forced.failures, again.failures), ((), (), ()))
        takes = proved("48 x 5120")[4]
        for found, kernel in ((plain, takes), (forced, True), (again, takes)):
            (rank,) = found.details["ranks"]
            for site in rank["sites"]:
                self.assertEqual(site["answer"] == KERNEL, kernel and site["m"] == 4, site)
        self.assertEqual(forced.settings["force"], not takes)
        self.assertEqual("Bits may differ" in " ".join(forced.notes), not takes)
        if IS_SM90:
            self.assertFalse(takes)

    def test_another_expectation_is_a_failure_in_graphs_too(self) -> None:
        takes_all = lambda _layer, _m: KERNEL  # noqa: E731
        found = audit(tiny("cuda:0").requires_grad_(False), (1,), expect=takes_all)
        told = " ".join(f"{one.where} {one.what}" for one in found.failures)
        self.assertEqual((found.status, len(found.failures)), (1, 5), told)
        self.assertIn("expected 2 nodes", told)

    def test_child_graphs_are_looked_into(self) -> None:
        x = torch.ones(4, 8, device="cuda")
        layers = {"a": torch.nn.Linear(8, 8, device="cuda").requires_grad_(False)}
        captured = Captured(torch.nn.Module(), layers, "layers", x, {"a": x})
        names = kernel_names(captured.graph)
        self.assertTrue(names)
        cuda, parent, node = driver(), ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda, "cuGraphCreate", cuda.cuGraphCreate(ctypes.byref(parent), 0))
        child = ctypes.c_void_p(captured.graph.raw_cuda_graph())
        nothing = ctypes.c_size_t(0)
        for _ in range(2):
            code = cuda.cuGraphAddChildGraphNode(ctypes.byref(node), parent, None, nothing, child)
            check(cuda, "cuGraphAddChildGraphNode", code)
        self.assertEqual(names_in(cuda, parent.value or 0), 2 * names)
        check(cuda, "cuGraphDestroy", cuda.cuGraphDestroy(parent))


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestShadow(unittest.TestCase):
    """The shadow, eagerly and in replays."""

    def test_differences_in_replays_are_counted_at_their_path(self) -> None:
        model = tiny("cuda:0").eval().requires_grad_(False)
        layers, calls = model_calls.chosen(model, None), Calls((1, 4), 3)
        for drive, other in ((F.linear, off_at_four), (off_at_four, F.linear)):
            found = compare(model, layers, calls, drive, other)
            self.assertEqual((found.void, found.failures, found.self_tested), (None, {}, 8))
            for name in layers:
                for m in calls.rows:
                    off = m == 4
                    wanted = Compared(3, 3 * m * 48, 3 * off, int(off))
                    self.assertEqual(found.compared[Live(name, m, captured=True)], wanted)
                    eager = found.compared[Live(name, m, captured=False)]
                    self.assertEqual(eager.differing, eager.calls * off)
            self.assertEqual(len(report([found]).failures), 4)
            self.assertEqual([row[1] for row in found.cost], ["eager", "graph"])

    def test_a_shadow_in_a_graph_changes_no_output(self) -> None:
        model = tiny("cuda:0").eval().requires_grad_(False)
        layers = model_calls.chosen(model, None)
        ids = model_calls.token_ids(model, 4, 0, torch.device("cuda:0"))
        outputs = []
        with torch.no_grad():
            for other in (F.linear, off_at_four, lambda x, w, _b: (x @ w.t()).fill_(torch.nan)):
                with shadowed(layers, F.linear, other, Shadow()):
                    model(ids)
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        said = model(ids)
                graph.replay()
                torch.cuda.synchronize()
                outputs.append(said.clone())
            self.assertTrue(all(torch.equal(one, model(ids)) for one in outputs))

    def test_counters_that_replays_do_not_reach_void_the_run(self) -> None:
        model = tiny("cuda:0").eval().requires_grad_(False)
        layers, calls = model_calls.chosen(model, None), Calls((4,), 2)

        def eager_only(counters: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> None:
            if not torch.cuda.is_current_stream_capturing():
                add_differences(counters, y, other)

        def blind_in_graphs(counters: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> None:
            capturing = torch.cuda.is_current_stream_capturing()
            add_differences(counters, y, y.clone() if capturing else other)

        for add in (eager_only, blind_in_graphs):
            with self.subTest(add.__name__):
                void, _ = self_test(model, layers, calls, F.linear, add)
                self.assertIn("graph", str(void))
        self.assertIsNone(self_test(model, layers, calls, F.linear)[0])

    def test_proved_mode_differs_nowhere(self) -> None:
        for drive in ("candidate", "baseline"):
            words = ("--model", "small-2048", "--device", "cuda:0", "--mode", "proved")
            status, found, printed = validate("shadow", *words, "--rows", "1,2,8", "--drive", drive)
            self.assertEqual(status, 0, printed)
            self.assertIn("18 live paths", " ".join(found["notes"]))
            self.assertTrue(all(row[4] for row in found["tables"][0]["rows"]))


@unittest.skipUnless(HAS_CUDA, "needs a CUDA GPU")
class TestActivations(unittest.TestCase):
    """What a model on the GPU got, on the GPU and on the CPU."""

    def test_captured_expanded_and_replayed(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            folder = str(Path(root, "saved"))
            words = ("--model", "small-2048", "--device", "cuda:0", "--rows", "1,4", "--steps", "3")
            status, _, printed = validate("capture", *words, "--out", folder)
            self.assertEqual(status, 0, printed)
            validate("expand", folder)
            words = ("--device", "cuda:0", "--mode", "proved")
            status, found, printed = validate("replay", folder, *words)
            self.assertEqual(status, 0, printed)
            self.assertEqual(found["settings"]["batches"], 2 * 3 * 3 * 8)
            off = ("--candidate", "planted_models:off_at_four")
            self.assertEqual(validate("replay", folder, *words, *off)[0], 1)
            self.assertEqual(validate("replay", folder, *off)[0], 1)


if __name__ == "__main__":
    unittest.main()
