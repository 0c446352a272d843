#!/usr/bin/env python3
"""Times training steps of PyTorch on one device, as `kolo bench --mode synthetic` does kolo's: one rank of
DistributedDataParallel, a batch that stays the same and lies on the device, medians of trials that end when the
device is done. Prints one JSON object.

    python3 bench/peers/device_training.py --model resnet50 --batch 256 --precision bf16 [--compile default]
        [--layout channels_last] [--device cuda] [--optimizer sgd] [--steps 20] [--warmup 10] [--trials 5]

--precision: fp32, tf32 (products of float32 with 10 bits), bf16 and fp16 (autocast; fp16 with a gradient scaler).
--compile: the mode that torch.compile gets. The network is compiled and then wrapped, so that it is compiled as a whole.
"""
import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
import warnings

try:
    import torch
    import torch.distributed as dist
    from torch import nn

    from networks import batch_of, loss_of, memory_format, networks, sample_shapes
except ImportError as error:
    sys.exit(f"device_training.py: PyTorch is not to be had ({error})")


def choose_arithmetic(options):
    has_tf32 = options.precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = has_tf32
    torch.backends.cudnn.allow_tf32 = has_tf32
    torch.backends.cudnn.benchmark = True


def autocast(options):
    if options.precision in ("fp32", "tf32"):
        return contextlib.nullcontext()
    return torch.autocast(options.device, torch.bfloat16 if options.precision == "bf16" else torch.float16)


def optimizer_of(options, network):
    fused = options.device == "cuda"
    if options.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), 1e-4, fused=fused)
    return torch.optim.SGD(network.parameters(), 1e-4, momentum=0.9, fused=fused)


class Training:
    def __init__(self, options):
        self.options = options
        torch.manual_seed(1)
        settings = {"levels": options.levels, "channels": options.channels} if options.model == "unet3d" else {}
        network = networks[options.model](**settings)
        shape = tuple(options.shape or sample_shapes[options.model])
        layout = memory_format(options.layout, len(shape))
        network = network.to(device=options.device, memory_format=layout)
        self.parameters = sum(parameter.numel() for parameter in network.parameters())
        if options.compile != "off":
            network = torch.compile(network, mode=options.compile)
        self.network = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
        self.optimizer = optimizer_of(options, network)
        self.scaler = torch.amp.GradScaler(options.device, enabled=options.precision == "fp16")
        self.loss = loss_of(options.model)
        self.inputs, self.targets = batch_of(options.model, options.batch, shape, layout, options.device)

    def step(self):
        self.optimizer.zero_grad()
        with autocast(self.options):
            loss = self.loss(self.network(self.inputs), self.targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(options):
    training = Training(options)
    begin = time.perf_counter()
    for _ in range(options.warmup):
        training.step()
    finish(options.device)
    warmup_seconds, trials = time.perf_counter() - begin, []
    for _ in range(options.trials):
        begin = time.perf_counter()
        for _ in range(options.steps):
            training.step()
        finish(options.device)
        trials.append(options.steps * options.batch / (time.perf_counter() - begin))
    return {"model": options.model, "batch": options.batch, "precision": options.precision, "layout": options.layout,
            "compile": options.compile, "parameters": training.parameters, "warmup_seconds": warmup_seconds,
            "samples_per_second": {"median": statistics.median(trials), "trials": trials},
            "peak_device_bytes": torch.cuda.max_memory_allocated() if options.device == "cuda" else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", choices=sorted(networks))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shape", type=lambda text: [int(length) for length in text.split(",")], help="of a sample")
    parser.add_argument("--levels", type=int, default=6, help="of a U-Net")
    parser.add_argument("--channels", type=int, default=64, help="of a U-Net's first level")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16", "fp16"))
    parser.add_argument("--compile", default="off", help="off, default, reduce-overhead or max-autotune")
    parser.add_argument("--layout", default="channels_last", choices=("contiguous", "channels_last"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--optimizer", default="sgd", choices=("sgd", "adam"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--trials", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # stdout and the end of stderr are read by programs
    choose_arithmetic(options)
    if options.device == "cuda":
        torch.cuda.set_device(0)
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo",
                                init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
        result = measure(options)
        dist.destroy_process_group()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
