"""`runci doctor` on a real GPU: it computes exactly, and what is planted is found.

With locks of its own: under `runci run` the GPU is leased, and a doctor leaves it alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch

from runci import register_cuda_ci
from runci.core.machine import Gpu
from runci.run import service
from runci.run.doctor import product

register_cuda_ci(est_time=40, stage="base-b", runner_config="1-gpu-small")

LIMIT = 5.0  # seconds for one GPU
HOLDER = """
import sys, torch
held = torch.ones(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class TestGpuDoctor(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.locks = Path(folder.name)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
        self.first = visible.partition(",")[0]

    def look(self) -> dict[str, object]:
        """The report, with the status and the answers by check."""
        done = subprocess.run(
            [sys.executable, "-m", "runci", "doctor", "--format", "json", "--gpus", self.first],
            env={**os.environ, "RUNCI_LOCKS": str(self.locks)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn(done.returncode, (0, 2), done.stderr)
        found: dict[str, object] = json.loads(done.stdout)
        answers = found["answers"]
        assert isinstance(answers, list)
        return {
            **found,
            "status": done.returncode,
            "states": {answer["check"]: answer["state"] for answer in answers},
            "text": done.stdout,
        }

    def card(self) -> Gpu:
        facts = self.look()["facts"]
        assert isinstance(facts, dict)
        gpu = facts["cards"][0]["gpu"]
        return Gpu(gpu["index"], gpu["uuid"], gpu["name"])

    def test_a_sound_gpu_is_fit_within_five_seconds(self) -> None:
        first, second = self.look(), self.look()
        self.assertEqual(second["status"], 0, second["text"])
        states = second["states"]
        assert isinstance(states, dict)
        for check in ("machine", "driver", "memory", "slowdown", "clock", "product"):
            self.assertEqual(states[check], "ok", second["text"])
        self.assertLess(min(first["seconds"], second["seconds"]), LIMIT)  # type: ignore[type-var]
        self.assertEqual(service.read(self.locks), service.Service())

    def test_a_clean_look_puts_a_gpu_back_in_service(self) -> None:
        card = self.card()
        service.change(
            self.locks, lambda now: service.taken_out(now, card, ("clock: stuck",), "a test", 1.0)
        )
        found = self.look()
        self.assertEqual(found["status"], 0, found["text"])
        self.assertIn("in service again", str(found["notes"]))
        self.assertEqual(service.read(self.locks).out, ())

    def test_memory_that_another_process_holds_is_found(self) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            self.assertEqual(holder.stdout.readline(), "held\n")
            found = self.look()
            holder.communicate()
        states = found["states"]
        assert isinstance(states, dict)
        self.assertEqual((found["status"], states["memory"]), (2, "SICK"), found["text"])
        self.assertEqual(service.read(self.locks).out, ())  # that passes by itself

    def test_a_product_that_is_wrong_is_seen_on_the_gpu_itself(self) -> None:
        source = Path(product.__file__).read_text(encoding="utf-8")
        for old, new, wrong in (
            ("mad.lo.u32 sum, x, y, sum;", "mad.lo.u32 sum, x, y, sum;", False),
            ("mad.lo.u32 sum, x, y, sum;", "mad.hi.u32 sum, x, y, sum;", True),
            ("mov.u32 k, 0;", "mov.u32 k, 1;", True),
            ("st.global.u32 [out], sum;", "", True),
        ):
            self.assertEqual(source.count(old), 1)
            script = self.locks / "product.py"
            script.write_text(source.replace(old, new), encoding="utf-8")
            command = [sys.executable, "-I", str(script), self.card().uuid, "0.2"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            said = json.loads(done.stdout)
            self.assertEqual(said["wrong"] > 0, wrong, said)


if __name__ == "__main__":
    unittest.main()
