/* For each loaded object: whether _dl_find_object reports the table that PT_GNU_SFRAME leads to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME 0x6474e554
#endif

static int wrong;

static int each(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    const void *code = 0, *table = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const void *start = (const void *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            code = start;
        if (segment->p_type == PT_GNU_SFRAME)
            table = start;
    }
    struct dl_find_object found;
    if (!code || _dl_find_object((void *)code, &found) != 0)
        return 0;
    const void *reported = found.dlfo_flags & DLFO_FLAG_SFRAME ? found.dlfo_sframe : 0;
    const char *verdict = !table ? "no table" : reported == table ? "reported" : "NOT REPORTED";
    wrong |= table && reported != table;
    printf("%s\t%s\n", verdict, info->dlpi_name[0] ? info->dlpi_name : "the program");
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL))
            fprintf(stderr, "not loaded: %s\n", dlerror());
    dl_iterate_phdr(each, 0);
    return wrong;
}
