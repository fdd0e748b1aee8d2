"""Refreshes `traceanalyzer/report/page/vendor/`: the libraries that the page holds.

Run as `python -m tests.vendored`, from the folder of the repository; it needs npm. Each package of
the manifest is fetched in the version that stands there, with `--latest` in the newest one; its
checksum must be the registry's, and that of the manifest where the version is the same.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import click

__all__ = ["COMMAND", "FOLDER", "main", "refreshed"]

COMMAND = "python -m tests.vendored"
FOLDER = Path(__file__).resolve().parents[1] / "traceanalyzer" / "report" / "page" / "vendor"


def npm(*arguments: str) -> Any:  # noqa: ANN401 - what npm prints as JSON
    """Return what npm says."""
    program = shutil.which("npm")
    if program is None:
        msg = "there is no npm on PATH"
        raise click.ClickException(msg)
    done = subprocess.run(
        [program, *arguments, "--json"], capture_output=True, check=False, text=True
    )
    if done.returncode:
        msg = f"npm {' '.join(arguments)}: {done.stderr.strip()}"
        raise click.ClickException(msg)
    return json.loads(done.stdout)


def integrity(archive: bytes) -> str:
    """Return a checksum as registries write it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode("ascii")


def refreshed(entry: dict[str, Any], *, version: str, archive: bytes) -> dict[str, Any]:
    """Write a package's files from its archive, and return its entry in the manifest."""
    found = integrity(archive)
    if version == entry["version"] and entry["integrity"] not in ("", found):
        msg = f"{entry['name']} {version} is not what it was: {found}"
        raise click.ClickException(msg)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        licence = json.loads(content(members, "package.json"))["license"]
        contents = [content(members, file["upstream"]) for file in entry["files"]]
    if licence != entry["licence"]:
        msg = f"the licence of {entry['name']} {version} is {licence}, not {entry['licence']}"
        raise click.ClickException(msg)
    files = []
    for file, data in zip(entry["files"], contents, strict=True):
        (FOLDER / file["file"]).write_bytes(data)
        files.append(file | {"sha256": hashlib.sha256(data).hexdigest()})
    return entry | {"version": version, "integrity": found, "files": files}


def content(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file of a package."""
    file = archive.extractfile(f"package/{name}")
    if file is None:
        msg = f"the package has no {name}"
        raise click.ClickException(msg)
    return file.read()


def fetched(name: str, version: str) -> tuple[str, bytes]:
    """Return the version and archive of a package, whose checksum is the registry's."""
    with tempfile.TemporaryDirectory() as folder:
        (packed,) = npm("pack", f"{name}@{version}", "--pack-destination", folder)
        archive = Path(folder, packed["filename"]).read_bytes()
    told = npm("view", f"{name}@{packed['version']}", "dist.integrity")
    if integrity(archive) != told:
        msg = f"{name} {packed['version']}: the registry says {told}, this is {integrity(archive)}"
        raise click.ClickException(msg)
    return packed["version"], archive


@click.command(help=__doc__)
@click.option("--latest", is_flag=True, help="Take the newest versions.")
def main(*, latest: bool) -> None:
    """Fetch every package and write files and manifest anew."""
    path = FOLDER / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    entries = []
    for entry in manifest["packages"]:
        version, archive = fetched(entry["name"], "latest" if latest else entry["version"])
        entries.append(refreshed(entry, version=version, archive=archive))
        click.echo(f"{entry['name']} {version}")
    text = json.dumps({"packages": entries}, indent=2)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
