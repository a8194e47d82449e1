"""What `runs-on` of a job takes, and which machines that is: a label, labels, or a group; pure.

The forms are those of GitHub's schema of workflows: a text, a list of texts, or a mapping of
`group` and `labels`. Case does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Group:
    """A group of runners, and the labels that a machine of it must have; all must hold."""

    group: str
    labels: tuple[str, ...] = ()


Label: TypeAlias = str | tuple[str, ...] | Group


def read_label(value: object) -> Label | None:
    """A value of `runs-on` or `label:`; None where it is none of the forms.

    A group must have a name: labels alone are a list.
    """
    if isinstance(value, dict):
        group, labels = value.get("group"), _texts(value.get("labels", ()))
        if not isinstance(group, str) or labels is None or value.keys() - {"group", "labels"}:
            return None
        return Group(group, labels)
    return value if isinstance(value, str) else _texts(value) or None


def _texts(value: object) -> tuple[str, ...] | None:
    """One text or a list of them."""
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, (tuple, list)) or not all(isinstance(one, str) for one in items):
        return None
    return tuple(items)


def serves(declared: Label, asked: Label) -> bool:
    """Whether every machine that a job asks for is one of the declared: it names all of them."""
    ours, theirs = _whole(declared), _whole(asked)
    return set(ours.labels) <= set(theirs.labels) and ours.group in ("", theirs.group)


def _whole(label: Label) -> Group:
    """As a group, of no name where there is none, in lower case."""
    if not isinstance(label, Group):
        label = Group("", _texts(label) or ())
    return Group(label.group.lower(), tuple(one.lower() for one in label.labels))


def plain_label(label: Label) -> Any:
    """As JSON that `runs-on: ${{ fromJSON(...) }}` takes."""
    if not isinstance(label, Group):
        return list(label) if isinstance(label, tuple) else label
    return {"group": label.group, **({"labels": list(label.labels)} if label.labels else {})}


def shown_label(label: Label) -> str:
    """As YAML has it on one line."""
    if isinstance(label, Group):
        labels = f", labels: {_listed(label.labels)}" if label.labels else ""
        return f"{{group: {label.group}{labels}}}"
    return label if isinstance(label, str) else _listed(label)


def _listed(labels: Sequence[str]) -> str:
    return f"[{', '.join(labels)}]"
