/* Forks while threads look up rows, and changes the registry in the child, where some of these lookups never end. The
 * child does the same to its own child. No change may wait for such a lookup. A signal handler looks rows up all the
 * time.
 *
 * usage: fork COUNT */
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

enum { SLOTS = 200, SIZE = 256, THREADS = 4, CHANGES = 300, DEPTH = 3, SECONDS = 20 };

static const uint64_t base = 0x10000;
static struct cfipack_registry *registry;
static struct cfipack_registry_reader *reader;
static volatile sig_atomic_t wrong, is_over;
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
    while (!is_over)
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

/* Forks while threads look up, as often as `depth` says, each time in the last child. Returns the exit status. */
static int generation(int depth) {
    pthread_t threads[THREADS];
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    int i, status = 0;
    pid_t child;

    alarm(SECONDS);
    setitimer(ITIMER_PROF, &often, NULL);
    change(CHANGES);
    if (depth == 0)
        return wrong;
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, look_up, (void *)(uintptr_t)(i + 1)) != 0)
            return 2;
    change(CHANGES);
    child = fork();
    if (child == 0)
        _exit(generation(depth - 1)); /* The threads do not exist here. */
    alarm(0);
    setitimer(ITIMER_PROF, &never, NULL);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("child of depth %d: status %#x\n", depth, (unsigned)status);
        return 1;
    }
    is_over = 1;
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    is_over = 0;
    return wrong;
}

int main(int argc, char **argv) {
    int number, count = argc > 1 ? atoi(argv[1]) : 20;
    size_t size;
    if (cfipack_registry_new(&registry, CFIPACK_ARCH_AMD64, NULL) != CFIPACK_STATUS_OK ||
        cfipack_registry_reader_new(&reader, registry) != CFIPACK_STATUS_OK)
        return 2;
    signal(SIGPROF, on_signal);
    for (number = 0; number < count; number++)
        if (generation(DEPTH) != 0)
            return 1;
    if (cfipack_registry_get_memory_size(registry, &size) != CFIPACK_STATUS_OK)
        return 2;
    cfipack_registry_free(registry);
    if (find(0))
        return 1;
    cfipack_registry_reader_free(reader);
    printf("forks %d, wrong %d, memory %lu\n", count * DEPTH, (int)wrong, (unsigned long)size);
    return wrong;
}
