// Command p has functions with the frames of Go: stacks that grow, defer, recover, interfaces, closures and goroutines.
package main

//go:noinline
func g(a int) int { return a*7 + 1 }

//go:noinline
func h(a, b int) int { return a*b - 3 }

type shape interface {
	first(a int) int
	second(a int) (int, error)
}
type one struct {
	a int
	b [6]int
}
type two struct{ one }

func (o *one) first(a int) int           { return g(a) + o.b[a]*g(o.a) }
func (o one) second(a int) (int, error)  { return h(a, o.a), nil }
func (t *two) second(a int) (int, error) { x, err := t.one.second(a); return x + g(a), err }

func Leaf(a int) int   { return a*3 + 1 }
func One(a int) int    { return g(a) + a }
func Two(a, b int) int { x, y := g(a), g(b); return x*y + a + b }
func Loop(n int) (s int) {
	for i := 0; i < n; i++ {
		s += g(i)
	}
	return
}
func Recursive(n int) int {
	if n < 2 {
		return n
	}
	return Recursive(n-1) + Recursive(n-2) + g(n)
}
func Buffer(a int) int { var b [100]byte; fill(b[:]); return g(a) + int(b[3]) }
func Large(a int) int  { var b [9000]byte; fill(b[:]); return g(a) + int(b[3]) }
func Huge(a int) int   { var b [300000]byte; fill(b[:]); return g(a) + int(b[3]) }

//go:noinline
func fill(b []byte) {
	for i := range b {
		b[i] = byte(g(i))
	}
}

func Defers(a int) int        { defer g(a); return h(a, 2) }
func DefersTwo(a int) (r int) { defer func() { r += g(a) }(); defer h(a, 3); return g(a) }
func DefersInLoop(n int) int {
	for i := 0; i < n; i++ {
		defer g(i)
	}
	return h(n, n)
}
func Recovers(a int) (r int) {
	defer func() {
		if e := recover(); e != nil {
			r = g(a)
		}
	}()
	return Panics(a)
}
func Panics(a int) int {
	if g(a) < 0 {
		panic(a)
	}
	return h(a, a)
}
func Indexes(all []int, n int) int { return g(all[n]) + all[n/2]*g(all[n+1]) }
func Interfaces(s shape, n int) int {
	t := 0
	for i := 0; i < n; i++ {
		x, _ := s.second(i)
		t += s.first(i) * x
	}
	return t
}
func Asserts(s any, a int) int {
	if t, ok := s.(*two); ok {
		return t.first(a)
	}
	return s.(int) + g(a)
}
func Closure(a, b int) func(int) int { return func(i int) int { return g(i+a)*b + h(i, b) } }
func Apply(f func(int) int, n int) int {
	t := 0
	for i := 0; i < n; i++ {
		t += f(i) * n
	}
	return t + f(n)
}
func Starts(n int, c chan int) { go func() { c <- g(n) }(); <-c }
func Selects(a, b chan int) int {
	select {
	case x := <-a:
		return g(x)
	case b <- 3:
		return g(2)
	}
}
func Strings(s string, a int) string      { return s + string(rune(g(a))) + s }
func Appends(all []int, a int) []int      { return append(all, g(a), h(a, a)) }
func Maps(m map[string]int, s string) int { m[s] = g(m[s]); return len(m) + g(3) }
func Makes(a int) *one                    { o := &one{a: g(a)}; o.b[2] = g(a + 1); return o }
func Values(a int) one                    { o := one{a: g(a)}; o.b[a&3] = g(a + 1); return o }
func Floats(a, b, c float64) float64      { x, y := float64(g(1)), float64(g(2)); return x*a + y*b + c }
func Many(a, b, c, d, e, f, i, j, k, l, m int) int {
	return g(a+b)*c + g(d+e)*f + g(i+j)*k + l*m + a + b + c
}
func Switch(a, b int) int {
	switch a {
	case 0:
		return g(b)
	case 1:
		return g(b+1) * 2
	case 2:
		return h(b, 1)
	case 3:
		return g(h(b, 2))
	case 4:
		return b * g(a)
	case 5:
		return h(b, a)
	case 6:
		return g(1) + b
	case 7:
		return h(1, b)
	case 8:
		return h(2, b)
	}
	return g(b) + b
}

// keep has all functions, so that the linker keeps them.
var keep = []any{
	Leaf, One, Two, Loop, Recursive, Buffer, Large, Huge, Defers, DefersTwo, DefersInLoop, Recovers,
	Panics, Indexes, Interfaces, Asserts, Closure, Apply, Starts, Selects, Strings, Appends, Maps, Makes,
	Values, Floats, Many, Switch,
	(*one).first, (*two).second,
}

func main() { println(len(keep)) }
