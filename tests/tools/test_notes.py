"""What stands where a note should be, and is none: nobody was let go by it, and nobody is ended."""

from pathlib import Path

import pytest

from perdure.tools.notes import read_note


@pytest.mark.parametrize("pid", ["9999999999", "1", "0", "-5", "true", "2.5", '"7"'])
def test_a_number_that_no_process_has_names_nobody(tmp_path: Path, pid: str) -> None:
    note = tmp_path / "call.json"
    note.write_text(f'{{"pid": {pid}, "started": "1", "boot_id": "b"}}')
    assert read_note(note) is None


def test_a_folder_is_no_note(tmp_path: Path) -> None:
    assert read_note(tmp_path) is None
