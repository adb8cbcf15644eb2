#include <stdio.h>

__thread int local = 3;
static const char *const names[] = {"one", "two"};

int shared(int x) { return x + local; }

int main(int count, char **arguments) { return printf("%s %d\n", names[count & 1], shared(count)) < 0; }
