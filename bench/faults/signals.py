"""Requests to stop, in every phase: saved and ended with status 75, and gone on with to the same bits."""
import signal
import time

from faults.job import Job, steps_of

times = 30
promise = "stopped on request and went on to the same bits"


def trial(place, random, number, tally):
    virtual = number % 2 == 1
    seconds = place.reference(virtual)[1]
    asked = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1][number % 3]
    while True:
        job = Job(place, place.fresh(), random.randint(1, 4) if virtual else 2, virtual)
        time.sleep(random.uniform(0, seconds))
        began = bool(steps_of(job.folder))  # there is a checkpoint of step 0
        sent = time.monotonic()
        job.signal(asked, [job.process.pid])
        status = job.end()
        if status != 0:
            break
    tally.seconds.append(job.started + job.seconds - sent)
    if began and status != 75:
        job.fail(f"ended with status {status} instead of 75 after {asked.name} in training")
    if status not in (75, 128 + asked):
        job.fail(f"ended with status {status} instead of 75 or {128 + asked} after {asked.name}")
    if status == 75 and steps_of(job.folder):
        tally.note("stops with a checkpoint")
    else:
        tally.note("before training began")
    place.finish(job.folder, random.randint(1, 4) if virtual else 2, virtual)
