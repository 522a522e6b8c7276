#!/usr/bin/env python3
"""Asks the running flock every held-out question through `ductl run` and counts right answers and accepted drafts.

    weights/duckling/train/answers.py [--ductl build/bin/ductl] [--temperature T] [--every N] [--drafts-only] [--show-wrong]

An answer (greedy unless a temperature is given, at most 64 tokens) is right when every required regular expression of its line
in heldout.jsonl is found in it and no forbidden one is. Beside each category's score stands that of the best constant answer: of all
answers that were given or expected, the one that is right most often when it is given to every question of the category.
Exits with 1 when a bar is missed: 85 % over all, 75 % in each category; 60 % of the drafts accepted.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

import questions

HERE = pathlib.Path(__file__).resolve().parent
OVERALL_BAR, CATEGORY_BAR, ACCEPTANCE_BAR = 0.85, 0.75, 0.60
TOKENS = 64


def right(answer, question):
    return questions.right(answer, question["required"], question["forbidden"])


def ask(ductl, prompt, temperature):
    command = [ductl, "run", "-o", "json", "--max-tokens", str(TOKENS)]
    if temperature > 0:
        command += ["--temperature", str(temperature), "--seed", "1"]
    done = subprocess.run(command + ["--", prompt], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ductl", default="build/bin/ductl")
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every Nth question only")
    parser.add_argument("--drafts-only", action="store_true", help="hold only accepted drafts to their bar")
    parser.add_argument("--show-wrong", action="store_true")
    options = parser.parse_args()
    held = [json.loads(line) for line in open(HERE.parent / "heldout.jsonl", encoding="utf-8")][::options.every]
    answers, drafted, accepted = [], 0, 0
    for number, question in enumerate(held):
        reply = ask(options.ductl, question["prompt"], options.temperature)
        answers.append(reply["answer"])
        drafted += reply["stats"].get("drafted_tokens", 0)
        accepted += reply["stats"].get("accepted_tokens", 0)
        if options.show_wrong and not right(reply["answer"], question):
            print(f"wrong [{question['category']}] {question['prompt']!r} -> {reply['answer']!r}", file=sys.stderr)
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(held)}", end="", file=sys.stderr)
    missed = False
    categories = collections.defaultdict(list)
    for question, answer in zip(held, answers):
        categories[question["category"]].append((question, answer))
    for name, pairs in sorted(categories.items()):
        score = sum(right(answer, question) for question, answer in pairs)
        constant = questions.best_constant([question for question, _ in pairs], [answer for _, answer in pairs])
        print(f"{name:12} {score:4} of {len(pairs):4} right, {score / len(pairs):6.1%}; the best constant answer {constant:6.1%}")
        missed |= not options.drafts_only and score < CATEGORY_BAR * len(pairs)
    score = sum(right(answer, question) for question, answer in zip(held, answers))
    constant = questions.best_constant(held, answers)
    print(f"{'all':12} {score:4} of {len(held):4} right, {score / len(held):6.1%}; the best constant answer {constant:6.1%}")
    missed |= not options.drafts_only and score < OVERALL_BAR * len(held)
    print(f"{'drafts':12} {accepted:4} of {drafted:4} accepted, {accepted / max(drafted, 1):6.1%}")
    missed |= drafted == 0 or accepted < ACCEPTANCE_BAR * drafted
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
