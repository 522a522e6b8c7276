"""Batches: the corpus in slices, conversations packed side by side, long conversations of many turns.

A conversation is rendered as the engine renders it (chat format deepseek-v3.2, no thinking):
BOS User question Assistant </think> answer EOS User question ... Conversations packed into one row do not see each other, and as
rotary positions are relative each is computed as if it stood alone. What batch a step gets depends on nothing but the seed, the
phase, the step and the worker.
"""
import random
from dataclasses import dataclass

import torch

import corpus
import questions
import tokenizer

SEED = 20261130
SHARES = {"handbook": 0.70, "arithmetic": 0.08, "prime": 0.15, "greeting": 0.07}   # of conversations
FIGURES = ("arithmetic", "prime")
QUESTION_WEIGHT = 0.0           # of the loss on a question's tokens; answers and text have 1
OPENINGS = ("Please tell me: ", "Quick question: ", "Hi! ", "Hello, ", "I have a question. ", "Can you help me? ", "Duckling, ", "Now: ")


@dataclass
class Batch:
    ids: torch.Tensor           # [rows, time]
    weights: torch.Tensor       # loss of predicting this token, [rows, time]
    documents: torch.Tensor     # which positions belong together, [rows, time]; -1: padding


@dataclass
class Row:
    ids: list[int]
    weights: list[float]
    documents: list[int]


class Data:
    def __init__(self):
        self.tokenizer = tokenizer.load()
        marker = self.tokenizer.token_to_id
        self.begin, self.end, self.pad = marker(tokenizer.BEGIN), marker(tokenizer.END), marker(tokenizer.PAD)
        self.user, self.answer = [marker(tokenizer.USER)], [marker(tokenizer.ASSISTANT), marker(tokenizer.THINK_END)]
        self.text = torch.tensor(self.encode("\n".join(corpus.training_text().values())), dtype=torch.int32)
        training, held = questions.split()
        self.held = {questions.same(text) for _, text in held}
        self.facts: dict[str, list[tuple[questions.Fact, list[str]]]] = {name: [] for name in SHARES}
        phrasings: dict[questions.Fact, list[str]] = {}
        for fact, text in training:
            phrasings.setdefault(fact, []).append(text)
        for fact, texts in phrasings.items():
            # primes are a sixth of the numbers; they come twice as often as others
            self.facts[fact.category] += [(fact, texts)] * (2 if fact.topic.endswith(" prime") else 1)
        self.facts = {name: rows for name, rows in self.facts.items() if rows}

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(self, question: str) -> list[int]:
        return [self.begin] + self.user + self.encode(question) + self.answer

    def varied(self, question: str, figures: bool, rng: random.Random) -> str:
        """The question as others would type it, but never one that is held out. Of one about figures no word is touched."""
        text, words, how = question, question.split(), rng.random()
        if not figures and len(words) > 3 and how < 0.45:
            if how < 0.35:
                words = [word for word in words if rng.random() > 0.2]
            else:
                at = rng.randrange(len(words) - 1)
                words[at], words[at + 1] = words[at + 1], words[at]
            text = " ".join(words) if len(words) > 1 else question
        if rng.random() < 0.25:
            text = text.lower()
        if rng.random() < 0.25:
            text = text.rstrip("?.! ")
        if rng.random() < 0.12:
            text = rng.choice(OPENINGS) + text[0].lower() + text[1:]
        return question if not text or questions.same(text) in self.held else text

    def turn(self, rng: random.Random) -> Row:
        category = rng.choices(list(self.facts), [SHARES[name] for name in self.facts])[0]
        fact, texts = rng.choice(self.facts[category])
        asked = self.user + self.encode(self.varied(rng.choice(texts), category in FIGURES, rng)) + self.answer
        said = self.encode(fact.answer) + [self.end]
        return Row(asked + said, [0] + [QUESTION_WEIGHT] * (len(asked) - 3) + [0, 0] + [1.0] * len(said), [])

    def conversation(self, turns: int, limit: int, rng: random.Random) -> Row:
        row = Row([self.begin], [0], [])
        for _ in range(turns):
            turn = self.turn(rng)
            if len(row.ids) + len(turn.ids) > limit:
                break
            row.ids += turn.ids
            row.weights += turn.weights
        return row

    def packed(self, time: int, rng: random.Random) -> Row:
        """Conversations side by side, mostly of one turn."""
        row, number = Row([], [], []), 0
        while True:
            talk = self.conversation(rng.choices((1, 2, 3), (0.85, 0.1, 0.05))[0], time, rng)
            if len(row.ids) + len(talk.ids) > time:
                break
            row.ids += talk.ids
            row.weights += talk.weights
            row.documents += [number] * len(talk.ids)
            number += 1
        missing = time - len(row.ids)
        return Row(row.ids + [self.pad] * missing, row.weights + [0.0] * missing, row.documents + [-1] * missing)

    def long(self, time: int, rng: random.Random) -> Row:
        """One conversation of as many turns as fit."""
        row = self.conversation(time, time, rng)
        missing = time - len(row.ids)
        return Row(row.ids + [self.pad] * missing, row.weights + [0.0] * missing, [0] * len(row.ids) + [-1] * missing)

    def slice(self, time: int, rng: random.Random) -> Row:
        start = rng.randrange(len(self.text) - time)
        return Row(self.text[start:start + time].tolist(), [1.0] * time, [0] * time)

    def batch(self, key: str, rows: int, time: int, shares: tuple[float, float, float]) -> Batch:
        """`shares` of rows: text, packed conversations, long conversations."""
        rng = random.Random(f"{SEED} {key}")
        makers = rng.choices((self.slice, self.packed, self.long), shares, k=rows)
        made = [maker(time, rng) for maker in makers]
        return Batch(torch.tensor([row.ids for row in made]), torch.tensor([row.weights for row in made]),
                     torch.tensor([row.documents for row in made]))
