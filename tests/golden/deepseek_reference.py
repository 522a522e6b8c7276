"""DeepSeek-V3.2 in float64 numpy, written from the published description: what no released implementation computes as a whole.

Latent attention in its expanded form, the lightning indexer (also with Hadamard-rotated e4m3 keys), group-limited routing,
shared expert, and the MTP layer. Sources: DeepSeek-V3 report 2.1-2.2 and 4.2, DeepSeek-V3.2-Exp report 2.1, YaRN (arXiv 2309.00071).
Positions, experts and groups of equal score: the lower index wins.
"""
import math

import numpy as np


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps=1e-6):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps) * weight + bias


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def best(values, count):
    """Indices of the largest values, ascending; of equals the lower ones."""
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    return sorted(order[:count])


def gap(values, count):
    """How far apart the last chosen and the first left out are, in parts of the largest magnitude. Two exact zeros (relu makes
    them) are no near tie: the lower index wins, however the numbers are rounded."""
    if len(values) <= count:
        return math.inf
    ordered = np.sort(values)[::-1]
    if ordered[count - 1] == ordered[count] == 0:
        return math.inf
    return (ordered[count - 1] - ordered[count]) / max(np.abs(values[np.isfinite(values)]).max(), 1e-30)


def yarn_frequencies(config):
    dims, theta = config["qk_rope_head_dim"], config["rope_theta"]
    frequencies = theta ** (-2 * np.arange(dims // 2) / dims)
    scaling = config.get("rope_scaling")
    if not scaling:
        return frequencies

    def dimension(rotations):
        return dims * math.log(scaling["original_max_position_embeddings"] / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dimension(scaling["beta_fast"])), 0)
    high = min(math.ceil(dimension(scaling["beta_slow"])), dims - 1)
    ramp = np.clip((np.arange(dims // 2) - low) / max(high - low, 0.001), 0, 1)
    return frequencies * (1 - ramp) + frequencies / scaling["factor"] * ramp


def attention_scale(config):
    scale = (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) ** -0.5
    scaling = config.get("rope_scaling")
    if not scaling:
        return scale
    return scale * (0.1 * scaling["mscale_all_dim"] * math.log(scaling["factor"]) + 1) ** 2


def rotate_interleaved(x, angles):
    out = np.empty_like(x)
    cosine, sine = np.cos(angles), np.sin(angles)
    out[..., 0::2] = x[..., 0::2] * cosine - x[..., 1::2] * sine
    out[..., 1::2] = x[..., 0::2] * sine + x[..., 1::2] * cosine
    return out


def rotate_half_split(x, angles):
    half = x.shape[-1] // 2
    cosine, sine = np.cos(angles), np.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)


def hadamard(x):
    n = x.shape[-1]
    matrix = np.ones((1, 1))
    while len(matrix) < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return x @ matrix / math.sqrt(n)


def e4m3(x):
    """Nearest e4m3 value, ties to even, |x| <= 448."""
    magnitude = np.minimum(np.abs(x), 448)
    exponent = np.maximum(np.floor(np.log2(np.maximum(magnitude, 2.0 ** -20))), -6)
    step = 2.0 ** (exponent - 3)
    return np.sign(x) * np.round(magnitude / step) * step


def through_fp8(x):
    """e4m3 with one power-of-two scale a vector, rounded up."""
    amax = np.maximum(np.abs(x).max(-1, keepdims=True), 1e-4)
    scale = 2.0 ** np.ceil(np.log2(amax / 448))
    return e4m3(x / scale) * scale


class Reference:
    def __init__(self, config, tensors, fp8_keys=False):
        self.c = config
        self.w = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
        self.fp8_keys = fp8_keys
        self.frequencies = yarn_frequencies(config)
        self.smallest_gap = math.inf  # over all choices of positions and experts so far

    def norm(self, x, name):
        return rms_norm(x, self.w[name], self.c["rms_norm_eps"])

    def selected(self, prefix, x, low_query, angles):
        """Positions that each token attends to (DeepSeek-V3.2-Exp report, equations 1 and 2)."""
        c, w = self.c, self.w
        tokens, heads, dims, rope = len(x), c["index_n_heads"], c["index_head_dim"], c["qk_rope_head_dim"]
        query = (low_query @ w[prefix + "wq_b.weight"].T).reshape(tokens, heads, dims)
        key = layer_norm(x @ w[prefix + "wk.weight"].T, w[prefix + "k_norm.weight"], w[prefix + "k_norm.bias"])
        query[..., :rope] = rotate_half_split(query[..., :rope], angles[:, None])
        key[..., :rope] = rotate_half_split(key[..., :rope], angles)
        if self.fp8_keys:
            query, key = through_fp8(hadamard(query)), through_fp8(hadamard(key))
        weight = x @ w[prefix + "weights_proj.weight"].T * heads ** -0.5 * dims ** -0.5
        chosen = []
        for t in range(tokens):
            score = np.maximum(query[t] @ key[:t + 1].T, 0).T @ weight[t]
            self.smallest_gap = min(self.smallest_gap, gap(score, c["index_topk"]))
            chosen.append(best(score, c["index_topk"]))
        return chosen

    def attention(self, prefix, x):
        c, w = self.c, self.w
        tokens, heads = len(x), c["num_attention_heads"]
        nope, rope, v_dim, rank = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
        angles = np.arange(tokens)[:, None] * self.frequencies
        low_query = self.norm(x @ w[prefix + "q_a_proj.weight"].T, prefix + "q_a_layernorm.weight")
        query = (low_query @ w[prefix + "q_b_proj.weight"].T).reshape(tokens, heads, nope + rope)
        query[..., nope:] = rotate_interleaved(query[..., nope:], angles[:, None])
        joint = x @ w[prefix + "kv_a_proj_with_mqa.weight"].T
        latent = self.norm(joint[:, :rank], prefix + "kv_a_layernorm.weight")
        shared_key = rotate_interleaved(joint[:, rank:], angles)
        expanded = (latent @ w[prefix + "kv_b_proj.weight"].T).reshape(tokens, heads, nope + v_dim)
        chosen = self.selected(prefix + "indexer.", x, low_query, angles)
        out = np.zeros((tokens, heads, v_dim))
        for t, rows in enumerate(chosen):
            for h in range(heads):
                score = expanded[rows, h, :nope] @ query[t, h, :nope] + shared_key[rows] @ query[t, h, nope:]
                out[t, h] = softmax(score * attention_scale(c)) @ expanded[rows, h, nope:]
        return out.reshape(tokens, -1) @ w[prefix + "o_proj.weight"].T

    def mlp(self, prefix, x):
        gate, up = x @ self.w[prefix + "gate_proj.weight"].T, x @ self.w[prefix + "up_proj.weight"].T
        return (silu(gate) * up) @ self.w[prefix + "down_proj.weight"].T

    def experts(self, prefix, x):
        c, w = self.c, self.w
        out = self.mlp(prefix + "shared_experts.", x)
        size = c["n_routed_experts"] // c["n_group"]
        scores = 1 / (1 + np.exp(-(x @ w[prefix + "gate.weight"].T)))
        for t, score in enumerate(scores):
            biased = score + w[prefix + "gate.e_score_correction_bias"]
            group = np.array([np.sort(biased[g * size:(g + 1) * size])[-2:].sum() for g in range(c["n_group"])])
            kept = best(group, c["topk_group"])
            masked = np.full(len(biased), -np.inf)
            for g in kept:
                masked[g * size:(g + 1) * size] = biased[g * size:(g + 1) * size]
            chosen = best(masked, c["num_experts_per_tok"])
            self.smallest_gap = min(self.smallest_gap, gap(group, c["topk_group"]), gap(masked, c["num_experts_per_tok"]))
            weight = score[chosen] / (score[chosen].sum() + 1e-20) * c["routed_scaling_factor"]
            for expert, factor in zip(chosen, weight):
                out[t] += factor * self.mlp(f"{prefix}experts.{expert}.", x[t:t + 1])[0]
        return out

    def layer(self, index, x):
        prefix = f"model.layers.{index}."
        x = x + self.attention(prefix + "self_attn.", self.norm(x, prefix + "input_layernorm.weight"))
        ffn = self.mlp if index < self.c["first_k_dense_replace"] else self.experts
        return x + ffn(prefix + "mlp.", self.norm(x, prefix + "post_attention_layernorm.weight"))

    def hidden(self, ids):
        """Behind the final norm: what the head and the MTP layer take."""
        x = self.w["model.embed_tokens.weight"][ids]
        for index in range(self.c["num_hidden_layers"]):
            x = self.layer(index, x)
        return self.norm(x, "model.norm.weight")

    def logits(self, ids):
        return self.hidden(ids) @ self.w["lm_head.weight"].T

    def drafts(self, ids):
        """Row i joins position i's hidden state with token i + 1, and predicts token i + 2; len(ids) - 1 rows."""
        index = self.c["num_hidden_layers"]
        prefix = f"model.layers.{index}."
        embedding = self.norm(self.w["model.embed_tokens.weight"][ids[1:]], prefix + "enorm.weight")
        hidden = self.norm(self.hidden(ids)[:-1], prefix + "hnorm.weight")
        x = self.layer(index, np.concatenate([embedding, hidden], -1) @ self.w[prefix + "eh_proj.weight"].T)
        return self.norm(x, prefix + "shared_head.norm.weight") @ self.w["lm_head.weight"].T
