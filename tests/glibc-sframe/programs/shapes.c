/* Stacks of many shapes, with an allocation at the end of each: recursion, callbacks from the C library, a frame of
   variable size, aligned and large frames, another thread, constructors and exit handlers. */
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;

static __attribute__((noinline)) void leaf(int n)
{
    void *memory = malloc((size_t)n + 1);
    sink += memory != 0;
    free(memory);
}

static __attribute__((noinline)) void recurse(int n)
{
    volatile char large[300];
    large[n] = 1;
    if (n > 0)
        recurse(n - 1);
    else
        leaf(n);
    sink += large[n];
}

static __attribute__((noinline)) void variable(int n)
{
    char *memory = alloca((size_t)n * 16 + 16);
    memset(memory, n, (size_t)n + 1);
    leaf(memory[0]);
    sink += memory[n];
}

static __attribute__((noinline)) void aligned(int n)
{
    _Alignas(128) volatile char bytes[256];
    bytes[n] = 1;
    leaf(n);
    sink += bytes[n];
}

static int compare(const void *a, const void *b)
{
    leaf(3);
    return *(const int *)a - *(const int *)b;
}

static void *thread(void *argument)
{
    recurse(20);
    variable(5);
    return argument;
}

__attribute__((constructor)) static void before(void) { leaf(1); }

static void after(void) { leaf(2); }

int main(void)
{
    int numbers[] = {5, 3, 9, 1, 7};
    atexit(after);
    for (int n = 0; n < 50; n += 7) {
        recurse(n);
        variable(n);
        aligned(n);
    }
    qsort(numbers, 5, sizeof *numbers, compare);
    pthread_t id;
    if (pthread_create(&id, 0, thread, 0) == 0)
        pthread_join(id, 0);
    printf("%d\n", numbers[0]);
    return 0;
}
