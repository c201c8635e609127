"""The container files and the manual speak of options, paths and commands that there are."""

import json
import re
import tomllib

import yaml

from brimful.core.declare.config import describe, flag
from brimful.service.client.watching import EXIT_CODES
from brimful.service.options import ServeOptions

from .helpers.paths import ROOT

FLAGS = {flag(info) for info in describe(ServeOptions)}
CONTAINERFILE = (ROOT / "Containerfile").read_text()
MANUAL = (ROOT / "docs" / "serve.md").read_text()


def command() -> list[str]:
    [line] = re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    return json.loads(line)


def test_the_container_starts_the_server_with_options_it_has():
    program, name, *options = command()
    assert (program, name) == ("brimful", "serve")
    assert {option for option in options if option.startswith("--")} <= FLAGS


def test_what_the_image_copies_is_there():
    for line in re.findall(r"^COPY (.*)$", CONTAINERFILE, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name


def test_what_the_image_installs_and_asks_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r"pip install .*'\.\[(.*)\]'", CONTAINERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    copied = {name for line in re.findall(r"^COPY (.*)$", CONTAINERFILE, re.MULTILINE) for name in line.split()[:-1]}
    assert {"pyproject.toml", "src", "README.md", "hatch_build.py"} <= copied  # what building the package reads
    assert set(re.findall(r"--constraint (\S+)", CONTAINERFILE)) <= copied
    [(port, path)] = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", CONTAINERFILE)
    assert port == command()[command().index("--port") + 1] and f"`GET {path}`" in MANUAL
    assert f"EXPOSE {port}" in CONTAINERFILE


def test_the_compose_file_fits_the_container():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    server, database = services["server"], services["database"]
    assert server["build"]["dockerfile"] == "Containerfile"
    port = command()[command().index("--port") + 1]
    assert server["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert server["environment"]["BRIMFUL_DATABASE_URL"].startswith(
        "postgresql://brimful:${POSTGRES_PASSWORD}@database"
    )
    assert "changeme" not in json.dumps(services) and "${POSTGRES_PASSWORD:?" in json.dumps(database)
    [volume] = server["volumes"]
    assert f"VOLUME {volume.partition(':')[2]}" in CONTAINERFILE


def test_the_manual_has_every_option_of_the_server_and_every_exit_code():
    described = {f"--{name}" for name in re.findall(r"`?--([a-z-]+)", MANUAL[: MANUAL.index("## `brimful jobs`")])}
    assert described >= FLAGS
    table = MANUAL[MANUAL.index("Exit codes of") : MANUAL.index("Keys of `--json`")]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert codes == {*EXIT_CODES.values(), 1, 2, 130}
