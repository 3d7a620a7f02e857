"""Make a tiny model of random weights with a real tokenizer: `make_model.py TOKENIZER FOLDER`.

Runs in the engines' environment. TOKENIZER is a folder with a tokenizer.json. Of so small a model
every token is nearly as likely as another, so its answers at temperature 1 are full of split and
invalid characters. Some ordinary ids end an answer, so that answers end by themselves, too.
"""

import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 1024
# One id of so many ends an answer.
ENDS = 64
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def main(source, folder):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(source) / "tokenizer.json"))
    tokenizer.chat_template = TEMPLATE
    size = max(tokenizer.get_vocab().values()) + 1
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=32,  # vLLM on CPU refuses less
            max_position_embeddings=CONTEXT,
            bos_token_id=None,
            eos_token_id=None,
            initializer_range=0.3,  # or a greedy answer repeats one token
        )
    )
    model.generation_config.eos_token_id = list(range(ENDS // 2, size, ENDS))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
