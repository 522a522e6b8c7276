// Transport over a kernel UDP socket: sendmmsg and recvmmsg, non-blocking, poll() to wait.
//
// On loopback a frame may have up to 60 KiB, elsewhere what fits the interface's MTU. The receive buffer is asked for with
// SO_RCVBUFFORCE, then SO_RCVBUF; what the kernel gave is receive_buffer_bytes().
#pragma once

#include "agent/transport/transport.hpp"
#include "inventory/error.hpp"

#include <memory>

namespace ductl::agent {

class UdpTransport : public Transport {
public:
  // The kernel's own figure, which charges its bookkeeping to it too: count on half of it for frames.
  [[nodiscard]] virtual std::size_t receive_buffer_bytes() const = 0;
};

struct UdpOptions {
  Endpoint bind; // port 0 = kernel-chosen
  std::size_t receive_buffer_bytes = 8u << 20;
};
[[nodiscard]] Expected<std::unique_ptr<UdpTransport>> open_udp_transport(const UdpOptions& options);

} // namespace ductl::agent
