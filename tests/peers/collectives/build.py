"""Compiles the peers that are installed; ours is built by CMake (target peer-ringfence). What times them is one object
for all of them, and compiled with the same flags in ours."""

import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
GATE = os.path.join("..", "..", "..", "collectives", "bench", "gate.")
SHARED = ["peer.c", "peer_shared.c", GATE + "c"]
FLAGS = ["-O3", "-D_GNU_SOURCE", "-Wno-unused-result"]


def compile_into(target, sources, command, trailing=()):
    """True if target is there in the end; compiles it if any source is newer."""
    paths = [os.path.join(HERE, source) for source in sources]
    headers = [os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".h")]
    headers.append(os.path.join(HERE, GATE + "h"))
    if os.path.exists(target) and all(os.path.getmtime(target) > os.path.getmtime(p)
                                      for p in paths + headers):
        return True
    done = subprocess.run(command + FLAGS + paths + ["-o", target] + list(trailing), stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        print(f"could not compile {os.path.basename(target)}:\n{done.stderr}")
    return done.returncode == 0


def build_mpi(directory, common, programs):
    for name in ("openmpi", "mpich"):
        target = os.path.join(directory, f"peer-{name}")
        if not shutil.which(f"mpicc.{name}") or not shutil.which(f"mpirun.{name}"):
            print(f"{name} is left out: not installed")
        elif compile_into(target, [common, "peer_mpi.c"], [f"mpicc.{name}", f'-DPEER_NAME="{name}"']):
            programs[name] = target


def build_impi(directory, common, venv, programs):
    library = os.path.join(venv or "", "lib")
    if not venv or not os.path.exists(os.path.join(library, "libmpi.so")):
        print("impi (Intel MPI) is left out: no virtual environment with impi-devel")
        return
    target = os.path.join(directory, "peer-impi")
    command = ["gcc", '-DPEER_NAME="impi"', "-I" + os.path.join(venv, "include")]
    if compile_into(target, [common, "peer_mpi.c"], command, ["-L" + library, "-lmpi"]):
        programs["impi"] = target
        programs["impi-venv"] = venv


def build_gloo(directory, common, programs):
    if not shutil.which("g++") or not os.path.exists("/usr/include/gloo/allreduce.h"):
        print("gloo is left out: libgloo-dev or g++ is not installed")
        return
    for name, define in (("gloo", []), ("gloo-busy", ["-DPEER_BUSY_POLL"])):
        target = os.path.join(directory, f"peer-{name}")
        command = ["g++", "-std=c++17"] + define
        if compile_into(target, ["peer_gloo.cc"], command, [common, "-lgloo", "-lpthread"]):
            programs[name] = target


def build_floor(directory, common, programs):
    target = os.path.join(directory, "peer-floor")
    sources = ["peer_floor.c", "floor_pair.c", "floor_crowd.c", "floor_net.c"]
    if compile_into(target, [common] + sources, ["gcc", "-march=native"], ["-lzmq"]):
        programs["floor"] = target


def build_all(build, venv):
    """Paths of the programs by library; what is missing is said."""
    directory = os.path.abspath(os.path.join(build, "peers"))
    os.makedirs(directory, exist_ok=True)
    programs = {"ringfence": os.path.join(build, "bin", "peer-ringfence")}
    common = os.path.join(directory, "peer-common.o")
    if not compile_into(common, SHARED, ["gcc", "-r"]):
        return programs
    build_mpi(directory, common, programs)
    build_impi(directory, common, venv, programs)
    build_gloo(directory, common, programs)
    build_floor(directory, common, programs)
    if "openmpi" in programs:
        programs["openmpi-tcp"] = programs["openmpi"]
    return programs
