"""One streamed request to a server, as SGLang's `/generate` or `/v1/completions` have it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from sm120_ba.validate.prompts import LARGEST, is_id
from sm120_ba.validate.serving.manifest import Load
from sm120_ba.validate.serving.records import Request

SHOWN = 300  # characters of a server's own words


class AnswerError(Exception):
    """The server's answer is not what was asked for; the message says how."""


@dataclass
class Answer:
    """What has come of one answer. `ids` is None where the server gives numbers only.

    `first_s` is when the first token came, or the first text of a server that counts at the end.
    """

    tokens: int = 0
    ids: list[int] | None = field(default_factory=list)
    first_s: float | None = None
    chunks: list[tuple[float, int]] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    done: bool = False


@dataclass(frozen=True)
class Endpoint:
    """Where to ask, `body(prompt, load, model)` to send, and how to take in one event.

    `take` changes the answer only to what a record can hold, and says whether there was any text.
    """

    path: str
    body: Callable[[Sequence[int], Load, str | None], dict[str, Any]]
    take: Callable[[Answer, dict[str, Any]], bool]


def _generate_body(prompt: Sequence[int], load: Load, model: str | None) -> dict[str, Any]:
    del model  # the server has one
    sampling = {
        "max_new_tokens": load.output_tokens,
        "temperature": load.temperature,
        "ignore_eos": True,
    }
    return {"input_ids": list(prompt), "sampling_params": sampling, "stream": True}


def _take_generate(answer: Answer, event: dict[str, Any]) -> bool:
    meta = event.get("meta_info") or {}
    reason = meta.get("finish_reason")
    if isinstance(reason, dict) and reason.get("type") == "abort":
        raise AnswerError(f"the server aborted the request: {_shown(reason)}")
    _take_counts(answer, meta.get("prompt_tokens"), meta.get("cached_tokens"))
    tokens, ids = (
        _count("completion_tokens", meta.get("completion_tokens")),
        event.get("output_ids"),
    )
    if tokens is None:
        raise AnswerError(f"an event without meta_info.completion_tokens: {_shown(event)}")
    if tokens < answer.tokens:
        raise AnswerError(f"completion_tokens fell from {answer.tokens} to {tokens}")
    if ids is None or answer.ids is None:
        answer.ids = None
    else:
        answer.ids = _with_ids(answer.ids, _token_ids(ids), tokens)
    answer.tokens = tokens
    return bool(event.get("text"))


def _with_ids(before: list[int], ids: list[int], tokens: int) -> list[int]:
    """All ids so far, from an event that has all of them, or the new ones alone."""
    if len(ids) == tokens:  # all so far, as is SGLang's default
        if ids[: len(before)] != before:
            raise AnswerError(f"output_ids {_shown(ids)} take back {_shown(before)}, which came")
        return ids
    if len(before) + len(ids) == tokens:  # with --incremental-streaming-output
        return before + ids
    raise AnswerError(f"{len(ids)} output_ids after {len(before)} with completion_tokens {tokens}")


def _completions_body(prompt: Sequence[int], load: Load, model: str | None) -> dict[str, Any]:
    body = {
        "prompt": list(prompt),
        "max_tokens": load.output_tokens,
        "temperature": load.temperature,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }
    return body if model is None else {**body, "model": model}


def _take_completions(answer: Answer, event: dict[str, Any]) -> bool:
    choices = event.get("choices") or []
    if len(choices) > 1 or any(choice.get("index") not in (None, 0) for choice in choices):
        raise AnswerError(f"more than the one answer that was asked for: {_shown(choices)}")
    usage = event.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    _take_counts(answer, usage.get("prompt_tokens"), details.get("cached_tokens"))
    counted = _count("completion_tokens", usage.get("completion_tokens"))
    text = False
    for choice in choices:
        if choice.get("finish_reason") in ("abort", "error"):
            raise AnswerError(f"the server aborted the request: {_shown(choice)}")
        text, ids = bool(choice.get("text")), choice.get("token_ids")
        if ids is not None and answer.ids is not None:
            answer.ids += _token_ids(ids)
            answer.tokens = len(answer.ids)
        elif ids is None and (text or (counted or 0) > answer.tokens):
            answer.ids = None  # a token may be no text yet, so that only its count comes
    if counted is not None:
        if answer.ids is not None and counted != len(answer.ids):
            raise AnswerError(f"{len(answer.ids)} token_ids came, and usage counts {counted}")
        answer.tokens = counted
    return text


def _take_counts(answer: Answer, prompt: Any, cached: Any) -> None:
    """Keep the counts that the server gives."""
    prompt, cached = _count("prompt_tokens", prompt), _count("cached_tokens", cached)
    answer.prompt_tokens = answer.prompt_tokens if prompt is None else prompt
    answer.cached_tokens = answer.cached_tokens if cached is None else cached


def _count(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if is_id(value):
        return int(value)
    raise AnswerError(f"{name} is {value!r}, which is no count")


def _token_ids(ids: Any) -> list[int]:
    wrong = [one for one in ids if not is_id(one)] if isinstance(ids, list) else [ids]
    if wrong:
        raise AnswerError(f"{wrong[0]!r} is no token id: ids are 0 to {LARGEST}")
    return list(ids)


ENDPOINTS = {
    "generate": Endpoint("/generate", _generate_body, _take_generate),
    "completions": Endpoint("/v1/completions", _completions_body, _take_completions),
}


def take_line(endpoint: Endpoint, answer: Answer, line: bytes, seconds: float) -> None:
    """Take in one line of an event stream that came so long after the admission.

    Raises AnswerError for an error object and for what is no event of this endpoint.
    """
    name, _, value = line.strip().partition(b":")
    if name != b"data":  # blank lines, comments, other fields
        return
    value = value.strip()
    if answer.done:
        raise AnswerError(f"after [DONE] came {_shown(value.decode('utf-8', 'replace'))}")
    if value == b"[DONE]":
        answer.done = True
        return
    try:
        event = json.loads(value)
    except ValueError:
        text = value.decode("utf-8", "replace")
        raise AnswerError(f"an event that is no JSON: {_shown(text)}") from None
    if not isinstance(event, dict):
        raise AnswerError(f"an event that is no object: {_shown(event)}")
    if event.get("error"):
        raise AnswerError(f"an error in the stream: {_shown(event['error'])}")
    before = answer.tokens
    said = endpoint.take(answer, event)
    if answer.first_s is None and (said or answer.tokens):
        answer.first_s = seconds
    if answer.tokens > before:
        answer.chunks.append((seconds, answer.tokens))


def fault(answer: Answer, prompt: int, wanted: int) -> str | None:
    """What a whole answer to a prompt of so many tokens lacks; `wanted` tokens were asked for."""
    if not answer.done:
        return f"the stream ended after {answer.tokens} of {wanted} tokens, without [DONE]"
    if answer.tokens != wanted:
        return f"{answer.tokens} tokens came, and {wanted} were asked for, with ignore_eos"
    if answer.prompt_tokens not in (None, prompt):
        return f"the server counted {answer.prompt_tokens} prompt tokens, and {prompt} were sent"
    if (answer.cached_tokens or 0) > prompt:
        return f"the server counted {answer.cached_tokens} cached tokens, and {prompt} were sent"
    return None


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    endpoint: Endpoint,
    prompt: Sequence[int],
    load: Load,
    model: str | None,
    timeout_s: float,
) -> tuple[Answer, str | None]:
    """Ask once, and never again; gives what came and what was wrong with it, None if nothing."""
    answer = Answer()
    began = time.perf_counter()

    async def stream() -> None:
        body = endpoint.body(prompt, load, model)
        async with session.post(url + endpoint.path, json=body) as response:
            if response.status != 200:
                text = (await response.content.read(4 * SHOWN)).decode("utf-8", "replace")
                raise AnswerError(f"status {response.status} {response.reason}: {_shown(text)}")
            if response.content_type == "application/json":
                text = (await response.content.read(4 * SHOWN)).decode("utf-8", "replace")
                raise AnswerError(f"JSON in place of a stream: {_shown(text)}")
            async for line, moment in _lines(response.content):
                take_line(endpoint, answer, line, moment - began)

    try:
        await asyncio.wait_for(stream(), timeout_s)
    except AnswerError as error:
        return answer, str(error)
    except asyncio.TimeoutError:
        return answer, f"no end within {timeout_s:g} s, after {answer.tokens} tokens"
    except (aiohttp.ClientError, OSError) as error:
        return answer, f"the connection broke after {answer.tokens} tokens: {error!r}"
    except (AttributeError, TypeError, ValueError) as error:  # fields of other types
        return answer, f"an event of another form: {error!r}"
    return answer, fault(answer, len(prompt), load.output_tokens)


def as_record(
    answer: Answer,
    error: str | None,
    *,
    concurrency: int,
    index: int,
    prompt: int,
    admitted_s: float,
    ended_s: float,
) -> Request:
    """What is kept of one request, see `Request`."""
    return Request(
        concurrency=concurrency,
        index=index,
        prompt=prompt,
        admitted_s=admitted_s,
        ended_s=ended_s,
        ttft_s=answer.first_s,
        chunks=tuple(answer.chunks),
        tokens=answer.tokens,
        ids=None if answer.ids is None else tuple(answer.ids),
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        error=error,
    )


def running_requests(metrics: str) -> int | None:
    """How many requests run, by a server's `/metrics`; None where it does not say.

    Summed over data-parallel engines; the ranks that share one engine, and the parts by priority
    of a total, count once.
    """
    found = list(_running_by_series(metrics))
    return round(sum(found)) if found else None


def _running_by_series(metrics: str) -> Iterator[float]:
    series = r"(?m)^(?:sglang:num_running_reqs|vllm:num_requests_running)(?:\{(.*)\})?[ \t]+(\S+)"
    for labels, value in re.findall(series, metrics):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        ranks = (named.get(name, "0") for name in ("tp_rank", "pp_rank"))
        if all(rank == "0" for rank in ranks) and not named.get("priority"):
            yield float(value)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[tuple[bytes, float]]:
    """Lines of any length, each with the moment at which its last part came."""
    rest = b""
    async for part in content.iter_any():
        moment = time.perf_counter()
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line, moment
    if rest:
        yield rest, time.perf_counter()


def _shown(what: Any) -> str:
    text = what if isinstance(what, str) else json.dumps(what)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
