#!/usr/bin/env python3
"""Trains the duckling: dense, then the indexer alone, then sparse, last through fp8 weights. One run, two cores, fixed seed.

    train.py             run or resume; run/checkpoint.pt every five minutes, at SIGTERM and at the end
    train.py --fresh     begin anew
    train.py --tiny N    N steps a phase into run/tiny/, to test the chain

The indexer is trained as in the DeepSeek-V3.2 report: dense warm-up with all else frozen, KL of its softmaxed scores against the
attention summed over heads and normalised; then with the model attending to its selection, KL over the selected keys. It sees
its input detached, and the selection passes no gradient. The routers' correction biases move against the sign of each expert's
overload after every step, the MTP loss has weight 0.3 (DeepSeek-V3 report, 2.1.2 and 2.2). What the reports do not have: while
the model learns with its selection, a loss on the dense attention mass that lies beside it, as the attention of so small a model
stays spread over more keys than it may select.
"""
import argparse
import fcntl
import hashlib
import math
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.nn import functional as F

import data
import model
from flat import Flat

HERE = Path(__file__).resolve().parent
WORKERS = 2
MTP_WEIGHT = 0.3
PEAK_RATE, LAST_RATE, RAMP = 2e-3, 1e-4, 80             # of everything but the indexer: one cosine over all its steps
WARM_UP_RATE, SPARSE_RATES = 3e-3, (1e-3, 1e-4)       # of the indexer: constant after 10 steps; then a cosine
CHECKPOINT_SECONDS = 300
PATIENCE = 600                                        # seconds until a worker takes the other for dead


@dataclass(frozen=True)
class Phase:
    name: str
    steps: int
    rows: int                   # of each worker
    time: int
    shares: tuple               # of rows: text, packed conversations, long conversations
    learning: tuple             # groups of parameters
    attention: str
    quantised: bool
    balance: float              # step of the routers' correction biases
    cost: float                 # time a token, for the time left only
    mtp: bool = True            # the MTP rows are computed and learn
    concentrate: float = 0.0    # weight of the loss of attention mass beside the selected keys


PHASES = (
    Phase("dense", 2800, 4, 256, (0.18, 0.82, 0.00), ("main",), "dense", False, 0.003, 1.0),
    Phase("stretch", 200, 2, 1024, (0.55, 0.35, 0.10), ("main",), "dense", False, 0.002, 1.25),
    Phase("indexer", 80, 2, 1024, (0.70, 0.00, 0.30), ("indexer",), "dense", False, 0.0, 0.7),
    Phase("sparse", 240, 2, 1024, (0.45, 0.43, 0.12), ("main", "indexer"), "sparse", False, 0.001, 2.0, concentrate=0.5),
    Phase("fp8", 180, 2, 1024, (0.45, 0.43, 0.12), ("main", "indexer"), "sparse", True, 0.0005, 2.2, concentrate=0.5),
)


def made_of() -> str:
    """A digest of everything beside this file that decides what a run learns."""
    files = [HERE.parent / "config.json", HERE.parent / "tokenizer.json", HERE.parent / "heldout.jsonl", HERE / "phrasings.jsonl",
             HERE / "questions.py", HERE / "data.py", HERE / "model.py", HERE / "corpus.py", *sorted((HERE / "handbook").iterdir())]
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def shrunk(phases: tuple, steps: int) -> tuple:
    return tuple(Phase(**{**asdict(phase), "steps": steps}) for phase in phases)


class Plan:
    """Which phase a step is in, and how fast each group learns in it."""

    def __init__(self, phases: tuple):
        self.phases = phases
        self.steps = sum(phase.steps for phase in phases)
        self.main_steps = self.group_steps("main", self.steps)

    def phases_as_text(self) -> str:
        return "\n".join(f"{phase}" for phase in self.phases)

    def at(self, step: int) -> tuple[Phase, int]:
        for phase in self.phases:
            if step < phase.steps:
                return phase, step
            step -= phase.steps
        raise IndexError(step)

    def group_steps(self, group: str, until: int) -> int:
        """Updates of a group in the steps before `until`."""
        done = 0
        for phase in self.phases:
            mine = min(max(until, 0), phase.steps)
            done += mine if group in phase.learning else 0
            until -= mine
        return done

    def rates(self, step: int) -> dict[str, float]:
        phase, inside = self.at(step)
        done = self.group_steps("main", step)
        ramp = min(1.0, (done + 1) / RAMP)
        main = LAST_RATE + (PEAK_RATE - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done / self.main_steps))
        if phase.attention == "dense":
            indexer = WARM_UP_RATE * min(1.0, (inside + 1) / 10)
        else:
            sparse = [p for p in self.phases if p.attention == "sparse"]
            before = sum(p.steps for p in sparse[:sparse.index(phase)])
            part = (before + inside) / sum(p.steps for p in sparse)
            indexer = SPARSE_RATES[1] + (SPARSE_RATES[0] - SPARSE_RATES[1]) * 0.5 * (1 + math.cos(math.pi * part))
        return {"main": main * ramp, "indexer": indexer}

    def work_left(self, step: int) -> float:
        """In tokens of the first phase."""
        left = 0.0
        for phase in self.phases:
            inside = min(max(step, 0), phase.steps)
            left += (phase.steps - inside) * WORKERS * phase.rows * phase.time * phase.cost
            step -= inside
        return left


def prediction_losses(net: model.Model, batch: data.Batch, normed: torch.Tensor, ahead: torch.Tensor | None,
                      mode: model.Mode):
    """Mean cross entropies of the next token, and of the one after it by the MTP rows."""
    def loss(hidden: torch.Tensor, distance: int) -> torch.Tensor:
        together = batch.documents[:, distance:] == batch.documents[:, :-distance]
        weights = (batch.weights[:, distance:] * together).flatten()
        scored = weights.nonzero().squeeze(1)
        logits = net.logits(hidden[:, :-distance].flatten(0, 1).index_select(0, scored), mode)
        each = F.cross_entropy(logits, batch.ids[:, distance:].flatten()[scored], reduction="none")
        return (each * weights[scored]).sum() / weights.sum()
    return loss(normed, 1), None if ahead is None else loss(ahead, 2)


class Trainer:
    def __init__(self, phases: tuple, folder: Path):
        torch.manual_seed(data.SEED)
        self.plan, self.folder = Plan(phases), folder
        self.net = model.Model(model.read_config())
        self.flat = Flat(self.net, WORKERS)
        self.data = data.Data()
        self.routers = [module for module in self.net.modules() if isinstance(module, model.Router)]
        self.loads = torch.zeros(WORKERS, len(self.routers), self.routers[0].experts, dtype=torch.int64).share_memory_()
        self.figures = torch.zeros(WORKERS, 3).share_memory_()      # losses: next token, MTP, indexer
        self.barrier = multiprocessing.Barrier(WORKERS)
        self.stop = torch.zeros(1, dtype=torch.int32).share_memory_()
        self.first = 0
        self.seconds = 0.0

    def step(self, worker: int, step: int):
        phase, inside = self.plan.at(step)
        active, flat = list(phase.learning), self.flat
        if inside == 0 or step == self.first:
            flat.learn(active, worker)
        flat.gradients[worker].zero_()
        mode = model.Mode(phase.attention, indexer_loss="indexer" in active, quantised=phase.quantised,
                          concentrate=phase.concentrate > 0)
        batch = self.data.batch(f"{phase.name} {inside} {worker}", phase.rows, phase.time, phase.shares)
        alone = not bool((batch.documents != 0).any())
        normed, ahead, side = self.net.hidden(batch.ids, mode, None if alone else batch.documents, phase.mtp)
        figures, total = [0.0, 0.0, 0.0], 0.0
        if "main" in active:
            near, far = prediction_losses(self.net, batch, normed, ahead, mode)
            total = near if far is None else near + MTP_WEIGHT * far
            figures[:2] = near.item(), 0.0 if far is None else far.item()
        if side.mass_loss:
            total = total + phase.concentrate * torch.stack(side.mass_loss).sum() / len(self.net.model.layers)
        if side.indexer_loss:
            indexer = torch.stack(side.indexer_loss).sum()
            total = total + indexer
            figures[2] = indexer.item() / len(self.net.model.layers)
        total.backward()
        self.figures[worker] = torch.tensor(figures)
        for row, (_, loads) in zip(self.loads[worker], side.loads):
            row.copy_(loads)
        self.barrier.wait(PATIENCE)
        flat.gather(active, worker)
        self.barrier.wait(PATIENCE)
        counts = {group: self.plan.group_steps(group, step + 1) for group in active}
        flat.update(active, worker, self.plan.rates(step), counts)
        if worker == 0 and phase.balance:
            for router, loads in zip(self.routers, self.loads.sum(0).float()):
                router.e_score_correction_bias += phase.balance * (loads.mean() - loads).sign()
        self.barrier.wait(PATIENCE)

    def loop(self, worker: int):
        for step in range(self.first, self.plan.steps):
            if worker == 0:
                self.before(step)
            self.barrier.wait(PATIENCE)
            if self.stop[0]:
                return
            self.step(worker, step)
            if worker == 0:
                self.after(step)

    # what only the first worker does

    def before(self, step: int):
        self.began = time.monotonic()
        if self.asked_to_stop:
            self.save(step)
            print(f"stopped before step {step}; the next start goes on from there", flush=True)
            self.stop[0] = 1

    def after(self, step: int):
        phase, inside = self.plan.at(step)
        spent = time.monotonic() - self.began
        self.seconds += spent
        self.window.append(spent)
        done = inside + 1
        if len(self.window) == 20 or done == phase.steps:
            tokens = WORKERS * phase.rows * phase.time
            pace = len(self.window) * tokens / sum(self.window)
            left = self.plan.work_left(step + 1) / (pace * phase.cost)
            near, far, indexer = self.figures.mean(0).tolist()
            busiest = max(float(row.max() / row.float().mean()) for row in self.loads.sum(0))
            laziest = min(float(row.min() / row.float().mean()) for row in self.loads.sum(0))
            print(f"{phase.name} {done}/{phase.steps}: next {near:.3f} mtp {far:.3f} indexer {indexer:.3f} "
                  f"norm {self.flat.norm('main'):.2f} rate {self.plan.rates(step)['main']:.1e} "
                  f"experts {laziest:.2f}-{busiest:.2f} | {pace:.0f} tok/s, {self.seconds / 60:.1f} min, "
                  f"{left / 60:.0f} min left", flush=True)
            self.window = []
        if time.monotonic() - self.saved > CHECKPOINT_SECONDS or step + 1 == self.plan.steps:
            self.save(step + 1)

    def save(self, step: int):
        path = self.folder / "checkpoint.pt"
        torch.save({"step": step, "seconds": self.seconds, "phases": self.plan.phases_as_text(), "made_of": made_of(),
                    **self.flat.state()},
                   path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)
        self.saved = time.monotonic()

    def resume(self):
        state = torch.load(self.folder / "checkpoint.pt", weights_only=True)
        if state["phases"] != self.plan.phases_as_text():
            raise SystemExit("error: run/checkpoint.pt comes of other phases than train.py names now; --fresh begins anew")
        if state.get("made_of") != made_of():
            raise SystemExit("error: run/checkpoint.pt comes of other data, or another model, than lies here now; --fresh begins anew")
        self.flat.restore(state)
        self.first, self.seconds = state["step"], state["seconds"]
        print(f"resumed at step {self.first} of {self.plan.steps}", flush=True)

    def run(self):
        self.asked_to_stop, self.window, self.saved = False, [], time.monotonic()
        others = [multiprocessing.Process(target=self.help, args=(worker,)) for worker in range(1, WORKERS)]
        for other in others:
            other.start()

        def ask(*_):
            self.asked_to_stop = True
        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)
        try:
            self.loop(0)
        except BaseException:
            self.barrier.abort()
            raise
        for other in others:
            other.join()
        if not self.stop[0]:
            print(f"done: {self.plan.steps} steps in {self.seconds / 60:.1f} min", flush=True)

    def help(self, worker: int):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)   # the first worker tells when to stop
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.loop(worker)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--tiny", type=int, metavar="N")
    options = parser.parse_args()
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork")
    folder = HERE / "run" / "tiny" if options.tiny else HERE / "run"
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"error: another train.py works on {folder}")
    trainer = Trainer(shrunk(PHASES, options.tiny) if options.tiny else PHASES, folder)
    if (folder / "checkpoint.pt").exists() and not options.fresh:
        trainer.resume()
    trainer.run()


if __name__ == "__main__":
    sys.exit(main())
