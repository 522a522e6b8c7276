// lab-model FOLDER: the tiny random model of the tests, for the lab by hand.
#include "tests/end_to_end/tiny_flock.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: lab-model FOLDER\n", stderr), 64;
  ductl::test::write_tiny_model(argv[1]);
}
