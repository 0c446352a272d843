"""SIGSTOP and SIGCONT, as schedulers suspend jobs: nobody takes it for a rank that hangs."""
import signal
import time

from faults.job import Job

times = 50
promise = "suspended without an alarm, with the same bits"


def trial(place, random, number, tally):
    virtual = number % 4 == 1
    seconds = place.reference(virtual)[1]
    everyone = number % 2 == 0
    # One rank that stands still for longer than the watch's patience is rightly named; a whole job is not.
    job = Job(place, place.fresh(), 2, virtual, environment={"KOLO_WATCH_WARNING": "3"} if everyone else {})
    time.sleep(random.uniform(0, .9 * seconds))
    if everyone:
        stopped = job.suspend()
    else:
        ranks = sorted(process for process, rank in job.processes().items() if rank is not None)
        stopped = [random.choice(ranks or [job.process.pid])]
        job.signal(signal.SIGSTOP, stopped)
    time.sleep(random.uniform(.1, 6 if everyone else 2))
    job.signal(signal.SIGCONT, stopped)
    job.expect(0)
    if "watch: rank" in job.text():
        job.fail("the watch has raised an alarm")
    place.expect_reference(job.folder, virtual)
    tally.note("of all processes" if everyone else "of one rank")
