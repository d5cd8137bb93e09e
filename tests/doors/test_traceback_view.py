"""How the error of a rank looks in the notebook."""

from __future__ import annotations

from typing import Any

from jtrain.errors import WorkerError
from jtrain.traceback_view import render_worker_error

CELL = "for batch in loader:\n    x, y = batch\n    loss = f(x, y)\n    run.step(loss)\n"


def frame(file: str, line: int, text: str, *, user: bool, function: str = "<module>") -> dict[str, Any]:
    return {"file": file, "line": line, "text": text, "function": function, "user": user}


def render(frames: list[dict[str, Any]], **fields: Any) -> list[str]:
    fields = {"rank": 1, "type_name": "ValueError", "message": "bad label", **fields}
    error = WorkerError("sentence", run_id="brisk-otter-7", frames=frames, sources={"Cell In[5]": (2, CELL)}, **fields)
    return render_worker_error(error, has_colors=False)


def test_the_cells_lines_stand_around_an_arrow() -> None:
    lines = render([frame("Cell In[5]", 4, "loss = f(x, y)", user=True)])
    assert lines[1].split() == ["ValueError", "rank", "1", "of", "run", "brisk-otter-7"]
    at = lines.index("Cell In[5], line 4")
    assert lines[at + 1 : at + 5] == [
        "      2 for batch in loader:",
        "      3     x, y = batch",
        "----> 4     loss = f(x, y)",
        "      5     run.step(loss)",
    ]
    assert "ValueError: bad label" in lines


def test_library_frames_are_one_line_and_those_before_the_users_are_left_out() -> None:
    site = "/usr/lib/python3.11/site-packages"
    lines = render(
        [
            frame(f"{site}/jtrain/worker/main.py", 9, "exec()", user=False),
            frame("Cell In[5]", 4, "loss = f(x, y)", user=True),
            frame(f"{site}/torch/nn/module.py", 17, "x", user=False),
            frame(f"{site}/accelerate/a.py", 2, "x", user=False),
            frame("/usr/lib/python3.11/json/decoder.py", 2, "x", user=False),
        ]
    )
    assert not any("worker/main.py" in line for line in lines)
    assert "    … 3 frames in torch, accelerate, json" in lines


def test_a_line_that_has_changed_since_is_shown_as_it_was() -> None:
    lines = render([frame("Cell In[5]", 4, "something_else()", user=True)])
    assert "----> 4 something_else()" in lines
    assert not any("x, y = batch" in line for line in lines)


def test_a_recursion_is_told_and_not_repeated() -> None:
    deep = [frame("Cell In[5]", 3, "x, y = batch", user=True, function="f") for _ in range(20)]
    cut = [
        frame("Cell In[5]", 5, "run.step(loss)", user=True),
        *deep,
        frame("", 0, "… 960 more calls …", user=False),
        *deep,
    ]
    lines = render(cut, type_name="RecursionError")
    assert lines.count("    … the same 19 more times") == 2
    assert "    … 960 more calls …" in lines
    assert len(lines) < 40


def test_other_ranks_are_folded_into_one_line_and_the_next_step_is_told() -> None:
    others = [f"rank {rank} then failed too (RuntimeError)" for rank in range(5)]
    lines = render([], others=others, next_step="look at the labels")
    assert sum("then failed too" in line for line in lines) == 1
    assert any("and 2 more" in line for line in lines)
    assert "What to do: look at the labels" in lines


def test_an_end_without_an_exception_is_a_sentence() -> None:
    error = WorkerError("rank 1 was killed by signal 9, SIGKILL", run_id="brisk-otter-7", rank=1)
    lines = render_worker_error(error, has_colors=False)
    assert "rank 1 was killed by signal 9, SIGKILL" in lines


def test_a_group_of_exceptions_is_shown_whole() -> None:
    text = "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: two\n"
    lines = render([frame("Cell In[5]", 4, "x", user=True)], type_name="ExceptionGroup", traceback_text=text)
    assert "  | ExceptionGroup: two" in lines


def test_colours_are_only_used_where_there_are_some() -> None:
    error = WorkerError("s", run_id="r", type_name="E", message="m")
    assert not any("\x1b" in line for line in error._render_traceback_())
    assert any("\x1b[31m" in line for line in render_worker_error(error, has_colors=True))
