"""What is read of a registration without importing it."""

from pathlib import Path

from brimful.core.declare.outline import CommandOutline, Outline, read_outline


def test_names_and_help_are_read_whether_by_place_or_by_name(tmp_path: Path):
    file = tmp_path / "workload.py"
    file.write_text(
        "import does_not_exist\n"
        "WORKLOAD = Workload('w', 'The ' 'help.', (\n"
        "    Command('a', 'First.', A, run, plan, True),\n"
        "    Command(name='b', help='Second.', config=B, run=run),\n"
        "))\n"
    )
    commands = (CommandOutline("a", "First.", True, True), CommandOutline("b", "Second.", False, False))
    assert read_outline(file) == Outline("The help.", commands)


def test_what_is_not_written_out_is_not_guessed(tmp_path: Path):
    file = tmp_path / "workload.py"
    for source in ("WORKLOAD = Workload('w', help_text(), ())", "WORKLOAD = make()", "syntax error ("):
        file.write_text(source)
        assert read_outline(file) is None
    assert read_outline(tmp_path / "nothing.py") is None
