// Works like a linker: pushes objects with keys, gets the size, and writes with addresses, again after each relayout.
#include "cfipack.hpp"

#include <cstdio>

using bytes = std::vector<std::uint8_t>;

int main() {
    try {
        // Call frame information of an object: a CIE, and FDEs of two functions whose starts are relocated.
        const bytes eh_frame{
            20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0, // CIE
            20, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0x41, 0x0e, 16, 0, 0, 0, 0,       // at 32
            20, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0x44, 0x0e, 32, 0, 0, 0, 0,       // at 56
            0, 0, 0, 0};

        // Input sections of the link are numbered. The number is the index of the section's address. The upper 32
        // bits of a function's key are this number, and the lower bits are its offset in the section. The second
        // function of the second object is discarded. PLTs have numbers too.
        const auto key = [](std::uint64_t section, std::uint32_t offset) { return section << 32 | offset; };
        const cfipack_start first[] = {{32, key(0, 0), CFIPACK_WHOLE_FUNCTION, 0},
                                       {56, key(0, 0x10), CFIPACK_WHOLE_FUNCTION, 0}};
        const cfipack_start second[] = {{32, key(1, 0), CFIPACK_WHOLE_FUNCTION, 0}};
        cfipack::merger merger(CFIPACK_ARCH_AMD64);
        auto shard = merger.shard();
        merger.push({}, {}, eh_frame, {first, 2});
        const auto contribution = shard.push({}, {}, eh_frame, {second, 1});
        merger.absorb(std::move(shard));

        // Two entries of a PLT that the library knows, and three entries of an unknown PLT.
        merger.push_known_stubs(key(2, 0), CFIPACK_STUBS_AMD64_LAZY_PLT, 2);
        cfipack_row row{};
        row.cfa = {CFIPACK_RULE_REGISTER, 7, 8};
        row.return_address = {CFIPACK_RULE_CFA, 0, -8};
        row.frame_pointer = {CFIPACK_RULE_SAME_VALUE, 0, 0};
        cfipack_stubs plt{};
        plt.key = key(3, 0);
        plt.num_entries = 3;
        plt.entry = {&row, 1, 16, 0};
        merger.push_stubs(plt);
        for (const auto &note : merger.notes())
            std::printf("object %u: %s\n", static_cast<unsigned>(note.object), note.message.text);

        auto section = std::move(merger).finish_borrowing_objects(CFIPACK_KEYS_SECTIONS);
        bytes out(section.size());
        std::printf("%zu bytes, %zu entries, %u function of the second object\n", out.size(), section.num_functions(),
                    static_cast<unsigned>(contribution.from_cfi));
        for (std::uint64_t text : {0x1000, 0x7000}) {
            const std::uint64_t addresses[] = {text, text + 0x40, text + 0xd0, text + 0x100};
            section.write(out, 0x2000, {addresses, 4});
            const cfipack::sframe table(out, 0x2000);
            table.validate();
            const auto function = table.lookup(text + 0x48), stub = table.lookup(text + 0xf0 + 11);
            if (!function || function->cfa.offset != 16 || !stub || stub->cfa.offset != 16)
                return 1;
            if (table.lookup(text + 0x50) || !table.lookup(text + 0x12f) || table.lookup(text + 0x130))
                return 1;
        }
        std::printf("%s", cfipack::sframe(out, 0x2000).dump().c_str());
    } catch (const cfipack::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
