// Code without call frame information, which keeps a frame pointer.
__attribute__((noinline)) void bare(void (*call)(void)) {
  volatile char room[40];
  room[0] = 1;
  call();
  room[1] = 2;
}
