// A program without a C library, which linkers can put into one segment (`-N`).

static long call(long number, long first, const void *second, long third) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
  return result;
}

static int counter = 3;
static char blank[100];

__attribute__((noinline)) static int add(int number) {
  volatile int copy[20];
  copy[0] = number + counter + blank[50];
  return copy[number & 0];
}

__attribute__((noinline)) int run(void) {
  call(1, 1, "freestanding\n", 13);
  return add(2);
}

void _start(void) {
  call(60, run(), 0, 0);
  __builtin_unreachable();
}
