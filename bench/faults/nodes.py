"""A node is lost: two nodes are made of this machine, as extras/simulate/slow_network does, by network namespaces.

Four ranks on two nodes; all processes of the second are killed, and its link goes down, or both nodes only lose sight of
each other. The launcher's line to a node, here a process as ssh would be, ends with the node's processes or, as with a
node that loses power, does not: then mpirun sees it only where it looks whether its daemons live, which it does every few
seconds here, as it is told to. Where only a rank is missing the watch ends the job by its limit (KOLO_WATCH_LIMIT, 10 s
here). The run goes on with two ranks of one node.
"""
import os
import shlex
import shutil
import signal
import subprocess
import time

from faults.job import Job, Skipped, end_limit, steps_of

promise = "ended by itself and went on to the same bits on one node"
network = "10.213.78.0/24"
watch_limit = 10
# mpirun looks whether its daemons live: after so many seconds of silence, so often, so many seconds apart. Its own 300
# seconds are too late for a node that vanishes: once it has begun to end a job, it waits for that node's answer.
keepalive = {"time": 3, "probes": 3, "intvl": 1}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"{shlex.join(command)} failed: {done.stdout.strip()}")


class Node:
    """A network namespace, and a process in it that keeps its host name and its mounts."""

    def __init__(self, number):
        self.name = f"kolo-{os.getpid()}-f{number}"
        self.device = f"kolo{os.getpid() % 100000}f{number}"
        self.address = f"10.213.78.{number}"
        run("ip", "netns", "add", self.name)
        setup = f"hostname {self.name} && mount -t tmpfs tmpfs /dev/shm && exec sleep infinity"
        self.holder = subprocess.Popen(["ip", "netns", "exec", self.name, "unshare", "--uts", "--mount", "sh", "-c", setup])

    def connect(self):
        run("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", self.device)
        for device in ("lo", self.device):
            run("ip", "-n", self.name, "link", "set", device, "up")

    def command(self):
        """Goes before what is to run on the node."""
        return ["nsenter", "-t", str(self.holder.pid), "--net", "--uts", "--mount"]

    def processes(self, job):
        def namespace(process):
            try:
                return os.readlink(f"/proc/{process}/ns/net")
            except OSError:  # it has just ended
                return ""

        return [process for process in job.processes() if namespace(process) == namespace(self.holder.pid)]

    def remove(self):
        self.holder.kill()
        self.holder.wait()
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL, check=False)


def lose(node, job, kills):
    processes = node.processes(job)
    run("ip", "-n", node.name, "link", "set", node.device, "down")
    if kills:
        job.signal(signal.SIGKILL, processes)


def train(place, nodes, agent, line_stays):
    # mpirun's way onto another node: AGENT ADDRESS COMMAND... A line that stays is an ssh that waits for a dead host.
    stay = "; exec sleep infinity" if line_stays else ""
    start = ("" if line_stays else "exec ") + shlex.join(nodes[1].command())
    agent.write_text(f"#!/bin/sh\nshift\n{start} sh -c \"$*\"{stay}\n", encoding="utf-8")
    agent.chmod(0o700)
    hosts = ",".join(f"{node.address}:2" for node in nodes)
    launcher = [*nodes[0].command(), "mpirun", "--host", hosts, "-n", "4", "--bind-to", "none",
                *(word for name, value in keepalive.items() for word in ("--mca", f"oob_tcp_keepalive_{name}", str(value))),
                "--mca", "plm_rsh_agent", str(agent), "--mca", "oob_tcp_if_include", network,
                "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", network, "--mca", "pml", "ob1",
                str(place.program)]
    watch = {"KOLO_WATCH_WARNING": str(watch_limit / 2), "KOLO_WATCH_LIMIT": str(watch_limit),
             "KOLO_WATCH_FOLDER": str(place.path / "tmp")}
    return Job(place, place.fresh(), 4, True, launcher=launcher, environment=watch)


def lost_node(place, random, kills, line_stays, tally):
    if os.geteuid() != 0 or not place.has_own_mounts:
        raise Skipped("network namespaces are made by root only")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for tool in ("ip", "nsenter", "unshare"):
        if not shutil.which(tool):
            raise Skipped(f"{tool} is not to be had (Debian: iproute2, util-linux)")
    nodes = []
    try:
        for number in (1, 2):
            nodes.append(Node(number))
        run("ip", "link", "add", nodes[0].device, "netns", nodes[0].name, "type", "veth", "peer", "name", nodes[1].device,
            "netns", nodes[1].name)
        for node in nodes:
            node.connect()
        step = random.choice([7, 35, 70, 105])
        while True:
            job = train(place, nodes, place.path / "agent", line_stays)
            if job.wait(lambda: steps_of(job.folder)[-1:] >= [step], f"step {step}"):
                break
            job.expect(0)
        lose(nodes[1], job, kills)
        lost = time.monotonic()
        try:
            status = job.process.wait(end_limit)
        except subprocess.TimeoutExpired:
            job.fail(f"has not ended within {end_limit} s after a node was lost")
        tally.seconds.append(time.monotonic() - lost)
        if status == 0:
            job.fail("ended with status 0 though a node was lost")
        while ranks := [rank for rank in job.processes().values() if rank is not None]:
            if time.monotonic() > lost + end_limit:
                job.fail(f"the ranks {ranks} still run {end_limit} s after a node was lost")
            time.sleep(.05)
        job.stop()  # Open MPI's daemon on a node that nobody sees, and the line to it
        place.finish(job.folder, 2, True)
    finally:
        for node in nodes:
            node.remove()


def killed(place, random, tally):
    lost_node(place, random, True, False, tally)


def without_power(place, random, tally):
    lost_node(place, random, True, True, tally)


def cut_off(place, random, tally):
    lost_node(place, random, False, False, tally)


cases = [killed, without_power, cut_off]
times = len(cases)


def trial(place, random, number, tally):
    case = cases[number % len(cases)]
    tally.note(case.__name__.replace("_", " "))
    case(place, random, tally)
