#!/usr/bin/env python3
"""Times random crops of a simulation box through h5py and PyTorch's DataLoader, as NERSC's tutorial reads them.

    bench/peers/crop_loader.py BOX.h5 [--crop 64] [--batch 4] [--seconds 5] [--workers 0,1,2]

A crop is read straight into a buffer (read_direct), turned in one of the tutorial's 24 ways by views of NumPy and copied.
Processor time includes the workers'. Prints one JSON object; without h5py, NumPy or PyTorch (Debian: python3-h5py,
python3-numpy, python3-torch) it says so in it. crop_loader_bench starts it, on the core it keeps to itself.
"""
import argparse
import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import h5py
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset
except ImportError as error:
    sys.exit(f"crop_loader.py: {error}; Debian's packages are python3-h5py, python3-numpy and python3-torch")

# Orders of the three axes, and which of them then run backwards.
FLIPS = {
    (0, 1, 2): ["", "01", "02", "12"],
    (1, 0, 2): ["0", "02", "1", "12"],
    (2, 1, 0): ["0", "01", "2", "12"],
    (0, 2, 1): ["1", "01", "2", "02"],
    (1, 2, 0): ["01", "12", "02", "012"],
    (2, 0, 1): ["01", "02", "12", "012"],
}
TURNS = [(order, [int(axis) for axis in flips]) for order, several in FLIPS.items() for flips in several]


def turned(field, turn):
    order, flips = turn
    slices = [slice(None)] + [slice(None, None, -1 if axis in flips else None) for axis in range(3)]
    return np.copy(field.transpose([0] + [1 + axis for axis in order])[tuple(slices)])


class Crops(Dataset):
    def __init__(self, path, edge):
        self.path, self.edge, self.file = path, edge, None
        self.nbody = np.zeros((4, edge, edge, edge), np.float32)
        self.hydro = np.zeros((5, edge, edge, edge), np.float32)
        with h5py.File(path, "r") as file:
            self.box = file["Nbody"].shape[1]

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        if self.file is None:  # every worker opens its own
            self.file = h5py.File(self.path, "r")
        place = tuple(slice(start, start + self.edge) for start in np.random.randint(0, self.box - self.edge + 1, 3))
        self.file["Nbody"].read_direct(self.nbody, (slice(0, 4),) + place)
        self.file["Hydro"].read_direct(self.hydro, (slice(0, 5),) + place)
        turn = TURNS[np.random.randint(len(TURNS))]
        return torch.as_tensor(turned(self.nbody, turn)), torch.as_tensor(turned(self.hydro, turn))


def seed_worker(_):
    np.random.seed(torch.utils.data.get_worker_info().seed % (2**32 - 1))


def processor_seconds(children):
    total = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK")
    for child in children:
        with open(f"/proc/{child}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def measure(options, workers):
    loader = DataLoader(Crops(options.box, options.crop), batch_size=options.batch, num_workers=workers,
                        worker_init_fn=seed_worker, persistent_workers=workers > 0)
    batches = iter(loader)
    children = [worker.pid for worker in getattr(batches, "_workers", [])]
    for _ in range(2 + 2 * workers):
        next(batches)
    crops, began, busy = 0, time.perf_counter(), processor_seconds(children)
    while time.perf_counter() - began < options.seconds:
        crops += len(next(batches)[0])
    seconds = time.perf_counter() - began
    busy = processor_seconds(children) - busy
    del batches
    return {"workers": workers, "crops_a_second": crops / seconds, "crops_a_processor_second": crops / busy}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("box")
    parser.add_argument("--crop", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", default="0,1,2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = [measure(options, int(count)) for count in options.workers.split(",")]
    versions = f"h5py {h5py.__version__}, PyTorch {torch.__version__}"
    print(json.dumps({"versions": versions, "runs": runs}))


if __name__ == "__main__":
    main()
