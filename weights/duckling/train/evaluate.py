#!/usr/bin/env python3
"""What the model can do, in torch float32, against the bars: a table, ../reference.json, and 1 as exit code when a bar is missed.

    evaluate.py [--every N]      answers and acceptance from every Nth held-out question only; then no reference.json is written

perplexity     of ../heldout_text.txt as `ductl model perplexity` counts it: no BOS, windows of 1,024 tokens that do not overlap,
               a window's first token not scored; attention as the engine does it (sparse), dense, and over random keys
selection      share of the dense attention mass on the indexer's keys, over all rows and over those with more keys than it may choose
experts        the least used one's share of tokens over an equal share, each layer, on that text and the held-out conversations
answers        held-out questions, greedy, 64 tokens; beside each score that of the best constant answer, and the score of those
               questions that are more than one word away from every training question
acceptance     drafts of the MTP layer that the main model would have said itself, greedy and at temperature 0.7. The draft is the
               layer's best token here; the engine draws it (docs/models.md), and answers.py counts what it accepts
"""
import argparse
import hashlib
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import torch
from torch.nn import functional as F

import data
import export
import model
import questions

FOLDER = Path(__file__).resolve().parent.parent
WINDOW, TOKENS = 1024, 64
SPARSE = model.Mode("sparse")


def read_held_out() -> list[dict]:
    return [json.loads(line) for line in (FOLDER / "heldout.jsonl").read_text().splitlines()]


def right(answer: str, question: dict) -> bool:
    return questions.right(answer, question["required"], question["forbidden"])


# perplexity, selection, experts

def windows(ids: list[int]):
    return [torch.tensor(ids[at:at + WINDOW])[None] for at in range(0, len(ids), WINDOW) if len(ids) - at > 1]


def perplexity(net: model.Model, ids: list[int], mode: model.Mode) -> dict:
    nll, count = 0.0, 0
    for window in windows(ids):
        hidden, _, _ = net.hidden(window, mode, mtp=False)
        logits = net.logits(hidden[0, :-1], mode)
        nll += float(F.cross_entropy(logits.double(), window[0, 1:], reduction="sum"))
        count += window.shape[1] - 1
    return {"tokens": count, "nll": nll, "perplexity": math.exp(nll / count)}


def selection(net: model.Model, ids: list[int]) -> dict:
    """Mean share of dense attention mass on the selected keys, [layer]: over all rows, and over those that must choose."""
    topk, shares = net.config["index_topk"], defaultdict(list)
    for window in windows(ids):
        if window.shape[1] == WINDOW:
            for layer, at, share in net.hidden(window, model.Mode("dense", measure=True))[2].mass:
                shares[layer].append((at, share[0]))
    whole, choosing = {}, {}
    for layer, rows in shares.items():
        whole[layer] = float(torch.cat([share for _, share in rows]).mean())
        choosing[layer] = float(torch.cat([share for at, share in rows if at >= topk]).mean())
    return {"all_rows": whole, "rows_beyond_topk": choosing}


def expert_shares(net: model.Model, ids: list[int], talks: list[list[int]]) -> list[float]:
    """Of each router: tokens of the least used expert over the mean."""
    loads = defaultdict(lambda: 0)
    for window in windows(ids) + [torch.tensor(talk)[None] for talk in talks]:
        for at, (_, load) in enumerate(net.hidden(window, SPARSE)[2].loads):
            loads[at] = loads[at] + load
    return [float(load.min() / load.float().mean()) for load in loads.values()]


# answers

def padded(rows: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def next_logits(net: model.Model, rows: list[list[int]]) -> torch.Tensor:
    hidden, _, _ = net.hidden(padded(rows), SPARSE, mtp=False)
    last = torch.tensor([len(row) - 1 for row in rows])
    return net.logits(hidden[torch.arange(len(rows)), last], SPARSE)


def continued(net: model.Model, prompts: list[list[int]], end: int, pick, tokens: int = TOKENS) -> list[list[int]]:
    """Answers to prompts, without the end token; `pick` chooses from logits."""
    answers = [[] for _ in prompts]
    open_rows = list(range(len(prompts)))
    for _ in range(tokens):
        if not open_rows:
            break
        for i, token in zip(open_rows, pick(next_logits(net, [prompts[i] + answers[i] for i in open_rows]))):
            answers[i].append(int(token))
        open_rows = [i for i in open_rows if answers[i][-1] != end]
    return [answer[:-1] if answer[-1] == end else answer for answer in answers]


def greedy(logits: torch.Tensor):
    return logits.argmax(-1)


def greedy_answers(net: model.Model, prompts: list[list[int]], expected: list[list[int]], end: int) -> list[list[int]]:
    """Where the expected answer is what the model says, one pass shows it; the others are continued token by token."""
    answers: list = [None] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for at in range(0, len(order), 48):
        part = order[at:at + 48]
        said = [expected[i] + [end] for i in part]
        best = greedy(net.logits(net.hidden(padded([prompts[i] + s for i, s in zip(part, said)]), SPARSE, mtp=False)[0], SPARSE))
        for row, i, answer in zip(best, part, said):
            first = len(prompts[i]) - 1
            if row[first:first + len(answer)].tolist() == answer:
                answers[i] = expected[i]
        rest = [i for i in part if answers[i] is None]
        for i, answer in zip(rest, continued(net, [prompts[i] for i in rest], end, greedy)):
            answers[i] = answer
    return answers


def score(pairs: list[tuple[dict, str]], near: set) -> dict:
    far = [(question, text) for question, text in pairs if not questions.one_word_less(question["prompt"]) & near]
    return {"questions": len(pairs), "right": sum(right(text, question) for question, text in pairs) / len(pairs),
            "best_constant_answer": questions.best_constant([question for question, _ in pairs], [text for _, text in pairs]),
            "questions_far": len(far), "right_far": sum(right(text, question) for question, text in far) / max(len(far), 1)}


def scores(held: list[dict], texts: list[str]) -> dict:
    near = set().union(*(questions.one_word_less(text) for _, text in questions.split()[0]))
    pairs = list(zip(held, texts))
    categories = dict.fromkeys(question["category"] for question in held)
    out = {name: score([pair for pair in pairs if pair[0]["category"] == name], near) for name in categories}
    return out | {"all": score(pairs, near)}


def acceptance(net: model.Model, prompts: list[list[int]], answers: list[list[int]], end: int) -> dict:
    """A step drafts one token; when it is accepted, the token behind it comes from the same step."""
    drafted = accepted = 0
    for prompt, answer in zip(prompts, answers):
        said = answer + ([end] if len(answer) < TOKENS else [])
        _, ahead, _ = net.hidden(torch.tensor(prompt + said)[None], SPARSE)
        drafts = net.logits(ahead[0], SPARSE).argmax(-1).tolist()
        at = 1                      # the first token comes from the prompt
        while at < len(said):
            hit = drafts[len(prompt) + at - 2] == said[at]
            drafted, accepted, at = drafted + 1, accepted + hit, at + 1 + hit
    return {"drafted": drafted, "accepted": accepted, "share": accepted / max(drafted, 1)}


def examples(net: model.Model, source: data.Data, held: list[dict]) -> list[dict]:
    """Prompts with the logits behind them and how the model goes on, for an engine to be compared with."""
    out = []
    for question in held[::len(held) // 8][:8]:
        prompt = source.prompt(question["prompt"])
        logits = next_logits(net, [prompt])[0]
        best = logits.topk(8)
        answer = continued(net, [prompt], source.end, greedy)[0]
        out.append({"prompt": question["prompt"], "question_ids": source.encode(question["prompt"]), "ids": prompt, "best_ids": best.indices.tolist(),
                    "best_logits": [round(float(x), 5) for x in best.values], "logits_sum": round(float(logits.double().sum()), 4),
                    "greedy": answer})
    return out


def bars(out: dict) -> list[dict]:
    """Every bar with what was measured beside it."""
    rows = []

    def bar(name: str, value: float, least: float | None = None, most: float | None = None):
        held = (least is None or value >= least) and (most is None or value <= most)
        rows.append({"name": name, "measured": value, "least": least, "most": most, "held": held})

    for name, row in out["answers"].items():
        bar(f"right answers, {name}", row["right"], least=0.85 if name == "all" else 0.75)
    bar("accepted drafts, greedy", out["acceptance_greedy"]["share"], least=0.60)
    bar("accepted drafts, temperature 0.7", out["acceptance_0.7"]["share"], least=0.60)
    sparse, dense = out["perplexity"]["perplexity"], out["perplexity_dense"]["perplexity"]
    if "perplexity_float_weights" in out:
        bar("fp8 weights over float weights, distance from 1", abs(sparse / out["perplexity_float_weights"]["perplexity"] - 1), most=0.01)
    bar("sparse over dense attention", sparse / dense, most=1.02)
    bar("random keys over dense attention", out["perplexity_random"]["perplexity"] / dense, least=1.05)
    for rows_of, by_layer in out["attention_mass_on_selected"].items():
        bar(f"attention mass on selected keys, {rows_of.replace('_', ' ')}, mean of layers", sum(by_layer.values()) / len(by_layer), least=0.90)
    bar("least used expert of its fair share, worst layer", min(out["least_used_expert"]), least=0.25)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    net, source, held = export.load(), data.Data(), read_held_out()
    held = held[::options.every]
    ids = source.encode((FOLDER / "heldout_text.txt").read_text())
    prompts = [source.prompt(question["prompt"]) for question in held]
    expected = [source.encode(question["answer"]) for question in held]
    out = {"every": options.every}

    def tell(name: str, value):
        out[name] = value
        print(f"{name}: {json.dumps(value)}", flush=True)

    tell("perplexity", perplexity(net, ids, SPARSE))
    tell("perplexity_dense", perplexity(net, ids, model.Mode()))
    tell("perplexity_random", perplexity(net, ids, model.Mode("random")))
    if export.CHECKPOINT.exists():
        tell("perplexity_float_weights", perplexity(export.trained(), ids, SPARSE))
    tell("attention_mass_on_selected", selection(net, ids))
    talks = [prompt + answer for prompt, answer in zip(prompts, expected)]
    tell("least_used_expert", expert_shares(net, ids, talks))
    answers = greedy_answers(net, prompts, expected, source.end)
    texts = [source.tokenizer.decode(answer, skip_special_tokens=False) for answer in answers]
    tell("answers", scores(held, texts))
    tell("acceptance_greedy", acceptance(net, prompts, answers, source.end))
    torch.manual_seed(data.SEED)
    drawn = continued(net, prompts, source.end, lambda logits: (logits / 0.7).softmax(-1).multinomial(1)[:, 0])
    tell("acceptance_0.7", acceptance(net, prompts, drawn, source.end))
    out["examples"] = examples(net, source, held)
    out["model_sha256"] = hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest()
    out["bars"] = bars(out)
    for row in out["bars"]:
        limit = f">= {row['least']}" if row["least"] is not None else f"<= {row['most']}"
        print(f"{'held  ' if row['held'] else 'MISSED'} {row['name']}: {row['measured']:.4f} ({limit})")
    if options.every == 1:
        (FOLDER / "reference.json").write_text(json.dumps(out, indent=1) + "\n")
    wrong = [(q, t) for q, t in zip(held, texts) if not right(t, q)]
    for question, text in wrong[:40]:
        print(f"wrong ({question['category']}): {question['prompt']} -> {text}")
    return 0 if all(row["held"] for row in out["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
