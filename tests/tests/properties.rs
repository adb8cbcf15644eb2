//! Properties that hold for any input.
use cfipack_format::Arch;
use cfipack_tests::by_cfi::Cfi;
use cfipack_tests::cfi_bytes::CfiBytes;
use cfipack_tests::random::{Random, cases};

#[test]
fn scratch() {
    let (seed, count) = cases("scratch", 200);
    let mut ok = 0;
    for case in 0..count {
        let mut random = Random::new(seed.wrapping_add(case as u64));
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64, Arch::Aarch64Be, Arch::S390x]);
        let cfi = CfiBytes::random(&mut random, arch, 10);
        let mut expected: Vec<_> = cfi.functions.clone();
        expected.sort_by_key(|f| f.start);
        let mem = |a: u64| Some(a.wrapping_mul(77));
        macro_rules! go { ($cfi:expr) => {{
            let mut c = $cfi.unwrap();
            let got: Vec<_> = c.functions().collect();
            assert_eq!(got, expected);
            for f in &expected { for pc in [f.start, f.start + (f.end-f.start)/2] { if pc < f.end {
                match c.caller(pc, &[Some(5); 160], &mem) { Ok(_) => ok += 1, Err(e) => println!("{e:?}") }
            } } }
        }}}
        if cfi.debug_frame { go!(Cfi::debug_frame(&cfi.bytes, arch)) } else { go!(Cfi::eh_frame(&cfi.bytes, cfi.address, cfi.text, cfi.data, arch)) }
    }
    println!("ok {ok}");
}
