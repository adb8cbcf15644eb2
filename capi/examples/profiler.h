/* A profiler inside a program: see profiler.c. */
#ifndef PROFILER_H
#define PROFILER_H

#include "cfipack.h"

enum { PROFILER_MAX_DEPTH = 128 };

struct profiler_sample {
    size_t depth;
    uint32_t end; /* CFIPACK_END_..., which cfipack_end_text names */
    struct cfipack_frame frames[PROFILER_MAX_DEPTH]; /* innermost first */
};

/* Finds or makes the tables of all loaded files, but not in a signal handler. Returns the number of files with a table,
 * or -1 if another thread is in this function, or in a child after fork. Call it again after each dlopen and each
 * dlclose. */
int profiler_find_tables(void);

/* Tells the profiler the bounds of the calling thread's stack. Returns 0, or -1 if the system does not know the
 * stack or has no memory. Without this call, samples of the thread have one frame. */
int profiler_enter_thread(void);

/* Frees the profiler's data of the calling thread. The end of a thread does this too, so it is for threads that go on. */
void profiler_leave_thread(void);

/* Walks the thread that a signal interrupted. Async-signal-safe. */
void profiler_walk(const void *ucontext, struct profiler_sample *sample);

#endif
