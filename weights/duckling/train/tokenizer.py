#!/usr/bin/env python3
"""The tokenizer: ../tokenizer.json, byte-level BPE of 4096 pieces, learnt from the corpus and the questions.

    tokenizer.py         train, check, write

The pre-tokeniser is that of DeepSeek-V3 (numbers in threes from the left, CJK runs, words, then bytes), the special tokens are
those of DeepSeek's chat format. Ids: 0 to 2 begin, end, padding; 256 bytes; merged pieces, of which the last 990 are the numbers
10 to 999; chat markers. Pieces of digits never mix with others, so every number below 1000 is one token.
"""
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

import corpus
import questions

FILE = Path(__file__).resolve().parent.parent / "tokenizer.json"
SIZE = 4096
BEGIN, END, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
USER, ASSISTANT, THINK, THINK_END = "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"
FIRST, LAST = [BEGIN, END, PAD], [USER, ASSISTANT, THINK, THINK_END]
NUMBERS = r"\p{N}{1,3}"
CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
WORDS = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
         "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")


def steps() -> pre_tokenizers.PreTokenizer:
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (NUMBERS, CJK, WORDS)]
    return pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def training_lines():
    """The whole corpus, and the handbook often enough that its words become pieces. Digits are left out: numbers are added."""
    for text in corpus.training_text().values():
        yield from text.split("\n\n")
    for fact, question in questions.split()[0]:
        if fact.category in ("handbook", "greeting"):
            for _ in range(4):
                yield question
                yield fact.answer


def learn() -> Tokenizer:
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = steps()
    words = SIZE - len(FIRST) - len(LAST) - 990
    trainer = BpeTrainer(vocab_size=words, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    table = str.maketrans("", "", "0123456789")
    learner.train_from_iterator((line.translate(table) for line in training_lines()), trainer)
    learnt = json.loads(learner.to_str())["model"]
    pieces = sorted(learnt["vocab"], key=learnt["vocab"].get)
    merges = [tuple(merge) for merge in learnt["merges"]]
    for number in range(10, 1000):
        text = str(number)
        pieces.append(text)
        merges.append((text[:-1], text[-1]))
        if number > 99 and text[1] != "0":
            merges.append((text[0], text[1:]))  # where the last two digits were joined first
    vocabulary = {piece: i for i, piece in enumerate(FIRST + pieces + LAST)}
    assert len(vocabulary) == SIZE, len(vocabulary)
    made = Tokenizer(BPE(vocabulary, merges))
    made.normalizer = normalizers.Sequence([])
    made.pre_tokenizer = steps()
    made.post_processor = processors.ByteLevel(add_prefix_space=True, trim_offsets=False, use_regex=True)
    made.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    made.add_special_tokens([AddedToken(text, normalized=False) for text in FIRST])
    made.add_tokens([AddedToken(text, normalized=True) for text in LAST])
    return made


def load() -> Tokenizer:
    return Tokenizer.from_file(str(FILE))


def check(tokenizer: Tokenizer):
    assert [tokenizer.token_to_id(text) for text in FIRST] == [0, 1, 2]
    for number in range(1000):
        assert len(tokenizer.encode(str(number)).ids) == 1, number
    noise = random.Random(3)
    samples = ["Hello, world! 12345 x=3.14", "你好，世界。今日は123円です🙂👍🏽", "a  b\n\n c\t d\r\n", "é à ñ 007 1000", ""]
    samples += ["".join(chr(noise.choice((noise.randrange(32, 127), noise.randrange(160, 0x3000), 10))) for _ in range(60)) for _ in range(300)]
    samples += [line for text in corpus.training_text().values() for line in text.split("\n\n")[::400]]
    samples += [question for _, question in questions.split()[0]]
    for text in samples:
        back = tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False)
        assert back == text, (text, back)
    chat = tokenizer.encode(f"{BEGIN}{USER}hi{ASSISTANT}{THINK_END}Hello{END}").ids
    assert chat[0] == 0 and chat[-1] == 1 and chat[1] == SIZE - 4, chat
    return len(samples)


def main():
    tokenizer = learn()
    tokenizer.save(str(FILE))
    count = check(load())
    for name, text in corpus.training_text().items():
        sample = text[:200_000]
        print(f"{name:8} {len(sample) / len(tokenizer.encode(sample).ids):.2f} characters a token")
    print(f"{FILE.name}: {tokenizer.get_vocab_size()} pieces; {count} texts come back as they were")


if __name__ == "__main__":
    main()
