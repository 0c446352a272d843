#!/usr/bin/env python3
"""Times training steps with PyTorch's DistributedDataParallel and gloo, as training_bench does with kolo.

    python3 bench/peers/training.py [--model resnet_small] [--batch 32] [--optimizer sgd] [--steps 30]
                                    [--ranks 2] [--layout contiguous|channels_last] [--json]

The networks are those of src/nn/models, written again for PyTorch. Debian: python3-torch.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch import nn
except ImportError as error:
    sys.exit(f"training.py: PyTorch is not to be had ({error}); Debian's package is python3-torch")


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        projects = stride != 1 or inputs != width
        norm = dict(eps=1e-3, momentum=0.01) if projects else dict(eps=1e-5, momentum=0.1)
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride), nn.BatchNorm2d(width, **norm), nn.ReLU(True),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width, **norm), nn.ReLU(True),
            nn.Conv2d(width, width, 1), nn.BatchNorm2d(width, **norm))
        self.shortcut = nn.Identity()
        if projects:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride), nn.BatchNorm2d(width, **norm))

    def forward(self, x):
        return torch.relu_(self.residual(x).add_(self.shortcut(x)))


def resnet_small():
    layers = [nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64, eps=1e-3, momentum=0.01), nn.ReLU(True)]
    channels = 64
    for width in (64, 128, 256, 512):
        layers += [Bottleneck(channels, width, 2), Bottleneck(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)), (3, 32, 32)


def cnn():
    layers = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(True), nn.Linear(128, 10)), (3, 32, 32)


def mnist_net():
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(True),
        nn.Conv2d(10, 20, 5), nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU(True),
        nn.Flatten(), nn.Linear(320, 50), nn.ReLU(True), nn.Dropout(), nn.Linear(50, 10)), (1, 28, 28)


class UNet3d(nn.Module):
    """The tutorial's network: six levels of 4x4x4 convolutions of stride 2, and back."""

    def __init__(self, inputs=4, outputs=5, channels=(64, 128, 256, 512, 512, 512)):
        super().__init__()
        made = (inputs, *channels)
        self.down = nn.ModuleList(nn.Conv3d(made[i], made[i + 1], 4, 2, 1) for i in range(len(channels)))
        back = (outputs, *channels)
        self.up = nn.ModuleList(
            nn.ConvTranspose3d(back[level] * (1 if level == len(channels) else 2), back[level - 1], 4, 2, 1)
            for level in range(len(channels), 0, -1))

    def forward(self, x):
        shared = []
        for convolution in self.down:
            x = nn.functional.leaky_relu(convolution(x), inplace=True)
            shared.append(x)
        for index, convolution in enumerate(self.up):
            level = len(shared) - index
            if index > 0:
                x = torch.cat([torch.relu_(x), shared[level - 1]], 1)
            x = convolution(x)
        return torch.tanh(x)


def unet3d():
    return UNet3d(), (4, 64, 64, 64)


networks = {"resnet_small": resnet_small, "cnn": cnn, "mnist_net": mnist_net, "unet3d": unet3d}


def memory_format(layout, dimensions):
    if layout == "contiguous":
        return torch.contiguous_format
    return torch.channels_last_3d if dimensions == 4 else torch.channels_last


def train(rank, options, address, results):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=options.ranks)
    torch.manual_seed(1)
    network, shape = networks[options.model]()
    layout = memory_format(options.layout, len(shape))
    network = nn.parallel.DistributedDataParallel(network.to(memory_format=layout), gradient_as_bucket_view=True)
    optimizer = (torch.optim.Adam(network.parameters(), 1e-4) if options.optimizer == "adam" else
                 torch.optim.SGD(network.parameters(), 1e-4, momentum=0.9))
    torch.manual_seed(rank + 1)
    inputs = torch.randn(options.batch, *shape).to(memory_format=layout)
    if options.model == "unet3d":
        targets, loss = torch.randn(options.batch, 5, *shape[1:]), nn.functional.l1_loss
    else:
        targets, loss = torch.randint(10, (options.batch,)), nn.functional.cross_entropy
    seconds = []
    for step in range(3 + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss(network(inputs), targets).backward()
        optimizer.step()
        if step >= 3:
            seconds.append(time.perf_counter() - begin)
    slowest = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if rank == 0:
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        results.put((statistics.median(slowest.tolist()), peak))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet_small", choices=sorted(networks))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--optimizer", default="sgd", choices=("sgd", "adam"))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layout", default="contiguous", choices=("contiguous", "channels_last"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("spawn")
        results = context.SimpleQueue()
        mp.start_processes(train, (options, f"file://{folder}/rendezvous", results), nprocs=options.ranks,
                           start_method="spawn")
        median, peak = results.get()
    rate = options.batch * options.ranks / median
    if options.json:
        print(json.dumps({"model": options.model, "layout": options.layout, "ranks": options.ranks,
                          "batch": options.batch, "median_step_seconds": median, "samples_per_second": rate,
                          "peak_memory_bytes": peak}))
    else:
        print(f"{options.model}: {options.ranks} ranks, batch {options.batch} per rank, {options.layout}: "
              f"{1e3 * median:.2f} ms per step, {rate:.1f} samples/s")


if __name__ == "__main__":
    main()
