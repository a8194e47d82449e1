"""A small server that streams token ids as SGLang and vLLM do, with faults that can be planted.

    python test/support/model_server.py --port 30000 [--model small-2048 --device cuda]

MODEL_SERVER_FAULT=NAME or NAME:NUMBER, with commas between several, plants what FAULTS names; the
number counts requests from 1, or is a factor or seconds. A real model heeds
SGLANG_ENABLE_SM120_BA_GEMM as SGLang does. Requests of one prompt length that come together are
decoded as one batch, to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

FAULTS = {
    "none": "",
    "aborts": "request N ends as SGLang's aborted ones",
    "crash": "the process ends at request N",
    "dropped_stream": "the connection of request N breaks after two tokens",
    "error_in_stream": "request N gets an error object after two tokens",
    "exit_at_start": "the process ends before it is healthy",
    "fewer_tokens": "request N gets one token less",
    "hang": "request N gets two tokens and no end",
    "hidden_child": "the same without its environment, as a process title leaves it",
    "narrow": "requests run one at a time",
    "never_healthy": "",
    "no_done": "the stream of request N ends without [DONE]",
    "no_tokens": "request N gets [DONE] and nothing else",
    "other_prompt_tokens": "request N counts one prompt token more",
    "outliving_child": "a process in another session that ignores SIGTERM",
    "slow_start": "healthy after N seconds",
    "slowdown": "each step takes N times as long",
    "status_500": "request N fails",
    "wrong_token": "one token of request N is another one",
}
VOCABULARY = 64
OUTLIVES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
DOUBLE_FORK = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {OUTLIVES!r}]"


def planted(text: str) -> dict[str, float]:
    """The number of each planted fault, 1 where none is given."""
    faults = {}
    for one in text.split(","):
        name, _, number = one.partition(":")
        if name not in FAULTS:
            sys.exit(f"MODEL_SERVER_FAULT={text}: {name!r} is none of {', '.join(FAULTS)}")
        faults[name] = float(number or 1)
    return faults


class FakeModel:
    """The next token is a function of the tokens so far; a step takes `step_s`."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self.last = [sum((i + 1) * token for i, token in enumerate(ids)) for ids in prompts]
        return self.step([])

    def step(self, _tokens: list[int]) -> list[int]:
        time.sleep(self.step_s)
        self.last = [(31 * value + 7) % 100_003 for value in self.last]
        return [value % VOCABULARY for value in self.last]


class RealModel:
    """A model of `sm120_ba.validate.models`, greedily; prompts of one length at a time."""

    def __init__(self, name: str, device: str, step_s: float) -> None:
        import torch

        import sm120_ba
        from sm120_ba.config import requested_mode
        from sm120_ba.validate.models import load

        self.torch, self.device, self.step_s = torch, device, step_s
        self.model = load(name, device)
        mode = requested_mode()
        if mode is not None:
            report = sm120_ba.patch_model(self.model)
            sm120_ba.warmup(device, shapes=report.sizes, mode=mode.value)
            print(report, flush=True)
        self.begin([[1, 2]])  # compiled and loaded before anybody waits

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self.cache = None
        return self.step(prompts)

    def step(self, tokens: list[Any]) -> list[int]:
        time.sleep(self.step_s)
        ids = self.torch.tensor(tokens, device=self.device).reshape(len(tokens), -1)
        with self.torch.inference_mode():
            out = self.model(ids, past_key_values=self.cache, use_cache=True)
        self.cache = out.past_key_values
        chosen: list[int] = out.logits[:, -1].argmax(-1).tolist()
        return chosen


@dataclass
class Asked:
    """One request; its tokens come through `tokens` as the batch makes them."""

    number: int
    prompt: list[int]
    wanted: int
    cached: int
    tokens: asyncio.Queue[int] = field(default_factory=asyncio.Queue)


class Server:
    """Takes requests, and decodes those that come together as one batch."""

    def __init__(self, model: FakeModel | RealModel, faults: dict[str, float], options: Any):
        self.model, self.faults, self.options = model, faults, options
        self.max_batch = 1 if "narrow" in faults else options.max_batch
        self.began = time.monotonic()
        self.count = self.running = 0
        self.waiting: list[Asked] = []
        self.came = asyncio.Event()
        self.prompts: list[list[int]] = []
        self.thread = ThreadPoolExecutor(1)

    async def decode_forever(self) -> None:
        while True:
            await self.came.wait()
            await asyncio.sleep(self.options.gather_ms / 1000)
            length = len(self.waiting[0].prompt)
            batch = [one for one in self.waiting if len(one.prompt) == length][: self.max_batch]
            self.waiting = [one for one in self.waiting if one not in batch]
            if not self.waiting:
                self.came.clear()
            self.running = len(batch)
            await self.decode(batch)
            self.running = 0

    async def decode(self, batch: list[Asked]) -> None:
        loop = asyncio.get_running_loop()
        prompts = [one.prompt for one in batch]
        tokens = await loop.run_in_executor(self.thread, self.model.begin, prompts)
        for done in range(1, 1 + max(one.wanted for one in batch)):
            for one, token in zip(batch, tokens, strict=True):
                if done <= one.wanted:
                    one.tokens.put_nowait(token)
            if done < max(one.wanted for one in batch):
                tokens = await loop.run_in_executor(self.thread, self.model.step, tokens)

    def ask(self, prompt: list[int], wanted: int) -> Asked:
        self.count += 1
        if self.faults.get("crash") == self.count:
            os._exit(3)
        cached = max((common(prompt, other) for other in self.prompts), default=0)
        self.prompts.append(prompt)
        asked = Asked(self.count, prompt, wanted, min(cached, len(prompt) - 1))
        self.waiting.append(asked)
        self.came.set()
        return asked

    async def health(self, _request: web.Request) -> web.Response:
        late = time.monotonic() < self.began + self.faults.get("slow_start", 0)
        return web.Response(status=503 if late or "never_healthy" in self.faults else 200)

    async def metrics(self, _request: web.Request) -> web.Response:
        labels = 'model_name="small",tp_rank="0"'
        return web.Response(text=f"sglang:num_running_reqs{{{labels}}} {self.running}.0\n")

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt = body["input_ids"]
        asked = self.ask(prompt, body["sampling_params"]["max_new_tokens"])
        shown = 0

        def event(ids: list[int], last: bool) -> dict[str, Any]:
            nonlocal shown
            aborted = self.faults.get("aborts") == asked.number and last
            reason = {"type": "abort", "message": "planted"} if aborted else {"type": "length"}
            meta = {
                "prompt_tokens": self.counted(asked),
                "completion_tokens": len(ids),
                "cached_tokens": asked.cached,
                "finish_reason": reason if last else None,
            }
            new = ids[shown:] if self.options.incremental else ids
            shown = len(ids)
            return {"text": "x" * len(ids), "output_ids": new, "meta_info": meta}

        return await self.stream(request, asked, event)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked = self.ask(body["prompt"], body["max_tokens"])
        options = body.get("stream_options", {})

        def usage(count: int) -> dict[str, Any]:
            details = {"prompt_tokens_details": {"cached_tokens": asked.cached}}
            return {"prompt_tokens": self.counted(asked), "completion_tokens": count} | details

        def event(ids: list[int], last: bool) -> dict[str, Any]:
            reason = "length" if last else None
            choice: dict[str, Any] = {"index": 0, "text": "x", "finish_reason": reason}
            if body.get("return_token_ids") and not self.options.no_token_ids:
                choice["token_ids"] = ids[-1:]
            made: dict[str, Any] = {"object": "text_completion", "choices": [choice]}
            return made | ({"usage": usage(len(ids))} if options["continuous_usage_stats"] else {})

        def end(ids: list[int]) -> dict[str, Any]:
            return {"object": "text_completion", "choices": [], "usage": usage(len(ids))}

        return await self.stream(request, asked, event, end)

    def counted(self, asked: Asked) -> int:
        more = self.faults.get("other_prompt_tokens") == asked.number
        return len(asked.prompt) + more

    async def stream(
        self, request: web.Request, asked: Asked, event: Any, end: Any = None
    ) -> web.StreamResponse:
        """Send each token as an event of server-sent ones, or what the fault makes of it."""

        def hits(name: str) -> bool:
            return self.faults.get(name) == asked.number

        if hits("status_500"):
            return web.json_response({"error": {"message": "planted"}}, status=500)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        ids: list[int] = []
        wanted = asked.wanted - hits("fewer_tokens") if not hits("no_tokens") else 0
        for k in range(wanted):
            token = await asked.tokens.get()
            ids.append((token + (hits("wrong_token") and k == 1)) % VOCABULARY)
            await send(response, event(ids, last=k + 1 == wanted))
            if k == 1 and await self.broken(request, response, hits):
                return response
        if end is not None:
            await send(response, end(ids))
        if not hits("no_done"):
            await response.write(b"data: [DONE]\n\n")
        return response

    async def broken(self, request: web.Request, response: web.StreamResponse, hits: Any) -> bool:
        if hits("hang"):
            await asyncio.sleep(600)
        if hits("dropped_stream"):
            assert request.transport is not None
            request.transport.abort()
            return True
        if hits("error_in_stream"):
            await send(response, {"error": {"message": "planted", "code": 400}})
            await response.write(b"data: [DONE]\n\n")
            return True
        return False


async def send(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def common(a: list[int], b: list[int]) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="fake", help="fake, small or small-2048")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--step-ms", type=float, default=0.0, help="to sleep in each step")
    parser.add_argument("--gather-ms", type=float, default=2.0, help="to wait for a batch")
    parser.add_argument("--max-batch", type=int, default=8)
    parser.add_argument("--incremental", action="store_true", help="new token ids only")
    parser.add_argument("--no-token-ids", action="store_true", help="/v1/completions without them")
    options = parser.parse_args()
    faults = planted(os.environ.get("MODEL_SERVER_FAULT", "none"))
    if "exit_at_start" in faults:
        sys.exit(7)
    if "outliving_child" in faults:
        code = f"{DOUBLE_FORK}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", code], check=True)
    if "hidden_child" in faults:
        subprocess.Popen([sys.executable, "-c", OUTLIVES], start_new_session=True, env={})
    step_s = options.step_ms / 1000 * faults.get("slowdown", 1)
    real = options.model != "fake"
    model = RealModel(options.model, options.device, step_s) if real else FakeModel(step_s)

    async def application() -> web.Application:
        server = Server(model, faults, options)
        app = web.Application()
        app.add_routes(
            [
                web.post("/generate", server.generate),
                web.post("/v1/completions", server.completions),
                web.get("/health", server.health),
                web.get("/metrics", server.metrics),
            ]
        )
        app["decoding"] = asyncio.create_task(server.decode_forever())
        return app

    web.run_app(application(), host="127.0.0.1", port=options.port, print=None)
    if real:
        import sm120_ba

        print(f"calls: {sm120_ba.stats()}", flush=True)


if __name__ == "__main__":
    main()
