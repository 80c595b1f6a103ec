"""Starts a real engine, generates, and leaves the tokens in a file; see `lab.py`.

Runs in the environment of the engine, so it uses nothing of this project. Its argument
is JSON: `engine` (arguments of `LLM`), `batches` (lists of [prompt length, tokens to
generate]), `result` (a file for the tokens, and for the number of objects that the
garbage collector of this process visits), `freezes` (keep it from what was imported).
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

VOCABULARY = 30_000


def main():
    asked = json.loads(sys.argv[1])
    # Before vLLM: this is what adds the device to torch.
    import habana_frameworks.torch  # noqa: F401
    from vllm import LLM, SamplingParams

    if asked["freezes"]:
        gc.collect()
        gc.freeze()
    llm = LLM(
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        seed=0,
        **asked["engine"],
    )
    tokens = []
    for number, batch in enumerate(asked["batches"]):
        prompts = [
            {
                "prompt_token_ids": [
                    (7 * place + number) % VOCABULARY + 3 for place in range(length)
                ]
            }
            for length, _ in batch
        ]
        sampling = [
            SamplingParams(max_tokens=count, temperature=0, detokenize=False)
            for _, count in batch
        ]
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        tokens += [list(output.outputs[0].token_ids) for output in outputs]
    gc.unfreeze()  # vLLM has frozen everything when it was ready
    result = {"tokens": tokens, "objects": len(gc.get_objects())}
    Path(asked["result"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
