"""The Dockerfile, read and carried out without a container engine.

Absolute paths of the image lie below a folder, which all stages share; a stage begins with an empty one, so that a
later stage has what it copies and nothing else. What needs root (users, owners) is left to programs that note how they
were called.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.structure.repository import ROOT

DOCKERFILE = ROOT / "Dockerfile"
IMAGE_PATHS = re.compile(r"(?<![\w.:/-])(?=/(?:opt|src|var/lib)\b)|(?<=sqlite:///)(?=/var/lib\b)")
NEEDS_ROOT = ("useradd", "groupadd")
# notes its call, and makes the folders that it was asked for without their owners
INSTALL = """#!/bin/sh
echo "install $*" >>"$0.calls"
for argument; do case $argument in /*) mkdir -p "$argument" ;; esac; done
"""
NOTE = """#!/bin/sh
echo "$(basename "$0") $*" >>"$0.calls"
"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its keyword and what stands behind it, on one line."""

    keyword: str
    text: str

    def words(self) -> list[str]:
        """The JSON list that it is, or its words."""
        if self.text.startswith("["):
            words: list[str] = json.loads(self.text)
            return words
        return shlex.split(self.text)


def instructions() -> list[Instruction]:
    """Everything the Dockerfile says, comments left out."""
    lines = (line for line in DOCKERFILE.read_text("utf-8").splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def last(keyword: str) -> Instruction:
    """What the image says of this in the end."""
    return [instruction for instruction in instructions() if instruction.keyword == keyword][-1]


@dataclass(slots=True)
class Image:
    """What the steps leave, below `root`; `environment` is all that its processes are given."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    def build(self) -> None:
        """Carry out every step; raises CalledProcessError where one fails."""
        self._make_programs()
        for instruction in instructions():
            match instruction.keyword:
                case "FROM":
                    self._begin_stage()
                case "WORKDIR":
                    self.workdir = instruction.text
                    Path(self.here(self.workdir)).mkdir(parents=True, exist_ok=True)
                case "ARG":
                    name, _, value = instruction.text.partition("=")
                    self.environment[name] = value
                case "ENV":
                    pairs = (word.partition("=") for word in instruction.words())
                    self.environment |= {name: self._value(value) for name, _, value in pairs}
                case "COPY":
                    self._copy(instruction.words())
                case "RUN":
                    self.run(["sh", "-euc", self.here(instruction.text)])

    def here(self, text: str) -> str:
        """A text with the image's paths where they are."""
        return IMAGE_PATHS.sub(str(self.root), text)

    def command(self, instruction: Instruction) -> list[str]:
        """The command that an instruction such as CMD states."""
        words = instruction.words()
        return [self.here(word) for word in (words[1:] if words[0] == "CMD" else words)]

    def run(self, command: list[str], **others: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the working folder, with the image's environment and no other; raises where it fails."""
        return subprocess.run(
            command,
            cwd=self.here(self.workdir),
            env=self.environment | others,
            check=True,
            capture_output=True,
            text=True,
        )

    def _begin_stage(self) -> None:
        """Put what stages before left aside: COPY --from takes it from there."""
        before = self.root.with_name("before")
        for folder in ("opt", "src", "var"):
            if (self.root / folder).exists():
                before.mkdir(exist_ok=True)
                (self.root / folder).rename(before / folder)
        self.workdir = "/opt"
        (self.root / "opt").mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.environment = kept | {"PATH": f"{self._programs}:{os.defpath}"}

    @property
    def _programs(self) -> Path:
        return self.root.with_name("programs")

    def _make_programs(self) -> None:
        """The base image's python, and what only root could do."""
        self._programs.mkdir(parents=True)
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        (self._programs / "python").symlink_to(base)
        for name, script in (*((name, NOTE) for name in NEEDS_ROOT), ("install", INSTALL)):
            (self._programs / name).write_text(script, "utf-8")
            (self._programs / name).chmod(0o755)

    def _copy(self, words: list[str]) -> None:
        *sources, target = (word for word in words if not word.startswith("--"))
        stage = self.root.with_name("before") if words[0].startswith("--from=") else None
        into = Path(self.here(target)) if target.startswith("/") else Path(self.here(self.workdir)) / target
        for source in sources:
            found = ROOT / source if stage is None else stage / source.lstrip("/")
            if found.is_dir():
                shutil.copytree(found, into, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(found, into / found.name if target.endswith("/") else into)

    def _value(self, text: str) -> str:
        return self.here(text).replace("$PATH", self.environment["PATH"])
