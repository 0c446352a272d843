"""SIGKILL at random moments: start-up, training, validation, and while a checkpoint is written."""
import signal
import time

from faults.job import Job, steps_of

times = 200
promise = "exact continuations"


def victims(job, who, random):
    processes = job.processes()
    ranks = [process for process, rank in processes.items() if rank is not None]
    mpirun = [process for process, rank in processes.items() if rank is None and process != job.process.pid]
    chosen = {"all": list(processes), "kolo": [job.process.pid], "mpirun": mpirun[:1]}.get(who)
    if who == "rank" and ranks:
        chosen = [random.choice(sorted(ranks))]
    return chosen or [job.process.pid]  # before there is one


def is_written(job):
    return any(job.folder.glob("checkpoints/.*.part"))


def phase(job):
    if is_written(job):
        return "while a checkpoint was written"
    return "in training or validation" if steps_of(job.folder) else "at start-up"


def strike(job, seconds, random, tally):
    """Whether the job was still there to be killed."""
    who = random.choice(["rank", "kolo", "mpirun", "all"])
    delay, into = random.uniform(0, seconds), random.uniform(0, .004)
    at_checkpoint = random.random() < .3
    time.sleep(delay)
    if at_checkpoint:
        job.wait(lambda: is_written(job), "a checkpoint")
        time.sleep(into)
    if not job.is_running():
        return False
    tally.note(f"kills {phase(job)}")
    job.signal(signal.SIGKILL, victims(job, who, random))
    return True


def trial(place, random, number, tally):
    virtual = number % 2 == 1
    seconds = place.reference(virtual)[1]
    folder = place.fresh()
    kills = random.choice([1, 1, 2, 3])
    ranks = []
    while True:
        ranks.append(random.choice(sorted({1, 2, 3, 4} - set(ranks[-1:]))) if virtual else 2)
        launcher = ["communication.launcher=mpi"] if number % 3 == 2 else []  # otherwise ranks are processes of kolo's
        job = Job(place, folder, ranks[-1], virtual, options=launcher)
        struck = kills > 0 and strike(job, seconds, random, tally)
        kills -= struck
        status = job.end()
        if status == 0:
            if len(ranks) == 1 and not struck:  # it was faster than the blow
                folder, ranks = place.fresh(), []
                continue
            break
        if not struck:
            job.fail(f"ended with status {status} though nobody killed it")
        tally.note(f"ends with status {status}")
    place.expect_reference(folder, virtual)
    if len(set(ranks)) > 1:
        tally.note("with other ranks")
