// C++ with exceptions, templates, virtual functions and the standard library, for its call frame information.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Shape {
public:
    virtual ~Shape() = default;
    virtual double area() const = 0;
    virtual std::string name() const { return "shape"; }
};

class Square final : public Shape {
    double side;

public:
    explicit Square(double side) : side(side) {
        if (side < 0) throw Error("negative side");
    }
    double area() const override { return side * side; }
    std::string name() const override { return "square"; }
};

class Circle : public virtual Shape {
    double radius;

public:
    explicit Circle(double radius) : radius(radius) {}
    double area() const override { return 3.14159 * radius * radius; }
};

template <typename T, int N>
struct Stack {
    T items[N];
    int count = 0;
    void push(T item) {
        if (count == N) throw std::length_error("full");
        items[count++] = std::move(item);
    }
    T pop() {
        if (count == 0) throw std::out_of_range("empty");
        return std::move(items[--count]);
    }
};

template struct Stack<int, 4>;
template struct Stack<std::string, 3>;
template struct Stack<std::unique_ptr<Shape>, 7>;

template <typename F>
__attribute__((noinline)) auto guarded(F f) noexcept(false) -> decltype(f()) {
    struct Note {
        ~Note() { asm volatile("" ::: "memory"); }
    } note;
    return f();
}

std::vector<std::unique_ptr<Shape>> make(int count) {
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < count; i++) {
        if (i % 2)
            shapes.push_back(std::make_unique<Square>(i));
        else
            shapes.push_back(std::make_unique<Circle>(i));
    }
    return shapes;
}

std::map<std::string, double> totals(const std::vector<std::unique_ptr<Shape>>& shapes) {
    std::map<std::string, double> totals;
    for (auto& shape : shapes) totals[shape->name()] += shape->area();
    return totals;
}

int recursive(int depth, const std::function<int(int)>& f) {
    char space[64];
    for (auto& byte : space) byte = static_cast<char>(depth);
    asm volatile("" ::"r"(space) : "memory");
    return depth == 0 ? f(space[3]) : recursive(depth - 1, f) + 1;
}

double checked(int count) {
    static const std::string prefix = "total: ";
    try {
        Stack<int, 4> stack;
        for (int i = 0; i < count; i++) stack.push(i);
        auto all = make(stack.pop());
        double sum = 0;
        for (auto& [name, total] : totals(all)) sum += total + static_cast<double>((prefix + name).size());
        return guarded([&] { return sum + recursive(count, [&](int x) { return x + count; }); });
    } catch (const std::length_error& error) {
        return -1;
    } catch (Error&) {
        throw;
    } catch (...) {
        return -2;
    }
}

__attribute__((cold)) void fail(int code) {
    throw Error("code " + std::to_string(code));
}

int sorted(std::vector<int> values) {
    std::sort(values.begin(), values.end(), [](int a, int b) { return a > b; });
    if (values.empty()) fail(static_cast<int>(values.size()));
    int sum = 0;
    for (int value : values) sum = sum * 3 + value;
    return sum;
}

}  // namespace shapes

int main(int argc, char**) {
    return static_cast<int>(shapes::checked(argc)) + shapes::sorted({argc, 2, 3});
}
