# Runs the patch's tests as lld's own suite runs its tests. Parameters: `linker`, `tests` (their directory) and `out`.

import os

import lit.formats

config.name = "lld"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".s"]
config.test_source_root = lit_config.params["tests"]
config.test_exec_root = lit_config.params["out"]
config.available_features.update(["x86", "aarch64", "sframe"])
tools = [os.path.dirname(lit_config.params["linker"]), "/usr/lib/llvm-22/bin"]
config.environment["PATH"] = os.pathsep.join(tools + [os.environ["PATH"]])
