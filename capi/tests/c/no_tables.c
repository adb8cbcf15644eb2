/* A chain of calls alternates between code with tables and code with frame pointers. Each function stores its
 * return address. A walk from a signal at the end of the chain must find these addresses, each in the right way. */
#define _GNU_SOURCE
#include "profiler.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { LINKS = 7 };

void *addresses[LINKS];
int links;

void bare_outer(void (*next)(int), int depth);
void bare_inner(void (*next)(int), int depth);

static struct profiler_sample with, unbounded;

/* Walks twice from the same context: with the bounds of the thread's stack, and without them. */
static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    profiler_walk(context, &with);
    profiler_leave_thread();
    profiler_walk(context, &unbounded);
}

static __attribute__((noinline)) void described(int depth) {
    addresses[links++] = __builtin_return_address(0);
    if (depth == 0) {
        raise(SIGUSR1);
    } else {
        (depth % 2 != 0 ? bare_outer : bare_inner)(described, depth - 1);
    }
    __asm__ volatile("" ::: "memory");
}

/* Returns the index of the first return address in the sample, or the sample's depth if the chain is not there. */
static size_t place_of_chain(const struct profiler_sample *sample) {
    size_t at;
    int i;
    for (at = 0; at + LINKS <= sample->depth; at++) {
        for (i = 0; i < LINKS && sample->frames[at + i].pc == (uintptr_t)addresses[LINKS - 1 - i]; i++)
            ;
        if (i == LINKS)
            return at;
    }
    return sample->depth;
}

int main(void) {
    struct sigaction action;
    size_t at, i;
    int wrong = 0;

    if (profiler_find_tables() < 2 || profiler_enter_thread() != 0)
        return 2;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, NULL);
    described(3);
    at = place_of_chain(&with);
    printf("links %d, found at %zu of %zu frames, end: %s\n", links, at, with.depth, cfipack_end_text(with.end));
    for (i = 0; i < with.depth; i++)
        printf("  %#llx by %d\n", (unsigned long long)with.frames[i].pc, with.frames[i].found_by);
    if (at == with.depth || with.end != CFIPACK_END_OUTERMOST)
        return 1;
    /* described, bare, described, bare, described, bare, described: a frame pointer finds the callers of bare
     * functions, and a table finds all other frames. All after the first one say so. */
    for (i = at; i < with.depth; i++) {
        int is_bare = i < at + LINKS && (i - at) % 2 == 1;
        wrong += with.frames[i].found_by != (is_bare   ? CFIPACK_FOUND_BY_FRAME_POINTER
                                             : i == at ? CFIPACK_FOUND_BY_TABLE
                                                       : CFIPACK_FOUND_BY_TABLE_AFTER_GUESS);
    }
    for (i = 0; i < at; i++)
        wrong += with.frames[i].found_by >= CFIPACK_FOUND_BY_FRAME_POINTER;
    /* Without the bounds of the stack the memory is unknown, and there is one frame. */
    wrong += unbounded.depth != 1 || unbounded.end != CFIPACK_END_MEMORY;
    printf("wrong %d\n", wrong);
    return wrong != 0;
}
