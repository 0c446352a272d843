"""Disks that are full, limited or slow, and clocks that jump between two starts.

A quota is played by the limit of a file's size (RLIMIT_FSIZE), a slow disk by other writers that flush to the same one
all the time: nothing here delays a disk by itself. The date is the machine's and stays as it is; monotonic clocks differ
per time namespace.
"""
import contextlib
import os
import pathlib
import resource
import signal
import subprocess
import threading

from faults.folders import resumed, started
from faults.job import Fault, Job, Skipped, steps_of

promise = "as promised"


def interrupted(place, random, virtual=False):
    """A run that was killed amid its training."""
    job = started(place, random.choice([14, 35, 70]), virtual)
    job.signal(signal.SIGKILL)
    job.end()
    return job.folder


@contextlib.contextmanager
def small_disk(path, size):
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def full(place, random):
    if not place.has_own_mounts:
        raise Skipped("a small disk is mounted by root only, in a mount namespace of its own")
    disk = place.path / "disk"
    with small_disk(disk, f"{random.randint(500, 1300)}k"):
        job = Job(place, disk / "run", 2, False)
        job.expect(1)
        job.expect_text("No space left on device", str(disk))
        if left := list(disk.glob("run/checkpoints/*.part")):
            raise Fault(f"a full disk still holds {left}")
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        place.finish(job.folder, 2, False)


def limited_files(place, random):
    folder = interrupted(place, random, virtual=True)
    before = steps_of(folder)
    limit = random.randint(100, 170) << 10  # of a checkpoint's files only the optimizer's is larger
    # One rank, since Open MPI's own files are larger.
    job = Job(place, folder, 1, True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    job.expect(1)
    job.expect_text("File too large", str(folder))
    if steps_of(folder) != before:
        raise Fault(f"checkpoints of the steps {steps_of(folder)} where those of {before} were")
    place.finish(folder, 2, True)


def slow(place, random):
    ended = threading.Event()

    def write(name):
        with open(place.path / name, "wb", buffering=0) as file:
            while not ended.is_set():
                file.seek(0)
                file.write(bytes(4 << 20))
                os.fsync(file.fileno())

    writers = [threading.Thread(target=write, args=(f"writer-{number}",)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        place.finish(place.fresh(), 2, False)
    finally:
        ended.set()
        for writer in writers:
            writer.join()


def other_clock(place, random):
    """A run that goes on where the monotonic clock is years off: after a restart of the machine, so to speak."""
    offset = str(random.choice([10**5, 10**8]))
    before = ["unshare", "--time", "--monotonic", offset, "--boottime", offset]
    if subprocess.run([*before, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("time namespaces are made by root only")
    place.finish(interrupted(place, random), 2, False, before=before)
    job = started(place, 14, before=before)
    job.signal(signal.SIGKILL)
    job.end()
    place.finish(job.folder, 2, False)


cases = [full, limited_files, slow, other_clock]
times = len(cases)


def trial(place, random, number, tally):
    case = cases[number % len(cases)]
    tally.note(case.__name__.replace("_", " "))
    case(place, random)
