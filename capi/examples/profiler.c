/* A profiler inside a program.
 *
 * The library finds the tables of the loaded files, or makes them. A SIGPROF handler calls profiler_walk, which walks
 * the stack of the interrupted thread. It uses tables, and frame pointers where no table covers the code. It does not
 * allocate or lock. What is yours: the bounds of each thread's stack, and the registers of the interrupted thread.
 *
 * Linux on x86-64 and AArch64. Link with -lcfipack -lpthread.
 */
#define _GNU_SOURCE
#include "profiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <ucontext.h>

#if defined(__x86_64__)
/* The number of bytes below the stack pointer that signals do not touch. In an epilogue, rows still name the
 * places of registers that have been popped. */
enum { RED_ZONE = 128 };
#elif defined(__aarch64__)
enum { RED_ZONE = 0 };
#else
#error "this example knows x86-64 and AArch64"
#endif

static struct cfipack_process_modules *modules;

/* A thread: the bounds of its stack, and a cache of the rows that its walks needed before. */
struct thread {
    uint64_t low, high;
    struct cfipack_cache cache;
    uint8_t places[1024 * 32];
};

/* The calling thread, which is also the thread of its signal handlers. So there is no list of threads and no
 * limit. The variable's place is known when the thread starts, so a handler may read it. */
static __thread struct thread *this_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int profiler_find_tables(void) {
    struct cfipack_process_options options = {0};
    struct cfipack_refreshed found;
    struct cfipack_process_modules *made;
    options.size = sizeof options;
    options.all_files = 1;
    if (modules == NULL) {
        if (cfipack_modules_of_process(&made, &options, NULL) != CFIPACK_STATUS_OK)
            return -1;
        __atomic_store_n(&modules, made, __ATOMIC_RELEASE);
    }
    if (cfipack_process_modules_refresh(modules, &found) != CFIPACK_STATUS_OK)
        return -1;
    return (int)found.tables;
}

/* A handler that interrupts this function sees the thread or null: the pointer is cleared before the memory is freed. */
static void free_thread(void *thread) {
    __atomic_store_n(&this_thread, NULL, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    free(thread);
}

static void make_key(void) {
    if (pthread_key_create(&at_exit, free_thread) != 0)
        abort();
}

int profiler_enter_thread(void) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    struct thread *thread;
    if (this_thread != NULL)
        return 0;
    pthread_once(&once, make_key);
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return -1;
    if (pthread_attr_getstack(&attributes, &low, &size) != 0 ||
        (thread = malloc(sizeof *thread)) == NULL) {
        pthread_attr_destroy(&attributes);
        return -1;
    }
    pthread_attr_destroy(&attributes);
    thread->low = (uintptr_t)low;
    thread->high = (uintptr_t)low + size;
    if (cfipack_cache_init(&thread->cache, thread->places, sizeof thread->places) != CFIPACK_STATUS_OK ||
        pthread_setspecific(at_exit, thread) != 0) {
        free(thread);
        return -1;
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&this_thread, thread, __ATOMIC_RELAXED);
    return 0;
}

void profiler_leave_thread(void) {
    struct thread *thread = this_thread;
    if (thread == NULL)
        return;
    pthread_setspecific(at_exit, NULL);
    free_thread(thread);
}

/* Returns the thread's stack from the red zone below the stack pointer to the end of the stack. After an overflow, the
 * stack pointer is below the stack. */
static struct cfipack_memory stack_from(const struct thread *thread, uint64_t sp) {
    struct cfipack_memory memory = {NULL, 0, 0};
    if (thread != NULL && sp < thread->high) {
        uint64_t start = sp < thread->low + RED_ZONE ? thread->low : sp - RED_ZONE;
        memory.bytes = (const uint8_t *)(uintptr_t)start;
        memory.len = (size_t)(thread->high - start);
        memory.address = start;
    }
    return memory;
}

void profiler_walk(const void *context, struct profiler_sample *sample) {
    const struct cfipack_process_modules *current = __atomic_load_n(&modules, __ATOMIC_ACQUIRE);
    struct thread *thread = __atomic_load_n(&this_thread, __ATOMIC_RELAXED);
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
    struct cfipack_registers registers = {0};
    struct cfipack_register others[16];
    struct cfipack_memory memory;
    struct cfipack_thread walked = {0};
#if defined(__x86_64__)
    /* DWARF numbers of the registers that a flex row may name. Only the innermost frame has their values. */
    static const int names[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    size_t i;
    for (i = 0; i < 16; i++) {
        others[i].reg = (uint32_t)i;
        others[i].reserved = 0;
        others[i].value = (uint64_t)machine->gregs[names[i]];
    }
    registers.others = others;
    registers.num_others = 16;
    walked.pc = (uint64_t)machine->gregs[REG_RIP];
    registers.sp = (uint64_t)machine->gregs[REG_RSP];
    registers.fp = (uint64_t)machine->gregs[REG_RBP];
#else
    (void)others;
    walked.pc = machine->pc;
    registers.sp = machine->sp;
    registers.fp = machine->regs[29];
    registers.lr = machine->regs[30];
    registers.has_lr = 1;
#endif
    registers.has_fp = 1;
    memory = stack_from(thread, registers.sp);
    walked.size = sizeof walked;
    walked.registers = &registers;
    walked.memory = &memory;
    walked.num_memory = 1;
    if (thread != NULL) {
        walked.cache = &thread->cache;
        walked.stack_start = thread->low;
        walked.stack_end = thread->high;
    }
    sample->depth = 0;
    sample->end = CFIPACK_END_NO_ROW;
    if (current != NULL &&
        cfipack_process_modules_walk(current, NULL, &walked, sample->frames, PROFILER_MAX_DEPTH, &sample->depth,
                                     &sample->end) != CFIPACK_STATUS_OK)
        sample->depth = 0;
}
