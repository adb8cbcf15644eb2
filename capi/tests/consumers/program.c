/* A program whose build tool finds libcfipack. It makes a table from the call frame information of one function,
 * and looks up a PC in it. */
#include <cfipack.h>
#include <stdio.h>
#include <string.h>

/* `push rbp; pop rbp; ret` at 0x1000; the section lies at 0. */
static const uint8_t eh_frame[] = {
    0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
    0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0xe0, 0x0f, 0, 0, 4, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x42, 0x0e, 8, 0};

int main(void) {
    struct cfipack_cfi_section section;
    struct cfipack_cfi_sections cfi;
    struct cfipack_conversion *conversion;
    struct cfipack_message message;
    struct cfipack_sframe table;
    struct cfipack_row row;
    uint8_t bytes[256];
    size_t len = 0;

    if (strcmp(cfipack_version(), CFIPACK_VERSION_STRING) != 0) {
        printf("cfipack.h is %s, the library %s\n", CFIPACK_VERSION_STRING, cfipack_version());
        return 1;
    }
    memset(&section, 0, sizeof section);
    section.bytes = eh_frame;
    section.len = sizeof eh_frame;
    section.kind = CFIPACK_EH_FRAME;
    cfi.sections = &section;
    cfi.num_sections = 1;
    cfi.architecture = CFIPACK_ARCH_AMD64;
    if (cfipack_conversion_new(&conversion, &cfi, NULL, 0x2000, NULL, &message) != CFIPACK_STATUS_OK) {
        printf("%s\n", message.text);
        return 1;
    }
    cfipack_conversion_len(conversion, &len);
    if (len > sizeof bytes || cfipack_conversion_write(conversion, bytes, len) != CFIPACK_STATUS_OK) {
        printf("%s\n", cfipack_conversion_message(conversion));
        return 1;
    }
    cfipack_conversion_free(conversion);
    if (cfipack_sframe_parse(&table, bytes, len, 0x2000, &message) != CFIPACK_STATUS_OK ||
        cfipack_sframe_lookup(&table, 0x1001, &row) != CFIPACK_STATUS_OK)
        return 1;
    printf("CFA = register %u + %d\n", (unsigned)row.cfa.reg, (int)row.cfa.offset);
    return row.cfa.reg != 7 || row.cfa.offset != 16;
}
