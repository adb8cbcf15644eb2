/* A profiler inside a program.
 *
 * profiler_find_tables finds the .sframe of each loaded file by PT_GNU_SFRAME, and parses it. For a file without a
 * table, it makes a table from the .eh_frame. A SIGPROF handler then calls profiler_walk, which walks the stack of the
 * interrupted thread. It uses tables, and frame pointers where no table covers the code. It does not allocate or lock,
 * and reads only the tables and the thread's stack.
 *
 * Linux on x86-64 and AArch64. Link with -lcfipack -lpthread.
 */
#define _GNU_SOURCE
#include "profiler.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME 0x6474e554
#endif

#if defined(__x86_64__)
#define ARCHITECTURE CFIPACK_ARCH_AMD64
/* The number of bytes below the stack pointer that signals do not touch. In an epilogue, rows still name the
 * places of registers that have been popped. */
enum { RED_ZONE = 128 };
#elif defined(__aarch64__)
#define ARCHITECTURE CFIPACK_ARCH_AARCH64
enum { RED_ZONE = 0 };
#else
#error "this example knows x86-64 and AArch64"
#endif

/* A loaded file's table, and the memory that must stay as long as the table is used. */
struct table {
    struct cfipack_sframe table;
    struct cfipack_sframe_index index;
    uint8_t *made;   /* the bytes of a table that this program made */
    uint32_t *words; /* the index's memory */
};

/* Tables that a handler may be reading are never freed: a new list replaces the old one. */
struct modules {
    size_t count, capacity;
    int num_tables;
    struct cfipack_module *all;
    struct cfipack_modules space;
    struct cfipack_range start; /* where the program starts, if no table knows it */
};

static struct modules *current;

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

/* Returns .eh_frame by the pointer in .eh_frame_hdr, or null if the pointer does not have the form that linkers write. */
static const uint8_t *eh_frame_of(const uint8_t *header) {
    enum { PC_RELATIVE_32 = 0x1b };
    int32_t distance;
    if (header[0] != 1 || header[1] != PC_RELATIVE_32)
        return NULL;
    memcpy(&distance, header + 4, sizeof distance);
    return header + 4 + distance;
}

/* Makes a table from a file's .eh_frame. The section ends at most `available` bytes after its start. */
static int make_table(struct table *module, const uint8_t *eh_frame, size_t available) {
    struct cfipack_cfi_section section = {0};
    struct cfipack_cfi_sections cfi = {0};
    struct cfipack_conversion *conversion = NULL;
    size_t size = 0;
    int made = 0;

    module->made = NULL;
    section.bytes = eh_frame;
    /* A zero ends the section. If a record is damaged, the functions before it still get their rows. */
    switch (cfipack_eh_frame_len(eh_frame, available, ARCHITECTURE, &section.len, NULL)) {
    case CFIPACK_STATUS_OK:
    case CFIPACK_STATUS_MALFORMED:
        break;
    default:
        return 0;
    }
    section.address = (uintptr_t)eh_frame;
    section.kind = CFIPACK_EH_FRAME;
    cfi.sections = &section;
    cfi.num_sections = 1;
    cfi.architecture = ARCHITECTURE;
    /* The table is made for the address of .eh_frame. cfipack_sframe_parse gets this address too, so the table may
     * lie anywhere. */
    if (cfipack_conversion_new(&conversion, &cfi, NULL, section.address, NULL, NULL) != CFIPACK_STATUS_OK)
        return 0;
    if (cfipack_conversion_len(conversion, &size) == CFIPACK_STATUS_OK && (module->made = malloc(size)) != NULL) {
        made = cfipack_conversion_write(conversion, module->made, size) == CFIPACK_STATUS_OK &&
               cfipack_sframe_parse(&module->table, module->made, size, section.address, NULL) == CFIPACK_STATUS_OK;
        if (!made) {
            free(module->made);
            module->made = NULL;
        }
    }
    cfipack_conversion_free(conversion);
    return made;
}

/* Builds an index over a table, which makes lookups twice as fast. */
static void make_index(struct table *table, struct cfipack_module *module) {
    size_t words;
    module->table = &table->table;
    if (cfipack_sframe_index_words(&table->table, &words) != CFIPACK_STATUS_OK ||
        (table->words = malloc(words * sizeof *table->words)) == NULL)
        return;
    if (cfipack_sframe_index_build(&table->index, &table->table, table->words, words) == CFIPACK_STATUS_OK)
        module->index = &table->index;
}

/* Returns a file's table, found or made, or null if the file has neither a table nor call frame information. */
static struct table *table_of(const struct dl_phdr_info *info) {
    const uint8_t *sframe = NULL, *header = NULL, *eh_frame;
    size_t sframe_len = 0;
    int i, found = 0;
    struct table *table = calloc(1, sizeof *table);

    for (i = 0; table != NULL && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint8_t *start = (const uint8_t *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_GNU_SFRAME) {
            sframe = start;
            sframe_len = segment->p_memsz;
        } else if (segment->p_type == PT_GNU_EH_FRAME) {
            header = start;
        }
    }
    if (sframe != NULL)
        found = cfipack_sframe_parse(&table->table, sframe, sframe_len, (uintptr_t)sframe, NULL) == CFIPACK_STATUS_OK;
    if (!found && header != NULL && (eh_frame = eh_frame_of(header)) != NULL) {
        for (i = 0; i < info->dlpi_phnum && !found; i++) {
            const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
            uint64_t start = info->dlpi_addr + segment->p_vaddr;
            const uint8_t *end = (const uint8_t *)(uintptr_t)(start + segment->p_filesz);
            if (segment->p_type == PT_LOAD && (uintptr_t)eh_frame >= start && eh_frame < end)
                found = make_table(table, eh_frame, (size_t)(end - eh_frame));
        }
    }
    if (!found) {
        free(table);
        table = NULL;
    }
    return table;
}

/* Adds the code of a file. Even without a table, walks may follow frame pointers through this code. */
static int add_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct modules *modules = data;
    struct cfipack_module module = {0};
    struct table *table;
    int i, is_readable = 1;
    (void)size;

    module.start = UINT64_MAX;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
            if (start < module.start)
                module.start = start;
            /* Between two segments, memory may be missing. */
            is_readable &= module.end == 0 && (segment->p_flags & PF_R) != 0;
            if (start + segment->p_memsz > module.end)
                module.end = start + segment->p_memsz;
        }
    }
    if (module.start >= module.end)
        return 0;
    /* Guessed return addresses must follow a call. */
    if (is_readable) {
        module.code = (const uint8_t *)(uintptr_t)module.start;
        module.code_len = (size_t)(module.end - module.start);
    }
    if (modules->count == modules->capacity) {
        size_t capacity = modules->capacity == 0 ? 32 : 2 * modules->capacity;
        struct cfipack_module *all = realloc(modules->all, capacity * sizeof *all);
        if (all == NULL)
            return -1;
        modules->all = all;
        modules->capacity = capacity;
    }
    if ((table = table_of(info)) != NULL) {
        make_index(table, &module);
        modules->num_tables++;
    }
    modules->all[modules->count++] = module;
    return 0;
}

static int by_start(const void *a, const void *b) {
    uint64_t first = ((const struct cfipack_module *)a)->start, second = ((const struct cfipack_module *)b)->start;
    return (first > second) - (first < second);
}

/* The stack of the first thread starts at the program's entry. If a table has a row there, that row ends the stack. */
static void add_start(struct modules *modules) {
    enum { LONGEST_ENTRY = 64 };
    struct cfipack_row row;
    uint64_t entry = getauxval(AT_ENTRY);
    size_t i;
    for (i = 0; i < modules->count; i++) {
        struct cfipack_module *module = &modules->all[i];
        if (entry < module->start || entry >= module->end ||
            (module->table != NULL && cfipack_sframe_lookup(module->table, entry, &row) == CFIPACK_STATUS_OK))
            continue;
        modules->start.start = entry;
        modules->start.end = entry + LONGEST_ENTRY;
        module->starts = &modules->start;
        module->num_starts = 1;
    }
}

int profiler_find_tables(void) {
    struct modules *modules = calloc(1, sizeof *modules);
    if (modules == NULL || dl_iterate_phdr(add_module, modules) != 0)
        return -1;
    if (modules->count != 0)
        qsort(modules->all, modules->count, sizeof *modules->all, by_start);
    add_start(modules);
    if (cfipack_modules_init(&modules->space, ARCHITECTURE, modules->all, modules->count) != CFIPACK_STATUS_OK)
        return -1;
    __atomic_store_n(&current, modules, __ATOMIC_RELEASE);
    return modules->num_tables;
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

/* Returns the thread's stack from the red zone below the stack pointer to the end of the stack. */
static struct cfipack_memory stack_from(const struct thread *thread, uint64_t sp) {
    struct cfipack_memory memory = {NULL, 0, 0};
    if (thread != NULL && sp >= thread->low && sp < thread->high) {
        uint64_t start = sp - thread->low < RED_ZONE ? thread->low : sp - RED_ZONE;
        memory.bytes = (const uint8_t *)(uintptr_t)start;
        memory.len = (size_t)(thread->high - start);
        memory.address = start;
    }
    return memory;
}

void profiler_walk(const void *context, struct profiler_sample *sample) {
    struct modules *modules = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
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
    if (modules != NULL && cfipack_walk(&modules->space, &walked, sample->frames, PROFILER_MAX_DEPTH, &sample->depth,
                                        &sample->end) != CFIPACK_STATUS_OK)
        sample->depth = 0;
}
