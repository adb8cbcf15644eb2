/* A profiler that a program carries in itself: see profiler.c. */
#ifndef PROFILER_H
#define PROFILER_H

#include "cfipack.h"

enum { PROFILER_MAX_DEPTH = 128 };

struct profiler_sample {
    size_t depth;
    uint32_t end; /* CFIPACK_END_..., which cfipack_end_text names */
    struct cfipack_frame frames[PROFILER_MAX_DEPTH]; /* innermost first */
};

/* Finds the tables of all loaded files, and makes those that are missing. Not in a signal handler. Returns the number of
 * files with a table; -1 if there is no memory. Call it again after dlopen, and after dlclose before the next sample. */
int profiler_find_tables(void);

/* Tells the profiler where the calling thread's stack lies. 0; -1 if the system does not know, or has no memory. Samples
 * of a thread that has not called it have one frame. */
int profiler_enter_thread(void);

/* Frees what the profiler knows of the calling thread. The end of a thread does the same: call it where a thread lives on. */
void profiler_leave_thread(void);

/* Walks the thread that a signal interrupted. Async-signal-safe. */
void profiler_walk(const void *ucontext, struct profiler_sample *sample);

#endif
