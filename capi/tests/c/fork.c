/* Changes a registry while threads that look up rows vanish inside their lookups: in a child after fork, and when
 * they are cancelled. No change may wait for such a thread. A signal handler looks rows up all the time.
 *
 * usage: fork FORKS */
#define _GNU_SOURCE
#include "cfipack.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 200, SIZE = 256, THREADS = 4, CHANGES = 300, SECONDS = 20 };

static const uint64_t base = 0x10000;
static struct cfipack_registry *registry;
static struct cfipack_registry_reader *reader;
static volatile sig_atomic_t wrong;
static char is_added[SLOTS];
static uint64_t state = 5;

static unsigned next(uint64_t *random, unsigned end) {
    *random = *random * 6364136223846793005u + 1;
    return (unsigned)(*random >> 40) % end;
}

/* Looks a slot up. Returns 1 if it is found; every row that is found must be the slot's own. */
static int find(unsigned slot) {
    struct cfipack_row row;
    if (cfipack_registry_lookup(reader, base + slot * SIZE + 20, &row) != CFIPACK_STATUS_OK)
        return 0;
    if (row.cfa.offset != 16 + 8 * (int64_t)slot)
        wrong = 1;
    return 1;
}

static void *look_up(void *seed) {
    uint64_t random = (uintptr_t)seed;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        find(next(&random, SLOTS));
    return NULL;
}

static void on_signal(int number) {
    unsigned slot;
    (void)number;
    for (slot = 0; slot < SLOTS; slot += 17)
        find(slot);
}

static void add(unsigned slot) {
    struct cfipack_directive directive;
    struct cfipack_region *region;
    memset(&directive, 0, sizeof directive);
    directive.offset = 1;
    directive.kind = CFIPACK_CFI_DEF_CFA_OFFSET;
    directive.value = 16 + 8 * (int64_t)slot;
    if (cfipack_region_new(&region, CFIPACK_ARCH_AMD64, base + slot * SIZE, SIZE, NULL) != CFIPACK_STATUS_OK ||
        cfipack_region_push(region, "f", 0, 200, &directive, 1) != CFIPACK_STATUS_OK ||
        cfipack_registry_add(registry, region, NULL, NULL) != CFIPACK_STATUS_OK)
        _exit(3);
    cfipack_region_free(region);
}

static void change(unsigned count) {
    while (count-- > 0) {
        unsigned slot = next(&state, SLOTS);
        if (!is_added[slot])
            add(slot);
        else if (cfipack_registry_remove(registry, base + slot * SIZE) != CFIPACK_STATUS_OK)
            _exit(4);
        is_added[slot] = !is_added[slot];
        if (find(slot) != is_added[slot])
            _exit(5);
    }
}

int main(int argc, char **argv) {
    int number, forks = argc > 1 ? atoi(argv[1]) : 60;
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[THREADS];
    size_t size;
    if (cfipack_registry_new(&registry, CFIPACK_ARCH_AMD64, NULL) != CFIPACK_STATUS_OK ||
        cfipack_registry_reader_new(&reader, registry) != CFIPACK_STATUS_OK)
        return 2;
    signal(SIGPROF, on_signal);
    setitimer(ITIMER_PROF, &often, NULL);
    for (number = 0; number < forks; number++) {
        int i, status;
        pid_t child;
        for (i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, look_up, (void *)(uintptr_t)(i + 1)) != 0)
                return 2;
        change(CHANGES);
        child = fork();
        if (child == 0) {
            /* Only this thread goes on. */
            setitimer(ITIMER_PROF, &never, NULL);
            alarm(SECONDS);
            change(2 * CHANGES);
            _exit(wrong);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            printf("child %d: status %#x\n", number, status);
            return 1;
        }
        /* Threads end in the middle of a lookup. */
        alarm(SECONDS);
        for (i = 0; i < THREADS; i++)
            pthread_cancel(threads[i]);
        for (i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        change(CHANGES);
        alarm(0);
    }
    setitimer(ITIMER_PROF, &never, NULL);
    if (cfipack_registry_get_memory_size(registry, &size) != CFIPACK_STATUS_OK)
        return 2;
    cfipack_registry_free(registry);
    if (find(0))
        return 1;
    cfipack_registry_reader_free(reader);
    printf("forks %d, wrong %d, memory %lu\n", forks, (int)wrong, (unsigned long)size);
    return wrong;
}
