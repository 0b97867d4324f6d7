"""The PEP 517 backend of the package, in the standard library alone.

It compiles the extension modules with the C compiler ($CC, or cc) and makes a wheel. The C libraries come from the first
of these:

1. the build directory that $XCVM_BUILD names, or those of 3 if it is "installed";
2. build/release of the source tree, if it has the libraries;
3. the installed libraries that pkg-config finds; they are not bundled;
4. a build by CMake, in build/python of the source tree.

``python3 backend.py inplace`` compiles the extension modules into xcvm/ for development.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
# In a source distribution the C tree is in source/.
ROOT = HERE / "source" if (HERE / "source").is_dir() else HERE.parent
LIBRARIES = {"xcvm": "libxcvm.so", "xcvm-compiler": "libxcvm-compiler.so"}
# Extension modules: the sources, and the libraries.
MODULES = {
    "_run": (["src/*.c"], ["xcvm"]),
    "_compiler": (["src/compiler/*.c"], ["xcvm-compiler", "xcvm"]),
    "_tape": (
        ["src/tape/*.c", *(f"src/compiler/{name}.c" for name in ("bytes", "callbacks", "option_reader", "options", "report"))],
        ["xcvm-compiler", "xcvm"],
    ),
}
GLIBC = (2, 34)
# Libraries that every system of that glibc has (PEP 600).
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libz.so.1", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
C_TREE = ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "base", "cmake", "compiler", "formats", "include", "ops", "proto", "server", "tape", "train", "vm"]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror=implicit-function-declaration"]


class BuildError(Exception):
    """The package cannot be built; the message says what to do."""


class Libraries(NamedTuple):
    """Where the C libraries are."""

    compile_flags: list[str]
    link_flags: list[str]
    bundled: list[Path]  # files to put into the wheel


def run(*command: str, **options: Any) -> str:
    """Run a command and return its output; a failure is a BuildError with that output."""
    try:
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options).stdout
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{shlex.join(command)} failed:\n{error.stdout}") from None


def version() -> str:
    text = (ROOT / "include/xcvm/xcvm.h").read_text()
    return ".".join(re.search(rf"XCVM_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


# ---- The C libraries ----


def needed_libraries(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(path)))


def find_shared(name: str) -> Path:
    """Return the file of a shared library that the dynamic linker would load."""
    for line in run("/sbin/ldconfig", "-p").splitlines():
        if line.strip().startswith(name + " "):
            return Path(line.split("=>")[1].strip())
    raise BuildError(f"{name} is not installed")


def linked_name(path: Path) -> str:
    """Return the name by which programs that are linked with a shared library look for it."""
    return re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "-dW", str(path)))[1]


def libraries_of_build(build: Path) -> Libraries:
    own = [build / linked_name(build / file) for file in LIBRARIES.values()]
    others = {name for path in own for name in needed_libraries(path)} - SYSTEM_LIBRARIES - {path.name for path in own}
    bundled = own + [find_shared(name) for name in sorted(others)]
    return Libraries([f"-I{ROOT / 'include'}", f"-I{build / 'generated'}"], [f"-L{build}"], bundled)


def has_libraries(build: Path) -> bool:
    return all((build / file).exists() for file in LIBRARIES.values())


def installed_libraries() -> Libraries | None:
    try:
        flags = run("pkg-config", "--cflags", "--libs", f"xcvm = {version()}", f"xcvm-compiler = {version()}").split()
    except BuildError:
        return None
    return Libraries([f for f in flags if f.startswith("-I")], [f for f in flags if f.startswith("-L")], [])


def build_libraries() -> Libraries:
    build = ROOT / "build/python"
    print(f"building the C libraries in {build}; this takes some minutes", file=sys.stderr)
    run("cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", "-DXCVM_TESTS=OFF")
    run("cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1), "--target", *LIBRARIES)
    return libraries_of_build(build)


def find_libraries() -> Libraries:
    named = os.environ.get("XCVM_BUILD")
    if named == "installed":
        found = installed_libraries()
        if found is None:
            raise BuildError(f"XCVM_BUILD=installed: pkg-config does not find xcvm and xcvm-compiler {version()}")
        return found
    if named is not None and not has_libraries(Path(named)):
        raise BuildError(f"XCVM_BUILD={named}: the directory has no {' or '.join(LIBRARIES.values())}")
    for build in [Path(named)] if named is not None else [ROOT / "build/release"]:
        if has_libraries(build.resolve()):
            return libraries_of_build(build.resolve())
    return installed_libraries() or build_libraries()


# ---- The extension modules ----


def compile_module(name: str, libraries: Libraries, rpath: str, to: Path, objects: Path) -> Path:
    """Compile an extension module to `to`/NAME.abi3.so. Installed libraries are found without `rpath`."""
    patterns, linked = MODULES[name]
    compiler = shlex.split(os.environ.get("CC", "cc"))
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    include = [f"-I{sysconfig.get_path('include')}", f"-I{HERE / 'src'}", *libraries.compile_flags]

    def compile_file(source: Path) -> str:
        target = objects / f"{name}-{source.stem}.o"
        run(*compiler, *FLAGS, *include, *extra, "-c", str(source), "-o", str(target))
        return str(target)

    sources = sorted(path for pattern in patterns for path in HERE.glob(pattern))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(pool.map(compile_file, sources))
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    suffix = sysconfig.get_config_var("EXT_SUFFIX") if free_threaded else ".abi3.so"
    output = to / f"{name}{suffix}"
    # DT_RPATH, unlike DT_RUNPATH, also serves the libraries that the bundled ones need.
    search = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"] if libraries.bundled else []
    link = ["-shared", *search, *extra, "-o", str(output)]
    run(*compiler, *link, *files, *libraries.link_flags, *(f"-l{library}" for library in linked))
    return output


def compile_modules(libraries: Libraries, rpath: str, to: Path) -> list[Path]:
    with tempfile.TemporaryDirectory() as objects:
        return [compile_module(name, libraries, rpath, to, Path(objects)) for name in MODULES]


# ---- The stub of xcvm.ops ----


def write_stub(extensions: list[Path], libraries: Libraries, package: Path) -> None:
    """Write `package`/ops.pyi, which the instructions of the extension module determine."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "xcvm")
        copy.mkdir()
        (copy / "__init__.py").touch()
        for path in [*extensions, HERE / "xcvm/ops.py", HERE / "xcvm/_context.py"]:
            (copy / path.name).symlink_to(path.resolve())
        paths = [str(path.parent) for path in libraries.bundled] + [os.environ.get("LD_LIBRARY_PATH", "")]
        environment = {**os.environ, "PYTHONPATH": folder, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths))}
        text = run(sys.executable, "-B", "-P", "-c", "from xcvm import ops; print(ops.stub(), end='')", env=environment)
    target = package / "ops.pyi"
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


# ---- The wheel ----


def newest_glibc(path: Path) -> tuple[int, ...]:
    """Return the newest version of glibc whose symbols a file uses."""
    versions = re.findall(r"Name: GLIBC_([0-9.]+)", run("readelf", "-VW", str(path)))
    return max((tuple(map(int, text.split("."))) for text in versions), default=(0,))


def check_portable(files: list[Path]) -> list[str]:
    """Return reasons why shared objects do not run on every system of glibc 2.34."""
    own = {path.name for path in files}
    reasons = []
    for path in files:
        newest = newest_glibc(path)
        if newest > GLIBC:
            reasons.append(f"{path.name} uses symbols of glibc {'.'.join(map(str, newest))}")
        for name in sorted(set(needed_libraries(path)) - SYSTEM_LIBRARIES - own):
            reasons.append(f"{path.name} needs {name}")
    return reasons


def wheel_tag(files: list[Path]) -> str:
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    reasons = check_portable(files)
    for reason in reasons:
        print(f"note: {reason}; the wheel is for this system", file=sys.stderr)
    if not reasons:
        machine = machine.replace("linux_", f"manylinux_{GLIBC[0]}_{GLIBC[1]}_", 1)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        return f"{python}-{python}t-{machine}"
    return f"cp311-abi3-{machine}"


def metadata() -> str:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    lines = {
        "Metadata-Version": "2.1",
        "Name": project["name"],
        "Version": version(),
        "Summary": project["description"],
        "License": project["license"]["text"],
        "Requires-Python": project["requires-python"],
        "Provides-Extra": "numpy",
        "Requires-Dist": "numpy; extra == 'numpy'",
        "Description-Content-Type": "text/markdown",
    }
    readme = (HERE / "README.md").read_text() if (HERE / "README.md").exists() else ""
    return "".join(f"{key}: {value}\n" for key, value in lines.items()) + "\n" + readme


class Wheel:
    """A wheel in the making: files and their record."""

    def __init__(self, directory: str, tag: str) -> None:
        self.stem = f"xcvm-{version()}"
        self.name = f"{self.stem}-{tag}.whl"
        self.tag = tag
        self.records: list[str] = []
        self.archive = zipfile.ZipFile(Path(directory) / self.name, "w", zipfile.ZIP_DEFLATED)

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(info, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(content)}")

    def finish(self) -> str:
        folder = f"{self.stem}.dist-info"
        self.add(f"{folder}/METADATA", metadata().encode())
        self.add(f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: xcvm\nRoot-Is-Purelib: false\nTag: {self.tag}\n".encode())
        self.add(f"{folder}/LICENSE", (ROOT / "LICENSE").read_bytes())
        self.records.append(f"{folder}/RECORD,,")
        self.archive.writestr(f"{folder}/RECORD", "\n".join(self.records) + "\n")
        self.archive.close()
        return self.name


def package_files() -> list[Path]:
    files = [path for path in (HERE / "xcvm").rglob("*") if path.suffix in {".py", ".pyi"} or path.name == "py.typed"]
    return sorted(files)


# ---- The hooks of PEP 517 and PEP 660 ----


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    libraries = find_libraries()
    with tempfile.TemporaryDirectory() as folder:
        extensions = compile_modules(libraries, "$ORIGIN/lib", Path(folder))
        shared = [*extensions, *libraries.bundled]
        write_stub(extensions, libraries, HERE / "xcvm")
        wheel = Wheel(wheel_directory, wheel_tag([path.resolve().with_name(path.name) for path in shared]))
        for path in package_files():
            wheel.add(str(path.relative_to(HERE)), path.read_bytes())
        for path in extensions:
            wheel.add(f"xcvm/{path.name}", path.read_bytes(), 0o755)
        for path in libraries.bundled:
            wheel.add(f"xcvm/lib/{path.name}", path.read_bytes(), 0o755)
        return wheel.finish()


def build_inplace() -> None:
    """Compile the extension modules into xcvm/, against the libraries where they are."""
    libraries = find_libraries()
    folder = libraries.bundled[0].parent if libraries.bundled else Path("/usr/lib")
    extensions = compile_modules(libraries, str(folder), HERE / "xcvm")
    write_stub(extensions, libraries, HERE / "xcvm")
    for path in extensions:
        print(path)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    build_inplace()
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("xcvm.pth", f"{HERE}\n".encode())
    return wheel.finish()


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    stem = f"xcvm-{version()}"
    with tarfile.open(Path(sdist_directory) / f"{stem}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in ["pyproject.toml", "backend.py", "README.md"]:
            if (HERE / name).exists():
                archive.add(HERE / name, f"{stem}/{name}")
        archive.add(HERE / "src", f"{stem}/src")
        for path in package_files():
            archive.add(path, f"{stem}/{path.relative_to(HERE)}")
        for name in C_TREE:
            if (ROOT / name).exists():
                archive.add(ROOT / name, f"{stem}/source/{name}")
        # The build includes the examples, of which a source distribution has none.
        for name, content in {"PKG-INFO": metadata().encode(), "source/examples/CMakeLists.txt": b""}.items():
            info = tarfile.TarInfo(f"{stem}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return f"{stem}.tar.gz"


if __name__ == "__main__":
    if sys.argv[1:] != ["inplace"]:
        sys.exit("usage: backend.py inplace")
    try:
        build_inplace()
    except BuildError as error:
        sys.exit(f"backend.py: {error}")
