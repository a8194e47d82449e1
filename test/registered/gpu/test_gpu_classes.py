"""Failures of a real GPU and the classes that `runci run` gives them.

`python -m pytest -v test/registered/gpu/test_gpu_classes.py` on any machine with a free CUDA GPU.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import Ran, run

from runci import register_cuda_ci
from runci.run.gpu import Nvml

register_cuda_ci(est_time=90, stage="base-b", runner_config="1-gpu-small")

SUITES = """\
version: 1
roots: [test/t]
runners:
  gpu: {label: gpu, gpu: any, gpus: 1, execution: pytest}
suites:
  cuda:
    - {stage: a, runner_configs: [gpu], kind: per-commit, timeout_minutes: 5}
"""
HEAD = """\
import pytest
import torch
from runci import register_cuda_ci
register_cuda_ci(est_time=9, stage="a", runner_config="gpu")
def take(share):
    free, total = torch.cuda.mem_get_info()
    return torch.empty(int(share * total), dtype=torch.uint8, device="cuda")
"""
# Takes this share of the GPU's memory and holds it until its input ends.
HOLDER = """
import sys, torch
free, total = torch.cuda.mem_get_info()
held = torch.empty(int(float(sys.argv[1]) * total), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holder(share: float) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(share)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield
        finally:
            process.stdin.close()
            process.wait(60)


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class TestGpuClasses(unittest.TestCase):
    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def run_file(self, body: str, *arguments: str) -> Ran:
        (self.root / "test/t").mkdir(parents=True, exist_ok=True)
        (self.root / "test/suites.yml").write_text(SUITES)
        (self.root / "test/t/test_a.py").write_text(HEAD + body)
        # Of one GPU alone: a retry has no other one to go to.
        uuid = Nvml().gpus()[0].uuid
        places = {"RUNCI_LOCKS": str(self.root / "locks"), "CUDA_VISIBLE_DEVICES": uuid}
        return run(self.root, "--suite", "a-test-gpu", *arguments, **places)

    def check(self, ran: Ran, *kinds: str) -> None:
        results = ran.results()["test_a.py"]
        found = [one.failure.kind.value if one.failure else "" for one in results]
        self.assertEqual(found, [*kinds], (ran.output, ran.error))

    def test_memory_of_its_own(self) -> None:
        ran = self.run_file("def test_it():\n    first = take(0.6)\n    take(0.6)\n")
        self.check(ran, "out of memory: ours")

    def test_more_than_there_is(self) -> None:
        with holder(0.3):  # without it there would not be enough either
            self.check(self.run_file("def test_it(): take(1.2)\n"), "out of memory: ours")

    def test_memory_of_another_process(self) -> None:
        body = "def test_it(): take(0.5)\n"
        with holder(0.7):
            ran = self.run_file(body)
            self.check(ran, *["out of memory: another process"] * 2)
            self.assertEqual(ran.status, 1)
        self.check(self.run_file(body), "")

    def test_memory_of_another_process_and_a_wrong_value(self) -> None:
        with holder(0.7):
            ran = self.run_file("def test_it(): take(0.5)\ndef test_b(): assert 1 == 2\n")
            self.check(ran, "test")

    def test_memory_of_a_process_of_its_own(self) -> None:
        body = f"import subprocess, sys\nHOLDER = {HOLDER!r}\n" + (
            "def test_it():\n"
            "    command = [sys.executable, '-c', HOLDER, '0.7']\n"
            "    pipe = subprocess.PIPE\n"
            "    other = subprocess.Popen(command, stdin=pipe, stdout=pipe)\n"
            "    other.stdout.readline()\n"
            "    take(0.5)\n"
        )
        self.check(self.run_file(body), "out of memory: ours")

    def test_an_expected_one_and_another_reason(self) -> None:
        body = (
            "def test_it():\n"
            "    with pytest.raises(torch.OutOfMemoryError):\n"
            "        take(1.2)\n"
            "    assert torch.ones(1, device='cuda').item() == 2\n"
        )
        self.check(self.run_file(body), "test")

    def test_a_fault_of_its_own_kernel(self) -> None:
        body = (
            "def test_it():\n"
            "    x = torch.zeros(3, device='cuda')\n"
            "    x[torch.tensor([10], device='cuda')]\n"
            "    torch.cuda.synchronize()\n"
        )
        self.check(self.run_file(body), "test")

    def test_the_driver_can_be_listened_to(self) -> None:
        driver = Nvml()
        uuids = [gpu.uuid for gpu in driver.gpus()]
        self.assertEqual(driver.xids(uuids), dict.fromkeys(uuids, ()))
        self.assertEqual([driver.usage(uuid).fault for uuid in uuids], [""] * len(uuids))


if __name__ == "__main__":
    unittest.main()
