// Notices what no single packet shows: a duck that starts again and again, DISCOVERs that never become a REQUEST, another DHCP
// server, strangers. Facts in, events out; no I/O, no clock, one thread. Memory is bounded: by the plan's ducks, and by
// kStrangersMax for MACs and servers that are not in the plan.
#pragma once

#include "netboot/boot_events.hpp"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ductl::netboot {

// How far a boot has come. A boot that is seen at an earlier stage than before has started anew.
enum class BootStage { None, Firmware, Loader, Kernel, Agent };

class BootWatch {
public:
  static constexpr std::size_t kStrangersMax = 64;
  static constexpr std::chrono::minutes kStrangerRepeat{10}; // the same stranger is reported again after this
  static constexpr int kDiscoversMax = 4;                    // so many without a REQUEST are reported

  BootWatch(const BootPlan& plan, std::vector<BootEvent>& events); // both must outlive this; events are appended

  // A DISCOVER that was answered. `xid` tells a repeat from a new attempt; `client` is for the text.
  void discover(int duck, int port, BootStage stage, std::uint32_t xid, const char* client, Instant now);
  void request(int duck);        // it took an offer, ours or another server's
  void kernel_fetched(int duck); // loader and script told apart from it by their requests
  void agent_seen(int duck);     // by DHCP, or told from outside
  void unknown_mac(int port, const Mac& mac, const char* client, Instant now);
  void wrong_port(int duck, int port, Instant now);
  void foreign_server(int port, Ipv4 server, const char* evidence, Instant now);

private:
  struct Life {
    BootStage stage = BootStage::None;
    std::uint32_t xid = 0;
    int discovers = 0; // since the last REQUEST
    bool no_request_told = false;
    std::vector<Instant> starts; // within the rule's window, at most rule.starts
  };
  using Stranger = std::pair<int, std::uint64_t>; // port, and MAC or address

  void started(int duck, int port, Instant now);
  void note_starvation(int duck, int port, Instant now);
  [[nodiscard]] bool is_news(std::map<Stranger, Instant>& told, Stranger who, Instant now) const;
  void add(BootEventKind kind, int port, int duck, const Mac& mac, std::string text, Instant now);

  const BootPlan& plan_;
  std::vector<BootEvent>& events_;
  std::vector<Life> lives_;
  std::vector<std::optional<Ipv4>> foreign_; // last seen, by port
  std::map<Stranger, Instant> macs_, misplaced_, servers_;
};

} // namespace ductl::netboot
