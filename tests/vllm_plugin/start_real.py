"""Runs inside an environment with vLLM for the CPU: one start of a tiny model, one answer.

    python start_real.py FOLDER MAX_MODEL_LEN [--own-compiler]

`FOLDER` has a `config.json`; weights are random, and no tokenizer is used. With
`--own-compiler` vLLM compiles with its own backend, as on a GPU, and keeps what it
compiled in its own cache, both of which its CPU platform replaces by torch's.
"""

from __future__ import annotations

import sys


def keep_own_compiler():
    """Put back the mode that `CpuPlatform.check_and_update_config` takes away.

    The last pass over a graph looks for operators of CUDA only; a CPU has none.
    """
    from vllm.compilation.passes.utility.fix_functionalization import (
        FixFunctionalizationPass,
    )
    from vllm.config import CompilationMode
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.check_and_update_config

    def check_and_update_config(config):
        mode = config.compilation_config.mode
        check(config)
        if mode == CompilationMode.VLLM_COMPILE:
            config.compilation_config.mode = mode

    CpuPlatform.check_and_update_config = staticmethod(check_and_update_config)
    FixFunctionalizationPass.__call__ = lambda self, graph: None


def main():
    from vllm import LLM, SamplingParams

    compilation = {}
    if "--own-compiler" in sys.argv[3:]:
        keep_own_compiler()
        # Sizes are filled in on a GPU only.
        compilation = {"compilation_config": {"compile_sizes": []}}
    engine = LLM(
        model=sys.argv[1],
        max_model_len=int(sys.argv[2]),
        load_format="dummy",
        skip_tokenizer_init=True,
        seed=0,
        **compilation,
    )
    sampling = SamplingParams(max_tokens=4, temperature=0, detokenize=False)
    [answer] = engine.generate([{"prompt_token_ids": [1, 2, 3]}], sampling)
    print(len(answer.outputs[0].token_ids), "tokens")


if __name__ == "__main__":
    main()
