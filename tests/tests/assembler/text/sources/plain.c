/* C with frames of many kinds: leaf functions, large and variable frames, alignment, calls with many arguments, inline
   assembly that changes sections and directives. No headers: a compiler without a C library takes it too. */

typedef __SIZE_TYPE__ size;
extern int other(int, ...);
extern void use(void *, size);

static int table[64];

int leaf(int a, int b) { return a * 31 + b; }

static __attribute__((noinline)) int inner(int a) { return other(a) + table[a & 63]; }

int large(int a) {
    char space[100000];
    use(space, sizeof space);
    return space[a & 1023] + inner(a);
}

int variable(int n) {
    int list[n];
    use(list, sizeof list);
    for (int i = 1; i < n; i++) list[i] += list[i - 1];
    return list[n - 1];
}

int aligned(int a) {
    __attribute__((aligned(64))) char space[256];
    use(space, a);
    return space[a & 127];
}

int many(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
    return other(a, b, c, d, e, f, g, h, i, a + b, c + d, e + f) + other(i, h, g, f, e, d, c, b, a);
}

long pressure(long *p) {
    long a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7];
    for (int i = 0; i < 10; i++) {
        a += other((int)b); b ^= a; c += b * d; d -= other((int)c); e += d; f ^= e * g; g += h; h -= other((int)f);
    }
    return a + b + c + d + e + f + g + h;
}

int switched(int a) {
    switch (a) {
    case 0: return other(1);
    case 1: return other(2, 3);
    case 2: return inner(a);
    case 3: return large(a);
    case 4: return variable(a);
    case 5: return aligned(a);
    case 6: return leaf(a, 7);
    default: return -1;
    }
}

__attribute__((noreturn, cold)) void stop(int a) {
    other(a);
    __builtin_trap();
}

int unlikely(int a) {
    if (__builtin_expect(a == 7, 0)) {
        use(table, sizeof table);
        other(a, a, a);
        stop(a);
    }
    return a + 1;
}

void sections(void) {
    __asm__ volatile(".pushsection .notes, \"a\"\n\t.long 1, 2\n\t.ascii \"a;b\"\n\t.popsection" ::: "memory");
    other(1);
    __asm__ volatile("nop\n\tnop" ::: "memory");
}

__attribute__((section(".text.special"))) int special(int a) { return other(a) + unlikely(a); }

double floating(double *p, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += p[i] * other(i);
    return sum;
}

struct big { long words[12]; };

struct big copied(struct big from, int at) {
    from.words[at % 12] += other(at);
    return from;
}

__attribute__((noinline)) int tail(int a) { return inner(a + 1); }

int main(void) { return switched(3) + special(4) + tail(2) + (int)pressure(0); }
