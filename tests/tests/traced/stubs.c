/* A program to be stepped through the stubs that a linker writes: each function of a shared library that it calls, it
   calls at least once, and some again through their addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Called and asked for its address: some linkers give it a stub without a slot of its own. */
static int (*volatile indirect)(const char *) = puts;
static size_t (*volatile length)(const char *) = strlen;

/* A function that ends in a jump to a stub. */
static __attribute__((noinline)) int tail(const char *text)
{
    return puts(text);
}

/* Of another file, where a descriptor is asked for. */
#ifdef __PIC__
#if !defined(__PIE__)
extern __thread int elsewhere __attribute__((tls_model("global-dynamic")));
int descriptor(void)
{
    return elsewhere;
}
#endif
#endif

int main(int argc, char **argv)
{
    int values[3] = {3, 1, 2};
    char *text = malloc(16);
    char *volatile copy = text;
    qsort(values, 3, sizeof *values, ascending);
    memset(text, 'a' + argc, 9);
    text[9] = 0;
    for (int i = 0; i < 2; i++) {
        tail(copy);
        printf("%d %zu %s\n", values[i], length(copy), getenv("HOME") ? "home" : "");
    }
    indirect(strchr(copy, argv[0][0]) ? "yes" : "no");
    free(text);
    return 0;
}
