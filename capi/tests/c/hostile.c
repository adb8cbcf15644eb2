/* Calls every function with null pointers, zero and enormous lengths, misaligned pointers and unknown numbers.
 * Each call must only return a status. Run under AddressSanitizer and valgrind. */
#include "cfipack.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned calls, failures, uses;
static struct cfipack_registry *used;

#define REFUSED(call)                                                                                                   \
    do {                                                                                                                \
        calls++;                                                                                                        \
        if ((call) == CFIPACK_STATUS_OK) {                                                                              \
            failures++;                                                                                                 \
            printf("not refused: %s\n", #call);                                                                         \
        }                                                                                                               \
    } while (0)

#define DONE(call)                                                                                                      \
    do {                                                                                                                \
        enum cfipack_status status_ = (call);                                                                           \
        calls++;                                                                                                        \
        if (status_ != CFIPACK_STATUS_OK) {                                                                             \
            failures++;                                                                                                 \
            printf("status %d: %s\n", (int)status_, #call);                                                             \
        }                                                                                                               \
    } while (0)

#define HUGE_LENGTH ((size_t)-1)

/* A pointer to `type` in an array, at an odd address. */
#define MISALIGNED(type, array) ((type *)(void *)((char *)(array) + (((uintptr_t)(array) & 1) == 0)))

static const struct cfipack_pool no_size, two = {sizeof two, 0, 2, NULL, NULL}, many = {sizeof many, 0, 0xffffffff, NULL, NULL};

/* A table of version 3 with a function of 4 bytes at the address of the table: CFA = sp + 8. */
static const uint8_t table_bytes[] = {0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
                                      16, 0, 0, 0, 0xe4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0, 0, 0,
                                      1, 0, 0, 0, 0, 0, 3, 8};

/* A CIE, and an FDE of 16 bytes at 0x1000 if the section lies at 0x2000. */
static const uint8_t eh_frame[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0,
                                   20, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0xef, 0xff, 0xff, 16, 0, 0, 0, 0, 0x41, 0x0e, 16, 0, 0, 0, 0,
                                   0, 0, 0, 0};

/* Walks from the table's function. The stack has a return address in the same function, and then a 0. */
static void walking(void) {
    struct cfipack_sframe table;
    struct cfipack_module module = {0}, pair[2];
    const struct cfipack_range descending[2] = {{0x1008, 0x100c}, {0x1000, 0x1004}}, backwards[1] = {{0x1004, 0x1000}};
    struct cfipack_modules space, garbage;
    struct cfipack_cache cache;
    struct cfipack_registers registers = {0};
    const struct cfipack_register other = {3, 1, 0};
    struct cfipack_memory memory = {0};
    struct cfipack_thread thread = {0};
    struct cfipack_frame frames[4];
    uint8_t places[100];
    uint64_t stack[2] = {0x1001, 0};
    size_t count = 0;
    uint32_t end = 0;

    DONE(cfipack_sframe_parse(&table, table_bytes, sizeof table_bytes, 0x1000, NULL));
    module.start = 0x1000;
    module.end = 0x1010;
    module.table = &table;
    memset(&garbage, 0x55, sizeof garbage);
    REFUSED(cfipack_modules_init(NULL, CFIPACK_ARCH_AMD64, &module, 1));
    REFUSED(cfipack_modules_init(&space, 0, &module, 1));
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AARCH64, &module, 1));
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, NULL, 1));
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, &module, HUGE_LENGTH));
    pair[0] = pair[1] = module;
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, pair, 2));
    pair[0].num_starts = 1;
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, pair, 1));
    pair[0].starts = backwards;
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, pair, 1));
    pair[0].num_starts = 0;
    pair[0].switches = descending;
    pair[0].num_switches = 2;
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, pair, 1));
    pair[1].table = (const struct cfipack_sframe *)(const void *)&garbage;
    REFUSED(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, &pair[1], 1));
    DONE(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, &module, 1));
    REFUSED(cfipack_cache_init(NULL, places, sizeof places));
    REFUSED(cfipack_cache_init(&cache, NULL, sizeof places));
    REFUSED(cfipack_cache_init(&cache, places, HUGE_LENGTH));
    DONE(cfipack_cache_init(&cache, places, 0));
    DONE(cfipack_cache_init(&cache, places + 1, sizeof places - 1));

    registers.sp = 0x8000;
    registers.has_fp = 1;
    memory.bytes = (const uint8_t *)stack;
    memory.len = sizeof stack;
    memory.address = 0x8000;
    thread.size = sizeof thread;
    thread.pc = 0x1000;
    thread.memory = &memory;
    thread.num_memory = 1;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.registers = &registers;
    REFUSED(cfipack_walk(NULL, &thread, frames, 4, &count, &end));
    REFUSED(cfipack_walk(&garbage, &thread, frames, 4, &count, &end));
    REFUSED(cfipack_walk(&space, NULL, frames, 4, &count, &end));
    REFUSED(cfipack_walk(&space, &thread, NULL, 4, &count, &end));
    REFUSED(cfipack_walk(&space, &thread, frames, HUGE_LENGTH, &count, &end));
    REFUSED(cfipack_walk(&space, &thread, frames, 4, NULL, &end));
    /* A refused call writes neither frames nor how the walk ended. */
    memset(frames, 0x77, sizeof frames);
    end = 77;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, MISALIGNED(size_t, places), &end));
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, MISALIGNED(uint32_t, places)));
    failures += frames[0].found_by != 0x77 || end != 77;
    thread.num_memory = HUGE_LENGTH;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.num_memory = 1;
    thread.size = 1;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    /* A size that ends in the middle of the pointer `registers`. */
    thread.size = (uint32_t)offsetof(struct cfipack_thread, registers) + 4;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.size = sizeof thread;
    thread.no_frame_pointers = 2;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.no_frame_pointers = 0;
    thread.size = sizeof thread - 7;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.size = sizeof thread;
    thread.reserved[6] = 1;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.reserved[6] = 0;
    thread.address_bits = 56;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.address_bits = 0;
    thread.stack_start = 0x9000;
    thread.stack_end = 0x8000;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.stack_start = thread.stack_end = 0;
    registers.reserved[5] = 1;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    registers.reserved[5] = 0;
    registers.others = &other;
    registers.num_others = 1;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    registers.num_others = 0;
    thread.cache = (struct cfipack_cache *)(void *)&garbage;
    REFUSED(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    thread.cache = &cache;
    DONE(cfipack_walk(&space, &thread, frames, 0, &count, NULL));
    DONE(cfipack_walk(&space, &thread, frames, 1, &count, &end));
    failures += count != 1 || end != CFIPACK_END_NONE;
    /* The return address is 0x1001, in the same function. There the return address is 0. */
    DONE(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    failures += count != 2 || end != CFIPACK_END_NULL || frames[1].pc != 0x1001 || frames[1].sp != 0x8008;
    failures += frames[0].is_exact != 1 || frames[1].is_exact != 0 || frames[1].found_by != CFIPACK_FOUND_BY_TABLE;
    /* The second walk uses the cache. An address space without a table at this place must not use the cached row. */
    DONE(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    failures += count != 2 || end != CFIPACK_END_NULL;
    module.table = NULL;
    DONE(cfipack_modules_init(&space, CFIPACK_ARCH_AMD64, &module, 1));
    DONE(cfipack_walk(&space, &thread, frames, 4, &count, &end));
    failures += count != 1 || end != CFIPACK_END_NO_ROW;
    failures += cfipack_end_text(0) == NULL || cfipack_end_text(0xffffffff) == NULL;
}

/* The modules of this process, in which nothing is a stack. */
static void loaded(void) {
    struct cfipack_process_options options = {0};
    struct cfipack_process_modules *modules = NULL;
    struct cfipack_refreshed refreshed;
    struct cfipack_registry *registry = NULL;
    struct cfipack_registry_reader *reader = NULL;
    struct cfipack_registers registers = {0};
    struct cfipack_thread thread = {0};
    struct cfipack_frame frames[4];
    struct cfipack_message message;
    size_t count = 0;
    uint32_t end = 0;

    REFUSED(cfipack_modules_of_process(NULL, NULL, &message));
    options.size = 5000;
    REFUSED(cfipack_modules_of_process(&modules, &options, &message));
    options.size = sizeof options;
    options.all_files = 2;
    REFUSED(cfipack_modules_of_process(&modules, &options, &message));
    options.all_files = 1;
    options.reserved[2] = 1;
    REFUSED(cfipack_modules_of_process(&modules, &options, &message));
    options.reserved[2] = 0;
    options.memory = 1;
    DONE(cfipack_modules_of_process(&modules, &options, &message));
    DONE(cfipack_process_modules_refresh(modules, &refreshed));
    failures += refreshed.tables != 0 || refreshed.memory != 0 || refreshed.too_large == 0;
    cfipack_process_modules_free(modules);
    DONE(cfipack_modules_of_process(&modules, NULL, NULL));
    REFUSED(cfipack_process_modules_refresh(NULL, &refreshed));
    DONE(cfipack_process_modules_refresh(modules, NULL));
    REFUSED(cfipack_process_modules_walk(NULL, NULL, &thread, frames, 4, &count, &end));
    REFUSED(cfipack_process_modules_walk(modules, NULL, &thread, frames, 4, &count, &end));
    thread.size = sizeof thread;
    thread.registers = &registers;
    REFUSED(cfipack_process_modules_walk(modules, NULL, &thread, NULL, 4, &count, &end));
    DONE(cfipack_process_modules_walk(modules, NULL, &thread, frames, 4, &count, &end));
    failures += count != 1 || end != CFIPACK_END_NO_ROW;
    DONE(cfipack_registry_new(&registry, CFIPACK_ARCH_S390X, NULL));
    DONE(cfipack_registry_reader_new(&reader, registry));
    REFUSED(cfipack_process_modules_walk(modules, reader, &thread, frames, 4, &count, &end));
    cfipack_registry_free(registry);
    cfipack_registry_reader_free(reader);
    cfipack_process_modules_free(modules);
    cfipack_process_modules_free(NULL);
}

static void reading(void) {
    struct cfipack_sframe table, garbage;
    struct cfipack_sframe_info info;
    struct cfipack_sframe_function function;
    struct cfipack_sframe_index index;
    struct cfipack_row row, rows[4];
    struct cfipack_message message;
    struct cfipack_unwind_info compact;
    struct cfipack_unwind_info_entry entry;
    struct cfipack_registers registers;
    struct cfipack_memory memory;
    struct cfipack_caller caller;
    uint32_t words[64];
    size_t number;
    size_t count;
    char text[4096];

    REFUSED(cfipack_sframe_parse(NULL, table_bytes, sizeof table_bytes, 0, NULL));
    REFUSED(cfipack_sframe_parse(&table, NULL, 1, 0, NULL));
    REFUSED(cfipack_sframe_parse(&table, NULL, 0, 0, &message));
    REFUSED(cfipack_sframe_parse(&table, table_bytes, HUGE_LENGTH, 0, &message));
    REFUSED(cfipack_sframe_parse((struct cfipack_sframe *)(void *)((char *)&table + 1), table_bytes, sizeof table_bytes, 0, NULL));
    REFUSED(cfipack_sframe_parse(&table, table_bytes, 27, 0, &message));
    if (message.text[0] == 0 || memchr(message.text, 0, sizeof message.text) == NULL)
        failures++, printf("no message\n");
    memset(&garbage, 0x5a, sizeof garbage);
    REFUSED(cfipack_sframe_get_info(&garbage, &info));
    REFUSED(cfipack_sframe_lookup(&garbage, 0, &row));
    REFUSED(cfipack_sframe_lookup(NULL, 0, &row));
    DONE(cfipack_sframe_parse(&table, table_bytes, sizeof table_bytes, 0x1000, NULL));
    REFUSED(cfipack_sframe_get_info(&table, NULL));
    DONE(cfipack_sframe_get_info(&table, &info));
    REFUSED(cfipack_sframe_validate(NULL, NULL));
    DONE(cfipack_sframe_validate(&table, NULL));
    REFUSED(cfipack_sframe_lookup(&table, 0x1000, NULL));
    DONE(cfipack_sframe_lookup(&table, 0x1000, &row));
    REFUSED(cfipack_sframe_lookup(&table, 0x1004, &row));
    REFUSED(cfipack_sframe_lookup(&table, UINT64_MAX, &row));
    REFUSED(cfipack_sframe_find(&table, 0x1000, NULL));
    REFUSED(cfipack_sframe_find(NULL, 0x1000, &number));
    DONE(cfipack_sframe_find(&table, 0x1003, &number));
    REFUSED(cfipack_sframe_get_function(&table, SIZE_MAX, &function));
    REFUSED(cfipack_sframe_get_function(&table, 0, NULL));
    DONE(cfipack_sframe_get_function(&table, 0, &function));
    REFUSED(cfipack_sframe_get_rows(&table, 0, NULL, 4, &count));
    REFUSED(cfipack_sframe_get_rows(&table, 0, rows, HUGE_LENGTH, &count));
    REFUSED(cfipack_sframe_get_rows(&table, 0, rows, 4, NULL));
    REFUSED(cfipack_sframe_get_rows(&table, 0, NULL, 0, &count));
    DONE(cfipack_sframe_get_rows(&table, 0, rows, 4, &count));
    REFUSED(cfipack_sframe_dump(&table, NULL, text, sizeof text, &count));
    REFUSED(cfipack_sframe_dump(&table, "\xff", text, sizeof text, &count));
    REFUSED(cfipack_sframe_dump(&table, ".sframe", text, 3, &count));
    DONE(cfipack_sframe_dump(&table, ".sframe", text, sizeof text, &count));
    /* A refused call prints nothing. */
    text[0] = 'x';
    REFUSED(cfipack_sframe_dump(&table, ".sframe", text, sizeof text, NULL));
    REFUSED(cfipack_sframe_dump(&table, ".sframe", text, sizeof text, MISALIGNED(size_t, words)));
    failures += text[0] != 'x';
    REFUSED(cfipack_sframe_index_words(NULL, &count));
    DONE(cfipack_sframe_index_words(&table, &count));
    REFUSED(cfipack_sframe_index_build(&index, &table, words, 1));
    REFUSED(cfipack_sframe_index_build(&index, &table, NULL, 64));
    memset(&index, 0, sizeof index);
    REFUSED(cfipack_sframe_index_lookup(&index, 0x1000, &row));
    DONE(cfipack_sframe_index_build(&index, &table, words, 64));
    DONE(cfipack_sframe_index_lookup(&index, 0x1000, &row));

    memset(&registers, 0, sizeof registers);
    memset(&memory, 0, sizeof memory);
    REFUSED(cfipack_step(0, &row, &registers, &memory, 1, &caller));
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, NULL, &registers, &memory, 1, &caller));
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, NULL, &memory, 1, &caller));
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, NULL, 1, &caller));
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, NULL, 0, &caller));
    memory.len = HUGE_LENGTH;
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, &caller));
    memory.bytes = table_bytes;
    memory.len = sizeof table_bytes;
    memory.address = 0x8000;
    registers.sp = 0x8000 + sizeof table_bytes - 7;
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, &caller));
    registers.sp = 0x8000;
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, NULL));
    DONE(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, &caller));
    registers.num_others = 33;
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, &caller));
    registers.num_others = 0;
    registers.has_fp = 2;
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, &caller));
    registers.has_fp = 0;
    row.cfa.kind = 77;
    REFUSED(cfipack_step(CFIPACK_ARCH_AMD64, &row, &registers, &memory, 1, &caller));

    REFUSED(cfipack_unwind_info_parse(NULL, table_bytes, sizeof table_bytes, NULL));
    REFUSED(cfipack_unwind_info_parse(&compact, table_bytes, sizeof table_bytes, &message));
    REFUSED(cfipack_unwind_info_parse(&compact, NULL, HUGE_LENGTH, &message));
    memset(&compact, 0xff, sizeof compact);
    REFUSED(cfipack_unwind_info_lookup(&compact, 0, &entry));
    REFUSED(cfipack_unwind_info_num_pages(&compact, &count));
    REFUSED(cfipack_unwind_info_get_entries(&compact, 0, &entry, 1, &count));
    REFUSED(cfipack_unwind_info_dump(&compact, text, sizeof text, &count));
    REFUSED(cfipack_compact_unwind_row(CFIPACK_ARCH_S390X, 0x01000000, NULL, 0, &row));
    REFUSED(cfipack_compact_unwind_row(99, 0x01000000, NULL, 0, &row));
    REFUSED(cfipack_compact_unwind_row(CFIPACK_ARCH_AMD64, 0x01000000, NULL, 9, &row));
    DONE(cfipack_compact_unwind_row(CFIPACK_ARCH_AMD64, 0x01000000, NULL, 0, &row));
    if (cfipack_strip_signature(0x1234, 4000000000u) != 0x1234)
        failures++;
}

static void linking(void) {
    struct cfipack_row row;
    struct cfipack_merger *merger = NULL, *shard = NULL;
    struct cfipack_section *section = NULL;
    struct cfipack_object object;
    struct cfipack_start starts[2] = {{32, 0, CFIPACK_WHOLE_FUNCTION, 0}, {32, 1, CFIPACK_WHOLE_FUNCTION, 0}};
    struct cfipack_sframe_options options;
    struct cfipack_contribution contribution;
    struct cfipack_stubs stubs;
    struct cfipack_note note;
    struct cfipack_relocation relocation;
    struct cfipack_message message;
    uint64_t addresses[1] = {0x1000};
    uint8_t bytes[256];
    size_t len = 0;
    struct {
        struct cfipack_sframe_options known;
        uint32_t more;
    } larger;

    REFUSED(cfipack_merger_new(NULL, CFIPACK_ARCH_AMD64, NULL, NULL));
    REFUSED(cfipack_merger_new(&merger, 0, NULL, &message));
    REFUSED(cfipack_merger_new(&merger, CFIPACK_ARCH_I386, NULL, &message));
    memset(&options, 0, sizeof options);
    REFUSED(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, &options, NULL));
    options.size = 0xffffffff;
    REFUSED(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, &options, NULL));
    options.size = sizeof options;
    options.version = 1;
    REFUSED(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, &options, NULL));
    options.version = 0;
    options.no_flex = 2;
    REFUSED(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, &options, NULL));
    memset(&larger, 0, sizeof larger);
    larger.known.size = sizeof larger;
    larger.more = 1;
    REFUSED(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, &larger.known, NULL));
    larger.more = 0;
    DONE(cfipack_merger_new(&merger, CFIPACK_ARCH_AMD64, &larger.known, NULL));
    REFUSED(cfipack_merger_shard(NULL, &shard));
    REFUSED(cfipack_merger_shard(merger, NULL));
    REFUSED(cfipack_merger_copy(NULL, &shard));
    REFUSED(cfipack_merger_copy(merger, NULL));
    memset(&object, 0, sizeof object);
    REFUSED(cfipack_merger_push(merger, NULL, NULL));
    REFUSED(cfipack_merger_push(merger, &object, NULL));
    if (*cfipack_merger_message(merger) == 0)
        failures++, printf("no message\n");
    object.size = sizeof object;
    object.eh_frame_len = 5;
    REFUSED(cfipack_merger_push(merger, &object, NULL));
    object.eh_frame = eh_frame;
    object.eh_frame_len = HUGE_LENGTH;
    REFUSED(cfipack_merger_push(merger, &object, NULL));
    object.eh_frame_len = sizeof eh_frame;
    object.eh_frame_starts = starts;
    object.num_eh_frame_starts = 2;
    REFUSED(cfipack_merger_push(merger, &object, NULL));
    object.num_eh_frame_starts = HUGE_LENGTH / sizeof starts[0];
    REFUSED(cfipack_merger_push(merger, &object, NULL));
    object.num_eh_frame_starts = 1;
    REFUSED(cfipack_merger_push(NULL, &object, NULL));
    REFUSED(cfipack_merger_push(merger, &object, (struct cfipack_contribution *)(void *)((char *)&contribution + 1)));
    DONE(cfipack_merger_push(merger, &object, &contribution));
    if (contribution.from_cfi != 1)
        failures++, printf("%zu functions\n", contribution.from_cfi);
    REFUSED(cfipack_merger_push_stubs(merger, NULL));
    memset(&stubs, 0, sizeof stubs);
    stubs.entry.num_rows = 0xffffffff;
    REFUSED(cfipack_merger_push_stubs(merger, &stubs));
    REFUSED(cfipack_merger_push_known_stubs(merger, 0, 0, 1, 0));
    REFUSED(cfipack_merger_push_known_stubs(merger, 0, 0xfff, 1, 0));
    REFUSED(cfipack_merger_push_known_stubs(NULL, 0, CFIPACK_STUBS_AMD64_JUMP, 1, 0));
    REFUSED(cfipack_merger_row_at(NULL, 0, 0, &row));
    REFUSED(cfipack_merger_row_at(merger, starts[0].key, 0, NULL));
    REFUSED(cfipack_merger_absorb(merger, NULL));
    REFUSED(cfipack_merger_absorb(merger, merger));
    failures += strstr(cfipack_merger_message(merger), "absorb") == NULL;
    DONE(cfipack_merger_shard(merger, &shard));
    REFUSED(cfipack_merger_absorb(NULL, shard));
    DONE(cfipack_merger_shard(merger, &shard));
    DONE(cfipack_merger_absorb(merger, shard));
    DONE(cfipack_merger_copy(merger, &shard));
    cfipack_merger_free(shard);
    REFUSED(cfipack_merger_num_notes(merger, NULL));
    REFUSED(cfipack_merger_get_note(merger, HUGE_LENGTH, &note));
    REFUSED(cfipack_merger_note_omitted(NULL, 0, 0));
    /* Each of these calls frees the merger. */
    REFUSED(cfipack_merger_finish(NULL, 0, NULL, &section));
    DONE(cfipack_merger_shard(merger, &shard));
    REFUSED(cfipack_merger_finish(shard, 0, NULL, NULL));
    REFUSED(cfipack_merger_finish_borrowing_objects(NULL, 0, NULL, &section));
    DONE(cfipack_merger_shard(merger, &shard));
    REFUSED(cfipack_merger_finish(shard, CFIPACK_KEYS_SECTIONS + 1, NULL, &section));
    DONE(cfipack_merger_shard(merger, &shard));
    REFUSED(cfipack_merger_finish(shard, 0, &no_size, &section));
    DONE(cfipack_merger_shard(merger, &shard));
    REFUSED(cfipack_merger_finish(shard, 0, (struct cfipack_pool *)(void *)((char *)&many + 1), &section));
    DONE(cfipack_merger_finish(merger, 0, &many, &section));
    REFUSED(cfipack_section_len(section, NULL));
    DONE(cfipack_section_len(section, &len));
    REFUSED(cfipack_section_write(NULL, bytes, len, 0, addresses, 1, NULL));
    REFUSED(cfipack_section_write(section, bytes, len - 1, 0, addresses, 1, NULL));
    REFUSED(cfipack_section_write(section, NULL, len, 0, addresses, 1, NULL));
    REFUSED(cfipack_section_write(section, bytes, len, 0, addresses, 0, NULL));
    REFUSED(cfipack_section_write(section, bytes, len, 0, NULL, 1, NULL));
    REFUSED(cfipack_section_write(section, bytes, len, 0, addresses, HUGE_LENGTH, NULL));
    REFUSED(cfipack_section_write(section, bytes, len, 0x2000, addresses, 1, &no_size));
    DONE(cfipack_section_write(section, bytes, len, 0x2000, addresses, 1, &many));
    REFUSED(cfipack_section_write_relocatable(section, bytes, HUGE_LENGTH));
    DONE(cfipack_section_write_relocatable(section, bytes, len));
    REFUSED(cfipack_section_get_relocations(section, NULL, 0, &len));
    DONE(cfipack_section_get_relocations(section, &relocation, 1, &len));
    REFUSED(cfipack_section_get_omitted(NULL, NULL, 0, &len));
    DONE(cfipack_section_get_omitted(section, NULL, 0, &len));
    REFUSED(cfipack_section_get_conflicts(NULL, NULL, 0, &len));
    DONE(cfipack_section_get_conflicts(section, NULL, 0, &len));
    cfipack_section_free(section);
    cfipack_section_free(NULL);
    cfipack_merger_free(NULL);
}

static void count(void *context) {
    ++*(int *)context;
}

/* Uses the registry that is being freed: removes the next region, and then adds it again. */
static void use(void *context) {
    static const struct cfipack_undo again = {use, NULL};
    struct cfipack_region *region = NULL;
    size_t size = 0;
    (void)context;
    DONE(cfipack_registry_get_memory_size(used, &size));
    if (++uses != 1)
        return;
    DONE(cfipack_registry_remove(used, 0x20000));
    failures += uses != 2;
    DONE(cfipack_region_new(&region, CFIPACK_ARCH_AMD64, 0x20000, 64, NULL));
    DONE(cfipack_registry_add(used, region, &again, NULL));
    cfipack_region_free(region);
}

/* An undo may use its registry, in each call that removes a region. */
static void undoing(void) {
    const struct cfipack_undo undo = {use, NULL};
    struct cfipack_region *region = NULL;
    uint64_t base;
    int is_removed;

    for (is_removed = 0; is_removed < 2; is_removed++) {
        uses = 0;
        DONE(cfipack_registry_new(&used, CFIPACK_ARCH_AMD64, NULL));
        for (base = 0x10000; base <= 0x30000; base += 0x10000) {
            DONE(cfipack_region_new(&region, CFIPACK_ARCH_AMD64, base, 64, NULL));
            DONE(cfipack_registry_add(used, region, &undo, NULL));
            cfipack_region_free(region);
        }
        if (is_removed)
            DONE(cfipack_registry_remove(used, 0x10000));
        cfipack_registry_free(used);
        failures += uses != 4;
    }
}

static void other_handles(void) {
    struct cfipack_unwind_builder *builder = NULL;
    struct cfipack_unwind_section *unwind = NULL;
    struct cfipack_unwind_object object;
    struct cfipack_unwind_places places;
    struct cfipack_region *region = NULL;
    struct cfipack_directive directives[2];
    struct cfipack_registry *registry = NULL;
    struct cfipack_registry_reader *reader = NULL;
    struct cfipack_undo undo;
    struct cfipack_row row;
    int undone = 0;
    struct cfipack_conversion *conversion = NULL;
    struct cfipack_report *report = NULL;
    struct cfipack_report_counts counts;
    struct cfipack_cfi_section section;
    struct cfipack_cfi_sections cfi;
    struct cfipack_message message;
    struct cfipack_registration registration;
    struct cfipack_libunwind libunwind = {0, 0, 0, 0, 0};
    struct cfipack_buffer buffer = {NULL, 0, 0}, no_bytes = {NULL, 0, 0};
    uint8_t bytes[4096];
    size_t len = 0;

    undo.undo = count;
    undo.context = &undone;
    REFUSED(cfipack_unwind_builder_new(&builder, CFIPACK_ARCH_S390X, NULL, &message));
    DONE(cfipack_unwind_builder_new(&builder, CFIPACK_ARCH_AMD64, NULL, NULL));
    memset(&object, 0, sizeof object);
    REFUSED(cfipack_unwind_builder_push(builder, &object));
    object.size = sizeof object;
    object.num_functions = HUGE_LENGTH;
    REFUSED(cfipack_unwind_builder_push(builder, &object));
    object.num_functions = 0;
    DONE(cfipack_unwind_builder_push(builder, &object));
    REFUSED(cfipack_unwind_builder_absorb(builder, builder));
    failures += strstr(cfipack_unwind_builder_message(builder), "absorb") == NULL;
    REFUSED(cfipack_unwind_builder_push_code(NULL, 0, 1));
    DONE(cfipack_unwind_builder_push_code(builder, 0, 1));
    REFUSED(cfipack_unwind_builder_finish(NULL, &unwind));
    DONE(cfipack_unwind_builder_finish(builder, &unwind));
    memset(&places, 0, sizeof places);
    REFUSED(cfipack_unwind_section_write(unwind, &places, bytes, sizeof bytes, &len));
    places.size = sizeof places;
    REFUSED(cfipack_unwind_section_write(unwind, &places, NULL, 9, &len));
    REFUSED(cfipack_unwind_section_write(unwind, &places, bytes, sizeof bytes, NULL));
    REFUSED(cfipack_unwind_section_plan(unwind, NULL, 7, 0, &len));
    REFUSED(cfipack_unwind_section_max_len(NULL, &len));
    REFUSED(cfipack_unwind_section_get_warning(unwind, HUGE_LENGTH, &message));
    DONE(cfipack_unwind_section_write(unwind, &places, bytes, sizeof bytes, &len));
    cfipack_unwind_section_free(unwind);

    REFUSED(cfipack_region_new(&region, CFIPACK_ARCH_AMD64, UINT64_MAX, 2, &message));
    DONE(cfipack_region_new(&region, CFIPACK_ARCH_AMD64, 0x10000, 64, NULL));
    memset(directives, 0, sizeof directives);
    REFUSED(cfipack_region_push(region, NULL, 0, 16, directives, 1));
    directives[0].kind = CFIPACK_CFI_DEF_CFA_OFFSET;
    directives[0].offset = 4;
    directives[0].value = 32;
    REFUSED(cfipack_region_push(region, NULL, 0, 16, directives, HUGE_LENGTH));
    REFUSED(cfipack_region_push(region, "\xff", 0, 16, directives, 1));
    REFUSED(cfipack_region_push(region, "f", 60, 16, directives, 1));
    directives[1].kind = CFIPACK_CFI_OFFSET;
    directives[1].reg = 0x10000;
    REFUSED(cfipack_region_push(region, "f", 0, 16, directives, 2));
    directives[1].kind = CFIPACK_CFI_ESCAPE;
    directives[1].num_bytes = HUGE_LENGTH;
    REFUSED(cfipack_region_push(region, "f", 0, 16, directives, 2));
    DONE(cfipack_region_push(region, "f", 0, 16, directives, 1));
    REFUSED(cfipack_region_push(region, "g", 8, 16, directives, 1));
    REFUSED(cfipack_region_push_eh_frame(region, eh_frame, HUGE_LENGTH, 0));
    REFUSED(cfipack_region_push_eh_frame(region, eh_frame, sizeof eh_frame, 0x2000));
    REFUSED(cfipack_region_push_eh_frame(region, eh_frame, sizeof eh_frame - 9, 0x11010));
    DONE(cfipack_region_push_eh_frame(region, eh_frame, sizeof eh_frame, 0x11010));
    REFUSED(cfipack_region_eh_frame(region, 9, 0, bytes, sizeof bytes, &len, NULL));
    REFUSED(cfipack_region_eh_frame(region, 0, 0, bytes, 3, &len, NULL));
    REFUSED(cfipack_region_eh_frame(region, CFIPACK_POINTERS_PC_RELATIVE, UINT64_MAX / 2, bytes, sizeof bytes, &len, NULL));
    DONE(cfipack_region_eh_frame(region, 0, 0, bytes, sizeof bytes, &len, NULL));
    buffer.bytes = bytes;
    buffer.capacity = sizeof bytes;
    REFUSED(cfipack_region_sframe(region, NULL, 0, NULL, NULL, NULL));
    REFUSED(cfipack_region_sframe(region, NULL, 0, &no_bytes, NULL, NULL));
    DONE(cfipack_region_sframe(region, NULL, 0x20000, &buffer, &registration, NULL));
    REFUSED(cfipack_region_gdb_elf(region, bytes, 0, &len));
    DONE(cfipack_region_gdb_elf(region, bytes, sizeof bytes, &len));
    REFUSED(cfipack_region_libunwind_table(region, NULL, &buffer, bytes));
    REFUSED(cfipack_region_libunwind_table(region, &libunwind, &buffer, NULL));
    libunwind.form = 7;
    REFUSED(cfipack_region_libunwind_table(region, &libunwind, &buffer, bytes));
    no_bytes.capacity = 0;
    REFUSED(cfipack_region_unwind_info(region, NULL, 0, &no_bytes, 0, &no_bytes, NULL));
    REFUSED(cfipack_region_unwind_info(region, NULL, 0, NULL, 0, NULL, NULL));
    REFUSED(cfipack_region_jitdump(region, HUGE_LENGTH, NULL, 0, NULL, &buffer, NULL));
    REFUSED(cfipack_jitdump_header(0, 0, 0, bytes));
    REFUSED(cfipack_jitdump_header(CFIPACK_ARCH_AMD64, 0, 0, NULL));
    DONE(cfipack_jitdump_close(CFIPACK_ARCH_AMD64, 0, bytes));

    REFUSED(cfipack_registry_new(&registry, 99, &message));
    REFUSED(cfipack_registry_new(NULL, CFIPACK_ARCH_AMD64, &message));
    DONE(cfipack_registry_new(&registry, CFIPACK_ARCH_AMD64, NULL));
    REFUSED(cfipack_registry_reader_new(&reader, NULL));
    REFUSED(cfipack_registry_reader_new(NULL, registry));
    DONE(cfipack_registry_reader_new(&reader, registry));
    REFUSED(cfipack_registry_add(registry, NULL, &undo, NULL));
    /* A region that is refused because of the last pointer is not added. */
    REFUSED(cfipack_registry_add(registry, region, &undo, (size_t *)(void *)((char *)&len + 1)));
    DONE(cfipack_registry_add(registry, region, &undo, &len));
    REFUSED(cfipack_registry_add(registry, region, &undo, NULL));
    REFUSED(cfipack_registry_lookup(NULL, 0x1000, &row));
    REFUSED(cfipack_registry_lookup(reader, 0, &row));
    REFUSED(cfipack_registry_lookup(reader, 0x10008, NULL));
    failures += cfipack_registry_lookup(reader, 0, NULL) != CFIPACK_STATUS_INVALID_ARGUMENT;
    DONE(cfipack_registry_lookup(reader, 0x10008, &row));
    REFUSED(cfipack_registry_remove(registry, 1));
    REFUSED(cfipack_registry_get_memory_size(registry, NULL));
    if (undone != 0)
        ++failures;
    cfipack_registry_free(registry);
    if (undone != 1)
        ++failures;
    REFUSED(cfipack_registry_lookup(reader, 0x10008, &row));
    cfipack_registry_reader_free(reader);
    cfipack_region_free(region);

    memset(&section, 0, sizeof section);
    section.bytes = eh_frame;
    section.len = HUGE_LENGTH;
    cfi.sections = &section;
    cfi.num_sections = 1;
    cfi.architecture = CFIPACK_ARCH_AMD64;
    REFUSED(cfipack_conversion_new(&conversion, &cfi, NULL, 0, NULL, &message));
    section.len = sizeof eh_frame;
    section.kind = 9;
    REFUSED(cfipack_conversion_new(&conversion, &cfi, NULL, 0, NULL, &message));
    section.kind = CFIPACK_EH_FRAME;
    section.address = 0x2000;
    section.len = sizeof eh_frame - 20;
    REFUSED(cfipack_conversion_new(&conversion, &cfi, NULL, 0, NULL, &message));
    cfipack_conversion_free(conversion); /* it has the functions before the damage */
    REFUSED(cfipack_eh_frame_len(eh_frame, HUGE_LENGTH, CFIPACK_ARCH_AMD64, &len, &message));
    REFUSED(cfipack_eh_frame_len(NULL, sizeof eh_frame, CFIPACK_ARCH_AMD64, &len, &message));
    REFUSED(cfipack_eh_frame_len(eh_frame, sizeof eh_frame, 0, &len, &message));
    REFUSED(cfipack_eh_frame_len(eh_frame, sizeof eh_frame, CFIPACK_ARCH_AMD64, NULL, &message));
    REFUSED(cfipack_eh_frame_len(eh_frame, sizeof eh_frame - 20, CFIPACK_ARCH_AMD64, &len, NULL));
    section.len = sizeof eh_frame;
    DONE(cfipack_conversion_new(&conversion, &cfi, NULL, 0x3000, &two, NULL));
    DONE(cfipack_conversion_len(conversion, &len));
    REFUSED(cfipack_conversion_write(conversion, bytes, len + 1));
    DONE(cfipack_conversion_write(conversion, bytes, len));
    REFUSED(cfipack_conversion_get_omitted(conversion, 0, NULL, NULL));
    REFUSED(cfipack_verify_sframe(&report, &cfi, bytes, 3, 0x3000, NULL, &message));
    DONE(cfipack_verify_sframe(&report, &cfi, bytes, len, 0x3000, &two, NULL));
    DONE(cfipack_report_get_counts(report, &counts));
    if (!counts.is_complete || counts.functions != 1 || counts.pcs != 16)
        failures++, printf("the report is wrong\n");
    cfipack_report_free(report);
    cfipack_conversion_free(conversion);
}

int main(void) {
    reading();
    walking();
    loaded();
    linking();
    undoing();
    other_handles();
    printf("calls %u failures %u\n", calls, failures);
    return failures != 0;
}
