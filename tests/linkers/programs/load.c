/* Loads the library that it is given and calls it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
  void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  unsigned long (*squares)(unsigned) = library ? dlsym(library, "squares") : NULL;
  if (!squares) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  printf("%lu\n", squares(200));
  return 0;
}
