/* Loads and unloads files while all threads are sampled. Every walk is compared with libgcc's backtrace() in the same
 * handler. Arguments: the number of rounds, and the files. The files have the same addresses and other rows. */
#define _GNU_SOURCE
#include "profiler.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

enum { THREADS = 2, DEPTH = 256 };

typedef void call(void *data);
typedef void plugin(call *next, void *data);

static size_t complete, ended, silent, not_found, same_place;
static int stopped, has_refreshed = 1;

static void *last_place;

/* Compares a walk with the frames of libgcc. A walk that ends early has to say so. */
static void compare(void *context) {
    struct profiler_sample sample;
    void *theirs[DEPTH];
    size_t depth = (size_t)backtrace(theirs, DEPTH), at, k;
#if defined(__x86_64__)
    uint64_t pc = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
    uint64_t pc = ((ucontext_t *)context)->uc_mcontext.pc;
#endif
    profiler_walk(context, &sample);
    for (at = 0; at < depth && (uintptr_t)theirs[at] != pc; at++)
        ;
    if (at == depth) {
        __atomic_fetch_add(&not_found, 1, __ATOMIC_RELAXED);
        return;
    }
    for (k = 0; k < sample.depth && at + k < depth && sample.frames[k].pc == (uintptr_t)theirs[at + k]; k++)
        ;
    if (k < sample.depth && sample.frames[k].found_by < CFIPACK_FOUND_BY_FRAME_POINTER) {
        __atomic_fetch_add(&silent, 1, __ATOMIC_RELAXED);
    } else if (sample.end != CFIPACK_END_OUTERMOST && sample.end != CFIPACK_END_START) {
        __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    } else {
        __atomic_fetch_add(k == sample.depth && at + k < depth ? &silent : &complete, 1, __ATOMIC_RELAXED);
    }
}

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    compare(context);
}

/* The file's function calls this function, in which the thread samples itself once. */
static void in_file(void *data) {
    size_t before = complete;
    (void)data;
    raise(SIGUSR1);
    /* The walk goes through the file. */
    if (has_refreshed && __atomic_load_n(&complete, __ATOMIC_RELAXED) == before)
        abort();
}

static void *work(void *data) {
    char text[64];
    double sum = 0;
    profiler_enter_thread();
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
        snprintf(text, sizeof text, "%.17g", sum += 1.25);
        sum = strtod(text, (char **)data);
    }
    return NULL;
}

static int use(const char *path) {
    void *file = dlopen(path, RTLD_NOW);
    plugin *function;
    if (file == NULL)
        return -1;
    *(void **)&function = dlsym(file, "plugin_call");
    if (function == NULL || profiler_find_tables() < 0)
        return -1;
    same_place += *(void **)&function == last_place;
    last_place = *(void **)&function;
    function(in_file, NULL);
    return dlclose(file);
}

int main(int argc, char **argv) {
    int rounds = argc > 3 ? atoi(argv[1]) : 0, i, first = profiler_find_tables();
    struct sigaction action;
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[THREADS];
    void *warm[2];

    /* The first call of backtrace() loads libgcc. */
    backtrace(warm, 2);
    if (first < 2 || profiler_enter_thread() != 0 || profiler_find_tables() < first)
        return 2;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 2;
    setitimer(ITIMER_PROF, &every, NULL);
    for (i = 0; i < rounds; i++)
        /* In every second round the files change places with no refresh between them. */
        if (use(argv[2 + i % (argc - 2)]) != 0 || (i % 2 == 0 && profiler_find_tables() < first))
            return 3;
    setitimer(ITIMER_PROF, &never, NULL);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("rounds %d at the same place %zu, complete %zu ended %zu not found %zu silent %zu\n", rounds, same_place,
           complete, ended, not_found, silent);
    return silent != 0;
}
