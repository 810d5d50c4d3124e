// Opens a GGUF file through the installed library and prints its tensor count.
#include <cstdio>

#include "sluice/gguf.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto file = sluice::gguf::File::open(argv[1]);
  if (!file) {
    std::fprintf(stderr, "error: %s\n", file.error().message.c_str());
    return 1;
  }
  std::printf("%zu tensors, %.*s\n", file->tensors().size(), int(sluice::type_info(sluice::Type::Q4_0).name.size()),
              sluice::type_info(sluice::Type::Q4_0).name.data());
  return 0;
}
