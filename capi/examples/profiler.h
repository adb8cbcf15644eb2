/* A profiler that a program carries in itself: see profiler.c. */
#ifndef PROFILER_H
#define PROFILER_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

enum { PROFILER_MAX_DEPTH = 128 };

/* Why a walk ended. */
enum profiler_end {
    PROFILER_OUTERMOST,   /* the table says that there is no caller */
    PROFILER_NO_MODULE,   /* the PC is in no loaded file */
    PROFILER_NO_ROW,      /* the file's table has no row for the PC */
    PROFILER_NO_STEP,     /* the row needs memory that is not on the stack, or cannot be followed */
    PROFILER_NO_REGISTER, /* the row needs a register that no table restores for a caller */
    PROFILER_TOO_DEEP     /* there are more than PROFILER_MAX_DEPTH frames */
};

struct profiler_sample {
    size_t depth;
    enum profiler_end end;
    uint64_t pcs[PROFILER_MAX_DEPTH]; /* the interrupted PC, then return addresses */
};

/* Finds the tables of all loaded files, and makes those that are missing. Not in a signal handler. Returns the number of
 * files with a table; -1 if there is no memory. Call it again after dlopen. */
int profiler_find_tables(void);

/* Tells the profiler where the calling thread's stack lies. */
int profiler_enter_thread(void);

/* Walks the thread that a signal interrupted. Async-signal-safe. */
void profiler_walk(const void *ucontext, struct profiler_sample *sample);

/* The name of an end. */
const char *profiler_end_name(enum profiler_end end);

#endif
