/* Pools of the library's threads and of this program's threads, and pools that omit work or run it backwards. All
 * give the same bytes as no pool. Run under valgrind. */
#define _POSIX_C_SOURCE 200809L
#include "cfipack.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions of 16 bytes without gaps. Every eighth function has different directives. */
#define NUM_FUNCTIONS 20000u
#define FDE_LEN 28u
#define CIE_LEN 24u
#define CODE 0x100000u
#define EH_FRAME 0x4000000u
#define TABLE 0x3000000u

static uint8_t eh_frame[CIE_LEN + NUM_FUNCTIONS * FDE_LEN + 4];
static unsigned runs, calls, failures;

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            failures++;                                                                                                 \
            printf("line %d: %s\n", __LINE__, #condition);                                                              \
        }                                                                                                               \
    } while (0)

static void put(uint8_t *to, uint32_t value) {
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static void make_eh_frame(void) {
    static const uint8_t cie[CIE_LEN] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1};
    memcpy(eh_frame, cie, sizeof cie);
    for (uint32_t i = 0; i < NUM_FUNCTIONS; i++) {
        uint8_t *fde = eh_frame + CIE_LEN + i * FDE_LEN;
        uint32_t at = (uint32_t)(fde - eh_frame);
        put(fde, FDE_LEN - 4);
        put(fde + 4, at + 4);
        put(fde + 8, CODE + 16 * i - (EH_FRAME + at + 8));
        put(fde + 12, 16);
        /* After 1 to 15 bytes: CFA = sp + 16, 24, ... */
        fde[17] = (uint8_t)(0x40 | (1 + i % 15));
        fde[18] = 0x0e;
        fde[19] = (uint8_t)(16 + 8 * (i / 8 % 7));
    }
}

struct job {
    cfipack_task task;
    void *work;
    size_t index;
};

static void *start(void *job) {
    const struct job *of = (const struct job *)job;
    of->task(of->work, of->index);
    return NULL;
}

/* Starts a thread for each index. If a thread cannot be started, its work is left to the library. */
static void on_threads(void *pool, cfipack_task task, void *work, size_t count) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    struct job jobs[MOST];
    size_t started = 0;
    *(unsigned *)pool += 1;
    for (; started < count && started < MOST; started++) {
        struct job job;
        job.task = task, job.work = work, job.index = started;
        jobs[started] = job;
        if (pthread_create(&threads[started], NULL, start, &jobs[started]) != 0)
            break;
    }
    while (started-- > 0)
        pthread_join(threads[started], NULL);
}

static void not_at_all(void *pool, cfipack_task task, void *work, size_t count) {
    (void)task, (void)work, (void)count;
    *(unsigned *)pool += 1;
}

/* Runs all tasks backwards, each twice, and also tries indices that do not exist. */
static void backwards(void *pool, cfipack_task task, void *work, size_t count) {
    *(unsigned *)pool += 1;
    task(work, (size_t)-1);
    for (size_t i = count + 3; i-- > 0;) {
        task(work, i);
        task(work, i);
        calls++;
    }
}

static struct cfipack_cfi_section section(void) {
    struct cfipack_cfi_section section;
    memset(&section, 0, sizeof section);
    section.bytes = eh_frame;
    section.len = sizeof eh_frame;
    section.address = EH_FRAME;
    section.kind = CFIPACK_EH_FRAME;
    return section;
}

static uint8_t *converted(const struct cfipack_pool *pool, size_t *len) {
    struct cfipack_cfi_section only = section();
    struct cfipack_cfi_sections cfi;
    struct cfipack_conversion *conversion = NULL;
    struct cfipack_message message;
    uint8_t *table;
    cfi.sections = &only;
    cfi.num_sections = 1;
    cfi.architecture = CFIPACK_ARCH_AMD64;
    if (cfipack_conversion_new(&conversion, &cfi, NULL, TABLE, pool, &message) != CFIPACK_STATUS_OK) {
        printf("conversion: %s\n", message.text);
        exit(1);
    }
    CHECK(cfipack_conversion_len(conversion, len) == CFIPACK_STATUS_OK);
    table = (uint8_t *)malloc(*len);
    CHECK(table != NULL && cfipack_conversion_write(conversion, table, *len) == CFIPACK_STATUS_OK);
    cfipack_conversion_free(conversion);
    return table;
}

/* Merges the same functions as an object. Numbers are the keys. */
static uint8_t *merged(const struct cfipack_pool *pool, size_t *len) {
    static struct cfipack_start starts[NUM_FUNCTIONS];
    static uint64_t addresses[NUM_FUNCTIONS];
    struct cfipack_merger *merger = NULL;
    struct cfipack_section *linked = NULL;
    struct cfipack_object object;
    uint8_t *table;
    for (uint32_t i = 0; i < NUM_FUNCTIONS; i++) {
        starts[i].offset = CIE_LEN + i * FDE_LEN + 8;
        /* The keys are in another order than the functions. */
        starts[i].key = NUM_FUNCTIONS - 1 - i;
        starts[i].extent = CFIPACK_WHOLE_FUNCTION;
        addresses[starts[i].key] = CODE + 16 * (i ^ 1);
    }
    memset(&object, 0, sizeof object);
    object.size = sizeof object;
    object.eh_frame = eh_frame;
    object.eh_frame_len = sizeof eh_frame;
    object.eh_frame_starts = starts;
    object.num_eh_frame_starts = NUM_FUNCTIONS;
    CHECK(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, NULL, NULL) == CFIPACK_STATUS_OK);
    CHECK(cfipack_merger_push(merger, &object, NULL) == CFIPACK_STATUS_OK);
    CHECK(cfipack_merger_finish(merger, CFIPACK_KEYS_FUNCTIONS, pool, &linked) == CFIPACK_STATUS_OK);
    CHECK(cfipack_section_len(linked, len) == CFIPACK_STATUS_OK);
    table = (uint8_t *)malloc(*len);
    if (table == NULL || cfipack_section_write(linked, table, *len, TABLE, addresses, NUM_FUNCTIONS, pool) != CFIPACK_STATUS_OK) {
        printf("section: %s\n", cfipack_section_message(linked));
        exit(1);
    }
    cfipack_section_free(linked);
    return table;
}

/* Changes one row of the table. The report has to find the change. */
static struct cfipack_report_counts verified(const struct cfipack_pool *pool, const uint8_t *table, size_t len) {
    struct cfipack_cfi_section only = section();
    struct cfipack_cfi_sections cfi;
    struct cfipack_report_counts counts;
    struct cfipack_report *report = NULL;
    memset(&counts, 0, sizeof counts);
    cfi.sections = &only;
    cfi.num_sections = 1;
    cfi.architecture = CFIPACK_ARCH_AMD64;
    CHECK(cfipack_verify_sframe(&report, &cfi, table, len, TABLE, pool, NULL) == CFIPACK_STATUS_OK);
    CHECK(cfipack_report_get_counts(report, &counts) == CFIPACK_STATUS_OK);
    cfipack_report_free(report);
    return counts;
}

static void compare(const char *name, const struct cfipack_pool *pool, unsigned least_runs) {
    size_t len = 0, other_len = 0;
    uint8_t *table = converted(NULL, &len), *other = converted(pool, &other_len);
    struct cfipack_report_counts counts, other_counts;
    unsigned before;
    CHECK(len == other_len && memcmp(table, other, len) == 0);
    CHECK(runs >= least_runs);
    before = runs;
    table[len - 1] ^= 8;
    counts = verified(NULL, table, len);
    other_counts = verified(pool, table, len);
    CHECK(memcmp(&counts, &other_counts, sizeof counts) == 0);
    CHECK(counts.functions == NUM_FUNCTIONS && counts.different != 0 && counts.missing == 0);
    CHECK(runs >= before + least_runs);
    before = runs;
    free(table), free(other);
    table = merged(NULL, &len), other = merged(pool, &other_len);
    CHECK(len == other_len && memcmp(table, other, len) == 0);
    CHECK(runs >= before + least_runs);
    free(table), free(other);
    printf("%s: %u runs\n", name, runs);
    runs = 0;
}

int main(void) {
    struct cfipack_pool pool = {sizeof pool, 0, 4, NULL, NULL};
    make_eh_frame();
    compare("the library's threads", &pool, 0);
    pool.pool = &runs;
    pool.run = on_threads;
    compare("threads", &pool, 1);
    pool.run = not_at_all;
    compare("not at all", &pool, 1);
    pool.run = backwards;
    compare("backwards", &pool, 1);
    CHECK(calls != 0);
    pool.threads = 1;
    compare("one thread", &pool, 0);
    pool.threads = 0xffffffff;
    pool.run = on_threads;
    compare("a thread for each task", &pool, 1);
    return failures != 0;
}
