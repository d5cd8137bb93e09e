"""Leases and tickets with real processes: nobody shares by accident, and the dead hold nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from jtrain.devices.choose import Want, ask
from jtrain.devices.sampler import Sampler
from jtrain.domain.devices import Device
from jtrain.engine.leases import Lease, LeaseTable
from jtrain.engine.machine import MachinePaths
from jtrain.engine.queue import Ticket
from jtrain.engine.tickets import TicketBooth
from jtrain.engine.waiting import DeviceQueue
from jtrain.errors import LaunchError

SLOTS = [Device(f"CPU-{number}", "cpu", str(number), "CPU") for number in range(4)]
FORK = multiprocessing.get_context("fork")
NOBODY = 65534

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")


@pytest.fixture
def machine(tmp_path: Path) -> MachinePaths:
    paths = MachinePaths(tmp_path / "machine")
    paths.prepare()
    return paths


@pytest.fixture
def table(machine: MachinePaths) -> LeaseTable:
    return LeaseTable(machine)


def must(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


def want(count: int) -> Want:
    return ask("none", count, [], SLOTS)


def line_up(machine: MachinePaths, run_id: str, count: int) -> DeviceQueue:
    queue = DeviceQueue(machine, run_id, want(count), SLOTS)
    queue.try_start()
    return queue


def ask_again(queue: DeviceQueue) -> Lease | None:
    """Ask until the queue has looked again."""
    queue._due = 0.0
    return queue.try_start()


class InFork:
    """A forked process that runs `body` with one end of a pipe; this is the other end."""

    def __init__(self, body: Callable[[Connection], None]) -> None:
        self.pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=body, args=(theirs,))
        self.process.start()
        theirs.close()

    def __enter__(self) -> InFork:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join(10)
        self.pipe.close()

    def receive(self) -> Any:
        assert self.pipe.poll(30), "the forked process doesn't answer"
        return self.pipe.recv()


# Leases ----------------------------------------------------------------------------------------------------------


def test_all_devices_are_leased_or_none(table: LeaseTable) -> None:
    one = must(table.acquire(SLOTS[1:2], "one"))
    assert table.acquire(SLOTS[:3], "three") is None
    assert table.free(SLOTS) == [SLOTS[0], SLOTS[2], SLOTS[3]]
    one.release()
    three = must(table.acquire(SLOTS[:3], "three"))
    assert three.devices == tuple(SLOTS[:3])
    three.release()


def test_a_lease_tells_who_holds_it(table: LeaseTable) -> None:
    with must(table.acquire(SLOTS[:1], "calm-fox-3")):
        assert (table.holder("CPU-0"), table.holder("CPU-1")) == ("calm-fox-3", None)
        assert table.read_holder("CPU-0").user
    assert table.holder("CPU-0") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff" * 10, b"x" * 100_000, b'{"run":"<script>","user":"a","shared":1}']
)
def test_what_a_lock_file_says_is_not_trusted(machine: MachinePaths, table: LeaseTable, content: bytes) -> None:
    with must(table.acquire(SLOTS[:1], "calm-fox-3")):
        machine.lock("CPU-0").write_bytes(content)
        assert table.holder("CPU-0") == "another run"


def hold_and_fork(machine: MachinePaths) -> Callable[[Connection], None]:
    """A holder whose own child inherits the lease and lives on."""

    def body(pipe: Connection) -> None:
        lease = LeaseTable(machine).acquire(SLOTS[:2], "holder")
        assert lease is not None
        child = os.fork()
        if child == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
        pipe.send(child)
        time.sleep(60)

    return body


def test_a_killed_holder_keeps_its_devices_until_its_workers_are_gone(machine: MachinePaths, table: LeaseTable) -> None:
    with InFork(hold_and_fork(machine)) as holder:
        child = holder.receive()
        try:
            os.kill(holder.process.pid or 0, signal.SIGKILL)
            holder.process.join()
            assert table.free(SLOTS) == SLOTS[2:]
            assert table.acquire(SLOTS[:1], "other") is None
            assert table.holder("CPU-1") == "holder"
        finally:
            os.kill(child, signal.SIGKILL)
        while table.state("CPU-0") != "free":  # the child isn't ours to wait for
            time.sleep(0.01)
        lease = table.acquire(SLOTS[:2], "other")
        assert lease is not None
        lease.release()


def test_a_holder_that_lets_go_leaves_the_devices_to_its_workers(table: LeaseTable) -> None:
    lease = must(table.acquire(SLOTS[:1], "run"))
    with InFork(lambda pipe: time.sleep(60)):
        lease.release()
        assert table.state("CPU-0") == "exclusive"
    assert table.state("CPU-0") == "free"


def test_a_program_started_by_the_holder_does_not_keep_the_lease(table: LeaseTable) -> None:
    lease = must(table.acquire(SLOTS[:1], "run"))
    program = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        lease.release()
        assert table.state("CPU-0") == "free"
    finally:
        program.kill()
        program.wait()


def test_shared_leases_stand_together_and_exclude_others(table: LeaseTable) -> None:
    first = table.acquire(SLOTS[:1], "first", is_shared=True)
    second = table.acquire(SLOTS[:1], "second", is_shared=True)
    assert first is not None
    assert second is not None
    assert table.state("CPU-0") == "shared"
    assert table.acquire(SLOTS[:1], "whole") is None
    first.release()
    assert table.state("CPU-0") == "shared"
    second.release()
    assert table.state("CPU-0") == "free"
    whole = must(table.acquire(SLOTS[:1], "whole"))
    assert table.acquire(SLOTS[:1], "third", is_shared=True) is None
    whole.release()


def race(machine: MachinePaths, seed: int, rounds: int) -> Callable[[Connection], None]:
    """Takes random devices again and again; holding one, it must be alone in that device's own counter file."""

    def body(pipe: Connection) -> None:
        rng = random.Random(seed)
        table = LeaseTable(machine)
        won, clashes = 0, 0
        for _ in range(rounds):
            chosen = rng.sample(SLOTS, rng.randint(1, 3))
            table.state(rng.choice(SLOTS).uuid)
            lease = table.acquire(chosen, f"run-{seed}")
            if lease is None:
                continue
            won += 1
            marks = [machine.root / f"mark-{device.uuid}" for device in chosen]
            for mark in marks:
                try:
                    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    clashes += 1
            for mark in marks:
                mark.unlink(missing_ok=True)
            lease.release()
        pipe.send((won, clashes))

    return body


def test_processes_that_race_for_the_same_devices_never_both_win(machine: MachinePaths) -> None:
    with InFork(race(machine, 1, 300)) as a, InFork(race(machine, 2, 300)) as b, InFork(race(machine, 3, 300)) as c:
        results = [fork.receive() for fork in (a, b, c)]
    assert [clashes for _, clashes in results] == [0, 0, 0]
    assert all(won > 20 for won, _ in results)


def test_looking_does_not_keep_anybody_from_a_free_device(machine: MachinePaths, table: LeaseTable) -> None:
    def look(pipe: Connection) -> None:
        other = LeaseTable(machine)
        pipe.send("looking")
        while True:
            other.state("CPU-0")

    with InFork(look) as looker:
        looker.receive()
        for _ in range(200):
            lease = table.acquire(SLOTS[:1], "run")
            assert lease is not None
            lease.release()


def test_a_lock_file_that_was_cleared_away_is_not_leased_twice(machine: MachinePaths, table: LeaseTable) -> None:
    lease = must(table.acquire(SLOTS[:1], "run"))
    lease.release()
    machine.lock("CPU-0").unlink()
    again = must(table.acquire(SLOTS[:1], "run"))
    assert table.state("CPU-0") == "exclusive"
    before = machine.lock("CPU-0").stat().st_mtime_ns
    again.renew()
    assert machine.lock("CPU-0").stat().st_mtime_ns > before
    again.release()


# The machine's folder --------------------------------------------------------------------------------------------


def test_everybody_may_write_into_the_folders_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        paths = MachinePaths(tmp_path / "machine")
        paths.prepare()
        lease = LeaseTable(paths).acquire(SLOTS[:1], "run")
    finally:
        os.umask(before)
    assert lease is not None
    for folder in (paths.root, paths.devices, paths.tickets):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE(paths.lock("CPU-0").stat().st_mode) == 0o666
    lease.release()


def test_an_existing_lock_file_is_opened_without_o_creat(
    machine: MachinePaths, table: LeaseTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    must(table.acquire(SLOTS[:1], "run")).release()
    flags: list[int] = []
    real_open = os.open

    def spy(path: Any, flag: int, *more: Any) -> int:
        flags.append(flag)
        return real_open(path, flag, *more)

    monkeypatch.setattr(os, "open", spy)
    must(table.acquire(SLOTS[:1], "run")).release()
    table.state("CPU-0")
    assert flags
    assert not any(flag & os.O_CREAT for flag in flags)


@pytest.mark.parametrize("uuid", ["../../etc/passwd", "CPU-0/../../x\n", "disk", "", "CPU-\0"])
def test_a_device_name_that_is_none_never_becomes_a_file_name(machine: MachinePaths, uuid: str) -> None:
    with pytest.raises(ValueError, match="no UUID"):
        machine.lock(uuid)
    assert machine.lock("MIG-GPU-1/2/0").parent == machine.devices


def test_the_folder_is_found_by_the_environment_and_made(tmp_path: Path) -> None:
    paths = MachinePaths.find({"JTRAIN_MACHINE_DIR": str(tmp_path / "a b" / "mäschine")})
    assert paths.devices.is_dir()


def test_a_folder_that_can_not_be_used_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match=r"file.*JTRAIN_MACHINE_DIR"):
        MachinePaths.find({"JTRAIN_MACHINE_DIR": str(tmp_path / "file")})
    with pytest.raises(LaunchError, match="JTRAIN_MACHINE_DIR"):
        MachinePaths.find({"JTRAIN_MACHINE_DIR": str(tmp_path / "file" / "below")})


@pytest.mark.parametrize("trap", ["symlink", "fifo", "folder", "hard link"])
def test_a_lock_file_that_is_a_trap_is_never_opened(machine: MachinePaths, table: LeaseTable, trap: str) -> None:
    victim, lock = machine.root / "victim", machine.lock("CPU-0")
    victim.write_text("precious")
    if trap == "symlink":
        lock.symlink_to(victim)
    elif trap == "fifo":
        os.mkfifo(lock)
    elif trap == "folder":
        lock.mkdir()
    else:
        os.link(victim, lock)
    assert table.state("CPU-0") == "exclusive"
    with pytest.raises(OSError, match="CPU-0"):
        table.acquire(SLOTS[:1], "run")
    assert victim.read_text() == "precious"


def as_nobody(body: Callable[[Connection], None]) -> Callable[[Connection], None]:
    def run(pipe: Connection) -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        body(pipe)

    return run


@pytest.fixture
def open_machine() -> Iterator[MachinePaths]:
    """A machine's folder that other users can reach, which pytest's own folders can't be."""
    root = Path(f"/tmp/jtrain-test-{os.getpid()}-{os.urandom(4).hex()}")
    paths = MachinePaths(root)
    paths.prepare()
    yield paths
    subprocess.run(["rm", "-rf", str(root)], check=True)


@as_root
@pytest.mark.parametrize("nobody_first", [True, False])
def test_leases_hold_between_users(open_machine: MachinePaths, nobody_first: bool) -> None:
    def hold(pipe: Connection) -> None:
        lease = LeaseTable(open_machine).acquire(SLOTS[:2], "theirs")
        pipe.send(lease is not None)
        time.sleep(60)

    table = LeaseTable(open_machine)
    if not nobody_first:
        must(table.acquire(SLOTS, "ours")).release()
    with InFork(as_nobody(hold)) as other:
        assert other.receive()
        assert table.acquire(SLOTS[:1], "ours") is None
        assert table.holder("CPU-0") == "theirs"
        assert table.free(SLOTS) == SLOTS[2:]
    lease = must(table.acquire(SLOTS, "ours"))
    assert table.holder("CPU-0") == "ours"
    lease.release()


@as_root
def test_tickets_stand_in_one_line_for_all_users(open_machine: MachinePaths) -> None:
    def wait(pipe: Connection) -> None:
        queue = line_up(open_machine, "theirs", 4)
        pipe.send(queue.sentence)
        time.sleep(60)

    held = must(LeaseTable(open_machine).acquire(SLOTS[:1], "holder"))
    with InFork(as_nobody(wait)) as other:
        assert "3 of 4 are free" in other.receive()
        with line_up(open_machine, "ours", 1) as ours:
            assert ours.sentence.endswith("1 run ahead: theirs")
            [theirs] = [ticket for ticket in TicketBooth(open_machine).all() if ticket.run_id == "theirs"]
            assert theirs.user == "nobody"
    # Its owner is dead; it can't be removed by others in a sticky folder, but it counts no more. (Root could.)
    assert TicketBooth(open_machine).all() == []
    held.release()


@as_root
def test_a_link_that_somebody_else_has_put_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "machine"
    link.symlink_to(tmp_path / "real")
    MachinePaths.find({"JTRAIN_MACHINE_DIR": str(link)})
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(LaunchError, match="somebody else"):
        MachinePaths.find({"JTRAIN_MACHINE_DIR": str(link)})


# Tickets ---------------------------------------------------------------------------------------------------------


def ticket(run_id: str = "brisk-otter-7") -> Ticket:
    names = tuple(slot.uuid for slot in SLOTS)
    return Ticket(run_id=run_id, since=time.time(), kind="cpu", count=1, minimum=1, candidates=names)


def test_a_ticket_is_read_as_it_was_put(machine: MachinePaths) -> None:
    booth, other = TicketBooth(machine), TicketBooth(machine)
    put = booth.put(ticket())
    [read] = other.all()
    assert (read.place, read.user, read.candidates) == (put.place, put.user, put.candidates)
    assert read.user
    booth.take_back()
    assert other.all() == []
    assert os.listdir(machine.tickets) == []


def test_the_ticket_of_a_killed_run_counts_no_more_and_is_removed(machine: MachinePaths) -> None:
    def wait(pipe: Connection) -> None:
        booth = TicketBooth(machine)
        pipe.send(booth.put(ticket()).run_id)
        time.sleep(60)

    booth = TicketBooth(machine)
    with InFork(wait) as waiting:
        waiting.receive()
        assert len(booth.all()) == 1
    assert booth.all() == []
    assert os.listdir(machine.tickets) == []


def test_a_ticket_that_was_cleared_away_is_put_down_again(machine: MachinePaths) -> None:
    booth = TicketBooth(machine)
    put = booth.put(ticket())
    for path in machine.tickets.iterdir():
        path.unlink()
    booth.renew()
    [read] = TicketBooth(machine).all()
    assert (read.run_id, read.since) == (put.run_id, put.since)
    booth.take_back()


def locked_file(machine: MachinePaths, name: str, content: bytes) -> int:
    """A ticket file of somebody else's making, whose lock is held; returns its descriptor."""
    import fcntl

    path = machine.tickets / name
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


GOOD = {"run_id": "a", "nonce": "1", "since": 1, "kind": "cpu", "count": 1, "minimum": 1, "candidates": ["CPU-0"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 50_000, "JSON"),
        (b" " * 1_000_000, "longer than"),
        (json.dumps(GOOD | {"count": 99}).encode(), "more devices than it names"),
        (json.dumps(GOOD | {"run_id": "b"}).encode(), "another file name"),
        (json.dumps(GOOD | {"candidates": ["../x"]}).encode(), "candidates"),
    ],
)
def test_a_hostile_ticket_is_skipped_with_a_reason(machine: MachinePaths, content: bytes, reason: str) -> None:
    descriptor = locked_file(machine, "a.1.json", content)
    booth = TicketBooth(machine)
    good = booth.put(ticket())
    assert [read.run_id for read in booth.all()] == [good.run_id]
    assert reason in booth.skipped["a.1.json"]
    booth.take_back()
    os.close(descriptor)


def test_what_a_ticket_says_about_its_user_is_not_believed(machine: MachinePaths) -> None:
    content = json.dumps(GOOD | {"user": "the-queen", "seen": 9e99}).encode()
    descriptor = locked_file(machine, "a.1.json", content)
    [read] = TicketBooth(machine).all()
    assert read.user != "the-queen"
    assert read.seen < time.time() + 100
    os.close(descriptor)


def test_links_and_pipes_among_the_tickets_are_skipped(machine: MachinePaths) -> None:
    os.mkfifo(machine.tickets / "pipe.1.json")
    (machine.tickets / "link.1.json").symlink_to("/etc/passwd")
    (machine.tickets / "folder.1.json").mkdir()
    (machine.tickets / "notes.txt").write_text("hello")
    booth = TicketBooth(machine)
    assert booth.all() == []
    assert sorted(booth.skipped) == ["folder.1.json", "link.1.json", "pipe.1.json"]


# The line --------------------------------------------------------------------------------------------------------


def test_three_runs_on_four_slots_go_one_after_the_other(machine: MachinePaths) -> None:
    first = must(DeviceQueue(machine, "first", want(2), SLOTS).try_start())
    second, third = line_up(machine, "second", 3), line_up(machine, "third", 1)
    assert second.sentence == "waiting for 3 CPU slots: 2 of 4 are free; held by first"
    assert third.sentence == "waiting for 1 CPU slot: 2 of 4 are free; held by first; 1 run ahead: second"
    first.release()
    second.close()
    third.close()


def test_a_run_that_can_start_leaves_the_line(machine: MachinePaths) -> None:
    with DeviceQueue(machine, "run", want(2), SLOTS) as queue:
        lease = must(queue.try_start())
        assert [device.label for device in lease.devices] == ["CPU slot 0", "CPU slot 1"]
        assert os.listdir(machine.tickets) == []
        lease.release()


def test_the_line_moves_on_in_its_order(machine: MachinePaths) -> None:
    held = must(LeaseTable(machine).acquire(SLOTS, "holder"))
    queues = [line_up(machine, f"run-{number}", 3) for number in range(3)]
    held.release()
    order = []
    leases: list[Lease] = []
    for _ in queues:
        for number, queue in reversed(list(enumerate(queues))):
            if number not in order and (lease := ask_again(queue)):
                order.append(number)
                leases.append(lease)
        leases[-1].release()
    assert order == [0, 1, 2]


def test_a_queue_may_be_asked_all_the_time_but_looks_now_and_then(machine: MachinePaths) -> None:
    held = must(LeaseTable(machine).acquire(SLOTS, "holder"))
    with line_up(machine, "run", 1) as queue:
        held.release()
        assert queue.try_start() is None
        while (lease := queue.try_start()) is None:
            time.sleep(0.01)
        lease.release()


def test_a_folder_that_fails_while_waiting_is_said_and_waited_out(machine: MachinePaths) -> None:
    machine.tickets.rename(machine.root / "away")
    queue = line_up(machine, "run", 1)
    assert "can't be used" in queue.sentence
    (machine.root / "away").rename(machine.tickets)
    must(ask_again(queue)).release()


def compete(machine: MachinePaths, run_id: str, count: int, board: Path) -> Callable[[Connection], None]:
    """Waits for its devices, checks that it has them alone, works for a moment, and ends."""

    def body(pipe: Connection) -> None:
        with DeviceQueue(machine, run_id, want(count), SLOTS) as queue:
            while (lease := queue.try_start()) is None:
                time.sleep(0.005)
        marks = [board / device.uuid for device in lease.devices]
        for mark in marks:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        time.sleep(0.02)
        for mark in marks:
            mark.unlink()
        pipe.send(len(lease.devices))

    return body


def test_real_runs_in_a_crowd_all_get_their_devices_and_never_share(machine: MachinePaths, tmp_path: Path) -> None:
    board = tmp_path / "board"
    board.mkdir()
    counts = [2, 4, 1, 3, 1, 2, 4, 1]
    forks = [InFork(compete(machine, f"run-{number}", count, board)) for number, count in enumerate(counts)]
    try:
        assert [fork.receive() for fork in forks] == counts
    finally:
        for fork in forks:
            fork.__exit__()
    assert os.listdir(machine.tickets) == []


# GPUs ------------------------------------------------------------------------------------------------------------

STRANGER = 2**22 + 1  # above every system's largest process id


def simulate(monkeypatch: pytest.MonkeyPatch, path: Path, *gpus: dict[str, Any]) -> None:
    path.write_text(json.dumps({"gpus": gpus}))
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", str(path))


def test_auto_avoids_a_gpu_that_a_stranger_uses_and_takes_it_once_it_is_free(
    machine: MachinePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "gpus.json"
    used = {"processes": [{"pid": STRANGER, "memory": 5}]}
    simulate(monkeypatch, state, used, {})
    gpus = Sampler().devices()
    with DeviceQueue(machine, "one", ask("auto", None, gpus, SLOTS), gpus) as one:
        lease = must(one.try_start())
        assert [device.index for device in lease.devices] == ["1"]
    # The lease holder's own processes now use GPU 1, and must not be taken for strangers.
    simulate(monkeypatch, state, used, used)
    with DeviceQueue(machine, "two", ask("auto", None, gpus, SLOTS), gpus) as two:
        assert two.try_start() is None
        assert two.sentence == (
            f"waiting for a free GPU: none of 2 is free; held by one; GPU 0 is used by a process (pid {STRANGER})"
        )
        lease.release()
        simulate(monkeypatch, state, {}, {})
        both = must(ask_again(two))
        assert [device.index for device in both.devices] == ["0", "1"]
        both.release()


def test_the_kernel_that_started_a_run_does_not_stand_in_its_way(
    machine: MachinePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch, tmp_path / "gpus.json", {"processes": [{"pid": os.getppid(), "memory": 5}]})
    gpus = Sampler().devices()
    with DeviceQueue(machine, "run", ask("auto", None, gpus, SLOTS), gpus) as queue:
        lease = must(queue.try_start())
        lease.release()


def test_after_waiting_for_gpus_the_process_has_one_thread_and_no_driver(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from jtrain.devices.choose import ask; from jtrain.devices.sampler import visible_devices\n"
        "from jtrain.engine.machine import MachinePaths; from jtrain.engine.waiting import DeviceQueue\n"
        "gpus = visible_devices({})\n"
        "with DeviceQueue(MachinePaths.find(), 'run', ask('2', None, gpus, []), gpus) as queue:\n"
        "    lease = queue.try_start()\n"
        "import pynvml; assert pynvml._nvmlLib_refcount == 0\n"
        "assert len(os.listdir('/proc/self/task')) == 1; print(len(lease.devices))"
    )
    environ = os.environ | {"JTRAIN_SIMULATE_GPUS": "4", "JTRAIN_MACHINE_DIR": str(tmp_path / "machine")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("2", "")
