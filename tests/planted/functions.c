/* Functions with every common form of frame. They call functions of other files only. */
#include <stdarg.h>

struct large { long words[9]; };

int g(int);
int h(int, ...);
int use(void *);
void die(void) __attribute__((noreturn));
long nine(long, long, long, long, long, long, long, long, long);

int leaf(int a) { return a * 3 + 1; }
int one(int a) { return g(a) + a; }
int two(int a, int b) { int x = g(a), y = g(b); return x * y + a + b; }
int loop(int n) { int s = 0; for (int i = 0; i < n; i++) s += g(i); return s; }
int tail(int a) { g(a); g(a + 1); return h(a); }
int tail_or_not(int a, int b) { int x = g(a); if (x > b) return h(x); return g(b) + x; }
void never(int a) { int x = g(a); g(x); h(x, a); die(); }
int perhaps(int a) { if (a < 0) { g(a); h(a, a); die(); } return g(a) + g(a + 2) + a; }
int buffer(int a) { char b[100]; use(b); return g(a) + b[3]; }
int large_buffer(int a) { char b[9000]; use(b); return g(a) + b[3]; }
int huge_buffer(int a) { char b[300000]; use(b); return g(a) + b[3]; }
int variable(int n) { char b[n]; use(b); return g(n) + b[0]; }
int alloca_(int n) { char *p = __builtin_alloca(n); use(p); int x = g(n); return x + p[1]; }
int aligned(int n) { _Alignas(64) char b[64]; use(b); return g(n) + b[0]; }
int frame_address(int a) { use(__builtin_frame_address(0)); return g(a) + a; }
int recursive(int n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2) + g(n); }
int cold(int a) { if (__builtin_expect(a == 7, 0)) { g(1); g(2); g(3); __builtin_abort(); } return g(a) + g(a) * a; }
int endless(int a) { for (;;) a = g(a) + h(a, a); }
void pointers(void (*f)(int), int n) { for (int i = 0; i < n; i++) f(i); f(n); }
void pointer_tail(void (*f)(int), int n) { g(n); f(n); }
double doubles(double a, double b, double c, double d) { double x = g(a), y = g(b); return x * a + y * b + c * d + g(c); }
struct large by_memory(int n) { struct large s; __builtin_memset(&s, 0, sizeof s); s.words[3] = g(n); s.words[1] = g(n + 1); return s; }

/* Compilers expand these copies inline: as loops, string instructions or vectors. */
int copies(struct large *a, struct large *b) { int x = g(1); *a = *b; return g(x) + x; }
int by_value(struct large);
int copies_to_the_stack(struct large *a, int n) { return by_value(*a) + g(n) + n; }
int copies_own(char *from, int n) { char b[1000]; __builtin_memcpy(b, from, sizeof b); use(b); return g(n) + b[n]; }
int clears(char *a, unsigned long n) { int x = g(1); __builtin_memset(a, 0, n); return g(x) + a[1]; }

long on_the_stack(long a, long b, long c, long d, long e, long f) {
  long x = nine(a, b, c, d, e, f, a + b, c + d, e + f);
  return x + a * b * c * d * e * f + g(a);
}

int table(int a, int b) {
  switch (a) {
  case 0: return g(b);
  case 1: return g(b + 1) * 2;
  case 2: b = g(b); break;
  case 3: b = h(b); g(b); break;
  case 4: b *= g(a); break;
  case 5: return h(b, a);
  case 6: b += g(1); break;
  case 7: b -= g(2) * b; break;
  }
  return g(b) + b;
}

int wrapped(int *p, int n) {
  if (!p) return -1;
  if (n < 3) return p[0];
  int s = 0;
  for (int i = 0; i < n; i++) s += g(p[i]) * n;
  return s + n;
}

int wrapped_tail(int a, int b, int c) {
  if (a) { int x = g(b), y = g(c); return x + y + b * c; }
  if (b) return g(c);
  return h(a, b, c);
}

int arguments(int n, ...) {
  va_list l;
  int s = 0;
  va_start(l, n);
  while (n--) s += g(va_arg(l, int));
  va_end(l);
  return s;
}

int nested(int a, int b, int c, int d) {
  int r = 0;
  for (int i = 0; i < a; i++)
    for (int j = 0; j < b; j++) {
      r += g(i * j + c);
      if (r > d) return r * g(d) + a + b + c;
    }
  return r;
}
