"""--fix, character by character: the text before and after each kind of edit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CALL, CLEAN, IMPORT, TEST, TESTS, make_tree, mend

from runci import register_cpu_ci

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"
CUDA = 'from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=5, suite="old-style")\n'
UNITTEST = "\n\nclass TestX(unittest.TestCase):\n    def test_x(self):\n        self.fail()\n"
ALIAS = "from runci import register_cpu_ci as reg\n\nreg(est_time=5, suite='by-hand')\n"
MAIN = '\n\nif __name__ == "__main__":\n    import pytest\n'
IN_ONE_LINE = "import pytest\n" + CUDA + TEST + '\n\nif __name__ == "__main__":'
RUNNER = "unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.discover('.'))"
EXACT = {
    "alias among other names": (
        ALIAS.replace("import ", "import register_cuda_ci, ") + TEST,
        ALIAS.replace("import ", "import register_cuda_ci, ")
        .replace("register_cpu_ci as reg", "register_cpu_ci")
        .replace("\nreg", "\nregister_cpu_ci")
        + TEST,
    ),
    "main block missing, unittest renamed": (
        "import unittest as ut\n" + CUDA + UNITTEST.replace("unittest.", "ut."),
        "import unittest as ut\n"
        + CUDA
        + UNITTEST.replace("unittest.", "ut.")
        + '\n\nif __name__ == "__main__":\n    import sys\n\n    import pytest\n\n'
        '    sys.exit(pytest.main([__file__, "-v"]))\n',
    ),
    "alias": (
        ALIAS + "reg(est_time=5, suite='weekly-cpu')  # why" + TEST,
        ALIAS.replace("register_cpu_ci as reg", "register_cpu_ci").replace(
            "\nreg", "\nregister_cpu_ci"
        )
        + "register_cpu_ci(est_time=5, suite='weekly-cpu')  # why"
        + TEST,
    ),
    "alias in use elsewhere": (
        ALIAS + "print(reg)" + TEST,
        "from runci import register_cpu_ci\n"
        + ALIAS.replace("\nreg", "\nregister_cpu_ci")
        + "print(reg)"
        + TEST,
    ),
    "attribute": (
        "import runci\n\nrunci . register_cpu_ci(5, 'by-hand')" + TEST,
        "from runci import register_cpu_ci\nimport runci\n\nregister_cpu_ci(5, 'by-hand')" + TEST,
    ),
    "missing import, below the docstring and the future": (
        f'#!/bin/x\n"""D."""\nfrom __future__ import annotations\n\n{CALL}{TEST}',
        '#!/bin/x\n"""D."""\nfrom __future__ import annotations\n'
        f"from runci import register_cpu_ci\n\n{CALL}{TEST}",
    ),
    "legacy suite": (
        IMPORT + "register_cpu_ci(5, 'base-a-test-cpu', False, '#1')  # x" + TEST,
        IMPORT + 'register_cpu_ci(5, stage="base-a", runner_config="cpu", '
        "nightly=False, disabled='#1')  # x" + TEST,
    ),
    "duplicate with a comment": (
        IMPORT + CALL + CALL.replace("\n", "  # keep me\n") + TEST,
        IMPORT + CALL + "# keep me\n" + TEST,
    ),
    "duplicate between statements": (
        IMPORT + CALL.strip() + "; " + CALL.strip() + "; print(1)\n" + TEST,
        IMPORT + CALL.strip() + "; print(1)\n" + TEST,
    ),
    "duplicate at the end, without a newline": (
        IMPORT + CALL + TEST + CALL.strip(),
        IMPORT + CALL + TEST,
    ),
    "main block missing": (
        "import unittest\n" + CUDA + UNITTEST,
        "import unittest\n"
        + CUDA
        + UNITTEST
        + '\n\nif __name__ == "__main__":\n    unittest.main()\n',
    ),
    "main block missing, with functions": (
        "import unittest\n" + CUDA + TEST,
        "import unittest\n"
        + CUDA
        + TEST
        + '\n\nif __name__ == "__main__":\n    import sys\n\n    import pytest\n\n'
        '    sys.exit(pytest.main([__file__, "-v"]))\n',
    ),
    "main block too early": (
        "import unittest\n" + CUDA + '\n# Why.\nif __name__ == "__main__":\n    unittest.main()\n'
        "    # end\n" + UNITTEST.rstrip(),
        "import unittest\n"
        + CUDA
        + "\n"
        + UNITTEST.strip()
        + '\n\n\n# Why.\nif __name__ == "__main__":\n'
        "    unittest.main()\n    # end\n",
    ),
    "result dropped": (
        CUDA + TEST + MAIN + "    pytest.main(['é', __file__])  # end\n",
        CUDA + TEST + MAIN + "    raise SystemExit(pytest.main(['é', __file__]))  # end\n",
    ),
    "result dropped, in one line": (
        IN_ONE_LINE + " print('é'); pytest.main(\n    [__file__]\n);",
        IN_ONE_LINE + " print('é'); raise SystemExit(pytest.main(\n    [__file__]\n));",
    ),
    "unittest kept from its exit": (
        "import unittest\n"
        + CUDA
        + UNITTEST
        + MAIN
        + "    unittest.main(verbosity=2, exit=False)\n",
        "import unittest\n" + CUDA + UNITTEST + MAIN + "    raise SystemExit(not "
        "unittest.main(verbosity=2, exit=False).result.wasSuccessful())\n",
    ),
    "result of a unittest runner dropped": (
        "import unittest\n" + CUDA + UNITTEST + MAIN + f"    {RUNNER}\n",
        "import unittest\n"
        + CUDA
        + UNITTEST
        + MAIN
        + f"    raise SystemExit(not {RUNNER}.wasSuccessful())\n",
    ),
    "result dropped above the tests": (
        "import unittest\n" + CUDA + MAIN + "    unittest.main(exit=False)\n" + UNITTEST,
        "import unittest\n"
        + CUDA
        + "\n\n"
        + UNITTEST.lstrip("\n")
        + MAIN
        + "    raise SystemExit(not unittest.main(exit=False).result.wasSuccessful())\n",
    ),
    "main block missing, with a plain class": (
        "import unittest\n" + CUDA + UNITTEST + "\n\nclass TestPlain:\n    def test_p(self): ...\n",
        "import unittest\n" + CUDA + UNITTEST + "\n\nclass TestPlain:\n    def test_p(self): ...\n"
        '\n\nif __name__ == "__main__":\n    import sys\n\n    import pytest\n\n'
        '    sys.exit(pytest.main([__file__, "-v"]))\n',
    ),
    "byte order marks": ("\ufeff\ufeff" + CLEAN, CLEAN),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("case", EXACT)
def test_edits_exactly(case: str, ends: str, tmp_path: Path) -> None:
    before, after = (text.replace("\n", ends).encode() for text in EXACT[case])
    root = make_tree(tmp_path, {FILE: before})
    assert mend(root) > 0
    assert (root / FILE).read_bytes() == after


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
