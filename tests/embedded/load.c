/* Loads a shared library with all its symbols, as programs do. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int failed = argc != 2 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    puts(failed ? dlerror() : "loaded");
    fflush(stdout);
    /* Without the destructors of a library that nothing has initialised. */
    _exit(failed);
}
