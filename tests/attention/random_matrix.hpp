// Random weight matrices of every stored type, for tests and measurements of the dense kernels.
#pragma once

#include "engine/attention/kernels/dense.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <cmath>
#include <cstring>

namespace ductl::test {

struct RandomMatrix {
  std::vector<std::uint8_t> data, scale;
  engine::DenseMatrix view;

  RandomMatrix(engine::DenseType type, int rows, int columns, std::uint64_t seed, bool scale_bf16 = false) {
    TinyRandom random(seed);
    for (int i = 0; i < rows * columns; ++i) append(type, random);
    view = {data.data(), nullptr, type, scale_bf16, rows, columns, 0};
    if (type != engine::DenseType::F8E4M3) return;
    for (int i = 0; i < (rows + 127) / 128 * ((columns + 127) / 128); ++i) {
      const auto value = float(0.01 + random.uniform() / 64);
      if (scale_bf16)
        push(scale, bf16_of(value));
      else
        push(scale, value);
    }
    view.scale = scale.data();
  }

  // The element as double, by its own road.
  [[nodiscard]] double at(int row, int column) const {
    const std::size_t index = std::size_t(row) * view.columns + column;
    switch (view.type) {
    case engine::DenseType::F32: return load<float>(data, index);
    case engine::DenseType::Bf16: return bf16(load<std::uint16_t>(data, index));
    case engine::DenseType::F16: return f16(load<std::uint16_t>(data, index));
    case engine::DenseType::F8E4M3: break;
    }
    const std::size_t block = std::size_t((view.first_row + row) / 128) * ((view.columns + 127) / 128) + column / 128;
    const float factor = view.scale_bf16 ? bf16(load<std::uint16_t>(scale, block)) : load<float>(scale, block);
    return e4m3_value(data[index]) * factor; // in float
  }

private:
  template <class T> static void push(std::vector<std::uint8_t>& out, T value) {
    out.resize(out.size() + sizeof value);
    std::memcpy(out.data() + out.size() - sizeof value, &value, sizeof value);
  }
  template <class T> static T load(const std::vector<std::uint8_t>& from, std::size_t index) {
    T value;
    std::memcpy(&value, from.data() + index * sizeof value, sizeof value);
    return value;
  }
  static float bf16(std::uint16_t bits) {
    const std::uint32_t wide = std::uint32_t(bits) << 16;
    float value = 0;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  static double f16(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
  void append(engine::DenseType type, TinyRandom& random) {
    switch (type) {
    case engine::DenseType::F32: return push(data, random.normal());
    case engine::DenseType::Bf16: return push(data, bf16_of(random.normal()));
    // with subnormals
    case engine::DenseType::F16: return push(data, f16_of(random.bits() % 8 == 0 ? random.normal() * 1e-5F : random.normal()));
    case engine::DenseType::F8E4M3: break;
    }
    const auto code = std::uint8_t(random.bits());
    data.push_back((code & 0x7f) == 0x7f ? 0 : code); // all but NaN
  }
};

} // namespace ductl::test
