// What the compiler is recorded with.
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

int main() {
  std::map<std::string, std::vector<int>> numbers;
  for (int i = 0; i < 100000; i++) numbers[std::to_string(i % 977)].push_back(i);
  std::regex expression("a+b");
  std::cout << std::regex_search(std::string("xaab"), expression) << numbers.size();
  try {
    throw std::runtime_error("x");
  } catch (std::exception &error) {
    std::cout << error.what();
  }
}
