#include "tests/moe/support/lossy_network.hpp"

#include <algorithm>

namespace ductl::testing {
namespace {
thread_local Instant virtual_now{};
constexpr Duration kDelay = std::chrono::microseconds(20);
constexpr Duration kJitter = std::chrono::microseconds(10);
constexpr Duration kReordered = std::chrono::microseconds(300);
constexpr Instant kBegin = Instant(std::chrono::hours(1));
} // namespace

LossyNetwork::LossyNetwork(std::uint64_t seed, Faults faults) : random_(seed), faults_(faults) { virtual_now = kBegin; }

Instant LossyNetwork::now() { return virtual_now; }

void LossyNetwork::attach(agent::Endpoint at, Receiver receiver) { nodes_.emplace_back(at, std::move(receiver)); }

bool LossyNetwork::chance(double probability) {
  return probability > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

LossyNetwork::Path& LossyNetwork::path(agent::Endpoint from, agent::Endpoint to) {
  const auto it = std::find_if(paths_.begin(), paths_.end(), [&](const Path& p) { return p.from == from && p.to == to; });
  return it != paths_.end() ? *it : paths_.emplace_back(Path{from, to});
}

void LossyNetwork::schedule(Instant time, std::function<void()> action) { events_.push({time, ++order_, std::move(action)}); }

void LossyNetwork::at(Duration delay, std::function<void()> action) { schedule(virtual_now + delay, std::move(action)); }

void LossyNetwork::send(agent::Endpoint from, agent::Endpoint to, std::vector<std::byte> frame) {
  ++frames_;
  const int copies = 1 + static_cast<int>(chance(faults_.duplication));
  for (int copy = 0; copy < copies; ++copy) {
    if (chance(faults_.loss)) continue;
    auto bytes = frame;
    if (chance(faults_.corruption) && !bytes.empty()) {
      bytes[random_() % bytes.size()] ^= std::byte{1} << (random_() % 8);
      if (chance(0.2)) bytes.resize(random_() % bytes.size());
    }
    Path& p = path(from, to);
    Instant time = std::max(p.last, virtual_now + kDelay + kJitter * static_cast<int>(random_() % 100) / 100);
    if (chance(faults_.reordering)) {
      time += kReordered * static_cast<int>(random_() % 100) / 100; // later frames may overtake
    } else {
      p.last = time;
    }
    schedule(time, [this, from, to, bytes = std::move(bytes)] {
      for (const auto& [endpoint, receiver] : nodes_) {
        if (endpoint == to) receiver(from, bytes);
      }
    });
  }
}

bool LossyNetwork::run_until(Instant end, const std::function<bool()>& done) {
  while (!done()) {
    if (events_.empty() || events_.top().time > end) {
      virtual_now = std::max(virtual_now, end);
      return false;
    }
    auto action = std::move(const_cast<Event&>(events_.top()).action); // popped in the next line
    virtual_now = std::max(virtual_now, events_.top().time);
    events_.pop();
    action();
  }
  return true;
}

NetworkPort::NetworkPort(LossyNetwork& network, agent::Endpoint local, std::size_t mtu)
    : network_(network), local_(local), mtu_(mtu) {
  network.attach(local, [this](agent::Endpoint from, std::span<const std::byte> frame) {
    inbox_.push_back({from, {frame.begin(), frame.end()}});
    ++network_.unread();
  });
}

std::size_t NetworkPort::send(std::span<const agent::OutgoingFrame> burst) {
  for (const agent::OutgoingFrame& frame : burst) {
    std::vector<std::byte> bytes(frame.head.begin(), frame.head.end());
    bytes.insert(bytes.end(), frame.body.begin(), frame.body.end());
    network_.send(local_, frame.to, std::move(bytes));
  }
  return burst.size();
}

std::size_t NetworkPort::receive(std::span<agent::IncomingFrame> burst) {
  std::size_t count = 0;
  for (; count < burst.size() && !inbox_.empty(); ++count) {
    lent_.push_back(std::move(inbox_.front()));
    inbox_.pop_front();
    --network_.unread();
    burst[count] = {.from = lent_.back().from, .bytes = lent_.back().bytes, .handle = count};
  }
  return count;
}

void NetworkPort::release(std::span<const agent::IncomingFrame> burst) {
  lent_.erase(lent_.begin(), lent_.begin() + static_cast<std::ptrdiff_t>(burst.size()));
}

void NetworkPort::wait(Duration timeout) {
  network_.run_until(LossyNetwork::now() + std::max(timeout, Duration(1)), [this] { return network_.unread() > 0; });
}

} // namespace ductl::testing
