"""The suites that files which register themselves name, and who runs them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runci.adopt.list_files import RanSuite
from runci.adopt.lists import kind_of
from runci.config.taxonomy import Execution, Kind
from runci.core.registration import Backend, Registration


@dataclass(frozen=True, slots=True)
class OfCalls:
    """A suite that calls name: by `stage` and `runner_config`, or where these are "" by its name.

    `ran` is what starts it today, None where no workflow does.
    """

    name: str
    backend: Backend
    stage: str
    runner_config: str
    kind: Kind
    execution: Execution
    files: tuple[str, ...]
    ran: RanSuite | None = None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # as the taxonomy's schema has it


def is_nameable(registration: Registration) -> bool:
    """Whether a taxonomy can declare the suite that a call names, and its runner."""
    names = (registration.effective_suite, registration.stage, registration.runner_config)
    return all(_NAME.fullmatch(name) for name in names if name is not None)


def of_calls(
    calls: Mapping[str, Sequence[Registration]],
    scripts: Iterable[str],
    started: Mapping[str, RanSuite],
) -> Iterator[OfCalls]:
    """The suites that registrations name, in their order; disabled ones name theirs too.

    `scripts` are the files that run themselves where Python runs them.
    """
    own = frozenset(scripts)
    files: dict[tuple[Backend, str], list[tuple[str, Registration]]] = {}
    for path, found in calls.items():
        for one in filter(is_nameable, found):
            files.setdefault((one.backend, one.effective_suite), []).append((path, one))
    for (backend, name), members in files.items():
        first, paths = members[0][1], tuple(dict.fromkeys(path for path, _ in members))
        nightly = all(one.nightly for _, one in members)  # the calls decide, not the name
        named = kind_of([name])
        as_script = sum(path in own for path in paths) * 2 > len(paths)
        yield OfCalls(
            name,
            backend,
            first.stage or "",
            first.runner_config or "",
            Kind.NIGHTLY if nightly else Kind.PER_COMMIT if named is Kind.NIGHTLY else named,
            Execution.SCRIPT if as_script else Execution.PYTEST,
            paths,
            started.get(name),
        )
