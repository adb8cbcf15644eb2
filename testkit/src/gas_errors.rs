//! The goldens in which gas 2.47's own table contradicts the `.eh_frame` that gas writes in the same object.
//!
//! The verifier's tests find exactly these differences (`roundtrip/tests/roundtrip/gas.rs`), and
//! `docs/gnu-exceptions.md` names exactly these goldens (`tests/tests/sframe/gnu.rs`).

/// Golden, number of wrong PCs, and the verifier's text about the first wrong PC.
pub const WRONG: [(&str, u64, &str); 29] = [
    // gas remembers one state, but DWARF has a stack of states.
    ("x_remember_nested", 1, "CFA = rsp+16, return address at CFA-8; table: CFA = rsp+24"),
    ("x_remember_nested2", 1, "CFA = rsp+16, return address at CFA-8; table: CFA = rsp+24"),
    // `def_cfa_register` takes the offset of the previous row.
    ("x_reg_off_order", 1, "CFA = rbp+16, return address at CFA-8; table: CFA = rbp+8"),
    // `restore` goes back to the function's first row instead of to the CIE.
    ("x_restore_first_row", 1, "table: CFA = rsp+8, return address at CFA-8, rbp at CFA-24"),
    // `restore` again, in the cold part of a function of gcc 16.2 -O2.
    ("x_real_gcc_cold", 13, "table: CFA = rsp+64, return address at CFA-8, rbp at CFA-48"),
    // On x86-64, an undefined return address stays undefined.
    ("x_undef_ra_back", 1, "CFA = rsp+8, return address at CFA-8; table: outermost frame"),
    ("x_undef_ra_same", 2, "CFA = rsp+8, return address in ra; table: outermost frame"),
    // On x86-64, gas ignores `restore`, `same_value`, `val_offset` and expressions for the return address.
    ("x_flex_restore_ra", 2, "return address at CFA-8; table: CFA = rsp+8, return address = r11"),
    ("x_flex_same_ra", 2, "return address in ra; table: CFA = rsp+8, return address = r11"),
    ("x_escape_expr_ra", 1, "return address at rsp+16; table: CFA = rsp+8, return address at CFA-8"),
    ("x_val_offset_ra", 1, "return address = CFA-16; table: CFA = rsp+8, return address at CFA-8"),
    ("x_same_ra", 4, "return address in ra; table: CFA = rsp+16, return address at CFA-8"),
    // On x86-64, gas also ignores where the caller's stack pointer is, and that there is no CFA.
    ("x_offset_sp", 4, "the caller's stack pointer is at CFA-16; table: CFA = rsp+16"),
    ("x_same_sp", 1, "the caller's stack pointer is unchanged; table: CFA = rsp+8"),
    ("x_simple_offset_late", 4, "no CFA; table: CFA = rsp+0, return address at CFA-8, rbp at CFA-16"),
    // `restore` does not bring a register's number back. Expressions on other registers than rbp get number -1.
    ("x_flex_reenter_first", 1, "rbp = rax; table: CFA = rsp+8, return address at CFA-8, rbp undefined"),
    ("x_escape_expr_fp_rsp", 1, "rbp at rsp+16; table: CFA = rsp+8, return address at CFA-8, rbp undefined"),
    ("a_escape_expr_fp", 4, "x29 at sp+0; table: CFA = sp+0, return address in x30, x29 undefined"),
    ("s_escape_expr_fp", 2, "r11 at r15+0; table: CFA = r15+160, return address in r14, r11 undefined"),
    // Offsets that are no multiples of 8 are rounded. A return address at CFA+0 is read as padding.
    ("s_cfa_161", 2, "CFA = r15+161, return address in r14; table: CFA = r15+160"),
    ("s_cfa_164", 2, "CFA = r15+164, return address in r14; table: CFA = r15+160"),
    ("s_ra_off_0", 2, "return address at CFA+0, r11 at CFA-72; table: CFA = r15+160, return address in r14"),
    // The offset loses a byte.
    ("x_offset_ra_m15072", 1, "return address at CFA-15072; table: CFA = rsp+8, return address at CFA+32"),
    // `.eh_frame` has only offsets that are multiples of 8.
    ("x_cfa_m3", 1, "CFA = rsp+0, return address at CFA-8; table: CFA = rsp-3"),
    // `.eh_frame` has no locations inside an instruction. `.debug_frame` does not have the key.
    ("a_unaligned", 4, "CFA = sp+48, return address in x30; table: CFA = sp+0"),
    ("a_key_b_debug_frame", 4, "(signed), key A; table: CFA = sp+0, return address in x30 (signed), key B"),
    // gas ignores `restore` and `same_value` of the signature's state.
    ("a_negate_restore_34", 8, "return address in x30; table: CFA = sp+0, return address in x30 (signed)"),
    ("a_negate_same_34", 8, "return address in x30; table: CFA = sp+0, return address in x30 (signed)"),
    // `.cfi_sections .sframe`: the object has no CFI to compare the table with.
    ("x_sections_sframe", 2, "CFI: no function; table: CFA = rsp+8"),
];
