// Exceptions through frames of both halves, which the C++ library unwinds by .eh_frame.
#include "throws.hpp"

#include <iostream>

int main() {
  std::vector<Shape<long>> shapes;
  for (long size = 0; size < 10; size++) shapes.emplace_back(size);
  std::cout << sum(shapes, 2L) << ' ' << other_half(3) << ' ';
  try {
    std::cout << other_half(-1);
  } catch (const std::exception &exception) {
    std::cout << exception.what() << '\n';
  }
}
