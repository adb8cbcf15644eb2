/* Profiles itself like examples/profile_self.c. In the handler it compares each walk with HP's libunwind from the
 * same registers. During the walk, an allocation aborts the process (allocator.c, preloaded). */
#define main profile_self_main
#include "profile_self.c"
#undef main

#include <dlfcn.h>
#include <ucontext.h>

enum { SIGNAL_FRAME = 1, REGISTER_IP = 16, CURSOR_WORDS = 127 };

typedef int (*init_local)(unsigned long *cursor, void *context, int flags);
typedef int (*step_up)(unsigned long *cursor);
typedef int (*get_register)(unsigned long *cursor, int number, unsigned long *value);

static init_local init;
static step_up step;
static get_register get;
static void (*forbid)(int);

struct expected_stack {
    size_t depth;
    unsigned long pcs[PROFILER_MAX_DEPTH];
};

static struct expected_stack expected[NUM_SAMPLES];

static void on_checked_sample(int number, siginfo_t *info, void *context) {
    size_t place = __atomic_fetch_add(&num_samples, 1, __ATOMIC_RELAXED);
    unsigned long cursor[CURSOR_WORDS], pc;
    (void)number;
    (void)info;
    if (place >= NUM_SAMPLES)
        return;
    forbid(1);
    profiler_walk(context, &samples[place]);
    forbid(0);
    expected[place].depth = 0;
    if (init(cursor, context, SIGNAL_FRAME) < 0)
        return;
    do {
        if (get(cursor, REGISTER_IP, &pc) < 0 || pc == 0 || expected[place].depth == PROFILER_MAX_DEPTH)
            break;
        expected[place].pcs[expected[place].depth++] = pc;
    } while (step(cursor) > 0);
}

int main(int argc, char **argv) {
    size_t wanted = argc > 1 ? strtoul(argv[1], NULL, 0) : 2000, i, differ = 0, cut = 0, frames = 0;
    void *unwinder = dlopen("libunwind.so.8", RTLD_NOW);
    struct sigaction action;
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[NUM_THREADS];
    (void)profile_self_main;

    if (unwinder == NULL)
        return 77;
    *(void **)&init = dlsym(unwinder, "_ULx86_64_init_local2");
    *(void **)&step = dlsym(unwinder, "_ULx86_64_step");
    *(void **)&get = dlsym(unwinder, "_ULx86_64_get_reg");
    *(void **)&forbid = dlsym(RTLD_DEFAULT, "forbid_allocation");
    if (!init || !step || !get || !forbid)
        return 77;
    profiler_enter_thread();
    if (profiler_find_tables() < 3)
        return 1;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_checked_sample;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(SIGPROF, &action, NULL);
    for (i = 0; i < NUM_THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0)
            return 1;
    if (wanted > NUM_SAMPLES)
        wanted = NUM_SAMPLES;
    while (__atomic_load_n(&num_working, __ATOMIC_ACQUIRE) < NUM_THREADS)
        ;
    setitimer(ITIMER_PROF, &every, NULL);
    while (__atomic_load_n(&num_samples, __ATOMIC_RELAXED) < wanted)
        ;
    setitimer(ITIMER_PROF, &never, NULL);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
    for (i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (i = 0; i < wanted; i++) {
        const struct profiler_sample *one = &samples[i];
        const struct expected_stack *two = &expected[i];
        size_t k, depth = one->depth < two->depth ? one->depth : two->depth;
        for (k = 0; k < depth && one->frames[k].pc == two->pcs[k]; k++)
            ;
        frames += one->depth;
        if (k == one->depth && k == two->depth && one->end == CFIPACK_END_OUTERMOST)
            continue;
        if (k == one->depth && one->end == CFIPACK_END_REGISTER) {
            /* No table restores this register, but libunwind gets it from the call frame information. */
            cut++;
            continue;
        }
        differ++;
        if (differ <= 5) {
            printf("sample %zu: %zu and %zu frames, %s; the first %zu are equal\n", i, one->depth, two->depth,
                   cfipack_end_text(one->end), k);
            for (k = 0; k < one->depth || k < two->depth; k++)
                printf("  %#llx %#llx\n", k < one->depth ? (unsigned long long)one->frames[k].pc : 0ULL,
                       k < two->depth ? (unsigned long long)two->pcs[k] : 0ULL);
        }
    }
    printf("samples %zu frames %zu cut %zu differ %zu\n", wanted, frames, cut, differ);
    return differ != 0 || cut > wanted / 100;
}
