#!/usr/bin/env python3
"""Holds kolo's optimizers against other people's programs of them: the same small network, data and steps.

    bench/peers/optimizer_parity.py [--kolo PROGRAM] [--folder DIR] [--steps 30]

    schedule_free_sgd, schedule_free_adamw    the authors' package schedulefree
    adam, adamw, sgd                      torch.optim

A perceptron of three matrices without biases fits 64 samples at a time, all that there are. The weights that the network is
to be used with are compared after every tenth step: the largest difference over the largest change since the beginning.
Needs numpy, torch and schedulefree.
"""
import argparse
import json
import os
import struct
import subprocess
import sys

try:
    import numpy as np
    import torch
    import schedulefree
except ImportError as error:
    sys.exit(f"optimizer_parity.py: {error}")

INPUTS, OUTPUTS = 8, 8
HIDDEN = [24, 16]  # widths


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(entry["shape"])
    return tensors


def make_data(folder):
    random = np.random.default_rng(1)
    inputs = random.normal(size=(64, INPUTS)).astype(np.float32)
    targets = np.sin(inputs @ random.normal(size=(INPUTS, OUTPUTS))).astype(np.float32)
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, "inputs.npy"), inputs)
    np.save(os.path.join(folder, "targets.npy"), targets)
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def train_with_kolo(args, name, settings):
    """The weights after steps 10, 20, ..."""
    folder = os.path.join(args.folder, name)
    config = {"data": {"name": "arrays", "train_path": args.data, "valid_path": args.data, "workers": 0},
              "model": {"name": "mlp", "hidden": HIDDEN, "activation": "tanh", "bias": False},
              "optimizer": {"name": name, "lr_scaling": "none", **settings},
              "training": {"loss": "mse", "batch_size": 64, "n_epochs": args.steps},
              "checkpoint": {"every_epochs": 10, "keep": 1000}}
    path = folder + ".yaml"
    with open(path, "w") as file:
        json.dump(config, file)  # which is YAML
    subprocess.run([args.kolo, "train", path, "-o", folder], check=True, stdout=subprocess.DEVNULL)
    steps = {}
    for step in range(10, args.steps + 1, 10):
        steps[step] = read_safetensors(os.path.join(folder, "checkpoints", f"step-{step:08d}", "model.safetensors"))
    return steps


def train_with_peer(args, begin, make, inputs, targets):
    names = sorted(begin)  # hidden1.weight, hidden2.weight, output.weight
    weights = [begin[name].clone().requires_grad_() for name in names]
    optimizer = make(weights)
    getattr(optimizer, "train", lambda: None)()
    steps = {}
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        values = inputs
        for weight in weights[:-1]:
            values = torch.tanh(values @ weight.t())
        torch.nn.functional.mse_loss(values @ weights[-1].t(), targets).backward()
        optimizer.step()
        if step % 10 == 0:
            getattr(optimizer, "eval", lambda: None)()
            steps[step] = {name: weight.detach().clone() for name, weight in zip(names, weights)}
            getattr(optimizer, "train", lambda: None)()
    return steps


PAIRS = {
    "sgd": (dict(lr=0.05, momentum=0.9, nesterov=True), lambda w: torch.optim.SGD(w, 0.05, momentum=0.9, nesterov=True)),
    "adam": (dict(lr=0.01), lambda w: torch.optim.Adam(w, 0.01)),
    "adamw": (dict(lr=0.01, weight_decay=0.1), lambda w: torch.optim.AdamW(w, 0.01, weight_decay=0.1)),
    "schedule_free_sgd": (dict(lr=0.5), lambda w: schedulefree.SGDScheduleFree(w, lr=0.5, momentum=0.9, foreach=False)),
    "schedule_free_adamw": (dict(lr=0.01, weight_decay=0.1),
                            lambda w: schedulefree.AdamWScheduleFree(w, lr=0.01, weight_decay=0.1, foreach=False)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optimizers", nargs="*", help=", ".join(PAIRS))
    parser.add_argument("--kolo", default="build/release/src/cli/kolo")
    parser.add_argument("--folder", default="build/optimizer_parity")
    parser.add_argument("--steps", type=int, default=30, help="a multiple of 10")
    args = parser.parse_args()
    args.kolo = os.path.abspath(args.kolo)
    args.data = os.path.abspath(os.path.join(args.folder, "data"))
    inputs, targets = make_data(args.data)
    # The seed's weights, which this rate doesn't change.
    begin = train_with_kolo(args, "begin", {"name": "sgd", "lr": 1e-30})[10]
    print(f"torch {torch.__version__}; largest difference over the largest change of the weights")
    print("optimizer            " + "".join(f"   step {step:3d}" for step in range(10, args.steps + 1, 10)))
    for name in args.optimizers or PAIRS:
        settings, make = PAIRS[name]
        mine = train_with_kolo(args, name, settings)
        peer = train_with_peer(args, begin, make, inputs, targets)
        line = ""
        for step, weights in peer.items():
            difference = max((mine[step][n] - weights[n]).abs().max().item() for n in weights)
            change = max((weights[n] - begin[n]).abs().max().item() for n in weights)
            line += f"   {difference / change:8.1e}"
        print(f"{name:20s} {line}", flush=True)


if __name__ == "__main__":
    main()
