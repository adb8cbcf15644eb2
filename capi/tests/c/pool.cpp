// Runs the library's tasks on a pool of std::thread. The bytes are the same as without a pool.
#include "cfipack.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

int main() {
    // A CIE, and FDEs of functions of 16 bytes that push a register in their second byte.
    constexpr std::uint32_t num_functions = 20000, code = 0x100000, cfi_address = 0x4000000;
    std::vector<std::uint8_t> eh_frame{20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0};
    const auto word = [&](std::uint32_t value) {
        for (unsigned shift = 0; shift != 32; shift += 8)
            eh_frame.push_back(static_cast<std::uint8_t>(value >> shift));
    };
    for (std::uint32_t number = 0; number != num_functions; ++number) {
        const auto at = static_cast<std::uint32_t>(eh_frame.size());
        word(20);
        word(at + 4);
        word(code + 16 * number - (cfi_address + at + 8));
        word(16);
        eh_frame.insert(eh_frame.end(), {0, static_cast<std::uint8_t>(0x41 + number % 15), 0x0e, 16, 0, 0, 0, 0});
    }

    std::atomic<std::size_t> tasks{0};
    const auto run = [&](std::size_t count, auto task) {
        std::vector<std::thread> threads;
        for (std::size_t index = 0; index != count; ++index)
            threads.emplace_back([&tasks, task, index] { ++tasks, task(index); });
        for (auto &thread : threads)
            thread.join();
    };
    const auto pool = cfipack::pool(4, run);

    cfipack_cfi_section section{};
    section.bytes = eh_frame.data();
    section.len = eh_frame.size();
    section.address = cfi_address;
    section.kind = CFIPACK_EH_FRAME;
    const auto options = cfipack::sframe_options();
    const auto alone = cfipack::conversion(CFIPACK_ARCH_AMD64, {&section, 1}, 0x3000000).bytes();
    const auto pooled = cfipack::conversion(CFIPACK_ARCH_AMD64, {&section, 1}, 0x3000000, options, pool).bytes();
    const auto started = cfipack::conversion(CFIPACK_ARCH_AMD64, {&section, 1}, 0x3000000, options, cfipack::threads(4)).bytes();
    const auto counts = cfipack::report(CFIPACK_ARCH_AMD64, {&section, 1}, pooled, 0x3000000, pool).counts();
    std::printf("%zu bytes, %zu tasks, %llu functions\n", pooled.size(), tasks.load(),
                static_cast<unsigned long long>(counts.equal));
    return alone != pooled || alone != started || tasks < 2 || !counts.is_complete || counts.equal != num_functions;
}
