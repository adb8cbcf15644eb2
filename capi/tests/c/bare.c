/* Functions with frame pointers and without call frame information, because of compiler options. */
enum { LINKS = 7 };

extern void *addresses[LINKS];
extern int links;

void bare_outer(void (*next)(int), int depth);
void bare_inner(void (*next)(int), int depth);

void bare_outer(void (*next)(int), int depth) {
    addresses[links++] = __builtin_return_address(0);
    next(depth);
    __asm__ volatile("" ::: "memory");
}

/* This function has a larger frame of its own. */
void bare_inner(void (*next)(int), int depth) {
    volatile char room[200];
    addresses[links++] = __builtin_return_address(0);
    room[depth] = (char)depth;
    next(room[depth]);
    __asm__ volatile("" ::: "memory");
}
