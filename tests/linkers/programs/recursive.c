/* A frame of variable size, recursion, and a function for --gc-sections. */
int shared_depth(int depth);

__attribute__((noinline)) static int of_variable_size(int size) {
  volatile char bytes[size + 1];
  for (int at = 0; at <= size; at++) bytes[at] = (char)at;
  return shared_depth(bytes[size] % 5);
}

int recursive(int depth) {
  return depth == 0 ? of_variable_size(40) : recursive(depth - 1) + depth;
}

__attribute__((noinline)) int nobody_calls(int depth) { return recursive(depth) * 3; }
