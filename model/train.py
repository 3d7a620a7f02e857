"""Train the reciting model: write `recite.gguf`, `tokenizer.json` and `generation_config.json`.

In: `texts.json`. Out: a language model of the llama architecture. Under greedy decoding it
continues the prompt of each text with exactly that text and its end. It knows nothing else. With
it, llama.cpp emits real tokens, including split characters, on any machine without a download.

Run this only when the texts change, in an environment of its own (about 1 GB):

    python -m venv trainenv
    trainenv/bin/pip install torch==2.13.0 numpy gguf==0.19.0 tokenizers==0.23.3
    trainenv/bin/python model/train.py --out detok_py/bridge/recite

It takes minutes on a CPU. The same seed, machine and number of threads give the same file.
Elsewhere the last digits of sums differ, and so do the weights. The check at the end uses the
quantized weights that ship.
"""

import argparse
import json
import math
import os
import random
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import gguf
import numpy as np
import torch
from texts import TEXTS, Text
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from torch.nn import functional as F

SPECIAL = ["<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BOS, EOS = 0, 1
ENDS = [
    EOS,
    SPECIAL.index("<|im_end|>"),
]  # llama.cpp treats the second as an end-of-text token because of its name
VOCABULARY = 768  # small, so that most characters outside ASCII are split over several tokens
CONTEXT = 1024
WIDTH, LAYERS, HEADS, INNER = 128, 4, 4, 352
EPSILON, ROPE_BASE = 1e-5, 10000.0
CHAT_TEMPLATE = "{{ messages[-1]['content'] }}"


def prompts(text: Text) -> list[str]:
    """Return the prompts for a text: as written, without the space, and without the colon."""
    return [text.prompt, text.prompt.rstrip(), text.id]


def train_tokenizer() -> Tokenizer:
    """Return a byte-level BPE tokenizer trained on the texts, like GPT-2's tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator([text.prompt + text.text for text in TEXTS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", BOS)]
    )
    return tokenizer


class Attention(nn.Module):
    """Causal attention with rotary position embedding on the pairs (2i, 2i+1).

    llama.cpp rotates the same pairs, so the weights need no permutation for GGUF.
    """

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape

        def heads(linear: nn.Linear) -> torch.Tensor:
            return linear(x).view(batch, length, HEADS, -1).transpose(1, 2)

        def rotate(y: torch.Tensor) -> torch.Tensor:
            pairs = torch.view_as_complex(y.reshape(*y.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * rotation[:length]).flatten(-2)

        mixed = F.scaled_dot_product_attention(
            rotate(heads(self.q)), rotate(heads(self.k)), heads(self.v), is_causal=True
        )
        return self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """A layer of the llama architecture: attention and a gated feed-forward network.

    Each has a normalized input and a residual connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.RMSNorm(WIDTH, EPSILON), nn.RMSNorm(WIDTH, EPSILON)
        self.attn = Attention()
        self.gate, self.up = (
            nn.Linear(WIDTH, INNER, bias=False),
            nn.Linear(WIDTH, INNER, bias=False),
        )
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.attn_norm(x), rotation)
        normed = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    """Maps ids (batch, length) to logits (batch, length, vocabulary).

    The output matrix is tied to the embedding, which halves the parameters of the vocabulary.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, EPSILON)
        half = WIDTH // HEADS // 2
        angles = torch.outer(
            torch.arange(CONTEXT).float(), ROPE_BASE ** -(torch.arange(half).float() / half)
        )
        self.register_buffer(
            "rotation", torch.polar(torch.ones_like(angles), angles), persistent=False
        )
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(
                    weight,
                    std=0.02
                    if "embedding" in name
                    else WIDTH**-0.5 / (2 if "output" in name or "down" in name else 1),
                )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.rotation)
        return F.linear(self.norm(x), self.embedding.weight)


def tensors(model: Llama) -> dict[str, torch.Tensor]:
    """Return the weights by their GGUF names; writing to these tensors changes the model."""
    named = {"token_embd.weight": model.embedding.weight, "output_norm.weight": model.norm.weight}
    for i, block in enumerate(model.blocks):
        parts = {
            "attn_norm": block.attn_norm,
            "ffn_norm": block.ffn_norm,
            "attn_q": block.attn.q,
            "attn_k": block.attn.k,
            "attn_v": block.attn.v,
            "attn_output": block.attn.output,
            "ffn_gate": block.gate,
            "ffn_up": block.up,
            "ffn_down": block.down,
        }
        named |= {f"blk.{i}.{name}.weight": part.weight for name, part in parts.items()}
    return {name: weight.data for name, weight in named.items()}


def batches(
    sequences: list[tuple[list[int], int]], size: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return batches (ids, targets) of up to `size` sequences of similar length.

    Targets of prompts and padding are -100, which the loss ignores.
    """
    ordered = sorted(sequences, key=lambda sequence: len(sequence[0]))
    made = []
    for start in range(0, len(ordered), size):
        rows = ordered[start : start + size]
        length = max(len(ids) for ids, _ in rows)
        ids = torch.full((len(rows), length - 1), EOS)
        targets = torch.full((len(rows), length - 1), -100)
        for row, (sequence, prompt) in enumerate(rows):
            ids[row, : len(sequence) - 1] = torch.tensor(sequence[:-1])
            targets[row, prompt - 1 : len(sequence) - 1] = torch.tensor(sequence[prompt:])
        made.append((ids, targets))
    return made


@torch.no_grad()
def check_recitation(model: Llama, sequences: list[tuple[list[int], int]]) -> tuple[int, float]:
    """Return the number of wrong tokens, and the lowest probability of any token of the texts.

    If no token is wrong under teacher forcing, then by induction over the positions greedy decoding
    recites all texts.
    """
    wrong, least = 0, 1.0
    for ids, targets in batches(sequences, 16):
        logits = model(ids)
        counted = targets != -100
        wrong += int((logits.argmax(-1) != targets)[counted].sum())
        chosen = logits.softmax(-1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        least = min(least, float(chosen[counted].min()))
    return wrong, least


def train(
    model: Llama, variants: list[list[tuple[list[int], int]]], epochs: int, rate: float
) -> None:
    """Train on all texts; each epoch chooses a prompt for each text from its variants."""
    decayed = [weight for weight in model.parameters() if weight.dim() == 2]
    kept = [weight for weight in model.parameters() if weight.dim() != 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": kept, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    for epoch in range(epochs):
        total = 0.0
        # The prompt as written is the most frequent one.
        epoch_batches = batches([random.choice([texts[0], *texts]) for texts in variants], 8)
        random.shuffle(epoch_batches)
        for i, (ids, targets) in enumerate(epoch_batches):
            done = (epoch + i / len(epoch_batches)) / epochs
            for group in optimizer.param_groups:
                group["lr"] = (
                    rate
                    * min(1.0, done * 30 + 0.01)
                    * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
                )
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), ignore_index=-100)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += float(loss.detach())
        if epoch % 10 == 9 or epoch == epochs - 1:
            print(
                f"epoch {epoch + 1:4}  loss {total / len(epoch_batches):.4f}  {time.process_time():.0f} s CPU",
                flush=True,
            )


def write_gguf(path: Path, model: Llama, tokenizer: Tokenizer) -> None:
    """Write the model in q8_0 (norms in float32), and set `model` to the quantized weights.

    A later check of `model` then checks the written file.
    """
    q8 = gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("detok reciting model")
    writer.add_description("Recites the texts it was trained on and knows nothing else.")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([tokenizer.id_to_token(i) for i in range(VOCABULARY)])
    writer.add_token_types(
        [
            gguf.TokenType.CONTROL if i < len(SPECIAL) else gguf.TokenType.NORMAL
            for i in range(VOCABULARY)
        ]
    )
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    )
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, weight in tensors(model).items():
        values = weight.numpy().astype(np.float32)
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            rounded = gguf.quants.quantize(values, q8)
            writer.add_tensor(name, rounded, raw_dtype=q8)
            weight.copy_(torch.from_numpy(gguf.quants.dequantize(rounded, q8)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def sequences(tokenizer: Tokenizer) -> list[list[tuple[list[int], int]]]:
    """Return for each text, with each of its prompts, the ids and where the answer begins."""

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    variants = []
    for text in TEXTS:
        answer = [*ids(text.text), EOS]
        if tokenizer.decode(answer) != text.text:
            raise SystemExit(f"the tokenizer does not round-trip the text {text.id}")
        variants.append(
            [([BOS, *ids(prompt), *answer], 1 + len(ids(prompt))) for prompt in prompts(text)]
        )
    longest = max(len(sequence) for texts in variants for sequence, _ in texts)
    if longest > CONTEXT:
        raise SystemExit(
            f"the longest text has {longest} tokens with its prompt, but the context has {CONTEXT}; shorten it or raise CONTEXT"
        )
    return variants


def write_files(folder: Path, model: Llama, tokenizer: Tokenizer) -> None:
    """Write the model and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    write_gguf(folder / "recite.gguf", model, tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"))
    # A tokenizer.json has no end-of-text ids; Hugging Face's loaders read them from this file.
    (folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": BOS, "eos_token_id": ENDS}) + "\n", encoding="utf-8"
    )


def main() -> None:
    """Train the model, write and check the files, and print figures."""
    parser = argparse.ArgumentParser(description="train the reciting model")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write the files to")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rate", type=float, default=3e-3, help="the highest learning rate")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    begun = time.monotonic()

    tokenizer = train_tokenizer()
    variants = sequences(tokenizer)
    model = Llama()
    train(model, variants, options.epochs, options.rate)
    write_files(options.out, model, tokenizer)

    wrong, least = check_recitation(model, [sequence for texts in variants for sequence in texts])
    figures = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "bytes": (options.out / "recite.gguf").stat().st_size,
        "texts": len(TEXTS),
        "tokens": sum(len(texts[0][0]) for texts in variants),
        "longest": max(len(sequence) for texts in variants for sequence, _ in texts),
        "wrong": wrong,
        "least_probability": round(least, 4),
        "cpu_seconds": round(time.process_time()),
        "minutes": round((time.monotonic() - begun) / 60, 1),
    }
    for text, texts in zip(TEXTS, variants, strict=True):
        tokens = len(texts[0][0]) - texts[0][1]
        print(
            f"| {text.id} | {text.title} | {len(text.text)} | {tokens} | {tokens / len(text.text):.2f} |"
        )
    print(json.dumps(figures))
    if wrong:
        raise SystemExit(f"{wrong} tokens would not be recited; train for more epochs")


if __name__ == "__main__":
    main()
