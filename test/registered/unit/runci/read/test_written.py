"""Which tests a file cannot have, as a table: no is said only where it is sure."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.read.written import written

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FILE = """
import unittest, pytest
from unittest import TestCase as Case
from elsewhere import Base, TestImported

def test_plain(): pass
@pytest.mark.parametrize("x", [1])
def test_many(x): pass
if CUDA:
    async def test_gpu(): pass
test_made = make()
class TestOne(Case):
    @unittest.skip("no")
    def test_in(self): pass
class TestTwo(TestOne):
    def test_two(self): pass
class TestOpen(Base):
    def test_own(self): pass
class TestDeep:
    class TestIn:
        def test_x(self): pass
    test_set = make()
class TestExpanded(Case):
    @parameterized.expand([1])
    def test_e(self): pass
class TestRegistered(Case):
    def test_r(self): pass
instantiate(TestRegistered)
class TestMeta(metaclass=M): pass
"""


@pytest.mark.parametrize(
    ("test", "may"),
    [
        ("test_plain", True),
        ("test_plain[1]", True),  # a fixture may parametrize it
        ("test_many[a::b]", True),
        ("test_gpu", True),
        ("test_made", True),
        ("TestOne", True),
        ("TestOne::test_in", True),
        ("TestOne::test_nope", False),
        ("TestTwo::test_two", True),
        ("TestTwo::test_in", True),  # inherited
        ("TestTwo::test_nope", False),
        ("TestOpen::test_any", True),
        ("TestImported::test_any", True),
        ("TestDeep::TestIn::test_x", True),
        ("TestDeep::TestIn::test_y", False),
        ("TestDeep::test_set", True),
        ("TestDeep::test_y", False),
        ("TestExpanded::test_e_0", True),
        ("TestRegistered::test_r_cuda", True),
        ("TestMeta::test_any", True),
    ],
)
def test_what_a_file_may_have(test: str, may: bool) -> None:
    assert written(FILE.encode()).may_have(test) is may


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("def test_a(): pass\n", False),
        ("def test_a(): pass\n@decorated\nclass TestA: pass\n", True),
        ("def test_a(): pass\nglobals()['test_nope'] = test_a\n", True),
        ("def test_a(): pass\ndef load_tests(*_): pass\n", True),
        ("from elsewhere import *\n", True),
        ("def test_a(:\n", True),
        ("", False),
    ],
)
def test_a_name_that_nothing_makes(text: str, may: bool) -> None:
    assert written(text.encode()).may_have("test_nope") is may
    assert written(text.encode()).may_have("TestNope::test_a[1]") is may


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
