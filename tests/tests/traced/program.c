/* A program to be traced instruction by instruction: what compilers make of odd frames. */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile long sink;
static jmp_buf back;

static int descending(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

/* A frame of a size that only the caller knows. */
static __attribute__((noinline)) long variable(int n)
{
    char *block = alloca(n);
    memset(block, n, n);
    sink += block[n / 2];
    return n > 40 ? variable(n - 40) + block[0] : block[0];
}

/* A stack that the function aligns itself: the CFA is in a register, then in memory. */
static __attribute__((noinline, force_align_arg_pointer)) long realigned(int n)
{
    char block[64] __attribute__((aligned(64)));
    char *more = alloca(n);
    memset(block, n, sizeof block);
    memset(more, n, n);
    sink += block[3] + more[n - 1];
    return n > 10 ? realigned(n - 3) : sink;
}

static __attribute__((noinline)) long sum(int count, ...)
{
    va_list list;
    long total = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        total += va_arg(list, int);
    va_end(list);
    return total;
}

static void on_signal(int number)
{
    sink += variable(number + 60);
}

static __attribute__((noinline)) void jumps(int n)
{
    if (n == 0)
        longjmp(back, 1);
    if (sink < 0)
        return;
    jumps(n - 1);
    sink++;
}

int main(void)
{
    int values[40];
    char text[128];
    for (int i = 0; i < 40; i++)
        values[i] = i * 7919 % 101;
    qsort(values, 40, sizeof *values, descending);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    if (setjmp(back) == 0)
        jumps(5);
    sink += variable(200) + realigned(20) + sum(9, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    snprintf(text, sizeof text, "%ld %.3f %s", sink, sink / 7.0, "done");
    puts(text);
    return 0;
}
