"""Faults of rules, one a rule, each at a known line; a rule need not have one here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from settings import EMPTY_SUITE, workflows
from templates import MAIN

_HERE = "@@"  # stands on the faulty line of the sources below; not written
_CPU = 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n'
_PAIR = 'stage="base-b-kernel-unit", runner_config="1-gpu-small"'
_GPU = f"register_cuda_ci(est_time=5, {_PAIR})\n"
_HEAD = (
    '"""Seeded."""\n\nimport unittest\n\nfrom runci import register_cpu_ci, register_cuda_ci\n\n'
)
_TEST = (
    "\n\nclass TestSum(unittest.TestCase):\n    def test_sum(self):\n        assert sum([1]) == 1\n"
)
_PYTEST = '\n\nif __name__ == "__main__":\n    import pytest\n\n'
_UNIT, _KERNEL = "test/registered/unit/faults", "test/registered/kernel/faults"


@dataclass(frozen=True)
class Fault:
    """A file, and the rule that finds a fault in it; no rule for a file that others need.

    `source` None stands for a broken symbolic link.
    """

    path: str
    line: int
    rule: str
    source: str | None


def _cpu(change: str, to: str) -> str:
    return _HEAD + _HERE + _CPU.replace(change, to) + _TEST + MAIN


def _gpu(change: str, to: str) -> str:
    return _HEAD + _HERE + _GPU.replace(change, to) + _TEST + MAIN


_CALLS = {
    "RT104": _cpu("5", "2 * 5"),
    "RT105": _cpu("5", "0"),
    "RT106": _cpu(")\n", ", priority=1)\n"),
    "RT107": _cpu(', runner_config="cpu"', ""),
    "RT108": _cpu("register", _CPU + _HERE + "register").replace(_HERE, "", 1),
    "RT109": _cpu(")\n", ', disabled="flaky")\n'),
    "RT201": _cpu("base-a", "base-z"),
    "RT202": _gpu(_PAIR, 'suite="base-b-kernel-unit-test-1-gpu-small"'),
    "RT204": _gpu(_PAIR, 'suite="nightly-kernel-1-gpu"'),
    "RT501": _cpu("5", "86400"),
    "RT901": _cpu(")\n", ")  # runci: ignore[RT999] there is no such rule\n"),
    "RT902": _cpu(")\n", ")  # runci: ignore[RT109] there is nothing to suppress\n"),
}
_FORMS = {
    "RT101": _HERE + _HEAD + _TEST + MAIN,
    "RT102": _HEAD + f"if unittest:\n    {_HERE}{_CPU}" + _TEST + MAIN,
    "RT103": _HEAD + f"register = register_cpu_ci\n{_HERE}{_CPU[:8]}{_CPU[15:]}" + _TEST + MAIN,
    "RT301": _HEAD + _GPU + _TEST.replace("class", f"{_HERE}class"),
    "RT302": _HEAD + _GPU + MAIN.replace("if", f"{_HERE}if") + _TEST,
    "RT303": _HEAD + _GPU + _TEST + MAIN.replace("unittest.main()", f'{_HERE}print("done")'),
    "RT304": _HEAD + _GPU + _TEST + f"{_PYTEST}    {_HERE}pytest.main([__file__])\n",
    "RT305": _HEAD + _HERE + _GPU + MAIN,
    "RT308": _HEAD
    + _CPU
    + "import torch\n\n\ndef test_cuda():\n    if not torch.cuda.is_available():\n"
    + f"        {_HERE}return\n    assert torch.ones(1).cuda() == 1\n"
    + MAIN,
    "RT401": _HEAD + _CPU + f"\n\n{_HERE}def test_sum(:\n    assert sum([1]) == 1\n",
    "RT402": _HERE + "\ufeff" + _HEAD + _CPU + _TEST + MAIN,
}


def faults() -> Iterator[Fault]:
    """All of them, and the files beside them that they need."""
    for rule, source in {**_CALLS, **_FORMS}.items():
        folder = _KERNEL if "register_cuda_ci(" in source else _UNIT
        yield _fault(f"{folder}/test_fault_{rule.lower()}.py", rule, source)
    yield _fault(f"{_UNIT}/test_fault_rt203.py", "RT203", _gpu("", ""))
    orphan = _gpu(_PAIR, 'suite="weekly-orphan"')
    yield _fault("test/registered/faults/test_fault_rt205.py", "RT205", orphan)
    yield _fault(f"{_KERNEL}/test_group_a.py", "", _gpu(")\n", ', in_process_group="seeded")\n'))
    torn = _gpu('-small")', '-large", in_process_group="seeded")')
    yield _fault(f"{_KERNEL}/test_group_b.py", "RT207", torn)
    yield _fault(f"{_UNIT}/tset_fault_rt306.py", "RT306", _cpu("", ""))
    yield _fault(f"{_UNIT}/test_pair.py", "", _cpu("", ""))
    yield _fault(f"{_UNIT}_more/test_pair.py", "RT307", _HERE + _cpu("", "").replace(_HERE, ""))
    yield Fault(f"{_UNIT}/test_fault_rt403.py", 1, "RT403", None)
    for path, text in workflows(empty=True).items():
        if EMPTY_SUITE in text:
            yield _fault(path, "RT206", text.replace(EMPTY_SUITE, _HERE + EMPTY_SUITE))


def _fault(path: str, rule: str, marked: str) -> Fault:
    before, _, after = marked.partition(_HERE)
    return Fault(path, before.count("\n") + 1, rule, before + after)
