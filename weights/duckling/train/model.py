"""DeepSeek-V3.2 in plain torch, float32: MLA, YaRN, routed experts, sparse attention with its indexer, and the MTP layer.

Written after the public sources: deepseek-ai/DeepSeek-V3.2-Exp (inference/model.py; the indexer's rope in its corrected,
half-split form), the DeepSeek-V3 report (arXiv 2412.19437: MLA, noaux_tc routing, bias update, MTP) and the V3.2 report
(indexer warm-up and sparse training). Parameter names are those of the published checkpoints, but for the experts of a
layer, which lie in two stacks while training; export.py takes them apart.
"""
import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import quantise

FOLDER = Path(__file__).resolve().parent.parent


def read_config(folder: Path = FOLDER) -> dict:
    return json.loads((folder / "config.json").read_text())


@dataclass
class Mode:
    """What one forward pass does beside predicting."""
    attention: str = "dense"        # dense; sparse: over the indexer's selection; random: over as many random keys
    indexer_loss: bool = False      # KL of the indexer against the attention
    quantised: bool = False         # weights as the checkpoint stores them
    measure: bool = False           # collect shares of attention mass and loads of experts
    concentrate: bool = False       # loss: dense attention mass beside the selected keys


@dataclass
class Side:
    """What a forward pass collects on the way."""
    indexer_loss: list
    mass_loss: list                 # -log of the mass on the selected keys, mean of rows that must choose
    loads: list                     # (router, tokens an expert)
    mass: list                      # (layer, first row, share of dense attention mass on selected keys, [batch, rows])


class Linear(nn.Module):
    """y = W x. `store` is how the checkpoint holds W: f8 (block scales), bf16 or f32."""

    def __init__(self, inputs: int, outputs: int, store: str = "f8", gain: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * (gain / math.sqrt(inputs)))
        self.store = store

    def stored(self, quantised: bool) -> torch.Tensor:
        if not quantised or self.store == "f32":
            return self.weight
        return quantise.through_e4m3(self.weight) if self.store == "f8" else quantise.through_bf16(self.weight)

    def forward(self, x: torch.Tensor, mode: Mode) -> torch.Tensor:
        return F.linear(x, self.stored(mode.quantised))


class RMSNorm(nn.Module):
    store = "bf16"

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor, mode: Mode) -> torch.Tensor:
        weight = quantise.through_bf16(self.weight) if mode.quantised else self.weight
        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)


class KeyNorm(nn.Module):
    """The indexer's LayerNorm, float32 in the checkpoint."""
    store = "f32"

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, 1e-6)


def yarn_frequencies(config: dict) -> torch.Tensor:
    """Inverse frequencies; YaRN holds at every length (arXiv 2309.00071)."""
    width, theta, yarn = config["qk_rope_head_dim"], config["rope_theta"], config["rope_scaling"]
    plain = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)

    def corner(turns: float) -> float:
        return width * math.log(yarn["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(corner(yarn["beta_fast"])), 0)
    high = min(math.ceil(corner(yarn["beta_slow"])), width - 1)
    ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    return (plain * (1 - ramp) + plain / yarn["factor"] * ramp).float()


def softmax_scale(config: dict) -> float:
    yarn = config["rope_scaling"]
    mscale = 0.1 * yarn["mscale_all_dim"] * math.log(yarn["factor"]) + 1
    return (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) ** -0.5 * mscale * mscale


@dataclass
class Rope:
    """cos and sin, [time, width / 2]. Their amplitude is 1, as mscale and mscale_all_dim are equal."""
    cos: torch.Tensor
    sin: torch.Tensor

    def pairs(self, x: torch.Tensor) -> torch.Tensor:
        """Neighbours (2i, 2i + 1) rotate together: MLA. x is [batch, time, heads, width]."""
        cos, sin = self.cos[None, :, None, :], self.sin[None, :, None, :]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def halves(self, x: torch.Tensor) -> torch.Tensor:
        """(i, i + width / 2) rotate together, in the first `width` elements only: the indexer."""
        cos, sin = self.cos[None, :, None, :], self.sin[None, :, None, :]
        width = 2 * self.cos.shape[-1]
        first, second, rest = x[..., :width // 2], x[..., width // 2:width], x[..., width:]
        return torch.cat((first * cos - second * sin, first * sin + second * cos, rest), -1)


class Indexer(nn.Module):
    def __init__(self, config: dict):
        super().__init__()
        self.heads, self.width, self.topk = config["index_n_heads"], config["index_head_dim"], config["index_topk"]
        self.wq_b = Linear(config["q_lora_rank"], self.heads * self.width)
        self.wk = Linear(config["hidden_size"], self.width)
        self.k_norm = KeyNorm(self.width)
        self.weights_proj = Linear(config["hidden_size"], self.heads, "bf16")

    def project(self, x: torch.Tensor, query: torch.Tensor, rope: Rope, mode: Mode):
        """Queries [batch, heads, time, width], keys [batch, time, width], weights of the heads [batch, heads, time]."""
        batch, time, _ = x.shape
        q = rope.halves(self.wq_b(query, mode).view(batch, time, self.heads, self.width)).transpose(1, 2)
        k = rope.halves(self.k_norm(self.wk(x, mode)).unsqueeze(2)).squeeze(2)
        w = self.weights_proj(x, mode) * (self.heads ** -0.5 * self.width ** -0.5)
        return q, k, w.transpose(1, 2)

    @staticmethod
    def scores(q: torch.Tensor, k: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """I(t, s) = sum over heads of w_h(t) relu(q_h(t) k(s)), [batch, rows, keys]; nothing is masked."""
        dots = (q @ k.unsqueeze(1).transpose(-1, -2)).relu()
        return (dots * w.unsqueeze(-1)).sum(1)

    def select(self, scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """The best `topk` allowed keys of each row as a mask; of equal scores the lower position wins."""
        if scores.shape[-1] <= self.topk:
            return allowed.expand(scores.shape)
        scores = scores.masked_fill(~allowed, -torch.inf)
        last = scores.topk(self.topk, sorted=True).values[..., -1:]
        above, equal = scores > last, scores == last
        room = self.topk - above.sum(-1, keepdim=True)
        return (above | equal & (equal.cumsum(-1, dtype=torch.int32) <= room)) & allowed


def minus_infinity(where: torch.Tensor) -> torch.Tensor:
    return torch.zeros(where.shape).masked_fill_(where, -torch.inf)


class Attention(nn.Module):
    ROWS = 256                      # queries are taken so many at a time: keys behind them all are never looked at

    def __init__(self, config: dict):
        super().__init__()
        self.heads, self.nope, self.rope = config["num_attention_heads"], config["qk_nope_head_dim"], config["qk_rope_head_dim"]
        self.value, self.rank = config["v_head_dim"], config["kv_lora_rank"]
        hidden, q_rank, eps = config["hidden_size"], config["q_lora_rank"], config["rms_norm_eps"]
        self.q_a_proj = Linear(hidden, q_rank)
        self.q_a_layernorm = RMSNorm(q_rank, eps)
        self.q_b_proj = Linear(q_rank, self.heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa = Linear(hidden, self.rank + self.rope)
        self.kv_a_layernorm = RMSNorm(self.rank, eps)
        self.kv_b_proj = Linear(self.rank, self.heads * (self.nope + self.value))
        self.o_proj = Linear(self.heads * self.value, hidden, gain=0.4)
        self.indexer = Indexer(config)
        self.scale = softmax_scale(config)

    def forward(self, x: torch.Tensor, rope: Rope, allowed: torch.Tensor, mode: Mode, side: Side, layer: int) -> torch.Tensor:
        """`allowed` is [batch, time, time]; None: every position sees itself and all before it."""
        batch, time, _ = x.shape
        query = self.q_a_layernorm(self.q_a_proj(x, mode), mode)
        q = self.q_b_proj(query, mode).view(batch, time, self.heads, self.nope + self.rope)
        q = torch.cat((q[..., :self.nope], rope.pairs(q[..., self.nope:])), -1).transpose(1, 2)
        latent, k_rope = self.kv_a_proj_with_mqa(x, mode).split((self.rank, self.rope), -1)
        k_rope = rope.pairs(k_rope.unsqueeze(2))
        kv = self.kv_b_proj(self.kv_a_layernorm(latent, mode), mode).view(batch, time, self.heads, self.nope + self.value)
        k = torch.cat((kv[..., :self.nope], k_rope.expand(-1, -1, self.heads, -1)), -1).transpose(1, 2)
        v = kv[..., self.nope:].transpose(1, 2)
        indexed = None
        if mode.indexer_loss or mode.measure or mode.attention == "sparse" and time > self.indexer.topk:
            indexed = self.indexer.project(x.detach(), query.detach(), rope, mode)
        if indexed is None and mode.attention != "random":
            # equal widths let torch use its blocked kernel
            padded = F.pad(v, (0, self.nope + self.rope - self.value))
            mask = None if allowed is None else allowed.unsqueeze(1)
            out = F.scaled_dot_product_attention(q, k, padded, mask, is_causal=mask is None, scale=self.scale)[..., :self.value]
        else:
            out = torch.cat([self.rows(q, k, v, allowed, indexed, at, mode, side, layer) for at in range(0, time, self.ROWS)], 2)
        return self.o_proj(out.transpose(1, 2).flatten(2), mode)

    def rows(self, q, k, v, allowed, indexed, at, mode, side, layer):
        """Attention of the queries from position `at` on, over the keys up to the last of them; the indexer learns and is
        measured on the way."""
        end, scores = min(at + self.ROWS, k.shape[2]), None
        q, k, v = q[:, :, at:end], k[:, :, :end], v[:, :, :end]
        allowed = torch.ones(1, end - at, end, dtype=torch.bool).tril(at) if allowed is None else allowed[:, at:end, :end]
        if indexed and (mode.indexer_loss or mode.measure or end > self.indexer.topk):
            queries, keys, weights = indexed
            scores = self.indexer.scores(queries[:, :, at:end], keys[:, :end], weights[:, :, at:end])
        chosen = allowed
        if mode.attention == "random":
            noise = torch.rand(1, *allowed.shape[1:], generator=torch.Generator().manual_seed(1000 * layer + at))
            chosen = self.indexer.select(noise, allowed)
        elif scores is not None and (mode.attention == "sparse" or mode.measure):
            chosen = self.indexer.select(scores.detach(), allowed)
        seen = allowed if mode.attention == "dense" else chosen
        raw = (q * self.scale) @ k.transpose(-1, -2)
        share = (raw + minus_infinity(~seen).unsqueeze(1)).softmax(-1)
        if mode.concentrate and at >= self.indexer.topk:
            kept = (raw + minus_infinity(~chosen).unsqueeze(1)).logsumexp(-1) - (raw + minus_infinity(~allowed).unsqueeze(1)).logsumexp(-1)
            side.mass_loss.append(-kept.exp().mean(1).log().mean() * (end - at) / indexed[1].shape[1])
        if mode.measure:
            dense = (raw + minus_infinity(~allowed).unsqueeze(1)).softmax(-1).mean(1)
            side.mass.append((layer, at, (dense * chosen).sum(-1)))
        if mode.indexer_loss:
            target = share.detach().mean(1)
            guess = (scores + minus_infinity(~seen)).log_softmax(-1).masked_fill(~seen, 0)
            loss = (target * (target.clamp_min(1e-9).log() - guess)).sum()
            side.indexer_loss.append(loss / (target.shape[0] * indexed[1].shape[1]))
        return share @ v


class Mlp(nn.Module):
    def __init__(self, hidden: int, inner: int):
        super().__init__()
        self.gate_proj = Linear(hidden, inner)
        self.up_proj = Linear(hidden, inner)
        self.down_proj = Linear(inner, hidden, gain=0.4)

    def forward(self, x: torch.Tensor, mode: Mode) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x, mode)) * self.up_proj(x, mode), mode)


class Router(nn.Module):
    """noaux_tc: experts are chosen by biased scores, weighted by unbiased ones. Of equals the lower index wins."""
    store = "bf16"

    def __init__(self, config: dict):
        super().__init__()
        self.experts, self.chosen = config["n_routed_experts"], config["num_experts_per_tok"]
        self.groups, self.kept, self.factor = config["n_group"], config["topk_group"], config["routed_scaling_factor"]
        self.weight = nn.Parameter(torch.randn(self.experts, config["hidden_size"]) * config["hidden_size"] ** -0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(self.experts))

    def forward(self, x: torch.Tensor, mode: Mode) -> tuple[torch.Tensor, torch.Tensor]:
        weight = quantise.through_bf16(self.weight) if mode.quantised else self.weight
        scores = F.linear(x, weight).sigmoid()
        biased = (scores.detach() + self.e_score_correction_bias).unflatten(-1, (self.groups, -1))
        group = biased.topk(2, dim=-1).values.sum(-1)
        kept = group.sort(dim=-1, descending=True, stable=True).indices[..., :self.kept]
        mask = torch.zeros_like(group, dtype=torch.bool).scatter_(-1, kept, True)
        biased = biased.masked_fill(~mask.unsqueeze(-1), -torch.inf).flatten(-2)
        chosen = biased.sort(dim=-1, descending=True, stable=True).indices[..., :self.chosen]
        weights = scores.gather(-1, chosen)
        return chosen, weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.factor


class Experts(nn.Module):
    """The routed experts of a layer as stacks: gate above up, and down."""
    store = "f8"

    def __init__(self, config: dict):
        super().__init__()
        count, hidden, inner = config["n_routed_experts"], config["hidden_size"], config["moe_intermediate_size"]
        self.gate_up = nn.Parameter(torch.randn(count, 2 * inner, hidden) * hidden ** -0.5)
        self.down = nn.Parameter(torch.randn(count, hidden, inner) * (0.4 * inner ** -0.5))

    def forward(self, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor, mode: Mode):
        """Sum over a token's experts, and the number of tokens of each expert. x is [tokens, hidden]."""
        gate_up, down = self.gate_up, self.down
        if mode.quantised:
            gate_up, down = quantise.through_e4m3(gate_up), quantise.through_e4m3(down)
        flat = chosen.flatten()
        loads = flat.bincount(minlength=len(gate_up))
        order = flat.argsort(stable=True)
        token = order // chosen.shape[-1]
        parts = []
        for mine, both, last in zip(x.index_select(0, token).split(loads.tolist()), gate_up.unbind(0), down.unbind(0)):
            gate, up = F.linear(mine, both).chunk(2, -1)
            parts.append(F.linear(F.silu(gate) * up, last))
        out = torch.cat(parts) * weights.flatten().index_select(0, order).unsqueeze(-1)
        return torch.zeros_like(x).index_add(0, token, out), loads


class Moe(nn.Module):
    def __init__(self, config: dict):
        super().__init__()
        self.gate = Router(config)
        self.experts = Experts(config)
        self.shared_experts = Mlp(config["hidden_size"], config["n_shared_experts"] * config["moe_intermediate_size"])

    def forward(self, x: torch.Tensor, mode: Mode, side: Side, real: torch.Tensor | None) -> torch.Tensor:
        flat = x.flatten(0, 1)
        chosen, weights = self.gate(flat, mode)
        out, loads = self.experts(flat, chosen, weights, mode)
        if real is not None:
            loads = chosen[real.flatten()].flatten().bincount(minlength=self.gate.experts)
        side.loads.append((self.gate, loads))
        return out.view_as(x) + self.shared_experts(x, mode)


class Layer(nn.Module):
    def __init__(self, config: dict, index: int):
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.index = index
        self.input_layernorm = RMSNorm(hidden, eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        dense = index < config["first_k_dense_replace"]
        self.mlp = Mlp(hidden, config["intermediate_size"]) if dense else Moe(config)

    def forward(self, h: torch.Tensor, rope: Rope, allowed, real, mode: Mode, side: Side) -> torch.Tensor:
        h = h + self.self_attn(self.input_layernorm(h, mode), rope, allowed, mode, side, self.index)
        x = self.post_attention_layernorm(h, mode)
        return h + (self.mlp(x, mode, side, real) if isinstance(self.mlp, Moe) else self.mlp(x, mode))


class MtpLayer(Layer):
    """Row i sees the hidden state of position i (after the final norm) and the token at i + 1, and predicts that at i + 2."""

    def __init__(self, config: dict):
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        super().__init__(config, config["num_hidden_layers"])
        self.enorm = RMSNorm(hidden, eps)
        self.hnorm = RMSNorm(hidden, eps)
        self.eh_proj = Linear(2 * hidden, hidden, "bf16")
        self.shared_head = nn.Module()
        self.shared_head.norm = RMSNorm(hidden, eps)

    def rows(self, embedded: torch.Tensor, normed: torch.Tensor, rope, allowed, real, mode: Mode, side: Side) -> torch.Tensor:
        z = self.eh_proj(torch.cat((self.enorm(embedded, mode), self.hnorm(normed, mode)), -1), mode)
        return self.shared_head.norm(self(z, rope, allowed, real, mode, side), mode)


class Model(nn.Module):
    def __init__(self, config: dict):
        super().__init__()
        hidden, vocab, layers = config["hidden_size"], config["vocab_size"], config["num_hidden_layers"]
        self.config = config
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocab, hidden)
        nn.init.normal_(self.model.embed_tokens.weight, std=0.1)
        self.model.layers = nn.ModuleList([Layer(config, i) for i in range(layers)] + [MtpLayer(config)])
        self.model.norm = RMSNorm(hidden, config["rms_norm_eps"])
        self.lm_head = Linear(hidden, vocab, "bf16")
        self.frequencies = yarn_frequencies(config)

    @property
    def mtp(self) -> MtpLayer:
        return self.model.layers[-1]

    def rope(self, time: int) -> Rope:
        angles = torch.arange(time, dtype=torch.float32)[:, None] * self.frequencies
        return Rope(angles.cos(), angles.sin())

    def embed(self, ids: torch.Tensor, mode: Mode) -> torch.Tensor:
        table = self.model.embed_tokens.weight
        return F.embedding(ids, quantise.through_bf16(table) if mode.quantised else table)

    def hidden(self, ids: torch.Tensor, mode: Mode, documents: torch.Tensor | None = None, mtp: bool = True):
        """Normed hidden states of the main model and of the MTP rows (None without), and what was collected.

        `documents` numbers the conversation that each position belongs to (attention never crosses); -1 is padding.
        """
        time = ids.shape[1]
        side = Side([], [], [], [])
        rope = self.rope(time)
        allowed = real = None
        if documents is not None:
            causal = torch.ones(time, time, dtype=torch.bool).tril()
            allowed = causal & (documents[:, :, None] == documents[:, None, :])
            real = documents >= 0
        embedded = self.embed(ids, mode)
        h = embedded
        for layer in self.model.layers[:-1]:
            h = layer(h, rope, allowed, real, mode, side)
        normed = self.model.norm(h, mode)
        ahead = None
        if mtp:
            # the last row has no next token; what it computes is never looked at
            following = torch.cat((embedded[:, 1:], embedded[:, -1:]), 1)
            ahead = self.mtp.rows(following, normed, rope, allowed, real, mode, side)
        return normed, ahead, side

    def logits(self, hidden: torch.Tensor, mode: Mode) -> torch.Tensor:
        return self.lm_head(hidden, mode)
