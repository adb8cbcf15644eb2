//! Functions with the frames of Rust: drops, panics, closures, trait objects and large values.
#![crate_type = "lib"]
#![no_std]
#![allow(clippy::all)]

unsafe extern "C" {
    safe fn g(a: i32) -> i32;
    safe fn h(a: i32, b: i32) -> i32;
    safe fn using(p: *mut u8);
    safe fn die() -> !;
}
unsafe extern "C-unwind" {
    safe fn unwinds(a: i32) -> i32;
}

pub struct Guard(i32);
impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        h(self.0, 1);
    }
}
pub trait Shape {
    fn first(&self, a: i32) -> i32;
    fn second(&mut self, a: i32) -> Option<i32>;
}
pub struct One(i32, [u64; 6]);
pub struct Two(Guard, i64);
impl Shape for One {
    fn first(&self, a: i32) -> i32 { g(a) + g(self.0) * a }
    fn second(&mut self, a: i32) -> Option<i32> { self.1[(a & 7) as usize] += g(a) as u64; Some(h(a, self.0)) }
}
impl Shape for Two {
    fn first(&self, a: i32) -> i32 { unwinds(a) + self.0.0 }
    fn second(&mut self, a: i32) -> Option<i32> { self.0 = Guard(unwinds(a)); self.1.checked_add(1).map(|x| x as i32) }
}

#[unsafe(no_mangle)] pub fn leaf(a: i32) -> i32 { a.wrapping_mul(3) + 1 }
#[unsafe(no_mangle)] pub fn one(a: i32) -> i32 { g(a) + a }
#[unsafe(no_mangle)] pub fn two(a: i32, b: i32) -> i32 { let (x, y) = (g(a), g(b)); x * y + a + b }
#[unsafe(no_mangle)] pub fn tail(a: i32) -> i32 { g(a); g(a + 1); h(a, 2) }
#[unsafe(no_mangle)] pub fn drops(a: i32) -> i32 { let own = Guard(a); unwinds(a) + own.0 }
#[unsafe(no_mangle)] pub fn drops_two(a: i32, b: i32) -> i32 { let (x, y) = (Guard(a), Guard(b)); unwinds(x.0) + unwinds(y.0) }
#[unsafe(no_mangle)] pub fn drops_in_loop(n: i32) -> i32 { let mut s = 0; for i in 0..n { let own = Guard(i); s += unwinds(own.0); } s }
#[unsafe(no_mangle)] pub fn indexes(all: &[i32], n: usize) -> i32 { g(all[n]) + all[n / 2] * g(all[n + 1]) }
#[unsafe(no_mangle)] pub fn slices(all: &[u8], a: usize, b: usize) -> i32 { all[a..b].iter().map(|x| g((*x).into())).sum() }
#[unsafe(no_mangle)] pub fn unwraps(a: Option<i32>, b: Result<i32, i64>) -> i32 { g(a.unwrap()) + h(b.unwrap(), 3) }
#[unsafe(no_mangle)] pub fn divides(a: i32, b: i32) -> i32 { g(a / b) + g(a % b) * a }
#[unsafe(no_mangle)] pub fn panics(a: i32) -> i32 { if g(a) < 0 { panic!("{a} is negative") } h(a, a) }
#[unsafe(no_mangle)] pub fn dynamic(shape: &mut dyn Shape, n: i32) -> i32 { (0..n).map(|i| shape.first(i) * shape.second(i).unwrap_or(3)).sum() }
#[unsafe(no_mangle)] pub fn dynamic_tail(shape: &dyn Shape, a: i32) -> i32 { g(a); shape.first(a) }
#[unsafe(no_mangle)] pub fn buffer(a: i32) -> i32 { let mut b = [0_u8; 100]; using(b.as_mut_ptr()); g(a) + i32::from(b[3]) }
#[unsafe(no_mangle)] pub fn large_buffer(a: i32) -> i32 { let mut b = [0_u8; 9000]; using(b.as_mut_ptr()); g(a) + i32::from(b[3]) }
#[unsafe(no_mangle)] pub fn large_value(a: i32) -> One { let mut own = One(g(a), [7; 6]); own.1[2] = g(a + 1) as u64; own }
#[unsafe(no_mangle)] pub fn recursive(n: i32) -> i32 { if n < 2 { n } else { recursive(n - 1) + recursive(n - 2) + g(n) } }
#[unsafe(no_mangle)] pub fn endless(mut a: i32) -> ! { loop { a = g(a) + h(a, a) } }
#[unsafe(no_mangle)] pub fn never(a: i32) -> ! { let own = Guard(a); g(own.0); die() }
#[unsafe(no_mangle)] pub fn pointers(f: fn(i32), n: i32) { for i in 0..n { f(i) } f(n) }
#[unsafe(no_mangle)] pub fn closure(a: i32, b: i32) -> i32 { apply(a, &|i| g(i + b) * b) + apply(b, &|i| unwinds(i + a)) }
#[inline(never)] pub fn apply(n: i32, f: &dyn Fn(i32) -> i32) -> i32 { let mut s = 0; for i in 0..n { s += f(i) * n } s }
#[unsafe(no_mangle)] pub fn wide(a: i128, b: i128) -> i128 { a * b + i128::from(g(a as i32)) / b }
#[unsafe(no_mangle)] pub fn floats(a: f64, b: f64, c: f64) -> f64 { let (x, y) = (f64::from(g(1)), f64::from(g(2))); x * a + y * b + c }
#[unsafe(no_mangle)] pub extern "C" fn aborts_at_unwinding(a: i32) -> i32 { let own = Guard(a); unwinds(own.0) + unwinds(a) }
#[unsafe(no_mangle)] pub fn question(a: i32) -> Option<i32> { let own = Guard(a); let x = fallible(own.0)?; Some(x + fallible(a)?) }
#[inline(never)] pub fn fallible(a: i32) -> Option<i32> { let x = g(a); (x > 3).then(|| h(x, a)) }
#[unsafe(no_mangle)] pub fn matches(a: i32, b: i32) -> i32 {
    match a { 0 => g(b), 1 => g(b + 1) * 2, 2 => h(b, 1), 3 => g(h(b, 2)), 4 => b * g(a), 5 => h(b, a), 6 => g(1) + b, _ => g(b) + b }
}
#[unsafe(no_mangle)] pub fn many(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, i: i64, j: i64) -> i64 {
    let own = Guard(a as i32);
    let (x, y) = (i64::from(unwinds((a + b) as i32)) * c, i64::from(g((d + e) as i32)) * f);
    x * y + i * j + i64::from(own.0) + a * b * c * d
}
