"""The verbs, on runs that are only folders."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jtrain.errors import JtrainError, OptionError, RunNotFoundError, StoreError
from jtrain.store.files import FileLock
from jtrain.verbs.answers import Question, Shown, Watched
from jtrain.verbs.table import VERBS, answer, help_of_verb
from tests.doors.stores import make_run

DAY_S = 86400


def text(*words: str) -> str:
    found = answer(words)
    assert isinstance(found, Shown)
    return found.text


@pytest.fixture
def living():
    """A run that counts as alive because its lock is held."""
    run = make_run("wild-hare-3", state="running")
    lock = FileLock(run.paths.owner_lock)
    assert lock.acquire()
    yield run
    lock.close()


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_every_verb_has_help(verb) -> None:
    assert verb.help.endswith(".")
    assert help_of_verb(verb).startswith(f"%jtrain {verb.name}")
    assert text(verb.name, "--help") == help_of_verb(verb)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["staus"], "did you mean status?"),
        (["frobnicate"], "there are: status, runs"),
        (["logs", "a", "b"], "'b' is one word too many"),
        (["runs", "--limt", "3"], "did you mean --limit?"),
        (["logs", "--rank", "x"], "--rank x: it takes a whole number"),
        (["gpus", "0"], "one word too many"),
        (["compare", "a"], "name two runs or more"),
        (["clean"], "say which runs"),
        (["clean", "--older-than", "3 days"], "it is an age such as"),
    ],
)
def test_wrong_words_are_told_what_would_be_right(words: list[str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        answer(words)
    assert message in str(caught.value)


def test_a_run_is_found_by_id_name_or_beginning_and_else_the_newest_is_meant() -> None:
    make_run("brisk-otter-7", name="first", created=1000.0)
    make_run("brisk-newt-2", name="second", created=3000.0)
    make_run("calm-fox-1", name="first", created=2000.0)
    for word, found in [("brisk-otter-7", "brisk-otter-7"), ("first", "calm-fox-1"), ("brisk-o", "brisk-otter-7")]:
        assert text("status", word).startswith(f"run {found}\n")
    assert text("status").startswith("run brisk-newt-2\n")


def test_a_run_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(RunNotFoundError, match="no runs in"):
        answer(["status"])
    make_run("brisk-otter-7")
    make_run("brisk-newt-2")
    with pytest.raises(RunNotFoundError, match="did you mean brisk-otter-7"):
        answer(["status", "brsk-oter-7"])
    with pytest.raises(RunNotFoundError, match="several runs begin with 'brisk-'"):
        answer(["status", "brisk-"])
    for path in ("../x", "/etc", "."):
        with pytest.raises(RunNotFoundError):
            answer(["status", path])


def test_status_tells_state_options_and_metrics() -> None:
    make_run(state="failed", metrics={"loss": [2.0, 0.5]}, nproc=2, checkpoint_every="10min", tag={"a": "b"})
    shown = text("status")
    assert "failed for a test" in shown
    assert "--nproc 2 --tag a=b --checkpoint-every 10min" in shown
    assert ["loss", "0.5"] in [line.split() for line in shown.splitlines()]


def test_runs_are_listed_newest_first_and_within_a_limit() -> None:
    for number in range(5):
        make_run(f"calm-fox-{number}", created=1000.0 + number, state="failed" if number == 2 else "finished")
    lines = text("runs", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["calm-fox-4", "calm-fox-3"]
    assert "there are more" in lines[3]
    assert len(text("runs", "--all").splitlines()) == 6
    assert text("runs", "--state", "failed").splitlines()[1].split()[:2] == ["calm-fox-2", "failed"]


def test_logs_are_those_of_a_rank_or_of_all() -> None:
    run = make_run(log="zero\none\ntwo\n")
    run.paths.attempt(1).log(1).write_text("hello\n")
    assert text("logs") == "zero\none\ntwo"
    assert text("logs", "--lines", "1") == "two"
    assert text("logs", "--rank", "1") == "hello"
    with pytest.raises(OptionError, match="no such rank; its ranks are 0 to 1"):
        text("logs", "--rank", "2")
    assert text("logs", "--all-ranks").splitlines()[-1] == "[rank 1] hello"


def test_a_run_without_checkpoints_says_how_to_get_some() -> None:
    make_run()
    assert "--checkpoint-every" in text("checkpoints")


def test_what_is_over_can_not_be_paused_and_says_so() -> None:
    make_run()
    assert text("pause") == "run brisk-otter-7 is finished already"
    assert text("stop") == "run brisk-otter-7 is finished already"


def test_pause_without_waiting_leaves_a_wish(living) -> None:
    assert text("pause", living.id, "--no-wait") == "run wild-hare-3 was asked to pause"
    assert [path.name.rpartition("-")[2] for path in living.paths.inbox.iterdir()] == ["pause.json"]


def test_attach_shows_a_run_from_where_it_is() -> None:
    make_run()
    found = answer(["attach"])
    assert isinstance(found, Watched)
    assert found.run.id == "brisk-otter-7"
    assert found.seen_attempts == 0


def test_a_finished_run_can_not_be_resumed() -> None:
    make_run()
    with pytest.raises(JtrainError, match="has finished"):
        answer(["resume"])


def test_clean_deletes_only_old_runs_that_are_over(living) -> None:
    old = time.time() - 40 * DAY_S
    for name, state in (("calm-fox-1", "finished"), ("calm-fox-2", "paused"), ("calm-fox-3", "failed")):
        run = make_run(name, state=state, created=old)
        journal = run.paths.journal
        journal.write_text(journal.read_text().replace('"t":', f'"t":{old},"was":'))
        run.store.note(name)
    make_run("calm-fox-4")
    shown = text("clean", "--older-than", "30d", "--dry-run")
    assert "2 runs" in shown
    assert {line.split()[0] for line in shown.splitlines()[1:-1]} == {"calm-fox-1", "calm-fox-3"}
    question = answer(["clean", "--older-than", "30d"])
    assert isinstance(question, Question)
    assert "for ever?" in question.text
    assert set(question.do().text.removeprefix("deleted: ").split(", ")) == {"calm-fox-1", "calm-fox-3"}
    left = {path.name for path in living.paths.root.parent.iterdir()}
    assert left == {"wild-hare-3", "calm-fox-2", "calm-fox-4"}


def test_clean_never_deletes_a_living_run_even_when_it_is_named(living) -> None:
    with pytest.raises(StoreError, match="ends it"):
        answer(["clean", living.id, "--yes"])
    assert living.paths.spec.exists()


def test_clean_deletes_what_is_named() -> None:
    make_run("calm-fox-1", state="paused")
    assert text("clean", "calm-fox-1", "--yes") == "deleted: calm-fox-1"
    assert text("runs").startswith("there are no runs")


def test_compare_tells_results_options_and_code() -> None:
    make_run("calm-fox-1", source="lr = 1\nx = 2\n", metrics={"loss": [1.0, 0.5]}, accumulate=2)
    make_run("calm-fox-2", source="lr = 3\nx = 2\n", metrics={"loss": [1.0, 0.25]}, accumulate=4)
    found = answer(["compare", "calm-fox-1", "calm-fox-2"])
    assert isinstance(found, Shown)
    lines = [line.split() for line in found.text.splitlines()]
    assert ["loss", "0.5", "0.25"] in lines
    assert ["accumulate", "2", "4"] in lines
    assert ["-lr", "=", "1"] in lines
    assert ["+lr", "=", "3"] in lines
    assert ["seed", "1", "1"] not in lines
    assert found.figure is not None
    assert len(found.figure().axes) == 1


def test_plot_draws_the_metrics_asked_for(tmp_path: Path) -> None:
    make_run(metrics={"loss": [1.0, 0.5], "accuracy": [0.1, 0.2]})
    found = answer(["plot", "-m", "accuracy", "--file", "a.png"])
    assert isinstance(found, Shown)
    assert found.file == "a.png"
    assert [axes.get_ylabel() for axes in found.figure().axes] == ["accuracy"]


def test_gpus_tells_what_there_is_or_why_there_is_none() -> None:
    shown = text("gpus")
    assert "CPU slots free" in shown
    assert len(shown.splitlines()) >= 2


def test_the_queue_is_empty_when_nobody_waits() -> None:
    assert text("queue") == "no run is waiting for devices"
