// Boot files over HTTP: accepts, reads heads, sends answers; file bodies by sendfile. Loop's thread.
//
// The answers are file_answer.hpp's; here are sockets and deadlines only. kConnectionsMax connections; beyond them the one that
// has waited longest without a request makes room. A fault on a connection ends that connection.
// sendfile has no MSG_NOSIGNAL: SIGPIPE must be blocked in the thread.
#pragma once

#include "netboot/boot_plan.hpp"
#include "netboot/descriptor.hpp"
#include "netboot/file_answer.hpp"

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

namespace ductl::netboot {

struct FetchReport {
  enum class What { Begun, Sent, Failed } what = What::Begun;
  int port_index = 0;
  Ipv4 address = 0;
  std::string file;
  std::uint64_t bytes = 0; // Sent: of this answer; Failed: of them that went out
  double seconds = 0;
  std::string reason; // Failed
};

class FileListener {
public:
  using Report = std::function<void(const FetchReport&)>;
  static constexpr std::size_t kConnectionsMax = 128;

  // `listener` is a listening TCP socket. All must outlive this.
  static std::unique_ptr<FileListener> start(boost::asio::io_context& io, Descriptor listener, int port_index,
                                             const BootFiles& files, Report report);
  virtual ~FileListener() = default; // closes every connection
};

} // namespace ductl::netboot
