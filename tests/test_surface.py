"""The public surface: these names, and no others; imported when they are used; typed."""

import inspect
import json
import re
import subprocess
import sys
import typing
from dataclasses import fields
from pathlib import Path

import pytest

import brimful
from brimful.engine.train.config import TrainConfig, TrainOptions
from brimful.engine.train.keywords import TrainKeywords, TrainOptionKeywords
from brimful.gp.keywords import FitKeywords
from brimful.gp.options import FitOptions
from brimful.gpcm.keywords import GPCMKeywords
from brimful.gpcm.options import TrainConfig as GPCMConfig
from brimful.locate.keywords import LocateKeywords
from brimful.locate.options import TrainConfig as LocateConfig
from brimful.wpo.keywords import ScoreTrainKeywords
from brimful.wpo.options import ScoreTrainOptions

from .helpers.paths import ROOT


def test_the_names_that_are_public():
    assert brimful.__all__ == [
        "AsyncClient",
        "Batch",
        "BrimfulError",
        "BrimfulWarning",
        "Budget",
        "BudgetError",
        "BudgetLike",
        "CancelledError",
        "ChangedError",
        "Client",
        "ConfigError",
        "CorruptError",
        "Cost",
        "DeviceError",
        "DeviceLike",
        "DivergedError",
        "FusedTerm",
        "InputError",
        "LockedError",
        "MapPart",
        "MapResult",
        "MapStream",
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
        "events",
        "find_lr",
        "fold",
        "gp",
        "gpcm",
        "locate",
        "map",
        "metric_sinks",
        "open",
        "plan_fold",
        "plan_map",
        "plan_train",
        "programs",
        "schedules",
        "train",
        "workloads",
        "wpo",
    ]


def test_they_are_sorted_and_there():
    assert brimful.__all__ == sorted(brimful.__all__)
    for name in brimful.__all__:
        assert getattr(brimful, name) is not None


def test_a_star_import_gives_them_all():
    found: dict[str, object] = {}
    exec("from brimful import *", found)
    assert set(brimful.__all__) <= set(found)


def test_dir_shows_the_surface_only():
    assert dir(brimful) == brimful.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'brimful' has no attribute 'mapp'"):
        brimful.mapp  # pyright: ignore[reportAttributeAccessIssue] # noqa: B018


def test_importing_it_imports_no_torch():
    script = """
import sys
import brimful
brimful.__version__, dir(brimful), brimful.BudgetError, brimful.Cost
print([name for name in ("torch", "numpy", "numba", "pyarrow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_importing_a_workload_imports_no_package_that_only_some_inputs_need():
    script = """
import sys
from brimful import gp
print([name for name in ("pandas", "polars", "pyarrow.dataset", "scipy", "numba") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_results_are_written_and_read_without_pandas(tmp_path: Path):
    """It takes half a second to import, and 40 MB that no budget counts; pyarrow's own conversions import it."""
    script = f"""
import sys
import torch
import brimful

def fn(x):
    return brimful.Batch({{"y": x, "good": x[:, 0] > 0}}, status=(x[:, 0] > 1).to(torch.int8), message={{2: "large"}})

values = torch.arange(6.0).reshape(3, 2)
result = brimful.map(fn, values, out={str(tmp_path / "run")!r}, device="cpu")
assert torch.equal(result.values["y"], values) and result.messages[2] == "large", result
result.table()
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


def test_a_workload_and_a_module_are_there_by_name():
    assert callable(brimful.gp.fit)
    assert callable(brimful.workloads.option)
    assert brimful.schedules.Cosine(first_cycle=3).first_cycle == 3


@pytest.mark.parametrize(
    ("keywords", "config", "others"),
    [
        (TrainOptionKeywords, TrainOptions, set()),
        (TrainKeywords, TrainConfig, set()),
        (FitKeywords, FitOptions, set()),
        (GPCMKeywords, GPCMConfig, {"dataset", "device", "budget"}),
        (LocateKeywords, LocateConfig, {"dataset_ids", "budget"}),
        (ScoreTrainKeywords, ScoreTrainOptions, set()),
    ],
)
def test_typed_keywords_are_the_declared_options(keywords: type, config: type, others: set[str]):
    """Those that a function has as parameters of its own are in `others`."""
    assert set(typing.get_type_hints(keywords)) == {field.name for field in fields(config)} - others


def inside(source: str) -> list[str]:
    """The lines of a script that import from inside the package."""
    return re.findall(r"^\s*(?:from|import) brimful\.(?:core|engine|cli|\w+\.\w).*", source, re.MULTILINE)


def test_docs_and_examples_import_nothing_from_inside():
    assert inside("from brimful.core.memory import budget\nfrom brimful.gp.model.kernels import parse") != []
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    sources = {file: file.read_text() for file in [*(ROOT / "examples").rglob("*.py"), *pages]}
    for notebook in (ROOT / "docs").rglob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        sources[notebook] = "\n".join("".join(cell["source"]) for cell in cells)
    assert {file.name: found for file, source in sources.items() if (found := inside(source))} == {}


def test_the_guide_of_map_shows_its_signature():
    shown = re.search(r"^brimful\.map\((.*?)\) ->", (ROOT / "docs" / "map.md").read_text(), re.DOTALL | re.MULTILINE)
    assert shown is not None
    names = [part.partition("=")[0].strip() for part in shown[1].split(",")]
    assert sorted(set(names) - {"*"}) == sorted(inspect.signature(brimful.map).parameters)


def test_what_pages_name_by_its_path_is_public():
    found = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]:
        for path in re.findall(r"(?<!::: )(?<!-m )\bbrimful(?:\.\w+){2,}", page.read_text()):
            parts, value = path.split(".")[1:], brimful
            for part in parts:
                public = getattr(value, "__all__", None)
                if (public is not None and part not in public) or not hasattr(value, part):
                    found.add((page.name, path))
                    break
                value = getattr(value, part)
    assert found == set()


USER_SCRIPT = """
import numpy as np
import torch
import brimful
from brimful import gp, gpcm, schedules, wpo

result = brimful.map(torch.linalg.inv, torch.eye(3).expand(9, 3, 3), budget="1GB", device=["cpu", "cpu"])
status: int = int(result.status[0])

def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(batch["x"]).square().mean()

trained: brimful.TrainResult = brimful.train(
    torch.nn.Linear(2, 1), loss, {"x": torch.ones(8, 2)}, epochs=2, lr=0.1, schedule=schedules.Cosine(first_cycle=1)
)
fit = gp.fit(np.arange(9.0), np.ones((3, 9)), kernel="rbf", steps=20)
peak: int = fit.observed
shape = result.values.shape
trained_students = gpcm.train("5000_200_4", epochs=30)
kappa: float = trained_students.scores.qwk
folds = gpcm.train("5000_200_4", n_folds=5).folds
gpcm.load("model/").best.predict("new.csv")

def density(model: wpo.ScoreModel) -> torch.Tensor:
    return model.score(model.sample(np.int64(3)), t=torch.tensor(0.1))

plan: brimful.Plan = brimful.plan_map(torch.square, torch.ones(3))
"""


def test_a_script_of_a_user_is_checked_with_the_types_that_are_shipped(tmp_path: Path):
    (tmp_path / "good.py").write_text(USER_SCRIPT)
    (tmp_path / "bad.py").write_text(
        "import torch, brimful\n"
        "brimful.map(torch.square, torch.ones(3), budget=[1])\n"
        "brimful.mapp\n"
        "brimful.train(torch.nn.Linear(1, 1), lambda m, b: m(b), torch.ones(3), epocs=3)\n"
        "brimful.gp.fit([1.0], [[1.0]], steps='many')\n"
    )
    settings = {"venvPath": str(ROOT), "venv": ".venv", "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "basic"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(tmp_path)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["generalDiagnostics"]
    errors = [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in found if one["severity"] == "error"
    ]
    assert [name for name, _ in errors if name == "good.py"] == [], found
    assert sorted({line for _, line in errors}) == [2, 3, 4, 5]
