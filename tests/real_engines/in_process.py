"""Engines that run in detok's process, beside the same library used directly.

Runs in the engines' environment, with the project on PYTHONPATH: `in_process.py CHECK FOLDER`. It
asserts, and prints one line with what it compared.
"""

import asyncio
import sys
import time
from contextlib import aclosing
from pathlib import Path

from detok_py.bridge.engines import End, EngineError, Ids, Prompt, Request, Sampling

PROMPTS = ["hi there", "", "日本 🌦️ ไทย", "The café\n\n"]
SEEDS = [None, 1, 2, 3]


def request(prompt, *, seed=None, temperature=None, max_tokens=120, messages=None):
    sampling = Sampling(max_tokens, temperature, seed)
    return Request(prompt, messages, sampling, "ids", {"max_tokens": max_tokens})


async def answer(engine, asked):
    """Return the ids of the prompt if it was made of messages, the ids of the answer, and how it
    ended.
    """
    chunks = [chunk async for chunk in engine.generate(asked)]
    prompt = chunks.pop(0).read if isinstance(chunks[0], Prompt) else None
    *parts, end = chunks
    assert isinstance(end, End)
    assert all(isinstance(part, Ids) for part in parts)
    return prompt, [i for part in parts for i in part.ids], end.reason


def truth_of_transformers(engine, asked):
    """Return what `answer` does, by `model.generate` without a streamer."""
    import torch

    tokenizer, model = engine._tokenizer, engine._model
    if asked.messages is None:
        text = asked.prompt
        prompt = tokenizer(text, return_tensors="pt").input_ids
    else:
        text = tokenizer.apply_chat_template(
            asked.messages, add_generation_prompt=True, tokenize=False
        )
        prompt = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    sampling = asked.sampling
    options = {"do_sample": bool(sampling.temperature), "max_new_tokens": sampling.max_tokens}
    if sampling.temperature:
        torch.manual_seed(sampling.seed)
        options["temperature"] = sampling.temperature
    with torch.no_grad():
        whole = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    read = None if asked.messages is None else prompt[0].tolist()
    ids = whole[0, prompt.shape[1] :].tolist()
    if ids and ids[-1] in model.generation_config.eos_token_id:
        return read, ids[:-1], "eos"
    return read, ids, "length"


async def transformers(folder):
    from detok_py.bridge.engines.transformers import Transformers
    from detok_py.tokenizers import load_tokenizer

    engine = Transformers(folder)
    await engine.open()
    ours = load_tokenizer(folder)
    asked = [
        request(prompt, seed=seed, temperature=None if seed is None else 1.0)
        for prompt in PROMPTS
        if engine._tokenizer(prompt).input_ids
        for seed in SEEDS
    ]
    asked.append(request(None, messages=[{"role": "user", "content": "hi"}]))
    truths = [truth_of_transformers(engine, one) for one in asked]
    alone = [await answer(engine, one) for one in asked]
    assert alone == truths
    together = await asyncio.gather(*[answer(engine, one) for one in asked])
    assert together == truths
    for _, ids, _ in truths:
        theirs = engine._tokenizer.decode(ids, skip_special_tokens=True)
        assert "".join(ours.stream(ids)) == theirs, ids

    # Backpressure: the model waits for a reader that takes nothing.
    steps = []
    forward = engine._model.forward

    def counted(*args, **kwargs):
        steps.append(1)
        return forward(*args, **kwargs)

    engine._model.forward = counted
    engine._model.generation_config.eos_token_id = None
    async with aclosing(engine.generate(request("hi", max_tokens=800))) as chunks:
        await anext(chunks)
        seen = -1
        while seen != len(steps):
            seen = len(steps)
            await asyncio.sleep(1.0)
        assert seen < 200, seen
    await engine.close()

    # A truncated file is a sentence.
    file = Path(folder) / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    try:
        await Transformers(folder).open()
        said = "it was loaded"
    except EngineError as error:
        said = str(error)
    file.write_bytes(whole)
    assert "give a complete model folder" in said, said
    ends = [end for _, _, end in truths]
    print(
        f"transformers: {len(truths)} answers, {sum(len(ids) for _, ids, _ in truths)} ids, "
        f"{ends.count('eos')} ended by themselves; the model stopped {seen} steps ahead of its reader"
    )


async def llama_cpp(file):
    """The reciting model: its texts are known."""
    import llama_cpp as library

    from detok_py.bridge.engines.llama_cpp import LlamaCpp
    from detok_py.bridge.engines.recite import texts
    from detok_py.bridge.find import find_vocabulary

    engine = LlamaCpp(file)
    await engine.open()
    assert engine._llama.n_ctx() == 1024 == engine._llama._model.n_ctx_train()
    found = await find_vocabulary(engine)
    own = await engine.vocabulary()
    assert own.eos_ids == found.vocabulary.eos_ids
    assert [own.token_bytes(i) for i in range(len(own))] == [
        found.vocabulary.token_bytes(i) for i in range(len(own))
    ]
    began, count = time.monotonic(), 0
    for text in texts():
        _, ids, reason = await answer(
            engine, request(text["prompt"], temperature=0.0, max_tokens=1000)
        )
        count += len(ids)
        data = b"".join([found.vocabulary.token_bytes(i) for i in ids])
        assert data.decode() == text["text"], text["id"]
        assert reason == "eos"
        truth = []
        for token in engine._llama.generate(engine._prompt(request(text["prompt"])), temp=0.0):
            if library.llama_vocab_is_eog(engine._llama._model.vocab, token):
                break
            truth.append(token)
        assert truth == ids
    await engine.close()
    small = LlamaCpp(file, context=64)
    await small.open()
    await answer(small, request(texts()[0]["prompt"], temperature=0.0))
    assert small._llama.n_ctx() >= 64
    await small.close()
    print(
        f"llama-cpp-python: {len(texts())} texts, {count} ids in {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    asyncio.run({"transformers": transformers, "llama-cpp": llama_cpp}[sys.argv[1]](sys.argv[2]))
