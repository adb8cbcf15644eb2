/* The other half of recursive.c, or a library of its own. */
#include <stdlib.h>

static int smaller(int depth) { return depth < 2 ? 1 : 2; }
static int (*const next[])(int) = {smaller, abs};

int shared_depth(int depth) {
  int (*volatile call)(int) = next[depth & 1];
  return depth <= 0 ? call(depth) : shared_depth(depth - 1) + call(depth);
}
