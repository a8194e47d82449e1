"""Two processes that hang on one GPU: where each is, and that the GPU is told of."""

from __future__ import annotations

import re
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from run_trees import Ran, make, registered, run

from runci import register_cuda_ci

register_cuda_ci(est_time=60, stage="base-b", runner_config="1-gpu-small")

# Started as torchrun starts them; gloo, since NCCL takes no two ranks on one GPU. One waits for the
# other's tensor, the other for a kernel that does not end.
HANG = registered(
    """
    import subprocess

    RANK = '''
    import datetime, torch, torch.distributed as dist

    def in_all_reduce():
        dist.all_reduce(torch.ones(1 << 20, device="cuda"))

    def in_a_kernel():
        torch.cuda._sleep(1 << 44)
        torch.cuda.synchronize()

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
    torch.ones(1, device="cuda")
    dist.barrier()
    open(f"ready-{dist.get_rank()}", "w").close()
    in_all_reduce() if dist.get_rank() == 0 else in_a_kernel()
    '''

    def test_ranks():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK], env={**os.environ, **common, "RANK": str(rank)}
            )
            for rank in (0, 1)
        ]
        for rank in ranks: rank.wait()
    """
)
LIMIT = 45
MOST = 10  # seconds that a look may take


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class TestGpuHang(unittest.TestCase):
    ran: Ran
    found: str

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = make(Path(folder), {"test_hang.py": HANG})
            limits = ("--timeout-per-file", str(LIMIT), "--grace", "1")
            cls.ran = run(root, "--suite", "base-a-test-cpu", *limits)
            cls.result = cls.ran.result("test_hang.py")
            cls.ready = len(list(root.glob("ready-*")))
            stacks = root / ".runci/results" / (cls.result.stacks or "none")
            cls.found = stacks.read_text(encoding="utf-8") if stacks.is_file() else ""
        sys.stdout.write(cls.ran.output)

    def test_every_rank_is_shown(self) -> None:
        self.assertEqual(self.ready, 2, self.ran.output)
        for place in ("test_ranks", "in_all_reduce", "in_a_kernel"):
            self.assertRegex(self.found, rf"(?m)^ +{place}  \S+:\d+$")
        for rank in (0, 1):
            self.assertRegex(self.found, rf"(?m)^pid .* RANK={rank} WORLD_SIZE=2$")

    def test_the_gpu_is_busy_and_its_memory_used(self) -> None:
        gpus = re.findall(r"(?m)^GPU \d+ \(.+\): (\d+) % busy, ([\d,]+) MiB in use", self.found)
        self.assertTrue(gpus, self.found)
        self.assertGreater(max(int(busy) for busy, _ in gpus), 50)
        self.assertGreater(max(int(used.replace(",", "")) for _, used in gpus), 100)

    def test_the_file_ends_in_time(self) -> None:
        self.assertGreater(self.result.seconds, LIMIT)
        self.assertLess(self.result.seconds, LIMIT + MOST + 10)  # and killed, which CUDA delays


if __name__ == "__main__":
    unittest.main()
