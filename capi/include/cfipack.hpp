// cfipack.hpp: cfipack.h for C++17.
//
// Handles that free themselves, views of arrays, and exceptions. This header only wraps cfipack.h: read there how
// each call behaves and how long its arguments must stay in memory. You may only destroy or assign to a moved-from
// handle.
//
// If you build without exceptions, define CFIPACK_THROW(status, message) before you include this file, as code that
// does not return. The message is a string and may be empty.
#ifndef CFIPACK_HPP
#define CFIPACK_HPP

#include "cfipack.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cfipack {

/// A failed call: its status, and a message with offsets and values.
class error : public std::runtime_error {
public:
    error(cfipack_status status, const char *message)
        : std::runtime_error(*message != 0 ? message : cfipack_status_text(static_cast<std::uint32_t>(status))),
          status_(status) {}

    cfipack_status status() const noexcept { return status_; }

private:
    cfipack_status status_;
};

/// A view of an array, like std::span. Create it from a pointer and a length, or from anything with data() and
/// size().
template <class T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class Container, class = std::enable_if_t<std::is_convertible_v<
                                   decltype(std::declval<Container &>().data()), T *>>>
    constexpr span(Container &&container) noexcept : data_(container.data()), size_(container.size()) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

#ifndef CFIPACK_THROW
#define CFIPACK_THROW(status, message) throw ::cfipack::error(status, message)
#endif

namespace detail {

inline void check(cfipack_status status, const char *message = "") {
    if (status != CFIPACK_STATUS_OK)
        CFIPACK_THROW(status, message);
}

/// Converts the status of a lookup: true if something was found.
inline bool is_found(cfipack_status status) {
    if (status == CFIPACK_STATUS_NOT_FOUND)
        return false;
    check(status);
    return true;
}

/// Owns a handle and frees it with a function of the C interface.
template <class T, void (*Free)(T *)> struct deleter {
    void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, void (*Free)(T *)> using owner = std::unique_ptr<T, deleter<T, Free>>;

/// Asks for the number of elements, then for the elements.
template <class T, class Call> std::vector<T> all(Call call) {
    std::size_t count = 0;
    cfipack_status status = call(static_cast<T *>(nullptr), std::size_t{0}, &count);
    std::vector<T> result(count);
    if (status == CFIPACK_STATUS_BUFFER_SIZE)
        status = call(result.data(), result.size(), &count);
    check(status);
    return result;
}

template <class Call> std::string text(Call call) {
    std::size_t len = 0;
    cfipack_status status = call(static_cast<char *>(nullptr), std::size_t{0}, &len);
    std::string result(len, '\0');
    if (status == CFIPACK_STATUS_BUFFER_SIZE)
        status = call(result.data(), result.size(), &len);
    check(status);
    return result;
}

} // namespace detail

/// Options of a `.sframe` table with their defaults.
inline cfipack_sframe_options sframe_options() noexcept {
    cfipack_sframe_options options{};
    options.size = sizeof options;
    return options;
}

/// Options of an `__unwind_info` table with their defaults.
inline cfipack_unwind_info_options unwind_info_options() noexcept {
    cfipack_unwind_info_options options{};
    options.size = sizeof options;
    return options;
}

/// A pool of threads that the library starts, and ends before a call returns.
inline cfipack_pool threads(std::size_t count) noexcept {
    cfipack_pool pool{};
    pool.size = sizeof pool;
    pool.threads = count;
    return pool;
}

/// A pool of your own threads, about `count` of them. `run(count, task)` must call `task(index)` for each index below
/// its `count`, and return when all these calls have ended. `run` must stay in memory as long as the pool is used. An
/// exception from `run` terminates the program.
template <class Run> cfipack_pool pool(std::size_t count, Run &run) noexcept {
    cfipack_pool pool = threads(count);
    pool.run = [](void *own, cfipack_task task, void *work, std::size_t tasks) noexcept {
        (*static_cast<Run *>(own))(tasks, [=](std::size_t index) { task(work, index); });
    };
    pool.pool = const_cast<void *>(static_cast<const void *>(&run));
    return pool;
}

/// Reads a `.sframe` table. The bytes must stay in memory.
class sframe {
public:
    sframe(span<const std::uint8_t> bytes, std::uint64_t address) {
        cfipack_message message{};
        detail::check(cfipack_sframe_parse(&table_, bytes.data(), bytes.size(), address, &message), message.text);
    }

    const cfipack_sframe *get() const noexcept { return &table_; }

    cfipack_sframe_info info() const {
        cfipack_sframe_info info{};
        detail::check(cfipack_sframe_get_info(&table_, &info));
        return info;
    }

    void validate() const {
        cfipack_message message{};
        detail::check(cfipack_sframe_validate(&table_, &message), message.text);
    }

    std::optional<cfipack_row> lookup(std::uint64_t pc) const {
        cfipack_row row;
        if (!detail::is_found(cfipack_sframe_lookup(&table_, pc, &row)))
            return std::nullopt;
        return row;
    }

    std::optional<cfipack_sframe_function> function(std::size_t index) const {
        cfipack_sframe_function function;
        if (!detail::is_found(cfipack_sframe_get_function(&table_, index, &function)))
            return std::nullopt;
        return function;
    }

    std::vector<cfipack_row> rows(std::size_t index) const {
        return detail::all<cfipack_row>([&](cfipack_row *rows, std::size_t capacity, std::size_t *count) {
            return cfipack_sframe_get_rows(&table_, index, rows, capacity, count);
        });
    }

    std::string dump(const char *name = ".sframe") const {
        return detail::text([&](char *text, std::size_t capacity, std::size_t *len) {
            return cfipack_sframe_dump(&table_, name, text, capacity, len);
        });
    }

private:
    cfipack_sframe table_;
};

/// Reads an `__unwind_info` table. The bytes must stay in memory.
class unwind_info {
public:
    explicit unwind_info(span<const std::uint8_t> bytes) {
        cfipack_message message{};
        detail::check(cfipack_unwind_info_parse(&table_, bytes.data(), bytes.size(), &message), message.text);
    }

    const cfipack_unwind_info *get() const noexcept { return &table_; }

    std::optional<cfipack_unwind_info_entry> lookup(std::uint32_t pc) const {
        cfipack_unwind_info_entry entry;
        if (!detail::is_found(cfipack_unwind_info_lookup(&table_, pc, &entry)))
            return std::nullopt;
        return entry;
    }

    std::size_t num_pages() const {
        std::size_t count = 0;
        detail::check(cfipack_unwind_info_num_pages(&table_, &count));
        return count;
    }

    std::vector<cfipack_unwind_info_entry> entries(std::size_t page) const {
        return detail::all<cfipack_unwind_info_entry>(
            [&](cfipack_unwind_info_entry *entries, std::size_t capacity, std::size_t *count) {
                return cfipack_unwind_info_get_entries(&table_, page, entries, capacity, count);
            });
    }

    std::string dump() const {
        return detail::text([&](char *text, std::size_t capacity, std::size_t *len) {
            return cfipack_unwind_info_dump(&table_, text, capacity, len);
        });
    }

private:
    cfipack_unwind_info table_;
};

/// A finished `.sframe` section that lacks only addresses.
class section {
public:
    explicit section(cfipack_section *handle) noexcept : handle_(handle) {}

    cfipack_section *get() const noexcept { return handle_.get(); }

    std::size_t size() const {
        std::size_t len = 0;
        detail::check(cfipack_section_len(get(), &len));
        return len;
    }

    std::size_t num_functions() const {
        std::size_t count = 0;
        detail::check(cfipack_section_num_functions(get(), &count));
        return count;
    }

    void omit_distant(std::uint64_t address, span<const std::uint64_t> addresses) {
        check(cfipack_section_omit_distant(get(), address, addresses.data(), addresses.size()));
    }

    std::vector<std::uint64_t> omitted() const {
        return detail::all<std::uint64_t>([&](std::uint64_t *keys, std::size_t capacity, std::size_t *count) {
            return cfipack_section_get_omitted(get(), keys, capacity, count);
        });
    }

    /// `addresses` has the address of each function, or of each input section: see CFIPACK_KEYS_...
    void write(span<std::uint8_t> out, std::uint64_t address, span<const std::uint64_t> addresses,
               const cfipack_pool &pool = threads(1)) {
        check(cfipack_section_write(get(), out.data(), out.size(), address, addresses.data(), addresses.size(), &pool));
    }

    /// Returns the functions that the last `write` omitted because they share PCs with others.
    std::vector<cfipack_conflict> conflicts() const {
        return detail::all<cfipack_conflict>([&](cfipack_conflict *out, std::size_t capacity, std::size_t *count) {
            return cfipack_section_get_conflicts(get(), out, capacity, count);
        });
    }

    void write_relocatable(span<std::uint8_t> out) {
        check(cfipack_section_write_relocatable(get(), out.data(), out.size()));
    }

    std::vector<cfipack_relocation> relocations() const {
        return detail::all<cfipack_relocation>(
            [&](cfipack_relocation *out, std::size_t capacity, std::size_t *count) {
                return cfipack_section_get_relocations(get(), out, capacity, count);
            });
    }

private:
    void check(cfipack_status status) const { detail::check(status, cfipack_section_message(get())); }

    detail::owner<cfipack_section, cfipack_section_free> handle_;
};

/// Builds the `.sframe` section of a link. The bytes of the objects must stay in memory until it is finished.
class merger {
public:
    explicit merger(std::uint32_t architecture, const cfipack_sframe_options &options = sframe_options()) {
        cfipack_message message{};
        cfipack_merger *handle = nullptr;
        detail::check(cfipack_merger_new(&handle, architecture, &options, &message), message.text);
        handle_.reset(handle);
    }

    cfipack_merger *get() const noexcept { return handle_.get(); }

    /// Returns an empty merger with the same options, for another thread.
    merger shard() const {
        cfipack_merger *handle = nullptr;
        detail::check(cfipack_merger_shard(get(), &handle));
        return merger(handle);
    }

    /// Returns a copy with the same objects, to be finished separately.
    merger copy() const {
        cfipack_merger *handle = nullptr;
        detail::check(cfipack_merger_copy(get(), &handle));
        return merger(handle);
    }

    /// Adds an object. Both arrays of starts must ascend by offset.
    cfipack_contribution push(span<const std::uint8_t> sframe, span<const cfipack_start> sframe_starts,
                              span<const std::uint8_t> eh_frame, span<const cfipack_start> eh_frame_starts) {
        cfipack_object object{};
        object.size = sizeof object;
        object.sframe = sframe.data();
        object.sframe_len = sframe.size();
        object.sframe_starts = sframe_starts.data();
        object.num_sframe_starts = sframe_starts.size();
        object.eh_frame = eh_frame.data();
        object.eh_frame_len = eh_frame.size();
        object.eh_frame_starts = eh_frame_starts.data();
        object.num_eh_frame_starts = eh_frame_starts.size();
        cfipack_contribution contribution{};
        check(cfipack_merger_push(get(), &object, &contribution));
        return contribution;
    }

    void push_stubs(const cfipack_stubs &stubs) { check(cfipack_merger_push_stubs(get(), &stubs)); }

    /// `kind` is CFIPACK_STUBS_...; an `entry_size` of 0 means the size of the kind.
    void push_known_stubs(std::uint64_t key, std::uint32_t kind, std::size_t num_entries,
                          std::uint32_t entry_size = 0) {
        check(cfipack_merger_push_known_stubs(get(), key, kind, num_entries, entry_size));
    }

    /// Gets the row at an offset in a function that has been pushed. Returns false if there is no row.
    bool row_at(std::uint64_t key, std::uint32_t offset, cfipack_row &row) {
        const cfipack_status status = cfipack_merger_row_at(get(), key, offset, &row);
        if (status == CFIPACK_STATUS_NOT_FOUND)
            return false;
        check(status);
        return true;
    }

    void note_omitted(std::uint64_t key, std::uint64_t size) { check(cfipack_merger_note_omitted(get(), key, size)); }

    void absorb(merger &&shard) { check(cfipack_merger_absorb(get(), shard.handle_.release())); }

    std::vector<cfipack_note> notes() const {
        std::size_t count = 0;
        detail::check(cfipack_merger_num_notes(get(), &count));
        std::vector<cfipack_note> notes(count);
        for (std::size_t number = 0; number != count; ++number)
            detail::check(cfipack_merger_get_note(get(), number, &notes[number]));
        return notes;
    }

    /// Finishes the section, and uses up the merger. `keys` is CFIPACK_KEYS_...
    section finish(std::uint32_t keys = CFIPACK_KEYS_FUNCTIONS, const cfipack_pool &pool = threads(1)) && {
        cfipack_section *section_handle = nullptr;
        detail::check(cfipack_merger_finish(handle_.release(), keys, &pool, &section_handle));
        return section(section_handle);
    }

    /// As `finish`, but the section reads the objects' bytes, which must stay in memory until the section is freed.
    section finish_borrowing_objects(std::uint32_t keys = CFIPACK_KEYS_FUNCTIONS, const cfipack_pool &pool = threads(1)) && {
        cfipack_section *section_handle = nullptr;
        detail::check(cfipack_merger_finish_borrowing_objects(handle_.release(), keys, &pool, &section_handle));
        return section(section_handle);
    }

private:
    explicit merger(cfipack_merger *handle) noexcept : handle_(handle) {}

    void check(cfipack_status status) const { detail::check(status, cfipack_merger_message(get())); }

    detail::owner<cfipack_merger, cfipack_merger_free> handle_;
};

/// The unwind information of a link's live functions in Mach-O. It lacks only addresses.
class unwind_section {
public:
    explicit unwind_section(cfipack_unwind_section *handle) noexcept : handle_(handle) {}

    cfipack_unwind_section *get() const noexcept { return handle_.get(); }

    std::vector<std::uint64_t> personalities() const {
        return detail::all<std::uint64_t>([&](std::uint64_t *keys, std::size_t capacity, std::size_t *count) {
            return cfipack_unwind_section_get_personalities(get(), keys, capacity, count);
        });
    }

    std::vector<cfipack_fde> fdes() const {
        return detail::all<cfipack_fde>([&](cfipack_fde *out, std::size_t capacity, std::size_t *count) {
            return cfipack_unwind_section_get_fdes(get(), out, capacity, count);
        });
    }

    std::size_t max_size() const {
        std::size_t len = 0;
        detail::check(cfipack_unwind_section_max_len(get(), &len));
        return len;
    }

    std::size_t plan(span<const std::uint32_t> tentative, std::uint32_t growth) {
        std::size_t len = 0;
        check(cfipack_unwind_section_plan(get(), tentative.data(), tentative.size(), growth, &len));
        return len;
    }

    /// Writes the table and returns its size in bytes. The rest of `out` is set to zero.
    std::size_t write(span<std::uint8_t> out, cfipack_unwind_places places) {
        std::size_t len = 0;
        places.size = sizeof places;
        check(cfipack_unwind_section_write(get(), &places, out.data(), out.size(), &len));
        return len;
    }

    std::vector<std::string> warnings() const {
        std::size_t count = 0;
        detail::check(cfipack_unwind_section_num_warnings(get(), &count));
        std::vector<std::string> warnings;
        for (std::size_t number = 0; number != count; ++number) {
            cfipack_message message{};
            detail::check(cfipack_unwind_section_get_warning(get(), number, &message));
            warnings.emplace_back(message.text);
        }
        return warnings;
    }

private:
    void check(cfipack_status status) const { detail::check(status, cfipack_unwind_section_message(get())); }

    detail::owner<cfipack_unwind_section, cfipack_unwind_section_free> handle_;
};

/// Builds the `__unwind_info` section of a link from Mach-O objects.
class unwind_builder {
public:
    explicit unwind_builder(std::uint32_t architecture,
                            const cfipack_unwind_info_options &options = unwind_info_options()) {
        cfipack_message message{};
        cfipack_unwind_builder *handle = nullptr;
        detail::check(cfipack_unwind_builder_new(&handle, architecture, &options, &message), message.text);
        handle_.reset(handle);
    }

    cfipack_unwind_builder *get() const noexcept { return handle_.get(); }

    unwind_builder shard() const {
        cfipack_unwind_builder *handle = nullptr;
        detail::check(cfipack_unwind_builder_shard(get(), &handle));
        return unwind_builder(handle);
    }

    void push(cfipack_unwind_object object) {
        object.size = sizeof object;
        check(cfipack_unwind_builder_push(get(), &object));
    }

    void push_code(std::uint64_t key, std::uint32_t length) {
        check(cfipack_unwind_builder_push_code(get(), key, length));
    }

    void absorb(unwind_builder &&shard) { check(cfipack_unwind_builder_absorb(get(), shard.handle_.release())); }

    /// Finishes the section, and uses up the builder.
    unwind_section finish() && {
        cfipack_unwind_section *section_handle = nullptr;
        detail::check(cfipack_unwind_builder_finish(handle_.release(), &section_handle));
        return unwind_section(section_handle);
    }

private:
    explicit unwind_builder(cfipack_unwind_builder *handle) noexcept : handle_(handle) {}

    void check(cfipack_status status) const { detail::check(status, cfipack_unwind_builder_message(get())); }

    detail::owner<cfipack_unwind_builder, cfipack_unwind_builder_free> handle_;
};

/// A range of generated code, with its functions.
class region {
public:
    region(std::uint32_t architecture, std::uint64_t base, std::uint64_t length) {
        cfipack_message message{};
        cfipack_region *handle = nullptr;
        detail::check(cfipack_region_new(&handle, architecture, base, length, &message), message.text);
        handle_.reset(handle);
    }

    cfipack_region *get() const noexcept { return handle_.get(); }

    void push(const char *name, std::uint64_t offset, std::uint64_t size, span<const cfipack_directive> directives) {
        check(cfipack_region_push(get(), name, offset, size, directives.data(), directives.size()));
    }

    void push_eh_frame(span<const std::uint8_t> bytes, std::uint64_t address) {
        check(cfipack_region_push_eh_frame(get(), bytes.data(), bytes.size(), address));
    }

    /// Returns the `.eh_frame` with absolute pointers, which may lie anywhere.
    std::vector<std::uint8_t> eh_frame() {
        return bytes([&](std::uint8_t *out, std::size_t capacity, std::size_t *len) {
            return cfipack_region_eh_frame(get(), CFIPACK_POINTERS_ABSOLUTE, 0, out, capacity, len, nullptr);
        });
    }

    std::vector<std::uint8_t> sframe(std::uint64_t address, const cfipack_sframe_options &options = sframe_options()) {
        return bytes([&](std::uint8_t *out, std::size_t capacity, std::size_t *len) {
            cfipack_buffer buffer{out, capacity, 0};
            const cfipack_status status = cfipack_region_sframe(get(), &options, address, &buffer, nullptr, nullptr);
            *len = buffer.len;
            return status;
        });
    }

    std::vector<std::uint8_t> gdb_elf() {
        return bytes([&](std::uint8_t *out, std::size_t capacity, std::size_t *len) {
            return cfipack_region_gdb_elf(get(), out, capacity, len);
        });
    }

private:
    template <class Call> std::vector<std::uint8_t> bytes(Call call) {
        std::size_t len = 0;
        cfipack_status status = call(nullptr, 0, &len);
        std::vector<std::uint8_t> result(len);
        if (status == CFIPACK_STATUS_BUFFER_SIZE)
            status = call(result.data(), result.size(), &len);
        check(status);
        return result;
    }

    void check(cfipack_status status) const { detail::check(status, cfipack_region_message(get())); }

    detail::owner<cfipack_region, cfipack_region_free> handle_;
};

/// A reader of a registry, for other threads and for signal handlers.
class registry_reader {
public:
    explicit registry_reader(const cfipack_registry *registry) {
        cfipack_registry_reader *handle = nullptr;
        detail::check(cfipack_registry_reader_new(&handle, registry));
        handle_.reset(handle);
    }

    const cfipack_registry_reader *get() const noexcept { return handle_.get(); }

    /// Async-signal-safe; it never waits.
    std::optional<cfipack_row> lookup(std::uint64_t pc) const {
        cfipack_row row;
        if (!detail::is_found(cfipack_registry_lookup(get(), pc, &row)))
            return std::nullopt;
        return row;
    }

private:
    detail::owner<cfipack_registry_reader, cfipack_registry_reader_free> handle_;
};

/// The rows of all registered regions of generated code.
class registry {
public:
    explicit registry(std::uint32_t architecture) {
        cfipack_message message{};
        cfipack_registry *handle = nullptr;
        detail::check(cfipack_registry_new(&handle, architecture, &message), message.text);
        handle_.reset(handle);
    }

    cfipack_registry *get() const noexcept { return handle_.get(); }

    registry_reader reader() const { return registry_reader(get()); }

    /// Adds a region and returns the number of its functions without rows. `undo` is called when the region is
    /// removed.
    std::size_t add(const region &added, cfipack_undo undo = {}) {
        std::size_t omitted = 0;
        check(cfipack_registry_add(get(), added.get(), &undo, &omitted));
        return omitted;
    }

    void remove(std::uint64_t base) { check(cfipack_registry_remove(get(), base)); }

private:
    void check(cfipack_status status) const { detail::check(status, cfipack_registry_message(get())); }

    detail::owner<cfipack_registry, cfipack_registry_free> handle_;
};

/// A `.sframe` table that was converted from the call frame information of a linked file.
class conversion {
public:
    /// If you pass `damage`, a record that reaches beyond its section throws no exception. `damage` gets the error,
    /// and the table has the functions that can be found. If there is no damaged record, `damage` gets an empty message.
    conversion(std::uint32_t architecture, span<const cfipack_cfi_section> sections, std::uint64_t address,
               const cfipack_sframe_options &options = sframe_options(), const cfipack_pool &pool = threads(1),
               cfipack_message *damage = nullptr) {
        cfipack_message message{};
        cfipack_conversion *handle = nullptr;
        const cfipack_cfi_sections cfi{sections.data(), sections.size(), architecture};
        const cfipack_status status = cfipack_conversion_new(&handle, &cfi, &options, address, &pool, &message);
        handle_.reset(handle);
        if (damage != nullptr)
            *damage = message;
        if (damage == nullptr || handle == nullptr)
            detail::check(status, message.text);
    }

    cfipack_conversion *get() const noexcept { return handle_.get(); }

    std::vector<std::uint8_t> bytes() {
        std::size_t len = 0;
        detail::check(cfipack_conversion_len(get(), &len));
        std::vector<std::uint8_t> result(len);
        detail::check(cfipack_conversion_write(get(), result.data(), result.size()), cfipack_conversion_message(get()));
        return result;
    }

private:
    detail::owner<cfipack_conversion, cfipack_conversion_free> handle_;
};

/// The result of comparing a table with call frame information.
class report {
public:
    report(std::uint32_t architecture, span<const cfipack_cfi_section> sections, span<const std::uint8_t> table,
           std::uint64_t address, const cfipack_pool &pool = threads(1)) {
        cfipack_message message{};
        cfipack_report *handle = nullptr;
        const cfipack_cfi_sections cfi{sections.data(), sections.size(), architecture};
        detail::check(cfipack_verify_sframe(&handle, &cfi, table.data(), table.size(), address, &pool, &message),
                      message.text);
        handle_.reset(handle);
    }

    cfipack_report *get() const noexcept { return handle_.get(); }

    cfipack_report_counts counts() const {
        cfipack_report_counts counts{};
        detail::check(cfipack_report_get_counts(get(), &counts));
        return counts;
    }

    std::string text() const {
        return detail::text([&](char *text, std::size_t capacity, std::size_t *len) {
            return cfipack_report_text(get(), text, capacity, len);
        });
    }

private:
    detail::owner<cfipack_report, cfipack_report_free> handle_;
};

} // namespace cfipack

#endif
