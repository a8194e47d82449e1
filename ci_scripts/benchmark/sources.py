"""Made-up test files of a GPU kernel repository, of any length."""

from __future__ import annotations

import random

from templates import (
    CLASS,
    FUNCTION,
    HEAD,
    HELPERS,
    MAIN,
    METHODS,
    NUMBERS,
    PROSE,
    PYTEST_MAIN,
    REMARKS,
    WORDS,
)

_WITH_HELPERS = 4_000  # bytes of a file
_PART = 850  # bytes of a method, about
_METHODS_OF_A_CLASS = 11


def test_file(rng: random.Random, size: int, registrations: list[str], functions: bool) -> str:
    """A test file of about `size` bytes: unittest classes and, where wanted, test functions."""
    words = rng.choices(WORDS, k=3)
    name, camel = "_".join(words), "".join(map(str.capitalize, words))
    markers = ", ".join(sorted({call.partition("(")[0] for call in registrations}))
    parts = [_filled(HEAD, rng, name, camel, markers), "\n".join(registrations), "\n"]
    if size > _WITH_HELPERS:
        parts += [_filled(helper, rng, name, camel) for helper in HELPERS]
    if functions:
        parts.append(_filled(FUNCTION, rng, name, camel))
    main = PYTEST_MAIN if functions else MAIN
    length = sum(map(len, parts)) + len(main)
    number = 0
    while length + _PART / 2 < size or not number:
        template = METHODS[rng.randrange(len(METHODS))]
        part = _filled(template, rng, f"{name}_{number}", camel)
        if number % _METHODS_OF_A_CLASS == 0:
            part = _filled(CLASS, rng, name, f"{camel}{number}") + part
        parts.append(part)
        length += len(part)
        number += 1
    return "".join(parts) + main


def _filled(template: str, rng: random.Random, name: str, camel: str, markers: str = "") -> str:
    n1, n2, n3, n4 = rng.choices(NUMBERS, k=4)
    return template.format(
        name=name,
        camel=camel,
        upper=name.upper(),
        title=f"The kernel for {name.replace('_', ', ')}",
        markers=markers,
        prose=rng.choice(PROSE),
        remark=rng.choice(REMARKS),
        eps=f"{rng.randrange(1, 10)}e-{rng.randrange(2, 6)}",
        n1=n1,
        n2=n2,
        n3=n3,
        n4=n4,
        n5=rng.randrange(2, 17),
    )
