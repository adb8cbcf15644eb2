/* A file that the program loads and unloads. WORDS sets the size of the frame and nothing else, so that files of
 * different sizes have the same addresses. */
#include <stddef.h>

#ifndef WORDS
#define WORDS 8
#endif

typedef void call(void *data);

void plugin_call(call *next, void *data) {
    volatile size_t words[WORDS];
    size_t i;
    for (i = 0; i < WORDS; i++)
        words[i] = i;
    next(data);
    for (i = 0; i < WORDS; i++)
        words[i] += i;
}
