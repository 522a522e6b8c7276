// The data plane's seam: frames in and out, in bursts.
//
// One thread per instance. send() and receive() never block and never allocate. A received frame is borrowed until
// release(). A frame is the payload of one UDP datagram, at most mtu() bytes; it may be lost, doubled, reordered or damaged.
#pragma once

#include "inventory/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ductl::agent {

struct Endpoint {
  std::uint32_t address = 0; // IPv4, host byte order
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

struct OutgoingFrame {
  Endpoint to;
  std::span<const std::byte> head, body; // gathered; either may be empty; copied or sent before send() returns
};

struct IncomingFrame {
  Endpoint from;
  std::span<const std::byte> bytes;
  std::uintptr_t handle = 0; // the transport's own
};

class Transport {
public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual std::size_t mtu() const = 0;
  [[nodiscard]] virtual Endpoint local() const = 0;
  // Returns how many of the burst were taken; the rest may be offered again.
  virtual std::size_t send(std::span<const OutgoingFrame> burst) = 0;
  virtual std::size_t receive(std::span<IncomingFrame> burst) = 0;
  virtual void release(std::span<const IncomingFrame> burst) = 0;
  // Sleeps until a frame may have come, wake() was called (any thread), or `timeout` has passed. Transports that poll return at
  // once.
  virtual void wait(Duration timeout) = 0;
  virtual void wake() = 0;
  // A descriptor that turns readable when a frame has come, for waiting on several transports at once (wait_any()); -1 = only
  // polling.
  [[nodiscard]] virtual int wait_descriptor() const { return -1; }
};

} // namespace ductl::agent
