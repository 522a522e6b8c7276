"""Rounding of weights as the checkpoint stores them: e4m3 with one scale for each 128x128 block, and bf16.

A stored weight is code * scale. Scales are powers of two, rounded up from amax / 448, held in float32, as in the files of
DeepSeek-V3.1 and V3.2 ("scale_fmt": "ue8m0"). Every dequantised weight is then exact in bf16.
"""
import torch
from torch.nn import functional as F

BLOCK = 128
E4M3_MAX = 448.0


def block_scales(weight: torch.Tensor) -> torch.Tensor:
    """[..., rows, columns] -> [..., ceil(rows/128), ceil(columns/128)], float32 powers of two."""
    rows, columns = weight.shape[-2:]
    padded = F.pad(weight.detach().abs(), (0, -columns % BLOCK, 0, -rows % BLOCK))
    blocks = padded.unflatten(-1, (-1, BLOCK)).unflatten(-3, (-1, BLOCK))
    largest = blocks.amax(dim=(-1, -3)).clamp_min(1e-12)
    return torch.exp2(torch.ceil(torch.log2(largest / E4M3_MAX)))


def spread(scales: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Scales of blocks -> one a weight."""
    wide = scales.repeat_interleave(BLOCK, -2).repeat_interleave(BLOCK, -1)
    return wide[..., :rows, :columns]


def to_e4m3(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (float8_e4m3fn) and block scales."""
    scales = block_scales(weight)
    scaled = weight.detach() / spread(scales, *weight.shape[-2:])
    return scaled.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn), scales


def from_e4m3(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return codes.float() * spread(scales, *codes.shape[-2:])


def through_e4m3(weight: torch.Tensor) -> torch.Tensor:
    """The weight as it is after storing; gradients pass as if nothing had been rounded."""
    rounded = from_e4m3(*to_e4m3(weight))
    return weight + (rounded - weight.detach())


def through_bf16(weight: torch.Tensor) -> torch.Tensor:
    rounded = weight.detach().bfloat16().float()
    return weight + (rounded - weight.detach())
