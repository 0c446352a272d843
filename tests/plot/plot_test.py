"""scripts/plot draws the figures of a run, a study, a sweep, an evaluation and a timeline; skipped (77) without matplotlib."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def has_matplotlib(python):
    return os.access(python, os.X_OK) and subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode == 0


# Debian's python3-matplotlib is for the system's Python, which need not be the first one.
python = next(filter(has_matplotlib, (sys.executable, "/usr/bin/python3")), None)
if python is None:
    print("skipped: no Python has matplotlib (Debian's python3-matplotlib)")
    sys.exit(77)

script = sys.argv[1]
folder = Path(tempfile.mkdtemp())


def write(name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def plot(*words):
    return subprocess.run([python, script, *map(str, words)], capture_output=True, text=True)


def expect_figures(names, *words):
    output = Path(tempfile.mkdtemp())
    result = plot(*words, "-o", output)
    assert result.returncode == 0, result.stderr
    assert sorted(file.stem for file in output.iterdir()) == sorted(names), result.stdout
    assert sorted(map(str, output.iterdir())) == sorted(result.stdout.split()), result.stdout
    return output


def history(rate):
    epochs = [{"epoch": 0, "step": 0, "val_loss": 2.3, "val_accuracy": 0.1, "time": 1000}]
    epochs += [{"epoch": e, "step": 10 * e, "loss": rate / e, "val_loss": 2 / e, "val_accuracy": 1 - 0.5 / e, "accuracy": None, "lr": rate,
                "seconds": 2, "samples_per_second": 500, "time": 1000 + 2 * e} for e in (1, 2, 3)]
    steps = [{"step": s, "loss": 3 / s, "time": 1000 + s / 5} for s in range(1, 31)]
    return {"n_ranks": 2, "epochs": epochs, "steps": steps, "summary": {}}


def point(ranks, state="done", scaling="none"):
    results = {"samples_per_second": 100 * ranks**0.9, "epoch_seconds": 60 / ranks, "val_accuracy": 0.9, "val_loss": 0.3}
    return {"ranks": ranks, "state": state, "lr_scaling": scaling, "warmup_epochs": 0, "efficiency": ranks**-0.1, "results": results}


write("one/history.json", history(0.1))
write("two/history.json", history(0.2))
curves = ["accuracy", "epoch-time", "learning-rate", "loss", "loss-by-step", "throughput", "validation-error"]
for axis in ("epoch", "step", "time"):
    drawn = expect_figures(curves, folder / "one", folder / "two/history.json", "--axis", axis)
    assert "two" in (drawn / "loss.svg").read_text()
assert (expect_figures(curves, folder / "one", "--format", "png") / "loss.png").read_bytes().startswith(b"\x89PNG")

write("study/study.json", {"points": [point(1), point(2), point(2, scaling="linear"), point(4, "failed")]})
scaling = ["scaling-" + name for name in ("accuracy", "efficiency", "epoch-time", "error", "loss", "throughput")]
assert "predicted" not in (expect_figures(scaling, folder / "study") / "scaling-throughput.svg").read_text()
write("study/predictions.json", {"points": [point(64), point(1024)]})
assert "predicted" in (expect_figures(scaling, folder / "study") / "scaling-throughput.svg").read_text()

trials = [{"settings": [f"optimizer.name={name}", f"optimizer.lr={rate}"], "best": 0.5 + rate, "folder": f"trials/{name}-{rate}"}
          for name in ("adam", "sgd") for rate in (0.01, 0.1)]
write("sweep/trials/adam-0.01/history.json", history(0.01))
write("sweep/sweep.json", {"metric": "val_accuracy", "random": 0, "trials": trials + [trials[0] | {"best": None}]})
drawn = (expect_figures(["sweep-metric", "sweep-key-1", "sweep-key-2"], folder / "sweep") / "sweep-key-2.svg").read_text()
assert ">learning rate<" in drawn and ">optimizer sgd<" in drawn

trials = [{"settings": [f"optimizer.lr={rate}", f"seed={seed}"], "best": 0.5 + rate * seed, "folder": "none"} for rate in (0.1, 0.2) for seed in (1, 2)]
write("seeds/sweep.json", {"metric": "val_accuracy", "random": 0, "trials": trials})
expect_figures(["sweep-key-1"], folder / "seeds")

trials = [{"settings": [f"model.kind={kind}"], "best": 0.5, "folder": "none"} for kind in ("-", "2e", "")]
write("texts/sweep.json", {"metric": "val_loss", "random": 0, "trials": trials})
expect_figures(["sweep-key-1"], folder / "texts")

classes = [{"name": name} for name in ("cat", "dog")]
expect_figures(["confusion"], write("eval.json", {"model": "cnn", "epoch": 3, "classes": classes, "confusion_matrix": [[9, 1], [0, 0]]}))


def span(name, rank, thread, begin, length, **arguments):
    return {"name": name, "ph": "X", "pid": rank, "tid": thread, "ts": begin, "dur": length, "args": arguments}


# Three steps of 10 ms of two ranks; only the second, which is the one in the middle, has a span named "special".
events = [{"name": "thread_name", "ph": "M", "pid": 0, "tid": 1000, "args": {"name": "communication: all ranks"}}]
events += [event for step in (1, 2, 3) for rank in (0, 1)
           for event in (span("step", rank, 1, 1e4 * step, 1e4, step=step), span("forward", rank, 1, 1e4 * step + 100, 3e3),
                         span("update bucket", rank, 1, 1e4 * step + 7e3, 2.9e3, bucket=3), span("bucket 0", rank, 1000, 1e4 * step + 5e3, 1))]
timeline = write("timeline.json", events + [span("special one", 0, 1, 2.5e4, 2e3)])
drawn = (expect_figures(["timeline"], timeline) / "timeline.svg").read_text()
for text in ("step 2: 10 ms", "rank 0, communication: all ranks", "rank 1, thread 1", "special one", "update bucket 3", "all-reduce of a bucket", "other"):
    assert f">{text}<" in drawn, text
assert "waiting for data" not in drawn
assert "special" not in (expect_figures(["timeline"], timeline, "--step", 3) / "timeline.svg").read_text()
passes = [span(f"{work} stage {rank} micro-batch {number}", rank, 1, 3e3 * number + begin, 1e3)
          for work, begin in (("forward", 0), ("backward", 1e3)) for rank in (0, 1) for number in (0, 1)]
pipeline = write("pipeline.json", [span("step", rank, 1, 0, 2e4, step=7) for rank in (0, 1)] + passes)
drawn = (expect_figures(["timeline"], pipeline) / "timeline.svg").read_text()
for work, colour in (("forward", "#d55e00"), ("backward", "#eaae80")):  # that of micro-batch 1, and a lighter one
    assert f">micro-batch 1 {work}<" in drawn and drawn.count(f"fill: {colour}") == 3, "two ranks and the legend"

(folder / "text.yaml").write_text("model: cnn\n")
for words, said in (([folder], "holds no record"), ([write("list.json", {"a": 1})], "none of kolo's records"),
                    ([folder / "text.yaml"], "none of kolo's records"), ([], "PATH"),
                    ([timeline, "--step", 7], "no step 7; it has 1 to 3"), ([write("none.json", [])], "no steps")):
    result = plot(*words)
    assert result.returncode == 2 and said in result.stderr, result.stderr
assert "confusion matrix" in plot("--help").stdout
