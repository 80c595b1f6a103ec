"""How `HPUModelRunner` forms and runs the passes of one step, in every version.

Order of calls from `_prepare_prefill_inputs`, `_can_merge_prefill_contents`,
`_form_prefill_batch`, `_create_decode_input_data` (v0.10: `_prepare_decode_inputs`),
`get_habana_paged_attn_buffers` and the two loops of `sample_tokens` (v0.10:
`execute_model`): all prefill batches are formed, then the decode batch; then all of
them run, prefills first. Whether requests can share a batch is found out by looking
buckets up, too.
"""

from __future__ import annotations


class Serving:
    """A request is (query length, context blocks); one of query length 1 is a decode."""

    max_prefill_batch_size = 1
    keeps_history_apart = False
    """Whether a request with context has a batch of its own, since v0.14."""

    def dummy_requests(self, prompt_cfg, decode_cfg, *, is_capped):
        """The requests of a warm-up bucket; since v0.19 the context is cut to fit."""
        size, query, blocks = prompt_cfg or decode_cfg
        if prompt_cfg:
            most = max(0, (self.max_model_len - query) // self.block_size)
            return [(query, min(blocks, most) if is_capped else blocks)] * size
        if self.use_contiguous_pa:
            blocks = min(blocks, self.kv_cache_config.num_blocks)
        whole, rest = divmod(blocks, size)
        return [(1, whole + (index < rest)) for index in range(size)]

    def run_step(self, requests, warmup_mode):
        """All passes of one step, warm-up or not."""
        prompts = [request for request in requests if request[0] > 1]
        contexts = [context for query, context in requests if query == 1]
        formed = self._prepare_prefill_inputs(prompts)
        decode = self._create_decode_input_data(contexts) if contexts else None
        for shape in formed:
            self._forward("prompt", *shape, warmup_mode)
        if decode is not None:
            self._forward("decode", *decode, warmup_mode)

    def _prepare_prefill_inputs(self, prompts):
        batches = [[]]
        for request in prompts:
            if self._can_merge_prefill_contents(batches[-1], request):
                batches[-1].append(request)
            else:
                batches.append([request])
        formed = [self._form_prefill_batch(batch) for batch in batches]
        return [shape for shape in formed if shape is not None]

    def _can_merge_prefill_contents(self, batch, request):
        if len(batch) >= self.max_prefill_batch_size:
            return False
        has_history = any(context for _, context in [*batch, request])
        if self.keeps_history_apart and batch and has_history:
            return False
        longest = max(query for query, _ in [*batch, request])
        self.bucketing_manager.find_prompt_bucket(len(batch) + 1, longest, 0)
        size, query, _ = self.bucketing_manager.find_prompt_bucket(
            len(batch) + 1, longest, 0
        )
        fits = size * query <= self.max_num_tokens
        return size <= self.max_prefill_batch_size and fits

    def _form_prefill_batch(self, contents):
        if not contents:
            return None
        queries, contexts = zip(*contents, strict=True)
        return self.bucketing_manager.find_prompt_bucket(
            len(contents), max(queries), max(contexts)
        )

    def _create_decode_input_data(self, contexts):
        find = self.bucketing_manager.find_decode_bucket
        padded = find(len(contexts), sum(contexts))[0]
        return padded, 1, self.get_habana_paged_attn_buffers(padded, sum(contexts))

    def get_habana_paged_attn_buffers(self, batch_size, num_blocks):
        """Looks up once more, now for the padded batch."""
        found = self.bucketing_manager.find_decode_bucket(batch_size, num_blocks)[2]
        return max(found, num_blocks) if self.use_contiguous_pa else found
