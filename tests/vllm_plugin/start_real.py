"""Runs inside an environment with vLLM for the CPU: one start of a tiny model, one answer.

    python start_real.py FOLDER MAX_MODEL_LEN

`FOLDER` has a `config.json`; weights are random, and no tokenizer is used.
"""

from __future__ import annotations

import sys


def main():
    from vllm import LLM, SamplingParams

    engine = LLM(
        model=sys.argv[1],
        max_model_len=int(sys.argv[2]),
        load_format="dummy",
        skip_tokenizer_init=True,
        seed=0,
    )
    sampling = SamplingParams(max_tokens=4, temperature=0, detokenize=False)
    [answer] = engine.generate([{"prompt_token_ids": [1, 2, 3]}], sampling)
    print(len(answer.outputs[0].token_ids), "tokens")


if __name__ == "__main__":
    main()
