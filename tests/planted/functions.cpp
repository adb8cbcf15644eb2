// Functions with the frames of C++: exceptions, destructors, virtual calls and thunks.
extern "C" {
int g(int);
int h(int, ...);
void use(void *);
[[noreturn]] void die();
}

struct Guard {
  int value;
  explicit Guard(int a) : value(g(a)) {}
  ~Guard() { h(value, 1); }
  Guard(const Guard &other) : value(g(other.value)) {}
};

struct Base {
  virtual ~Base();
  virtual int first(int);
  virtual int second(int) = 0;
};
struct Other {
  virtual int third(int, int);
  long words[5];
};
struct Derived : Base, virtual Other {
  Guard guard{3};
  ~Derived() override;
  int first(int) override;
  int second(int) override;
  int third(int, int) override;
};

struct Error { int code; Error(int); Error(const Error &); ~Error(); };

Base::~Base() { h(1, 2); }
int Base::first(int a) { return g(a) + g(a + 1) + a; }
int Other::third(int a, int b) { return g(a) * g(b) + (int)words[2]; }
Derived::~Derived() { g(7); }
int Derived::first(int a) { Guard one(a), two(a + 1); return g(a) + one.value * two.value; }
int Derived::second(int a) { return Base::first(a) + Other::third(a, a); }
int Derived::third(int a, int b) { return a > b ? Other::third(b, a) : second(a); }

int throws(int a) { if (g(a) < 0) throw Error(a); return g(a + 1) * a; }
int throws_a_number(int a) { if (g(a) < 0) throw a; return g(a + 1) * a; }
int catches(int a) { try { return g(a) + h(a, a); } catch (Error &error) { return g(error.code) + a; } }
int catches_all(int a) { try { Guard own(a); return g(a) + own.value; } catch (...) { h(a, 3); throw; } }
int catches_two(int a, int b) {
  Guard outer(b);
  try {
    Guard inner(a);
    for (int i = 0; i < a; i++) b += g(i) * inner.value;
  } catch (int number) {
    return h(number, outer.value);
  } catch (Error error) {
    b = g(error.code);
  }
  return g(b) + outer.value;
}
int may_not_throw(int a) noexcept { Guard own(a); return g(a) + own.value + h(a, a); }
int nested(int a) {
  Guard one(a);
  { Guard two(a + 1); if (g(a)) return two.value + h(a, 1); }
  Guard three(a + 2), four(a + 3);
  return three.value + g(one.value) * four.value;
}
int by_value(Guard guard, int a) { return g(guard.value) * a; }
int passes(int a) { Guard own(a); return by_value(own, a) + by_value(own, a + 1); }
Guard returns(int a) { Guard made(a); made.value += g(a); return made; }
int allocates(int a) { int *all = new int[a]; use(all); int x = g(all[1]); delete[] all; return x + a; }
Base *makes() { return new Derived; }
int calls_virtual(Base &base, int n) { int s = 0; for (int i = 0; i < n; i++) s += base.second(i) * base.first(s); return s; }
int tail_virtual(Base &base, int a) { g(a); return base.second(a); }
int by_member(Base &base, int (Base::*member)(int), int a) { return (base.*member)(a) + g(a); }
int is_derived(Base *base, int a) { auto *derived = dynamic_cast<Derived *>(base); return derived ? g(a) + derived->third(a, a) : h(a, 2); }
int local_static(int a) { static Guard once(a); return g(once.value) + a; }
template <typename F> int apply(int n, F f) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }
int lambda(int a, int b) { Guard own(b); return apply(a, [&](int i) { return g(i + b) * own.value + b; }); }
int aligned(int a) { alignas(64) char b[128]; Guard own(a); use(b); return g(a) + b[3] + own.value; }
int variable(int n) { char *b = (char *)__builtin_alloca(n); Guard own(n); use(b); return g(n) + b[0]; }
void never(int a) { Guard own(a); g(a); die(); }
int large(int a) { char b[20000]; Guard own(a); use(b); return g(a) + b[7]; }
long many(long a, long b, long c, long d, long e, long f, long i, long j) {
  Guard own((int)a);
  long x = g((int)(a + b)) * c, y = g((int)(d + e)) * f;
  return x * y + i * j + own.value + a * b * c * d;
}
