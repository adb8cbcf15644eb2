#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
  void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  int (*exported)(int) = library ? (int (*)(int))dlsym(library, "exported") : NULL;
  if (!exported) {
    puts(dlerror());
    return 1;
  }
  printf("%d\n", exported(1));
  return 0;
}
