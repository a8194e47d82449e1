"""suites.yml: what is read, and every fault with its line, its value and what would be right."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.config.suites import ConfigError, load_taxonomy
from runci.config.taxonomy import Execution, Kind, Suite, Taxonomy, Workflows
from runci.core.errors import Exit
from runci.core.globs import FileGlobs
from runci.core.registration import Backend

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[5]

# Faults are put at the end, from line 12 on.
BASE = """\
version: 1
roots: [test/registered]
runners:
  cpu: {label: ubuntu-latest, execution: pytest}
  1-gpu-small: {label: 1-gpu-5090, gpu: RTX 5090, compute_capability: "12.0", gpus: 1}
suites:
  cpu:
    - {stage: base-a, runner_configs: [cpu], kind: per-commit}
  cuda:
    - {stage: base-b, runner_configs: [1-gpu-small], kind: per-commit, timeout_minutes: 30}
    - {name: nightly-kernel, runner: 1-gpu-small, kind: nightly}
"""
BASE_LINES = BASE.count("\n")


def read(text: str | bytes) -> Taxonomy:
    return load_taxonomy(text if isinstance(text, bytes) else text.encode(), "s.yml")


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.code is Exit.USAGE
    assert str(caught.value).splitlines() == [
        f"s.yml:{p.line}:{p.column}: {p.text}" for p in caught.value.problems
    ]
    return str(caught.value).splitlines()


def test_reads_all_that_it_says() -> None:
    taxonomy = read(
        BASE
        + """\
exclude: [conftest.py]
test_files: ["*_test.py"]
marker_modules: [a.b]
benchmarks: [bench/**]
entry_points: [run_tests, a.main]
disabled_reason: 'JIRA-\\d+'
taxonomy:
  - {folder: test/registered/unit/**, allow: {cpu: ["*"]}, because: No GPU.}
skips:
  - {test: "test/registered/a/test_x.py::TestX::test_y", runners: [cpu], reason: slow}
  - test:
      - test/registered/a/test_x.py::test_z[z-a]
      - test/registered/a/test_y.py
    runners: [cpu]
    reason: todos are kept elsewhere
components:
  kernel: {paths: [kernel/**], suites: ["base-b-*"]}
folder_rules:
  - {folder: test/registered/old/**, ignore: [RT302, RT5], because: Moves next month.}
workflows: {paths: [ci/workflows], commands: [run_suite.py]}
"""
    )
    assert (taxonomy.path, taxonomy.roots) == ("s.yml", ("test/registered",))
    assert taxonomy.exclude == ("conftest.py",)
    assert taxonomy.test_files == ("*_test.py",)
    assert taxonomy.marker_modules == ("a.b",)
    assert (taxonomy.benchmarks, taxonomy.entry_points) == (("bench/**",), ("run_tests", "a.main"))
    assert taxonomy.disabled_reason == r"JIRA-\d+"
    gpu = taxonomy.runners["1-gpu-small"]
    assert (gpu.label, gpu.gpus, gpu.gpu, gpu.compute_capability) == (
        "1-gpu-5090",
        1,
        "RTX 5090",
        "12.0",
    )
    assert gpu.execution is Execution.SCRIPT
    assert taxonomy.runners["cpu"].execution is Execution.PYTEST
    policy = taxonomy.folders[0]
    assert (policy.folder, policy.allow) == ("test/registered/unit/**", {Backend.CPU: ("*",)})
    assert policy.because == "No GPU."
    assert [(s.test.rpartition("/")[2], s.runners) for s in taxonomy.skips] == [
        ("test_x.py::TestX::test_y", ("cpu",)),
        ("test_x.py::test_z[z-a]", ("cpu",)),
        ("test_y.py", ("cpu",)),
    ]
    assert [skip.line - BASE_LINES for skip in taxonomy.skips] == [10, 12, 13]
    component = taxonomy.components[0]
    assert (component.name, component.paths, component.suites) == (
        "kernel",
        ("kernel/**",),
        ("base-b-*",),
    )
    rules = taxonomy.folder_rules[0]
    assert (rules.ignore, rules.line) == (("RT302", "RT5"), BASE_LINES + 19)
    assert taxonomy.workflows == Workflows(("ci/workflows",), ("run_suite.py",))


def test_defaults_are_those_of_the_data_model() -> None:
    taxonomy = read(BASE)
    plain = Taxonomy("s.yml", ("test/registered",))
    for name in ("exclude", "test_files", "benchmarks", "marker_modules", "entry_points"):
        assert getattr(taxonomy, name) == getattr(plain, name)
    assert taxonomy.disabled_reason == plain.disabled_reason
    assert taxonomy.workflows == plain.workflows
    assert (taxonomy.folders, taxonomy.skips, taxonomy.components) == ((), (), ())
    assert taxonomy.folder_rules == ()


def test_one_entry_declares_a_suite_for_each_runner_config_or_name() -> None:
    taxonomy = read(
        """\
version: 1
roots: [t]
runners:
  small: {label: s}
  large: {label: l}
suites:
  cuda:
    - stage: base-b
      runner_configs:
        - small
        - large
      kind: extra
      timeout_minutes: {small: 30}
      default_est_time: 60
      max_deselected: 0
      pair_required: true
    - name: [nightly-a, nightly-b]
      kind: nightly
      timeout_minutes: 0.5
      run_by: another repository
"""
    )
    assert list(taxonomy.suites.values()) == [
        Suite(
            name=f"base-b-test-{config}",
            backend=Backend.CUDA,
            kind=Kind.EXTRA,
            runner=config,
            timeout_minutes=timeout,
            default_est_time=60,
            max_deselected=0,
            stage="base-b",
            runner_config=config,
            pair_required=True,
            line=line,
        )
        for config, timeout, line in (("small", 30, 10), ("large", None, 11))
    ] + [
        Suite(
            name=name,
            backend=Backend.CUDA,
            kind=Kind.NIGHTLY,
            timeout_minutes=0.5,
            run_by="another repository",
            line=17,
        )
        for name in ("nightly-a", "nightly-b")
    ]


def test_a_merge_key_shares_settings() -> None:
    taxonomy = read(
        """\
version: 1
roots: [t]
suites:
  cuda:
    - &nightly {name: a, kind: nightly, timeout_minutes: 60}
    - {<<: *nightly, name: b}
"""
    )
    assert [(s.name, s.timeout_minutes) for s in taxonomy.suites.values()] == [("a", 60), ("b", 60)]


def test_a_taxonomy_can_go_to_another_process() -> None:
    taxonomy = read(BASE)
    assert pickle.loads(pickle.dumps(taxonomy)) == taxonomy


@pytest.mark.parametrize("path", ["test/suites.yml", "examples/sglang/suites.yml"])
def test_the_files_of_this_repository_are_right(path: str) -> None:
    taxonomy = load_taxonomy((ROOT / path).read_bytes(), path)
    assert taxonomy.suites
    first = (ROOT / path).read_text(encoding="utf-8").splitlines()[0]
    schema = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert schema is not None
    assert ((ROOT / path).parent / schema[1]).resolve() == (
        ROOT / "ci_scripts/runci/config/schemas/suites.schema.json"
    )


def test_roots_with_globs_of_their_own() -> None:
    head = b"version: 1\nexclude: [x.py]\nsuites: {cpu: [{name: a, kind: extra}]}\nroots: "
    given = b"[a, {path: ., test_files: [b_*.py]}, {path: c, exclude: []}, {path: d}]\n"
    taxonomy = load_taxonomy(head + given, "s.yml")
    usual = FileGlobs(("test_*.py", "bench_*.py"), ("x.py",))
    assert taxonomy.roots == ("a", ".", "c", "d")
    assert taxonomy.globs_by_root() == {
        "": usual,
        ".": FileGlobs(("b_*.py",), ("x.py",)),
        "c": FileGlobs(usual.test_files, ()),
    }
    where = {"a/b/c": "", "b": ".", "c": "c", "c/d.py": "c", "d/x": "", "e/c/x": "."}
    assert {path: taxonomy.root_of(path) for path in where} == where
    for again in (b"[a, {path: a}]", b"[{path: a}, a]"):
        with pytest.raises(ConfigError, match=r"roots\[1\]: 'a' stands there already"):
            load_taxonomy(head + again, "s.yml")
    assert load_taxonomy(head + b"[a, a]", "s.yml").roots == ("a",)
    for wrong in (b"[..]", b"[./a]", b"[{path: ./}]", b"[{test_files: [a]}]", b"[{path: a, b: 1}]"):
        with pytest.raises(ConfigError, match="roots"):
            load_taxonomy(head + wrong, "s.yml")


BACKENDS = "cpu, cuda, amd, npu, xpu, musa, mlx, mps, ppu"
KINDS = "per-commit, extra, nightly, weekly, stress"
PATH = "a relative path with forward slashes, without .. and without a slash at its end"
GLOB = PATH.replace("path", "glob", 1)
MINUTES = "a number of minutes above 0, at most 10080 (a week)"
KEYS = (
    "version, roots, exclude, test_files, marker_modules, benchmarks, entry_points, "
    "disabled_reason, runners, suites, taxonomy, skips, run_by, components, ignore, folder_rules, "
    "conditions, workflows"
)
REASON = "a text that says why (TODO says nothing)"
PATTERN = "a test such as test/registered/x/test_y.py::TestZ::test_w[1], or a glob of that form"
FACTS = "an expression of backend, gpus, gpu, compute_capability, memory_gb"
STAGE_KEYS = (
    "stage, runner_configs, kind, timeout_minutes, default_est_time, max_deselected, "
    "pair_required, run_by, under, under_factor, tests, env, pytest_args, setup"
)

# What is added to BASE, and all faults that it brings.
ADDED: dict[str, tuple[str, list[str]]] = {
    "unknown key": (
        "skip: []\n",
        [f"12:1: the document: unknown key 'skip'; allowed: {KEYS}; did you mean skips?"],
    ),
    "unknown key of a runner": (
        "workflows: {path: [a]}\n",
        [
            "12:13: workflows: unknown key 'path'; allowed: action, paths, commands, file_timeout, "
            "gates, gate_output, hosted, pr_tests, required_checks, jobs; did you mean paths?"
        ],
    ),
    "conditions that cannot be evaluated": (
        "conditions:\n  a: capability == (12, 0)\n  b: gpus ==\n  c: gpus > 1\n  d: gpu.x\n",
        [
            "13:6: conditions.a: 'capability == (12, 0)' asks 'capability', which is not known of "
            f"a runner; allowed: {FACTS}",
            f"14:6: conditions.b: 'gpus ==' is no Python expression; allowed: {FACTS}",
            f"16:6: conditions.d: 'gpu.x' holds 'gpu.x', which is not evaluated; allowed: {FACTS}",
        ],
    ),
    "a text instead of a list": (
        "exclude: conftest.py\n",
        ["12:10: exclude: 'conftest.py' is not allowed; allowed: a list"],
    ),
    "nothing instead of a list": (
        "exclude:\n",
        ["12:9: exclude: nothing is not allowed; allowed: a list"],
    ),
    "a number instead of a text": (
        "exclude: [1.5, true]\n",
        [
            f"12:11: exclude[0]: 1.5 is not allowed; allowed: {GLOB}; put it in quotes",
            f"12:16: exclude[1]: true is not allowed; allowed: {GLOB}; put it in quotes",
        ],
    ),
    "a list instead of a mapping": (
        "workflows: []\n",
        ["12:12: workflows: a list is not allowed; allowed: a mapping"],
    ),
    "an empty list": (
        "test_files: []\n",
        ["12:13: test_files: a list without entries; allowed: one entry or more"],
    ),
    "a module that is none": (
        "marker_modules: [runci, a-b]\n",
        [
            "12:25: marker_modules[1]: 'a-b' is not allowed; "
            "allowed: a Python name, dotted where it needs to be"
        ],
    ),
    "a regular expression that is none": (
        "disabled_reason: '(#\\d+'\n",
        [
            "12:18: disabled_reason: '(#\\\\d+' is wrong: missing ), unterminated "
            "subpattern; allowed: a regular expression"
        ],
    ),
    "a glob that is none": (
        'exclude: ["[z-a].py"]\n',
        [f"12:11: exclude[0]: '[z-a].py' is wrong: bad character range z-a; allowed: {GLOB}"],
    ),
    "absolute paths and ..": (
        "workflows:\n  paths: [/a, ../b, a/../c, 'C:\\d', a/, ./e, 'C:/f', a//b, '']\n",
        [
            f"13:{column}: workflows.paths[{index}]: {shown} is not allowed; allowed: {PATH}"
            for index, (column, shown) in enumerate(
                [
                    (11, "'/a'"),
                    (15, "'../b'"),
                    (21, "'a/../c'"),
                    (29, "'C:\\\\d'"),
                    (37, "'a/'"),
                    (41, "'./e'"),
                    (46, "'C:/f'"),
                    (54, "'a//b'"),
                    (60, "''"),
                ]
            )
        ],
    ),
    "a folder that is a file": (
        "folder_rules:\n  - {folder: test/registered, ignore: [RT3]}\n",
        [
            "13:14: folder_rules[0].folder: 'test/registered' is not allowed; allowed: a glob for "
            "the files of a folder, such as test/registered/unit/**"
        ],
    ),
    "a rule that is none": (
        "folder_rules:\n  - {folder: t/**, ignore: [rt302]}\n",
        [
            "13:29: folder_rules[0].ignore[0]: 'rt302' is not allowed; allowed: a rule such as "
            "RT302, or a family such as RT3"
        ],
    ),
    "a backend that is none": (
        "taxonomy:\n  - {folder: t/**, allow: {cudo: [x]}, because: y}\n",
        [
            f"13:28: taxonomy[0].allow.cudo: 'cudo' is not allowed; allowed: {BACKENDS}; "
            "did you mean cuda?"
        ],
    ),
    "a policy for nobody": (
        "taxonomy:\n  - {folder: t/**, allow: {}, because: y}\n",
        ["13:27: taxonomy[0].allow: a mapping without entries; allowed: one entry or more"],
    ),
    "a policy without its sentence": (
        "taxonomy:\n  - {folder: t/**, allow: {cpu: ['*']}}\n",
        ["13:5: taxonomy[0]: key 'because' is missing; allowed: a text"],
    ),
    "a policy whose glob matches nothing": (
        "taxonomy:\n  - {folder: t/**, allow: {cuda: ['*', base-a-test-cpu]}, because: y}\n",
        [
            "13:40: taxonomy[0].allow.cuda: 'base-a-test-cpu' matches no cuda suite; "
            "allowed: base-b-test-1-gpu-small, nightly-kernel; "
            "did you mean base-b-test-1-gpu-small?"
        ],
    ),
    "a policy for a backend without suites": (
        "taxonomy:\n  - {folder: t/**, allow: {amd: ['*']}, because: y}\n",
        ["13:34: taxonomy[0].allow.amd: '*' matches no amd suite; allowed: none"],
    ),
    "a policy that is never reached": (
        "taxonomy:\n"
        "  - {folder: t/**, allow: {cpu: ['*']}, because: y}\n"
        "  - {folder: t/unit/**, allow: {cpu: ['*']}, because: y}\n"
        "  - {folder: t/**, allow: {cpu: ['*']}, because: y}\n",
        [
            f"{line}:14: taxonomy[{index}].folder: '{folder}' is never reached: 't/**' on line 13 "
            "decides first; allowed: narrow folders above wide ones"
            for line, index, folder in ((14, 1, "t/unit/**"), (15, 2, "t/**"))
        ],
    ),
    "a component whose glob matches nothing": (
        "components:\n  kernel:\n    paths: [kernel/**]\n    suites:\n      - kernel-*\n",
        [
            "16:9: components.kernel.suites: 'kernel-*' matches no suite; "
            "allowed: base-a-test-cpu, base-b-test-1-gpu-small, nightly-kernel"
        ],
    ),
    "a component whose suite is nearly one": (
        "components:\n  kernel: {paths: [k/**], suites: [nightly-kernels]}\n",
        [
            "13:36: components.kernel.suites: 'nightly-kernels' matches no suite; "
            "allowed: base-a-test-cpu, base-b-test-1-gpu-small, nightly-kernel; "
            "did you mean nightly-kernel?"
        ],
    ),
    "a component without anything": (
        "components:\n  kernel: {}\n",
        [
            "13:11: components.kernel: key 'paths' is missing; allowed: a list",
            "13:11: components.kernel: key 'suites' is missing; allowed: a list",
        ],
    ),
    "a skip on an unknown runner": (
        "skips:\n  - {test: a/test_x.py, runners: [1-gpu-smal], reason: y}\n",
        [
            "13:35: skips[0].runners: '1-gpu-smal' is not declared under runners; "
            "allowed: cpu, 1-gpu-small; did you mean 1-gpu-small?"
        ],
    ),
    "a skip without reason": (
        "skips:\n  - {test: a/test_x.py, runners: [cpu], reason: ''}\n",
        [f"13:49: skips[0].reason: '' is not allowed; allowed: {REASON}"],
    ),
    "a skip whose reason is not written yet": (
        "skips:\n  - {test: a/test_x.py, runners: [cpu], reason: ' todo: say why'}\n",
        [f"13:49: skips[0].reason: ' todo: say why' is not allowed; allowed: {REASON}"],
    ),
    "a skip whose parameters do not end": (
        "skips:\n  - {test: [a/test_x.py, 'a/test_x.py::test_y[a]b'], runners: [cpu], reason: y}\n",
        [
            "13:26: skips[0].test[1]: 'a/test_x.py::test_y[a]b' is wrong: after :: a [ begins "
            f"parameters, which end with ] at the end; allowed: {PATTERN}"
        ],
    ),
    "a skip outside": (
        "skips:\n  - {test: ../test_x.py, runners: [cpu], reason: y}\n",
        [f"13:12: skips[0].test: '../test_x.py' is not allowed; allowed: {PATTERN}"],
    ),
}


@pytest.mark.parametrize("name", ADDED)
def test_faults_beside_the_suites(name: str) -> None:
    added, expected = ADDED[name]
    assert faults(BASE + added) == [f"s.yml:{fault}" for fault in expected]


# One entry of `suites: {cuda: [...]}`, on line 5 from column 7, and all faults that it brings.
ENTRIES: dict[str, tuple[str, list[str]]] = {
    "unknown kind": (
        "{stage: s, runner_configs: [small], kind: per-comit}",
        [
            f"5:49: suites.cuda[0].kind: 'per-comit' is not allowed; allowed: {KINDS}; "
            "did you mean per-commit?"
        ],
    ),
    "missing kind": (
        "{name: a}",
        [f"5:7: suites.cuda[0]: key 'kind' is missing; allowed: {KINDS}"],
    ),
    "variables of leases, of the service and of secrets": (
        "{name: a, kind: extra, env: {HIP_VISIBLE_DEVICES: '0', GITHUB_REF: x, HF_TOKEN: x}}",
        [
            "5:57: suites.cuda[0].env: 'HIP_VISIBLE_DEVICES' is set by runci, its leases or the "
            "service, not by a suite",
            "5:74: suites.cuda[0].env: 'GITHUB_REF' is set by runci, its leases or the service, "
            "not by a suite",
            "5:87: suites.cuda[0].env: 'HF_TOKEN' is the name of a secret, and plan.json shows it: "
            "give it to the job that runs the suite, in the workflow",
        ],
    ),
    "expressions": (
        "{name: a, kind: extra, env: {A: '${{ x }}'}, setup: ['${{ x }}']}",
        [
            "5:39: suites.cuda[0].env: '${{ x }}' has an expression, which only workflows "
            "evaluate: write a value",
            "5:60: suites.cuda[0].setup[0]: '${{ x }}' has an expression, which only workflows "
            "evaluate: write a value",
        ],
    ),
    "a variable without a name, and a number": (
        "{name: a, kind: extra, env: {1a: x, B: 1}}",
        [
            "5:36: suites.cuda[0].env.1a: '1a' is not allowed; allowed: a variable's name: "
            "letters, digits and underscores",
            "5:46: suites.cuda[0].env.B: 1 is not allowed; allowed: a text, in quotes where it is "
            "a number; put it in quotes",
        ],
    ),
    "options for scripts": (
        "{stage: s, runner_configs: [small], kind: extra, pytest_args: [-q]}",
        [
            "5:69: suites.cuda[0].pytest_args: runner 'small' runs scripts, which take none; "
            "give it `execution: pytest`, or leave them out"
        ],
    ),
    "a file among the options": (
        "{name: a, kind: extra, pytest_args: [-k, x]}",
        [
            "5:48: suites.cuda[0].pytest_args[1]: 'x' is not allowed; allowed: an option with its "
            "value in one word, such as --timeout=60 or -mslow"
        ],
    ),
    "a set-up in one text": (
        "{name: a, kind: extra, setup: make}",
        ["5:37: suites.cuda[0].setup: 'make' is not allowed; allowed: a list"],
    ),
    "a misspelt key": (
        "{stge: s, runner_configs: [small], kind: nightly}",
        [
            "5:7: suites.cuda[0]: key 'stage' is missing; allowed: a name of letters, digits, "
            "dots, hyphens and underscores",
            f"5:8: suites.cuda[0]: unknown key 'stge'; allowed: {STAGE_KEYS}; did you mean stage?",
        ],
    ),
    "a stage with a name": (
        "{stage: s, runner_configs: [small], name: n, kind: nightly}",
        [f"5:43: suites.cuda[0]: unknown key 'name'; allowed: {STAGE_KEYS}"],
    ),
    "tests that take nothing out": (
        "{name: a, kind: nightly, tests: ['!a.py', a.py, '!a.py::b', {files: '!b', marked: x}]}",
        [
            "5:40: suites.cuda[0].tests[0]: '!a.py' takes nothing out; allowed: a glob, below what "
            "it takes files from",
            "5:55: suites.cuda[0].tests[2]: '!a.py::b' takes nothing out; allowed: a glob, below "
            "what it takes files from",
            "5:67: suites.cuda[0].tests[3]: files: '!b' takes files out: it stands alone",
        ],
    ),
    "marks that cannot be": (
        "{name: a, kind: nightly, tests: [{files: a.py, marked: gpu == 2}]}",
        [
            "5:40: suites.cuda[0].tests[0]: marked: 'gpu == 2' is neither a mark, such as gpu or "
            "gpus(2), nor marks joined by and, or, not"
        ],
    ),
    "an entry that is a text": (
        "nightly",
        [
            "5:7: suites.cuda[0]: 'nightly' is not allowed; "
            "allowed: suites of a stage or suites with a name of their own"
        ],
    ),
    "unknown runner config": (
        "{stage: s, runner_configs: [small, larg], kind: nightly}",
        [
            "5:42: suites.cuda[0].runner_configs: 'larg' is not declared under runners; "
            "allowed: small, large; did you mean large?"
        ],
    ),
    "unknown runner": (
        "{name: s, runner: smal, kind: nightly}",
        [
            "5:25: suites.cuda[0].runner: 'smal' is not declared under runners; "
            "allowed: small, large; did you mean small?"
        ],
    ),
    "no runner config": (
        "{stage: s, runner_configs: [], kind: nightly}",
        ["5:34: suites.cuda[0].runner_configs: a list without entries; allowed: one entry or more"],
    ),
    "twice in one entry": (
        "{stage: s, runner_configs: [small, small], kind: nightly}",
        [
            "5:42: suites.cuda[0]: cuda has suite 's-test-small' already (line 5); "
            "allowed: each suite once"
        ],
    ),
    "twice, once by name": (
        "{stage: s, runner_configs: [small], kind: nightly}\n"
        "    - {name: s-test-small, kind: extra}",
        [
            "6:14: suites.cuda[1]: cuda has suite 's-test-small' already (line 5); "
            "allowed: each suite once"
        ],
    ),
    "a timeout for another runner config": (
        "{stage: s, runner_configs: [small], kind: nightly, timeout_minutes: {large: 5}}",
        [
            "5:76: suites.cuda[0].timeout_minutes: 'large' is no runner config of this stage; "
            "allowed: small"
        ],
    ),
    "pair_required of a name": (
        "{name: a, kind: nightly, pair_required: true}",
        [
            "5:32: suites.cuda[0]: unknown key 'pair_required'; "
            "allowed: name, runner, kind, timeout_minutes, default_est_time, max_deselected, "
            "run_by, under, under_factor, tests, env, pytest_args, setup"
        ],
    ),
    "max_deselected below 0": (
        "{name: a, kind: nightly, max_deselected: -1}",
        [
            "5:48: suites.cuda[0].max_deselected: -1 is not allowed; "
            "allowed: a whole number from 0 to 1000000"
        ],
    ),
    "max_deselected that is infinite": (
        "{name: a, kind: nightly, max_deselected: .inf}",
        [
            "5:48: suites.cuda[0].max_deselected: inf is not allowed; "
            "allowed: a whole number from 0 to 1000000"
        ],
    ),
    **{
        f"max_deselected {value}": (
            f"{{name: a, kind: nightly, max_deselected: {value}}}",
            [
                f"5:48: {value} is not one number in every YAML: write it plainly, or in quotes",
            ],
        )
        for value in ("030", "1:30", "1_0", "0b11", "0o17", "08", "1e3")
    },
    "max_deselected that is no whole number": (
        "{name: a, kind: nightly, max_deselected: 0.5}",
        [
            "5:48: suites.cuda[0].max_deselected: 0.5 is not allowed; "
            "allowed: a whole number from 0 to 1000000"
        ],
    ),
    "pair_required that is a text": (
        "{stage: s, runner_configs: [small], kind: nightly, pair_required: 'yes'}",
        ["5:73: suites.cuda[0].pair_required: 'yes' is not allowed; allowed: true or false"],
    ),
    "a name that is none": (
        "{name: 'a b', kind: nightly}",
        [
            "5:14: suites.cuda[0].name: 'a b' is not allowed; allowed: a name of letters, digits, "
            "dots, hyphens and underscores"
        ],
    ),
    "a name that ends its line": (
        '{name: "a\\n", kind: nightly}',
        [
            "5:14: suites.cuda[0].name: 'a\\n' is not allowed; allowed: a name of letters, digits, "
            "dots, hyphens and underscores"
        ],
    ),
    **{
        f"run_by {text}": (
            f"{{name: a, kind: nightly, run_by: {text}}}",
            [
                f"5:40: suites.cuda[0].run_by: '{text}': what GitHub runs here has none; leave it "
                "out, or say which workflow elsewhere"
            ],
        )
        for text in ("GitHub", "github-actions", "GitHub Actions.")
    },
    "an empty run_by": (
        "{name: a, kind: nightly, run_by: ''}",
        ["5:40: suites.cuda[0].run_by: '' is not allowed; allowed: a text"],
    ),
} | {
    f"timeout {shown}": (
        f"{{name: a, kind: nightly, timeout_minutes: {value}}}",
        [f"5:49: suites.cuda[0].timeout_minutes: {shown} is not allowed; allowed: {MINUTES}"],
    )
    for value, shown in (
        ("0", "0"),
        ("-5", "-5"),
        ("true", "true"),
        (".nan", "nan"),
        (".inf", "inf"),
        ("20000", "20000"),
        ("'30'", "'30'"),
        ("{small: 5}", "a mapping"),
        ("", "nothing"),
    )
}


def with_entry(entry: str) -> str:
    head = "version: 1\nroots: [t]\nsuites:\n  cuda:\n"
    runners = "  small: {label: s}\n  large: {label: l, execution: pytest}\n"
    return f"{head}    - {entry}\nrunners:\n{runners}"


@pytest.mark.parametrize("name", ENTRIES)
def test_faults_of_a_suite(name: str) -> None:
    entry, expected = ENTRIES[name]
    assert faults(with_entry(entry)) == [f"s.yml:{fault}" for fault in expected]


# One runner, on line 5 from column 6.
RUNNERS: dict[str, tuple[str, list[str]]] = {
    "no label": (
        "{}",
        [
            "5:6: runners.r: key 'label' is missing; "
            "allowed: a label, a list of labels, or {group: NAME, labels: [...]}"
        ],
    ),
    "labels without one": (
        "{label: []}",
        ["5:14: runners.r.label: a list without entries; allowed: one entry or more"],
    ),
    "a number among labels": (
        "{label: [gpu, 4]}",
        [
            "5:20: runners.r.label[1]: 4 is not allowed; allowed: a text; put it in quotes",
        ],
    ),
    "labels of no group": (
        "{label: {labels: [gpu]}}",
        ["5:14: runners.r.label: key 'group' is missing; allowed: a text"],
    ),
    "a group's misspelt labels": (
        "{label: {group: g, label: gpu}}",
        [
            "5:25: runners.r.label: unknown key 'label'; allowed: group, labels; "
            "did you mean labels?"
        ],
    ),
    "unknown execution": (
        "{label: l, execution: pytst}",
        [
            "5:28: runners.r.execution: 'pytst' is not allowed; allowed: script, pytest; "
            "did you mean pytest?"
        ],
    ),
    "a capability that is a number": (
        "{label: l, gpus: 1, compute_capability: 12.0}",
        [
            "5:46: runners.r.compute_capability: 12.0 is not allowed; allowed: a version in "
            'quotes, such as "12.0"; put it in quotes'
        ],
    ),
    "a GPU without their number": (
        "{label: l, gpu: H100}",
        [
            "5:6: runners.r: key 'gpus' is missing, which 'gpu' needs; "
            "allowed: a whole number from 0 to 1024"
        ],
    ),
    "half a GPU, and a boolean as memory": (
        "{label: l, gpus: 0.5, memory_gb: true}",
        [
            "5:23: runners.r.gpus: 0.5 is not allowed; allowed: a whole number from 0 to 1024",
            "5:39: runners.r.memory_gb: true is not allowed; "
            "allowed: a number of gigabytes above 0",
        ],
    ),
    "true GPUs": (
        "{label: l, gpus: true}",
        ["5:23: runners.r.gpus: true is not allowed; allowed: a whole number from 0 to 1024"],
    ),
}


@pytest.mark.parametrize("name", RUNNERS)
def test_faults_of_a_runner(name: str) -> None:
    runner, expected = RUNNERS[name]
    head = "version: 1\nroots: [t]\nsuites: {cpu: [{name: a, kind: extra}]}\nrunners:\n"
    assert faults(f"{head}  r: {runner}\n") == [f"s.yml:{fault}" for fault in expected]


def test_one_backend_s_suites_are_not_another_s() -> None:
    head = "version: 1\nroots: [t]\nsuites:\n"
    both = "  cpu: [{name: a, kind: extra}]\n  cuda: [{name: a, kind: extra}]\n"
    assert len(read(head + both).suites) == 2


def test_what_a_file_must_have() -> None:
    assert faults("{}") == [
        "s.yml:1:1: the document: key 'version' is missing; allowed: 1",
        "s.yml:1:1: the document: key 'roots' is missing; allowed: a list",
        "s.yml:1:1: the document: key 'suites' is missing; allowed: a mapping",
    ]
    assert faults("version: 1\nroots: []\nsuites: {}\n") == [
        "s.yml:2:8: roots: a list without entries; allowed: one entry or more",
        "s.yml:3:9: suites: a mapping without entries; allowed: one entry or more",
    ]


@pytest.mark.parametrize(("written", "shown"), [("2", "2"), ("0", "0"), ("1.1", "1.1")])
def test_another_version_is_all_that_is_said(written: str, shown: str) -> None:
    assert faults(f"version: {written}\nthings: [unknown]\n") == [
        f"s.yml:1:10: version: this runci does not read version {shown}; allowed: 1; "
        "rewrite the file, or use the runci it is for"
    ]


@pytest.mark.parametrize(
    ("written", "shown"), [("one", "'one'"), ("true", "true"), ("", "nothing")]
)
def test_a_version_that_is_none(written: str, shown: str) -> None:
    text = BASE.replace("version: 1", f"version: {written}".rstrip())
    assert [f.partition(": ")[2] for f in faults(text)] == [
        f"version: {shown} is not allowed; allowed: 1"
    ]


def test_all_faults_are_said_at_once_in_the_order_of_the_file() -> None:
    text = BASE.replace("kind: nightly", "kind: nigthly").replace(
        "execution: pytest", "execution: x"
    )
    lines = faults(text + "components:\n  k: {paths: [/k], suites: [zzz]}\nskip: 1\n")
    assert [line.split(":")[1] for line in lines] == ["4", "11", "13", "14"]


def test_a_broken_section_brings_no_faults_elsewhere() -> None:
    text = BASE.replace("stage: base-b", "stag: base-b") + (
        "components:\n  k: {paths: [k/**], suites: [base-b-*]}\n"
    )
    assert {line.split(":")[1] for line in faults(text)} == {"10"}


def test_long_lists_of_names_are_cut_but_the_nearest_is_found() -> None:
    names = ", ".join(f"suite-number-{n}" for n in range(100))
    text = (
        f"version: 1\nroots: [t]\nsuites: {{cpu: [{{name: [{names}], kind: extra}}]}}\n"
        "components: {c: {paths: [a], suites: [suite-nmber-77]}}\n"
    )
    (line,) = faults(text)
    assert line.endswith("and 76 more; did you mean suite-number-77?")


# Documents that are no suites.yml at all: position and the first words.
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "1:1: the file is empty"),
    "only a comment": (b"# nothing\n", "1:1: the file is empty"),
    "a list": (b"- 1\n", "1:1: the document: a list is not allowed; allowed: "),
    "a text": (b"hello\n", "1:1: the document: 'hello' is not allowed; allowed: "),
    "broken": (b"version: 1\nroots: [a\nsuites: {}\n", "3:7: invalid YAML: "),
    "tabs": (b"version: 1\nrunners:\n\tcpu: {}\n", "3:1: invalid YAML: "),
    "a key twice": (b"version: 1\nroots: [a]\nroots: [b]\n", "3:1: key 'roots' stands twice "),
    "a list as key": (b"version: 1\n[a, b]: 1\n", "2:1: a key must be "),
    "two documents": (b"version: 1\n---\nversion: 1\n", "2:1: invalid YAML: "),
    "not UTF-8": (b"version: 1\nroots: [caf\xe9]\n", "2:1: not UTF-8: "),
    "UTF-16": ("version: 1\n".encode("utf-16"), "1:1: not UTF-8: "),
    "a control character": (b"version: 1\nroots: [a\x00b]\n", "2:10: invalid YAML: character "),
    "an anchor in itself": (b"version: 1\nroots: &a [*a]\n", "2:8: an anchor contains itself"),
    "an unknown anchor": (b"version: 1\nroots: *a\n", "2:8: invalid YAML: "),
    "a tag": (b"version: 1\nroots: !!python/object/apply:os.getcwd []\n", "2:8: tag "),
    "merging itself": (b"version: 1\nsuites: &a {<<: *a}\n", "2:9: an anchor "),
    "merging a list": (b"version: 1\nsuites: {<<: [1]}\n", "2:15: << takes "),
    "a date that is none": (b"version: 2026-13-45\n", "1:10: invalid value "),
    "nested without end": (b"[" * 900 + b"]" * 900, "1:1: nested too deeply"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_documents(name: str) -> None:
    data, begins = BAD[name]
    assert faults(data)[0].startswith(f"s.yml:{begins}")


def test_anchors_that_expand_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (line,) = faults("\n".join(lines))
    assert re.match(r"s\.yml:6:5: anchors expand to more than \d+ values", line)


def test_a_byte_order_mark_and_crlf_change_nothing() -> None:
    text = b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()
    assert read(text) == read(BASE)


def test_difflib_and_jsonschema_stay_out_of_a_good_load() -> None:
    import subprocess

    code = (
        "import sys; from runci.config.suites import load_taxonomy; from pathlib import Path; "
        "load_taxonomy(Path(sys.argv[1]).read_bytes(), 's.yml'); "
        "print({'difflib', 'jsonschema', 'importlib.resources'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "test/suites.yml")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_suite_may_ask_for_tools() -> None:
    entry = (
        "{name: [a, b], kind: nightly, under: [racecheck, memcheck, racecheck], under_factor: 3}"
    )
    suites = [s for s in read(with_entry(entry)).suites.values() if s.under]
    assert [(s.name, s.under, s.under_factor) for s in suites] == [
        ("a", ("racecheck", "memcheck"), 3),
        ("b", ("racecheck", "memcheck"), 3),
    ]
    plain = next(iter(read(with_entry("{name: a, kind: nightly}")).suites.values()))
    assert (plain.under, plain.under_factor) == ((), 10)


@pytest.mark.parametrize(
    "given",
    [
        "under: memcheck",
        "under: []",
        "under: [memchek]",
        "under: [1]",
        "under: [memcheck], under_factor: 0",
        "under: [memcheck], under_factor: 1001",
        "under: [memcheck], under_factor: x",
    ],
)
def test_tools_that_nobody_can_ask_for(given: str) -> None:
    (fault,) = faults(with_entry(f"{{name: a, kind: nightly, {given}}}"))
    assert "under" in fault


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
