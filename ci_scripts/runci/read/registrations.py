"""Marker calls → registrations: the one place where a call is accepted or not."""

from __future__ import annotations

import math
from collections.abc import Mapping

from runci.core.registration import PARAMETERS, Registration
from runci.read.testfile import Argument, MarkerCall, TestFile

_PARAMETERS = frozenset(PARAMETERS)


def registrations(file: TestFile) -> tuple[Registration, ...]:
    """The valid registrations of a file, in order."""
    return tuple(r for r in map(registration, file.calls) if r is not None)


def registration(call: MarkerCall) -> Registration | None:
    """The registration that a call makes; None where a rule has to say why it makes none."""
    if call.within is not None or call.via != "name" or call.backend is None:
        return None
    given = {argument.name: argument for argument in call.arguments}
    # As `argument_problem` says, in one pass: no star, nothing unknown, repeated or computed.
    if len(given) < len(call.arguments) or not given.keys() <= _PARAMETERS:
        return None
    if any(a.kind != "constant" for a in call.arguments):
        return None
    est_time = given.pop("est_time", None)
    if est_time is None or est_time.type == "NoneType" or any(map(type_problem, given.values())):
        return None
    values = {name: argument.value for name, argument in given.items()}
    pair = (values.get("stage") is None) + (values.get("runner_config") is None)
    if pair != (0 if values.get("suite") is None else 2):
        return None
    return Registration(
        backend=call.backend,
        est_time=seconds(est_time),
        suite=_text(values, "suite"),
        stage=_text(values, "stage"),
        runner_config=_text(values, "runner_config"),
        nightly=bool(values.get("nightly")),
        disabled=_text(values, "disabled"),
        in_process_group=_text(values, "in_process_group"),
        span=call.span,
    )


def argument_problem(call: MarkerCall, argument: Argument) -> str | None:
    """«starred», «surplus», «unknown», «repeated» or «expression», or None."""
    if argument.kind in ("*", "**"):
        return "starred"
    if argument.name is None:
        return "surplus"
    if argument.name not in PARAMETERS:
        return "unknown"
    if call.argument(argument.name) is not argument:
        return "repeated"
    return "expression" if argument.kind == "expression" else None


def type_problem(argument: Argument) -> bool:
    """Whether a constant has a type that its parameter cannot take."""
    if argument.kind != "constant":
        return False  # RT104 speaks of it
    if argument.type == "NoneType":
        return argument.name in ("est_time", "nightly")
    if argument.name == "est_time":
        return argument.type not in ("int", "float")
    return argument.type != ("bool" if argument.name == "nightly" else "str")


def seconds(argument: Argument | None) -> float | None:
    """The estimate, where it is a positive finite number."""
    if argument is None or type_problem(argument) or argument.kind != "constant":
        return None
    value = argument.value
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def pair_problem(call: MarkerCall) -> str | None:
    """What is wrong with the choice of suite or (stage, runner_config), or None.

    «neither», «both», «stage» or «runner_config» (the half that is missing).
    """
    suite, stage, runner = (call.given(n) for n in ("suite", "stage", "runner_config"))
    if suite:
        return "both" if stage or runner else None
    if stage and runner:
        return None
    if not stage and not runner:
        return "neither"
    return "runner_config" if stage else "stage"


def _text(values: Mapping[str | None, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None
