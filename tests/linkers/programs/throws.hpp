// Templates that both halves instantiate: COMDAT groups, one of which wins.
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

template <typename T> struct Shape {
  explicit Shape(T size) : size(size) {}
  virtual ~Shape() = default;
  virtual T area(T factor) const {
    if (factor < 0) throw std::invalid_argument("negative: " + std::to_string(factor));
    return size * factor;
  }
  T size;
};

template <typename T> __attribute__((noinline)) T sum(const std::vector<Shape<T>> &shapes, T factor) {
  std::map<T, std::string> names;
  T all = 0;
  for (const auto &shape : shapes) {
    names[shape.size] = std::to_string(shape.size);
    all += shape.area(factor);
  }
  return all + static_cast<T>(names.size());
}

long other_half(long factor);
