#!/usr/bin/env python3
"""Times training steps with PyTorch's DistributedDataParallel and gloo, as training_bench does with kolo.

    python3 bench/peers/training.py [--model resnet_small] [--batch 32] [--optimizer sgd] [--steps 30] [--ranks 2]
        [--layout contiguous|channels_last] [--precision fp32|bf16] [--compile off|default|...] [--json]

The networks are those of networks.py. bf16 is autocast's. --compile is the mode that torch.compile gets; the network is
compiled as a whole and then wrapped. Debian: python3-torch.
"""
import argparse
import contextlib
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

    from networks import batch_of, loss_of, memory_format, networks, sample_shapes
except ImportError as error:
    sys.exit(f"training.py: PyTorch is not to be had ({error}); Debian's package is python3-torch")


def precision_of(options):
    return torch.autocast("cpu", torch.bfloat16) if options.precision == "bf16" else contextlib.nullcontext()


def optimizer_of(options, network):
    fused = {"fused": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4) else {}  # since then on CPUs too
    if options.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), 1e-4, **fused)
    return torch.optim.SGD(network.parameters(), 1e-4, momentum=0.9, **fused)


def train(rank, options, address, results):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=options.ranks)
    torch.manual_seed(1)
    network, shape = networks[options.model](), sample_shapes[options.model]
    layout = memory_format(options.layout, len(shape))
    network = network.to(memory_format=layout)
    if options.compile != "off":
        network = torch.compile(network, mode=options.compile)
    network = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizer = optimizer_of(options, network)
    torch.manual_seed(rank + 1)
    inputs, targets = batch_of(options.model, options.batch, shape, layout)
    loss = loss_of(options.model)
    seconds = []
    for step in range(3 + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with precision_of(options):
            outputs = network(inputs)
        loss(outputs.float(), targets).backward()
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
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--compile", default="off", help="off, default, max-autotune or another mode of torch.compile")
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
        print(json.dumps({"model": options.model, "layout": options.layout, "precision": options.precision,
                          "compile": options.compile, "torch": torch.__version__, "ranks": options.ranks,
                          "batch": options.batch, "median_step_seconds": median, "samples_per_second": rate,
                          "peak_memory_bytes": peak}))
    else:
        print(f"{options.model}: {options.ranks} ranks, batch {options.batch} per rank, {options.layout}, {options.precision}, "
              f"compile {options.compile}: {1e3 * median:.2f} ms per step, {rate:.1f} samples/s")


if __name__ == "__main__":
    main()
