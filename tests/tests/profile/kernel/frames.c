// Calls of many shapes; the Nth point that is reached ends the program, whose memory the emulator then writes out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int left;

__attribute__((noinline)) void point(void) {
  if (--left == 0) abort();
}

void bare(void (*call)(void));

// A frame of variable size: the CFA is found by the frame pointer.
__attribute__((noinline)) int variable(int n, int *from) {
  int room[n + 1];
  room[n] = *from;
  point();
  int sum = n == 0 ? 0 : variable(n - 1, &room[n]);
  return sum + room[n];
}

// A frame that is aligned beyond the ABI's: on x86-64 the CFA is found in memory.
__attribute__((noinline)) int aligned(int n) {
  _Alignas(128) char block[256];
  char variable_block[n];
  memset(block, n, sizeof block);
  memset(variable_block, n, (size_t)n);
  point();
  bare(point);
  return block[n] + variable_block[n - 1];
}

static int compare(const void *a, const void *b) {
  point();
  return *(const int *)a - *(const int *)b;
}

static int tail(int n) { return n > 100 ? n : aligned(n) + 1; }

static void at_exit(void) { point(); }

int main(int argc, char **argv) {
  left = argc > 1 ? atoi(argv[1]) : 0;
  atexit(at_exit);
  int numbers[] = {5, 3, 9, 1, argc};
  qsort(numbers, 5, sizeof numbers[0], compare);
  printf("%d\n", variable(3, numbers) + tail(17));
  return 0;
}
