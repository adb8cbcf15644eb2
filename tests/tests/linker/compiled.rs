//! Writes random C and C++ without headers, for any compiler: templates, inline and static functions, virtual classes,
//! constructors of statics, exceptions, frames of variable size, switches and cold paths.

use std::fmt::Write;

use cfipack_testkit::random::Random;

/// Writes a file of C or C++. Files of a program share templates and inline functions by number.
pub fn source(random: &mut Random, number: u64, is_cpp: bool) -> String {
    let mut text = String::from(if is_cpp { CPP } else { C });
    let functions = 1 + random.below(8);
    for function in 0..functions {
        let name = format!("f{number}_{function}");
        let (a, b) = (random.below(12), random.below(90));
        let attribute = random.pick(&[
            "",
            "",
            "",
            "static __attribute__((noinline,used)) ",
            "__attribute__((cold)) ",
            "__attribute__((hot)) ",
            "__attribute__((section(\"mycode\"))) ",
            "__attribute__((visibility(\"hidden\"))) ",
            "__attribute__((constructor)) ",
            "__attribute__((weak)) ",
        ]);
        let parameter = if attribute.contains("constructor") { "void" } else { "int x" };
        let x = if parameter == "void" { "\tint x = e2;\n" } else { "" };
        let body = match random.below(if is_cpp { 10 } else { 6 }) {
            0 => format!("\treturn e0(x) + e1(x, {b});\n"),
            1 => format!("\tchar *p = (char *)__builtin_alloca(x + {b});\n\te4(p);\n\treturn p[{a}];\n"),
            2 => format!("\tchar p[{}];\n\te4(p);\n\treturn p[{a}] + shared(x);\n", 16 << a),
            3 => format!(
                "\tswitch (x) {{ case 1{a:02}: return e0({b}); case 2{b:02}: e4(&x); return x; case 7: return e1(x, e0(x)); case 9: e0(e0(x)); }}\n\treturn pointer(x);\n"
            ),
            4 => format!(
                "\tif (__builtin_expect(x == {b}, 0)) {{ e0(x); e4(&x); __builtin_trap(); }}\n\treturn e1(x, e2);\n"
            ),
            5 => format!("\tint s = 0;\n\tfor (int i = 0; i < x; i++) s += e1(s, i) * {b};\n\treturn s;\n"),
            6 => format!("\treturn Template<{a}>::f(x) + deep<{}>(x);\n", b % 20),
            7 => format!(
                "\ttry {{ e0(x); }} catch (int i) {{ return i + {b}; }} catch (...) {{ e4(&x); }}\n\treturn 0;\n"
            ),
            8 => format!(
                "\tGuard g({b}); static Guard h(e0({a}));\n\tDerived<{a}> d;\n\treturn call(&d) + e0(x);\n"
            ),
            _ => format!(
                "\tauto l = [=](int y) {{ Guard g(y); return e1(y, x) + {b}; }};\n\treturn l({a}) + deep<{a}>(x);\n"
            ),
        };
        write!(text, "{attribute}int {name}({parameter}) {{\n{x}{body}}}\n").unwrap();
    }
    text
}

const C: &str = "extern int e0(int), e1(int, int), e2;
void e4(void *);
static __attribute__((noinline)) int shared(int x) { return e1(x, x) + e0(x); }
static int (*volatile pointer)(int) = shared;
";

const CPP: &str = "extern \"C\" { extern int e0(int), e1(int, int), e2; void e4(void *); }
struct Guard { int n; Guard(int n); ~Guard(); };
inline Guard::Guard(int n) : n(n) { e4(this); }
inline Guard::~Guard() { e0(n); }
template <int N> struct Template {
    static __attribute__((noinline)) int f(int x) { Guard g(x); return e1(x, N) + Template<N / 2>::f(x); }
};
template <> struct Template<0> { static int f(int x) { return e0(x); } };
template <int N> __attribute__((noinline)) int deep(int x) {
    if (__builtin_expect(x == N, 0)) throw x;
    Guard a(x), b(N);
    return e1(a.n, b.n);
}
struct Base { virtual int v(int x) { return e0(x); } virtual ~Base() {} };
template <int N> struct Derived : Base {
    int v(int x) override { Guard g(N); return e1(x, N); }
};
inline int call(Base *b) { return b->v(3); }
inline __attribute__((noinline)) int shared(int x) { return e1(x, x) + e0(x); }
static int (*volatile pointer)(int) = shared;
";
