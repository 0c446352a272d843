#!/usr/bin/env python3
"""Times PyTorch's fused Adam on one device, as device_bench does kolo's: on one buffer, and on the parameters of the
tutorial's U-Net. Beside it a copy, which tells what the memory does. Prints one JSON object, seconds a step.

    python3 bench/peers/device_adam.py [--device cuda] [--elements 117000000] [--rounds 7]
"""
import argparse
import json
import statistics
import sys
import time

try:
    import torch

    from networks import networks
except ImportError as error:
    sys.exit(f"device_adam.py: PyTorch is not to be had ({error})")

steps_in_round = 10


def seconds_of(function, device, rounds):
    """Medians of rounds; the first, which touches the memory, is not counted."""
    seconds = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        for _ in range(steps_in_round):
            function()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) / steps_in_round)
    return statistics.median(seconds[1:])


def adam_seconds(parameters, options):
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer = torch.optim.Adam(parameters, 1e-4, fused=True)
    return seconds_of(optimizer.step, options.device, options.rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--elements", type=int, default=117_000_000)
    parser.add_argument("--channels", type=int, default=64, help="of the U-Net's first level")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    values, others = (torch.full((options.elements,), 1e-3, device=options.device) for _ in range(2))
    copy = seconds_of(lambda: values.copy_(others), options.device, options.rounds)
    del others
    one_buffer = adam_seconds([values.requires_grad_()], options)
    del values
    network = networks["unet3d"](channels=options.channels).to(options.device)
    parameters = list(network.parameters())
    print(json.dumps({"elements": options.elements, "copy_seconds": copy, "adam_seconds": one_buffer,
                      "unet3d_parameters": sum(parameter.numel() for parameter in parameters),
                      "unet3d_adam_seconds": adam_seconds(parameters, options)}))


if __name__ == "__main__":
    main()
