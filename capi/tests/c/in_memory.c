/* Converts the call frame information of each loaded file. PT_GNU_EH_FRAME gives only the start of the section.
 * The table must have as many functions as the linker counted in .eh_frame_hdr. */
#define _GNU_SOURCE
#include "cfipack.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#define ARCHITECTURE CFIPACK_ARCH_AMD64
#else
#define ARCHITECTURE CFIPACK_ARCH_AARCH64
#endif

static int files, failures;

static void failed(const char *name, const char *what) {
    printf("%s: %s\n", name, what);
    failures++;
}

/* Expects a header of version 1, a PC-relative 32-bit pointer, a 32-bit count, and pairs relative to the header. */
static int check_file(struct dl_phdr_info *info, size_t size, void *data) {
    const uint8_t form[] = {1, 0x1b, 0x03, 0x3b};
    const uint8_t *header = NULL, *eh_frame, *end = NULL;
    struct cfipack_cfi_section section;
    struct cfipack_cfi_sections cfi;
    struct cfipack_conversion *conversion = NULL;
    struct cfipack_message message;
    int32_t distance;
    uint32_t counted;
    size_t functions = 0;
    int i;
    (void)size;
    (void)data;
    for (i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            header = (const uint8_t *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (header == NULL || memcmp(header, form, sizeof form) != 0)
        return 0;
    memcpy(&distance, header + 4, sizeof distance);
    memcpy(&counted, header + 8, sizeof counted);
    eh_frame = header + 4 + distance;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint8_t *start = (const uint8_t *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_LOAD && eh_frame >= start && eh_frame < start + segment->p_filesz)
            end = start + segment->p_filesz;
    }
    memset(&section, 0, sizeof section);
    section.bytes = eh_frame;
    section.address = (uintptr_t)eh_frame;
    section.kind = CFIPACK_EH_FRAME;
    cfi.sections = &section;
    cfi.num_sections = 1;
    cfi.architecture = ARCHITECTURE;
    if (end == NULL || cfipack_eh_frame_len(eh_frame, (size_t)(end - eh_frame), ARCHITECTURE, &section.len, &message) !=
                           CFIPACK_STATUS_OK) {
        failed(info->dlpi_name, end == NULL ? "not in a segment" : message.text);
        return 0;
    }
    if (cfipack_conversion_new(&conversion, &cfi, NULL, section.address, NULL, &message) != CFIPACK_STATUS_OK)
        failed(info->dlpi_name, message.text);
    cfipack_conversion_num_functions(conversion, &functions, NULL);
    if (functions != counted) {
        printf("%zu functions, %lu in .eh_frame_hdr\n", functions, (unsigned long)counted);
        failed(info->dlpi_name, "another number");
    }
    cfipack_conversion_free(conversion);
    files++;
    return 0;
}

int main(void) {
    dl_iterate_phdr(check_file, NULL);
    printf("%d files, %d failures\n", files, failures);
    return files < 2 || failures != 0;
}
