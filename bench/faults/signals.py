"""Requests to stop in each phase of a run, by its name: answered at once where there is nothing to save, and otherwise
saved, ended with status 75 and gone on with to the same bits.

The phases are told by what stands in out.log and in the checkpoints' folder. Where one is too short to be hit, settings
make it long: a larger data set, or a batch of one image in validations.
"""
import dataclasses
import signal
import time

from faults.job import Job, steps_of, write_images

promise = "stopped on request and went on to the same bits"
answer_limit = 10  # seconds; a step takes milliseconds here

steps_of_epoch = 20  # of 32 images
large_images = "data.path={large}"
long_validation = ("training.n_epochs=2", "training.validation_batch_size=1")


def log_of(job):
    log = job.folder / "out.log"
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def says(text):
    return lambda job: text in log_of(job)


def has_step(step):
    return lambda job: step in steps_of(job.folder)


def ranks_are_there(job):
    return any(rank is not None for rank in job.processes().values())


def is_writing(job):
    return any(job.folder.glob("checkpoints/.*.part"))


@dataclasses.dataclass
class Phase:
    name: str
    begins: callable  # has it, for this job?
    longest: float | None  # seconds that the request comes later at most; none: as long as a run takes
    settings: tuple = ()
    options: tuple = ()
    statuses: tuple = (75,)


phases = [
    Phase("in the launcher, before ranks", lambda job: True, .1),
    Phase("while ranks read data", ranks_are_there, 1, (large_images, "training.max_steps=20")),
    Phase("in the validation before training", says("model mnist_net"), .1, long_validation),
    Phase("in the first steps", says("before training: validation loss"), .01),
    Phase("while a checkpoint is written", is_writing, .002),
    Phase("while training waits for a checkpoint", is_writing, .002, ("checkpoint.asynchronous=false",)),
    Phase("in a validation", has_step(steps_of_epoch), .1, (*long_validation, f"checkpoint.every_steps={steps_of_epoch}")),
    Phase("between two epochs", says("epoch 3/10"), .001),
    Phase("at the end, with timelines", says("epoch 10/10"), .02, options=("--timeline",), statuses=(0, 75)),
    Phase("at any moment", lambda job: True, None),
]
times = 3 * len(phases)


def settings_of(phase, place):
    """With the large data set where the phase wants it, made once."""
    large = place.path / "large"
    if large_images in phase.settings and not large.exists():
        large.mkdir()
        write_images(large, {"train": 200000, "t10k": 300}, packed=True)
    return [setting.format(large=large) for setting in phase.settings]


def ask(job, phase, asked, delay):
    """The status that the job ended with after a request in the phase, and how long that took; nothing where the job was
    faster."""
    if not job.wait(lambda: phase.begins(job), phase.name):
        return None
    time.sleep(delay)
    if not job.is_running():
        return None
    sent = time.monotonic()
    job.signal(asked, [job.process.pid])
    status = job.end()
    answered = job.started + job.seconds - sent
    return None if status == 0 and 0 not in phase.statuses else (status, answered)


def require_answer(job, phase, asked, status, seconds):
    if seconds > answer_limit:
        job.fail(f"has answered {asked.name} {phase.name} after {seconds:.1f} s")
    has_begun = (job.folder / "out.log").exists()  # before, there is nothing to save, and maybe nobody who listens yet
    allowed = phase.statuses if has_begun else (75, 128 + asked)
    if status not in allowed:
        job.fail(f"ended with status {status} instead of {' or '.join(map(str, allowed))} after {asked.name} {phase.name}")
    if has_begun and not steps_of(job.folder):
        job.fail(f"has saved nothing after {asked.name} {phase.name}")


def trial(place, random, number, tally):
    phase, turn = phases[number % len(phases)], number // len(phases)
    virtual = turn % 2 == 1
    asked = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1][turn % 3]
    settings = settings_of(phase, place)
    longest = phase.longest or place.reference(virtual, settings)[1]
    answer = None
    while answer is None:
        job = Job(place, place.fresh(), random.randint(1, 4) if virtual else 2, virtual, settings=settings,
                  options=("-v", *phase.options))
        answer = ask(job, phase, asked, random.uniform(0, longest))
    tally.answers[phase.name].append(answer[1])
    require_answer(job, phase, asked, *answer)
    rest = random.randint(1, 4) if virtual else 2
    place.finish(job.folder, rest, virtual, settings=settings)
