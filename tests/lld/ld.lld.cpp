// lld with its driver for ELF alone.

#include "lld/Common/Driver.h"
#include "lld/Common/ErrorHandler.h"
#include "llvm/Support/InitLLVM.h"

LLD_HAS_DRIVER(elf)

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  std::vector<const char *> args(argv, argv + argc);
  lld::Result result = lld::lldMain(args, llvm::outs(), llvm::errs(),
                                    {{lld::Gnu, &lld::elf::link}});
  lld::exitLld(result.retCode);
}
