"""The public surface: these names, and no others."""

import brimful


def test_the_names_that_are_public():
    assert brimful.__all__ == [
        "Batch",
        "BrimfulError",
        "BrimfulWarning",
        "Budget",
        "BudgetError",
        "CancelledError",
        "ChangedError",
        "ConfigError",
        "CorruptError",
        "Cost",
        "DeviceError",
        "DivergedError",
        "InputError",
        "LockedError",
        "MapResult",
        "MissingExtraError",
        "Plan",
        "RunDirError",
        "Status",
        "StorageError",
        "TrainResult",
        "Weighted",
        "WorkerError",
        "__version__",
        "data",
        "fold",
        "map",
        "open",
        "train",
    ]


def test_they_are_sorted_and_there():
    assert brimful.__all__ == sorted(brimful.__all__)
    for name in brimful.__all__:
        assert getattr(brimful, name) is not None


def test_a_star_import_gives_them_all():
    found: dict[str, object] = {}
    exec("from brimful import *", found)
    assert set(brimful.__all__) <= set(found)
