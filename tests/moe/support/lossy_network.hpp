// A network in virtual time that loses, doubles, reorders and damages frames, all from one seed.
//
// Nodes are endpoints: ducks get a callback for each frame, a host port is a Transport (NetworkPort) whose wait() is what makes
// time pass: it runs the events up to the first frame for that port, or to the timeout. One thread; no clock is read.
#pragma once

#include "agent/transport/transport.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace ductl::testing {

struct Faults { // chances of each, per frame
  double loss = 0, duplication = 0, reordering = 0, corruption = 0;
};

class LossyNetwork {
public:
  using Receiver = std::function<void(agent::Endpoint from, std::span<const std::byte> frame)>;

  LossyNetwork(std::uint64_t seed, Faults faults);
  [[nodiscard]] static Instant now(); // the virtual time of the network made last on this thread
  void attach(agent::Endpoint at, Receiver receiver);
  void send(agent::Endpoint from, agent::Endpoint to, std::vector<std::byte> frame);
  void at(Duration delay, std::function<void()> action);
  // Runs events until `done` or the time has come; false = timeout.
  bool run_until(Instant end, const std::function<bool()>& done);
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  [[nodiscard]] std::uint64_t frames() const { return frames_; }
  void set_faults(Faults faults) { faults_ = faults; }
  [[nodiscard]] std::uint64_t& unread() { return unread_; } // frames that have come to any host port and were not received yet

private:
  struct Event {
    Instant time;
    std::uint64_t order; // of equal times
    std::function<void()> action;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };
  struct Path { // between two endpoints: in order, unless reordering strikes
    agent::Endpoint from, to;
    Instant last{};
  };
  bool chance(double probability);
  Path& path(agent::Endpoint from, agent::Endpoint to);
  void schedule(Instant time, std::function<void()> action);

  std::mt19937_64 random_;
  Faults faults_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::pair<agent::Endpoint, Receiver>> nodes_;
  std::vector<Path> paths_;
  std::uint64_t order_ = 0, frames_ = 0, unread_ = 0;
};

class NetworkPort final : public agent::Transport {
public:
  NetworkPort(LossyNetwork& network, agent::Endpoint local, std::size_t mtu);
  std::size_t mtu() const override { return mtu_; }
  agent::Endpoint local() const override { return local_; }
  std::size_t send(std::span<const agent::OutgoingFrame> burst) override;
  std::size_t receive(std::span<agent::IncomingFrame> burst) override;
  void release(std::span<const agent::IncomingFrame> burst) override;
  void wait(Duration timeout) override;
  void wake() override {}

private:
  struct Arrived {
    agent::Endpoint from;
    std::vector<std::byte> bytes;
  };
  LossyNetwork& network_;
  agent::Endpoint local_;
  std::size_t mtu_;
  std::deque<Arrived> inbox_, lent_;
};

} // namespace ductl::testing
