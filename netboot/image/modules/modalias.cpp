#include "netboot/image/modules/modalias.hpp"

#include <fnmatch.h>

namespace ductl::image {

bool modalias_matches(const std::string& pattern, const std::string& modalias) {
  return ::fnmatch(pattern.c_str(), modalias.c_str(), 0) == 0;
}

} // namespace ductl::image
