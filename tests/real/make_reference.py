#!/usr/bin/env python3
"""Writes what an independent implementation makes of SmolLM2-135M-Instruct: reference.json and tokens.jsonl.

    make_reference.py MODEL_FOLDER TEXTS.jsonl    (packages: tests/golden/requirements.txt; about ten minutes on two cores)

reference.json: perplexity of northanger_abbey.txt by transformers in float32 (no BOS, windows of 1,024 tokens that do not
overlap, the first token of each not scored) and the greedy answer to a question; tokens.jsonl: ids of texts by `tokenizers`.
"""
import json
import os
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW = 1024
QUESTION = "What is the capital of France?"
PROMPT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n")


@torch.no_grad()
def perplexity(model, ids):
    nll, scored = 0.0, 0
    for start in range(0, len(ids), WINDOW):
        window = torch.tensor([ids[start:start + WINDOW]])
        if window.shape[1] < 2:
            continue
        logits = model(window, use_cache=False).logits[0, :-1].double()
        rows = torch.log_softmax(logits, -1)
        nll -= rows[torch.arange(rows.shape[0]), window[0, 1:]].sum().item()
        scored += rows.shape[0]
        print(f"{scored} tokens, perplexity {torch.tensor(nll / scored).exp():.4f}", file=sys.stderr, flush=True)
    return {"tokens": scored, "nll": nll, "perplexity": torch.tensor(nll / scored, dtype=torch.float64).exp().item()}


@torch.no_grad()
def greedy(model, ids, count):
    ids = list(ids)
    start = len(ids)
    while len(ids) - start < count and (len(ids) == start or ids[-1] != 2):
        ids.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax().item())
    return ids[start:]


def main():
    folder, texts = sys.argv[1:]
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    with open(texts) as rows, open(os.path.join(HERE, "tokens.jsonl"), "w") as out:
        for row in rows:
            text = json.loads(row)["text"]
            if len(text) < 400:
                out.write(json.dumps({"text": text, "ids": encode(text)}, ensure_ascii=False) + "\n")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    answer = greedy(model, encode(PROMPT), 24)
    with open(os.path.join(HERE, "northanger_abbey.txt")) as text:
        ids = encode(text.read())
    reference = {"question": QUESTION, "prompt_ids": encode(PROMPT), "answer_ids": answer, "answer": tokenizer.decode(answer),
                 "text_tokens": len(ids), **perplexity(model, ids)}
    with open(os.path.join(HERE, "reference.json"), "w") as out:
        json.dump(reference, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
