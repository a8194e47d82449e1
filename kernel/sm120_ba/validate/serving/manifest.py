"""What a serving comparison does, read from TOML: two arms that differ in one variable."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.prompts import LARGEST, load_prompts, prompt_hash

Count = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
BOOTS = ("A1", "B1", "B2", "A2", "A3", "B3")


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one server is started: words without a shell, with `{port}` and `{python}` filled in.

    It starts in the folder of the manifest and inherits the environment of the command.
    """

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    environment: dict[str, str] = {}


class Prompts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of JSON lines, or seeded ones: `count` of `length` ids below `vocabulary`.

    The first `prefix` ids are the same in every seeded prompt.
    """

    file: str | None = None
    seed: int = 0
    count: Amount = 0
    length: Amount = 0
    vocabulary: Annotated[int, msgspec.Meta(ge=0, le=LARGEST + 1)] = 0
    prefix: Amount = 0


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each boot is asked: a group of `requests` at each concurrency, in that order.

    The first `warm_up_prefix` ids of each prompt go before them, each prefix once, outside timing.
    """

    output_tokens: Count
    requests: Count
    concurrencies: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)] = (1, 4, 8)
    warm_up_prefix: Amount = 0
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Timeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In seconds: until the server is healthy, for one request, between SIGTERM and SIGKILL."""

    start: Seconds = 600.0
    request: Seconds = 300.0
    stop: Seconds = 30.0


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison. `margin` is the relative difference that matters, set before the run."""

    version: Literal[1]
    endpoint: Literal["generate", "completions"]
    a: Arm
    b: Arm
    prompts: Prompts
    load: Load
    timeouts: Timeouts = Timeouts()
    boots: tuple[str, ...] = BOOTS
    margin: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0  # 0: a free one for each boot
    model: str | None = None  # what /v1/completions calls it
    health: Annotated[str, msgspec.Meta(pattern="^/")] = "/health"
    metrics: Annotated[str, msgspec.Meta(pattern="^(/|$)")] = (
        "/metrics"  # where the server says how many requests run; empty: not asked
    )
    sample_every: Seconds = 0.05

    def arm(self, boot: str) -> Arm:
        """The arm of the boot of that name."""
        return self.a if boot.startswith("A") else self.b


@dataclass(frozen=True)
class Plan:
    """A manifest that holds together: the one `variable` that differs, and the prompts."""

    manifest: Manifest
    folder: Path
    sha256: str
    variable: str
    prompts: tuple[tuple[int, ...], ...]

    @property
    def prompts_sha256(self) -> str:
        """What identifies the prompts, see `prompt_hash`."""
        return prompt_hash(self.prompts)


def load_plan(path: Path) -> Plan:
    """Read and check the manifest. Raises UsageError that names the file, the field, the value."""
    try:
        content = path.read_bytes()
        document = msgspec.toml.decode(content)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        manifest = msgspec.convert(document, Manifest)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_named(str(error), document)}") from None
    variable = _differing_variable(path, manifest)
    _check_boots(path, manifest.boots)
    if len({*manifest.load.concurrencies}) != len(manifest.load.concurrencies):
        raise UsageError(
            f"{path}: load.concurrencies: {list(manifest.load.concurrencies)} has one twice"
        )
    words = " ".join(manifest.a.command)
    if not manifest.port and "{port}" not in words:
        raise UsageError(f"{path}: a.command has no {{port}}, and no `port` is given: {words}")
    prompts = _prompts(path, manifest.prompts)
    shortest = min(map(len, prompts))
    if manifest.load.warm_up_prefix > shortest:
        raise UsageError(
            f"{path}: load.warm_up_prefix is {manifest.load.warm_up_prefix}, "
            f"and the shortest prompt has {shortest} token ids; lower it"
        )
    sha256 = hashlib.sha256(content).hexdigest()
    return Plan(manifest, path.parent.resolve(), sha256, variable, prompts)


def _named(message: str, document: Any) -> str:
    """msgspec's sentence with the value that it is about."""
    what, _, where = message.partition(" - at `$")
    value = document
    try:
        for name, index in re.findall(r"\.([\w-]+)|\[(\d+)\]", where):
            value = value[name or int(index)]
    except (KeyError, IndexError, TypeError):
        return message
    field = where.rstrip("`").lstrip(".") or "the manifest"
    shown = "" if isinstance(value, dict) else f" {value!r}"
    return f"{field}:{shown} {what[:1].lower()}{what[1:]}"


def _differing_variable(path: Path, manifest: Manifest) -> str:
    """The one name whose value, or presence, differs between the arms."""
    a, b = manifest.a, manifest.b
    if a.command != b.command:
        pairs = zip((*a.command, None), (*b.command, None), strict=False)
        first = next((x, y) for x, y in pairs if x != y)
        raise UsageError(
            f"{path}: a.command and b.command differ, first in {first[0]!r} and {first[1]!r}; "
            "the arms may differ in one variable of `environment` only"
        )
    names = sorted(
        name
        for name in {*a.environment, *b.environment}
        if a.environment.get(name) != b.environment.get(name)
    )
    if len(names) != 1:
        raise UsageError(
            f"{path}: a.environment and b.environment differ in {len(names)} variables"
            f"{f' ({chr(44).join(names)})' if names else ''}; they must differ in exactly one"
        )
    return names[0]


def _check_boots(path: Path, boots: tuple[str, ...]) -> None:
    for name in boots:
        if not re.fullmatch(r"[AB][1-9]\d*", name):
            raise UsageError(f"{path}: boots: {name!r} is no A or B with a number, such as A1")
        other = ("B" if name[0] == "A" else "A") + name[1:]
        if boots.count(name) != 1 or other not in boots:
            raise UsageError(f"{path}: boots: {name!r} must stand there once, and {other!r}, too")
    if not boots:
        raise UsageError(f"{path}: boots: [] names no boot; leave it out for {list(BOOTS)}")


def _prompts(path: Path, prompts: Prompts) -> tuple[tuple[int, ...], ...]:
    if prompts.file is not None:
        if prompts != Prompts(file=prompts.file):
            raise UsageError(f"{path}: prompts: `file` stands alone, seeded prompts have no file")
        return tuple(map(tuple, load_prompts(path.parent / prompts.file)))
    for name in ("count", "length", "vocabulary"):
        if getattr(prompts, name) == 0:
            raise UsageError(f"{path}: prompts: give `file`, or `{name}` of seeded ones above 0")
    if prompts.prefix > prompts.length:
        raise UsageError(
            f"{path}: prompts.prefix is {prompts.prefix}, above prompts.length, {prompts.length}"
        )
    return seeded_prompts(prompts)


def seeded_prompts(prompts: Prompts) -> tuple[tuple[int, ...], ...]:
    """The same ones for the same fields, on every machine."""
    draw = random.Random(prompts.seed).randrange  # noqa: S311 (no secret)
    shared = [draw(prompts.vocabulary) for _ in range(prompts.prefix)]
    own = prompts.length - prompts.prefix
    return tuple(
        (*shared, *(draw(prompts.vocabulary) for _ in range(own))) for _ in range(prompts.count)
    )
