#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int initialised = 40;
static __thread int zeroed[100];
static const char *const names[] = {"first", "second", "third"};

static int add_one(int number) { return number + 1; }
static int add_two(int number) { return number + 2; }
static int (*choose(void))(int) { return sizeof(void *) == 8 ? add_two : add_one; }
int indirect(int) __attribute__((ifunc("choose")));

static int compare(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

int main(int count, char **arguments) {
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof *numbers, compare);
  initialised = indirect(initialised);
  zeroed[3] = numbers[0];
  char *memory = malloc(300000);
  memset(memory, numbers[1], 300000);
  printf("%d %d %s %d %s\n", initialised, zeroed[3], names[numbers[1]], memory[299999], arguments[count - 1]);
  free(memory);
  return 7;
}
