"""Lists in GitLab's pipelines: jobs of `.gitlab-ci.yml`, of its includes and child pipelines."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.adopt.list_gitlab import PIPELINE, local_includes, read_gitlab
from runci.adopt.lists import Left, ListOfTests
from runci.config.taxonomy import Kind

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SCRIPTS = {"ci/gpu.sh": b"\npytest tests/gpu\n"}
TEMPLATES = b"""\
.gpu:
  tags: [a100]
  variables: {WHERE: tests/gpu}
  before_script: [cd tests]
.commands:
  unit:
    - |
      cd tests
      pytest unit
"""


def read_files(text: str, **files: bytes) -> list[ListOfTests | Left]:
    included = {name.replace("__", "/") + ".yml": data for name, data in files.items()}
    return list(read_gitlab({PIPELINE: text.encode(), **included}, SCRIPTS))


def jobs(text: str, **files: bytes) -> list[ListOfTests]:
    found = read_files(text, **files)
    assert all(isinstance(one, ListOfTests) for one in found)
    return [one for one in found if isinstance(one, ListOfTests)]


INCLUDE = "include: /templates.yml\n"


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("j: {script: pytest a}", [("", 1, "a")]),
        ("j:\n  script:\n  - pip install x\n  - pytest -v a b # c", [("", 4, "a"), ("", 4, "b")]),
        ("j:\n  script: |\n    cd t\n    pytest a", [("", 4, "t/a")]),
        ("j: {before_script: [cd t], script: [pytest a]}", [("", 1, "t/a")]),
        ("default: {before_script: [cd t]}\nj: {script: [pytest a]}", [("", 2, "t/a")]),
        ("before_script: [cd t]\nj: {script: [pytest a]}", [("", 2, "t/a")]),
        (
            "default: {before_script: [cd t]}\nj: {inherit: {default: false}, script: pytest a}",
            [("", 2, "a")],
        ),
        (
            "default: {before_script: [cd t]}\nj: {inherit: {default: [tags]}, script: pytest a}",
            [("", 2, "a")],
        ),
        ("variables: {W: a}\nj: {script: pytest $W}", [("", 2, "a")]),
        ("variables: {W: a}\nj: {variables: {W: {value: b}}, script: pytest $W}", [("", 2, "b")]),
        ("j: {script: ['cd $CI_PROJECT_DIR/t', pytest a]}", [("", 1, "t/a")]),
        ("j: {script: bash ci/gpu.sh}", [("ci/gpu.sh", 2, "tests/gpu")]),
        (".j: {script: pytest a}", []),
        (".j: {script: pytest a}\nk: {extends: .j}", [("", 1, "a")]),
        (".j: {script: pytest a}\nk: {extends: [.j], script: pytest b}", [("", 2, "b")]),
        (".j: &j {script: pytest a}\nk: {<<: *j}", [("", 1, "a")]),
        (".j: {script: pytest a}\n.i: {extends: .j}\nk: {extends: .i}", [("", 1, "a")]),
        (
            ".j: {extends: .k, script: pytest a}\n.k: {extends: .j}\nl: {extends: .k}",
            [("", 1, "a")],
        ),
        (
            f"{INCLUDE}j:\n  script:\n    - !reference [.commands, unit]",
            [("templates.yml", 9, "tests/unit")],
        ),
        (
            f"{INCLUDE}j:\n  script: !reference [.commands, unit]",
            [("templates.yml", 9, "tests/unit")],
        ),
        (f"{INCLUDE}j:\n  script: [!reference [.none, x], pytest a]", [("", 3, "a")]),
        (".a: {script: [!reference [.a, script]]}\nj: {script: [!reference [.a, script]]}", []),
        (f"{INCLUDE}j: {{extends: .gpu, script: ['pytest ../$WHERE']}}", [("", 2, "tests/gpu")]),
        ("image: x\nservices: [y]\nstages: [a]\nworkflow: {rules: []}\npages: {script: make}", []),
        ("j: {trigger: {include: c.yml}}", []),
    ],
)
def test_the_entries_of_a_job(text: str, items: list[tuple[str, int, str]]) -> None:
    found = [item for one in jobs(text, templates=TEMPLATES) for item in one.items]
    assert [(item.path, item.line, item.target) for item in found] == items


@pytest.mark.parametrize(
    ("more", "name", "label", "labels", "gpus"),
    [
        ("tags: [a100]", "gitlab-a100", "a100", (), 1),
        ("tags: [linux, a100]", "gitlab-a100", "a100", ("linux", "a100"), 1),
        ("tags: [$KIND], variables: {KIND: h100}", "gitlab-h100", "h100", (), 1),
        ("tags: ['${KIND}'], variables: {KIND: $REAL, REAL: h100}", "gitlab-h100", "h100", (), 1),
        ("tags: [$CI_SOMETHING]", "gitlab", "", (), None),
        ("tags: [2xh100]", "gitlab-2xh100", "2xh100", (), None),
        ("extends: .gpu", "gitlab-a100", "a100", (), 1),
        ("extends: .gpu, tags: [mi300]", "gitlab-mi300", "mi300", (), 1),
        ("tags: !reference [.gpu, tags]", "gitlab-a100", "a100", (), 1),
        ("tags: [linux-cpu]", "gitlab-cpu", "linux-cpu", (), None),
        ("stage: test", "gitlab", "", (), None),
    ],
)
def test_the_machine_of_a_job(
    more: str, name: str, label: str, labels: tuple[str, ...], gpus: int | None
) -> None:
    (one,) = jobs(f"{INCLUDE}j: {{script: pytest /x, {more}}}", templates=TEMPLATES)
    assert (one.name, one.label, one.labels, one.gpus) == (name, label, labels, gpus)
    assert (one.by, one.path, one.line) == ("GitLab", PIPELINE, 2)


def test_tags_of_all_jobs_and_what_a_job_says_itself() -> None:
    one, two = jobs(
        "default: {tags: [l4]}\na: {script: pytest a}\nb: {script: pytest b, tags: [t4]}"
    )
    assert (one.label, two.label) == ("l4", "t4")


def test_a_matrix_is_a_job_for_each_of_its_machines() -> None:
    matrix = "{matrix: [{GPU: [a100, h100], W: [a, b]}, {GPU: l4, W: c}]}"
    found = jobs(f"j: {{parallel: {matrix}, tags: [$GPU], script: pytest $W}}")
    assert [(one.label, one.items[0].target) for one in found] == [
        *(("a100", "a"), ("a100", "b"), ("h100", "a"), ("h100", "b")),
        ("l4", "c"),
    ]


@pytest.mark.parametrize(
    ("name", "more", "kind"),
    [
        ("j", "parallel: 3", Kind.PER_COMMIT),
        ("j", "when: manual", Kind.NIGHTLY),
        ("j", "only: [schedules]", Kind.NIGHTLY),
        ("j", "only: {refs: [schedules]}", Kind.NIGHTLY),
        ("j", "only: [schedules, main]", Kind.PER_COMMIT),
        ("j", "rules: [{if: '$CI_PIPELINE_SOURCE == \"schedule\"'}]", Kind.NIGHTLY),
        ("j", "rules: [{if: $CI_COMMIT_TAG, when: never}, {when: manual}]", Kind.NIGHTLY),
        ("j", "rules: [{if: '$CI_PIPELINE_SOURCE != \"schedule\"'}]", Kind.PER_COMMIT),
        ("j", "rules: [{when: manual}, {if: $CI_COMMIT_BRANCH}]", Kind.PER_COMMIT),
        ("test-nightly", "stage: test", Kind.NIGHTLY),
    ],
)
def test_when_a_job_runs(name: str, more: str, kind: Kind) -> None:
    (one,) = jobs(f"{name}: {{script: pytest a, {more}}}")
    assert one.kind is kind


@pytest.mark.parametrize(
    ("text", "included", "children"),
    [
        ("include: a.yml", ["a.yml"], []),
        ("include: [/ci/b.yml, {local: a.yml}]", ["ci/b.yml", "a.yml"], []),
        ("include: {local: 'ci/*.yml'}", ["ci/b.yml", "ci/c.yml"], []),
        ("include: [https://x/a.yml, {remote: a.yml}, {project: p, file: a.yml}]", [], []),
        ("j: {trigger: {include: ci/b.yml}}", [], ["ci/b.yml"]),
        ("j: {trigger: {include: [{local: a.yml}, {artifact: c.yml, job: x}]}}", [], ["a.yml"]),
        ("j: {trigger: other/project}", [], []),
        ("j: [", [], []),
    ],
)  # fmt: skip
def test_which_files_a_pipeline_has(text: str, included: list[str], children: list[str]) -> None:
    found = local_includes(text.encode(), ["a.yml", "ci/b.yml", "ci/c.yml"])
    assert tuple(map(list, found)) == (included, children)


def test_an_include_is_overridden_and_may_include_itself() -> None:
    base = b"include: [base.yml]\nj: {script: pytest a, tags: [t4]}\n"
    (one,) = jobs("include: base.yml\nj: {script: pytest b}", base=base)
    assert ([item.target for item in one.items], one.label) == (["b"], "t4")


def test_a_file_that_cannot_be_read_is_said_and_the_others_are_read() -> None:
    left, job = read_files("include: bad.yml\nj: {script: pytest a}", bad=b"x:\n- {% if x %}\n")
    assert isinstance(left, Left)
    assert (left.path, left.line) == ("bad.yml", 2)
    assert isinstance(job, ListOfTests)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
