"""Saved activations: what capture writes, what expand draws, what replay finds; on the CPU."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

import torch
from planted_models import play_sm120, tiny
from validating import validate

from runci import register_cpu_ci
from sm120_ba.validate.activations.capture import recorded
from sm120_ba.validate.activations.expand import batches_of
from sm120_ba.validate.activations.saved import Recorder, gather, read, read_batches
from sm120_ba.validate.commands import UsageError

register_cpu_ci(est_time=6, stage="base-b", runner_config="cpu")

LAYERS = ("layers.0.in_proj_ba", "layers.1.in_proj_ba")
ROWS_BYTES = 5120 * 2
WEIGHT_BYTES = 48 * 5120 * 2


class Folders(unittest.TestCase):
    """A folder for each test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.folder = self.root / "saved"

    def capture(self, rows: str = "1,3", *words: str, model: str = "planted_models:tiny") -> Any:
        asked = ("--model", model, "--rows", rows, "--out", str(self.folder))
        return validate("capture", *asked, *words)

    def replay(self, *words: str) -> Any:
        return validate("replay", str(self.folder), *words)


class TestCapture(Folders):
    """Branch: a folder that is written."""

    def test_inputs_are_those_of_the_running_model(self) -> None:
        model = tiny("cpu").eval().requires_grad_(False)
        wanted: list[torch.Tensor] = []
        layer = model.layers[1]["in_proj_ba"]
        layer.register_forward_pre_hook(lambda _layer, given: wanted.append(given[0].clone()))
        with recorded(model, self.folder, layers=["layers.1.*"]) as recorder, torch.no_grad():
            for m in (2, 4):
                recorder.restart()
                for step in range(2):
                    model(torch.full((m, 1), step))
        saved = read(self.folder)
        self.assertEqual(list(saved.layers), [LAYERS[1]])
        self.assertTrue(torch.equal(saved.layers[LAYERS[1]][0], layer.weight))
        found = [(one.layer, one.rows, one.position) for one, _ in saved.snapshots]
        self.assertEqual(found, [(LAYERS[1], m, step) for m in (2, 4) for step in (0, 1)])
        for (_, x), y in zip(saved.snapshots, wanted, strict=True):
            self.assertTrue(torch.equal(x, y.flatten(0, 1)))
        self.assertEqual(len(layer._forward_pre_hooks), 1)

    def test_generation_of_the_small_model(self) -> None:
        status, report, printed = self.capture("2", "--steps", "3", model="small")
        self.assertEqual((status, report["compared"]), (0, 9), printed)
        saved = read(self.folder)
        self.assertEqual({one.position for one, _ in saved.snapshots}, {0, 1, 2})
        self.assertEqual({tuple(x.shape) for _, x in saved.snapshots}, {(2, 5120)})

    def test_the_limit_is_kept_and_said(self) -> None:
        model = tiny("cpu").eval().requires_grad_(False)
        for limit, count in ((0, 0), (WEIGHT_BYTES, 0), (WEIGHT_BYTES + 3 * ROWS_BYTES, 3)):
            with self.subTest(limit=limit):
                folder = self.root / str(limit)
                with recorded(model, folder, layers=["layers.0.*"], limit=limit) as recorder:
                    for _ in range(5):
                        model(torch.zeros(1, 1, dtype=torch.long))
                size = sum(x.numel() * 2 for _, x in read(folder).snapshots)
                self.assertEqual((len(recorder.snapshots), recorder.left_out), (count, 5 - count))
                self.assertEqual(size, count * ROWS_BYTES)
                self.assertEqual(
                    json.loads((folder / "index.json").read_text())["left_out"], 5 - count
                )
        status, report, _ = self.capture("1-8", "--steps", "8", "--limit-mib", "1")
        self.assertEqual(status, 0)
        self.assertIn("left out", " ".join(report["notes"]))

    def test_a_layer_that_has_no_room_keeps_none_from_another(self) -> None:
        limit = WEIGHT_BYTES + 2 * ROWS_BYTES
        recorder = Recorder(self.folder, limit)
        x, weight = torch.zeros(1, 5120).bfloat16(), torch.zeros(48, 5120).bfloat16()
        for layer in ("a", "b", "a"):
            recorder.note(layer, x, weight, None)
        recorder.close({})
        self.assertEqual(list(read(self.folder).layers), ["a"])
        self.assertEqual((len(recorder.snapshots), recorder.left_out), (2, 1))

    def test_calls_of_a_graph_are_left_out(self) -> None:
        recorder = Recorder(self.folder, 2**20, capturing=lambda: True)
        recorder.note("a", torch.zeros(1, 8), torch.zeros(4, 8), None)
        recorder.close({})
        self.assertEqual((read(self.folder).snapshots, recorder.left_out), ((), 1))

    def test_all_or_nothing(self) -> None:
        model = tiny("cpu")
        with self.assertRaisesRegex(RuntimeError, "planted"), recorded(model, self.folder):
            model(torch.zeros(1, 1, dtype=torch.long))
            raise RuntimeError("planted")
        self.assertEqual(list(self.root.iterdir()), [])
        self.assertFalse(model.layers[0]["in_proj_ba"]._forward_pre_hooks)

    def test_wrong_use_is_2_and_leaves_nothing(self) -> None:
        self.assertEqual(self.capture("1", "--layers", "nothing")[0], 2)
        self.assertEqual(self.capture("1", "--limit-mib", "0")[0], 2)
        self.assertEqual(self.capture("1", model="planted_models:nothing")[0], 2)
        self.assertEqual(list(self.root.iterdir()), [])
        self.folder.mkdir()
        self.assertEqual(self.capture()[0], 2)
        self.assertEqual(list(self.folder.iterdir()), [])


class TestExpand(Folders):
    """Branch: what is drawn."""

    def drawn(self) -> Any:
        return json.loads((self.folder / "batches.json").read_text())["batches"]

    def test_148_snapshots_make_1184_batches(self) -> None:
        recorder = Recorder(self.folder, 2**30)
        generator = torch.Generator().manual_seed(3)
        for number in range(148):
            x = torch.randn(1 + number % 4, 16, generator=generator).bfloat16()
            recorder.note(f"layer {number % 2}", x, torch.zeros(4, 16).bfloat16(), None)
        recorder.close({})
        status, report, printed = validate("expand", str(self.folder), "--seed", "5")
        self.assertEqual((status, report["compared"]), (0, 1184), printed)
        first = self.drawn()
        saved = read(self.folder)
        batches = read_batches(self.folder, saved)
        for i, batch in enumerate(batches):
            number, m = divmod(i, 8)
            self.assertEqual(len(batch.rows), m + 1)
            self.assertEqual(len(set(batch.rows)), m + 1)
            self.assertEqual(batch.rows[0][0], number)
            for snapshot, row in batch.rows:
                self.assertEqual(saved.snapshots[snapshot][0].layer, batch.layer)
                self.assertLess(row, saved.snapshots[snapshot][0].rows)
            for row, (snapshot, place) in zip(gather(saved, batch), batch.rows, strict=True):
                self.assertTrue(torch.equal(row, saved.snapshots[snapshot][1][place]))
        self.assertGreater(len({row for batch in batches for row in batch.rows}), 300)
        validate("expand", str(self.folder), "--seed", "5")
        self.assertEqual(self.drawn(), first)
        validate("expand", str(self.folder), "--seed", "6")
        self.assertNotEqual(self.drawn(), first)

    def test_a_layer_with_fewer_rows_than_m_repeats_them(self) -> None:
        recorder = Recorder(self.folder, 2**20)
        recorder.note("a", torch.ones(1, 8), torch.zeros(4, 8), None)
        recorder.note("b", torch.ones(2, 8), torch.zeros(4, 8), None)
        recorder.close({})
        batches = batches_of(read(self.folder), (1, 8), 0)
        self.assertEqual([len(batch.rows) for batch in batches], [1, 8, 1, 8])
        self.assertEqual([len(set(batch.rows)) for batch in batches], [1, 1, 1, 2])


class TestLayers(Folders):
    """Branch: layers that get their input by name, and layers that nothing called."""

    def test_an_input_by_name_is_saved(self) -> None:
        words = ("--model", "planted_models:by_name", "--rows", "2", "--out", str(self.folder))
        status, report, printed = validate("capture", *words)
        self.assertEqual((status, report["compared"]), (0, 2 * 2), printed)

    def test_a_layer_that_was_not_called_is_a_failure(self) -> None:
        words = ("--model", "planted_models:one_not_called", "--rows", "2")
        status, report, printed = validate("capture", *words, "--out", str(self.folder))
        self.assertEqual(status, 1, printed)
        self.assertEqual([one["where"] for one in report["failures"]], ["draft.in_proj_ba"])


class TestReplay(Folders):
    """Branch: what is compared, and files that were changed."""

    def test_snapshots_then_batches(self) -> None:
        self.capture("1,3", "--steps", "2")
        status, report, printed = self.replay()
        self.assertEqual((status, report["compared"]), (3, 0), printed)  # no kernel on a CPU
        self.assertIn("8 NOT_CUDA", " ".join(report["notes"]))
        equal = ("--candidate", "planted_models:equal")
        status, report, printed = self.replay(*equal)
        self.assertEqual((status, report["compared"]), (0, 2 * 2 * (1 + 3) * 48), printed)
        validate("expand", str(self.folder), "--rows", "2-5")
        status, report, printed = self.replay(*equal)
        self.assertEqual((status, report["compared"]), (0, 8 * (2 + 3 + 4 + 5) * 48), printed)
        self.assertEqual(report["command"], "replay")

    def test_a_function_that_differs_is_found_where_it_does(self) -> None:
        self.capture("1,2", "--steps", "1")
        validate("expand", str(self.folder))
        for words in (("--candidate",), ("--baseline",)):
            status, report, printed = self.replay(*words, "planted_models:off_at_four")
            self.assertEqual(status, 1, printed)
            rows = report["tables"][0]["rows"]
            differing = {(row[1], row[2]): (row[6], row[7]) for row in rows if row[6]}
            self.assertEqual(differing, {(name, 4): (2, 1) for name in LAYERS})
            self.assertEqual(len(report["failures"]), 2)
        status, report, _ = self.replay("--baseline", "planted_models:never_twice_the_same")
        self.assertEqual((status, report["compared"]), (1, 0))
        self.assertIsNotNone(report["void"])

    def test_played_the_kernel_takes_what_was_saved(self) -> None:
        self.capture("4", "--steps", "1")
        play_sm120(self)
        status, report, printed = self.replay()
        self.assertEqual(status, 0, printed)
        self.assertIn("took the kernel in 2 calls", " ".join(report["notes"]))

    def test_a_changed_file_is_2_and_named(self) -> None:
        self.capture("1,2", "--steps", "1")
        validate("expand", str(self.folder), "--rows", "2")
        whole = self.root / "whole"
        shutil.copytree(self.folder, whole)

        def flipped(path: Path) -> None:
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)

        def text(old: str, new: str) -> Any:
            def change(path: Path) -> None:
                found = path.read_text()
                self.assertIn(old, found)
                path.write_text(found.replace(old, new, 1))

            return change

        table = [
            ("000000.safetensors", flipped, ""),
            ("000003.safetensors", flipped, ""),
            ("layer-0001.safetensors", flipped, ""),
            ("000000.safetensors", Path.unlink, ""),
            ("000000.safetensors", lambda path: path.write_bytes(b""), ""),
            ("index.json", Path.unlink, ""),
            ("index.json", lambda path: path.write_text("{"), ""),
            ("index.json", lambda path: path.write_text("[]"), ""),
            ("index.json", text('"version": 1', '"version": 9'), ""),
            ("index.json", text('"rows": 2', '"rows": 3'), "000002.safetensors"),
            ("index.json", text('"position": 0', '"place": 0'), ""),
            ("index.json", text('"000000.safetensors"', '"../saved/000000.safetensors"'), ""),
            ("index.json", text('"left_out": 0', '"left_out": 1'), "batches.json"),
            ("batches.json", text('"seed": 0', '"version": 9, "seed": 0'), ""),
            ("batches.json", text("[[", "[[0,0],["), ""),
            ("batches.json", text("[[", "[[99,0],["), ""),
            ("batches.json", text('"sha256": "', '"sha256": "0'), ""),
            ("batches.json", text(LAYERS[0], LAYERS[1]), ""),
            ("batches.json", text(LAYERS[0], "another"), ""),
            ("batches.json", lambda path: path.write_text("{}"), ""),
        ]
        for file, change, named in table:
            with self.subTest(file):
                shutil.rmtree(self.folder)
                shutil.copytree(whole, self.folder)
                change(self.folder / file)
                status, report, printed = self.replay()
                self.assertEqual((status, report), (2, {}), printed)
                self.assertIn(named or file, printed)

    def test_a_folder_that_is_none(self) -> None:
        for command in ("replay", "expand"):
            self.assertEqual(validate(command, str(self.root / "nothing"))[0], 2)
        with self.assertRaises(UsageError):
            read(self.root)

    def test_an_empty_capture_is_no_success(self) -> None:
        Recorder(self.folder, 2**20).close({})
        self.assertEqual(validate("expand", str(self.folder))[0], 3)
        self.assertNotEqual(self.replay()[0], 0)


if __name__ == "__main__":
    unittest.main()
