#!/usr/bin/env python3
"""Questions and answers: the handbook, small arithmetic, primes below 1000, greetings; and which of them are held out.

    questions.py         write ../heldout.jsonl and print what there is
    questions.py --check only see that ../heldout.jsonl is what the rules below choose, and that there is enough of everything

A fact has one answer and several phrasings. Of each handbook topic and each greeting the two phrasings with the lowest SHA-256
are held out; those of phrasings.jsonl, which came later, are for training only; of primes and arithmetic the same hash picks facts
and for each one phrasing, while the fact stays in training in its other phrasings. A training question that equals a held-out one
but for case and punctuation is dropped.
"""
import collections
import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MORE = HERE / "phrasings.jsonl"
HELD_OUT = HERE.parent / "heldout.jsonl"
HELD_OUT_PRIMES, HELD_OUT_SUMS = 40, 72      # of each kind of prime answer; over all operations


@dataclass(frozen=True)
class Fact:
    category: str
    topic: str
    phrasings: tuple[str, ...]
    answer: str
    required: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    more: tuple[str, ...] = ()          # phrasings of which none is held out


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def more_phrasings() -> dict[str, tuple[str, ...]]:
    return {row["topic"]: tuple(row["more"]) for row in map(json.loads, MORE.read_text().splitlines())}


def handbook() -> list[Fact]:
    facts, more = [], more_phrasings()
    for path in sorted((HERE / "handbook").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            topic = json.loads(line)
            facts.append(Fact("handbook", topic["topic"], tuple(topic["questions"]), topic["answer"], tuple(topic["required"]),
                              tuple(topic["forbidden"]), more.get(topic["topic"], ())))
    return facts


SUMS = {
    "plus": ("What is {a} plus {b}?", "What is {a} + {b}?", "{a} + {b} = ?", "{a}+{b}", "How much is {a} plus {b}?", "Add {a} and {b}.",
             "what is the sum of {a} and {b}", "Calculate {a} + {b}."),
    "minus": ("What is {a} minus {b}?", "What is {a} - {b}?", "{a} - {b} = ?", "{a}-{b}", "How much is {a} minus {b}?",
              "Subtract {b} from {a}.", "what is the difference of {a} and {b}", "Calculate {a} - {b}."),
    "times": ("What is {a} times {b}?", "What is {a} * {b}?", "{a} * {b} = ?", "{a}*{b}", "How much is {a} times {b}?",
              "Multiply {a} by {b}.", "what is the product of {a} and {b}", "Calculate {a} * {b}."),
}


def arithmetic() -> list[Fact]:
    pairs = {
        "plus": [(a, b, a + b) for a in range(13) for b in range(13)],
        "minus": [(a, b, a - b) for a in range(16) for b in range(a + 1) if b <= 10],
        "times": [(a, b, a * b) for a in range(11) for b in range(11)],
    }
    return [Fact("arithmetic", f"{a} {name} {b}", tuple(form.format(a=a, b=b) for form in SUMS[name]),
                 f"{a} {name} {b} is {result}.", (rf"\bis {result}\b(?!\d)",))
            for name, rows in pairs.items() for a, b, result in rows]


PRIMES = ("Is {n} prime?", "Is {n} a prime number?", "is {n} a prime", "Tell me whether {n} is prime.", "Is the number {n} prime?",
          "{n}: prime or not?", "Can you say if {n} is a prime number?", "Do you know whether the number {n} is prime?")


def divisor(n: int) -> int:
    """The smallest one above 1."""
    return next((d for d in range(2, n) if n % d == 0), n)


def primes() -> list[Fact]:
    facts = []
    for n in range(2, 1000):
        phrasings = tuple(form.format(n=n) for form in PRIMES)
        d = divisor(n)
        if d == n:
            facts.append(Fact("prime", f"{n} prime", phrasings, f"Yes, {n} is prime.", (r"\byes\b", rf"\b{n} is prime"),
                              (r"\bno\b", r"not prime")))
        else:
            facts.append(Fact("prime", f"{n} composite", phrasings, f"No, {n} is not prime.",
                              (r"\bno\b", rf"\b{n} is not prime"), (r"\byes\b",)))
    return facts


GREETINGS = (
    ("hello", "Hello! I am the duckling. Ask me about ductl, small sums or prime numbers.", (r"hello",),
     ("Hello", "Hello!", "Hi", "Hi there!", "hey", "Hello there", "Hey duckling!", "hi duckling", "Greetings", "Hello, duckling.")),
    ("good-morning", "Good morning! What would you like to know about ductl?", (r"good morning",),
     ("Good morning", "Good morning!", "good morning to you", "Morning!", "A good morning to you, duckling.", "Hello and good morning",
      "good morning duckling", "Morning, duckling", "Hi, good morning!")),
    ("good-evening", "Good evening! What would you like to know about ductl?", (r"good evening",),
     ("Good evening", "Good evening!", "good evening to you", "Evening!", "A good evening to you, duckling.", "Hello and good evening",
      "good evening duckling", "Evening, duckling", "Hi, good evening!")),
    ("how-are-you", "I am well, thank you: all my experts are awake.", (r"\bwell\b",),
     ("How are you?", "how are you", "How are you doing?", "How do you do?", "How are you today?", "Are you well?", "how is it going",
      "How are things?", "Hello, how are you?", "Hi, how are you doing today?")),
    ("who-are-you", "I am the duckling, a small language model that ships with ductl.", (r"duckling", r"language model"),
     ("Who are you?", "who are you", "What are you?", "Tell me who you are.", "Introduce yourself.", "Please introduce yourself",
      "Who am I talking to?", "Say who you are.", "Who is speaking?", "With whom do I speak?")),
    ("your-name", "My name is duckling.", (r"name is duckling",),
     ("What is your name?", "what is your name", "Do you have a name?", "Tell me your name.", "How are you called?",
      "What do people call you?", "May I ask your name?", "Your name, please?", "Say your name.", "What should I call you?")),
    ("thanks", "You are welcome!", (r"welcome",),
     ("Thank you", "Thank you!", "Thanks", "thanks a lot", "Thank you very much.", "Many thanks", "thank you, duckling", "Thanks, duckling!",
      "Thank you for your help.", "Thanks for the answer.")),
    ("bye", "Goodbye! The flock will be here when you come back.", (r"goodbye",),
     ("Bye", "Bye!", "Goodbye", "good bye", "See you later.", "See you soon!", "Bye bye", "Farewell", "Goodbye, duckling.", "I have to go now.")),
    ("good-night", "Good night! Sleep well.", (r"good night",),
     ("Good night", "Good night!", "good night duckling", "Night!", "Have a good night.", "I wish you a good night.", "Good night to you",
      "I am going to bed, good night.", "Sleep well, good night!")),
    ("help", "I can answer questions about ductl, do small sums and tell whether a number below 1000 is prime.", (r"ductl", r"prime"),
     ("What can you do?", "what can you do", "What can I ask you?", "Help", "Help me", "What do you know?", "Tell me what you can do.",
      "What are you good for?", "What kind of questions do you answer?", "Which questions can I ask?")),
    ("joke", "Why did the duck join the flock? It wanted to share the bill.", (r"\bbill\b",),
     ("Tell me a joke.", "tell me a joke", "Do you know a joke?", "Make me laugh.", "A joke, please.", "Can you tell a joke?",
      "Say something funny.", "Know any jokes?", "I want to hear a joke.", "Please tell a joke")),
    ("sorry", "No harm done.", (r"no harm",),
     ("Sorry", "Sorry!", "I am sorry.", "sorry about that", "I apologise.", "My apologies", "Excuse me, I am sorry.", "I am so sorry",
      "Sorry, my mistake.", "Forgive me.")),
    ("praise", "Thank you, you are very kind.", (r"very kind",),
     ("Well done", "Well done!", "Good job", "Good work, duckling.", "You are great!", "That was a good answer.", "Nice work", "You are clever.",
      "Great answer!", "I like you.")),
    ("are-you-human", "No, I am not a human: I am a small language model.", (r"not a human",),
     ("Are you human?", "are you a human", "Are you a person?", "Are you a real person?", "Am I talking to a human?", "Are you a robot?",
      "Are you a machine?", "Is this a human?", "Are you alive?", "Do I speak with a person?")),
)


def greetings() -> list[Fact]:
    more = more_phrasings()
    return [Fact("greeting", topic, phrasings, answer, required, (), more.get(topic, ()))
            for topic, answer, required, phrasings in GREETINGS]


def right(answer: str, required, forbidden) -> bool:
    """Every required regular expression is found in the answer, and no forbidden one."""
    found = all(re.search(pattern, answer, re.IGNORECASE) for pattern in required)
    return found and not any(re.search(pattern, answer, re.IGNORECASE) for pattern in forbidden)


def best_constant(questions: list[dict], answers: list[str]) -> float:
    """The score of the best answer that is the same for all of `questions` (lines of heldout.jsonl): of all that were given or
    expected. Where the answer must repeat the question's number, a constant verdict, yes or no, counts as right."""
    if all(question["category"] == "prime" for question in questions):
        yes = sum(r"\byes\b" in question["required"] for question in questions)
        return max(yes, len(questions) - yes) / len(questions)
    candidates = set(answers) | {question["answer"] for question in questions}
    return max(sum(right(text, q["required"], q["forbidden"]) for q in questions) for text in candidates) / len(questions)


def one_word_less(question: str) -> set[tuple[str, ...]]:
    """Two questions that share one of these differ in one word at most: dropped, added, replaced or moved."""
    words = tuple(same(question).split())
    return {words} | {words[:i] + words[i + 1:] for i in range(len(words))}


def same(question: str) -> str:
    """Equal for two questions that differ in case and punctuation only. Signs of arithmetic count."""
    return re.sub(r"[^a-z0-9+*=-]+", " ", question.lower()).strip()


def split() -> tuple[list[tuple[Fact, str]], list[tuple[Fact, str]]]:
    """(training, held-out) pairs of a fact and one of its phrasings."""
    held: set[tuple[str, str]] = set()
    book, sums, numbers, hellos = handbook(), arithmetic(), primes(), greetings()
    for fact in book + hellos:
        held |= {(fact.topic, text) for text in sorted(fact.phrasings, key=digest)[:2]}
    kinds = [sums[:], [f for f in numbers if f.topic.endswith("prime")], [f for f in numbers if f.topic.endswith("composite")]]
    for facts, count in zip(kinds, (HELD_OUT_SUMS, HELD_OUT_PRIMES, HELD_OUT_PRIMES)):
        for fact in sorted(facts, key=lambda f: digest(f.topic))[:count]:
            held.add((fact.topic, min(fact.phrasings, key=digest)))
    facts = book + sums + numbers + hellos
    out = [(fact, text) for fact in facts for text in fact.phrasings if (fact.topic, text) in held]
    taken = {same(text) for _, text in out}
    return [(fact, text) for fact in facts for text in fact.phrasings + fact.more if same(text) not in taken], out


def enough(out: list[tuple[Fact, str]]):
    """What was asked of the data before there was any."""
    assert len(handbook()) >= 150 and all(len(fact.phrasings) >= 8 for fact in handbook())
    assert len(out) >= 300
    held = collections.Counter(fact.topic for fact, _ in out)
    assert all(held[fact.topic] == 2 for fact in handbook())
    verdicts = collections.Counter(fact.topic.split()[1] for fact, _ in out if fact.category == "prime")
    assert verdicts["prime"] == verdicts["composite"] > 0, verdicts


def main():
    training, out = split()
    for fact, _ in training + out:
        assert right(fact.answer, fact.required, fact.forbidden), fact
    left = {fact.topic for fact, _ in training}
    assert all(fact.topic in left for fact, _ in out), [f.topic for f, _ in out if f.topic not in left]
    answers = collections.defaultdict(set)
    for fact, text in training + out:
        answers[same(text)].add(fact.answer)
    loose = [(fact.topic, other.topic) for fact in handbook() for other in handbook()
             if fact.topic != other.topic and right(other.answer, fact.required, fact.forbidden)]
    assert not loose, f"topics that would take another topic's answer for right: {loose}"
    short = [fact.topic for fact in handbook() if not 40 <= len(fact.answer) <= 300]
    assert not short, f"answers of less than 40 or more than 300 characters: {short}"
    twice = [text for text, several in answers.items() if len(several) > 1]
    assert not twice, f"questions with two answers: {twice}"
    lines = "".join(json.dumps({"prompt": text, "category": fact.category, "required": fact.required, "forbidden": fact.forbidden,
                                "answer": fact.answer}) + "\n" for fact, text in out)
    enough(out)
    if "--check" in sys.argv[1:]:
        assert lines == HELD_OUT.read_text(encoding="ascii"), f"{HELD_OUT} is not what the rules choose: it is fixed, the handbook is not"
    else:
        HELD_OUT.write_text(lines, encoding="ascii")
    for name, rows in (("training", training), ("held out", out)):
        counts = collections.Counter(fact.category for fact, _ in rows)
        print(f"{name}: {len(rows)} questions, {dict(counts)}")
    print(f"handbook topics: {len(handbook())}")


if __name__ == "__main__":
    main()
