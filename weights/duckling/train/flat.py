"""All parameters of the model in one row in shared memory, and AdamW over parts of it (arXiv 1711.05101).

Each of the workers computes gradients of its own rows; the row of parameters is cut in as many pieces as there are workers, and
each updates its piece with the mean of all gradients. Two workers of one thread each use two cores better than one worker of
two threads, as the matrices are small, and sums have a fixed order, so that a run can be repeated.
"""
import torch

import model

BETAS, EPSILON, DECAY = (0.9, 0.95), 1e-8, 0.05


class Flat:
    def __init__(self, net: model.Model, workers: int):
        named = sorted(net.named_parameters(), key=lambda item: ".indexer." in item[0])
        self.net, self.workers = net, workers
        self.size = sum(p.numel() for _, p in named)
        self.values, self.mean, self.square, self.decay = (torch.zeros(self.size).share_memory_() for _ in range(4))
        self.gradients = torch.zeros(workers, self.size).share_memory_()
        self.norms = torch.zeros(workers, 2).share_memory_()
        self.places, at = [], 0
        self.groups = {"main": (0, self.size), "indexer": (self.size, self.size)}
        for name, p in named:
            end = at + p.numel()
            if ".indexer." in name and self.groups["main"][1] == self.size:
                self.groups = {"main": (0, at), "indexer": (at, self.size)}
            self.values[at:end] = p.detach().flatten()
            self.decay[at:end] = DECAY if p.dim() > 1 else 0
            p.data = self.values[at:end].view(p.shape)
            self.places.append((name, p, at, end))
            at = end
        for buffer in net.buffers():
            buffer.share_memory_()

    def learn(self, active: list[str], worker: int):
        """Which groups get gradients; those of this worker are collected in its row."""
        for name, p, at, end in self.places:
            p.requires_grad_(("indexer" if ".indexer." in name else "main") in active)
            p.grad = self.gradients[worker, at:end].view(p.shape) if p.requires_grad else None

    def piece(self, group: str, worker: int) -> slice:
        first, end = self.groups[group]
        width = -(-(end - first) // self.workers)
        return slice(min(first + worker * width, end), min(first + (worker + 1) * width, end))

    def gather(self, active: list[str], worker: int):
        """Mean of all workers' gradients in this worker's pieces, into the first worker's row; and their norms."""
        for column, group in enumerate(("main", "indexer")):
            if group in active:
                piece = self.piece(group, worker)
                total = self.gradients[0, piece]
                for other in range(1, self.workers):
                    total += self.gradients[other, piece]
                total /= self.workers
                self.norms[worker, column] = total.square().sum()

    def update(self, active: list[str], worker: int, rates: dict[str, float], counts: dict[str, int]):
        """`counts`: updates of the group so far, this one included. Gradients are clipped to norm 1 in each group."""
        for column, group in enumerate(("main", "indexer")):
            if group in active:
                piece, rate, count = self.piece(group, worker), rates[group], counts[group]
                gradient = self.gradients[0, piece]
                gradient *= min(1.0, 1.0 / (float(self.norms[:, column].sum()) ** 0.5 + 1e-6))
                self.mean[piece].lerp_(gradient, 1 - BETAS[0])
                self.square[piece].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
                root = (self.square[piece] / (1 - BETAS[1] ** count)).sqrt_().add_(EPSILON)
                self.values[piece].mul_(1 - rate * self.decay[piece])
                self.values[piece].addcdiv_(self.mean[piece], root, value=-rate / (1 - BETAS[0] ** count))

    def norm(self, group: str) -> float:
        return float(self.norms[:, 0 if group == "main" else 1].sum()) ** 0.5

    def state(self) -> dict:
        return {"values": self.values, "mean": self.mean, "square": self.square, "buffers": dict(self.net.named_buffers())}

    def restore(self, state: dict):
        self.values.copy_(state["values"])
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])
        for name, buffer in self.net.named_buffers():
            buffer.copy_(state["buffers"][name])
