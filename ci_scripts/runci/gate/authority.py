"""Who may authorize what: the questions that the rules of the gate share.

Every fact is read through `known`, so that a fact which nobody could learn denies.
"""

from __future__ import annotations

from typing import TypeVar

from runci.gate.request import (
    BYPASS_FASTFAIL,
    BYPASS_MAINTENANCE,
    Act,
    Entry,
    GateRequest,
    Permission,
    Person,
    Pull,
)
from runci.globs import matches

# `.gitmodules`: a submodule brings files that no list of changed files names. What pip and pytest
# read beside, or before, pyproject.toml decides as much as it does, and so does the file that make
# prefers to the Makefile. suites.yml and perf.yml say what runs where, and what may be skipped.
PROTECTED = (
    ".github/**",
    "ci_scripts/**",
    "pyproject.toml",
    "constraints.txt",
    "Makefile",
    "GNUmakefile",
    ".ci/**",
    "test/suites.yml",
    "test/perf.yml",
    "conftest.py",
    "setup.py",
    "setup.cfg",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    ".gitmodules",
)
_PROTECTED = tuple(glob.casefold() for glob in PROTECTED)

_T = TypeVar("_T")


class UnknownFactError(Exception):
    """A rule needs what is not known; the text says what."""


def known(value: _T | None, what: str) -> _T:
    """The value; raises UnknownFactError where there is none."""
    if value is None:
        raise UnknownFactError(what)
    return value


def ours(request: GateRequest) -> tuple[str, ...]:
    """The labels that mean something to this workflow."""
    return (*request.needed_labels, BYPASS_MAINTENANCE, BYPASS_FASTFAIL)


def is_other_label(request: GateRequest) -> bool:
    """Whether the event is about a label that means nothing to this workflow.

    Case does not count, as it does not where a workflow's expression chooses the run's lane and the
    name of its last job: what is ignored here must not be a required check there.
    """
    if request.event != "pull_request":
        return False
    if known(request.action, "what happened to the pull request") not in ("labeled", "unlabeled"):
        return False
    label = known(request.label, "the label of the event")
    names = {form for name in ours(request) for form in _forms(name)}
    return names.isdisjoint(_forms(label))


def _forms(label: str) -> tuple[str, str]:
    """Without case, folded and in capitals: they differ for letters such as a dotless i."""
    return label.casefold(), label.upper()


def is_protected(path: str) -> bool:
    """Whether a change to this path needs a maintainer's grant.

    A protected folder's own name counts: it could become a link or a submodule. Case does not: a
    disk that ignores it would write `.GitHub` over `.github`.
    """
    name = path.casefold()
    return matches(name, _PROTECTED) or matches(f"{name}/", _PROTECTED)


def level(person: Person) -> Permission:
    """What somebody may do; apps and bots have no authority whatever they may write."""
    if not person.human:
        return Permission.NONE
    return known(person.permission, f"the permission of {person.login}")


def entry_of(person: Person, request: GateRequest) -> Entry | None:
    """Somebody's entry in ci-permissions.yml: by number, for a login can change hands."""
    if not person.human:
        return None
    people = known(request.people, ".github/ci-permissions.yml")
    return next((entry for entry in people if entry.id == person.id), None)


def grants(request: GateRequest, least: Permission = Permission.WRITE) -> bool:
    """Whether somebody with at least this level authorized exactly the head commit."""
    pull = pull_of(request)
    head = known(pull.head_sha, "the pull request's head commit")
    acts = (*_label_acts(request, pull), *known(pull.comments, "the pull request's comments"))
    return any(act.sha == head and _is_valid(act, pull, least) for act in acts)


def _label_acts(request: GateRequest, pull: Pull) -> tuple[Act, ...]:
    """The label of this event as a grant: the one who put it on for the event is the one who did
    last, so that a label taken off and put on again by somebody else revokes it."""
    if (request.event, request.action) != ("pull_request", "labeled"):
        return ()
    label = known(request.label, "the label of the event")
    if label not in request.needed_labels:
        return ()
    sender = known(request.sender, "who put the label on")
    last = known(pull.labelled.get(label), f"who put the label {label} on last")
    if last.by.id != sender.id or not sender.human:
        return ()
    return (Act(last.by, known(request.run_sha, "the run's commit"), through_app=last.through_app),)


def _is_valid(act: Act, pull: Pull, least: Permission) -> bool:
    author = known(pull.author, "the pull request's author")
    if act.edited or act.through_app or act.by.id == author.id:
        return False
    return level(act.by) >= least


def pull_of(request: GateRequest) -> Pull:
    """The pull request; it must be known here."""
    return known(request.pull, "the pull request")


def is_bypassed(request: GateRequest) -> bool:
    """Whether somebody with maintain or admin lifted the maintenance for this pull request."""
    pull = pull_of(request)
    if BYPASS_MAINTENANCE not in known(pull.labels, "the pull request's labels"):
        return False
    act = known(pull.labelled.get(BYPASS_MAINTENANCE), f"who put on {BYPASS_MAINTENANCE}")
    return not act.through_app and level(act.by) >= Permission.MAINTAIN


def is_insider(request: GateRequest) -> bool:
    """An author with write access, on a branch of this repository."""
    pull = pull_of(request)
    inside = known(pull.same_repository, "where the branch is")
    return inside and level(known(pull.author, "the author")) >= Permission.WRITE


def relying_on_entry(request: GateRequest) -> tuple[Person, ...]:
    """The people whose entry in ci-permissions.yml this run would be allowed by."""
    people = []
    pull = pull_of(request)
    author = known(pull.author, "the author")
    inside = known(pull.same_repository, "where the branch is")
    if inside and not is_insider(request) and entry_of(author, request) and not grants(request):
        people.append(author)
    again = known(request.attempt, "the number of the attempt") > 1
    starter = known(request.triggering, "who started this attempt") if again else None
    if starter and starter.human and level(starter) < Permission.WRITE:
        people.append(starter)
    return tuple(people)
