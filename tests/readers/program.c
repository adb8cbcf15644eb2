/* Walks its own stack, or stops so that another program walks it: main calls base, base calls outer, outer calls the function of the
 * construct or the one beside it, which calls leaf.
 *
 *   program MODE [beside]
 *
 * MODE is the file of an unwinder, which walks, or what leaf does: "pause", "trap", "yield" (a system call), "spin" (a second).
 * Each line of output is a word, and a name or registers as NAME=HEXADECIMAL: "truth" has the registers of outer as they are
 * there, "frame" the name of a function, and "registers" those of outer as the unwinder has them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char base[], base_end[], outer[], outer_end[], mid[], mid_end[], beside[], beside_end[];
void call_base(void (*called)(void)) __asm__("base");
void call_mid(void) __asm__("mid");
void call_beside(void) __asm__("beside");

#ifdef __x86_64__
#define PAUSE "1: syscall; jmp 1b" : : "a"(34) : "rcx", "r11", "memory"
#define TRAP "ud2"
#define YIELD "syscall" : : "a"(24) : "rcx", "r11", "memory"
static const struct { const char *name; int column; } registers[7] = {
  {"rsp", 7}, {"rbx", 3}, {"rbp", 6}, {"r12", 12}, {"r13", 13}, {"r14", 14}, {"r15", 15}};
#else
#define PAUSE ""
#define TRAP "udf 0"
#define YIELD ""
static const struct { const char *name; int column; } registers[7] = {
  {"sp", 31}, {"x19", 19}, {"x29", 29}, {"x20", 20}, {"x21", 21}, {"x22", 22}, {"x23", 23}};
#endif
/* What outer's registers have in outer. */
unsigned long truth[7];
/* Room for a search table that the linker does not write. */
const char table[4096] __attribute__((aligned(8))) = {1};

static const char *mode;

static int (*backtrace_of)(int (*)(void *, void *), void *);
static unsigned long (*ip_of)(void *), (*gr_of)(void *, int), (*cfa_of)(void *);

static const char *name_of(unsigned long pc) {
  static const struct { const char *name; char *start, *end; } functions[] = {
    {"base", base, base_end}, {"outer", outer, outer_end}, {"mid", mid, mid_end}, {"beside", beside, beside_end}};
  for (int i = 0; i < 4; i++)
    if ((unsigned long)functions[i].start < pc && pc <= (unsigned long)functions[i].end) return functions[i].name;
  return "?";
}

static int frame(void *context, void *number) {
  const char *name = name_of(ip_of(context));
  printf("frame %s\n", name);
  if (!strcmp(name, "outer")) {
    printf("registers %s=%lx", registers[0].name, cfa_of(context));
    for (int i = 1; i < 7; i++) printf(" %s=%lx", registers[i].name, gr_of(context, registers[i].column));
    puts("");
  }
  /* The unwinder's own frames, leaf, and up to six more. */
  return ++*(int *)number < 9 ? 0 : 4;
}

/* HP's libunwind has an interface of its own, by which its newer versions are all that can be called. Its columns are DWARF's. */
static int (*get_context)(void *), (*start)(void *, void *), (*step)(void *), (*get)(void *, int, unsigned long *);

static unsigned long hp_gr_of(void *cursor, int column) {
  unsigned long value = 0;
  return get(cursor, column, &value) ? 0 : value;
}
static unsigned long hp_ip_of(void *cursor) { return hp_gr_of(cursor, 16); }
static unsigned long hp_cfa_of(void *cursor) { return hp_gr_of(cursor, 7); }

__attribute__((noinline)) void leaf(void) {
  int number = 0;
  printf("truth");
  for (int i = 0; i < 7; i++) printf(" %s=%lx", registers[i].name, truth[i]);
  puts("");
  fflush(stdout);
  if (!strcmp(mode, "pause")) __asm__ volatile(PAUSE);
  else if (!strcmp(mode, "trap")) __asm__ volatile(TRAP);
  else if (!strcmp(mode, "yield")) __asm__ volatile(YIELD);
  else if (!strcmp(mode, "spin")) for (clock_t end = clock() + CLOCKS_PER_SEC / 4; clock() < end;) for (volatile int i = 0; i < 100000; i++);
  else if (backtrace_of) backtrace_of(frame, &number);
  else {
    static unsigned long context[512], cursor[512];
    get_context(context);
    start(cursor, context);
    while (step(cursor) > 0 && !frame(cursor, &number)) continue;
  }
  fflush(stdout);
}

int main(int count, char **arguments) {
  mode = arguments[1];
  if (*mode == '/') {
    void *library = dlopen(mode, RTLD_NOW);
    if (!library) { puts(dlerror()); return 2; }
    *(void **)&get_context = dlsym(library, "_Ux86_64_getcontext");
    *(void **)&start = dlsym(library, "_ULx86_64_init_local");
    *(void **)&step = dlsym(library, "_ULx86_64_step");
    *(void **)&get = dlsym(library, "_ULx86_64_get_reg");
    ip_of = hp_ip_of, gr_of = hp_gr_of, cfa_of = hp_cfa_of;
    if (!step) {
      *(void **)&backtrace_of = dlsym(library, "_Unwind_Backtrace");
      *(void **)&ip_of = dlsym(library, "_Unwind_GetIP");
      *(void **)&gr_of = dlsym(library, "_Unwind_GetGR");
      *(void **)&cfa_of = dlsym(library, "_Unwind_GetCFA");
    }
  }
  call_base(count > 2 ? call_beside : call_mid);
  return 0;
}
