"""A rank killed under --max-restarts: kolo starts the ranks again by itself, and how long it takes until the next step is done."""
import signal
import time

from faults.job import Job, steps_of

times = 20
promise = "relaunched to the same bits"
seconds_of = "from the kill of a rank to the end of the next step"


def newest(job):
    return (steps_of(job.folder) or [-1])[-1]


def trial(place, random, number, tally):
    """A checkpoint at every step tells when the next one is done."""
    virtual = number % 2 == 1
    job = Job(place, place.fresh(), 2, virtual, options=["--max-restarts", "3"], settings=["checkpoint.every_steps=1"])
    for kill in range(2):
        after = newest(job) + random.randint(1, 40)
        if not job.wait(lambda: newest(job) >= after, f"step {after}"):
            job.fail(f"ended before step {after}")
        victim = (number // 2 + kill) % 2
        job.signal(signal.SIGKILL, [process for process, rank in job.processes().items() if rank == victim])
        killed, done = time.monotonic(), newest(job)
        if not job.wait(lambda: newest(job) > done, "a step after a kill"):
            job.fail("ended instead of going on")
        tally.seconds.append(time.monotonic() - killed)
        tally.note(f"kills of rank {victim}")
    job.expect(0)
    place.expect_reference(job.folder, virtual)
