// Little-endian numbers in byte buffers, and aligned arrays that are allocated once.
//
// Everything on the wire is little-endian, and so is every machine this runs on (asserted), so a number's bytes are copied
// as they are. Copying, never casting a pointer: payloads have any alignment.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace ductl::wire {

static_assert(std::endian::native == std::endian::little, "the wire format is copied, not converted");

template <class T> [[nodiscard]] T load(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(offset + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T> void store(std::span<std::byte> bytes, std::size_t offset, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(offset + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// 64-byte aligned, uninitialised (pages that are never touched cost nothing).
template <class T> class AlignedArray {
public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t count) : data_(allocate(count)), size_(count) {}
  [[nodiscard]] T* data() { return data_.get(); }
  [[nodiscard]] const T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<T> span() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const T> span() const { return {data_.get(), size_}; }

private:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };
  static T* allocate(std::size_t count) {
    return count == 0 ? nullptr : static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

} // namespace ductl::wire
