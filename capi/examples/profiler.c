/* A profiler that a program carries in itself.
 *
 * profiler_find_tables looks for the .sframe of each loaded file, which PT_GNU_SFRAME leads to, and parses it; a file
 * without one gets a table that is made of its .eh_frame. A SIGPROF handler then calls profiler_walk, which goes from
 * frame to frame of the interrupted thread without allocating, locking or reading anything but the tables and the
 * thread's stack.
 *
 * Linux on x86-64 and AArch64. Link with -lcfipack -lpthread.
 */
#define _GNU_SOURCE
#include "profiler.h"

#include "cfipack.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME 0x6474e554
#endif

#if defined(__x86_64__)
#define ARCHITECTURE CFIPACK_ARCH_AMD64
/* RED_ZONE: bytes below the stack pointer that signals leave alone. An epilogue's rows still name the places of registers
 * that it has popped. */
enum { STACK_POINTER = 7, FRAME_POINTER = 6, RED_ZONE = 128 };
#elif defined(__aarch64__)
#define ARCHITECTURE CFIPACK_ARCH_AARCH64
enum { STACK_POINTER = 31, FRAME_POINTER = 29, RED_ZONE = 0 };
#else
#error "this example knows x86-64 and AArch64"
#endif

/* A loaded file: the addresses of its code, and its table. */
struct module {
    uint64_t start, end;
    struct cfipack_sframe table;
    uint8_t *made; /* a table that this program made */
};

/* Tables that a handler may be reading are never freed: a new list replaces the old one. */
struct modules {
    size_t count, capacity;
    struct module *all;
};

static struct modules *current;

/* The stacks of threads: a handler looks for the one that its stack pointer is in. */
enum { MAX_THREADS = 256 };
struct stack {
    uint64_t low, high;
};
static struct stack stacks[MAX_THREADS];
static size_t num_stacks;
static pthread_mutex_t stacks_lock = PTHREAD_MUTEX_INITIALIZER;

/* Where .eh_frame lies, by the pointer in .eh_frame_hdr; null if that has another form than every linker writes. */
static const uint8_t *eh_frame_of(const uint8_t *header) {
    enum { PC_RELATIVE_32 = 0x1b };
    int32_t distance;
    if (header[0] != 1 || header[1] != PC_RELATIVE_32)
        return NULL;
    memcpy(&distance, header + 4, sizeof distance);
    return header + 4 + distance;
}

/* Bytes of an .eh_frame that starts somewhere before `limit`: up to the zero that ends it. */
static size_t eh_frame_len(const uint8_t *start, const uint8_t *limit) {
    const uint8_t *at = start;
    while (limit - at >= 4) {
        uint32_t length;
        memcpy(&length, at, sizeof length);
        if (length == 0 || length == 0xffffffff || (size_t)(limit - at) - 4 < length)
            break;
        at += 4 + length;
    }
    return (size_t)(at - start);
}

/* Makes a table of a file's .eh_frame. */
static int make_table(struct module *module, const uint8_t *eh_frame, size_t len) {
    struct cfipack_cfi_section section = {0};
    struct cfipack_cfi_sections cfi = {0};
    struct cfipack_conversion *conversion = NULL;
    size_t size = 0;
    int made = 0;

    section.bytes = eh_frame;
    section.len = len;
    section.address = (uintptr_t)eh_frame;
    section.kind = CFIPACK_EH_FRAME;
    cfi.sections = &section;
    cfi.num_sections = 1;
    cfi.architecture = ARCHITECTURE;
    /* The table is made for the address of the code, which version 3 reaches from anywhere: where it lies in the end
     * is told to cfipack_sframe_parse. */
    if (cfipack_conversion_new(&conversion, &cfi, NULL, section.address, NULL, NULL) != CFIPACK_STATUS_OK)
        return 0;
    if (cfipack_conversion_len(conversion, &size) == CFIPACK_STATUS_OK && (module->made = malloc(size)) != NULL) {
        made = cfipack_conversion_write(conversion, module->made, size) == CFIPACK_STATUS_OK &&
               cfipack_sframe_parse(&module->table, module->made, size, section.address, NULL) == CFIPACK_STATUS_OK;
        if (!made)
            free(module->made);
    }
    cfipack_conversion_free(conversion);
    return made;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct modules *modules = data;
    struct module module = {0};
    const uint8_t *sframe = NULL, *header = NULL, *eh_frame;
    size_t sframe_len = 0;
    int i, found = 0;
    (void)size;

    module.start = UINT64_MAX;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
            if (start < module.start)
                module.start = start;
            if (start + segment->p_memsz > module.end)
                module.end = start + segment->p_memsz;
        } else if (segment->p_type == PT_GNU_SFRAME) {
            sframe = (const uint8_t *)(uintptr_t)start;
            sframe_len = segment->p_memsz;
        } else if (segment->p_type == PT_GNU_EH_FRAME) {
            header = (const uint8_t *)(uintptr_t)start;
        }
    }
    if (sframe != NULL)
        found = cfipack_sframe_parse(&module.table, sframe, sframe_len, (uintptr_t)sframe, NULL) == CFIPACK_STATUS_OK;
    if (!found && header != NULL && (eh_frame = eh_frame_of(header)) != NULL) {
        for (i = 0; i < info->dlpi_phnum && !found; i++) {
            const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
            uint64_t start = info->dlpi_addr + segment->p_vaddr;
            const uint8_t *end = (const uint8_t *)(uintptr_t)(start + segment->p_filesz);
            if (segment->p_type == PT_LOAD && (uintptr_t)eh_frame >= start && eh_frame < end)
                found = make_table(&module, eh_frame, eh_frame_len(eh_frame, end));
        }
    }
    if (!found || module.start >= module.end)
        return 0;
    if (modules->count == modules->capacity) {
        size_t capacity = modules->capacity == 0 ? 32 : 2 * modules->capacity;
        struct module *all = realloc(modules->all, capacity * sizeof *all);
        if (all == NULL)
            return -1;
        modules->all = all;
        modules->capacity = capacity;
    }
    modules->all[modules->count++] = module;
    return 0;
}

static int by_start(const void *a, const void *b) {
    uint64_t one = ((const struct module *)a)->start, two = ((const struct module *)b)->start;
    return (one > two) - (one < two);
}

int profiler_find_tables(void) {
    struct modules *modules = calloc(1, sizeof *modules);
    if (modules == NULL || dl_iterate_phdr(add_module, modules) != 0)
        return -1;
    if (modules->count != 0)
        qsort(modules->all, modules->count, sizeof *modules->all, by_start);
    __atomic_store_n(&current, modules, __ATOMIC_RELEASE);
    return (int)modules->count;
}

int profiler_enter_thread(void) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    int result = -1;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return -1;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
        pthread_mutex_lock(&stacks_lock);
        if (num_stacks < MAX_THREADS) {
            stacks[num_stacks].low = (uintptr_t)low;
            stacks[num_stacks].high = (uintptr_t)low + size;
            __atomic_store_n(&num_stacks, num_stacks + 1, __ATOMIC_RELEASE);
            result = 0;
        }
        pthread_mutex_unlock(&stacks_lock);
    }
    pthread_attr_destroy(&attributes);
    return result;
}

/* The stack that an address is in, from there, and from the red zone below, to its end. */
static struct cfipack_memory stack_from(uint64_t sp) {
    struct cfipack_memory memory = {NULL, 0, 0};
    size_t i, count = __atomic_load_n(&num_stacks, __ATOMIC_ACQUIRE);
    for (i = 0; i < count; i++) {
        if (sp >= stacks[i].low && sp < stacks[i].high) {
            uint64_t start = sp - stacks[i].low < RED_ZONE ? stacks[i].low : sp - RED_ZONE;
            memory.bytes = (const uint8_t *)(uintptr_t)start;
            memory.len = (size_t)(stacks[i].high - start);
            memory.address = start;
            break;
        }
    }
    return memory;
}

static const struct module *module_of(const struct modules *modules, uint64_t pc) {
    size_t low = 0, high = modules->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (modules->all[middle].start <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low != 0 && pc < modules->all[low - 1].end ? &modules->all[low - 1] : NULL;
}

/* Whether a rule counts from another register than the stack pointer and the frame pointer. */
static int is_other(const struct cfipack_rule *rule) {
    return (rule->kind == CFIPACK_RULE_REGISTER || rule->kind == CFIPACK_RULE_MEMORY) && rule->reg != STACK_POINTER &&
           rule->reg != FRAME_POINTER;
}

/* Functions that realign their stacks may have such a row: only the innermost frame, whose registers are all known, can be
 * unwound by it. */
static int needs_other_register(const struct cfipack_row *row) {
    return is_other(&row->cfa) || is_other(&row->return_address);
}

void profiler_walk(const void *context, struct profiler_sample *sample) {
    const struct modules *modules = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
    struct cfipack_registers registers = {0};
    struct cfipack_register others[16];
    struct cfipack_memory memory;
    uint64_t pc;
    /* Whether the PC is that of an instruction which has not run, and not the one after a call. */
    int is_exact = 1;
#if defined(__x86_64__)
    /* DWARF numbers of the registers that a flex row may name, in the innermost frame alone. */
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
    pc = (uint64_t)machine->gregs[REG_RIP];
    registers.sp = (uint64_t)machine->gregs[REG_RSP];
    registers.fp = (uint64_t)machine->gregs[REG_RBP];
#else
    (void)others;
    pc = machine->pc;
    registers.sp = machine->sp;
    registers.fp = machine->regs[29];
    registers.lr = machine->regs[30];
    registers.has_lr = 1;
#endif
    registers.has_fp = 1;
    memory = stack_from(registers.sp);
    sample->depth = 0;
    sample->end = PROFILER_NO_MODULE;
    while (modules != NULL) {
        const struct module *module;
        struct cfipack_row row;
        struct cfipack_caller caller;
        enum cfipack_status status;

        if (sample->depth == PROFILER_MAX_DEPTH) {
            sample->end = PROFILER_TOO_DEEP;
            return;
        }
        sample->pcs[sample->depth++] = pc;
        if (!is_exact)
            pc -= 1;
        if ((module = module_of(modules, pc)) == NULL) {
            sample->end = PROFILER_NO_MODULE;
            return;
        }
        if (cfipack_sframe_lookup(&module->table, pc, &row) != CFIPACK_STATUS_OK) {
            sample->end = PROFILER_NO_ROW;
            return;
        }
        status = cfipack_step(ARCHITECTURE, &row, &registers, &memory, 1, &caller);
        if (status != CFIPACK_STATUS_OK) {
            sample->end = status == CFIPACK_STATUS_OUTERMOST ? PROFILER_OUTERMOST
                          : needs_other_register(&row)       ? PROFILER_NO_REGISTER
                                                             : PROFILER_NO_STEP;
            return;
        }
        pc = caller.is_signed ? cfipack_strip_signature(caller.pc, 48) : caller.pc;
        is_exact = row.is_signal_frame;
        memset(&registers, 0, sizeof registers);
        registers.sp = caller.sp;
        registers.fp = caller.fp;
        registers.has_fp = caller.has_fp;
    }
}

const char *profiler_end_name(enum profiler_end end) {
    switch (end) {
    case PROFILER_OUTERMOST: return "outermost";
    case PROFILER_NO_MODULE: return "no module";
    case PROFILER_NO_ROW: return "no row";
    case PROFILER_NO_STEP: return "no step";
    case PROFILER_NO_REGISTER: return "no register";
    case PROFILER_TOO_DEEP: return "too deep";
    }
    return "?";
}
