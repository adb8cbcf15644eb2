/* A program with several threads that profiles itself: prints how many samples it took, how deep, and why walks ended. */
#define _GNU_SOURCE
#include "profiler.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { NUM_THREADS = 4, NUM_SAMPLES = 1 << 14, NUM_ENDS = CFIPACK_END_NOT_CODE + 1 };

static struct profiler_sample samples[NUM_SAMPLES];
static size_t num_samples;
static int stopped;

/* The handler takes a place in the array, and fills it. */
static void on_sample(int number, siginfo_t *info, void *context) {
    size_t place = __atomic_fetch_add(&num_samples, 1, __ATOMIC_RELAXED);
    (void)number;
    (void)info;
    if (place < NUM_SAMPLES)
        profiler_walk(context, &samples[place]);
}

static double recurse(int depth, double value) {
    volatile double kept = value;
    if (depth == 0)
        return sin(value) + 1;
    return recurse(depth - 1, kept + 0.5) * 0.999 + kept;
}

static int compare(const void *a, const void *b) {
    const int *first = a, *second = b;
    return (*first > *second) - (*first < *second);
}

/* Threads whose stack the profiler knows. The samples of other threads end at their first frame. */
static size_t num_working;

/* Calls back from the C library, allocates, and recurses. */
static void *work(void *data) {
    unsigned seed = (unsigned)(size_t)data;
    double sum = 0;
    profiler_enter_thread();
    __atomic_fetch_add(&num_working, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
        size_t i, count = 200 + seed % 800;
        int *numbers = malloc(count * sizeof *numbers);
        char text[64];
        for (i = 0; i < count; i++)
            numbers[i] = (int)(seed = seed * 1103515245 + 12345);
        qsort(numbers, count, sizeof *numbers, compare);
        snprintf(text, sizeof text, "%.17g %d", sum, numbers[0]);
        sum = recurse((int)(seed % 30), strtod(text, NULL) / 1e9);
        free(numbers);
    }
    return NULL;
}

int main(int argc, char **argv) {
    size_t wanted = argc > 1 ? strtoul(argv[1], NULL, 0) : 2000, i, k, frames = 0, guessed = 0, ends[NUM_ENDS] = {0};
    struct sigaction action;
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[NUM_THREADS];

    profiler_enter_thread();
    printf("%d files with tables\n", profiler_find_tables());
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sample;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    for (i = 0; i < NUM_THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0)
            return 1;
    while (__atomic_load_n(&num_working, __ATOMIC_ACQUIRE) < NUM_THREADS)
        ;
    setitimer(ITIMER_PROF, &every, NULL);
    if (wanted > NUM_SAMPLES)
        wanted = NUM_SAMPLES;
    while (__atomic_load_n(&num_samples, __ATOMIC_RELAXED) < wanted)
        ;
    setitimer(ITIMER_PROF, &never, NULL);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
    for (i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (i = 0; i < wanted; i++) {
        frames += samples[i].depth;
        for (k = 0; k < samples[i].depth; k++)
            guessed += samples[i].frames[k].found_by >= CFIPACK_FOUND_BY_FRAME_POINTER;
        ends[samples[i].end]++;
    }
    printf("%zu samples, %.1f frames each\n", wanted, (double)frames / (double)wanted);
    printf("%zu found by frame pointers\n", guessed);
    for (i = 0; i < NUM_ENDS; i++)
        if (ends[i] != 0)
            printf("%s: %zu\n", cfipack_end_text((uint32_t)i), ends[i]);
    return 0;
}
