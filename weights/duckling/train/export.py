#!/usr/bin/env python3
"""The trained model in the published checkpoint form: ../model.safetensors.

    export.py [--checkpoint run/checkpoint.pt] [--out FOLDER]

Matrices as F8_E4M3 with an F32 scale for each 128x128 block beside them (`weight_scale_inv`, a power of two); embedding, head,
norms, router, eh_proj and weights_proj as BF16; correction bias and the indexer's k_norm as F32. Names and shapes are those of
DeepSeek-V3.2; the MTP layer is the last one and has no copies of embedding and head. Read back, every tensor must be what
training through fp8 saw.
"""
import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import model
import quantise

HERE = Path(__file__).resolve().parent
CHECKPOINT = HERE / "run" / "checkpoint.pt"


def trained(checkpoint: Path = CHECKPOINT) -> model.Model:
    """The float weights of a training checkpoint."""
    from flat import Flat
    net = model.Model(model.read_config())
    Flat(net, 1).restore(torch.load(checkpoint, weights_only=True))
    return net.eval()


def put(tensors: dict, name: str, weight: torch.Tensor, store: str):
    weight = weight.detach().float()
    if store == "f8":
        codes, scales = quantise.to_e4m3(weight)
        tensors[name], tensors[name + "_scale_inv"] = codes, scales.contiguous()
    else:
        tensors[name] = weight.bfloat16() if store == "bf16" else weight.clone()


def stored(net: model.Model) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    put(tensors, "model.embed_tokens.weight", net.model.embed_tokens.weight, "bf16")
    for name, module in net.named_modules():
        if isinstance(module, model.Experts):
            for expert in range(len(module.gate_up)):
                gate, up = module.gate_up[expert].chunk(2, 0)
                for part, weight in (("gate", gate), ("up", up), ("down", module.down[expert])):
                    put(tensors, f"{name}.{expert}.{part}_proj.weight", weight, module.store)
        elif hasattr(module, "store"):
            put(tensors, f"{name}.weight", module.weight, module.store)
            if isinstance(module, model.KeyNorm):
                put(tensors, f"{name}.bias", module.bias, module.store)
            if isinstance(module, model.Router):
                put(tensors, f"{name}.e_score_correction_bias", module.e_score_correction_bias, "f32")
    return tensors


def load(folder: Path = HERE.parent) -> model.Model:
    """The model of a checkpoint folder, dequantised: what an engine computes with."""
    net, tensors = model.Model(model.read_config(folder)), load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name + "_scale_inv" in tensors]:
        tensors[name] = quantise.from_e4m3(tensors[name], tensors.pop(name + "_scale_inv"))
    state = {name: tensors.pop(name) for name in list(tensors) if ".experts." not in name}
    for name, module in net.named_modules():
        if isinstance(module, model.Experts):
            take = lambda expert, part: tensors.pop(f"{name}.{expert}.{part}_proj.weight")
            count = len(module.gate_up)
            state[f"{name}.gate_up"] = torch.stack([torch.cat((take(e, "gate"), take(e, "up"))) for e in range(count)])
            state[f"{name}.down"] = torch.stack([take(e, "down") for e in range(count)])
    assert not tensors, f"unknown tensors: {list(tensors)[:3]}"
    net.load_state_dict({name: weight.float() for name, weight in state.items()}, strict=True)
    return net.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--out", type=Path, default=HERE.parent)
    options = parser.parse_args()
    torch.set_num_threads(1)
    net = trained(options.checkpoint)
    tensors = stored(net)
    save_file(tensors, options.out / "model.safetensors", metadata={"format": "pt"})
    again = load(options.out)
    ids = torch.arange(3, 403).view(1, -1)
    with torch.no_grad():
        seen = net.hidden(ids, model.Mode("sparse", quantised=True))[1]
        read = again.hidden(ids, model.Mode("sparse"))[1]
    assert torch.allclose(seen, read, atol=1e-4), (seen - read).abs().max()
    size = (options.out / "model.safetensors").stat().st_size
    weights = sum(tensor.numel() for name, tensor in tensors.items() if not name.endswith("_scale_inv"))
    print(f"{options.out / 'model.safetensors'}: {len(tensors)} tensors, {weights:,} weights, {size:,} bytes")


if __name__ == "__main__":
    main()
