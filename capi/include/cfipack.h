/* cfipack.h: unwind tables for C and C++.
 *
 * Generated from the sources of cfipack-capi: do not edit.
 *
 * Every function that returns cfipack_status writes its results through pointers; CFIPACK_STATUS_OK is 0. Null pointers and
 * lengths that cannot be are answered with CFIPACK_STATUS_INVALID_ARGUMENT. Lengths are in bytes, addresses and fields in
 * the byte order of the machine; bytes of tables are in that of the architecture they are for.
 *
 * Reading (cfipack_sframe_..., cfipack_unwind_info_..., cfipack_compact_unwind_row, cfipack_registry_lookup, cfipack_step,
 * cfipack_strip_signature, cfipack_modules_init, cfipack_cache_init, cfipack_walk) is async-signal-safe: it neither allocates
 * nor locks, and uses neither floating point nor variables of threads. Parsed tables live in memory of the caller and may be
 * used by any number of threads.
 *
 * Writing (cfipack_merger, cfipack_section, cfipack_unwind_builder, cfipack_unwind_section, cfipack_region,
 * cfipack_registry), conversion (cfipack_conversion) and verification (cfipack_report) use handles, which are freed by the
 * function named ..._free, and are used by one thread at a time. After CFIPACK_STATUS_INTERNAL a handle can only be freed. A
 * call may have threads work for it (cfipack_pool): what it writes never depends on them.
 *
 * Counts, indices and lengths of memory are size_t. Addresses, keys, offsets and numbers of bytes or PCs of code that is
 * described are uint64_t, or as wide as the format has them. Where 32 bits suffice for a format, a greater count is refused.
 *
 * Structures that start with their size grow at their ends; those without a size stay as they are.
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

/* Of functions whose result has to be looked at. A program that defines it before may choose that it means nothing. */
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

/* i386: `__unwind_info` only. */
#define CFIPACK_ARCH_I386 5

/* arm64_32: `__unwind_info` only. */
#define CFIPACK_ARCH_ARM64_32 6

/* riscv64: generated code's call frame information only. */
#define CFIPACK_ARCH_RISCV64 7

/* No rule: of a CFA, that there is none; of a return address, that the frame is outermost; of another register, that
 * it cannot be recovered. */
#define CFIPACK_RULE_UNDEFINED 0

/* The register has the value that it has in the frame that is unwound. Of a return address: it is in the link register. */
#define CFIPACK_RULE_SAME_VALUE 1

/* The value of a register plus the offset. */
#define CFIPACK_RULE_REGISTER 2

/* Stored at the value of a register plus the offset. */
#define CFIPACK_RULE_MEMORY 3

/* Stored at the CFA plus the offset. */
#define CFIPACK_RULE_CFA 4

/* The CFA plus the offset. No table has it. */
#define CFIPACK_RULE_VALUE_CFA 5

/* A rule that only a DWARF expression describes. No table has it. */
#define CFIPACK_RULE_EXPRESSION 6

/* Bytes of a message, its final zero included. */
#define CFIPACK_MESSAGE_SIZE 256

/* The walk has not ended: there are more frames than fit. */
#define CFIPACK_END_NONE 0

/* The row of the last frame encodes an outermost frame: the stack is complete. */
#define CFIPACK_END_OUTERMOST 1

/* The stack starts with the last frame, by `starts` or `switches` of its module: it is complete. */
#define CFIPACK_END_START 2

/* The return address, or the frame pointer of code that no table covers, is 0: the stack is complete. */
#define CFIPACK_END_NULL 3

/* No table covers the code of the last frame, and its frame pointer does not lead to a frame of this stack. */
#define CFIPACK_END_NO_ROW 4

/* The row of the last frame needs a register that no table restores for a caller. */
#define CFIPACK_END_REGISTER 5

/* The row of the last frame needs memory that is not given. */
#define CFIPACK_END_MEMORY 6

/* The caller's frame would not lie above the last one, or not in the stack. */
#define CFIPACK_END_NOT_RISING 7

/* The row of the last frame has a rule that no table has. */
#define CFIPACK_END_RULE 8

/* The table of the last frame's code is damaged. */
#define CFIPACK_END_TABLE 9

/* The frame is the innermost one. */
#define CFIPACK_FOUND_BY_REGISTERS 0

/* The frame was found by the row of the one before: it is as true as the table. */
#define CFIPACK_FOUND_BY_TABLE 1

/* The frame was found by the frame pointer of the one before, which no table covers: it is a guess. */
#define CFIPACK_FOUND_BY_FRAME_POINTER 2

/* A section is `.eh_frame`. */
#define CFIPACK_EH_FRAME 0

/* A section is `.debug_frame`. */
#define CFIPACK_DEBUG_FRAME 1

/* `.cfi_def_cfa reg, value` */
#define CFIPACK_CFI_DEF_CFA 1

/* `.cfi_def_cfa_offset value` */
#define CFIPACK_CFI_DEF_CFA_OFFSET 2

/* `.cfi_adjust_cfa_offset value` */
#define CFIPACK_CFI_ADJUST_CFA_OFFSET 3

/* `.cfi_def_cfa_register reg` */
#define CFIPACK_CFI_DEF_CFA_REGISTER 4

/* `.cfi_offset reg, value`: saved at the CFA plus bytes. */
#define CFIPACK_CFI_OFFSET 5

/* `.cfi_rel_offset reg, value`: saved at the CFA's register plus bytes. */
#define CFIPACK_CFI_REL_OFFSET 6

/* `.cfi_val_offset reg, value`: the register's value is the CFA plus bytes. */
#define CFIPACK_CFI_VAL_OFFSET 7

/* `.cfi_register reg, value`: the register is saved in the register of that number. */
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

/* `.cfi_escape` with the bytes of the structure. */
#define CFIPACK_CFI_ESCAPE 16

/* `.cfi_signal_frame`; stands for the whole function. */
#define CFIPACK_CFI_SIGNAL_FRAME 17

/* `.cfi_b_key_frame`; stands for the whole function. */
#define CFIPACK_CFI_B_KEY_FRAME 18

/* `.cfi_return_column reg`; stands for the whole function. */
#define CFIPACK_CFI_RETURN_COLUMN 19

/* `.cfi_personality`: `reg` is the pointer encoding (`DW_EH_PE_...`), `value` the routine's address. */
#define CFIPACK_CFI_PERSONALITY 20

/* `.cfi_lsda`: `reg` is the pointer encoding, `value` the table's address. */
#define CFIPACK_CFI_LSDA 21

/* Starts count from the first PC (`UNW_INFO_FORMAT_IP_OFFSET`): the code may lie anywhere. */
#define CFIPACK_LIBUNWIND_IP_OFFSET 0

/* Starts count from the `.eh_frame` (`UNW_INFO_FORMAT_REMOTE_TABLE`), which lies within 2 GiB of the code. */
#define CFIPACK_LIBUNWIND_REMOTE_TABLE 1

/* `unw_dyn_info_t` has a member `load_offset`: libunwind 1.6.0 to 1.8.3. */
#define CFIPACK_LIBUNWIND_LOAD_OFFSET 0

/* No member `load_offset`: libunwind up to 1.5. */
#define CFIPACK_LIBUNWIND_NO_LOAD_OFFSET 1

/* The object's table is not used, from some offset on. */
#define CFIPACK_NOTE_SKIPPED 1

/* A function lives and has no rows in the output. */
#define CFIPACK_NOTE_OMITTED 2

/* A record of `.eh_frame` cannot be read. */
#define CFIPACK_NOTE_UNREAD 3

/* An extent that is not known: the function has the size that its table or FDE claims. */
#define CFIPACK_WHOLE_FUNCTION UINT32_MAX

/* The smallest table; the default. */
#define CFIPACK_LAYOUT_SMALL 0

/* `.sframe`: what GNU `as` 2.47 and `ld` 2.47 write. */
#define CFIPACK_LAYOUT_GNU 1

/* `__unwind_info`: what ld64.lld 23 writes. */
#define CFIPACK_LAYOUT_LLD 2

/* `__unwind_info`: what Apple's new linker writes. */
#define CFIPACK_LAYOUT_LD_PRIME 3

/* `__unwind_info`: what Apple's classic linker writes. */
#define CFIPACK_LAYOUT_LD64 4

/* `__unwind_info`: what ld64 up to version 253.3 writes. */
#define CFIPACK_LAYOUT_LD64_253 5

/* Rows come from the object's table; from call frame information where that has none. The default. */
#define CFIPACK_PREFER_TABLE 0

/* Rows come from call frame information; from the object's table where the function has none. */
#define CFIPACK_PREFER_CFI 1

/* Rows come from the object's table alone, as in GNU `ld`. */
#define CFIPACK_PREFER_TABLE_ONLY 2

/* `.eh_frame` holds addresses as they are: it may lie anywhere. */
#define CFIPACK_POINTERS_ABSOLUTE 0

/* `.eh_frame` holds distances of 32 bits: smaller, for a section within 2 GiB of the code. */
#define CFIPACK_POINTERS_PC_RELATIVE 1

/* A key is the index of the function's address: functions are best numbered from 0. Of functions that share PCs
 * `cfipack_section_write` omits some. */
#define CFIPACK_KEYS_FUNCTIONS 0

/* The upper 32 bits of a key are the index of the address of an input section, the lower the function's offset in it:
 * there is one address for each section, and functions that share PCs are told apart, or omitted. */
#define CFIPACK_KEYS_SECTIONS 1

/* x86-64, what bfd, gold and lld write as `.plt`: a header of 16 bytes and entries of 16, `jmp *slot`, at 6 `push index`,
 * at 11 `jmp header`. */
#define CFIPACK_STUBS_AMD64_LAZY_PLT 1

/* x86-64, the `.plt` beside a `.plt.sec`: the same header, and entries of 16 bytes: `endbr64`, at 4 `push index`, at 9
 * `jmp header`, with or without `bnd`. */
#define CFIPACK_STUBS_AMD64_IBT_PLT 2

/* x86-64, what bfd before 2.41 writes with `-z bndplt`: the same header, and entries of 16 bytes: `push index`, at 5
 * `bnd jmp header`. */
#define CFIPACK_STUBS_AMD64_BND_PLT 3

/* x86-64, what mold writes as `.plt`: a header of 32 bytes, `endbr64`, at 4 `push %r11`, at 6 `push got+8`, at 12
 * `jmp *got+16`, and entries of 16 bytes that load their index into `r11` and jump. */
#define CFIPACK_STUBS_AMD64_MOLD_PLT 4

/* x86-64 stubs that only jump, in 16 bytes: `.plt.sec`, `.plt.got`, the PLT of a static program, thunks. */
#define CFIPACK_STUBS_AMD64_JUMP 5

/* x86-64, what follows the entries of a `.plt` for lazy TLS descriptors: `push got+8`, at 6 `jmp *resolver`. */
#define CFIPACK_STUBS_AMD64_TLS_DESC 6

/* TLS descriptors' stub after `endbr64`. */
#define CFIPACK_STUBS_AMD64_IBT_TLS_DESC 7

/* AArch64, a header of 32 bytes that starts with `stp x16, x30, [sp, #-16]!`, and entries of 16 bytes that only jump.
 * With pointer authentication entries have 24. */
#define CFIPACK_STUBS_AARCH64_PLT 8

/* AArch64, the same header after `bti c`, and entries of 24 bytes, with or without `autia1716`. */
#define CFIPACK_STUBS_AARCH64_BTI_PLT 9

/* AArch64 stubs that only jump, in 16 bytes: a PLT without header, `.plt.got`, thunks that calls and tail calls pass, of
 * any size. */
#define CFIPACK_STUBS_AARCH64_JUMP 10

/* AArch64, what follows the entries of a `.plt` for lazy TLS descriptors, in 32 bytes: `stp x2, x3, [sp, #-16]!` first. */
#define CFIPACK_STUBS_AARCH64_TLS_DESC 11

/* TLS descriptors' stub after `bti c`. */
#define CFIPACK_STUBS_AARCH64_BTI_TLS_DESC 12

/* s390x, what bfd and lld write: a header and entries of 32 bytes, none of which changes the stack pointer. */
#define CFIPACK_STUBS_S390X_PLT 13

/* x86-64, what lld writes with `-z retpolineplt`: a header of 48 bytes, whose last 16, the tail that all share, have no
 * row, and entries of 32. */
#define CFIPACK_STUBS_AMD64_RETPOLINE_PLT 14

/* x86-64, what lld writes with `-z retpolineplt -z now`: a header of 32 bytes and entries of 16. */
#define CFIPACK_STUBS_AMD64_RETPOLINE_NOW_PLT 15

/* s390x, what mold writes as `.plt`: a header of 48 bytes and entries of 16, none of which changes the stack pointer. */
#define CFIPACK_STUBS_S390X_MOLD_PLT 16

/* s390x stubs that only jump, in 16 bytes: mold's `.plt.got`. */
#define CFIPACK_STUBS_S390X_JUMP 17

/* Added to one of `CFIPACK_STUBS_...`: its entries without the header, as in lld's `.iplt`. */
#define CFIPACK_STUBS_NO_HEADER 256

/* A field of `__LD,__compact_unwind`. */
#define CFIPACK_PART_COMPACT_UNWIND 0

/* A field of `__TEXT,__eh_frame`. */
#define CFIPACK_PART_EH_FRAME 1

/* No address: the function or FDE is not in the output. */
#define CFIPACK_NO_ADDRESS UINT32_MAX

/* The status that a call returns. Values stay as they are; later versions may add some. */
typedef enum cfipack_status {
    /* Done. */
    CFIPACK_STATUS_OK = 0,
    /* Nothing found: no row for a PC, no entry of this number. */
    CFIPACK_STATUS_NOT_FOUND = 1,
    /* The frame is outermost: how a stack ends. */
    CFIPACK_STATUS_OUTERMOST = 2,
    /* A pointer is null, misaligned or reaches beyond memory, a constant is unknown, an array is not sorted as it has
     * to be, a key is not an index of the array of addresses, a handle is not one. */
    CFIPACK_STATUS_INVALID_ARGUMENT = 3,
    /* The caller's buffer is too small, or has not the exact length. The length that is needed is set. */
    CFIPACK_STATUS_BUFFER_SIZE = 4,
    /* Bytes of a table or of call frame information are damaged. */
    CFIPACK_STATUS_MALFORMED = 5,
    /* The format has no such architecture, version or option. */
    CFIPACK_STATUS_UNSUPPORTED = 6,
    /* A step needs a register or a word of memory that is not known. */
    CFIPACK_STATUS_UNKNOWN = 7,
    /* A function cannot be represented, or added: it overlaps another one, lies outside, or has an error. */
    CFIPACK_STATUS_REFUSED = 8,
    /* A table cannot be written at these addresses: a function is out of reach, functions share PCs, a number does
     * not fit its field. */
    CFIPACK_STATUS_WRITE = 9,
    /* A defect of cfipack. The handle can only be freed. */
    CFIPACK_STATUS_INTERNAL = 10
} cfipack_status;

/* A `.sframe` table that was made of call frame information. */
typedef struct cfipack_conversion cfipack_conversion;

/* Takes objects, and becomes a section. The bytes of the objects have to stay where they are until then. */
typedef struct cfipack_merger cfipack_merger;

/* A contiguous range of generated code, with its functions and their call frame information. What is made of it is copied
 * into the caller's memory; the caller registers it. */
typedef struct cfipack_region cfipack_region;

/* The rows of all generated code that is registered. One thread at a time adds and removes; readers never wait for it. */
typedef struct cfipack_registry cfipack_registry;

/* A reader of a registry. Any number of threads, and signal handlers, may use it at a time. */
typedef struct cfipack_registry_reader cfipack_registry_reader;

/* A report in detail. */
typedef struct cfipack_report cfipack_report;

/* A `.sframe` section that needs only addresses. Its size is exact, and it can be written again after each relayout. */
typedef struct cfipack_section cfipack_section;

/* Collects the unwind information of objects, and becomes a section. */
typedef struct cfipack_unwind_builder cfipack_unwind_builder;

/* The unwind information of a link's live functions; it needs only addresses. */
typedef struct cfipack_unwind_section cfipack_unwind_section;

/* A parsed `.sframe` table. It lives in memory of the caller, may be copied, and needs no release. The bytes of the
 * table have to stay where they are as long as it is used. Any number of threads may read it. */
typedef struct cfipack_sframe {
    /* Memory of the library, which nothing else reads or writes. */
    uint64_t opaque[16];
} cfipack_sframe;

/* A message for a person, with the offset and the value that are wrong; it ends with a zero, and is cut off where it
 * would be longer. A call that takes one always writes it: empty if the call succeeded. */
typedef struct cfipack_message {
    /* UTF-8. */
    char text[CFIPACK_MESSAGE_SIZE];
} cfipack_message;

/* The properties of a table. */
typedef struct cfipack_sframe_info {
    /* 1, 2 or 3. */
    uint32_t version;
    /* `CFIPACK_ARCH_...` */
    uint32_t arch;
    /* The place of the table. */
    uint64_t address;
    /* Bytes of the table. What follows it in the section is not part of it. */
    size_t size;
    /* Functions. */
    size_t num_functions;
    /* Rows, as the header counts them. */
    size_t num_rows;
    /* 1 if functions are sorted by their starts. */
    uint32_t is_sorted;
    /* The flags of the header. */
    uint32_t flags;
} cfipack_sframe_info;

/* A rule for the CFA or a register of the caller. */
typedef struct cfipack_rule {
    /* `CFIPACK_RULE_...` */
    uint32_t kind;
    /* A DWARF register number, where the kind names a register. */
    uint32_t reg;
    /* Bytes. */
    int64_t offset;
} cfipack_rule;

/* The rules for unwinding one frame, from `start` up to the next row's start or the function's end. */
typedef struct cfipack_row {
    /* The first PC that the row answers for, in bytes from the function's start. */
    uint32_t start;
    /* AArch64: 1 if the return address is signed (`paciasp`) at this point. */
    uint8_t is_signed;
    /* 1 if the frame is a signal frame: the PC that it leads to is not the one after a call. */
    uint8_t is_signal_frame;
    /* 0. */
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
    /* The start. */
    uint64_t start;
    /* Rows. */
    size_t num_rows;
    /* Bytes of code. */
    uint32_t size;
    /* PC-mask functions: the bytes after which rows repeat; 0 otherwise. */
    uint32_t repeat;
    /* 1 if it is a signal frame. */
    uint8_t is_signal_frame;
    /* AArch64: 1 if return addresses are signed with key B. */
    uint8_t has_pauth_key_b;
    /* 1 if it is a flex FDE. */
    uint8_t is_flex;
    /* 0. */
    uint8_t reserved[5];
} cfipack_sframe_function;

/* A parsed table with an index, in memory of the caller, which makes lookups about twice as fast. */
typedef struct cfipack_sframe_index {
    /* Memory of the library, which nothing else reads or writes. */
    uint64_t opaque[32];
} cfipack_sframe_index;

/* The value of a register. */
typedef struct cfipack_register {
    /* A DWARF register number. */
    uint32_t reg;
    /* 0. */
    uint32_t reserved;
    /* The value. */
    uint64_t value;
} cfipack_register;

/* The registers of a frame, as far as they are known. */
typedef struct cfipack_registers {
    /* The stack pointer. */
    uint64_t sp;
    /* The frame pointer. */
    uint64_t fp;
    /* The link register. Only the innermost frame, and one that a signal interrupted, have it; x86 has none. */
    uint64_t lr;
    /* 1 if the frame pointer is known. */
    uint8_t has_fp;
    /* 1 if the link register is known. */
    uint8_t has_lr;
    /* 0. */
    uint8_t reserved[6];
    /* Others, which rows of flex FDEs may name; at most 32. Null if there are none. */
    const struct cfipack_register *others;
    /* The length of `others`. */
    size_t num_others;
} cfipack_registers;

/* A piece of memory: the stack of a thread, or a copy of it. */
typedef struct cfipack_memory {
    /* The bytes, in the byte order of the process that is unwound. */
    const uint8_t *bytes;
    /* The length in bytes. */
    size_t len;
    /* The address of the first one in that process. */
    uint64_t address;
} cfipack_memory;

/* The caller of a frame. */
typedef struct cfipack_caller {
    /* The return address: look up the byte before it, unless the frame stepped from is a signal frame. */
    uint64_t pc;
    /* The canonical frame address of the frame stepped from. */
    uint64_t cfa;
    /* The stack pointer. */
    uint64_t sp;
    /* The frame pointer. */
    uint64_t fp;
    /* 1 if the frame pointer is known. */
    uint8_t has_fp;
    /* AArch64: 1 if `pc` carries a signature, which is to be stripped. */
    uint8_t is_signed;
    /* 0. */
    uint8_t reserved[6];
} cfipack_caller;

/* A parsed `__unwind_info` table. It lives in memory of the caller, may be copied, and needs no release. The bytes of the
 * table have to stay where they are as long as it is used. Any number of threads may read it. */
typedef struct cfipack_unwind_info {
    /* Memory of the library, which nothing else reads or writes. */
    uint64_t opaque[16];
} cfipack_unwind_info;

/* An entry: from `start` up to `end`, in bytes from the image's Mach-O header, code is unwound as `encoding` describes. */
typedef struct cfipack_unwind_info_entry {
    /* First byte. */
    uint32_t start;
    /* First byte after it. */
    uint32_t end;
    /* The encoding of the function's unwinding. */
    uint32_t encoding;
    /* The pointer slot with the address of the personality, in bytes from the Mach-O header; 0 without one. */
    uint32_t personality;
    /* The language-specific data area, in bytes from the Mach-O header; 0 without one. */
    uint32_t lsda;
    /* 0. */
    uint32_t reserved;
    /* Number of the page, from 0. */
    size_t page;
} cfipack_unwind_info_entry;

/* The modules of a process at one time, in memory of the caller. Any number of threads may read it. */
typedef struct cfipack_modules {
    /* Memory of the library, which nothing else reads or writes. */
    uint64_t opaque[8];
} cfipack_modules;

/* A range of addresses. */
typedef struct cfipack_range {
    /* The first address. */
    uint64_t start;
    /* The address after the last one. */
    uint64_t end;
} cfipack_range;

/* A mapping of code: a loaded file, or a region of generated code. */
typedef struct cfipack_module {
    /* The first address of the code in the process. */
    uint64_t start;
    /* The address after its last one. */
    uint64_t end;
    /* What is subtracted from an address in the process for one of the tables and ranges below. */
    uint64_t bias;
    /* A table that was parsed, or null. */
    const struct cfipack_sframe *table;
    /* An index that was built over a table, and is used instead of it; or null. */
    const struct cfipack_sframe_index *index;
    /* The functions in which stacks start, such as `_start`, ascending. They are outermost whatever the table has. */
    const struct cfipack_range *starts;
    /* The length of `starts`. */
    size_t num_starts;
    /* The functions that call others on another stack, such as Go's `runtime.mcall`, ascending: stacks start in them too,
     * but not where they are innermost. */
    const struct cfipack_range *switches;
    /* The length of `switches`. */
    size_t num_switches;
} cfipack_module;

/* A cache of rows by PC, in memory of the caller. One walk uses it at a time: others, in any thread or signal handler, find
 * it in use, and do without. */
typedef struct cfipack_cache {
    /* Memory of the library, which nothing else reads or writes. */
    uint64_t opaque[8];
} cfipack_cache;

/* A thread whose stack is walked. Fields that are 0, but for the size, have their defaults. */
typedef struct cfipack_thread {
    /* `sizeof(cfipack_thread)` */
    uint32_t size;
    /* AArch64: how many bits an address has without a signature, at most 55; 0 is 48. */
    uint32_t address_bits;
    /* The instruction of the innermost frame, which has not run. */
    uint64_t pc;
    /* The registers of the innermost frame. */
    const struct cfipack_registers *registers;
    /* The readable parts of the stack, as `cfipack_step` takes them. */
    const struct cfipack_memory *memory;
    /* The length of `memory`. */
    size_t num_memory;
    /* The first address of the stack: frames outside are not followed, even if their memory is given. */
    uint64_t stack_start;
    /* The address after the stack; 0 if its bounds are not known. */
    uint64_t stack_end;
    /* A cache, or null. */
    struct cfipack_cache *cache;
    /* 1 if code that no table covers is not to be left by its frame pointer. */
    uint8_t no_frame_pointers;
    /* 0. */
    uint8_t reserved[7];
} cfipack_thread;

/* A frame of a stack. */
typedef struct cfipack_frame {
    /* The next instruction in the innermost frame, the return address without a signature in others. */
    uint64_t pc;
    /* The stack pointer. */
    uint64_t sp;
    /* 1 if `pc` is that of an instruction which has not run, 0 if it is the one after a call: its function is that of the
     * byte before it. */
    uint8_t is_exact;
    /* `CFIPACK_FOUND_BY_...` */
    uint8_t found_by;
    /* 0. */
    uint8_t reserved[6];
} cfipack_frame;

/* A section of call frame information, with the addresses of the linked file. `cfipack_eh_frame_len` finds the length of an
 * `.eh_frame` in memory. */
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
    /* 0. */
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

/* Options of a `.sframe` table. All zero but for the size are the defaults. */
typedef struct cfipack_sframe_options {
    /* `sizeof(cfipack_sframe_options)` */
    uint32_t size;
    /* 2 or 3; 0 is 3. */
    uint32_t version;
    /* `CFIPACK_LAYOUT_SMALL` or `CFIPACK_LAYOUT_GNU` */
    uint32_t layout;
    /* `CFIPACK_PREFER_...`: where the rows of a function come from that has both a table's and call frame information. */
    uint32_t prefer;
    /* 1 omits functions that need flex FDEs. */
    uint8_t no_flex;
    /* 1 gives each function rows of its own. */
    uint8_t no_sharing;
    /* 0. */
    uint16_t reserved;
} cfipack_sframe_options;

/* A piece of work that a pool runs: `task(work, index)`. */
typedef void (*cfipack_task)(void *work, size_t index);

/* Threads that a call runs on. What is written never depends on them. Null, or all zero but for the size, is the thread of the
 * call alone.
 *
 * Without `run` the library starts threads, and ends them before it returns. With it the caller's own threads work:
 * `run(pool, task, work, count)` calls `task(work, index)` for each index below `count`, once each, in any order and on any
 * threads, its own among them, and returns when all these calls have ended. What it does not call is done after it, on the
 * thread of the call; a call with an index that was called before does nothing. It is called on the thread of the call, never
 * within a task, and may be called several times. It must not throw, and must not jump out; `task` does neither. */
typedef struct cfipack_pool {
    /* `sizeof(cfipack_pool)` */
    uint32_t size;
    /* 0. */
    uint32_t reserved;
    /* About how many threads there are, which is how finely work is divided. With 0 and 1 the thread of the call does all
     * of it; 256 stands for all greater numbers. */
    size_t threads;
    /* Runs tasks, or null: the library starts `threads` threads. */
    void (*run)(void *pool, cfipack_task task, void *work, size_t count);
    /* The value that `run` gets first. The library does not look at it. */
    void *pool;
} cfipack_pool;

/* The time and place of a function's making. */
typedef struct cfipack_jitdump_event {
    /* The process. */
    uint32_t pid;
    /* The thread. */
    uint32_t tid;
    /* `CLOCK_MONOTONIC`, in nanoseconds. */
    uint64_t time;
    /* A number that no other function of the process has. */
    uint64_t code_index;
} cfipack_jitdump_event;

/* Memory of the caller's for bytes of which the length is not known before. */
typedef struct cfipack_buffer {
    /* The memory for the bytes; null if `capacity` is 0. */
    uint8_t *bytes;
    /* Bytes that may be written. */
    size_t capacity;
    /* Set by the function: how many bytes there are. If they are more than `capacity`, none is written, and the status is
     * `CFIPACK_STATUS_BUFFER_SIZE`. */
    size_t len;
} cfipack_buffer;

/* The purpose of a search table of HP's libunwind. */
typedef struct cfipack_libunwind {
    /* The base that starts count from: `CFIPACK_LIBUNWIND_IP_OFFSET` or `..._REMOTE_TABLE`. */
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

/* A function of an object that is part of the output: what the relocation of a start field leads to. */
typedef struct cfipack_start {
    /* The offset of the field in its section: 8 bytes after the start of an FDE, at the start of an entry of a table's index. */
    uint64_t offset;
    /* The function's key, unique in the link, and the same for its entry in a table and its FDE. `CFIPACK_KEYS_...`
     * describes how its address is found when the section is written. */
    uint64_t key;
    /* Bytes from its start to the end of its input section, or of the part of that which is in the output: rows end there.
     * `CFIPACK_WHOLE_FUNCTION` if that is unknown, and a function that is too long by mistake then runs into others. */
    uint32_t extent;
    /* 0. */
    uint32_t reserved;
} cfipack_start;

/* The sections of an object that describe its frames, as they stand in it: not relocated. A start field without an
 * entry in its array is that of a function which is discarded. */
typedef struct cfipack_object {
    /* `sizeof(cfipack_object)` */
    uint32_t size;
    /* 0. */
    uint32_t reserved;
    /* Bytes of `.sframe`; null without one. */
    const uint8_t *sframe;
    /* The length of `sframe` in bytes. */
    size_t sframe_len;
    /* Bytes of `.eh_frame`; null without one. */
    const uint8_t *eh_frame;
    /* The length of `eh_frame` in bytes. */
    size_t eh_frame_len;
    /* The functions that start fields of `.sframe` lead to, ascending by offset. */
    const struct cfipack_start *sframe_starts;
    /* The length of `sframe_starts`. */
    size_t num_sframe_starts;
    /* The functions that start fields of `.eh_frame` lead to, ascending by offset. */
    const struct cfipack_start *eh_frame_starts;
    /* The length of `eh_frame_starts`. */
    size_t num_eh_frame_starts;
} cfipack_object;

/* The counts of an object's functions by what became of them. Each is counted once, by where its rows come from. */
typedef struct cfipack_contribution {
    /* Functions with the rows of the object's table, copied. */
    size_t copied;
    /* Functions with the rows of the object's table, encoded again. */
    size_t reencoded;
    /* Functions with rows from call frame information. */
    size_t from_cfi;
    /* Functions that live and have no rows in the output. */
    size_t omitted;
    /* Entries of the object's table whose functions are discarded. */
    size_t dead;
    /* 1 if the object's table, or a part of it, was skipped. */
    size_t skipped;
} cfipack_contribution;

/* Something of an object that is not in the output. */
typedef struct cfipack_note {
    /* The number of the object in the order of pushing to its merger, from 0. */
    size_t object;
    /* `CFIPACK_NOTE_OMITTED`: the function. 0 otherwise. */
    uint64_t key;
    /* `CFIPACK_NOTE_...` */
    uint32_t kind;
    /* 0. */
    uint32_t reserved;
    /* In words. */
    struct cfipack_message message;
} cfipack_note;

/* A directive, as assemblers have them. At the start of a function the architecture's own rules are in force. */
typedef struct cfipack_directive {
    /* The offset in bytes from the function's start: after the instruction that it is about. Ascending. */
    uint64_t offset;
    /* `CFIPACK_CFI_...` */
    uint32_t kind;
    /* A DWARF register number, where the kind has one. */
    uint32_t reg;
    /* Bytes, a register or an address, where the kind has one. */
    int64_t value;
    /* `CFIPACK_CFI_ESCAPE`: the bytes. */
    const uint8_t *bytes;
    /* The length of `bytes`. */
    size_t num_bytes;
} cfipack_directive;

/* The place of an FDE in the `.eh_frame` of a region. */
typedef struct cfipack_region_fde {
    /* In bytes from the section's start: the address is what `__register_frame` of LLVM's libunwind takes. */
    uint64_t offset;
    /* The function's start. */
    uint64_t start;
    /* Bytes of code. */
    uint64_t size;
} cfipack_region_fde;

/* The four numbers by which a `.sframe` table is registered. */
typedef struct cfipack_registration {
    /* The place of the table. */
    uint64_t table;
    /* Bytes of the table. */
    uint64_t table_size;
    /* The start of the code. */
    uint64_t text;
    /* Bytes of the code. */
    uint64_t text_size;
} cfipack_registration;

/* The sections that Apple's and LLVM's unwinder takes for a dynamic section. */
typedef struct cfipack_dynamic_sections {
    /* The address that the table's functions count from: the region's start. */
    uint64_t dso_base;
    /* The address of `__eh_frame`. */
    uint64_t dwarf_section;
    /* The bytes. */
    uint64_t dwarf_section_length;
    /* The address of `__unwind_info`; 0 without one. */
    uint64_t compact_unwind_section;
    /* The bytes. */
    uint64_t compact_unwind_section_length;
} cfipack_dynamic_sections;

/* What is called when a region is removed, or the registry freed: it undoes the region's registrations elsewhere. */
typedef struct cfipack_undo {
    /* The function. It is called once, by the thread that removes the region, when no reader finds it any more. */
    void (*undo)(void *context);
    /* The argument of `undo`. */
    void *context;
} cfipack_undo;

/* A function that a section omits since another one starts in it, or where it does. */
typedef struct cfipack_conflict {
    /* The key of the function that has no rows. */
    uint64_t key;
    /* The key of the other one. */
    uint64_t other;
} cfipack_conflict;

/* A relocation of the section in a relocatable file: the value is the address of the function plus the addend, less that
 * of the field. */
typedef struct cfipack_relocation {
    /* The offset of the field in the section. */
    uint64_t offset;
    /* The function. */
    uint64_t key;
    /* The difference of the addend to the function's start, in bytes. */
    uint64_t addend;
    /* The ELF relocation type, as GNU `as` has it: `R_X86_64_PC64`, ... */
    uint32_t elf_type;
    /* 0. */
    uint32_t reserved;
} cfipack_relocation;

/* A piece of a linker's stubs: its size, and its rows, whose starts count from its own; the first is 0. */
typedef struct cfipack_stub_code {
    /* The rows. */
    const struct cfipack_row *rows;
    /* The number of rows. */
    size_t num_rows;
    /* Bytes; 0 if there is no such piece. */
    uint32_t size;
    /* 0. */
    uint32_t reserved;
} cfipack_stub_code;

/* A section of stubs: a header, entries that are all alike, and a trailer. */
typedef struct cfipack_stubs {
    /* The key of its first byte. */
    uint64_t key;
    /* The number of entries. */
    size_t num_entries;
    /* The code before the entries. */
    struct cfipack_stub_code header;
    /* One entry. */
    struct cfipack_stub_code entry;
    /* The code after the entries. */
    struct cfipack_stub_code trailer;
} cfipack_stubs;

/* Options of an `__unwind_info` table. All zero but for the size are the defaults. */
typedef struct cfipack_unwind_info_options {
    /* `sizeof(cfipack_unwind_info_options)` */
    uint32_t size;
    /* `CFIPACK_LAYOUT_SMALL`, `_LLD`, `_LD_PRIME`, `_LD64` or `_LD64_253` */
    uint32_t layout;
} cfipack_unwind_info_options;

/* The target of a field's relocation. */
typedef struct cfipack_reference {
    /* `CFIPACK_PART_...` */
    uint32_t part;
    /* The offset of the field in that section. */
    uint32_t offset;
    /* The number of the function, LSDA or personality that it leads to. Functions, LSDAs and personalities are numbered
     * apart. A number is the index of its address when the table is written: best numbered from 0. */
    uint64_t key;
} cfipack_reference;

/* The thing at an address of an object. */
typedef struct cfipack_place {
    /* The address in the object. */
    uint64_t address;
    /* The number of the function or LSDA. */
    uint64_t key;
} cfipack_place;

/* The unwind information of an object, not relocated.
 *
 * A field is looked up in `references`. If it is not there (distances in the `__eh_frame` of x86-64 have no relocation)
 * or has a relocation that names a section, what it leads to is looked up by the address that stands in it, in `functions`
 * or `lsdas`. A function that is found nowhere is discarded. */
typedef struct cfipack_unwind_object {
    /* `sizeof(cfipack_unwind_object)` */
    uint32_t size;
    /* A number for the object: FDEs and warnings carry it. */
    uint32_t object;
    /* Bytes of `__LD,__compact_unwind`; null without one. */
    const uint8_t *compact_unwind;
    /* The length of `compact_unwind` in bytes. */
    size_t compact_unwind_len;
    /* Bytes of `__TEXT,__eh_frame`; null without one. */
    const uint8_t *eh_frame;
    /* The length of `eh_frame` in bytes. */
    size_t eh_frame_len;
    /* The address of `__eh_frame` in the object. */
    uint64_t eh_frame_address;
    /* The targets of relocations that name symbols, ascending by part, then offset. */
    const struct cfipack_reference *references;
    /* The length of `references`. */
    size_t num_references;
    /* The functions that are part of the output, ascending by address. */
    const struct cfipack_place *functions;
    /* The length of `functions`. */
    size_t num_functions;
    /* LSDAs, ascending by address. */
    const struct cfipack_place *lsdas;
    /* The length of `lsdas`. */
    size_t num_lsdas;
} cfipack_unwind_object;

/* An FDE that the table refers to, and that the output's `__eh_frame` must keep. */
typedef struct cfipack_fde {
    /* The function's number. */
    uint64_t function;
    /* The offset of its record in the object's `__eh_frame`. */
    uint64_t offset;
    /* The object's number. */
    uint32_t object;
    /* 0. */
    uint32_t reserved;
} cfipack_fde;

/* The places in a link's output of what the table speaks of, in bytes from the image's Mach-O header; `CFIPACK_NO_ADDRESS` for
 * what is not there. */
typedef struct cfipack_unwind_places {
    /* `sizeof(cfipack_unwind_places)` */
    uint32_t size;
    /* The end of the code that the table speaks for; 0 if that is the end of the last function. */
    uint32_t end;
    /* By key: functions. */
    const uint32_t *functions;
    /* The length of `functions`. */
    size_t num_functions;
    /* By key: LSDAs. */
    const uint32_t *lsdas;
    /* The length of `lsdas`. */
    size_t num_lsdas;
    /* In the order of `cfipack_unwind_section_get_fdes`: FDEs, in bytes from the start of the output's `__eh_frame`. */
    const uint32_t *fdes;
    /* The length of `fdes`. */
    size_t num_fdes;
    /* In the order of `cfipack_unwind_section_get_personalities`: the pointer slots that hold their addresses. */
    const uint32_t *slots;
    /* The length of `slots`. */
    size_t num_slots;
} cfipack_unwind_places;

/* The counts of a verification. Functions are FDEs of the call frame information, PCs are bytes of code. */
typedef struct cfipack_report_counts {
    /* 1 if the table agrees with the call frame information wherever it answers. */
    uint32_t is_true;
    /* 1 if it has all rows of the call frame information, and no others, and nothing is unjudged. */
    uint32_t is_complete;
    /* Functions of the call frame information. */
    size_t functions;
    /* Functions for which both agree at every PC. */
    size_t equal;
    /* Functions with a PC for which they differ. */
    size_t different;
    /* Functions with a PC for which the table has no row though the call frame information has one. */
    size_t missing;
    /* Functions that cannot be evaluated to their end. */
    size_t unjudged;
    /* Functions of the table that answer for PCs which no function of the call frame information has. */
    size_t extra;
    /* The number of faults of the table: functions that cannot be read or found. */
    size_t malformed;
    /* PCs that either covers. */
    uint64_t pcs;
    /* PCs for which both agree. */
    uint64_t pcs_equal;
    /* PCs for which they differ. */
    uint64_t pcs_different;
    /* PCs for which the table has no row. */
    uint64_t pcs_missing;
} cfipack_report_counts;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/* The version of the library, such as `0.1.0`. Static. */
const char *cfipack_version(void);

/* Parses the table at the start of `bytes`, which lies, or will lie, at `address` in memory. Zeros and other tables may
 * follow it; `cfipack_sframe_get_info` has its size. `message`, which may be null, gets what is wrong. After a failure `out` is
 * no table, and calls refuse it.
 *
 * Async-signal-safe.
 *
 * `bytes` has to be readable for `len` bytes as long as the table is used. */
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

/* Checks the whole table: every function and row, and their order. Lookups check only what they pass. `message`, which
 * may be null, gets what is wrong. Async-signal-safe.
 *
 * `table` was parsed, `message` is null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_validate(const struct cfipack_sframe *table,
                                            struct cfipack_message *message);

/* The row that answers for a PC; `CFIPACK_STATUS_NOT_FOUND` if there is none. Its start counts from that of its function.
 * Async-signal-safe; it reads only what it passes.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_lookup(const struct cfipack_sframe *table,
                                          uint64_t pc,
                                          struct cfipack_row *out);

/* The number of the function that has a PC; `CFIPACK_STATUS_NOT_FOUND` if there is none. Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_find(const struct cfipack_sframe *table,
                                        uint64_t pc,
                                        size_t *out);

/* The function of a number, from 0 in the order of the table; `CFIPACK_STATUS_NOT_FOUND` after the last one.
 * Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_get_function(const struct cfipack_sframe *table,
                                                size_t index,
                                                struct cfipack_sframe_function *out);

/* The rows of a function. `count` gets their number, which may be asked for with a `capacity` of 0;
 * `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`, whose first are written. Async-signal-safe.
 *
 * `table` was parsed; `rows` is writable for `capacity` rows, `count` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_get_rows(const struct cfipack_sframe *table,
                                            size_t index,
                                            struct cfipack_row *rows,
                                            size_t capacity,
                                            size_t *count);

/* The table as text, as `readelf --sframe` prints it. `name` is the section's name. `len` gets the bytes of all text,
 * which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer, whose first part is
 * written. There is no zero at its end. Async-signal-safe.
 *
 * `table` was parsed; `name` ends with a zero; `text` is writable for `capacity` bytes, `len` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_dump(const struct cfipack_sframe *table,
                                        const char *name,
                                        char *text,
                                        size_t capacity,
                                        size_t *len);

/* Returns the number of words of 32 bits that an index of a table needs. Async-signal-safe.
 *
 * `table` was parsed, `words` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_index_words(const struct cfipack_sframe *table,
                                               size_t *words);

/* Makes an index of a table in `memory`, which has to stay, with the bytes of the table, as long as the index is used.
 * Async-signal-safe.
 *
 * `table` was parsed; `memory` is writable for `words` words, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_index_build(struct cfipack_sframe_index *out,
                                               const struct cfipack_sframe *table,
                                               uint32_t *memory,
                                               size_t words);

/* Looks up as `cfipack_sframe_lookup` does, by an index. Async-signal-safe.
 *
 * `index` was built, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_sframe_index_lookup(const struct cfipack_sframe_index *index,
                                                uint64_t pc,
                                                struct cfipack_row *out);

/* Returns the meaning of a status, in English. Static; never null. */
const char *cfipack_status_text(uint32_t status);

/* Steps from a frame to its caller. `row` is that of the frame's PC. What it needs of memory is read from the pieces
 * of `memory`: for the thread's own stack, one piece from the stack pointer up, on x86-64 from 128 bytes below, the
 * red zone: rows of an epilogue name the places of registers that it has popped. `CFIPACK_STATUS_OUTERMOST` is how a
 * stack ends; `CFIPACK_STATUS_UNKNOWN` if a register or a word of memory is not known.
 *
 * Async-signal-safe.
 *
 * `row`, `registers`, `memory` and the bytes that it names are readable; `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_step(uint32_t architecture,
                                 const struct cfipack_row *row,
                                 const struct cfipack_registers *registers,
                                 const struct cfipack_memory *memory,
                                 size_t num_memory,
                                 struct cfipack_caller *out);

/* A return address without its signature (AArch64 pointer authentication): the upper bits as bit 55 has them.
 * `address_bits` is how many bits an address has, 48 on most systems, at most 55. Async-signal-safe. */
uint64_t cfipack_strip_signature(uint64_t pc, uint32_t address_bits);

/* Parses the `__unwind_info` of an image. `message`, which may be null, gets what is wrong. After a failure `out` is no table,
 * and calls refuse it. Async-signal-safe.
 *
 * `bytes` has to be readable for `len` bytes as long as the table is used. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_parse(struct cfipack_unwind_info *out,
                                              const uint8_t *bytes,
                                              size_t len,
                                              struct cfipack_message *message);

/* The entry that has a PC, given in bytes from the image's Mach-O header; `CFIPACK_STATUS_NOT_FOUND` if there is none.
 * Async-signal-safe.
 *
 * `table` was parsed, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_lookup(const struct cfipack_unwind_info *table,
                                               uint32_t pc,
                                               struct cfipack_unwind_info_entry *out);

/* Returns the number of pages of the table. Async-signal-safe.
 *
 * `table` was parsed, `count` is writable. */
enum cfipack_status cfipack_unwind_info_num_pages(const struct cfipack_unwind_info *table, size_t *count);

/* The entries of a page, in ascending order. `count` gets their number, which may be asked for with a `capacity` of 0;
 * `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`, whose first are written; `CFIPACK_STATUS_NOT_FOUND` after
 * the last page. Async-signal-safe.
 *
 * `table` was parsed; `entries` is writable for `capacity` entries, `count` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_get_entries(const struct cfipack_unwind_info *table,
                                                    size_t page,
                                                    struct cfipack_unwind_info_entry *entries,
                                                    size_t capacity,
                                                    size_t *count);

/* The row that an encoding stands for in the body of a function; its prologue and epilogue it does not describe.
 * `CFIPACK_STATUS_NOT_FOUND` if the encoding has no unwind information, or refers to an FDE, whose offset in
 * `__eh_frame` is its lower 24 bits.
 *
 * `code` is the code from the entry's start on. Only x86's indirect mode looks at it, at its first 259 bytes; null and 0
 * are enough for all others. Async-signal-safe.
 *
 * `code` is readable for `code_len` bytes, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_compact_unwind_row(uint32_t architecture,
                                               uint32_t encoding,
                                               const uint8_t *code,
                                               size_t code_len,
                                               struct cfipack_row *out);

/* The table as text, as `llvm-objdump --unwind-info` prints it. `len` gets the bytes of all text, which may be asked
 * for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer, whose first part is written. There is no
 * zero at its end. Async-signal-safe.
 *
 * `table` was parsed; `text` is writable for `capacity` bytes, `len` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_info_dump(const struct cfipack_unwind_info *table,
                                             char *text,
                                             size_t capacity,
                                             size_t *len);

/* Makes an address space of modules, which ascend and do not overlap; they, and what they lead to, have to stay as they are
 * as long as the space is used. After a change, such as a `dlclose`, another space has to be made, also in the same memory:
 * each has a number of its own, by which a cache knows what belongs to it. Async-signal-safe.
 *
 * `modules`, and what they lead to, are readable; `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_modules_init(struct cfipack_modules *out,
                                         uint32_t architecture,
                                         const struct cfipack_module *modules,
                                         size_t count);

/* Makes an empty cache in `size` bytes of `memory`, which have to stay as long as it is used. Each PC needs 32 bytes; 32 kB
 * suffice for most programs. Async-signal-safe.
 *
 * `memory` is writable for `size` bytes and belongs to the cache alone, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_cache_init(struct cfipack_cache *out,
                                       uint8_t *memory,
                                       size_t size);

/* Walks up the stack of a thread. `frames` gets as many frames as fit, innermost first, `count` how many they are, and `end`,
 * which may be null, the reason why there are no more: `CFIPACK_END_...`
 *
 * Each caller is found by the row of its callee's PC, and where no table covers the code by the frame pointer, if it leads
 * to a frame within the stack and to code of a module. Async-signal-safe.
 *
 * `modules` and the cache were made; `thread`, and what it leads to, are readable; `frames` is writable for `capacity` frames,
 * `count` is writable, `end` too if it is not null. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_walk(const struct cfipack_modules *modules,
                                 const struct cfipack_thread *thread,
                                 struct cfipack_frame *frames,
                                 size_t capacity,
                                 size_t *count,
                                 uint32_t *end);

/* Returns the meaning of `CFIPACK_END_...`, in English. Static; never null. */
const char *cfipack_end_text(uint32_t end);

/* Finds the length of an `.eh_frame` of which you know the start alone, as in the memory of a process: `.eh_frame_hdr`, which
 * `PT_GNU_EH_FRAME` leads to, has a pointer to the section and no length. `bytes` is the start of the section, `available` the
 * bytes from there to any place at or after its end, such as the end of the segment that contains it. `len` gets the bytes up to
 * the zero that ends the section, the zero included. Memory after the zero is not read.
 *
 * `CFIPACK_STATUS_MALFORMED` if a record reaches beyond `available`: `len` gets the bytes of the records before it, which can
 * be converted, and `message`, which may be null, gets the record's offset and length.
 *
 * Pointers are null, or lead to what their types say; `bytes` is readable for `available` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_eh_frame_len(const uint8_t *bytes,
                                         size_t available,
                                         uint32_t architecture,
                                         size_t *len,
                                         struct cfipack_message *message);

/* Makes a `.sframe` table for `address` of the call frame information of a linked file, whose functions have addresses, on
 * the threads of `pool`, which may be null. A function that the table cannot represent is omitted:
 * `cfipack_conversion_get_omitted` has the reason. `given` may be null: the defaults. `message`, which may be null, gets what
 * is wrong. The bytes of the sections need not stay. `cfipack_conversion_free` frees it.
 *
 * `CFIPACK_STATUS_MALFORMED` if a record reaches beyond its section, since functions after it cannot be found: the table that
 * `out` gets has all others. `message` and `cfipack_conversion_get_omitted` have the record's offset. A section in memory
 * whose length is not known is a frequent cause: see `cfipack_eh_frame_len`. `out` gets null for every other status than
 * this one and `CFIPACK_STATUS_OK`.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_conversion_new(struct cfipack_conversion **out,
                                           const struct cfipack_cfi_sections *cfi,
                                           const struct cfipack_sframe_options *given,
                                           uint64_t address,
                                           const struct cfipack_pool *pool,
                                           struct cfipack_message *message);

/* Bytes of the table.
 *
 * `conversion` is null or a conversion, `len` null or writable. */
enum cfipack_status cfipack_conversion_len(const struct cfipack_conversion *conversion, size_t *len);

/* Gets the number of functions that the call frame information has, and of those that the table omits. Both may be null.
 *
 * Pointers are null, or lead to what their types say. */
enum cfipack_status cfipack_conversion_num_functions(const struct cfipack_conversion *conversion,
                                                     size_t *functions,
                                                     size_t *omitted);

/* A function that the table omits, by its number from 0: its start, and the reason in words. The start is 0 if its record
 * cannot be read. `CFIPACK_STATUS_NOT_FOUND` after the last one.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_conversion_get_omitted(const struct cfipack_conversion *conversion,
                                                   size_t number,
                                                   uint64_t *start,
                                                   struct cfipack_message *reason);

/* Writes the table into `out`, of exactly `cfipack_conversion_len` bytes.
 *
 * `conversion` is null or a conversion; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_conversion_write(struct cfipack_conversion *conversion,
                                             uint8_t *out,
                                             size_t len);

/* The message of the conversion's last call; empty if that had no error. It stays until the next call.
 *
 * `conversion` is null or a conversion. */
const char *cfipack_conversion_message(const struct cfipack_conversion *conversion);

/* Frees a conversion; null is nothing.
 *
 * `conversion` is null or a conversion. */
void cfipack_conversion_free(struct cfipack_conversion *conversion);

/* The header of a jitdump file: 40 bytes.
 *
 * `out` is null or writable for 40 bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_jitdump_header(uint32_t architecture,
                                           uint32_t pid,
                                           uint64_t time,
                                           uint8_t *out);

/* The record that ends a jitdump file: 16 bytes.
 *
 * `out` is null or writable for 16 bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_jitdump_close(uint32_t architecture,
                                          uint64_t time,
                                          uint8_t *out);

/* The records of the function with a number, in the order of addresses, to be written by one call. `code` is the function's
 * code. `room`, which may be null, the bytes from
 * the function's start on in which no other function's may lie.
 *
 * Pointers are null, or lead to what their types say; the buffer is writable for its capacity. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_jitdump(struct cfipack_region *region,
                                           size_t index,
                                           const uint8_t *code,
                                           size_t code_len,
                                           const struct cfipack_jitdump_event *event,
                                           struct cfipack_buffer *out,
                                           uint64_t *room);

/* The search table that HP's libunwind takes, and the `unw_dyn_info_t` that `_U_dyn_register` takes.
 *
 * Pointers are null, or lead to what their types say; the buffer is writable for its capacity, `dyn_info` for 88 bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_libunwind_table(struct cfipack_region *region,
                                                   const struct cfipack_libunwind *given,
                                                   struct cfipack_buffer *out,
                                                   uint8_t *dyn_info);

/* Makes a merger for objects of an architecture. `given` may be null: the defaults. `message`, which may be null, gets
 * what is wrong. `cfipack_merger_free` or `cfipack_merger_finish` frees it.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_new(struct cfipack_merger **out,
                                       uint32_t architecture,
                                       const struct cfipack_sframe_options *given,
                                       struct cfipack_message *message);

/* Makes a merger with the same options, for a thread of its own; `cfipack_merger_absorb` adds what it has taken.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_shard(const struct cfipack_merger *merger,
                                         struct cfipack_merger **out);

/* Makes a merger that has taken the same objects, so that one can be finished now and the other later, with stubs that
 * are not known yet. It has no notes. The bytes of the objects have to stay for both.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_copy(const struct cfipack_merger *merger,
                                        struct cfipack_merger **out);

/* Adds the functions of an object. `out`, which may be null, gets what became of them; `cfipack_merger_get_note` has what
 * is not in the output. A damaged object is no error: what can be read of it is used.
 *
 * Pointers are null, or lead to what their types say; the bytes of the sections stay until the merger is finished
 * or freed, and so are its copies and the merger that absorbs it. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_push(struct cfipack_merger *merger,
                                        const struct cfipack_object *object,
                                        struct cfipack_contribution *out);

/* Takes note of a function of `size` bytes that is in no object's sections and has no rows: no other's are to answer
 * for its PCs. Its address is needed when the section is written.
 *
 * `merger` is null or a merger. */
enum cfipack_status cfipack_merger_note_omitted(struct cfipack_merger *merger,
                                                uint64_t key,
                                                uint64_t size);

/* Adds what a shard has taken, as if its objects had been pushed here, and frees the shard, whatever the status; a merger
 * that is given as its own shard stays. The same shards in the same order give the same bytes. The bytes of the shard's
 * objects have to stay for the merger.
 *
 * `merger` and `shard` are null or mergers, and not the same one. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_absorb(struct cfipack_merger *merger,
                                          struct cfipack_merger *shard);

/* The number of notes of what is not in the output.
 *
 * `merger` is null or a merger, `count` null or writable. */
enum cfipack_status cfipack_merger_num_notes(const struct cfipack_merger *merger, size_t *count);

/* A note, by its number from 0; `CFIPACK_STATUS_NOT_FOUND` after the last one.
 *
 * `merger` is null or a merger, `out` null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_get_note(const struct cfipack_merger *merger,
                                            size_t number,
                                            struct cfipack_note *out);

/* The message of the merger's last call; empty if that had no error. It stays until the next call.
 *
 * `merger` is null or a merger. */
const char *cfipack_merger_message(const struct cfipack_merger *merger);

/* Ends the section, on the threads of `pool`, which may be null, and frees the merger, whatever the status. `keys` is
 * what keys are, `CFIPACK_KEYS_...`.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_finish(struct cfipack_merger *merger,
                                          uint32_t keys,
                                          const struct cfipack_pool *pool,
                                          struct cfipack_section **out);

/* Frees a merger; null is nothing.
 *
 * `merger` is null or a merger. */
void cfipack_merger_free(struct cfipack_merger *merger);

/* Makes a region of `length` bytes of code at `base`. `message`, which may be null, gets what is wrong.
 * `cfipack_region_free` frees it.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_new(struct cfipack_region **out,
                                       uint32_t architecture,
                                       uint64_t base,
                                       uint64_t length,
                                       struct cfipack_message *message);

/* Adds the function of `size` bytes at `offset` of the region's code, described by directives. Debuggers and profilers
 * print its name, which may be null. The region is unchanged if it cannot be added.
 *
 * Pointers are null, or lead to what their types say; `function_name` ends with a zero. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_push(struct cfipack_region *region,
                                        const char *function_name,
                                        uint64_t offset,
                                        uint64_t size,
                                        const struct cfipack_directive *given,
                                        size_t num_directives);

/* Adds the functions of an `.eh_frame` that lies at `address`, such as another writer has made. They have no names. The
 * region is unchanged if one cannot be added, or read: unwinders would register all of the section. If you know the start of
 * the section alone, `cfipack_eh_frame_len` finds its length.
 *
 * Pointers are null, or lead to what their types say; `bytes` is readable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_push_eh_frame(struct cfipack_region *region,
                                                 const uint8_t *bytes,
                                                 size_t len,
                                                 uint64_t address);

/* The region's `.eh_frame`, which will lie at `address`, terminated, as libgcc's and LLVM's unwinders take it. `len` gets its
 * bytes, which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if it does not fit. `fdes`, which may
 * be null, gets one FDE for each function of the region, in the order of their addresses.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `capacity` bytes, `fdes` for as many FDEs
 * as the region has functions. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_eh_frame(struct cfipack_region *region,
                                            uint32_t pointer_form,
                                            uint64_t address,
                                            uint8_t *out,
                                            size_t capacity,
                                            size_t *len,
                                            struct cfipack_region_fde *fdes);

/* Returns the number of functions in the region.
 *
 * `region` is null or a region, `count` null or writable. */
enum cfipack_status cfipack_region_num_functions(const struct cfipack_region *region, size_t *count);

/* The region's `.sframe` table, which will lie at `address`. `registration` and `omitted`, which may be null, get what to register and how many functions the table cannot
 * represent: unwinding ends in them.
 *
 * Pointers are null, or lead to what their types say; the buffer is writable for its capacity. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_sframe(struct cfipack_region *region,
                                          const struct cfipack_sframe_options *given,
                                          uint64_t address,
                                          struct cfipack_buffer *out,
                                          struct cfipack_registration *registration,
                                          size_t *omitted);

/* The ELF file in memory that gdb's JIT interface takes. `len` gets its bytes, which may be asked for with a `capacity` of 0.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `capacity` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_gdb_elf(struct cfipack_region *region,
                                           uint8_t *out,
                                           size_t capacity,
                                           size_t *len);

/* The region's `__eh_frame` and `__unwind_info`. `code`, which may be null, is the region's code, without which fewer functions
 * have a compact encoding. `sections`, which may be null, gets what a
 * callback of `__unw_add_find_dynamic_unwind_sections` gives.
 *
 * Pointers are null, or lead to what their types say; buffers are writable for their capacities, `code` is readable for
 * the length of the region. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_region_unwind_info(struct cfipack_region *region,
                                               const uint8_t *code,
                                               uint64_t eh_frame_address,
                                               struct cfipack_buffer *eh_frame,
                                               uint64_t unwind_info_address,
                                               struct cfipack_buffer *unwind_info,
                                               struct cfipack_dynamic_sections *sections);

/* The architecture of a region, as `CFIPACK_ARCH_...`; 0 for null.
 *
 * `region` is null or a region. */
uint32_t cfipack_region_arch(const struct cfipack_region *region);

/* The message of the region's last call; empty if that had no error. It stays until the next call.
 *
 * `region` is null or a region. */
const char *cfipack_region_message(const struct cfipack_region *region);

/* Frees a region; null is nothing. What was made of it stays.
 *
 * `region` is null or a region. */
void cfipack_region_free(struct cfipack_region *region);

/* Makes a registry without regions. `message`, which may be null, gets what is wrong. `cfipack_registry_free` frees it.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_new(struct cfipack_registry **out,
                                         uint32_t architecture,
                                         struct cfipack_message *message);

/* Adds a region: readers find it from the return on. Register it elsewhere before, and publish the addresses of the code
 * after. `undo`, which may be null, is kept with it. `omitted`, which may be null, gets how many of its functions have no rows:
 * walks end in them. `CFIPACK_STATUS_REFUSED` if a registered region has some of its code. Where it is not added, `undo` is not
 * called.
 *
 * Pointers are null, or lead to what their types say; `undo` names a function that may be called with its context until the
 * region is removed. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_add(struct cfipack_registry *registry,
                                         const struct cfipack_region *region,
                                         const struct cfipack_undo *undo,
                                         size_t *omitted);

/* Removes the region that starts at `base`: no reader finds it from the return on. Then what was kept with it is undone. No
 * thread may be in the code; free it after. `CFIPACK_STATUS_NOT_FOUND` if no region starts there.
 *
 * `registry` is null or a registry. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_remove(struct cfipack_registry *registry,
                                            uint64_t base);

/* Bytes of the memory that readers read.
 *
 * `registry` is null or a registry, `size` null or writable. */
enum cfipack_status cfipack_registry_get_memory_size(const struct cfipack_registry *registry, size_t *size);

/* The message of the registry's last call; empty if that had no error. It stays until the next call.
 *
 * `registry` is null or a registry. */
const char *cfipack_registry_message(const struct cfipack_registry *registry);

/* Removes all regions, undoes what was kept with them, and frees the registry; null is nothing. Readers find nothing from then
 * on.
 *
 * `registry` is null or a registry. */
void cfipack_registry_free(struct cfipack_registry *registry);

/* Makes a reader, which stays valid when the registry is freed. `cfipack_registry_reader_free` frees it.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_reader_new(struct cfipack_registry_reader **out,
                                                const struct cfipack_registry *registry);

/* The row that answers for a PC in registered code; `CFIPACK_STATUS_NOT_FOUND` if there is none. Its start counts from that of
 * its function. Async-signal-safe, also in a handler that interrupts a call of the registry; it never waits.
 *
 * `reader` is null or a reader, `out` is writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_registry_lookup(const struct cfipack_registry_reader *reader,
                                            uint64_t pc,
                                            struct cfipack_row *out);

/* Frees a reader; null is nothing. Not for signal handlers.
 *
 * `reader` is null or a reader that no thread uses any more. */
void cfipack_registry_reader_free(struct cfipack_registry_reader *reader);

/* Bytes of the section, exact.
 *
 * `section` is null or a section, `len` null or writable. */
enum cfipack_status cfipack_section_len(const struct cfipack_section *section, size_t *len);

/* Returns the number of entries of its function index. A linker omits a section without any.
 *
 * `section` is null or a section, `count` null or writable. */
enum cfipack_status cfipack_section_num_functions(const struct cfipack_section *section, size_t *count);

/* Omits the functions that version 2 cannot reach from `address`, whose distance does not fit 32 bits. The section is
 * smaller then. `addresses` is as for `cfipack_section_write`.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_omit_distant(struct cfipack_section *section,
                                                 uint64_t address,
                                                 const uint64_t *addresses,
                                                 size_t num_addresses);

/* Functions that the section omits since it was finished: those that it could not tell apart, or that lie too far
 * away. `count` gets their number, `keys` those that fit; either may be asked for alone.
 *
 * Pointers are null, or lead to what their types say; `keys` is writable for `capacity` keys. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_get_omitted(const struct cfipack_section *section,
                                                uint64_t *keys,
                                                size_t capacity,
                                                size_t *count);

/* Writes the section of a linked file, which lies at `address`, into `out` of exactly `cfipack_section_len` bytes, on
 * the threads of `pool`, which may be null. `addresses` has the address of each function, omitted ones too, or of each
 * input section, as `CFIPACK_KEYS_...` describes. Functions that turn out to share PCs are no error:
 * `cfipack_section_get_conflicts` has those that are omitted.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_write(struct cfipack_section *section,
                                          uint8_t *out,
                                          size_t len,
                                          uint64_t address,
                                          const uint64_t *addresses,
                                          size_t num_addresses,
                                          const struct cfipack_pool *pool);

/* Functions that the last `cfipack_section_write` omitted since they turned out to share PCs with others. `count` gets
 * their number, which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if there are more than
 * `capacity`.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `capacity` conflicts. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_get_conflicts(const struct cfipack_section *section,
                                                  struct cfipack_conflict *out,
                                                  size_t capacity,
                                                  size_t *count);

/* Writes the section of a relocatable file into `out` of exactly `cfipack_section_len` bytes. Its relocations go with it.
 *
 * `section` is null or a section; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_write_relocatable(struct cfipack_section *section,
                                                      uint8_t *out,
                                                      size_t len);

/* The relocations of the section in a relocatable file, in the order of their fields. `count` gets their number, which may
 * be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `capacity` relocations. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_section_get_relocations(const struct cfipack_section *section,
                                                    struct cfipack_relocation *out,
                                                    size_t capacity,
                                                    size_t *count);

/* The message of the section's last call; empty if that had no error. It stays until the next call.
 *
 * `section` is null or a section. */
const char *cfipack_section_message(const struct cfipack_section *section);

/* Frees a section; null is nothing.
 *
 * `section` is null or a section. */
void cfipack_section_free(struct cfipack_section *section);

/* Adds the rows of stubs, such as a PLT, that `cfipack_merger_push_known_stubs` does not have.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_push_stubs(struct cfipack_merger *merger,
                                              const struct cfipack_stubs *stubs);

/* Gets the row at `offset` bytes from the start of a function that has been pushed; its start counts from the function's.
 * `CFIPACK_STATUS_NOT_FOUND` without one. With a start of 0 it is the row of a veneer that has the instruction of that
 * place, or of a thunk between two parts of the function, for `cfipack_merger_push_stubs`.
 *
 * `merger` is null or a merger, `out` null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_row_at(struct cfipack_merger *merger,
                                          uint64_t key,
                                          uint32_t offset,
                                          struct cfipack_row *out);

/* Adds the rows of stubs that linkers write, by their code: `kind` is `CFIPACK_STUBS_...`, with `CFIPACK_STUBS_NO_HEADER`
 * added where there are only entries, and `key` that of the first byte, of the header where there is one. `entry_size` is the bytes of an entry, where the same code has other padding;
 * 0 for those of the kind.
 *
 * `merger` is null or a merger. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_merger_push_known_stubs(struct cfipack_merger *merger,
                                                    uint64_t key,
                                                    uint32_t kind,
                                                    size_t num_entries,
                                                    uint32_t entry_size);

/* Makes a builder for x86-64, i386, arm64 or arm64_32. `given` may be null: the defaults. `message`, which may be null,
 * gets what is wrong. `cfipack_unwind_builder_free` or `cfipack_unwind_builder_finish` frees it.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_new(struct cfipack_unwind_builder **out,
                                               uint32_t architecture,
                                               const struct cfipack_unwind_info_options *given,
                                               struct cfipack_message *message);

/* Makes a builder with the same options, for a thread of its own; `cfipack_unwind_builder_absorb` adds what it has taken.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_shard(const struct cfipack_unwind_builder *builder,
                                                 struct cfipack_unwind_builder **out);

/* Adds the unwind information of an object, whose bytes need not stay. A damaged object is no error: what can be read of
 * it is used, and the rest is a warning of the section.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_push(struct cfipack_unwind_builder *builder,
                                                const struct cfipack_unwind_object *object);

/* Adds code that may have no unwind information, so that the entry of the function before does not speak for it.
 *
 * `builder` is null or a builder. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_push_code(struct cfipack_unwind_builder *builder,
                                                     uint64_t key,
                                                     uint32_t length);

/* Adds what a shard has taken, as if its objects had been pushed here, and frees the shard, whatever the status; a builder
 * that is given as its own shard stays.
 *
 * `builder` and `shard` are null or builders, and not the same one. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_absorb(struct cfipack_unwind_builder *builder,
                                                  struct cfipack_unwind_builder *shard);

/* The message of the builder's last call; empty if that had no error. It stays until the next call.
 *
 * `builder` is null or a builder. */
const char *cfipack_unwind_builder_message(const struct cfipack_unwind_builder *builder);

/* Decides what does not depend on addresses, and frees the builder, whatever the status.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_builder_finish(struct cfipack_unwind_builder *builder,
                                                  struct cfipack_unwind_section **out);

/* Frees a builder; null is nothing.
 *
 * `builder` is null or a builder. */
void cfipack_unwind_builder_free(struct cfipack_unwind_builder *builder);

/* The personalities that the table may name, at most three; each needs a pointer slot with its address. `count` gets their
 * number.
 *
 * Pointers are null, or lead to what their types say; `keys` is writable for `capacity` keys. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_get_personalities(const struct cfipack_unwind_section *section,
                                                             uint64_t *keys,
                                                             size_t capacity,
                                                             size_t *count);

/* The FDEs that the table refers to. `count` gets their number, which may be asked for with a `capacity` of 0;
 * `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `capacity` FDEs. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_get_fdes(const struct cfipack_unwind_section *section,
                                                    struct cfipack_fde *out,
                                                    size_t capacity,
                                                    size_t *count);

/* The most bytes that the table can have, wherever its functions will lie and in whatever order. Where the order is known,
 * `cfipack_unwind_section_plan` gives the size of the likely table instead.
 *
 * `section` is null or a section, `len` null or writable. */
enum cfipack_status cfipack_unwind_section_max_len(const struct cfipack_unwind_section *section,
                                                   size_t *len);

/* Plans the table for functions in an order that is known: `len` gets the most bytes that it will have, as a rule those
 * that it will have exactly. `tentative` has a place in the order of each function, in bytes, at the index that is its
 * key: an address in a first layout, or a rank. `growth` bounds how much further the functions may lie apart in the end,
 * in bytes: with ranks, the length of all code.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_plan(struct cfipack_unwind_section *section,
                                                const uint32_t *tentative,
                                                size_t num_tentative,
                                                uint32_t growth,
                                                size_t *len);

/* Lays the table out and writes it to the front of `out`; the rest is set to zero. `table_len` gets the bytes of the table; 0
 * where there is none. It can be written again with other addresses.
 *
 * Pointers are null, or lead to what their types say; `out` is writable for `len` bytes. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_write(struct cfipack_unwind_section *section,
                                                 const struct cfipack_unwind_places *places,
                                                 uint8_t *out,
                                                 size_t len,
                                                 size_t *table_len);

/* The number of warnings: of what objects describe, and of the table that was written last.
 *
 * `section` is null or a section, `count` null or writable. */
enum cfipack_status cfipack_unwind_section_num_warnings(const struct cfipack_unwind_section *section,
                                                        size_t *count);

/* A warning in words, by its number from 0; `CFIPACK_STATUS_NOT_FOUND` after the last one.
 *
 * `section` is null or a section, `out` null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_unwind_section_get_warning(const struct cfipack_unwind_section *section,
                                                       size_t number,
                                                       struct cfipack_message *out);

/* The message of the section's last call; empty if that had no error. It stays until the next call.
 *
 * `section` is null or a section. */
const char *cfipack_unwind_section_message(const struct cfipack_unwind_section *section);

/* Frees a section; null is nothing.
 *
 * `section` is null or a section. */
void cfipack_unwind_section_free(struct cfipack_unwind_section *section);

/* Compares the `.sframe` table in `table` of `table_len` bytes, which lies at `address`, with call frame information,
 * at every PC, both ways, on the threads of `pool`, which may be null. gimli evaluates the call frame information.
 * `message`, which may be null, gets why the table cannot be read. `cfipack_report_free` frees the report.
 *
 * Pointers are null, or lead to what their types say. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_verify_sframe(struct cfipack_report **out,
                                          const struct cfipack_cfi_sections *cfi,
                                          const uint8_t *table,
                                          size_t table_len,
                                          uint64_t address,
                                          const struct cfipack_pool *pool,
                                          struct cfipack_message *message);

/* The numbers of a report.
 *
 * `report` is null or a report, `out` null or writable. */
enum cfipack_status cfipack_report_get_counts(const struct cfipack_report *report,
                                              struct cfipack_report_counts *out);

/* The differences, faults, and functions that are missing or could not be judged, one a line, at most a hundred of each.
 * `len` gets the bytes of all text, which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if the text
 * is longer, whose first part is written. There is no zero at its end.
 *
 * `report` is null or a report; `text` is writable for `capacity` bytes, `len` is null or writable. */
CFIPACK_MUST_CHECK
enum cfipack_status cfipack_report_text(const struct cfipack_report *report,
                                        char *text,
                                        size_t capacity,
                                        size_t *len);

/* Frees a report; null is nothing.
 *
 * `report` is null or a report. */
void cfipack_report_free(struct cfipack_report *report);

#ifdef __cplusplus
}  /* extern "C" */
#endif  /* __cplusplus */

#endif  /* CFIPACK_H */
