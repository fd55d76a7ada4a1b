"""Starting a library's ranks, telling them what to measure, and ending them; and the network between them."""

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import bars

START_S = 60
CELL_S = 60


class PeerFailed(Exception):
    pass


class Network:
    """Nothing, or two network namespaces joined by a veth pair, removed at the end."""

    def __init__(self, place):
        self.namespaces = []
        self.addresses = []
        self.refused = ""
        self.wanted = place.network == "namespaces"
        self.congestion = place.congestion

    def __enter__(self):
        if not self.wanted:
            return self
        if os.geteuid() != 0:
            self.refused = "network namespaces need root"
            return self
        names = [f"rfpeer{os.getpid()}{side}" for side in "ab"]
        try:
            for name in names:
                self.ip("netns", "add", name)
                self.namespaces.append(name)
            self.ip("-n", names[0], "link", "add", "rf0", "type", "veth", "peer", "name", "rf0", "netns",
                    names[1])
            for index, name in enumerate(names):
                self.addresses.append(f"10.77.0.{index + 1}")
                self.ip("-n", name, "addr", "add", self.addresses[-1] + "/24", "dev", "rf0")
                self.ip("-n", name, "link", "set", "rf0", "up")
                self.ip("-n", name, "link", "set", "lo", "up")
                if self.congestion:
                    self.ip("netns", "exec", name, "sh", "-c", "echo " + shlex.quote(self.congestion)
                            + " > /proc/sys/net/ipv4/tcp_congestion_control")
        except (OSError, subprocess.CalledProcessError) as problem:
            self.refused = f"cannot make network namespaces: {problem}"
        return self

    @staticmethod
    def ip(*words):
        subprocess.run(("ip",) + words, check=True, stderr=subprocess.PIPE)

    def __exit__(self, *_):
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def enter(self, index):
        """What to put before a command that is to run at this end of the network."""
        return ["ip", "netns", "exec", self.namespaces[index]] if self.namespaces else []


class Library:
    """One library's ranks, asleep or measuring."""

    def __init__(self, name, place, directory):
        self.name = name
        self.place = place
        self.directory = tempfile.mkdtemp(prefix=name + "-", dir=directory)
        self.processes = []
        self.buffer = b""
        for pipe in ("commands", "answers"):
            os.mkfifo(os.path.join(self.directory, pipe), 0o600)
        # Read and write: opening does not wait for the other side.
        self.answers = os.open(os.path.join(self.directory, "answers"), os.O_RDWR | os.O_NONBLOCK)
        self.commands = os.open(os.path.join(self.directory, "commands"), os.O_RDWR)
        self.log = open(os.path.join(self.directory, "log"), "w+", encoding="utf-8")
        self.hello = {}

    def start(self, command, environment=None):
        self.processes.append(subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}))

    def answer(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            if select.select([self.answers], [], [], 0.2)[0]:
                self.buffer += os.read(self.answers, 65536)
            elif any(process.poll() is not None for process in self.processes):
                raise PeerFailed(f"it ended: {self.tail()}")
            elif time.monotonic() > deadline:
                raise PeerFailed(f"no answer in {seconds} s: {self.tail()}")
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def tail(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()[-600:].strip()

    def meet(self):
        self.hello = self.answer(START_S)
        if self.hello["ranks"] != self.place.ranks:
            raise PeerFailed(f"it has {self.hello['ranks']} ranks instead of {self.place.ranks}")

    def variants(self, kind):
        return self.hello[kind].split(",") if self.hello.get(kind) else []

    def measure(self, kind, size, variant, milliseconds):
        memory = self.place.memory if self.name in (bars.OURS, bars.FLOOR) else "heap"
        os.write(self.commands, f"{kind} {size} {variant} {memory} {milliseconds}\n".encode())
        return self.answer(CELL_S)

    def stop(self):
        if self.commands < 0:
            return
        os.write(self.commands, b"quit\n")
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.log.close()
        self.commands = -1


def start_openmpi(library, program, network):
    command = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-n", str(library.place.ranks)]
    if library.name == "openmpi-tcp":
        # Each namespace is a host of its own: the "remote shell" enters the one with that address.
        agent = os.path.join(library.directory, "enter")
        with open(agent, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
            for address, name in zip(network.addresses, network.namespaces):
                file.write(f'{address}) exec ip netns exec {name} unshare --uts '
                           f'sh -c "hostname {name}; $*" ;;\n')
            file.write("esac\necho \"no such host: $host\" >&2\nexit 1\n")
        os.chmod(agent, 0o700)
        command += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "rf0",
                    "--mca", "oob_tcp_if_include", "rf0", "--mca", "plm_rsh_agent", agent,
                    "--mca", "plm_rsh_no_tree_spawn", "1", "--map-by", "node",
                    "--host", ",".join(address + ":1" for address in network.addresses)]
        command = network.enter(0) + ["unshare", "--uts", "sh", "-c",
                                      f'hostname {network.namespaces[0]}; exec "$@"', "sh"] + command
    else:
        command += ["--oversubscribe"]
    library.start(command + [program, "--directory", library.directory])


def start_mpich(library, program, _network):
    library.start(["mpirun.mpich", "-launcher", "fork", "-n", str(library.place.ranks), program, "--directory",
                   library.directory])


def start_impi(library, program, _network, venv):
    lib = os.path.join(venv, "lib")
    environment = {"I_MPI_FABRICS": "shm", "FI_PROVIDER": "tcp", "FI_PROVIDER_PATH": lib, "I_MPI_PIN": "0",
                   "LD_LIBRARY_PATH": lib + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
    ranks = str(library.place.ranks)
    library.start([os.path.join(venv, "bin", "mpiexec.hydra"), "-launcher", "fork", "-hosts", "127.0.0.1",
                   "-ppn", ranks, "-n", ranks, program, "--directory", library.directory], environment)


def start_ranks(library, program, network):
    """Ours and gloo: plain processes; in namespaces, one at each end.

    All in one session, as an MPI launcher's: where the kernel groups tasks by session, a yield reaches only
    those of its own."""
    lines = []
    for rank in range(library.place.ranks):
        command = [program, "--directory", library.directory, "--rank", str(rank), "--size",
                   str(library.place.ranks), "--transport", library.place.transport]
        if library.name in (bars.OURS, bars.FLOOR):
            command += library.place.ours
        if network.addresses:
            command = network.enter(rank) + command + ["--address", network.addresses[rank]]
        lines.append(shlex.join(command) + " &")
    lines.append(f"for rank in {{1..{library.place.ranks}}}; do wait -n || exit 1; done")
    library.start(["bash", "-c", "\n".join(lines)])


def start_all(place, programs, network, directory):
    """The libraries of a place that could be started, ours first."""
    running = []
    for name in (bars.OURS,) + tuple(place.peers):
        if name not in programs:
            continue
        library = Library(name, place, directory)
        try:
            if name.startswith("openmpi"):
                start_openmpi(library, programs[name], network)
            elif name == "mpich":
                start_mpich(library, programs[name], network)
            elif name == "impi":
                start_impi(library, programs[name], network, programs["impi-venv"])
            else:
                start_ranks(library, programs[name], network)
            library.meet()
            running.append(library)
        except (PeerFailed, OSError) as problem:
            print(f"{place.name}: {name} is left out: {problem}", file=sys.stderr)
            library.stop()
    return running
