/* Thirty functions that each do something else to the stack, to saved registers or to branches. They need no header of
   the system, so that each compiler takes them for each architecture. */
#include <stdarg.h>
#include <stddef.h>

int other(int, ...);
void use(void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
int setjmp(void *) __attribute__((returns_twice));
_Noreturn void die(int);
extern void *jump_buffer[64];
extern _Thread_local int in_thread, of_thread;
/* -DEACH=... gives each function an attribute. */
#ifndef EACH
#define EACH
#endif

typedef struct { long values[9]; } Large;
typedef double Vector __attribute__((vector_size(32)));

EACH int leaf(int a, int b) { return a * b + 3; }

EACH int large_frame(int n) { char b[70000]; use(b, n); return b[n] + other(n); }

EACH int variable_array(int n, int m)
{
	int a[n];
	use(a, n);
	for (int i = 0; i < m; i++) { char c[i + 1]; use(c, i); a[0] += c[0]; }
	return a[n - 1];
}

EACH int allocates(int n)
{
	char *p = __builtin_alloca(n);
	use(p, n);
	if (n > 100) { char *q = __builtin_alloca(n * 2); use(q, n); }
	return p[0];
}

EACH int aligned(int n) { _Alignas(64) char b[256]; use(b, n); return b[n & 255] + other(n, 1, 2, 3, 4, 5, 6, 7, 8, 9); }

EACH int aligned_variable(int n) { _Alignas(128) char b[256]; char c[n]; use(b, n); use(c, n); return b[0] + c[1]; }

EACH int variadic(int n, ...)
{
	va_list list;
	int sum = 0;
	va_start(list, n);
	while (n--) sum += va_arg(list, int) + (int)va_arg(list, double);
	va_end(list);
	return sum + other(sum);
}

EACH int returns_twice(int n) { volatile int k = n; return setjmp(jump_buffer) ? k : other(n) + k; }

EACH double floats(double a, double b, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++) { sum += a * b; a = sum; other(i); b -= sum; }
	return sum;
}

EACH int table(int k, int a)
{
	switch (k) {
	case 0: return other(a);
	case 1: return other(a, 1);
	case 2: return other(a, 2, 3);
	case 3: return other(4);
	case 4: return other(a, 5) + 1;
	case 5: return other(6) * 2;
	default: return a;
	}
}

EACH int interpreter(const unsigned char *code, int a)
{
	static void *const labels[] = {&&add, &&call, &&twice, &&end};
	goto *labels[*code & 3];
add: a += 7; code++; goto *labels[*code & 3];
call: a = other(a); code++; goto *labels[*code & 3];
twice: a *= 2; code++; goto *labels[*code & 3];
end: return a;
}

EACH long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	long v = other(a, b), w = other(c, d), x = other(e, f), y = other(g, h), z = other(i, j);
	return a * v + b * w + c * x + d * y + e * z + f + g + h + i + j;
}

EACH __attribute__((noinline, cold)) int rare(int x) { return other(x) + 1; }

EACH int shrink(int *p, int n)
{
	int sum = 0;
	if (!p) return -1;
	if (n < 0) return rare(n);
	for (int i = 0; i < n; i++) sum += other(p[i], sum);
	return sum;
}

EACH int checked(int a) { int b[8]; use(b, 8); if (b[a] > 3) die(a); return b[a]; }

EACH int pointer(int (*f)(int, int), int a) { int r = 0; while (a--) r += f(a, r); return r; }

EACH int tail(int a, int b) { int c = other(a); return other(b, c); }

EACH int tail_pointer(int (*f)(int), int a) { return f(other(a)); }

EACH _Noreturn void never(int a) { other(a); for (;;) die(other(a + 1)); }

EACH Large by_value(Large large, int i) { large.values[i & 7] = other(i); return large; }

EACH long passes(Large *from) { Large result = by_value(*from, 3); return result.values[2]; }

EACH int copies(const void *from, unsigned n) { char b[12]; if (n > 11) return -1; memcpy(b, from, n); b[n] = 0; return other((int)n, b); }

EACH int fills(int n) { char b[512]; memset(b, n, sizeof b); use(b, n); return b[3]; }

EACH Vector vectors(const Vector *v, int n) { Vector sum = {0}; for (int i = 0; i < n; i++) { sum += v[i] * v[i]; other(i); } return sum; }

EACH int thread(int a) { in_thread += a; return other(in_thread) + of_thread++; }

EACH int atomics(int *p, int a) { __atomic_fetch_add(p, a, __ATOMIC_SEQ_CST); return __atomic_exchange_n(p, other(a), __ATOMIC_ACQ_REL); }

EACH void *frames(int a) { other(a); return a ? __builtin_return_address(0) : __builtin_frame_address(0); }

EACH long clobbers(long a)
{
#ifdef __aarch64__
	__asm__ volatile("mov x19, %0\n\tmov x28, x19" : : "r"(a) : "x19", "x28", "v8", "v9", "memory");
#else
	__asm__ volatile("mov %0, %%rbx\n\tmov %%rbx, %%r15" : : "r"(a) : "rbx", "r15", "memory");
#endif
	return other(a) + a;
}

EACH static void release(int *p) { use(p, 1); }
EACH int cleans(int a) { __attribute__((cleanup(release))) int b = a; other(a, &b); return b; }

EACH unsigned recursive(unsigned n, int *p) { return n < 2 ? n : recursive(n - 1, p) + recursive(n - 2, p) + (unsigned)p[n & 3]; }

EACH long divides(long a, long b, int *p) { if (p && b) *p = (int)(a / b); return b ? a % b + other((int)a) : 0; }
