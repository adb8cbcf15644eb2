//! Makes random C, C++ and Objective-C sources for Apple's platforms, without headers: exceptions of several
//! personalities, weak functions in several sources, equal functions, unused functions.

use std::fmt::Write as _;

use cfipack_testkit::random::Random;

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// The file's name. Its ending tells a compiler the language.
    pub name: String,
    /// The text.
    pub text: String,
}

const KINDS: u64 = 9;

/// Makes a source of up to `functions` functions. Each source of a link needs its own number.
pub fn random(random: &mut Random, number: usize, functions: u64) -> Source {
    let (ending, language) = random.pick(&[("cpp", 0), ("cpp", 0), ("cpp", 0), ("c", 1), ("m", 2)]);
    let mut text = String::from("int g(int); void done(int *); void use(int *);\n");
    if language == 0 {
        text += "struct S { ~S(); int v; };\n";
        text += "template<int N> __attribute__((noinline)) int shared(int a) { S s; return g(a + N) * N; }\n";
    }
    for function in 0..1 + random.below(functions) {
        let name = format!("{}_{number}_{function}", random.pick(&["keep", "keep", "drop"]));
        let is_static = random.chance(20);
        let linkage = if is_static { "static __attribute__((noinline, used)) " } else { "" };
        let (a, b) = (random.below(200), random.below(9));
        let body = match (random.below(KINDS), language) {
            (0, _) => format!("return a + {a};"),
            (1, _) => format!("return g(a) * {b} + g(a + 1);"),
            (2, _) => format!("int b[{}]; use(b); return b[a & 7] + g({b});", 8 + 64 * a),
            (3, _) => format!("int b[a + {b}]; use(b); return b[0] + g(a);"),
            // This function is the same in all sources.
            (4, _) => "return g(a) * g(a + 1) * g(a + 2) - 3;".to_owned(),
            (5, _) => "int s = 0, t = a, u = 2 * a; for (int i = 0; i < a; i++) \
                       { s += g(t); t ^= g(u); u += g(s); use(&s); } return s + t + u;"
                .to_owned(),
            (6, 0) => format!("return shared<{b}>(a) + shared<{}>(a);", b + 1),
            (7, 0) => format!("try {{ return g(a); }} catch (int e) {{ return e + {b}; }}"),
            (8, 0) => format!("S s; s.v = {b}; if (a == {a}) throw {b}; return g(a);"),
            (7 | 8, 2) => format!("@try {{ return g(a); }} @catch (id e) {{ return {b}; }}"),
            _ => format!("__attribute__((cleanup(done))) int x = g(a); return g(x) + {b};"),
        };
        writeln!(text, "{linkage}int {name}(int a) {{ {body} }}").unwrap();
    }
    Source { name: format!("f{number}.{ending}"), text }
}
