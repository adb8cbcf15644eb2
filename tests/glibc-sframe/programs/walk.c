/* Preloaded into a program: every WALK_EVERYth allocation walks the stack by backtrace(), and calls walk_done, where a
   debugger compares. The program stops itself before main, so that the debugger can attach. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>

void *walk_frames[1024];
int walk_count;

__attribute__((noinline)) void walk_done(void)
{
    __asm__ volatile("" ::: "memory");
}

static void *(*real_malloc)(size_t);
static void *(*real_realloc)(void *, size_t);
static unsigned long calls, every;
static __thread int walking;

static void walk(void)
{
    if (every == 0 || walking || __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % every != 0)
        return;
    walking = 1;
    walk_count = backtrace(walk_frames, 1024);
    walk_done();
    walking = 0;
}

void *malloc(size_t size)
{
    if (!real_malloc)
        real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    walk();
    void *memory = real_malloc(size);
    /* Not a tail call: the frame stays. */
    __asm__ volatile("" ::: "memory");
    return memory;
}

void *realloc(void *old, size_t size)
{
    if (!real_realloc)
        real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    walk();
    void *memory = real_realloc(old, size);
    __asm__ volatile("" ::: "memory");
    return memory;
}

__attribute__((constructor)) static void start(void)
{
    const char *number = getenv("WALK_EVERY");
    if (!number)
        return;
    /* Not in what the program itself starts. */
    unsetenv("WALK_EVERY");
    unsetenv("LD_PRELOAD");
    raise(SIGSTOP);
    every = strtoul(number, 0, 10);
}
