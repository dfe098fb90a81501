"""Builds the two native pieces: `libaneforge_ep` (plain shared library: no Python symbol, loadable by ONNX Runtime and by
any C program) and `_native` (thin pybind11 module that opens the very same file). Everything else is in pyproject.toml.

Environment: CC/CXX choose the compiler; ANEFORGE_WERROR=1 makes warnings errors; ANEFORGE_SANITIZE=address,undefined builds
with sanitizers; ANEFORGE_DEBUG=1 builds with -O0 -g.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
MACOS = sys.platform == "darwin"
LIBRARY = "aneforge.libaneforge_ep"
SUFFIX = ".dylib" if MACOS else ".so"

# -ffp-contract=off: products and sums are rounded where the source says so, on every machine (same results everywhere).
FLAGS = ["-std=c++17", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-Inative"]
FLAGS += ["-O0", "-g"] if os.environ.get("ANEFORGE_DEBUG") else ["-O3", "-g0"]
if os.environ.get("ANEFORGE_WERROR"):
    FLAGS.append("-Werror")
LINK: list[str] = []
if sanitize := os.environ.get("ANEFORGE_SANITIZE"):
    FLAGS += [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-g"]
    LINK.append(f"-fsanitize={sanitize}")
# Three exported symbols and no other: two that ONNX Runtime asks for, and the table of the C API.
EXPORTS = ROOT / "native" / "ep"
LINK_LIBRARY = (
    ["-dynamiclib", f"-Wl,-exported_symbols_list,{EXPORTS / 'exports.txt'}"]
    if MACOS
    else ["-pthread", "-ldl", f"-Wl,--version-script={EXPORTS / 'exports.map'}"]
)


def sources(*folders: str) -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for f in folders for p in (ROOT / "native" / f).rglob("*.cc"))


def headers() -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for e in ("*.h", "*.inl") for p in (ROOT / "native").rglob(e))


class BuildNative(build_ext):
    def build_extension(self, ext: Extension) -> None:
        if ext.name == "aneforge._native":
            import pybind11

            ext.include_dirs.append(pybind11.get_include())
        # distutils takes the C compiler for everything; the sources are C++ and the link needs libstdc++ / libc++.
        if hasattr(self.compiler, "compiler_cxx") and self.compiler.compiler_cxx:
            cxx = os.environ.get("CXX", "").split() or list(self.compiler.compiler_cxx)
            self.compiler.set_executable(
                "compiler_so", [*cxx, *[f for f in self.compiler.compiler_so[1:] if f != cxx[-1]]]
            )
            self.compiler.set_executable("compiler_so_cxx", self.compiler.compiler_so)
        compile_all = self.compiler.compile

        def compile_in_parallel(files: list[str], **kw: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [obj for objs in pool.map(lambda f: compile_all([f], **kw), files) for obj in objs]

        self.compiler.compile = compile_in_parallel
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_all

    def get_ext_filename(self, name: str) -> str:
        # A plain library: no Python ABI tag in its name.
        if name.rsplit(".", maxsplit=1)[-1] == "libaneforge_ep":
            return os.path.join(*name.split(".")) + SUFFIX
        return super().get_ext_filename(name)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


def extension(name: str, folders: list[str], link: list[str]) -> Extension:
    return Extension(
        name,
        sources(*folders),
        depends=headers(),
        language="c++",
        extra_compile_args=FLAGS,
        extra_link_args=[*LINK, *link],
    )


setup(
    ext_modules=[
        # Dynamic linker: ORT opens this file by path; nothing links against it.
        extension(LIBRARY, ["core", "mil", "host", "runtime", "coreml", "ep"], LINK_LIBRARY),
        extension("aneforge._native", ["python"], [] if MACOS else ["-ldl"]),
    ],
    cmdclass={"build_ext": BuildNative},
)
