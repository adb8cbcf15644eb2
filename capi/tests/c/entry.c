/* The program's entry has no CFI, and functions with CFI follow it directly. Walks go through these functions to the
 * entry, as libgcc's backtraces do. If THROUGH is 1, another function without CFI is between them: walks end there, as
 * libgcc's do, and say that callers may be missing. If EARLY is 1, the tables are found for the first time before the
 * program has started, as a preloaded library finds them. */
#define _GNU_SOURCE
#include "profiler.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

void program_main(long *arguments);
int outer(int number);
extern int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

__asm__(".text\n.globl program_entry\n.type program_entry,@function\n"
        "program_entry: xor %ebp,%ebp\n mov %rsp,%rdi\n and $-16,%rsp\n"
#if THROUGH
        "call through\n hlt\n through: sub $8,%rsp\n"
#endif
        "call program_main\n hlt\n"
        ".size program_entry,.-program_entry\n");

static void *theirs[MOST];
static int num_theirs;
static struct profiler_sample sample;

__attribute__((noinline)) static int inner(int number) {
    return raise(SIGPROF) + number;
}

__attribute__((noinline)) int outer(int number) {
    return inner(number + 1) + 1;
}

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    profiler_walk(context, &sample);
    num_theirs = backtrace(theirs, MOST);
}

#if EARLY
static void find_early(void) {
    profiler_find_tables();
}

/* The loader calls this function before it enters the program. */
__attribute__((used, section(".preinit_array"))) static void (*const early)(void) = find_early;
#endif

static int run(int count, char **arguments, char **environment) {
    struct sigaction action;
    size_t ours = 0;
    int at = 0, round;
    (void)count;
    (void)arguments;
    (void)environment;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGPROF, &action, NULL);
    if (profiler_enter_thread() != 0 || profiler_find_tables() < 2)
        return 2;
    for (round = 0; round < 2; round++)
        outer(round);
    while (at < num_theirs && (uint64_t)theirs[at] != sample.frames[0].pc)
        at++;
    while (ours < sample.depth && at < num_theirs && (uint64_t)theirs[at] == sample.frames[ours].pc)
        at++, ours++;
    printf("frames %zu, theirs left %d, end: %s\n", ours, num_theirs - at, cfipack_end_text(sample.end));
    return ours != sample.depth || at != num_theirs || sample.end != (THROUGH ? CFIPACK_END_GUESSED_NULL : CFIPACK_END_START);
}

void program_main(long *arguments) {
    __libc_start_main(run, (int)arguments[0], (char **)(arguments + 1), NULL, NULL, NULL, arguments);
}
