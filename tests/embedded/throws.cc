// Exceptions through frames of the C++ library, thrown and caught in several ways.
#include <algorithm>
#include <iostream>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
struct Noisy { std::string name; ~Noisy() { std::cout << "~" << name << ' '; } };
static int depth(int n) {
    Noisy noisy{std::to_string(n)};
    if (n == 0) throw std::out_of_range("bottom");
    return depth(n - 1) + 1;
}
int main() {
    try { depth(6); } catch (const std::exception &e) { std::cout << e.what() << '\n'; }
    std::vector<int> numbers(1000);
    for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1000;
    try {
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) { if (a == 500 && b == 501) throw a; return a < b; });
    } catch (int n) { std::cout << n << '\n'; }
    try { std::regex bad("(a"); } catch (const std::regex_error &) { std::cout << "regex\n"; }
    std::exception_ptr kept;
    std::thread([&] { try { std::string().at(3); } catch (...) { kept = std::current_exception(); } }).join();
    try { std::rethrow_exception(kept); } catch (const std::out_of_range &) { std::cout << "thread\n"; }
}
