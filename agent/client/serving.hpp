// serving.json: what `ductl up` hands to duck-engine, in the flock's state folder. One writer (ductl), one reader (engine).
// Written whole and renamed into place. No secret in it: the key is read from the state folder's key file.
#pragma once

#include "inventory/inventory.hpp"

#include <filesystem>

namespace ductl::agent {

struct ServingDuck {
  std::string name;
  int port_index = 0;
  inventory::Ipv4 address = 0;
  std::uint16_t control_port = 0, data_port = 0;
  bool operator==(const ServingDuck&) const = default;
};

struct Serving {
  std::string flock;
  std::string model_source; // as open_checkpoint takes it
  std::string chat_format;
  std::filesystem::path manifest;
  std::uint32_t epoch = 0;
  std::uint64_t slices_total = 0; // over all ducks
  std::vector<inventory::Port> ports;
  std::vector<ServingDuck> ducks; // index = number on the wire
  inventory::Engine engine;
  inventory::Limits limits;
};

[[nodiscard]] Expected<Serving> load_serving(const std::filesystem::path& file);
[[nodiscard]] Expected<void> save_serving(const Serving& serving, const std::filesystem::path& file);
[[nodiscard]] std::string serving_text(const Serving& serving); // the file's text; equal text = nothing changed

} // namespace ductl::agent
