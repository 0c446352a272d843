#!/usr/bin/env python3
"""What predicts a box's gas without a network: the mean error (L1, over the five channels) of zero, of each channel's
median, and of linear fits to the cell itself and to the 27 cells around it; fitted to one box, tested on another.

    python3 bench/peers/local_regression.py TRAIN.h5 VALID.h5

Both as kolo data nbody writes them. Debian: python3-h5py, python3-numpy.
"""
import itertools
import sys

try:
    import h5py
    import numpy as np
except ImportError as error:
    sys.exit(f"local_regression.py: {error}; Debian's packages are python3-h5py and python3-numpy")


def read(path):
    with h5py.File(path, "r") as file:
        return file["Nbody"][...].astype(np.float64), file["Hydro"][...].astype(np.float64)


def features(nbody, reach):
    """One row a cell: a one, and the four fields at every cell within reach; the box is periodic."""
    shifts = itertools.product(range(-reach, reach + 1), repeat=3)
    fields = [np.roll(channel, shift, (0, 1, 2)).ravel() for shift in shifts for channel in nbody]
    return np.stack([np.ones(nbody[0].size), *fields], 1)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    (train_in, train_out), (valid_in, valid_out) = read(sys.argv[1]), read(sys.argv[2])
    goal, target = train_out.reshape(5, -1).T, valid_out.reshape(5, -1).T
    print(f"zero                {np.abs(target).mean():.4f}")
    print(f"median              {np.abs(target - np.median(goal, 0)).mean():.4f}")
    for name, reach in (("linear, the cell", 0), ("linear, 27 cells", 1)):
        rows = features(train_in, reach)
        fit = np.linalg.solve(rows.T @ rows + 1e-9 * np.eye(rows.shape[1]), rows.T @ goal)
        print(f"{name:18}  {np.abs(features(valid_in, reach) @ fit - target).mean():.4f}")


if __name__ == "__main__":
    main()
