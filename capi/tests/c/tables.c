/* Works like a linker: merges an object's table again with stubs and a function without rows, and builds `__unwind_info`
 * with a personality and an LSDA. Expected values come from the formats' documents. Run under valgrind. */
#include "cfipack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned failures;

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            failures++;                                                                                                 \
            printf("line %d: %s\n", __LINE__, #condition);                                                              \
        }                                                                                                               \
    } while (0)

#define OK(call) CHECK((call) == CFIPACK_STATUS_OK)

/* A CIE, and functions of 16 and 32 bytes. The first pushes rbp after one byte, and the second does not push. */
static const uint8_t eh_frame[] = {
    20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0,
    20, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x86, 2, 0, 0,
    16, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0,
};

enum { FIRST_START = 32, SECOND_START = 56, TABLE = 0x3000, STUBS = 0x1800, VENEER = 0x1900, FUNCTIONS = 2 };

static struct cfipack_merger *merger(void) {
    struct cfipack_merger *made = NULL;
    OK(cfipack_merger_new(&made, CFIPACK_ARCH_AMD64, NULL, NULL));
    return made;
}

/* A start field. The function's key is its offset in input section 0. */
static struct cfipack_start start(uint64_t offset, uint64_t key) {
    struct cfipack_start made;
    memset(&made, 0, sizeof made);
    made.offset = offset;
    made.key = key;
    made.extent = CFIPACK_WHOLE_FUNCTION;
    return made;
}

static struct cfipack_contribution push(struct cfipack_merger *to, const struct cfipack_object *object) {
    struct cfipack_contribution contribution;
    memset(&contribution, 0xff, sizeof contribution);
    OK(cfipack_merger_push(to, object, &contribution));
    return contribution;
}

/* Makes the object's own table, and returns its start fields in `fields`. */
static size_t table_of_object(uint8_t *table, size_t capacity, struct cfipack_start fields[FUNCTIONS]) {
    struct cfipack_start starts[FUNCTIONS];
    struct cfipack_relocation relocations[FUNCTIONS];
    struct cfipack_contribution contribution;
    struct cfipack_object object;
    struct cfipack_section *section = NULL;
    struct cfipack_merger *from_cfi = merger();
    size_t len = 0, count = 0;
    starts[0] = start(FIRST_START, 0);
    starts[1] = start(SECOND_START, 1);
    memset(&object, 0, sizeof object);
    object.size = sizeof object;
    object.eh_frame = eh_frame;
    object.eh_frame_len = sizeof eh_frame;
    object.eh_frame_starts = starts;
    object.num_eh_frame_starts = FUNCTIONS;
    contribution = push(from_cfi, &object);
    CHECK(contribution.from_cfi == 2 && contribution.copied == 0 && contribution.dead == 0 && contribution.omitted == 0);
    OK(cfipack_merger_finish(from_cfi, CFIPACK_KEYS_FUNCTIONS, NULL, &section));
    OK(cfipack_section_len(section, &len));
    CHECK(len <= capacity);
    OK(cfipack_section_write_relocatable(section, table, len));
    CHECK(cfipack_section_get_relocations(section, relocations, 1, &count) == CFIPACK_STATUS_BUFFER_SIZE && count == 2);
    OK(cfipack_section_get_relocations(section, relocations, FUNCTIONS, &count));
    for (size_t i = 0; i < FUNCTIONS; i++) {
        /* Entries of 16 bytes follow the header of 28 bytes, and the relocation is R_X86_64_PC64. */
        CHECK(relocations[i].offset == 28 + 16 * i && relocations[i].elf_type == 24);
        CHECK(relocations[i].key < FUNCTIONS && relocations[i].addend == 0 && relocations[i].reserved == 0);
        fields[i] = start(relocations[i].offset, relocations[i].key);
    }
    cfipack_section_free(section);
    return len;
}

/* Returns whether the row at `pc` has CFA = rsp + offset. */
static int has_cfa(const struct cfipack_sframe *table, uint64_t pc, int64_t offset) {
    struct cfipack_row row;
    memset(&row, 0, sizeof row);
    return cfipack_sframe_lookup(table, pc, &row) == CFIPACK_STATUS_OK && row.cfa.kind == CFIPACK_RULE_REGISTER &&
           row.cfa.reg == 7 && row.cfa.offset == offset;
}

/* Merges an object's table with stubs, and with a function without rows that lies inside the second function. */
static void merge(void) {
    uint8_t table[256], linked[256], again[256];
    struct cfipack_start fields[FUNCTIONS];
    struct cfipack_object object;
    struct cfipack_contribution contribution;
    struct cfipack_sframe_function function;
    struct cfipack_sframe parsed;
    struct cfipack_row row;
    struct cfipack_section *section = NULL;
    struct cfipack_merger *from_table = merger(), *without_veneer = NULL, *borrowing = NULL;
    struct cfipack_stubs veneer;
    uint64_t addresses[3] = {0x1000, STUBS, VENEER};
    size_t len, count, index = 9;
    memset(&object, 0, sizeof object);
    object.size = sizeof object;
    object.sframe = table;
    object.sframe_len = table_of_object(table, sizeof table, fields);
    fields[0].key *= 16;
    fields[1].key *= 16;
    object.sframe_starts = fields;
    object.num_sframe_starts = FUNCTIONS;
    contribution = push(from_table, &object);
    CHECK(contribution.copied + contribution.reencoded == 2 && contribution.from_cfi == 0 && contribution.skipped == 0);
    /* In section 1, a `.plt` of a header and three entries. */
    OK(cfipack_merger_push_known_stubs(from_table, (uint64_t)1 << 32, CFIPACK_STUBS_AMD64_LAZY_PLT, 3, 0));
    OK(cfipack_merger_note_omitted(from_table, 40, 8));
    /* Gets a row for a veneer that runs in the function's frame. Keys are offsets in section 0. */
    CHECK(cfipack_merger_row_at(from_table, fields[0].key, 1, &row) == CFIPACK_STATUS_OK);
    CHECK(row.start == 1 && row.cfa.kind == CFIPACK_RULE_REGISTER && row.cfa.reg == 7 && row.cfa.offset == 16);
    CHECK(cfipack_merger_row_at(from_table, fields[0].key, 16, &row) == CFIPACK_STATUS_NOT_FOUND);
    CHECK(cfipack_merger_row_at(from_table, fields[0].key + 1, 0, &row) == CFIPACK_STATUS_NOT_FOUND);
    row.start = 0;
    memset(&veneer, 0, sizeof veneer);
    veneer.key = (uint64_t)2 << 32;
    veneer.header.rows = &row;
    veneer.header.num_rows = 1;
    veneer.header.size = 8;
    /* A linker may need the size before it knows the veneers, so it finishes a copy. */
    OK(cfipack_merger_copy(from_table, &without_veneer));
    OK(cfipack_merger_push_stubs(from_table, &veneer));
    OK(cfipack_merger_finish(without_veneer, CFIPACK_KEYS_SECTIONS, NULL, &section));
    OK(cfipack_section_num_functions(section, &count));
    cfipack_section_free(section);
    OK(cfipack_merger_copy(from_table, &borrowing));
    OK(cfipack_merger_finish(from_table, CFIPACK_KEYS_SECTIONS, NULL, &section));
    OK(cfipack_section_num_functions(section, &index));
    CHECK(index == count + 1);
    OK(cfipack_section_len(section, &len));
    CHECK(len <= sizeof linked);
    OK(cfipack_section_write(section, linked, len, TABLE, addresses, 3, NULL));
    cfipack_section_free(section);
    OK(cfipack_merger_finish_borrowing_objects(borrowing, CFIPACK_KEYS_SECTIONS, NULL, &section));
    OK(cfipack_section_write(section, again, len, TABLE, addresses, 3, NULL));
    cfipack_section_free(section);
    CHECK(memcmp(again, linked, len) == 0);
    OK(cfipack_sframe_parse(&parsed, linked, len, TABLE, NULL));
    CHECK(has_cfa(&parsed, 0x1000, 8) && has_cfa(&parsed, 0x1001, 16) && has_cfa(&parsed, 0x100f, 16));
    CHECK(has_cfa(&parsed, 0x1010, 8) && has_cfa(&parsed, 0x1027, 8));
    for (uint64_t pc = 0x1028; pc < 0x1030; pc++)
        CHECK(cfipack_sframe_lookup(&parsed, pc, &row) == CFIPACK_STATUS_NOT_FOUND);
    /* Checks an entry before and after `push index`, and the header after its push. */
    for (uint64_t entry = STUBS + 16; entry < STUBS + 64; entry += 16)
        CHECK(has_cfa(&parsed, entry, 8) && has_cfa(&parsed, entry + 11, 16));
    CHECK(has_cfa(&parsed, VENEER, 16) && has_cfa(&parsed, VENEER + 7, 16));
    CHECK(has_cfa(&parsed, STUBS, 16) && has_cfa(&parsed, STUBS + 6, 24));
    OK(cfipack_sframe_find(&parsed, STUBS + 40, &index));
    OK(cfipack_sframe_get_function(&parsed, index, &function));
    CHECK(function.repeat == 16 && function.start == STUBS + 16 && function.size == 48 && function.is_flex == 0);
    OK(cfipack_sframe_find(&parsed, 0x1004, &index));
    OK(cfipack_sframe_get_function(&parsed, index, &function));
    CHECK(function.repeat == 0 && function.start == 0x1000 && function.size == 16 && function.num_rows == 2);
    CHECK(function.is_flex == 0 && function.is_signal_frame == 0 && function.has_pauth_key_b == 0);
}

enum { FRAME = 0x01000000, FRAMELESS = 0x02020000, LSDA_FLAG = 0x40000000, ROW = 32 };

static struct cfipack_reference reference(uint32_t offset, uint64_t key) {
    struct cfipack_reference made;
    made.part = CFIPACK_PART_COMPACT_UNWIND;
    made.offset = offset;
    made.key = key;
    return made;
}

/* Builds a table of a function with a personality and an LSDA, a function without, and code without information. */
static void unwind_info(void) {
    static const uint8_t lengths[2] = {0x20, 0x10};
    static const uint32_t encodings[2] = {FRAME, FRAMELESS};
    uint8_t rows[2 * ROW], bytes[8192];
    struct cfipack_reference references[4];
    struct cfipack_unwind_object object;
    struct cfipack_unwind_places places;
    struct cfipack_unwind_info table;
    struct cfipack_unwind_info_entry entry;
    struct cfipack_unwind_builder *builder = NULL;
    struct cfipack_unwind_section *section = NULL;
    uint32_t functions[4] = {0x1000, 0x1020, CFIPACK_NO_ADDRESS, 0x1030}, lsdas[2] = {CFIPACK_NO_ADDRESS, 0x3010}, slots[1] = {0x4008};
    uint64_t personality = 99;
    size_t len = 0, planned = 0, count = 0;
    memset(rows, 0, sizeof rows);
    for (unsigned i = 0; i < 2; i++) {
        rows[i * ROW + 8] = lengths[i];
        for (unsigned byte = 0; byte < 4; byte++)
            rows[i * ROW + 12 + byte] = (uint8_t)(encodings[i] >> 8 * byte);
    }
    references[0] = reference(0, 0);
    references[1] = reference(16, 7);
    references[2] = reference(24, 1);
    references[3] = reference(ROW, 1);
    memset(&object, 0, sizeof object);
    object.size = sizeof object;
    object.compact_unwind = rows;
    object.compact_unwind_len = sizeof rows;
    object.references = references;
    object.num_references = 4;
    OK(cfipack_unwind_builder_new(&builder, CFIPACK_ARCH_AMD64, NULL, NULL));
    OK(cfipack_unwind_builder_push(builder, &object));
    OK(cfipack_unwind_builder_push_code(builder, 3, 0x10));
    OK(cfipack_unwind_builder_finish(builder, &section));
    OK(cfipack_unwind_section_get_personalities(section, &personality, 1, &count));
    CHECK(count == 1 && personality == 7);
    memset(&places, 0, sizeof places);
    places.size = sizeof places;
    places.functions = functions;
    places.num_functions = 4;
    places.lsdas = lsdas;
    places.num_lsdas = 2;
    places.slots = slots;
    places.num_slots = 1;
    OK(cfipack_unwind_section_plan(section, functions, 4, 0, &planned));
    CHECK(planned <= sizeof bytes);
    memset(bytes, 0xff, sizeof bytes);
    OK(cfipack_unwind_section_write(section, &places, bytes, sizeof bytes, &len));
    CHECK(len != 0 && len <= planned);
    for (size_t i = len; i < sizeof bytes; i++)
        CHECK(bytes[i] == 0);
    OK(cfipack_unwind_section_num_warnings(section, &count));
    CHECK(count == 0);
    OK(cfipack_unwind_info_parse(&table, bytes, len, NULL));
    OK(cfipack_unwind_info_lookup(&table, 0x101f, &entry));
    CHECK(entry.start == 0x1000 && entry.end == 0x1020 && (entry.encoding & 0x0fffffff) == FRAME);
    CHECK((entry.encoding & LSDA_FLAG) != 0 && entry.lsda == 0x3010 && entry.personality == 0x4008);
    OK(cfipack_unwind_info_lookup(&table, 0x1020, &entry));
    CHECK(entry.start == 0x1020 && entry.encoding == FRAMELESS && entry.lsda == 0 && entry.personality == 0);
    CHECK(cfipack_unwind_info_lookup(&table, 0x1030, &entry) == CFIPACK_STATUS_NOT_FOUND || entry.encoding == 0);
    cfipack_unwind_section_free(section);
    /* A table that is refused cannot be used. */
    CHECK(cfipack_unwind_info_parse(&table, bytes, 8, NULL) != CFIPACK_STATUS_OK);
    CHECK(cfipack_unwind_info_lookup(&table, 0x1000, &entry) == CFIPACK_STATUS_INVALID_ARGUMENT);
}

int main(void) {
    merge();
    unwind_info();
    printf("%u failures\n", failures);
    return failures != 0;
}
