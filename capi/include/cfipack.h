/* cfipack.h: unwind tables for C and C++.
 *
 * Generated from the sources of cfipack-capi: do not edit.
 *
 * Every function that returns cfipack_status writes its results through pointers; CFIPACK_STATUS_OK is 0. A null pointer or
 * an impossible length gives CFIPACK_STATUS_INVALID_ARGUMENT. Lengths are in bytes. Addresses and fields are in the byte
 * order of the machine. The bytes of a table are in the byte order of the architecture that the table is for.
 *
 * Reading is async-signal-safe: cfipack_sframe_..., cfipack_unwind_info_..., cfipack_compact_unwind_row,
 * cfipack_registry_lookup, cfipack_step, cfipack_strip_signature, cfipack_modules_init, cfipack_cache_init and cfipack_walk.
 * These functions do not allocate, lock, or use floating point or thread-local variables. Parsed tables live in your memory,
 * and any number of threads may use them.
 *
 * Writing (cfipack_merger, cfipack_section, cfipack_unwind_builder, cfipack_unwind_section, cfipack_region,
 * cfipack_registry), conversion (cfipack_conversion) and verification (cfipack_report) use handles. Free a handle with the
 * function named ..._free, and use it from only one thread at a time. After CFIPACK_STATUS_INTERNAL you can only free the
 * handle. Some calls can use several threads (cfipack_pool). The output never depends on the threads.
 *
 * Counts, indices and lengths of memory are size_t. Addresses, keys, offsets, and numbers of bytes or PCs of described code
 * are uint64_t, or as wide as in the format. If a format has 32 bits for a count, a greater count is refused.
 *
 * Structures that start with their size can grow at their ends. Structures without a size never change.
 */


#ifndef CFIPACK_H
#define CFIPACK_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; cfipack_version() is that of the library. */
#define CFIPACK_VERSION_MAJOR 0
#define CFIPACK_VERSION_MINOR 1
#define CFIPACK_VERSION_PATCH 0
#define CFIPACK_VERSION_STRING "0.1.0"

/* Marks functions with a result that you must check. Define it as nothing before this header to turn the warning off. */
#ifndef CFIPACK_MUST_CHECK
#if defined(__cplusplus) && __cplusplus >= 201703L
#define CFIPACK_MUST_CHECK [[nodiscard]]
#elif defined(__GNUC__)
#define CFIPACK_MUST_CHECK __attribute__((warn_unused_result))
#else
#define CFIPACK_MUST_CHECK
#endif
#endif

/* x86-64, little endian. */
#define CFIPACK_ARCH_AMD64 1

/* AArch64, little endian; also Apple's arm64. */
#define CFIPACK_ARCH_AARCH64 2

/* AArch64, big endian. */
#define CFIPACK_ARCH_AARCH64_BE 3

/* s390x, big endian. */
#define CFIPACK_ARCH_S390X 4

/* i386: only `__unwind_info`. */
#define CFIPACK_ARCH_I386 5

/* arm64_32: only `__unwind_info`. */
#define CFIPACK_ARCH_ARM64_32 6

/* riscv64: only call frame information of generated code. */
#define CFIPACK_ARCH_RISCV64 7

/* There is no rule. If the return address has no rule, the frame is outermost. If another register has no
 * rule, its value cannot be recovered. */
#define CFIPACK_RULE_UNDEFINED 0

/* The register has the same value as in the frame that is unwound. A return address with this rule is in the link
 * register. */
#define CFIPACK_RULE_SAME_VALUE 1

/* The value of a register plus the offset. */
#define CFIPACK_RULE_REGISTER 2

/* The value in memory at a register plus the offset. */
#define CFIPACK_RULE_MEMORY 3

/* The value in memory at the CFA plus the offset. */
#define CFIPACK_RULE_CFA 4

/* The value of the CFA plus the offset. No table has this rule. */
#define CFIPACK_RULE_VALUE_CFA 5

/* A rule that only a DWARF expression can describe. No table has this rule. */
#define CFIPACK_RULE_EXPRESSION 6

/* The size of a message in bytes, including the final zero. */
#define CFIPACK_MESSAGE_SIZE 256

/* The innermost frame. */
#define CFIPACK_FOUND_BY_REGISTERS 0

/* The row of the frame before led to this frame, and no frame so far is a guess. It is as correct as the tables. */
#define CFIPACK_FOUND_BY_TABLE 1

/* The frame pointer of the frame before led to this frame, because no table covers that code. This is a guess. */
#define CFIPACK_FOUND_BY_FRAME_POINTER 2

/* The row of the frame before led to this frame, but a frame further in is a guess. It is as correct as that guess. */
#define CFIPACK_FOUND_BY_TABLE_AFTER_GUESS 3

/* The walk has not ended: there are more frames than fit. */
#define CFIPACK_END_NONE 0

/* The row of the last frame marks an outermost frame. The stack is complete. */
#define CFIPACK_END_OUTERMOST 1

/* The last frame is in `starts` or `switches` of its module, so the stack starts there. For
 * `cfipack_process_modules_walk`: the first thread started in the last frame. The stack is complete. */
#define CFIPACK_END_START 2

/* The return address and the caller's frame pointer are 0 (on s390x, the return address), and no frame is a guess. The
 * stack is complete. */
#define CFIPACK_END_NULL 3

/* No table covers the code of the last frame, and its frame pointer does not lead to a frame of this stack. */
#define CFIPACK_END_NO_ROW 4

/* The row of the last frame needs a register that tables do not restore for a caller. */
#define CFIPACK_END_REGISTER 5

/* The row of the last frame needs memory that was not given. */
#define CFIPACK_END_MEMORY 6

/* The caller's frame would not lie above the last frame, or would lie outside the stack. */
#define CFIPACK_END_NOT_RISING 7

/* The row of the last frame has a rule that is impossible in a table. */
#define CFIPACK_END_RULE 8

/* The table of the last frame's code is damaged. */
#define CFIPACK_END_TABLE 9

/* The end is unknown: the return address is 0, but the caller's frame pointer is not or is not known; or either is 0
 * where a frame is a guess. The last frame may be outermost, or callers are missing. */
#define CFIPACK_END_GUESSED_NULL 10

/* The return address is in no module. After a guess it is also this if no call is before the return address. */
#define CFIPACK_END_NOT_CODE 11

/* The section is `.eh_frame`. */
#define CFIPACK_EH_FRAME 0

/* The section is `.debug_frame`. */
#define CFIPACK_DEBUG_FRAME 1

/* `.cfi_def_cfa reg, value` */
#define CFIPACK_CFI_DEF_CFA 1

/* `.cfi_def_cfa_offset value` */
#define CFIPACK_CFI_DEF_CFA_OFFSET 2

/* `.cfi_adjust_cfa_offset value` */
#define CFIPACK_CFI_ADJUST_CFA_OFFSET 3

/* `.cfi_def_cfa_register reg` */
#define CFIPACK_CFI_DEF_CFA_REGISTER 4

/* `.cfi_offset reg, value`: the register is saved at the CFA plus `value` bytes. */
#define CFIPACK_CFI_OFFSET 5

/* `.cfi_rel_offset reg, value`: the register is saved at the CFA's register plus `value` bytes. */
#define CFIPACK_CFI_REL_OFFSET 6

/* `.cfi_val_offset reg, value`: the value of the register is the CFA plus `value` bytes. */
#define CFIPACK_CFI_VAL_OFFSET 7

/* `.cfi_register reg, value`: the register is saved in register number `value`. */
#define CFIPACK_CFI_REGISTER 8

/* `.cfi_restore reg` */
#define CFIPACK_CFI_RESTORE 9

/* `.cfi_undefined reg` */
#define CFIPACK_CFI_UNDEFINED 10

/* `.cfi_same_value reg` */
#define CFIPACK_CFI_SAME_VALUE 11

/* `.cfi_remember_state` */
#define CFIPACK_CFI_REMEMBER_STATE 12

/* `.cfi_restore_state` */
#define CFIPACK_CFI_RESTORE_STATE 13

/* `.cfi_negate_ra_state` */
#define CFIPACK_CFI_NEGATE_RA_STATE 14

/* `.cfi_window_save` */
#define CFIPACK_CFI_WINDOW_SAVE 15

/* `.cfi_escape` with `bytes`. */
#define CFIPACK_CFI_ESCAPE 16

/* `.cfi_signal_frame`. It applies to the whole function. */
#define CFIPACK_CFI_SIGNAL_FRAME 17

/* `.cfi_b_key_frame`. It applies to the whole function. */
#define CFIPACK_CFI_B_KEY_FRAME 18

/* `.cfi_return_column reg`. It applies to the whole function. */
#define CFIPACK_CFI_RETURN_COLUMN 19

/* `.cfi_personality`: `reg` is the pointer encoding (`DW_EH_PE_...`), and `value` is the address of the routine. */
#define CFIPACK_CFI_PERSONALITY 20

/* `.cfi_lsda`: `reg` is the pointer encoding, and `value` is the address of the LSDA. */
#define CFIPACK_CFI_LSDA 21

/* `.cfi_set_ra_state`: `reg` is the state, and `value` is the distance in bytes to the instruction that signs. */
#define CFIPACK_CFI_SET_RA_STATE 22

/* Starts of functions count from the first PC (`UNW_INFO_FORMAT_IP_OFFSET`). The code may lie anywhere. */
#define CFIPACK_LIBUNWIND_IP_OFFSET 0

/* Starts of functions count from the `.eh_frame` (`UNW_INFO_FORMAT_REMOTE_TABLE`), which must lie within 2 GiB of
 * the code. */
#define CFIPACK_LIBUNWIND_REMOTE_TABLE 1

/* `unw_dyn_info_t` has the member `load_offset`: libunwind 1.6.0 to 1.8.3. */
#define CFIPACK_LIBUNWIND_LOAD_OFFSET 0

/* `unw_dyn_info_t` has no member `load_offset`: libunwind up to 1.5. */
#define CFIPACK_LIBUNWIND_NO_LOAD_OFFSET 1

/* The object's table is not used from some offset on. */
#define CFIPACK_NOTE_SKIPPED 1

/* A live function has no rows in the output. */
#define CFIPACK_NOTE_OMITTED 2

/* A record of `.eh_frame` cannot be read. */
#define CFIPACK_NOTE_UNREAD 3

/* The extent is unknown: use the size that the function's table or FDE claims. */
#define CFIPACK_WHOLE_FUNCTION UINT32_MAX

/* The smallest table. This is the default. */
#define CFIPACK_LAYOUT_SMALL 0

/* `.sframe`: the layout of GNU `as` 2.47 and `ld` 2.47. */
#define CFIPACK_LAYOUT_GNU 1

/* `__unwind_info`: the layout of ld64.lld 23. */
#define CFIPACK_LAYOUT_LLD 2

/* `__unwind_info`: the layout of Apple's new linker. */
#define CFIPACK_LAYOUT_LD_PRIME 3

/* `__unwind_info`: the layout of Apple's classic linker. */
#define CFIPACK_LAYOUT_LD64 4

/* `__unwind_info`: the layout of ld64 up to version 253.3. */
#define CFIPACK_LAYOUT_LD64_253 5

/* `__unwind_info`: the layout of Apple's linker of SDK 27. */
#define CFIPACK_LAYOUT_LD_PRIME_27 6

/* `__unwind_info`: the layout of Zig's own linker. */
#define CFIPACK_LAYOUT_ZIG 7

/* Use the rows of the object's table. If it has no rows for a function, use call frame information. This is the
 * default. */
#define CFIPACK_PREFER_TABLE 0

/* Use call frame information. If a function has no call frame information, use the object's table. */
#define CFIPACK_PREFER_CFI 1

/* Use only the object's table, as GNU `ld` does. */
#define CFIPACK_PREFER_TABLE_ONLY 2

/* `.eh_frame` contains absolute addresses, so it may lie anywhere. */
#define CFIPACK_POINTERS_ABSOLUTE 0

/* `.eh_frame` contains distances of 32 bits. It is smaller, and must lie within 2 GiB of the code. */
#define CFIPACK_POINTERS_PC_RELATIVE 1

/* A key is the index of the function's address, so number functions from 0. If functions share PCs,
 * `cfipack_section_write` omits some of them. */
#define CFIPACK_KEYS_FUNCTIONS 0

/* The upper 32 bits of a key are the index of an input section's address, and the lower 32 bits are the function's
 * offset in the input section. You give one address per input section. Functions that share PCs are separated or
 * omitted when the section is finished. */
#define CFIPACK_KEYS_SECTIONS 1

/* x86-64: the `.plt` of bfd, gold and lld. The header has 16 bytes. An entry has 16 bytes: `jmp *slot`, at 6
 * `push index`, at 11 `jmp header`. */
#define CFIPACK_STUBS_AMD64_LAZY_PLT 1

/* x86-64: the `.plt` beside a `.plt.sec`. It has the header of the lazy PLT. An entry has 16 bytes: `endbr64`, at 4
 * `push index`, at 9 `jmp header`, with or without `bnd`. */
#define CFIPACK_STUBS_AMD64_IBT_PLT 2

/* x86-64: the `.plt` of bfd before 2.41 with `-z bndplt`. It has the header of the lazy PLT. An entry has 16 bytes:
 * `push index`, at 5 `bnd jmp header`. */
#define CFIPACK_STUBS_AMD64_BND_PLT 3

/* x86-64: the `.plt` of mold. The header has 32 bytes: `endbr64`, at 4 `push %r11`, at 6 `push got+8`, at 12
 * `jmp *got+16`. An entry has 16 bytes: it loads its index into `r11` and jumps. */
#define CFIPACK_STUBS_AMD64_MOLD_PLT 4

/* x86-64: stubs of 16 bytes that only jump, for example `.plt.sec`, `.plt.got`, the PLT of a static program, and
 * thunks. */
#define CFIPACK_STUBS_AMD64_JUMP 5

/* x86-64: the code after the entries of a `.plt` for lazy TLS descriptors: `push got+8`, at 6 `jmp *resolver`. */
#define CFIPACK_STUBS_AMD64_TLS_DESC 6

/* x86-64: the code for lazy TLS descriptors, after `endbr64`. */
#define CFIPACK_STUBS_AMD64_IBT_TLS_DESC 7

/* AArch64: a header of 32 bytes that starts with `stp x16, x30, [sp, #-16]!`, and entries of 16 bytes that only
 * jump. With pointer authentication an entry has 24 bytes. */
#define CFIPACK_STUBS_AARCH64_PLT 8

/* AArch64: the same header after `bti c`, and entries of 24 bytes, with or without `autia1716`. */
#define CFIPACK_STUBS_AARCH64_BTI_PLT 9

/* AArch64: stubs of 16 bytes that only jump, for example a PLT without a header, `.plt.got`, and thunks of any size
 * for calls and tail calls. */
#define CFIPACK_STUBS_AARCH64_JUMP 10

/* AArch64: 32 bytes after the entries of a `.plt` for lazy TLS descriptors, which start with `stp x2, x3, [sp,
 * #-16]!`. */
#define CFIPACK_STUBS_AARCH64_TLS_DESC 11

/* AArch64: the code for lazy TLS descriptors, after `bti c`. */
#define CFIPACK_STUBS_AARCH64_BTI_TLS_DESC 12

/* s390x: the PLT of bfd and lld. Header and entries have 32 bytes and do not change the stack pointer. */
#define CFIPACK_STUBS_S390X_PLT 13

/* x86-64: the `.plt` of lld with `-z retpolineplt`. The header has 48 bytes, and its last 16 bytes have no row: they
 * are the tail that all entries share. An entry has 32 bytes. */
#define CFIPACK_STUBS_AMD64_RETPOLINE_PLT 14

/* x86-64: the `.plt` of lld with `-z retpolineplt -z now`. The header has 32 bytes, an entry has 16 bytes. */
#define CFIPACK_STUBS_AMD64_RETPOLINE_NOW_PLT 15

/* s390x: the `.plt` of mold. The header has 48 bytes, an entry has 16 bytes. They do not change the stack pointer. */
#define CFIPACK_STUBS_S390X_MOLD_PLT 16

/* s390x: stubs of 16 bytes that only jump, such as mold's `.plt.got`. */
#define CFIPACK_STUBS_S390X_JUMP 17

/* A flag to add to a `CFIPACK_STUBS_...` number: the entries without the header, as in lld's `.iplt`. */
#define CFIPACK_STUBS_NO_HEADER 256

/* A field of `__LD,__compact_unwind`. */
#define CFIPACK_PART_COMPACT_UNWIND 0

/* A field of `__TEXT,__eh_frame`. */
#define CFIPACK_PART_EH_FRAME 1

/* The place of a function, LSDA or FDE that is not in the output. */
#define CFIPACK_NO_ADDRESS UINT32_MAX

/* The status that a call returns. Values never change; later versions may add values. */
typedef enum cfipack_status {
    /* The call succeeded. */
    CFIPACK_STATUS_OK = 0,
    /* Nothing was found: no row for a PC, or no entry with this number. */
    CFIPACK_STATUS_NOT_FOUND = 1,
    /* The frame is outermost. A stack ends this way. */
    CFIPACK_STATUS_OUTERMOST = 2,
    /* An argument is invalid: a pointer is null, misaligned or reaches beyond memory, a constant is unknown, an
     * array is not sorted as required, a key is not an index of the array of addresses, or a handle is invalid. */
    CFIPACK_STATUS_INVALID_ARGUMENT = 3,
    /* The caller's buffer is too small, or does not have exactly the right length. The call sets the length that is
     * needed. */
    CFIPACK_STATUS_BUFFER_SIZE = 4,
    /* The bytes of a table or of call frame information are damaged. */
    CFIPACK_STATUS_MALFORMED = 5,
    /* The format does not support this architecture, version or option. */
    CFIPACK_STATUS_UNSUPPORTED = 6,
    /* A step needs a register or a word of memory that is unknown. */
    CFIPACK_STATUS_UNKNOWN = 7,
    /* A function cannot be represented or added: it overlaps another function, lies outside of the region, or has an
     * error. */
    CFIPACK_STATUS_REFUSED = 8,
    /* A table cannot be written at these addresses: a function is out of reach, functions share PCs, or a number
     * does not fit its field. */
    CFIPACK_STATUS_WRITE = 9,
    /* A defect of cfipack. The handle can only be freed now. */
    CFIPACK_STATUS_INTERNAL = 10
} cfipack_status;

/* A `.sframe` table that was converted from call frame information. */
typedef struct cfipack_conversion cfipack_conversion;

/* Builds the `.sframe` section of a link. Push the objects, then call `cfipack_merger_finish`. The bytes of the
 * objects must stay in memory until then. */
typedef struct cfipack_merger cfipack_merger;

/* The files that this process has loaded, with their tables. Any number of threads and signal handlers may walk in
 * it, also while a thread refreshes it: neither waits for the other.
 *
 * A child after `fork` may walk in its copy without preparation. Each refresh in the child returns
 * `CFIPACK_STATUS_REFUSED`: a thread of the parent may hold the loader's lock at the fork, and nothing releases the lock
 * in the child. If no other thread of the parent could be in `dlopen`, `dlclose` or `dl_iterate_phdr` then, the child
 * may create modules of its own. Otherwise `cfipack_modules_of_process` may wait forever in the child, as `dlopen` does
 * there.
 *
 * The child is known by its process number. In a new PID namespace it may have the number of its parent: do not refresh
 * there. */
typedef struct cfipack_process_modules cfipack_process_modules;

/* A contiguous range of generated code, with its functions and their call frame information. Tables for the region
 * are copied into your memory, and you register them. */
typedef struct cfipack_region cfipack_region;

/* The rows of all registered regions of generated code. One thread at a time adds and removes regions. Readers never
 * wait for it, and it never waits for a reader.
 *
 * A child after `fork` may use its copy as its parent does: look up, add, remove and free. Only no thread may be
 * adding or removing at the moment of the fork. If several threads may fork or change the registry, take its lock in
 * `pthread_atfork` before the fork, and release it afterwards in the parent and in the child. Lookups need no
 * preparation.
 *
 * A lookup that never ends delays no other call: its thread may be stopped, or it does not exist in the child. Such
 * lookups keep at most four times as much memory as the registry has had at most, until the registry and its readers
 * are freed.
 *
 * As with every function of this library, a thread must not be cancelled asynchronously in a call, nor leave it by
 * `longjmp` from a signal handler. No call is a cancellation point. */
typedef struct cfipack_registry cfipack_registry;

/* A reader of a registry. Any number of threads and signal handlers may use it at the same time. */
typedef struct cfipack_registry_reader cfipack_registry_reader;

/* The result of a verification: counts and details. */
typedef struct cfipack_report cfipack_report;

/* A finished `.sframe` section that lacks only addresses. Its size is exact. You can write it again after each
 * relayout. */
typedef struct cfipack_section cfipack_section;

/* Builds the `__unwind_info` section of a link. Push the objects, then call `cfipack_unwind_builder_finish`. */
typedef struct cfipack_unwind_builder cfipack_unwind_builder;

/* The unwind information of a link's live functions. It lacks only addresses. */
typedef struct cfipack_unwind_section cfipack_unwind_section;

/* The modules of a process at one time, in memory of the caller. Any number of threads may read it. */
typedef struct cfipack_modules {
    /* Memory that only the library reads and writes. */
    uint64_t opaque[8];
} cfipack_modules;

/* A parsed `.sframe` table. It lives in memory of the caller, can be copied, and needs no release. The bytes of the
 * table must stay where they are as long as it is used. Any number of threads may read it. */
typedef struct cfipack_sframe {
    /* Memory that only the library reads and writes. */
    uint64_t opaque[16];
} cfipack_sframe;

/* A parsed table with an index, in memory of the caller. It makes lookups about twice as fast. */
typedef struct cfipack_sframe_index {
    /* Memory that only the library reads and writes. */
    uint64_t opaque[32];
} cfipack_sframe_index;

/* A range of addresses. */
typedef struct cfipack_range {
    /* The first address. */
    uint64_t start;
    /* The address after the last address. */
    uint64_t end;
} cfipack_range;

/* A mapping of code: a loaded file, or a region of generated code. */
typedef struct cfipack_module {
    /* The first address of the code in the process. */
    uint64_t start;
    /* The address after the last byte of the code. */
    uint64_t end;
    /* The bias of the module: an address in the process minus this is an address in the tables and ranges below. */
    uint64_t bias;
    /* A parsed table, or null. */
    const struct cfipack_sframe *table;
    /* An index over a table, which is used instead of `table`, or null. */
    const struct cfipack_sframe_index *index;
    /* The functions in which stacks start, such as `_start`, ascending. These functions are outermost, whatever the
     * table has. */
    const struct cfipack_range *starts;
    /* The number of elements in `starts`. */
    size_t num_starts;
    /* The functions that call other functions on a different stack, such as Go's `runtime.mcall`, ascending.
     * Stacks also start in these functions, except if the function is the innermost frame. */
    const struct cfipack_range *switches;
    /* The number of elements in `switches`. */
    size_t num_switches;
    /* The bytes of the code from `start` on, or null. Walks then refuse return addresses that depend on a guess and
     * follow no call. In the process itself, this is `start` as a pointer, if the code can be read. */
    const uint8_t *code;
    /* The length of `code` in bytes. It may be less than the module's. */
    size_t code_len;
} cfipack_module;

/* A message for a person, with the offset and the value that are wrong. It ends with a zero, and a longer message is
 * cut off. A call that takes a message always writes it; the message is empty if the call succeeded. */
typedef struct cfipack_message {
    /* The text in UTF-8. */
    char text[CFIPACK_MESSAGE_SIZE];
} cfipack_message;

/* The properties of a table. */
typedef struct cfipack_sframe_info {
    /* The version of the format: 1, 2 or 3. */
    uint32_t version;
    /* `CFIPACK_ARCH_...` */
    uint32_t arch;
    /* The address of the table. */
    uint64_t address;
    /* The size of the table in bytes, without anything that follows it in the section. */
    size_t size;
    /* The number of functions. */
    size_t num_functions;
    /* The number of rows, as the header counts them. */
    size_t num_rows;
    /* 1 if the functions are sorted by their starts. */
    uint32_t is_sorted;
    /* The flags of the header. */
    uint32_t flags;
} cfipack_sframe_info;

/* A rule for the CFA or a register of the caller. */
typedef struct cfipack_rule {
    /* `CFIPACK_RULE_...` */
    uint32_t kind;
    /* A DWARF register number, if the kind uses a register. */
    uint32_t reg;
    /* The offset in bytes. */
    int64_t offset;
} cfipack_rule;

/* The rules for unwinding a frame. They hold from `start` to the start of the next row or the end of the function. */
typedef struct cfipack_row {
    /* The first PC of the row, in bytes from the start of the function. */
    uint32_t start;
    /* AArch64: 1 if the return address is signed (`paciasp`) at this point. */
    uint8_t is_signed;
    /* 1 if the frame is a signal frame. Then the caller's PC is not the address after a call. */
    uint8_t is_signal_frame;
    /* Reserved: 0. */
    uint16_t reserved;
    /* The canonical frame address. */
    struct cfipack_rule cfa;
    /* The return address. */
    struct cfipack_rule return_address;
    /* The caller's frame pointer. */
    struct cfipack_rule frame_pointer;
} cfipack_row;

/* A function of a table. */
typedef struct cfipack_sframe_function {
    /* The address of the function. */
    uint64_t start;
    /* The number of rows. */
    size_t num_rows;
    /* The size of the function in bytes. */
    uint32_t size;
    /* The number of bytes after which the rows of a PC-mask function repeat; 0 for other functions. */
    uint32_t repeat;
    /* 1 if the function is a signal frame. */
    uint8_t is_signal_frame;
    /* AArch64: 1 if return addresses are signed with key B. */
    uint8_t has_pauth_key_b;
    /* 1 if the function has a flex FDE. */
    uint8_t is_flex;
    /* Always 0. */
    uint8_t reserved[5];
} cfipack_sframe_function;

/* The value of a register. */
typedef struct cfipack_register {
    /* A DWARF register number. */
    uint32_t reg;
    /* Must be 0. */
    uint32_t reserved;
    /* The value. */
    uint64_t value;
} cfipack_register;

/* The known registers of a frame. */
typedef struct cfipack_registers {
    /* The stack pointer. */
    uint64_t sp;
    /* The frame pointer. */
    uint64_t fp;
    /* The link register. Only the innermost frame and a frame that a signal interrupted have it. x86 has no link
     * register. */
    uint64_t lr;
    /* 1 if the frame pointer is known. */
    uint8_t has_fp;
    /* 1 if the link register is known. */
    uint8_t has_lr;
    /* Must be 0. `cfipack_step` does not check it. */
    uint8_t reserved[6];
    /* Other registers that rows of flex FDEs may name, at most 32. Null if there are none. */
    const struct cfipack_register *others;
    /* The number of elements in `others`. */
    size_t num_others;
} cfipack_registers;

/* A piece of memory: the stack of a thread, or a copy of it. */
typedef struct cfipack_memory {
    /* The bytes, in the byte order of the unwound process. */
    const uint8_t *bytes;
    /* The length in bytes. */
    size_t len;
    /* The address of the first byte in the unwound process. */
    uint64_t address;
} cfipack_memory;

/* The caller of a frame. */
typedef struct cfipack_caller {
    /* The return address. Look up the byte before it, unless the frame that you stepped from is a signal frame. */
    uint64_t pc;
    /* The canonical frame address of the frame that you stepped from. */
    uint64_t cfa;
    /* The stack pointer. */
    uint64_t sp;
    /* The frame pointer. */
    uint64_t fp;
    /* 1 if the frame pointer is known. */
    uint8_t has_fp;
    /* AArch64: 1 if `pc` has a signature that must be stripped. */
    uint8_t is_signed;
    /* Always 0. */
    uint8_t reserved[6];
} cfipack_caller;

/* A parsed `__unwind_info` table. It lives in memory of the caller, can be copied, and needs no release. The bytes
 * of the table must stay where they are as long as it is used. Any number of threads may read it. */
typedef struct cfipack_unwind_info {
    /* Memory that only the library reads and writes. */
    uint64_t opaque[16];
} cfipack_unwind_info;

/* An entry of the table: `encoding` describes how to unwind the code from `start` up to `end`. Both are in
 * bytes from the image's Mach-O header. */
typedef struct cfipack_unwind_info_entry {
    /* The first byte of the code. */
    uint32_t start;
    /* The first byte after the code. */
    uint32_t end;
    /* The compact encoding. */
    uint32_t encoding;
    /* The pointer slot that holds the address of the personality, in bytes from the Mach-O header; 0 if there is
     * none. */
    uint32_t personality;
    /* The language-specific data area, in bytes from the Mach-O header; 0 if there is none. */
    uint32_t lsda;
    /* Always 0. */
    uint32_t reserved;
    /* The number of the page, from 0. */
    size_t page;
} cfipack_unwind_info_entry;

/* A cache of rows by PC, in memory of the caller. Only one walk at a time uses it. Other walks, in any thread or
 * signal handler, see that it is in use and do without it. */
typedef struct cfipack_cache {
    /* Memory that only the library reads and writes. */
    uint64_t opaque[8];
} cfipack_cache;

/* The thread to walk. If a field other than `size` is 0, its default applies. */
typedef struct cfipack_thread {
    /* `sizeof(cfipack_thread)` */
    uint32_t size;
    /* AArch64: the number of bits of an address without a signature, at most 55. 0 means 48. */
    uint32_t address_bits;
    /* The address of the next instruction in the innermost frame. */
    uint64_t pc;
    /* The registers of the innermost frame. */
    const struct cfipack_registers *registers;
    /* The readable parts of the stack, as for `cfipack_step`. */
    const struct cfipack_memory *memory;
    /* The number of elements in `memory`. */
    size_t num_memory;
    /* The first address of the stack. Frames outside the stack are not followed, even if their memory is given. */
    uint64_t stack_start;
    /* The address after the stack, or 0 if the bounds of the stack are unknown. */
    uint64_t stack_end;
    /* A cache, or null. */
    struct cfipack_cache *cache;
    /* 1 to end the walk at code that no table covers, instead of following its frame pointer. */
    uint8_t no_frame_pointers;
    /* Must be 0. */
    uint8_t reserved[7];
} cfipack_thread;

/* A frame of a stack. */
typedef struct cfipack_frame {
    /* The address of the next instruction in the innermost frame. In other frames it is the return address
     * without a signature. */
    uint64_t pc;
    /* The stack pointer. */
    uint64_t sp;
    /* 1 if `pc` is an instruction that has not run yet; 0 if `pc` follows a call, and then the byte before `pc`
     * belongs to the function. */
    uint8_t is_exact;
    /* `CFIPACK_FOUND_BY_...` */
    uint8_t found_by;
    /* Always 0. */
    uint8_t reserved[6];
} cfipack_frame;

/* A section of call frame information in a linked file, with its address. To find the length of an `.eh_frame` in
 * memory, use `cfipack_eh_frame_len`. */
typedef struct cfipack_cfi_section {
    /* The bytes. */
    const uint8_t *bytes;
    /* The length in bytes. */
    size_t len;
    /* The address in memory. */
    uint64_t address;
    /* The base of `DW_EH_PE_textrel` pointers; 0 if there are none. */
    uint64_t text;
    /* The base of `DW_EH_PE_datarel` pointers; 0 if there are none. */
    uint64_t data;
    /* `CFIPACK_EH_FRAME` or `CFIPACK_DEBUG_FRAME` */
    uint32_t kind;
    /* Must be 0. */
    uint32_t reserved;
} cfipack_cfi_section;

/* The call frame information of a file. */
typedef struct cfipack_cfi_sections {
    /* The sections. */
    const struct cfipack_cfi_section *sections;
    /* The number of sections. */
    size_t num_sections;
    /* `CFIPACK_ARCH_...`. */
    uint32_t architecture;
} cfipack_cfi_sections;

/* Options of a `.sframe` table. The defaults are zero in all fields except `size`. */
typedef struct cfipack_sframe_options {
    /* `sizeof(cfipack_sframe_options)` */
    uint32_t size;
    /* The version of the format: 2 or 3; 0 means 3. */
    uint32_t version;
    /* `CFIPACK_LAYOUT_SMALL` or `CFIPACK_LAYOUT_GNU` */
    uint32_t layout;
    /* `CFIPACK_PREFER_...`: where rows come from if a function has both an entry in a table and call frame
     * information. */
    uint32_t prefer;
    /* 1 to omit functions that need flex FDEs. */
    uint8_t no_flex;
    /* 1 to give each function its own rows instead of sharing them. */
    uint8_t no_sharing;
    /* Must be 0. */
    uint16_t reserved;
} cfipack_sframe_options;

/* A task for a pool: call it as `task(work, index)`. */
typedef void (*cfipack_task)(void *work, size_t index);

/* The threads that a call may use. The output never depends on them. Null, or zero in all fields except `size`,
 * means only the calling thread.
 *
 * Without `run` the library starts threads and ends them before it returns. With `run` your own threads do the work.
 * The library calls `run(pool, task, work, count)`. Then `run` must call `task(work, index)` once for each index
 * below `count`, in any order and on any threads. It must return when all these calls have ended. If `run` omits an
 * index, the library runs it afterwards on the calling thread. A second call with the same index does
 * nothing. `run` is called on the calling thread, never inside a task, possibly several times. It must not throw or
 * jump out, and `task` does neither. */
typedef struct cfipack_pool {
    /* `sizeof(cfipack_pool)` */
    uint32_t size;
    /* Must be 0. */
    uint32_t reserved;
    /* About how many threads there are. This decides how finely work is divided. With 0 or 1 the calling thread does
     * all of the work; numbers above 256 are treated as 256. */
    size_t threads;
    /* The function that runs tasks, or null to let the library start `threads` threads. */
    void (*run)(void *pool, cfipack_task task, void *work, size_t count);
    /* The first argument of `run`. The library does not use it. */
    void *pool;
} cfipack_pool;

/* The time when a function was generated, and the thread that generated it. */
typedef struct cfipack_jitdump_event {
    /* The process ID. */
    uint32_t pid;
    /* The thread ID. */
    uint32_t tid;
    /* The time of `CLOCK_MONOTONIC`, in nanoseconds. */
    uint64_t time;
    /* A number that is unique among the functions of the process. */
    uint64_t code_index;
} cfipack_jitdump_event;

/* Memory of the caller, for output with a length that is not known before the call. */
typedef struct cfipack_buffer {
    /* The memory for the bytes; null if `capacity` is 0. */
    uint8_t *bytes;
    /* The number of bytes that may be written. */
    size_t capacity;
    /* The function sets this to the number of bytes of output. If it is more than `capacity`, nothing is written,
     * and the status is `CFIPACK_STATUS_BUFFER_SIZE`. */
    size_t len;
} cfipack_buffer;

/* How HP's libunwind will use a search table, and where it will lie. */
typedef struct cfipack_libunwind {
    /* The base of the starts of functions: `CFIPACK_LIBUNWIND_IP_OFFSET` or `..._REMOTE_TABLE`. */
    uint32_t form;
    /* The layout of `unw_dyn_info_t`: `CFIPACK_LIBUNWIND_LOAD_OFFSET` or `..._NO_LOAD_OFFSET`. */
    uint32_t layout;
    /* The pointers of the region's `.eh_frame`: `CFIPACK_POINTERS_...`. */
    uint32_t pointers;
    /* The address of the `.eh_frame`. */
    uint64_t eh_frame_address;
    /* The address that the table will have, a multiple of 4. */
    uint64_t table_address;
} cfipack_libunwind;

/* A live function of an object: where the relocation of a start field leads. */
typedef struct cfipack_start {
    /* The offset of the start field in its section. In `.eh_frame` it is 8 bytes after the start of an FDE; in
     * `.sframe` it is the start of an index entry. */
    uint64_t offset;
    /* The function's key. It must be unique in the link, and the same for the function's entry in a table and for
     * its FDE. `CFIPACK_KEYS_...` describes how its address is found when the section is written. */
    uint64_t key;
    /* The number of bytes from the function's start to the end of its input section, or to the end of the piece of
     * the section that is in the output. Rows end there. With `CFIPACK_WHOLE_FUNCTION`, a function that is too long
     * by mistake runs into its neighbours. */
    uint32_t extent;
    /* Must be 0. */
    uint32_t reserved;
} cfipack_start;

/* The unwind sections of an object, before relocation. A function is discarded if its start field has no entry in
 * `sframe_starts` or `eh_frame_starts`. */
typedef struct cfipack_object {
    /* `sizeof(cfipack_object)` */
    uint32_t size;
    /* Must be 0. */
    uint32_t reserved;
    /* The bytes of `.sframe`, or null if there is no such section. */
    const uint8_t *sframe;
    /* The number of bytes in `sframe`. */
    size_t sframe_len;
    /* The bytes of `.eh_frame`, or null if there is no such section. */
    const uint8_t *eh_frame;
    /* The number of bytes in `eh_frame`. */
    size_t eh_frame_len;
    /* The live functions of `.sframe`, ascending by offset. */
    const struct cfipack_start *sframe_starts;
    /* The number of elements in `sframe_starts`. */
    size_t num_sframe_starts;
    /* The live functions of `.eh_frame`, ascending by offset. */
    const struct cfipack_start *eh_frame_starts;
    /* The number of elements in `eh_frame_starts`. */
    size_t num_eh_frame_starts;
} cfipack_object;

/* Counts an object's functions by the source of their rows. Each function is counted once. */
typedef struct cfipack_contribution {
    /* Functions whose rows were copied from the object's table. */
    size_t copied;
    /* Functions whose rows were decoded from the object's table and encoded again. */
    size_t reencoded;
    /* Functions with rows from call frame information. */
    size_t from_cfi;
    /* Live functions without rows in the output. */
    size_t omitted;
    /* Entries of the object's table for discarded functions. */
    size_t dead;
    /* 1 if the object's table was skipped, in full or in part. */
    size_t skipped;
} cfipack_contribution;

/* Reports a part of an object that is not in the output. */
typedef struct cfipack_note {
    /* The number of the object, from 0 in the order of pushing to its merger. */
    size_t object;
    /* The function for `CFIPACK_NOTE_OMITTED`, 0 otherwise. */
    uint64_t key;
    /* `CFIPACK_NOTE_...` */
    uint32_t kind;
    /* 1 if the object is damaged, 0 if the output cannot represent a function of an object that is in order. */
    uint32_t is_damage;
    /* The description. */
    struct cfipack_message message;
} cfipack_note;

/* Options of `cfipack_modules_of_process`. The defaults are zero in all fields except `size`. */
typedef struct cfipack_process_options {
    /* `sizeof(cfipack_process_options)` */
    uint32_t size;
    /* 1 to make the tables of all files. 0 to make the table of a file in the first refresh after a walk came to the
     * file's code. */
    uint8_t all_files;
    /* Must be 0. */
    uint8_t reserved[3];
    /* How many bytes all tables and their indices may have; 0 means 64 MiB. A file whose table does not fit has no
     * table. While a table is made, it needs about as many bytes more as the file's `.eh_frame` has. */
    uint64_t memory;
} cfipack_process_options;

/* What a refresh found. */
typedef struct cfipack_refreshed {
    /* The number of loaded files with code. */
    uint64_t files;
    /* The number of these files with a table. */
    uint64_t tables;
    /* The number of files whose tables need more memory than is left. */
    uint64_t too_large;
    /* The bytes of all tables and their indices. This includes older tables that a walk still uses. */
    uint64_t memory;
    /* 1 if files were loaded or unloaded, or tables were made, since the last refresh. */
    uint8_t is_changed;
    /* 1 if files were unloaded since the last refresh. Walks that began before this refresh may have used rows of an
     * unloaded file for another file at its place, and nothing else says so: discard these walks. */
    uint8_t has_unloaded;
    /* Always 0. */
    uint8_t reserved[6];
} cfipack_refreshed;

/* A CFI directive, as in assembler source. A function starts with the default rules of its architecture. */
typedef struct cfipack_directive {
    /* The offset in bytes from the function's start, just after the instruction that the directive describes.
     * Offsets ascend. */
    uint64_t offset;
    /* `CFIPACK_CFI_...` */
    uint32_t kind;
    /* A DWARF register number, if the kind uses a register. */
    uint32_t reg;
    /* A number of bytes, a register or an address, if the kind uses a value. */
    int64_t value;
    /* The bytes of `CFIPACK_CFI_ESCAPE`. */
    const uint8_t *bytes;
    /* The number of elements in `bytes`. */
    size_t num_bytes;
} cfipack_directive;

/* The place of an FDE in the `.eh_frame` of a region. */
typedef struct cfipack_region_fde {
    /* The offset in bytes from the start of the section. LLVM's libunwind takes the FDE's address in
     * `__register_frame`. */
    uint64_t offset;
    /* The address of the function. */
    uint64_t start;
    /* The size of the function in bytes. */
    uint64_t size;
} cfipack_region_fde;

/* The four numbers to register a `.sframe` table with. */
typedef struct cfipack_registration {
    /* The address of the table. */
    uint64_t table;
    /* The size of the table in bytes. */
    uint64_t table_size;
    /* The address of the code. */
    uint64_t text;
    /* The size of the code in bytes. */
    uint64_t text_size;
} cfipack_registration;

/* The sections of a region for Apple's and LLVM's unwinders, as in their `unw_dynamic_unwind_sections`. */
typedef struct cfipack_dynamic_sections {
    /* The address from which the table counts its functions: the start of the region. */
    uint64_t dso_base;
    /* The address of `__eh_frame`. */
    uint64_t dwarf_section;
    /* The size of `__eh_frame` in bytes. */
    uint64_t dwarf_section_length;
    /* The address of `__unwind_info`, or 0 if there is none. */
    uint64_t compact_unwind_section;
    /* The size of `__unwind_info` in bytes. */
    uint64_t compact_unwind_section_length;
} cfipack_dynamic_sections;

/* A function to call when a region is removed or the registry is freed. Use it to undo the region's registrations
 * elsewhere. */
typedef struct cfipack_undo {
    /* The function. The thread that removes the region calls it once, after readers can no longer find the region. It may
     * call any function of the registry but `cfipack_registry_free`, also while the registry is being freed. */
    void (*undo)(void *context);
    /* The argument of `undo`. */
    void *context;
} cfipack_undo;

/* A function that a section omits because another function starts inside it or at the same address. */
typedef struct cfipack_conflict {
    /* The key of the omitted function. */
    uint64_t key;
    /* The key of the other function. */
    uint64_t other;
} cfipack_conflict;

/* A relocation of a `.sframe` section in a relocatable file. The value is the address of the function plus the
 * addend, minus the address of the field. */
typedef struct cfipack_relocation {
    /* The offset of the field in the section. */
    uint64_t offset;
    /* The key of the function. */
    uint64_t key;
    /* The number of bytes to add to the addend of the function's start. */
    uint64_t addend;
    /* The ELF relocation type that GNU `as` uses, for example `R_X86_64_PC64`. */
    uint32_t elf_type;
    /* Always 0. */
    uint32_t reserved;
} cfipack_relocation;

/* A piece of code in a section of stubs. Starts of rows count from the start of the piece, and the first row starts
 * at 0. */
typedef struct cfipack_stub_code {
    /* The rows. */
    const struct cfipack_row *rows;
    /* The number of rows. */
    size_t num_rows;
    /* The size in bytes; 0 if this piece is missing. */
    uint32_t size;
    /* Must be 0. */
    uint32_t reserved;
} cfipack_stub_code;

/* A section of stubs: a header, identical entries, and a trailer. */
typedef struct cfipack_stubs {
    /* The key of the first byte. */
    uint64_t key;
    /* The number of entries. */
    size_t num_entries;
    /* The code before the entries. */
    struct cfipack_stub_code header;
    /* The code of an entry. */
    struct cfipack_stub_code entry;
    /* The code after the entries. */
    struct cfipack_stub_code trailer;
} cfipack_stubs;

/* Options of an `__unwind_info` table. The defaults are zero in all fields except `size`. */
typedef struct cfipack_unwind_info_options {
    /* `sizeof(cfipack_unwind_info_options)` */
    uint32_t size;
    /* `CFIPACK_LAYOUT_SMALL`, `_LLD`, `_LD_PRIME`, `_LD_PRIME_27`, `_LD64`, `_LD64_253` or `_ZIG` */
    uint32_t layout;
} cfipack_unwind_info_options;

/* Where the relocation of a field leads. */
typedef struct cfipack_reference {
    /* `CFIPACK_PART_...` */
    uint32_t part;
    /* The offset of the field in that section. */
    uint32_t offset;
    /* The number of the function, LSDA or personality that the relocation leads to. Functions, LSDAs and
     * personalities are numbered separately. When the table is written, the number is the index of an address, so
     * number from 0. */
    uint64_t key;
} cfipack_reference;

/* A function or LSDA at an address of an object. */
typedef struct cfipack_place {
    /* The address in the object. */
    uint64_t address;
    /* The number of the function or LSDA. */
    uint64_t key;
} cfipack_place;

/* The unwind sections of an object, before relocation.
 *
 * The library looks up each field in `references`. A field may be missing there because it has no relocation
 * (distances in the `__eh_frame` of x86-64) or a relocation that names a section. Then the library takes the address
 * that is stored in the field, and looks it up in `functions` or `lsdas`. A function that is in neither array is
 * discarded. */
typedef struct cfipack_unwind_object {
    /* `sizeof(cfipack_unwind_object)` */
    uint32_t size;
    /* A number that you choose for the object. FDEs and warnings carry it. */
    uint32_t object;
    /* The bytes of `__LD,__compact_unwind`, or null if there is no such section. */
    const uint8_t *compact_unwind;
    /* The number of bytes in `compact_unwind`. */
    size_t compact_unwind_len;
    /* The bytes of `__TEXT,__eh_frame`, or null if there is no such section. */
    const uint8_t *eh_frame;
    /* The number of bytes in `eh_frame`. */
    size_t eh_frame_len;
    /* The address of `__eh_frame` in the object. */
    uint64_t eh_frame_address;
    /* The relocations that name symbols, ascending by part, then by offset. */
    const struct cfipack_reference *references;
    /* The number of elements in `references`. */
    size_t num_references;
    /* The live functions, ascending by address. */
    const struct cfipack_place *functions;
    /* The number of elements in `functions`. */
    size_t num_functions;
    /* The LSDAs, ascending by address. */
    const struct cfipack_place *lsdas;
    /* The number of elements in `lsdas`. */
    size_t num_lsdas;
} cfipack_unwind_object;

/* An FDE that the table refers to. The output's `__eh_frame` must keep it. */
typedef struct cfipack_fde {
    /* The function's number. */
    uint64_t function;
    /* The offset of the FDE in the object's `__eh_frame`. */
    uint64_t offset;
    /* The object's number. */
    uint32_t object;
    /* Always 0. */
    uint32_t reserved;
} cfipack_fde;

/* The places of functions, LSDAs, FDEs and pointer slots in the output, in bytes from the image's Mach-O header. Use
 * `CFIPACK_NO_ADDRESS` for anything that is not in the output. */
typedef struct cfipack_unwind_places {
    /* `sizeof(cfipack_unwind_places)` */
    uint32_t size;
    /* The end of the code that the table covers, or 0 for the end of the last function. */
    uint32_t end;
    /* The places of functions, by key. */
    const uint32_t *functions;
    /* The number of elements in `functions`. */
    size_t num_functions;
    /* The places of LSDAs, by key. */
    const uint32_t *lsdas;
    /* The number of elements in `lsdas`. */
    size_t num_lsdas;
    /* The places of FDEs, in bytes from the start of the output's `__eh_frame`, in the order of
     * `cfipack_unwind_section_get_fdes`. */
    const uint32_t *fdes;
    /* The number of elements in `fdes`. */
    size_t num_fdes;
    /* The pointer slots that hold the addresses of personalities, in the order of
     * `cfipack_unwind_section_get_personalities`. */
    const uint32_t *slots;
    /* The number of elements in `slots`. */
    size_t num_slots;
} cfipack_unwind_places;

/* The counts of a verification. A function is an FDE of the call frame information, and a PC is a byte of code. */
typedef struct cfipack_report_counts {
    /* 1 if the table agrees with the call frame information at every PC for which it has a row. */
    uint32_t is_true;
    /* 1 if the table has all rows of the call frame information and no others, and every function could be judged. */
    uint32_t is_complete;
    /* Functions in the call frame information. */
    size_t functions;
    /* Functions for which table and call frame information agree at every PC. */
    size_t equal;
    /* Functions with a PC at which the two differ. */
    size_t different;
    /* Functions with a PC that has a row in the call frame information and no row in the table. */
    size_t missing;
    /* Functions that cannot be evaluated to their end. */
    size_t unjudged;
    /* Functions of the table with rows for PCs that are in no function of the call frame information. */
    size_t extra;
    /* Faults of the table: functions that cannot be read or found. */
    size_t malformed;
    /* PCs that the table or the call frame information covers. */
    uint64_t pcs;
    /* PCs at which the two agree. */
    uint64_t pcs_equal;
    /* PCs at which the two differ. */
    uint64_t pcs_different;
    /* PCs for which only the call frame information has a row. */
    uint64_t pcs_missing;
} cfipack_report_counts;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/* Returns the version of the library, for example `0.1.0`. The string is static. */
const char *cfipack_version(void);

/* Creates an address space from modules, which must be ascending and must not overlap. The modules, and everything
 * that they point to, must stay unchanged as long as the space is used. After a change, for example a `dlclose`,
 * create a new space; you may reuse the memory. Each space has a number of its own, so a cache never mixes rows of
 * different spaces. Async-signal-safe.
 *
 * `modules`, and everything that they point to, are readable; `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_modules_init(struct cfipack_modules *out,
                                         uint32_t architecture,
                                         const struct cfipack_module *modules,
                                         size_t count);

/* Parses the table at the start of `bytes`, for a table that lies, or will lie, at `address` in memory. Zeros and
 * other tables may follow the table; `cfipack_sframe_get_info` returns its size. `message` may be null; otherwise it
 * gets a description of the error. After an error, other calls refuse `out`.
 *
 * Async-signal-safe.
 *
 * `bytes` must be readable for `len` bytes as long as the table is used. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_parse(struct cfipack_sframe *out,
                                         const uint8_t *bytes,
                                         size_t len,
                                         uint64_t address,
                                         struct cfipack_message *message);

/* Gets the properties of the table. Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
enum cfipack_status cfipack_sframe_get_info(const struct cfipack_sframe *table,
                                            struct cfipack_sframe_info *out);

/* Checks the whole table: every function, every row, and their order. Lookups only check the parts that they read.
 * `message` may be null; otherwise it gets a description of the error. Async-signal-safe.
 *
 * `table` was parsed, `message` is null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_validate(const struct cfipack_sframe *table,
                                            struct cfipack_message *message);

/* Gets the row for a PC, or returns `CFIPACK_STATUS_NOT_FOUND` if there is none. The start of the row counts from
 * the start of its function. Async-signal-safe; it reads only a small part of the table.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_lookup(const struct cfipack_sframe *table,
                                          uint64_t pc,
                                          struct cfipack_row *out);

/* Gets the number of the function that contains a PC, or returns `CFIPACK_STATUS_NOT_FOUND` if there is none.
 * Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_find(const struct cfipack_sframe *table,
                                        uint64_t pc,
                                        size_t *out);

/* Gets a function by its number, from 0 in the order of the table. Returns `CFIPACK_STATUS_NOT_FOUND` after the last
 * function. Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_get_function(const struct cfipack_sframe *table,
                                                size_t index,
                                                struct cfipack_sframe_function *out);

/* Gets the rows of a function. `count` gets their number; pass a `capacity` of 0 to get only the number. Returns
 * `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`; then only the first rows are written.
 * Async-signal-safe.
 *
 * `table` was parsed; `rows` is writable for `capacity` rows, `count` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_get_rows(const struct cfipack_sframe *table,
                                            size_t index,
                                            struct cfipack_row *rows,
                                            size_t capacity,
                                            size_t *count);

/* Writes the table as text, as `readelf --sframe` prints it. `name` is the name of the section. `len` gets the size
 * of the whole text in bytes; pass a `capacity` of 0 to get only this size. Returns `CFIPACK_STATUS_BUFFER_SIZE` if
 * the text is longer than `capacity`; then only its first part is written. The text has no final zero.
 * Async-signal-safe.
 *
 * `table` was parsed; `name` ends with a zero; `text` is writable for `capacity` bytes, `len` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_dump(const struct cfipack_sframe *table,
                                        const char *name,
                                        char *text,
                                        size_t capacity,
                                        size_t *len);

/* Gets the number of 32-bit words that an index of a table needs. Async-signal-safe.
 *
 * `table` was parsed, `words` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_index_words(const struct cfipack_sframe *table,
                                               size_t *words);

/* Builds an index of a table in `memory`. The memory, and the bytes of the table, must stay where they are as long
 * as the index is used. Async-signal-safe.
 *
 * `table` was parsed; `memory` is writable for `words` words, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_index_build(struct cfipack_sframe_index *out,
                                               const struct cfipack_sframe *table,
                                               uint32_t *memory,
                                               size_t words);

/* Looks up a row as `cfipack_sframe_lookup` does, but faster, with an index. Async-signal-safe.
 *
 * `index` was built, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_index_lookup(const struct cfipack_sframe_index *index,
                                                uint64_t pc,
                                                struct cfipack_row *out);

/* Returns the meaning of a status in English. The string is static and never null. */
const char *cfipack_status_text(uint32_t status);

/* Steps from a frame to its caller. `row` is the row of the frame's PC.
 *
 * The stack is read from the pieces in `memory`. For the stack of the thread itself, give a single piece from the
 * stack pointer up. On x86-64 start 128 bytes below the stack pointer, at the red zone, because rows of an epilogue
 * name the places of registers that it has popped.
 *
 * Returns `CFIPACK_STATUS_OUTERMOST` at the end of the stack, and `CFIPACK_STATUS_UNKNOWN` if a register or a word
 * of memory is unknown.
 *
 * Async-signal-safe.
 *
 * `row`, `registers`, `memory` and the bytes that it points to are readable; `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_step(uint32_t architecture,
                                 const struct cfipack_row *row,
                                 const struct cfipack_registers *registers,
                                 const struct cfipack_memory *memory,
                                 size_t num_memory,
                                 struct cfipack_caller *out);

/* Returns a return address without its signature (AArch64 pointer authentication): the upper bits become copies of
 * bit 55. `address_bits` is the number of bits in an address, 48 on most systems and at most 55. Async-signal-safe. */
uint64_t cfipack_strip_signature(uint64_t pc,
                                 uint32_t address_bits);

/* Parses the `__unwind_info` of an image. `message` may be null; otherwise it gets a description of the error. After
 * an error, other calls refuse `out`. Async-signal-safe.
 *
 * `bytes` must be readable for `len` bytes as long as the table is used. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_parse(struct cfipack_unwind_info *out,
                                              const uint8_t *bytes,
                                              size_t len,
                                              struct cfipack_message *message);

/* Gets the entry for a PC, which is given in bytes from the image's Mach-O header. Returns
 * `CFIPACK_STATUS_NOT_FOUND` if there is no entry. Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_lookup(const struct cfipack_unwind_info *table,
                                               uint32_t pc,
                                               struct cfipack_unwind_info_entry *out);

/* Gets the number of pages of the table. Async-signal-safe.
 *
 * `table` was parsed, `count` is writable. */
enum cfipack_status cfipack_unwind_info_num_pages(const struct cfipack_unwind_info *table, size_t *count);

/* Gets the entries of a page, in ascending order. `count` gets their number; pass a `capacity` of 0 to get only the
 * number. Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`, and then only the first entries
 * are written. Returns `CFIPACK_STATUS_NOT_FOUND` after the last page. Async-signal-safe.
 *
 * `table` was parsed; `entries` is writable for `capacity` entries, `count` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_get_entries(const struct cfipack_unwind_info *table,
                                                    size_t page,
                                                    struct cfipack_unwind_info_entry *entries,
                                                    size_t capacity,
                                                    size_t *count);

/* Gets the row that an encoding describes for the body of a function. The encoding does not describe the
 * prologue and the epilogue. Returns `CFIPACK_STATUS_NOT_FOUND` if the encoding has no unwind information,
 * or if it refers to an FDE. The lower 24 bits of that encoding are the offset of the FDE in `__eh_frame`.
 *
 * `code` is the code from the entry's start on. Only the indirect mode of x86 reads it, and only its first 259
 * bytes. For all other encodings pass null and 0. Async-signal-safe.
 *
 * `code` is readable for `code_len` bytes, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_compact_unwind_row(uint32_t architecture,
                                               uint32_t encoding,
                                               const uint8_t *code,
                                               size_t code_len,
                                               struct cfipack_row *out);

/* Writes the table as text, as `llvm-objdump --unwind-info` prints it. `len` gets the size of the whole text in
 * bytes; pass a `capacity` of 0 to get only this size. Returns `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer
 * than `capacity`; then only its first part is written. The text has no final zero. Async-signal-safe.
 *
 * `table` was parsed; `text` is writable for `capacity` bytes, `len` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_dump(const struct cfipack_unwind_info *table,
                                             char *text,
                                             size_t capacity,
                                             size_t *len);

/* Walks up the stack of a thread. `frames` gets as many frames as fit, innermost first, and `count` gets their
 * number. `end` may be null; otherwise it gets the reason why there are no more frames: `CFIPACK_END_...`
 *
 * The row of a frame's PC leads to its caller. If no table covers the code, the walk follows the frame pointer,
 * provided that it leads to a frame inside the stack and to code of a module, after a call if the code can be read.
 * This is a guess: `found_by` of each frame says whether the frame depends on a guess. Every return address has to be
 * in a module. Async-signal-safe.
 *
 * `modules` and the cache were created; `thread`, and everything that it points to, are readable; `frames` is
 * writable for `capacity` frames; `count` is writable, and `end` too if it is not null. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_walk(const struct cfipack_modules *modules,
                                 const struct cfipack_thread *thread,
                                 struct cfipack_frame *frames,
                                 size_t capacity,
                                 size_t *count,
                                 uint32_t *end);

/* Creates an empty cache in `size` bytes of `memory`. The memory must stay where it is as long as the cache is used.
 * Each PC needs 32 bytes, and 32 kB suffice for most programs. Async-signal-safe.
 *
 * `memory` is writable for `size` bytes and belongs to the cache alone, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_cache_init(struct cfipack_cache *out,
                                       uint8_t *memory,
                                       size_t size);

/* Returns the meaning of `CFIPACK_END_...` in English. The string is static and never null. */
const char *cfipack_end_text(uint32_t end);

/* Finds the length of an `.eh_frame` in the memory of a process, where you know only its start. For example,
 * `PT_GNU_EH_FRAME` leads to `.eh_frame_hdr`, which has a pointer to the section and no length. `bytes` is the start
 * of the section. `available` is the number of bytes from there to any place at or after the section's end, for
 * example the end of the segment. `len` gets the number of bytes up to and including the zero that ends the section.
 * Memory after the zero is not read.
 *
 * Returns `CFIPACK_STATUS_MALFORMED` if a record reaches beyond `available`. Then `len` gets the bytes of the
 * records before it, which you can convert. `message`, which may be null, gets the offset and length of the record.
 *
 * Each pointer is null or points to a value of its type; `bytes` is readable for `available` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_eh_frame_len(const uint8_t *bytes,
                                         size_t available,
                                         uint32_t architecture,
                                         size_t *len,
                                         struct cfipack_message *message);

/* Converts the call frame information of a linked file to a `.sframe` table that will lie at `address`. `pool` may
 * be null, or has the threads to use. `given` may be null for the default options. `message` may be null; otherwise
 * it gets a description of the error. Functions that the table cannot represent are omitted, and
 * `cfipack_conversion_get_omitted` returns the reasons. The bytes of the sections need not stay in memory. Free the
 * conversion with `cfipack_conversion_free`.
 *
 * Returns `CFIPACK_STATUS_MALFORMED` if a record reaches beyond its section, because functions after it cannot be
 * found. Then `out` still gets a table, with all other functions. `message` and `cfipack_conversion_get_omitted`
 * give the record's offset. A frequent cause is a section in memory with an unknown length: see
 * `cfipack_eh_frame_len`. For every other status except `CFIPACK_STATUS_OK`, `out` gets null.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_conversion_new(struct cfipack_conversion **out,
                                           const struct cfipack_cfi_sections *cfi,
                                           const struct cfipack_sframe_options *given,
                                           uint64_t address,
                                           const struct cfipack_pool *pool,
                                           struct cfipack_message *message);

/* Gets the size of the table in bytes.
 *
 * `conversion` is null or a conversion, `len` null or writable. */
enum cfipack_status cfipack_conversion_len(const struct cfipack_conversion *conversion, size_t *len);

/* Gets the number of functions in the call frame information, and the number of functions that the table omits. Both
 * pointers may be null.
 *
 * Each pointer is null or points to a value of its type. */
enum cfipack_status cfipack_conversion_num_functions(const struct cfipack_conversion *conversion,
                                                     size_t *functions,
                                                     size_t *omitted);

/* Gets the start of an omitted function, and the reason, by its number from 0. The start is 0 if the function's
 * record cannot be read. Returns `CFIPACK_STATUS_NOT_FOUND` after the last omitted function.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_conversion_get_omitted(const struct cfipack_conversion *conversion,
                                                   size_t number,
                                                   uint64_t *start,
                                                   struct cfipack_message *reason);

/* Writes the table into `out`, which must have exactly `cfipack_conversion_len` bytes.
 *
 * `conversion` is null or a conversion; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_conversion_write(struct cfipack_conversion *conversion,
                                             uint8_t *out,
                                             size_t len);

/* Returns the message of the conversion's last call, or an empty string if that call succeeded. The string stays
 * valid until the next call.
 *
 * `conversion` is null or a conversion. */
const char *cfipack_conversion_message(const struct cfipack_conversion *conversion);

/* Frees a conversion. Does nothing for null.
 *
 * `conversion` is null or a conversion. */
void cfipack_conversion_free(struct cfipack_conversion *conversion);

/* Writes the header of a jitdump file: 40 bytes.
 *
 * `out` is null or writable for 40 bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_jitdump_header(uint32_t architecture,
                                           uint32_t pid,
                                           uint64_t time,
                                           uint8_t *out);

/* Writes the record that ends a jitdump file: 16 bytes.
 *
 * `out` is null or writable for 16 bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_jitdump_close(uint32_t architecture,
                                          uint64_t time,
                                          uint8_t *out);

/* Makes the records of a function, by its index in the order of addresses. Write all of them to the file with a
 * single call. `code` is the code of the function. `room` may be null; otherwise it gets the number of bytes, from
 * the function's start, in which no other function may lie.
 *
 * Each pointer is null or points to a value of its type; the buffer is writable for its capacity. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_jitdump(struct cfipack_region *region,
                                           size_t index,
                                           const uint8_t *code,
                                           size_t code_len,
                                           const struct cfipack_jitdump_event *event,
                                           struct cfipack_buffer *out,
                                           uint64_t *room);

/* Makes the search table for HP's libunwind, and the `unw_dyn_info_t` that you pass to `_U_dyn_register`.
 *
 * Each pointer is null or points to a value of its type; the buffer is writable for its capacity, `dyn_info` for 88
 * bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_libunwind_table(struct cfipack_region *region,
                                                   const struct cfipack_libunwind *given,
                                                   struct cfipack_buffer *out,
                                                   uint8_t *dyn_info);

/* Creates a merger for objects of an architecture. `given` may be null for the default options. `message` may be
 * null; otherwise it gets a description of the error. Free the merger with `cfipack_merger_free` or
 * `cfipack_merger_finish`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_new(struct cfipack_merger **out,
                                       uint32_t architecture,
                                       const struct cfipack_sframe_options *given,
                                       struct cfipack_message *message);

/* Creates an empty merger with the same options. Fill it on another thread, and add it with `cfipack_merger_absorb`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_shard(const struct cfipack_merger *merger,
                                         struct cfipack_merger **out);

/* Creates a copy of a merger, with the same objects and without notes. Use this, for example, to finish one merger
 * now and the other when you know more stubs. The bytes of the objects must stay in memory for both mergers.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_copy(const struct cfipack_merger *merger,
                                        struct cfipack_merger **out);

/* Adds the functions of an object. `out` may be null; otherwise it gets the counts of the object's functions.
 * `cfipack_merger_get_note` reports the parts that are not in the output. A damaged object is no error: its readable
 * parts are used.
 *
 * Each pointer is null or points to a value of its type. The bytes of the sections must stay in memory until the
 * merger, its copies, and the merger that absorbs it are finished or freed, or as long as
 * `cfipack_merger_finish_borrowing_objects` says. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_push(struct cfipack_merger *merger,
                                        const struct cfipack_object *object,
                                        struct cfipack_contribution *out);

/* Records a function of `size` bytes that has no rows and is in no object's sections, so that no other function's
 * rows are used for its PCs. For example, call this for a thunk that has no rows. Its address is needed when the
 * section is written.
 *
 * `merger` is null or a merger. */
enum cfipack_status cfipack_merger_note_omitted(struct cfipack_merger *merger,
                                                uint64_t key,
                                                uint64_t size);

/* Adds the functions of a shard, as if its objects had been pushed here, and frees the shard, whatever the status.
 * If `shard` is `merger` itself, the call fails and frees nothing. The same shards in the same order give the same
 * bytes. The bytes of the shard's objects must stay in memory for the merger.
 *
 * Each pointer is null or a merger, and they differ. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_absorb(struct cfipack_merger *merger,
                                          struct cfipack_merger *shard);

/* Gets the number of notes about parts of objects that are not in the output.
 *
 * `merger` is null or a merger, `count` null or writable. */
enum cfipack_status cfipack_merger_num_notes(const struct cfipack_merger *merger, size_t *count);

/* Gets a note by its number, from 0. Returns `CFIPACK_STATUS_NOT_FOUND` after the last note.
 *
 * `merger` is null or a merger, `out` null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_get_note(const struct cfipack_merger *merger,
                                            size_t number,
                                            struct cfipack_note *out);

/* Returns the message of the merger's last call, or an empty string if that call succeeded. The string stays valid
 * until the next call.
 *
 * `merger` is null or a merger. */
const char *cfipack_merger_message(const struct cfipack_merger *merger);

/* Finishes the section on the threads of `pool`, which may be null, and frees the merger, whatever the status.
 * `keys` is `CFIPACK_KEYS_...` and describes your keys. The section has copies of the objects' rows.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_finish(struct cfipack_merger *merger,
                                          uint32_t keys,
                                          const struct cfipack_pool *pool,
                                          struct cfipack_section **out);

/* Does what `cfipack_merger_finish` does, but copies no rows: the section reads them from the objects' bytes, which
 * must stay in memory until the section is freed. This saves the memory and the time of a copy. Use it if your
 * linker keeps its input files mapped until the output is written.
 *
 * Each pointer is null or points to a value of its type. The bytes of the sections that the merger got stay in
 * memory until the section is freed. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_finish_borrowing_objects(struct cfipack_merger *merger,
                                                            uint32_t keys,
                                                            const struct cfipack_pool *pool,
                                                            struct cfipack_section **out);

/* Frees a merger. Does nothing for null.
 *
 * `merger` is null or a merger. */
void cfipack_merger_free(struct cfipack_merger *merger);

/* Finds the files that this process has loaded, by `dl_iterate_phdr`. A file with a `.sframe` in memory has this
 * table. For other files, the library makes a table of their `.eh_frame`. `given` may be null for the default
 * options. `message` may be null; otherwise it gets a description of the error. Only on Linux. Free the modules with
 * `cfipack_process_modules_free`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_modules_of_process(struct cfipack_process_modules **out,
                                               const struct cfipack_process_options *given,
                                               struct cfipack_message *message);

/* Finds the files that are loaded now, and makes the tables that walks have missed. `refreshed` may be null. If
 * nothing has changed, this takes about a microsecond. While it makes tables, other threads cannot load or unload
 * files. Do not call it in a signal handler. Returns `CFIPACK_STATUS_REFUSED` if another thread is refreshing,
 * and in a child after `fork`.
 *
 * Call it after each `dlopen`: until then walks end in the code of the new file. Call it after each `dlclose`, before
 * anything else is mapped, such as another file or generated code: otherwise it may lie where the old file was, and
 * walks would use the old file's rows.
 * A walk never reads memory that `dlclose` has unmapped, because tables are copies.
 *
 * `modules` is null or comes from `cfipack_modules_of_process`, `refreshed` is null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_process_modules_refresh(const struct cfipack_process_modules *modules,
                                                    struct cfipack_refreshed *refreshed);

/* Walks up the stack of a thread of this process as `cfipack_walk` does. `generated` may be null; otherwise the walk
 * also goes through the code that is registered there, and does not use the thread's cache. Returns
 * `CFIPACK_STATUS_INVALID_ARGUMENT` if that registry is for another architecture than this process.
 * Async-signal-safe, even in a handler that interrupts a refresh or a call of the registry.
 *
 * The conditions of `cfipack_walk`; `modules` is null or comes from `cfipack_modules_of_process`; `generated` is null
 * or a reader. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_process_modules_walk(const struct cfipack_process_modules *modules,
                                                 const struct cfipack_registry_reader *generated,
                                                 const struct cfipack_thread *thread,
                                                 struct cfipack_frame *frames,
                                                 size_t capacity,
                                                 size_t *count,
                                                 uint32_t *end);

/* Frees the modules. Does nothing for null. No walk may use them any more, also not in a signal handler.
 *
 * `modules` is null or comes from `cfipack_modules_of_process`. */
void cfipack_process_modules_free(struct cfipack_process_modules *modules);

/* Creates a region of `length` bytes of code at `base`. `message` may be null; otherwise it gets a description of
 * the error. Free the region with `cfipack_region_free`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_new(struct cfipack_region **out,
                                       uint32_t architecture,
                                       uint64_t base,
                                       uint64_t length,
                                       struct cfipack_message *message);

/* Adds a function of `size` bytes at `offset` in the region's code, described by directives. `function_name` may be
 * null; debuggers and profilers print it. The region is unchanged if the function cannot be added.
 *
 * Each pointer is null or points to a value of its type; `function_name` ends with a zero. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_push(struct cfipack_region *region,
                                        const char *function_name,
                                        uint64_t offset,
                                        uint64_t size,
                                        const struct cfipack_directive *given,
                                        size_t num_directives);

/* Adds the functions of an `.eh_frame` that lies at `address`, for example from another code generator. The
 * functions have no names. If any function cannot be read or added, the call fails and the region is unchanged,
 * because unwinders would register the whole section. If you only know the start of the section,
 * `cfipack_eh_frame_len` finds its length.
 *
 * Each pointer is null or points to a value of its type; `bytes` is readable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_push_eh_frame(struct cfipack_region *region,
                                                 const uint8_t *bytes,
                                                 size_t len,
                                                 uint64_t address);

/* Makes the region's `.eh_frame` for `address`, with a terminator, as the unwinders of libgcc and LLVM expect it.
 * `len` gets the number of bytes; pass a `capacity` of 0 to get only this number. Returns
 * `CFIPACK_STATUS_BUFFER_SIZE` if the section does not fit. `fdes` may be null; otherwise it gets an FDE for each
 * function of the region, in the order of their addresses.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `capacity` bytes, `fdes` for as many
 * FDEs as the region has functions. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_eh_frame(struct cfipack_region *region,
                                            uint32_t pointer_form,
                                            uint64_t address,
                                            uint8_t *out,
                                            size_t capacity,
                                            size_t *len,
                                            struct cfipack_region_fde *fdes);

/* Gets the number of functions in the region.
 *
 * `region` is null or a region, `count` null or writable. */
enum cfipack_status cfipack_region_num_functions(const struct cfipack_region *region, size_t *count);

/* Makes the region's `.sframe` table for `address`. `given` may be null for the default options. `registration` and
 * `omitted` may be null; otherwise they get the numbers to register, and the number of functions that the table
 * cannot represent. Unwinding ends in omitted functions.
 *
 * Each pointer is null or points to a value of its type; the buffer is writable for its capacity. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_sframe(struct cfipack_region *region,
                                          const struct cfipack_sframe_options *given,
                                          uint64_t address,
                                          struct cfipack_buffer *out,
                                          struct cfipack_registration *registration,
                                          size_t *omitted);

/* Makes the in-memory ELF file for gdb's JIT interface. `len` gets the number of bytes; pass a `capacity` of 0 to
 * get only this number.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `capacity` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_gdb_elf(struct cfipack_region *region,
                                           uint8_t *out,
                                           size_t capacity,
                                           size_t *len);

/* Makes the region's `__eh_frame` and `__unwind_info`. `code` may be null, or is the region's code: without it,
 * fewer functions get a compact encoding. `sections` may be null; otherwise it gets the structure that a callback of
 * `__unw_add_find_dynamic_unwind_sections` returns.
 *
 * Each pointer is null or points to a value of its type; buffers are writable for their capacities, `code` is
 * readable for the length of the region. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_unwind_info(struct cfipack_region *region,
                                               const uint8_t *code,
                                               uint64_t eh_frame_address,
                                               struct cfipack_buffer *eh_frame,
                                               uint64_t unwind_info_address,
                                               struct cfipack_buffer *unwind_info,
                                               struct cfipack_dynamic_sections *sections);

/* Returns the architecture of a region as `CFIPACK_ARCH_...`, or 0 for null.
 *
 * `region` is null or a region. */
uint32_t cfipack_region_arch(const struct cfipack_region *region);

/* Returns the message of the region's last call, or an empty string if that call succeeded. The string stays valid
 * until the next call.
 *
 * `region` is null or a region. */
const char *cfipack_region_message(const struct cfipack_region *region);

/* Frees a region. Does nothing for null. Tables that were made from the region stay valid.
 *
 * `region` is null or a region. */
void cfipack_region_free(struct cfipack_region *region);

/* Creates an empty registry. `message` may be null; otherwise it gets a description of the error. Free the registry
 * with `cfipack_registry_free`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_new(struct cfipack_registry **out,
                                         uint32_t architecture,
                                         struct cfipack_message *message);

/* Adds a region. Readers find it as soon as this function returns. Register the region elsewhere before this call,
 * and publish the addresses of its code after it. `undo` may be null; otherwise it is kept with the region.
 * `omitted` may be null; otherwise it gets the number of functions without rows, and walks end in these functions.
 * Returns `CFIPACK_STATUS_REFUSED` if a registered region overlaps. If the region is not added, `undo` is not
 * called.
 *
 * Each pointer is null or points to a value of its type; `undo` names a function that may be called with its context
 * until the region is removed. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_add(struct cfipack_registry *registry,
                                         const struct cfipack_region *region,
                                         const struct cfipack_undo *undo,
                                         size_t *omitted);

/* Removes the region that starts at `base`. Readers cannot find it after this function returns. Its `undo` is called
 * then. No thread may be running the region's code; free the code after this call. Returns
 * `CFIPACK_STATUS_NOT_FOUND` if no region starts at `base`.
 *
 * `registry` is null or a registry. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_remove(struct cfipack_registry *registry,
                                            uint64_t base);

/* Gets the size of the memory that readers use, in bytes.
 *
 * `registry` is null or a registry, `size` null or writable. */
enum cfipack_status cfipack_registry_get_memory_size(const struct cfipack_registry *registry, size_t *size);

/* Returns the message of the registry's last call, or an empty string if that call succeeded. The string stays valid
 * until the next call.
 *
 * `registry` is null or a registry. */
const char *cfipack_registry_message(const struct cfipack_registry *registry);

/* Removes each region, calls its `undo`, and frees the registry last. A region that an `undo` adds is removed too. Does
 * nothing for null. Readers find nothing from then on.
 *
 * `registry` is null or a registry. */
void cfipack_registry_free(struct cfipack_registry *registry);

/* Creates a reader. It stays valid when the registry is freed. Free it with `cfipack_registry_reader_free`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_reader_new(struct cfipack_registry_reader **out,
                                                const struct cfipack_registry *registry);

/* Gets the row for a PC in registered code, or returns `CFIPACK_STATUS_NOT_FOUND` if there is none. The start of the
 * row counts from the start of its function. Async-signal-safe, even in a handler that interrupts a call of the
 * registry. It never waits, and no other call waits for it.
 *
 * `reader` is null or a reader, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_lookup(const struct cfipack_registry_reader *reader,
                                            uint64_t pc,
                                            struct cfipack_row *out);

/* Frees a reader. Does nothing for null. Do not call this in a signal handler.
 *
 * `reader` is null or a reader that no thread uses any more. */
void cfipack_registry_reader_free(struct cfipack_registry_reader *reader);

/* Gets the exact size of the section in bytes.
 *
 * `section` is null or a section, `len` null or writable. */
enum cfipack_status cfipack_section_len(const struct cfipack_section *section, size_t *len);

/* Gets the number of entries in the function index. A linker omits a section without entries.
 *
 * `section` is null or a section, `count` null or writable. */
enum cfipack_status cfipack_section_num_functions(const struct cfipack_section *section, size_t *count);

/* Omits the functions that version 2 cannot reach from `address`, because their distance does not fit 32 bits. This
 * makes the section smaller. `addresses` is the same as for `cfipack_section_write`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_omit_distant(struct cfipack_section *section,
                                                 uint64_t address,
                                                 const uint64_t *addresses,
                                                 size_t num_addresses);

/* Gets the functions that the section omits since it was finished, because they share PCs with other functions or
 * lie too far away. `count` gets their number, and `keys` gets the keys that fit. To get only the number, pass a
 * `capacity` of 0. Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
 *
 * Each pointer is null or points to a value of its type; `keys` is writable for `capacity` keys. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_get_omitted(const struct cfipack_section *section,
                                                uint64_t *keys,
                                                size_t capacity,
                                                size_t *count);

/* Writes the section of a linked file into `out`, which must have exactly `cfipack_section_len` bytes, on the
 * threads of `pool`, which may be null. `address` is the address of the section. `addresses` has the address of each
 * function, also of omitted functions, or of each input section: see `CFIPACK_KEYS_...`. It is no error if functions
 * turn out to share PCs. `cfipack_section_get_conflicts` returns the functions that are omitted for this reason.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_write(struct cfipack_section *section,
                                          uint8_t *out,
                                          size_t len,
                                          uint64_t address,
                                          const uint64_t *addresses,
                                          size_t num_addresses,
                                          const struct cfipack_pool *pool);

/* Gets the functions that the last `cfipack_section_write` omitted because they share PCs with other
 * functions. `count` gets their number; pass a `capacity` of 0 to get only the number. Returns
 * `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `capacity` conflicts. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_get_conflicts(const struct cfipack_section *section,
                                                  struct cfipack_conflict *out,
                                                  size_t capacity,
                                                  size_t *count);

/* Writes the section of a relocatable file into `out`, which must have exactly `cfipack_section_len` bytes. Write
 * its relocations along with it.
 *
 * `section` is null or a section; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_write_relocatable(struct cfipack_section *section,
                                                      uint8_t *out,
                                                      size_t len);

/* Gets the relocations of the section in a relocatable file, in the order of their fields. `count` gets their
 * number; pass a `capacity` of 0 to get only the number. Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than
 * `capacity`.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `capacity` relocations. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_get_relocations(const struct cfipack_section *section,
                                                    struct cfipack_relocation *out,
                                                    size_t capacity,
                                                    size_t *count);

/* Returns the message of the section's last call, or an empty string if that call succeeded. The string stays valid
 * until the next call.
 *
 * `section` is null or a section. */
const char *cfipack_section_message(const struct cfipack_section *section);

/* Frees a section. Does nothing for null.
 *
 * `section` is null or a section. */
void cfipack_section_free(struct cfipack_section *section);

/* Adds the rows of stubs, such as a PLT, that `cfipack_merger_push_known_stubs` does not know.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_push_stubs(struct cfipack_merger *merger,
                                              const struct cfipack_stubs *stubs);

/* Gets the row at `offset` bytes from the start of a function that has been pushed. The start of the row counts from
 * the function's start. Returns `CFIPACK_STATUS_NOT_FOUND` if there is no row. Use it for code that runs in the
 * function's frame. For example, a veneer may contain the instruction of that place, or a thunk may lie between two
 * parts of the function. Set the start of the row to 0 and pass it to `cfipack_merger_push_stubs`.
 *
 * `merger` is null or a merger, `out` null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_row_at(struct cfipack_merger *merger,
                                          uint64_t key,
                                          uint32_t offset,
                                          struct cfipack_row *out);

/* Adds the rows of known stubs. `kind` is `CFIPACK_STUBS_...`; add `CFIPACK_STUBS_NO_HEADER` if there are only
 * entries. `key` is the key of the first byte, which is the header's if there is a header. `entry_size` is the size
 * of an entry in bytes, if its padding differs from the kind's, or 0 for the kind's size.
 *
 * `merger` is null or a merger. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_push_known_stubs(struct cfipack_merger *merger,
                                                    uint64_t key,
                                                    uint32_t kind,
                                                    size_t num_entries,
                                                    uint32_t entry_size);

/* Creates a builder for x86-64, i386, arm64 or arm64_32. `given` may be null for the default options. `message` may
 * be null; otherwise it gets a description of the error. Free the builder with `cfipack_unwind_builder_free` or
 * `cfipack_unwind_builder_finish`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_new(struct cfipack_unwind_builder **out,
                                               uint32_t architecture,
                                               const struct cfipack_unwind_info_options *given,
                                               struct cfipack_message *message);

/* Creates an empty builder with the same options. Fill it on another thread, and add it with
 * `cfipack_unwind_builder_absorb`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_shard(const struct cfipack_unwind_builder *builder,
                                                 struct cfipack_unwind_builder **out);

/* Adds the unwind information of an object. The bytes of the object need not stay in memory. A damaged object is no
 * error: its readable parts are used, and the section has a warning about the rest.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_push(struct cfipack_unwind_builder *builder,
                                                const struct cfipack_unwind_object *object);

/* Adds code that may have no unwind information. Without this call, the entry of the function before it would also
 * cover this code.
 *
 * `builder` is null or a builder. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_push_code(struct cfipack_unwind_builder *builder,
                                                     uint64_t key,
                                                     uint32_t length);

/* Adds the contents of a shard, as if its objects had been pushed here, and frees the shard, whatever the status. If
 * `shard` is `builder` itself, the call fails and frees nothing.
 *
 * Each pointer is null or a builder, and they differ. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_absorb(struct cfipack_unwind_builder *builder,
                                                  struct cfipack_unwind_builder *shard);

/* Returns the message of the builder's last call, or an empty string if that call succeeded. The string stays valid
 * until the next call.
 *
 * `builder` is null or a builder. */
const char *cfipack_unwind_builder_message(const struct cfipack_unwind_builder *builder);

/* Finishes the section and frees the builder, whatever the status. This decides everything that does not depend on
 * addresses.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_finish(struct cfipack_unwind_builder *builder,
                                                  struct cfipack_unwind_section **out);

/* Frees a builder. Does nothing for null.
 *
 * `builder` is null or a builder. */
void cfipack_unwind_builder_free(struct cfipack_unwind_builder *builder);

/* Gets the personalities that the table may name, at most three. Each personality needs a pointer slot that holds
 * its address. `count` gets their number.
 *
 * Each pointer is null or points to a value of its type; `keys` is writable for `capacity` keys. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_get_personalities(const struct cfipack_unwind_section *section,
                                                             uint64_t *keys,
                                                             size_t capacity,
                                                             size_t *count);

/* Gets the FDEs that the table refers to. `count` gets their number; pass a `capacity` of 0 to get only the number.
 * Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `capacity` FDEs. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_get_fdes(const struct cfipack_unwind_section *section,
                                                    struct cfipack_fde *out,
                                                    size_t capacity,
                                                    size_t *count);

/* Gets an upper bound of the table's size in bytes, for any order and any addresses of the functions. If you know
 * the order, use `cfipack_unwind_section_plan`, which returns the size of the likely table.
 *
 * `section` is null or a section, `len` null or writable. */
enum cfipack_status cfipack_unwind_section_max_len(const struct cfipack_unwind_section *section,
                                                   size_t *len);

/* Plans the table for an order of the functions that you know already. `len` gets an upper bound of the table's size
 * in bytes, and the size of real tables is nearly always exactly this bound. `tentative` has a place in the order
 * for each function, at the index that is the function's key. A place is an address in a first layout, in bytes, or
 * a rank. `growth` bounds how much further apart the functions may lie in the final layout, in bytes. With ranks,
 * pass the length of all code.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_plan(struct cfipack_unwind_section *section,
                                                const uint32_t *tentative,
                                                size_t num_tentative,
                                                uint32_t growth,
                                                size_t *len);

/* Lays the table out and writes it to the start of `out`; the rest of `out` is set to zero. `table_len` gets the
 * size of the table in bytes, or 0 if there is no table. You can write it again with other addresses.
 *
 * Each pointer is null or points to a value of its type; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_write(struct cfipack_unwind_section *section,
                                                 const struct cfipack_unwind_places *places,
                                                 uint8_t *out,
                                                 size_t len,
                                                 size_t *table_len);

/* Gets the number of warnings about the objects and about the table that was written last.
 *
 * `section` is null or a section, `count` null or writable. */
enum cfipack_status cfipack_unwind_section_num_warnings(const struct cfipack_unwind_section *section,
                                                        size_t *count);

/* Gets the text of a warning by its number, from 0. Returns `CFIPACK_STATUS_NOT_FOUND` after the last warning.
 *
 * `section` is null or a section, `out` null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_get_warning(const struct cfipack_unwind_section *section,
                                                       size_t number,
                                                       struct cfipack_message *out);

/* Returns the message of the section's last call, or an empty string if that call succeeded. The string stays valid
 * until the next call.
 *
 * `section` is null or a section. */
const char *cfipack_unwind_section_message(const struct cfipack_unwind_section *section);

/* Frees a section. Does nothing for null.
 *
 * `section` is null or a section. */
void cfipack_unwind_section_free(struct cfipack_unwind_section *section);

/* Compares a `.sframe` table with call frame information at every PC, in both directions. gimli evaluates the call
 * frame information. `table` has `table_len` bytes and lies at `address`. `pool` may be null, or has the threads to
 * use. `message` may be null; otherwise it gets the reason why the table cannot be read. Free the report with
 * `cfipack_report_free`.
 *
 * Each pointer is null or points to a value of its type. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_verify_sframe(struct cfipack_report **out,
                                          const struct cfipack_cfi_sections *cfi,
                                          const uint8_t *table,
                                          size_t table_len,
                                          uint64_t address,
                                          const struct cfipack_pool *pool,
                                          struct cfipack_message *message);

/* Gets the counts of a report.
 *
 * `report` is null or a report, `out` null or writable. */
enum cfipack_status cfipack_report_get_counts(const struct cfipack_report *report,
                                              struct cfipack_report_counts *out);

/* Writes the details of a report as text, one per line: differences, faults, and functions that are missing or could
 * not be judged. There are at most a hundred lines of each kind. `len` gets the size of the whole text in bytes;
 * pass a `capacity` of 0 to get only this size. Returns `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer than
 * `capacity`; then only its first part is written. The text has no final zero.
 *
 * `report` is null or a report; `text` is writable for `capacity` bytes, `len` is null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_report_text(const struct cfipack_report *report,
                                        char *text,
                                        size_t capacity,
                                        size_t *len);

/* Frees a report. Does nothing for null.
 *
 * `report` is null or a report. */
void cfipack_report_free(struct cfipack_report *report);

#ifdef __cplusplus
}  /* extern "C" */
#endif  /* __cplusplus */

#endif  /* CFIPACK_H */
