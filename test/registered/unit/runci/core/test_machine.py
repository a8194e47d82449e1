"""Which GPU is the declared one: names as NVIDIA's and AMD's drivers give them, real memory."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from runci import register_cpu_ci
from runci.config.taxonomy import Runner
from runci.core.machine import Gpu, declaration, differences, has_memory, is_model, mismatch

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

# As in g_nv_name_released.h of NVIDIA's open kernel modules (2026-03), with V100, P100 and MIG
# from NVIDIA's manuals, and AMD's market names.
NAMES = """\
NVIDIA H100
NVIDIA H100 80GB HBM3
NVIDIA H100 NVL
NVIDIA H100 PCIe
NVIDIA H100-80C
NVIDIA H100-1-10C
NVIDIA H100 80GB HBM3 MIG 1g.10gb
NVIDIA H20
NVIDIA H20-3e
NVIDIA H20 NVL16
NVIDIA H200
NVIDIA H200 NVL
NVIDIA H800
NVIDIA GH200 120GB
NVIDIA GH200 144G HBM3e
NVIDIA GH200 480GB
NVIDIA B200
NVIDIA GB200
NVIDIA B300 SXM6 AC
NVIDIA GB300
NVIDIA A10
NVIDIA A10G
NVIDIA A10-24
NVIDIA A100-SXM4-40GB
NVIDIA A100-SXM4-80GB
NVIDIA A100-SXM-64GB
NVIDIA A100-PCIE-40GB
NVIDIA A100 80GB PCIe
NVIDIA A100-PG509-200
NVIDIA A100-SXM4-40GB MIG 3g.20gb
NVIDIA A800 40GB Active
NVIDIA A800 80GB PCIe
NVIDIA A800 80GB PCIe LC
NVIDIA L4
NVIDIA L40
NVIDIA L40S
NVIDIA L40S-48
NVIDIA GeForce RTX 3060
NVIDIA GeForce RTX 3060 Ti
NVIDIA GeForce RTX 3060 Laptop GPU
NVIDIA GeForce RTX 4090
NVIDIA GeForce RTX 4090 D
NVIDIA GeForce RTX 5090
NVIDIA GeForce RTX 5090 D
NVIDIA GeForce RTX 5090 D v2
NVIDIA GeForce RTX 5090 Laptop GPU
NVIDIA GeForce RTX 2070 SUPER
NVIDIA GeForce RTX 2070 Super with Max-Q Design
NVIDIA GeForce GTX 1060 3GB
NVIDIA GeForce GTX 1060 6GB
NVIDIA RTX A6000
NVIDIA RTX 6000D
NVIDIA RTX 6000 Ada Generation
NVIDIA RTX 5000 Ada Generation
NVIDIA RTX 5000 Ada Generation Laptop GPU
NVIDIA RTX PRO 6000 Blackwell Server Edition
NVIDIA RTX PRO 6000 Blackwell Workstation Edition
NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition
Quadro RTX 6000
Quadro T1000
NVIDIA T1000
NVIDIA T1000 8GB
NVIDIA TITAN RTX
Tesla T4
Tesla V100-SXM2-16GB
Tesla V100-SXM2-32GB
Tesla V100-PCIE-16GB
Tesla V100S-PCIE-32GB
AMD Instinct MI300X
AMD Instinct MI300X OAM
AMD Instinct MI300X VF
AMD Instinct MI300A
AMD Instinct MI325X
AMD Radeon RX 7900 XT
AMD Radeon RX 7900 XTX
""".splitlines()


@pytest.mark.parametrize(
    ("declared", "those"),
    [
        ("H100", ["NVIDIA H100", "NVIDIA H100 80GB HBM3"]),
        ("h100", ["NVIDIA H100", "NVIDIA H100 80GB HBM3"]),
        ("NVIDIA H100 80GB HBM3", ["NVIDIA H100 80GB HBM3"]),
        ("H100 NVL", ["NVIDIA H100 NVL"]),
        ("H100 PCIe", ["NVIDIA H100 PCIe"]),
        ("H20", ["NVIDIA H20"]),
        ("H200", ["NVIDIA H200"]),
        ("200", []),
        ("NVL H100", []),
        ("GH200", ["NVIDIA GH200 120GB", "NVIDIA GH200 144G HBM3e", "NVIDIA GH200 480GB"]),
        ("B200", ["NVIDIA B200"]),
        ("B300", ["NVIDIA B300 SXM6 AC"]),
        ("A10", ["NVIDIA A10"]),
        ("A100", ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM-64GB"]),
        ("A100 80GB", ["NVIDIA A100-SXM4-80GB"]),
        ("A100-SXM4-40GB", ["NVIDIA A100-SXM4-40GB"]),
        ("A100 PCIe", ["NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"]),
        ("A100 40GB MIG 3g.20gb", ["NVIDIA A100-SXM4-40GB MIG 3g.20gb"]),
        ("A800 PCIe", ["NVIDIA A800 80GB PCIe", "NVIDIA A800 80GB PCIe LC"]),
        ("L4", ["NVIDIA L4"]),
        ("L40", ["NVIDIA L40"]),
        ("L40S", ["NVIDIA L40S"]),
        ("RTX 3060", ["NVIDIA GeForce RTX 3060"]),
        ("RTX 4090", ["NVIDIA GeForce RTX 4090"]),
        ("RTX 5090", ["NVIDIA GeForce RTX 5090"]),
        ("GeForce RTX 5090", ["NVIDIA GeForce RTX 5090"]),
        ("RTX 5090 D", ["NVIDIA GeForce RTX 5090 D"]),
        ("RTX 5090 Laptop", ["NVIDIA GeForce RTX 5090 Laptop GPU"]),
        ("RTX 2070 SUPER", ["NVIDIA GeForce RTX 2070 SUPER"]),
        ("GTX 1060", ["NVIDIA GeForce GTX 1060 3GB", "NVIDIA GeForce GTX 1060 6GB"]),
        ("RTX 6000", []),  # three generations have one of this name: say which
        ("RTX 6000 Ada", ["NVIDIA RTX 6000 Ada Generation"]),
        ("Quadro RTX 6000", ["Quadro RTX 6000"]),
        ("RTX A6000", ["NVIDIA RTX A6000"]),
        ("RTX 5000 Ada", ["NVIDIA RTX 5000 Ada Generation"]),
        ("RTX PRO 6000 Blackwell", []),
        (
            "RTX PRO 6000 Blackwell Server Edition",
            ["NVIDIA RTX PRO 6000 Blackwell Server Edition"],
        ),
        ("T1000", ["NVIDIA T1000", "NVIDIA T1000 8GB"]),
        ("TITAN", []),
        ("T4", ["Tesla T4"]),
        ("V100", ["Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"]),
        ("Tesla V100 PCIe", ["Tesla V100-PCIE-16GB"]),
        ("MI300X", ["AMD Instinct MI300X", "AMD Instinct MI300X OAM"]),
        ("RX 7900 XT", ["AMD Radeon RX 7900 XT"]),
    ],
)
def test_a_name_is_the_declared_model_by_whole_words(declared: str, those: list[str]) -> None:
    assert [name for name in NAMES if is_model(declared, name)] == those


def test_a_name_that_says_nothing_is_no_model() -> None:
    assert not is_model("H100", "")
    assert not is_model("H100", "NVIDIA")


# MiB as `nvidia-smi` shows them, and the makers' GB.
MEMORIES = {
    "T4": (16, 15360),
    "V100 32GB": (32, 32768),
    "A10": (24, 23028),
    "L4": (24, 23034),
    "RTX 4090": (24, 24564),
    "RTX 5090": (32, 32607),
    "A100 40GB": (40, 40960),
    "L40S": (48, 46068),
    "RTX 6000 Ada": (48, 49140),
    "A100 80GB": (80, 81920),
    "H100 80GB": (80, 81559),
    "H100 NVL": (94, 95830),
    "RTX PRO 6000": (96, 97887),
    "GH200": (96, 97871),
    "H200": (141, 143771),
    "B200": (192, 183359),  # sold as 180 GB and as 192 GB
    "MI300X": (192, 196592),
    "B300": (288, 275040),
}


@pytest.mark.parametrize("card", MEMORIES)
def test_memory_is_the_makers_within_a_tenth(card: str) -> None:
    gigabytes, shown = MEMORIES[card]
    assert has_memory(gigabytes, shown)
    near = {n for n, (gb, _) in MEMORIES.items() if abs(gb - gigabytes) < 0.15 * gigabytes}
    taken = {n for n, (gb, _) in MEMORIES.items() if has_memory(gb, shown)}
    assert card in taken <= near


@pytest.mark.parametrize(
    ("declared", "shown", "fits"),
    [
        (80, 95830, False),
        (94, 81559, False),
        (80, 40960, False),
        (40, 81920, False),
        (24, 32607, False),
        (32, 24564, False),
        (80, 0, False),
        (100, 90 * 1024, True),
        (100, 110 * 1024, True),
        (100, 89.9 * 1024, False),
        (100, 110.1 * 1024, False),
        (0.5, 512, True),
    ],
)
def test_other_memory_is_not(declared: float, shown: float, fits: bool) -> None:
    assert has_memory(declared, shown) is fits


H100 = Gpu(0, "GPU-0", "NVIDIA H100 80GB HBM3", "9.0", 81559)
WANTED = Runner("h100", "gpu-h100", 1, "H100", "9.0", 80)


@pytest.mark.parametrize(
    ("wanted", "gpu", "wrong"),
    [
        (WANTED, H100, []),
        (WANTED, replace(H100, name="NVIDIA H100 NVL"), ["it is no H100"]),
        (WANTED, replace(H100, name=""), ["it says no name"]),
        (WANTED, replace(H100, compute_capability="9.1"), ["its compute capability is 9.1"]),
        (WANTED, replace(H100, compute_capability=None), ["its compute capability is unknown"]),
        (WANTED, replace(H100, memory_mb=95830), ["its memory is 94 GiB, not 80 GB"]),
        (WANTED, replace(H100, memory_mb=None), ["its memory is unknown"]),
        (WANTED, Gpu(0, "a", "RTX 3060", "8.6", 12288), ["it is no", "its compute", "its memory"]),
        (Runner("any", "gpu", 1), Gpu(0, "a", ""), []),
        (replace(WANTED, gpu="any"), replace(H100, name=""), []),
        (replace(WANTED, gpu="any"), replace(H100, memory_mb=1), ["its memory"]),
        (replace(WANTED, gpu=None), replace(H100, name="NVIDIA L4"), []),
        (replace(WANTED, compute_capability=None), replace(H100, compute_capability=None), []),
        (replace(WANTED, memory_gb=None), replace(H100, memory_mb=None), []),
    ],
)
def test_what_is_declared_is_compared_and_nothing_else(
    wanted: Runner, gpu: Gpu, wrong: list[str]
) -> None:
    found = differences(wanted, gpu)
    assert len(found) == len(wrong)
    assert all(one.startswith(start) for one, start in zip(found, wrong, strict=True))
    assert bool(mismatch(wanted, [gpu])) == bool(wrong)


def test_only_cuda_has_a_compute_capability() -> None:
    gpu = replace(H100, compute_capability=None)
    assert differences(WANTED, gpu, cuda=False) == []
    assert not mismatch(WANTED, [gpu], cuda=False)
    assert mismatch(WANTED, [gpu])


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, False), (2, True), (3, True)])
def test_there_must_be_the_declared_number_at_least(count: int, fits: bool) -> None:
    assert bool(mismatch(replace(WANTED, gpus=2), [H100] * count)) is not fits


def test_every_gpu_must_be_the_declared_one() -> None:
    other = Gpu(1, "GPU-1", "NVIDIA T1000", "7.5", 4096)
    said = mismatch(WANTED, [H100, other])
    assert "GPU 1, NVIDIA T1000 (compute capability 7.5, 4 GiB): it is no H100" in said
    assert "GPU 0" not in said


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (WANTED, "1 GPU H100 (compute capability 9.0, 80 GB)"),
        (Runner("any", "gpu", 2), "2 GPUs"),
        (Runner("any", "gpu", 2, "any", memory_gb=24.5), "2 GPUs of any name (24.5 GB)"),
    ],
)
def test_a_declaration_is_told_in_a_line(wanted: Runner, said: str) -> None:
    assert declaration(wanted) == said


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
