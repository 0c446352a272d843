"""What befalls the folder of a run: a second run, removal, a name, rights, damage."""
import os
import shutil
import signal

from faults.job import Fault, Job, newest_of, steps_of

promise = "as promised"
nobody = 65534


def started(place, steps, virtual=False, **options):
    """A run that has made so many steps, or more, and is now suspended."""
    while True:
        job = Job(place, place.fresh(), 2, virtual, **options)
        if job.wait(lambda: steps_of(job.folder)[-1:] >= [steps], f"step {steps}"):
            job.suspend()
            if job.is_running():
                return job


def resumed(job):
    job.signal(signal.SIGCONT)
    return job


def expect_nothing_but(place, *names):
    """Nothing was written elsewhere."""
    found = sorted(entry.name for entry in (place.path / "runs").iterdir())
    if found != sorted(names):
        raise Fault(f"in the folder of all runs lie {found} instead of {sorted(names)}")


def two_jobs(place, random):
    job = started(place, 14)
    for ranks, anew in ((1, False), (2, False), (1, True), (2, True)):
        second = Job(place, job.folder, ranks, False, anew)
        second.expect(2)
        second.expect_text(f"{job.folder} is in use by process ({'|'.join(map(str, job.processes()))}) on ")
    resumed(job).expect(0)
    place.expect_reference(job.folder, False)


def deleted(place, random):
    job = started(place, random.choice([7, 35, 70]))
    shutil.rmtree(job.folder)
    resumed(job).expect(1)
    job.expect_text(str(job.folder))
    expect_nothing_but(place)
    place.finish(job.folder, 2, False)


def renamed(place, random):
    job = started(place, random.choice([7, 35, 70]))
    elsewhere = job.folder.with_name("elsewhere")
    job.folder.rename(elsewhere)
    resumed(job).expect(1)
    job.expect_text(str(job.folder))
    expect_nothing_but(place, "elsewhere")
    elsewhere.rename(job.folder)
    place.finish(job.folder, 2, False)


def read_only(place, random):
    options = {}
    if os.geteuid() == 0:  # who may write everywhere; the run is somebody else's
        options = {"before": ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups"]}
        os.chown(place.path / "runs", nobody, nobody)
        os.chown(place.path / "tmp", nobody, nobody)
    try:
        job = started(place, random.choice([7, 35, 70]), **options)
        folders = [job.folder, job.folder / "checkpoints"]
        for folder in folders:
            folder.chmod(0o555)
        resumed(job).expect(1)
        job.expect_text(str(job.folder), "[Pp]ermission denied")
        for folder in folders:
            folder.chmod(0o755)
        expect_nothing_but(place, "run")
        place.finish(job.folder, 2, False, **options)
    finally:
        if options:
            os.chown(place.path / "runs", 0, 0)
            os.chown(place.path / "tmp", 0, 0)


def damaged(place, random, harm, warned=True):
    job = started(place, random.choice([14, 35, 70]))
    job.signal(signal.SIGKILL)
    job.end()
    newest = newest_of(job.folder)
    harm(newest)
    rest = place.finish(job.folder, 2, False)
    if warned:
        rest.expect_text(f"(?i)(warning|damaged|pass).*{newest.name}|{newest.name}.*(damaged|checksum|bytes|size)")
    rest.expect_text("resuming from .*step-(?!" + newest.name[5:] + ")")


def flipped_byte(place, random):
    def harm(newest):
        file = newest / random.choice(["model.safetensors", "optimizer.safetensors", "state.json"])
        content = bytearray(file.read_bytes())
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        file.write_bytes(content)
    damaged(place, random, harm)


def shortened_file(place, random):
    def harm(newest):
        file = newest / random.choice(["model.safetensors", "optimizer.safetensors", "state.json"])
        os.truncate(file, random.randrange(file.stat().st_size))
    damaged(place, random, harm)


def missing_file(place, random):
    damaged(place, random, lambda newest: (newest / random.choice(["model.safetensors", "state.json"])).unlink())


def damaged_manifest(place, random):
    def harm(newest):
        file = newest / "manifest.json"
        os.truncate(file, random.randrange(1, file.stat().st_size))
    damaged(place, random, harm)


def missing_manifest(place, random):
    damaged(place, random, lambda newest: (newest / "manifest.json").unlink(), warned=False)


cases = [two_jobs, deleted, renamed, read_only, flipped_byte, shortened_file, missing_file, damaged_manifest,
         missing_manifest]
times = len(cases)


def trial(place, random, number, tally):
    case = cases[number % len(cases)]
    tally.note(case.__name__.replace("_", " "))
    case(place, random)
