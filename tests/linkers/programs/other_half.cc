#include "throws.hpp"

long other_half(long factor) {
  std::vector<Shape<long>> shapes{Shape<long>(5), Shape<long>(7)};
  std::vector<Shape<double>> others{Shape<double>(1.5)};
  return sum(shapes, factor) + static_cast<long>(sum(others, 2.0));
}
