"""A small training that faults befall: its settings, its processes, and the bits that it ends with."""
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

mark = "KOLO_FAULTS"  # in the environment of every process of a job, whoever started it
numbers = itertools.count()
end_limit = 120  # seconds; far more than any job takes
gone_limit = 60  # seconds after a job's end until its last process has to be gone


class Fault(Exception):
    """A promise that was not kept."""


class Skipped(Exception):
    """What this machine or user can't do."""


def write_images(folder, counts=None, packed=False):
    """MNIST's four files: grey noise but for one bright bar, whose place tells the label. Packed ones take longer to read."""
    noise = random.Random(1)

    def write(name, content):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, 1))
        else:
            (folder / name).write_bytes(content)

    for name, count in (counts or {"train": 640, "t10k": 300}).items():
        pixels = bytearray(noise.randbytes(count * 784))
        for image in range(count):
            first = image * 784 + image % 10 * 56
            pixels[first:first + 56] = bytes([255]) * 56
        sizes = b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        write(f"{name}-images-idx3-ubyte", b"\0\0\x08\x03" + sizes + pixels)
        write(f"{name}-labels-idx1-ubyte",
              b"\0\0\x08\x01" + count.to_bytes(4, "big") + bytes(image % 10 for image in range(count)))


class Place:
    """The campaign's own folder, and what its jobs have in common."""

    def __init__(self, build, has_own_mounts):
        self.has_own_mounts = has_own_mounts  # what is mounted here, nobody else sees
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="kolo-faults-"))
        self.path.chmod(0o755)
        for name in ("data", "tmp", "runs", "references"):
            (self.path / name).mkdir()
        (self.path / "tmp").chmod(0o1777)
        write_images(self.path / "data")
        self.program = self.path / "kolo"
        shutil.copy2(build / "src/cli/kolo", self.program)  # the build may go on meanwhile
        self.configuration = self.path / "small.yaml"
        self.configuration.write_text(
            f"data: {{name: mnist, path: {self.path}/data}}\n"
            "model: {name: mnist_net, dropout: 0.25}\n"
            "optimizer: {name: adam, lr: 0.002, lr_scaling: none}\n"
            "training: {batch_size: 16, n_epochs: 10, log_every: 1}\n"
            "checkpoint: {every_steps: 7, keep: 3}\n"
            "device: {deterministic: true, intra_threads: 1}\n", encoding="utf-8")
        self.references, self.jobs = {}, []

    def stop_jobs(self):
        """Ends those that a trial has left when it failed; none otherwise."""
        for job in self.jobs:
            job.stop()
        self.jobs = []

    def remove(self):
        self.stop_jobs()
        shutil.rmtree(self.path, ignore_errors=True)

    def fresh(self, below="runs"):
        """The folder of a run that is still to begin; nothing lies beside it."""
        for folder in (self.path / below).iterdir():
            shutil.rmtree(folder)
        return self.path / below / "run"

    def settings(self, virtual):
        return ["training.virtual_ranks=4", "training.batch_size=8"] if virtual else []

    def reference(self, virtual, settings=()):
        """The bits of an undisturbed run, and the seconds that it took."""
        kind = (virtual, *settings)
        if kind not in self.references:
            job = Job(self, self.fresh("references"), 2, virtual, settings=settings)
            job.expect(0)
            self.references[kind] = (fingerprint(job.folder), job.seconds)
        return self.references[kind]

    def finish(self, folder, ranks, virtual, settings=(), **options):
        """Goes on with a run until it ends, which has to be as if nothing had been."""
        job = Job(self, folder, ranks, virtual, settings=settings, **options)
        job.expect(0)
        self.expect_reference(folder, virtual, settings)
        return job

    def expect_reference(self, folder, virtual, settings=()):
        found, expected = fingerprint(folder), self.reference(virtual, settings)[0]
        different = [name for name in expected if found.get(name) != expected[name]]
        if different:
            raise Fault(f"other than undisturbed: {', '.join(different)}; {found} instead of {expected}")


class Job:
    """One start of `kolo train`, with --resume where there is a checkpoint (unless it is `anew`), and all
    processes that come of it."""

    def __init__(self, place, folder, ranks, virtual, anew=False, environment=None, before=(), launcher=None, settings=(),
                 options=(), **popen):
        self.place, self.folder, self.mark = place, folder, f"{os.getpid()}.{next(numbers)}"
        resume = ["--resume"] if steps_of(folder) and not anew else []
        start = launcher or [*before, str(place.program)]
        count = [] if launcher else ["-n", str(ranks), "--oversubscribe"]
        self.command = [*start, "train", str(place.configuration), "-o", str(folder), *count, *resume,
                        *options, *place.settings(virtual), *settings]
        self.output = place.path / "tmp" / f"{self.mark}.out"
        variables = {**os.environ, mark: self.mark, "TMPDIR": str(place.path / "tmp"), "HOME": str(place.path / "tmp"),
                     "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **(environment or {})}
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            env=variables, start_new_session=True, cwd=place.path / "tmp", **popen)
        place.jobs.append(self)
        self.started = time.monotonic()
        self.seconds = 0

    def processes(self):
        """The rank (None: a launcher) of each process that is of this job, or was and went on without it."""
        found = {}
        for folder in pathlib.Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    variables = (folder / "environ").read_bytes().split(b"\0")
                    name = (folder / "comm").read_text().strip()
                except OSError:  # it has just ended, or is another's
                    continue
                if f"{mark}={self.mark}".encode() in variables:
                    rank = [int(line[21:]) for line in variables if line.startswith(b"OMPI_COMM_WORLD_RANK=")]
                    if name.startswith("kolo rank "):  # a fork of kolo's
                        rank = [int(name.split()[-1])]
                    found[int(folder.name)] = rank[0] if rank else None
        return found

    def is_running(self):
        return self.process.poll() is None

    def signal(self, number, processes=None):
        for process in self.processes() if processes is None else processes:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def suspend(self):
        """Stops all processes, also those that are started meanwhile."""
        stopped = set()
        while new := set(self.processes()) - stopped:
            self.signal(signal.SIGSTOP, new)
            stopped |= new
        return stopped

    def wait(self, condition, what):
        """False where the job ended first."""
        deadline = time.monotonic() + end_limit
        while not condition():
            if not self.is_running():
                return False
            if time.monotonic() > deadline:
                self.fail(f"{what} has not come within {end_limit} s")
            time.sleep(.002)
        return True

    def end(self, limit=end_limit):
        """The status it ended with (128 + the signal that did), when all its processes are gone."""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.fail(f"has not ended within {limit} s")
        self.seconds = time.monotonic() - self.started
        deadline = time.monotonic() + gone_limit
        while left := self.processes():
            if time.monotonic() > deadline:
                self.fail(f"{len(left)} processes are left {gone_limit} s after its end: {left}")
            time.sleep(.01)
        return 128 - status if status < 0 else status

    def expect(self, *statuses):
        status = self.end()
        if status not in statuses:
            self.fail(f"ended with status {status} instead of {' or '.join(map(str, statuses))}")
        return status

    def expect_text(self, *texts):
        for text in texts:
            if not re.search(text, self.text()):
                self.fail(f"does not say {text!r}")

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def fail(self, what):
        self.stop()
        raise Fault(f"{' '.join(self.command)}: {what}; the end of its output:\n" + "\n".join(self.text().splitlines()[-25:]))

    def stop(self):
        """Ends what is left of it, whatever state it is in."""
        for _ in range(100):
            self.signal(signal.SIGKILL)
            if self.process.poll() is not None and not self.processes():
                return
            time.sleep(.05)


def steps_of(folder):
    """The steps of its checkpoints, whole or damaged later; not of those that kolo has put aside, as step-00000007.1."""
    names = [manifest.parent.name[5:] for manifest in folder.glob("checkpoints/step-*/manifest.json")]
    return sorted(int(name) for name in names if name.isdigit())


def newest_of(folder):
    return folder / "checkpoints" / f"step-{steps_of(folder)[-1]:08}"


def fingerprint(folder):
    """Hashes of weights, optimizer state, and all numbers of the history that do not measure time."""
    if not steps_of(folder):
        return {}
    newest = newest_of(folder)
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    numbers_of = [[[record.get(key) for key in ("epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy", "lr")]
                   for record in history[part]] for part in ("epochs", "steps")]

    def short(content):
        return hashlib.sha256(content).hexdigest()[:16]

    return {"step": newest.name, "history": short(json.dumps(numbers_of).encode()),
            **{part: short((newest / f"{part}.safetensors").read_bytes()) for part in ("model", "optimizer")}}
