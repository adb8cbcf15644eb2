(* Functions with the frames of OCaml: handlers of exceptions, closures, calls of C, and spilled values. *)
external g : int -> int = "g"
external h : int -> int -> int = "h"
external unboxed : (int [@untagged]) -> (int [@untagged]) = "byte" "native" [@@noalloc]
exception Found of int

let leaf a = (a * 3) + 1
let one a = g a + a
let two a b = let x = g a in let y = g b in (x * y) + a + b
let rec loop s n = if n = 0 then s else loop (s + g n) (n - 1)
let tail a = ignore (g a); ignore (g (a + 1)); h a 2
let rec recursive n = if n < 2 then n else recursive (n - 1) + recursive (n - 2) + g n
let handler a = try g a + h a a with Found x -> g x + a | Not_found -> a
let nested a b = try (try g a with Found x -> g (x + b)) + h b a with Failure _ -> g b | e -> ignore (g a); raise e
let handler_in_loop n = let s = ref 0 in for i = 0 to n do (try s := !s + g i with Not_found -> s := !s - h i n) done; !s
let raises a = if g a > 3 then raise (Found a) else h a a
let local a = match g a with exception Found x -> x + a | x when x > 3 -> h x a | x -> x
let closure a b = let f x = g (x + a) * b in fun y -> f y + f (y + 1)
let apply f a b = f a b + f b a
let partial f a = let k = f a in fun b -> k b + g a
let allocates a = let x = g a in [ x; h x a; g (x + 1) ]
let floats a b = (float (g a) *. b) +. (float (h a a) /. b)
let array all n = all.(n) + g all.(n + 1)
let fills n = Array.init n (fun i -> g i + n)
let strings a s = s ^ string_of_int (g a) ^ s
let direct a b = unboxed a + (unboxed b * a) + g b
let many a b c d e f i j k l = g (a + b) * c + (g (d + e) * f) + (g (i + j) * k) + l + a + b + c
let spills a = let p = g a and q = g (a + 1) and r = g (a + 2) and s = g (a + 3) in let t = g (p + q) in p + (q * r) + (s * t) + g (r + s)
let table a b = match a with 0 -> g b | 1 -> g (b + 1) * 2 | 2 -> h b 1 | 3 -> g (h b 2) | 4 -> b * g a | 5 -> h b a | 6 -> g 1 + b | _ -> g b + b
let rec map f = function [] -> [] | x :: rest -> let y = f x in y :: map f rest
let rec even n = if n = 0 then g 1 > 0 else odd (n - 1)
and odd n = if n = 0 then g 2 > 0 else even (n - 1)
let protect f finally = match f () with result -> finally (); result | exception e -> finally (); raise e
let lazily a = let l = lazy (g a) in fun b -> Lazy.force l + b
class counter a = object val mutable n = g a method step b = n <- n + g b; n method twice b = let x = n in x + h b n end
let objects (c : counter) a = c#step a + c#twice a
module Make (X : sig val f : int -> int end) = struct let twice a = X.f a + X.f (a + 1) let three a = X.f (twice a) end
