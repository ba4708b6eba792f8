# SPDX-License-Identifier: Apache-2.0
"""libllm for Conan 2: conan create packaging/conan, from the root of the source."""
import pathlib
import re

from conan import ConanFile
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

PARTS = ("meson.build", "meson_options.txt", "LICENSE", "include/*", "src/*", "transports/*", "tools/*", "packaging/*", "docs/meson.build",
         "docs/man/*")


class Libllm(ConanFile):
    name = "libllm"
    license = "Apache-2.0"
    description = "Brokerless reliable multicast messaging"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "library"
    options = {"shared": [True, False], "roce": [True, False], "uring": [True, False], "keys": [True, False]}
    default_options = {"shared": True, "roce": False, "uring": True, "keys": True}

    def set_version(self):
        text = pathlib.Path(self.recipe_folder, "..", "..", "meson.build").read_text(encoding="utf-8")
        self.version = re.search(r"version: '([\d.]+)'", text).group(1)

    def export_sources(self):
        for part in PARTS:
            copy(self, part, src=pathlib.Path(self.recipe_folder, "..", ".."), dst=self.export_sources_folder)

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux":
            raise RuntimeError("libllm runs on Linux only")

    def layout(self):
        basic_layout(self)

    # The libraries of the system, with their headers: libxxhash, and those of the features.
    def generate(self):
        toolchain = MesonToolchain(self)
        for name in ("tests", "bench", "examples"):
            toolchain.project_options[name] = "false"
        for name in ("roce", "uring", "keys"):
            toolchain.project_options[name] = "enabled" if self.options.get_safe(name) else "disabled"
        # A package does not depend on what the host that builds it happens to have.
        toolchain.project_options["ipsec_mb"] = "disabled"
        toolchain.generate()
        PkgConfigDeps(self).generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        Meson(self).install()
        copy(self, "LICENSE", src=self.source_folder, dst=pathlib.Path(self.package_folder, "licenses"))
        unwanted = "*.a" if self.options.shared else "*.so*"
        for path in pathlib.Path(self.package_folder, "lib").rglob(unwanted):
            path.unlink()

    def package_info(self):
        self.cpp_info.libs = ["llm"]
        self.cpp_info.set_property("pkg_config_name", "llm")
        self.cpp_info.set_property("cmake_file_name", "llm")
        self.cpp_info.set_property("cmake_target_name", "llm::llm")
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "m", "dl", *(["uring"] if self.options.uring else []), *(["crypto"] if self.options.keys else []),
                                         *(["ibverbs", "rdmacm"] if self.options.roce else [])]
