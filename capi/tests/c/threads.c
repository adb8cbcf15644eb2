/* Three hundred threads end, and only some of them leave the profiler first. Then another thread is sampled like
 * the first: every walk reaches the start of its stack. At last a stack overflows, and its walk reaches the start too. */
#define _GNU_SOURCE
#include "profiler.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 300, SAMPLES = 20, NUM_ENDS = CFIPACK_END_NOT_CODE + 1 };

static int entered, failed;
static unsigned samples, complete, ends[NUM_ENDS];
static volatile unsigned long sum;

static void on_sample(int number, siginfo_t *info, void *context) {
    static struct profiler_sample sample;
    (void)number;
    (void)info;
    profiler_walk(context, &sample);
    samples++;
    ends[sample.end]++;
    complete += sample.end == CFIPACK_END_OUTERMOST && sample.depth >= 2;
}

static void *brief(void *leaves) {
    if (profiler_enter_thread() != 0)
        failed++;
    entered++;
    if (leaves != NULL)
        profiler_leave_thread();
    return NULL;
}

static void *busy(void *unused) {
    sigset_t signals;
    (void)unused;
    if (profiler_enter_thread() != 0)
        failed++;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPROF);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    while (__atomic_load_n(&samples, __ATOMIC_RELAXED) < SAMPLES)
        sum += sum * 3 + 1;
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return NULL;
}

/* Its frame is larger than a page: the stack pointer is below the stack when the stack overflows. */
static int deep(int depth) {
    volatile char bytes[20000];
    bytes[0] = (char)depth;
    __asm__ volatile("" : : "r"(bytes) : "memory"); /* so that the recursion becomes no loop */
    return depth == 1000 ? 0 : deep(depth + 1) + bytes[0];
}

static void on_overflow(int number, siginfo_t *info, void *context) {
    static struct profiler_sample sample;
    (void)number;
    (void)info;
    profiler_walk(context, &sample);
    _exit(sample.end != CFIPACK_END_OUTERMOST || sample.depth < 10);
}

static void *overflow(void *result) {
    static char handlers[65536];
    const stack_t stack = {handlers, 0, sizeof handlers};
    if (profiler_enter_thread() == 0 && sigaltstack(&stack, NULL) == 0)
        *(int *)result = deep(0);
    return NULL;
}

int main(void) {
    struct sigaction action;
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t signals;
    size_t i;
    int result;

    if (profiler_find_tables() < 2)
        return 2;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sample;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    /* Only the busy thread is sampled. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, brief, i % 2 == 0 ? &thread : NULL) != 0 || pthread_join(thread, NULL) != 0)
            return 2;
    setitimer(ITIMER_PROF, &every, NULL);
    if (pthread_create(&thread, NULL, busy, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    setitimer(ITIMER_PROF, &never, NULL);
    printf("threads %d failed %d samples %u complete %u\n", entered, failed, samples, complete);
    for (i = 0; i < NUM_ENDS; i++)
        if (ends[i] != 0)
            printf("%s: %u\n", cfipack_end_text((uint32_t)i), ends[i]);
    if (entered != THREADS || failed != 0 || complete != samples)
        return 1;
    fflush(stdout);
    action.sa_sigaction = on_overflow;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 262144);
    pthread_attr_setguardsize(&attributes, 65536);
    if (pthread_create(&thread, &attributes, overflow, &result) == 0)
        pthread_join(thread, NULL);
    return 3;
}
