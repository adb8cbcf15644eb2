/* Sizes, offsets and values of the interface with pointers of 64 bits, as in version 0.1. If a line has to change,
 * the change breaks the interface. Only structures that start with their size may get longer. */
#include "cfipack.h"

#define SIZE(type, size) typedef char size_of_##type[sizeof(struct type) == (size) ? 1 : -1]
#define FIELD(type, field, offset) typedef char offset_of_##type##_##field[offsetof(struct type, field) == (offset) ? 1 : -1]
#define VALUE(name, value) typedef char value_of_##name[(name) == (value) ? 1 : -1]

VALUE(CFIPACK_STATUS_OK, 0);
VALUE(CFIPACK_STATUS_NOT_FOUND, 1);
VALUE(CFIPACK_STATUS_OUTERMOST, 2);
VALUE(CFIPACK_STATUS_INVALID_ARGUMENT, 3);
VALUE(CFIPACK_STATUS_BUFFER_SIZE, 4);
VALUE(CFIPACK_STATUS_MALFORMED, 5);
VALUE(CFIPACK_STATUS_UNSUPPORTED, 6);
VALUE(CFIPACK_STATUS_UNKNOWN, 7);
VALUE(CFIPACK_STATUS_REFUSED, 8);
VALUE(CFIPACK_STATUS_WRITE, 9);
VALUE(CFIPACK_STATUS_INTERNAL, 10);
VALUE(CFIPACK_ARCH_AMD64, 1);
VALUE(CFIPACK_ARCH_AARCH64, 2);
VALUE(CFIPACK_ARCH_AARCH64_BE, 3);
VALUE(CFIPACK_ARCH_S390X, 4);
VALUE(CFIPACK_ARCH_I386, 5);
VALUE(CFIPACK_ARCH_ARM64_32, 6);
VALUE(CFIPACK_ARCH_RISCV64, 7);
VALUE(CFIPACK_RULE_UNDEFINED, 0);
VALUE(CFIPACK_RULE_SAME_VALUE, 1);
VALUE(CFIPACK_RULE_REGISTER, 2);
VALUE(CFIPACK_RULE_MEMORY, 3);
VALUE(CFIPACK_RULE_CFA, 4);
VALUE(CFIPACK_RULE_VALUE_CFA, 5);
VALUE(CFIPACK_RULE_EXPRESSION, 6);
VALUE(CFIPACK_END_NONE, 0);
VALUE(CFIPACK_END_OUTERMOST, 1);
VALUE(CFIPACK_END_START, 2);
VALUE(CFIPACK_END_NULL, 3);
VALUE(CFIPACK_END_NO_ROW, 4);
VALUE(CFIPACK_END_REGISTER, 5);
VALUE(CFIPACK_END_MEMORY, 6);
VALUE(CFIPACK_END_NOT_RISING, 7);
VALUE(CFIPACK_END_RULE, 8);
VALUE(CFIPACK_END_TABLE, 9);
VALUE(CFIPACK_END_GUESSED_NULL, 10);
VALUE(CFIPACK_END_NOT_CODE, 11);
VALUE(CFIPACK_FOUND_BY_REGISTERS, 0);
VALUE(CFIPACK_FOUND_BY_TABLE, 1);
VALUE(CFIPACK_FOUND_BY_FRAME_POINTER, 2);
VALUE(CFIPACK_FOUND_BY_TABLE_AFTER_GUESS, 3);
VALUE(CFIPACK_MESSAGE_SIZE, 256);
VALUE(CFIPACK_EH_FRAME, 0);
VALUE(CFIPACK_DEBUG_FRAME, 1);
VALUE(CFIPACK_CFI_DEF_CFA, 1);
VALUE(CFIPACK_CFI_DEF_CFA_OFFSET, 2);
VALUE(CFIPACK_CFI_ADJUST_CFA_OFFSET, 3);
VALUE(CFIPACK_CFI_DEF_CFA_REGISTER, 4);
VALUE(CFIPACK_CFI_OFFSET, 5);
VALUE(CFIPACK_CFI_REL_OFFSET, 6);
VALUE(CFIPACK_CFI_VAL_OFFSET, 7);
VALUE(CFIPACK_CFI_REGISTER, 8);
VALUE(CFIPACK_CFI_RESTORE, 9);
VALUE(CFIPACK_CFI_UNDEFINED, 10);
VALUE(CFIPACK_CFI_SAME_VALUE, 11);
VALUE(CFIPACK_CFI_REMEMBER_STATE, 12);
VALUE(CFIPACK_CFI_RESTORE_STATE, 13);
VALUE(CFIPACK_CFI_NEGATE_RA_STATE, 14);
VALUE(CFIPACK_CFI_WINDOW_SAVE, 15);
VALUE(CFIPACK_CFI_ESCAPE, 16);
VALUE(CFIPACK_CFI_SIGNAL_FRAME, 17);
VALUE(CFIPACK_CFI_B_KEY_FRAME, 18);
VALUE(CFIPACK_CFI_RETURN_COLUMN, 19);
VALUE(CFIPACK_CFI_PERSONALITY, 20);
VALUE(CFIPACK_CFI_LSDA, 21);
VALUE(CFIPACK_CFI_SET_RA_STATE, 22);
VALUE(CFIPACK_WHOLE_FUNCTION, 0xffffffff);
VALUE(CFIPACK_NOTE_SKIPPED, 1);
VALUE(CFIPACK_NOTE_OMITTED, 2);
VALUE(CFIPACK_NOTE_UNREAD, 3);
VALUE(CFIPACK_KEYS_FUNCTIONS, 0);
VALUE(CFIPACK_KEYS_SECTIONS, 1);
VALUE(CFIPACK_STUBS_AMD64_LAZY_PLT, 1);
VALUE(CFIPACK_STUBS_AMD64_IBT_PLT, 2);
VALUE(CFIPACK_STUBS_AMD64_BND_PLT, 3);
VALUE(CFIPACK_STUBS_AMD64_MOLD_PLT, 4);
VALUE(CFIPACK_STUBS_AMD64_JUMP, 5);
VALUE(CFIPACK_STUBS_AMD64_TLS_DESC, 6);
VALUE(CFIPACK_STUBS_AMD64_IBT_TLS_DESC, 7);
VALUE(CFIPACK_STUBS_AARCH64_PLT, 8);
VALUE(CFIPACK_STUBS_AARCH64_BTI_PLT, 9);
VALUE(CFIPACK_STUBS_AARCH64_JUMP, 10);
VALUE(CFIPACK_STUBS_AARCH64_TLS_DESC, 11);
VALUE(CFIPACK_STUBS_AARCH64_BTI_TLS_DESC, 12);
VALUE(CFIPACK_STUBS_S390X_PLT, 13);
VALUE(CFIPACK_STUBS_AMD64_RETPOLINE_PLT, 14);
VALUE(CFIPACK_STUBS_AMD64_RETPOLINE_NOW_PLT, 15);
VALUE(CFIPACK_STUBS_S390X_MOLD_PLT, 16);
VALUE(CFIPACK_STUBS_S390X_JUMP, 17);
VALUE(CFIPACK_STUBS_NO_HEADER, 0x100);
VALUE(CFIPACK_LAYOUT_SMALL, 0);
VALUE(CFIPACK_LAYOUT_GNU, 1);
VALUE(CFIPACK_LAYOUT_LLD, 2);
VALUE(CFIPACK_LAYOUT_LD_PRIME, 3);
VALUE(CFIPACK_LAYOUT_LD64, 4);
VALUE(CFIPACK_LAYOUT_LD64_253, 5);
VALUE(CFIPACK_LAYOUT_LD_PRIME_27, 6);
VALUE(CFIPACK_LAYOUT_ZIG, 7);
VALUE(CFIPACK_PREFER_TABLE, 0);
VALUE(CFIPACK_PREFER_CFI, 1);
VALUE(CFIPACK_PREFER_TABLE_ONLY, 2);
VALUE(CFIPACK_POINTERS_ABSOLUTE, 0);
VALUE(CFIPACK_POINTERS_PC_RELATIVE, 1);
VALUE(CFIPACK_LIBUNWIND_IP_OFFSET, 0);
VALUE(CFIPACK_LIBUNWIND_REMOTE_TABLE, 1);
VALUE(CFIPACK_LIBUNWIND_LOAD_OFFSET, 0);
VALUE(CFIPACK_LIBUNWIND_NO_LOAD_OFFSET, 1);
VALUE(CFIPACK_NO_ADDRESS, 0xffffffff);
VALUE(CFIPACK_PART_COMPACT_UNWIND, 0);
VALUE(CFIPACK_PART_EH_FRAME, 1);

SIZE(cfipack_sframe, 128);
FIELD(cfipack_sframe, opaque, 0);

SIZE(cfipack_message, 256);
FIELD(cfipack_message, text, 0);

SIZE(cfipack_sframe_info, 48);
FIELD(cfipack_sframe_info, version, 0);
FIELD(cfipack_sframe_info, arch, 4);
FIELD(cfipack_sframe_info, address, 8);
FIELD(cfipack_sframe_info, size, 16);
FIELD(cfipack_sframe_info, num_functions, 24);
FIELD(cfipack_sframe_info, num_rows, 32);
FIELD(cfipack_sframe_info, is_sorted, 40);
FIELD(cfipack_sframe_info, flags, 44);

SIZE(cfipack_rule, 16);
FIELD(cfipack_rule, kind, 0);
FIELD(cfipack_rule, reg, 4);
FIELD(cfipack_rule, offset, 8);

SIZE(cfipack_row, 56);
FIELD(cfipack_row, start, 0);
FIELD(cfipack_row, is_signed, 4);
FIELD(cfipack_row, is_signal_frame, 5);
FIELD(cfipack_row, reserved, 6);
FIELD(cfipack_row, cfa, 8);
FIELD(cfipack_row, return_address, 24);
FIELD(cfipack_row, frame_pointer, 40);

SIZE(cfipack_sframe_function, 32);
FIELD(cfipack_sframe_function, start, 0);
FIELD(cfipack_sframe_function, num_rows, 8);
FIELD(cfipack_sframe_function, size, 16);
FIELD(cfipack_sframe_function, repeat, 20);
FIELD(cfipack_sframe_function, is_signal_frame, 24);
FIELD(cfipack_sframe_function, has_pauth_key_b, 25);
FIELD(cfipack_sframe_function, is_flex, 26);
FIELD(cfipack_sframe_function, reserved, 27);

SIZE(cfipack_sframe_index, 256);
FIELD(cfipack_sframe_index, opaque, 0);

SIZE(cfipack_register, 16);
FIELD(cfipack_register, reg, 0);
FIELD(cfipack_register, reserved, 4);
FIELD(cfipack_register, value, 8);

SIZE(cfipack_registers, 48);
FIELD(cfipack_registers, sp, 0);
FIELD(cfipack_registers, fp, 8);
FIELD(cfipack_registers, lr, 16);
FIELD(cfipack_registers, has_fp, 24);
FIELD(cfipack_registers, has_lr, 25);
FIELD(cfipack_registers, reserved, 26);
FIELD(cfipack_registers, others, 32);
FIELD(cfipack_registers, num_others, 40);

SIZE(cfipack_memory, 24);
FIELD(cfipack_memory, bytes, 0);
FIELD(cfipack_memory, len, 8);
FIELD(cfipack_memory, address, 16);

SIZE(cfipack_caller, 40);
FIELD(cfipack_caller, pc, 0);
FIELD(cfipack_caller, cfa, 8);
FIELD(cfipack_caller, sp, 16);
FIELD(cfipack_caller, fp, 24);
FIELD(cfipack_caller, has_fp, 32);
FIELD(cfipack_caller, is_signed, 33);
FIELD(cfipack_caller, reserved, 34);

SIZE(cfipack_unwind_info, 128);
FIELD(cfipack_unwind_info, opaque, 0);

SIZE(cfipack_unwind_info_entry, 32);
FIELD(cfipack_unwind_info_entry, start, 0);
FIELD(cfipack_unwind_info_entry, end, 4);
FIELD(cfipack_unwind_info_entry, encoding, 8);
FIELD(cfipack_unwind_info_entry, personality, 12);
FIELD(cfipack_unwind_info_entry, lsda, 16);
FIELD(cfipack_unwind_info_entry, reserved, 20);
FIELD(cfipack_unwind_info_entry, page, 24);

SIZE(cfipack_cfi_section, 48);
FIELD(cfipack_cfi_section, bytes, 0);
FIELD(cfipack_cfi_section, len, 8);
FIELD(cfipack_cfi_section, address, 16);
FIELD(cfipack_cfi_section, text, 24);
FIELD(cfipack_cfi_section, data, 32);
FIELD(cfipack_cfi_section, kind, 40);
FIELD(cfipack_cfi_section, reserved, 44);

SIZE(cfipack_pool, 32);
FIELD(cfipack_pool, size, 0);
FIELD(cfipack_pool, reserved, 4);
FIELD(cfipack_pool, threads, 8);
FIELD(cfipack_pool, run, 16);
FIELD(cfipack_pool, pool, 24);

SIZE(cfipack_sframe_options, 20);
FIELD(cfipack_sframe_options, size, 0);
FIELD(cfipack_sframe_options, version, 4);
FIELD(cfipack_sframe_options, layout, 8);
FIELD(cfipack_sframe_options, prefer, 12);
FIELD(cfipack_sframe_options, no_flex, 16);
FIELD(cfipack_sframe_options, no_sharing, 17);
FIELD(cfipack_sframe_options, reserved, 18);

SIZE(cfipack_start, 24);
FIELD(cfipack_start, offset, 0);
FIELD(cfipack_start, key, 8);
FIELD(cfipack_start, extent, 16);
FIELD(cfipack_start, reserved, 20);

SIZE(cfipack_object, 72);
FIELD(cfipack_object, size, 0);
FIELD(cfipack_object, reserved, 4);
FIELD(cfipack_object, sframe, 8);
FIELD(cfipack_object, sframe_len, 16);
FIELD(cfipack_object, eh_frame, 24);
FIELD(cfipack_object, eh_frame_len, 32);
FIELD(cfipack_object, sframe_starts, 40);
FIELD(cfipack_object, num_sframe_starts, 48);
FIELD(cfipack_object, eh_frame_starts, 56);
FIELD(cfipack_object, num_eh_frame_starts, 64);

SIZE(cfipack_contribution, 48);
FIELD(cfipack_contribution, copied, 0);
FIELD(cfipack_contribution, reencoded, 8);
FIELD(cfipack_contribution, from_cfi, 16);
FIELD(cfipack_contribution, omitted, 24);
FIELD(cfipack_contribution, dead, 32);
FIELD(cfipack_contribution, skipped, 40);

SIZE(cfipack_stub_code, 24);
FIELD(cfipack_stub_code, rows, 0);
FIELD(cfipack_stub_code, num_rows, 8);
FIELD(cfipack_stub_code, size, 16);
FIELD(cfipack_stub_code, reserved, 20);

SIZE(cfipack_stubs, 88);
FIELD(cfipack_stubs, key, 0);
FIELD(cfipack_stubs, num_entries, 8);
FIELD(cfipack_stubs, header, 16);
FIELD(cfipack_stubs, entry, 40);
FIELD(cfipack_stubs, trailer, 64);

SIZE(cfipack_note, 280);
FIELD(cfipack_note, object, 0);
FIELD(cfipack_note, key, 8);
FIELD(cfipack_note, kind, 16);
FIELD(cfipack_note, is_damage, 20);
FIELD(cfipack_note, message, 24);

SIZE(cfipack_relocation, 32);
FIELD(cfipack_relocation, offset, 0);
FIELD(cfipack_relocation, key, 8);
FIELD(cfipack_relocation, addend, 16);
FIELD(cfipack_relocation, elf_type, 24);
FIELD(cfipack_relocation, reserved, 28);

SIZE(cfipack_directive, 40);
FIELD(cfipack_directive, offset, 0);
FIELD(cfipack_directive, kind, 8);
FIELD(cfipack_directive, reg, 12);
FIELD(cfipack_directive, value, 16);
FIELD(cfipack_directive, bytes, 24);
FIELD(cfipack_directive, num_bytes, 32);

SIZE(cfipack_region_fde, 24);
FIELD(cfipack_region_fde, offset, 0);
FIELD(cfipack_region_fde, start, 8);
FIELD(cfipack_region_fde, size, 16);

SIZE(cfipack_registration, 32);
FIELD(cfipack_registration, table, 0);
FIELD(cfipack_registration, table_size, 8);
FIELD(cfipack_registration, text, 16);
FIELD(cfipack_registration, text_size, 24);

SIZE(cfipack_cfi_sections, 24);
FIELD(cfipack_cfi_sections, sections, 0);
FIELD(cfipack_cfi_sections, num_sections, 8);
FIELD(cfipack_cfi_sections, architecture, 16);

SIZE(cfipack_buffer, 24);
FIELD(cfipack_buffer, bytes, 0);
FIELD(cfipack_buffer, capacity, 8);
FIELD(cfipack_buffer, len, 16);

SIZE(cfipack_libunwind, 32);
FIELD(cfipack_libunwind, form, 0);
FIELD(cfipack_libunwind, layout, 4);
FIELD(cfipack_libunwind, pointers, 8);
FIELD(cfipack_libunwind, eh_frame_address, 16);
FIELD(cfipack_libunwind, table_address, 24);

SIZE(cfipack_undo, 16);
FIELD(cfipack_undo, undo, 0);
FIELD(cfipack_undo, context, 8);

SIZE(cfipack_dynamic_sections, 40);
FIELD(cfipack_dynamic_sections, dso_base, 0);
FIELD(cfipack_dynamic_sections, dwarf_section, 8);
FIELD(cfipack_dynamic_sections, dwarf_section_length, 16);
FIELD(cfipack_dynamic_sections, compact_unwind_section, 24);
FIELD(cfipack_dynamic_sections, compact_unwind_section_length, 32);

SIZE(cfipack_jitdump_event, 24);
FIELD(cfipack_jitdump_event, pid, 0);
FIELD(cfipack_jitdump_event, tid, 4);
FIELD(cfipack_jitdump_event, time, 8);
FIELD(cfipack_jitdump_event, code_index, 16);

SIZE(cfipack_unwind_info_options, 8);
FIELD(cfipack_unwind_info_options, size, 0);
FIELD(cfipack_unwind_info_options, layout, 4);

SIZE(cfipack_reference, 16);
FIELD(cfipack_reference, part, 0);
FIELD(cfipack_reference, offset, 4);
FIELD(cfipack_reference, key, 8);

SIZE(cfipack_place, 16);
FIELD(cfipack_place, address, 0);
FIELD(cfipack_place, key, 8);

SIZE(cfipack_unwind_object, 96);
FIELD(cfipack_unwind_object, size, 0);
FIELD(cfipack_unwind_object, object, 4);
FIELD(cfipack_unwind_object, compact_unwind, 8);
FIELD(cfipack_unwind_object, compact_unwind_len, 16);
FIELD(cfipack_unwind_object, eh_frame, 24);
FIELD(cfipack_unwind_object, eh_frame_len, 32);
FIELD(cfipack_unwind_object, eh_frame_address, 40);
FIELD(cfipack_unwind_object, references, 48);
FIELD(cfipack_unwind_object, num_references, 56);
FIELD(cfipack_unwind_object, functions, 64);
FIELD(cfipack_unwind_object, num_functions, 72);
FIELD(cfipack_unwind_object, lsdas, 80);
FIELD(cfipack_unwind_object, num_lsdas, 88);

SIZE(cfipack_fde, 24);
FIELD(cfipack_fde, function, 0);
FIELD(cfipack_fde, offset, 8);
FIELD(cfipack_fde, object, 16);
FIELD(cfipack_fde, reserved, 20);

SIZE(cfipack_unwind_places, 72);
FIELD(cfipack_unwind_places, size, 0);
FIELD(cfipack_unwind_places, end, 4);
FIELD(cfipack_unwind_places, functions, 8);
FIELD(cfipack_unwind_places, num_functions, 16);
FIELD(cfipack_unwind_places, lsdas, 24);
FIELD(cfipack_unwind_places, num_lsdas, 32);
FIELD(cfipack_unwind_places, fdes, 40);
FIELD(cfipack_unwind_places, num_fdes, 48);
FIELD(cfipack_unwind_places, slots, 56);
FIELD(cfipack_unwind_places, num_slots, 64);

SIZE(cfipack_report_counts, 96);
FIELD(cfipack_report_counts, is_true, 0);
FIELD(cfipack_report_counts, is_complete, 4);
FIELD(cfipack_report_counts, functions, 8);
FIELD(cfipack_report_counts, equal, 16);
FIELD(cfipack_report_counts, different, 24);
FIELD(cfipack_report_counts, missing, 32);
FIELD(cfipack_report_counts, unjudged, 40);
FIELD(cfipack_report_counts, extra, 48);
FIELD(cfipack_report_counts, malformed, 56);
FIELD(cfipack_report_counts, pcs, 64);
FIELD(cfipack_report_counts, pcs_equal, 72);
FIELD(cfipack_report_counts, pcs_different, 80);
FIELD(cfipack_report_counts, pcs_missing, 88);

SIZE(cfipack_range, 16);
SIZE(cfipack_module, 88);
FIELD(cfipack_module, start, 0);
FIELD(cfipack_module, bias, 16);
FIELD(cfipack_module, table, 24);
FIELD(cfipack_module, index, 32);
FIELD(cfipack_module, starts, 40);
FIELD(cfipack_module, num_switches, 64);
FIELD(cfipack_module, code, 72);
SIZE(cfipack_modules, 64);
SIZE(cfipack_cache, 64);
SIZE(cfipack_frame, 24);
FIELD(cfipack_frame, is_exact, 16);
FIELD(cfipack_frame, found_by, 17);
SIZE(cfipack_thread, 72);
FIELD(cfipack_thread, address_bits, 4);
FIELD(cfipack_thread, pc, 8);
FIELD(cfipack_thread, registers, 16);
FIELD(cfipack_thread, memory, 24);
FIELD(cfipack_thread, num_memory, 32);
FIELD(cfipack_thread, stack_start, 40);
FIELD(cfipack_thread, stack_end, 48);
FIELD(cfipack_thread, cache, 56);
FIELD(cfipack_thread, no_frame_pointers, 64);
SIZE(cfipack_process_options, 16);
FIELD(cfipack_process_options, all_files, 4);
FIELD(cfipack_process_options, memory, 8);
SIZE(cfipack_refreshed, 40);
FIELD(cfipack_refreshed, tables, 8);
FIELD(cfipack_refreshed, too_large, 16);
FIELD(cfipack_refreshed, memory, 24);
FIELD(cfipack_refreshed, is_changed, 32);
FIELD(cfipack_refreshed, has_unloaded, 33);
