/* Frames of the common kinds, in C, in three files: callbacks through the C library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int recursive(int depth);

static int by_value(const void *one, const void *other) {
  return *(const int *)one - *(const int *)other;
}

int main(int count, char **arguments) {
  int numbers[64];
  for (int at = 0; at < 64; at++) numbers[at] = (at * 37 + count) % 64;
  qsort(numbers, 64, sizeof *numbers, by_value);
  char text[32];
  snprintf(text, sizeof text, "%d", recursive(10));
  printf("%s %zu %d %d %s\n", text, strlen(text), numbers[0], numbers[63], arguments[0] ? "named" : "nameless");
  return 0;
}
