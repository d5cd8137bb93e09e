"""nvidia-smi through GPUtil, with a fake program: odd answers give "n/a" and a reason, never an exception."""

import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from jtrain.devices.processes import ProcessNames
from jtrain.devices.smi import SmiSource
from jtrain.devices.sources import SourceError
from tests.devices.conftest import SetProgram

GOOD = "0, GPU-aaaa, 37, 16384, 1024, 15360, 550.54, Tesla T4, 123, Disabled, Disabled, 61"
SECOND = "1, GPU-bbbb, 0, 16384, 0, 16384, 550.54, Tesla T4, 124, Disabled, Disabled, 30"


def opened(time_limit_s: float = 5.0) -> SmiSource:
    source = SmiSource(time_limit_s)
    source.open()
    return source


def test_readings_are_scaled_to_their_units(fake_smi: SetProgram) -> None:
    fake_smi(f"echo '{GOOD}'; echo '{SECOND}'")
    source = opened()
    assert [(d.uuid, d.index, d.name) for d in source.devices()] == [
        ("GPU-aaaa", "0", "Tesla T4"),
        ("GPU-bbbb", "1", "Tesla T4"),
    ]
    first, second = source.read(ProcessNames())
    assert (first.load_percent.value, first.memory_used_bytes.value) == (37, 1 << 30)
    assert (first.memory_total_bytes.value, first.temperature_celsius.value) == (16 << 30, 61)
    assert (second.load_percent.value, second.memory_used_bytes.value) == (0, 0)


def test_a_closed_source_can_be_opened_again(fake_smi: SetProgram) -> None:
    fake_smi(f"echo '{GOOD}'")
    source = opened()
    source.close()
    with pytest.raises(SourceError):
        source.devices()
    source.open()
    assert len(source.devices()) == 1


def test_power_and_processes_are_missing_with_a_reason(fake_smi: SetProgram) -> None:
    fake_smi(f"echo '{GOOD}'")
    [sample] = opened().read(ProcessNames())
    assert sample.power_watts.value is None
    assert "NVML" in (sample.power_watts.reason or "")
    assert "NVML" in (sample.processes_reason or "")


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "[Unknown Error]", "N/A"])
def test_fields_without_a_value_are_missing_and_not_0(fake_smi: SetProgram, word: str) -> None:
    fake_smi(f"echo '0, GPU-aaaa, {word}, 16384, {word}, {word}, 550.54, Tesla T4, {word}, {word}, {word}, {word}'")
    [sample] = opened().read(ProcessNames())
    assert (sample.load_percent.value, sample.memory_used_bytes.value, sample.temperature_celsius.value) == (None,) * 3
    assert sample.load_percent.reason == "nvidia-smi shows no value for it"
    assert sample.memory_total_bytes.value == 16 << 30


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "version mismatch"),
        ("echo 'NVIDIA-SMI has failed because it could not communicate' >&2; exit 9", "could not communicate"),
        ("echo 'No devices were found'", "No devices were found"),
        ("exit 3", "ended with code 3"),
        ("head -c 3000 /dev/urandom", "nvidia-smi"),
        ("echo '0, GPU-aaaa, 37'", "0, GPU-aaaa, 37"),
        ("echo '0, GPU-aaaa, 37, 0, 0, 0, 550.54, Tesla T4, 1, a, b, 61'", "doesn't understand"),
    ],
)
def test_an_error_page_becomes_a_reason(fake_smi: SetProgram, body: str, said: str) -> None:
    fake_smi(body)
    with pytest.raises(SourceError, match=said):
        opened().read(ProcessNames())


def test_a_line_about_a_lost_gpu_leaves_the_other_gpus(fake_smi: SetProgram) -> None:
    fake_smi(f"echo 'Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.'; echo '{SECOND}'")
    source = opened()
    assert [sample.uuid for sample in source.read(ProcessNames())] == ["GPU-bbbb"]
    assert any("GPU is lost" in sentence for sentence in source.describe())


def test_a_hanging_program_is_ended(fake_smi: SetProgram, tmp_path: Path) -> None:
    fake_smi(f"echo $$ > '{tmp_path}/pid'; exec sleep 600")
    with pytest.raises(SourceError, match=r"no answer within 0\.3 s"):
        opened(0.3).read(ProcessNames())
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_hanging_program_is_ended_from_another_thread(fake_smi: SetProgram, tmp_path: Path) -> None:
    fake_smi(f"echo $$ > '{tmp_path}/pid'; exec sleep 600")
    source = opened(60.0)
    failures: list[Exception] = []

    def ask() -> None:
        try:
            source.devices()
        except SourceError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    source.interrupt()
    thread.join(30)
    assert not thread.is_alive()
    assert failures


def test_without_the_program_it_can_not_be_opened(fake_smi: SetProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SourceError, match="nvidia-smi is not there"):
        SmiSource().open()


def test_gputil_without_distutils_is_explained(fake_smi: SetProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(f"echo '{GOOD}'")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("distutils", "GPUtil")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "distutils", None)
    with pytest.raises(SourceError, match="pip install setuptools"):
        opened()


def test_gputils_warning_is_silenced_and_no_other(fake_smi: SetProgram) -> None:
    fake_smi(f"echo '{GOOD}'")
    program = (
        "import warnings; warnings.simplefilter('error')\n"
        "from jtrain.devices.smi import SmiSource; source = SmiSource(); source.open(); print(len(source.devices()))\n"
        "try: warnings.warn('The distutils package is deprecated', DeprecationWarning)\n"
        "except DeprecationWarning: print('others still show')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split("\n")[:2], done.stderr) == (["1", "others still show"], "")


def test_a_users_own_gputil_is_left_alone(fake_smi: SetProgram) -> None:
    fake_smi(f"echo '{GOOD}'")
    opened()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import GPUtil.GPUtil
    assert GPUtil.GPUtil.Popen is subprocess.Popen
