# Tests of unwind tables, for lit: lit -v lit
#
# AS=COMMAND         the assembler, which writes .sframe: "as --gsframe" without it, of binutils 2.40 or later
# OTHER_AS=COMMAND   another one, for two-assemblers.s, which is unsupported without it
# LIT_OUTPUT=DIR     where outputs go, Output in this directory without it
import os
import shutil

import lit.formats

config.name = "tables"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".s"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.environ.get("LIT_OUTPUT", config.test_source_root)
config.environment["PATH"] = os.environ["PATH"]

# LLVM's FileCheck, or filecheck of the package of that name.
filecheck = os.environ.get("FILECHECK") or shutil.which("FileCheck") or "filecheck"
config.substitutions.append(("%as", os.environ.get("AS", "as --gsframe")))
config.substitutions.append(("%filecheck", filecheck))
if "OTHER_AS" in os.environ:
    config.available_features.add("other-as")
    config.substitutions.append(("%other_as", os.environ["OTHER_AS"]))
