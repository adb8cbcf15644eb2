/* Generated code calls the program, which is walked by a signal handler: with a reader of the code's rows, without it, and
 * after the rows are removed. */
#define _GNU_SOURCE
#include "cfipack.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { MOST = 64, RED_ZONE = 128, CALL_END = 6 };

/* sub $0x48, %rsp; call *%rdi; add $0x48, %rsp; ret */
static const uint8_t code[] = {0x48, 0x83, 0xec, 0x48, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x48, 0xc3};

static struct cfipack_process_modules *modules;
static struct cfipack_registry_reader *reader;
static struct cfipack_frame frames[MOST];
static size_t count;
static uint32_t end;
static uint64_t stack_end;

static void on_signal(int number, siginfo_t *info, void *context) {
    const greg_t *machine = ((const ucontext_t *)context)->uc_mcontext.gregs;
    struct cfipack_registers registers = {0};
    struct cfipack_memory memory;
    struct cfipack_thread thread = {0};
    (void)number;
    (void)info;
    registers.sp = (uint64_t)machine[REG_RSP];
    registers.fp = (uint64_t)machine[REG_RBP];
    registers.has_fp = 1;
    memory.address = registers.sp - RED_ZONE;
    memory.bytes = (const uint8_t *)memory.address;
    memory.len = stack_end - memory.address;
    thread.size = sizeof thread;
    thread.pc = (uint64_t)machine[REG_RIP];
    thread.registers = &registers;
    thread.memory = &memory;
    thread.num_memory = 1;
    thread.no_frame_pointers = 1;
    if (cfipack_process_modules_walk(modules, reader, &thread, frames, MOST, &count, &end) != CFIPACK_STATUS_OK)
        count = 0;
}

static void sample(void) {
    raise(SIGUSR1);
    __asm__ volatile("");
}

/* Returns whether a walk reached a PC. */
static int has(uint64_t pc) {
    size_t i;
    for (i = 0; i < count; i++)
        if (frames[i].pc == pc && frames[i].found_by == CFIPACK_FOUND_BY_TABLE)
            return 1;
    return 0;
}

int main(void) {
    struct cfipack_process_options options = {sizeof options, 1, {0, 0, 0}, 0};
    struct cfipack_directive directives[2];
    struct cfipack_region *region;
    struct cfipack_registry *registry;
    struct cfipack_registry_reader *made;
    struct sigaction action;
    pthread_attr_t attributes;
    void *start;
    size_t size, complete;
    int wrong = 0;
    void (*generated)(void (*)(void));
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t base = (uint64_t)page;

    if (page == MAP_FAILED)
        return 2;
    memcpy(page, code, sizeof code);
    memcpy(&generated, &page, sizeof page);
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &start, &size);
    stack_end = (uint64_t)start + size;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, NULL);

    memset(directives, 0, sizeof directives);
    directives[0].kind = directives[1].kind = CFIPACK_CFI_DEF_CFA_OFFSET;
    directives[0].offset = 4;
    directives[0].value = 0x50;
    directives[1].offset = sizeof code - 1;
    directives[1].value = 8;
    if (cfipack_modules_of_process(&modules, &options, NULL) != CFIPACK_STATUS_OK ||
        cfipack_region_new(&region, CFIPACK_ARCH_AMD64, base, 4096, NULL) != CFIPACK_STATUS_OK ||
        cfipack_region_push(region, "generated", 0, sizeof code, directives, 2) != CFIPACK_STATUS_OK ||
        cfipack_registry_new(&registry, CFIPACK_ARCH_AMD64, NULL) != CFIPACK_STATUS_OK ||
        cfipack_registry_reader_new(&made, registry) != CFIPACK_STATUS_OK ||
        cfipack_registry_add(registry, region, NULL, NULL) != CFIPACK_STATUS_OK)
        return 2;
    cfipack_region_free(region);

    generated(sample);
    wrong += has(base + CALL_END) || end != CFIPACK_END_NOT_CODE;
    reader = made;
    generated(sample);
    complete = count;
    wrong += !has(base + CALL_END) || end != CFIPACK_END_OUTERMOST;
    if (cfipack_registry_remove(registry, base) != CFIPACK_STATUS_OK)
        return 2;
    generated(sample);
    wrong += has(base + CALL_END) || end != CFIPACK_END_NOT_CODE;
    printf("wrong %d, %zu frames\n", wrong, complete);
    cfipack_registry_free(registry);
    cfipack_registry_reader_free(made);
    cfipack_process_modules_free(modules);
    return wrong != 0;
}
