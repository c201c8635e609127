"""What clients call the server's files."""

from pathlib import Path

from brimful.service.path_names import named_values, path_names

ID = "01a1eac1-e630-772f-94e5-493d84cc78f5"


def test_a_text_has_names_where_paths_of_the_server_stood(tmp_path: Path):
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "link").symlink_to(state)
    for root in (state, tmp_path / "link"):
        named = path_names(root)
        for path, name in {
            f"{root}/uploads/{ID}/my table.csv": "upload:my table.csv",
            f"{state}/uploads/{ID}/unpacked": f"upload:{ID}",
            f"{state}/uploads/{ID}/unpacked/a/b.csv": f"upload:{ID}/a/b.csv",
            f"{root}/jobs/{ID}/run/predictions.parquet": f"job:{ID}/predictions.parquet",
            f"{root}/datasets/my-rows.2@20260131-7.parquet": "dataset:my-rows.2",
            "/elsewhere/x.csv": "/elsewhere/x.csv",
        }.items():
            assert named(f"{path} has no rows, {path!r}") == f"{name} has no rows, {name!r}"
    values = {"origin": f"{state}/uploads/{ID}/x.csv", "rows": 3, "faults": [f"{state}/jobs/{ID}/run"]}
    assert named_values(path_names(state), values) == {"origin": "upload:x.csv", "rows": 3, "faults": [f"job:{ID}"]}
