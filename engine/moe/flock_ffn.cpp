// The loop that joins HostRounds to the ports' transports. Decides nothing: it moves frames and reads the clock.
#include "engine/moe/flock_ffn.hpp"

#include "agent/transport/udp_transport.hpp"
#include "agent/transport/wait_any.hpp"
#include "agent/wire/header.hpp"
#include "agent/wire/request.hpp"
#include "engine/moe/round.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <fmt/core.h>
#include <thread>

namespace ductl::engine {
namespace {

constexpr Duration kWaitMax = std::chrono::milliseconds(100);
constexpr Duration kBlockedWait = std::chrono::milliseconds(1); // a transport did not take all of a burst
constexpr Duration kSpin = std::chrono::microseconds(50);       // before sleeping, where there is a core to spare
constexpr int kIntakeBurstsMax = 256;                           // of one port and pass, so that a flood cannot stop the clock

bool is_local(const FlockDuck& duck) { return duck.data.address >> 24 == 127; }

// The most tokens whose replies fit into half of each port's receive buffer, were they all to arrive before the first is read.
int choose_tokens_max(const FlockFfnOptions& options, int hidden, std::span<const std::unique_ptr<agent::Transport>> transports) {
  int tokens_max = wire::kTokensMax;
  for (std::size_t port = 0; port < transports.size(); ++port) {
    const auto* udp = dynamic_cast<const agent::UdpTransport*>(transports[port].get());
    if (udp == nullptr) continue;
    const auto on_port = static_cast<std::size_t>(std::count_if(
        options.ducks.begin(), options.ducks.end(), [&](const FlockDuck& d) { return d.port_index == static_cast<int>(port); }));
    const std::size_t budget = udp->receive_buffer_bytes() / 2;
    while (tokens_max > 1 && on_port * wire::reply_bytes(tokens_max, hidden, options.compact_reply) > budget) --tokens_max;
  }
  return tokens_max;
}

std::size_t smallest_mtu(std::span<const std::unique_ptr<agent::Transport>> transports) {
  std::size_t mtu = transports.front()->mtu();
  for (const auto& transport : transports) mtu = std::min(mtu, transport->mtu());
  return mtu;
}

class NetworkFfn final : public FlockFfn {
public:
  NetworkFfn(const FlockFfnOptions& options, const weights::Manifest& manifest,
             std::vector<std::unique_ptr<agent::Transport>> transports)
      : options_(options),
        transports_(std::move(transports)),
        hidden_(manifest.hidden),
        tokens_max_(choose_tokens_max(options_, hidden_, transports_)) {
    for (const weights::LayerManifest& layer : manifest.layers) {
      const auto at = static_cast<std::size_t>(layer.layer);
      if (exponent_.size() <= at) exponent_.resize(at + 1);
      exponent_[at] = layer.exponent;
    }
    for (int lane = 0; lane < wire::kLanesMax; ++lane) {
      rounds_[lane] = std::make_unique<HostRound>(HostRoundOptions{.ducks = options_.ducks,
                                                                   .lane = lane,
                                                                   .session_tag = options_.session_tag,
                                                                   .epoch = options_.epoch,
                                                                   .hidden = hidden_,
                                                                   .tokens_max = tokens_max_,
                                                                   .bf16_hidden = options_.bf16_hidden,
                                                                   .compact_reply = options_.compact_reply,
                                                                   .mtu = smallest_mtu(transports_),
                                                                   .dead_after = options_.dead_after});
    }
    const auto local = std::count_if(options_.ducks.begin(), options_.ducks.end(), is_local);
    const auto can_sleep = [](const auto& transport) { return transport->wait_descriptor() >= 0; };
    spin_ = std::thread::hardware_concurrency() > static_cast<unsigned>(local) + 1 &&
            std::all_of(transports_.begin(), transports_.end(), can_sleep);
  }

  int tokens_max() const override { return tokens_max_; }
  bool compact_reply() const override { return options_.compact_reply; }

  Expected<void> start(const FfnRequest& request) override {
    const auto layer = static_cast<std::size_t>(request.layer);
    const bool sound = request.lane >= 0 && request.lane < wire::kLanesMax && request.tokens >= 1 &&
                       request.tokens <= tokens_max_ && layer < exponent_.size() && !exponent_[layer].empty();
    if (!sound || rounds_[request.lane]->in_flight()) {
      return fail(ErrorCode::kInternal,
                  fmt::format("a round of layer {}, lane {}, {} tokens cannot start (at most {} tokens, one round a lane)",
                              request.layer, request.lane, request.tokens, tokens_max_));
    }
    for (const auto& choices : request.experts) { // the message's room is cut for so many
      if (choices.size() > static_cast<std::size_t>(wire::kChoicesMax))
        return fail(ErrorCode::kInternal, fmt::format("a token of layer {} chooses {} experts, a request carries {}",
                                                      request.layer, choices.size(), wire::kChoicesMax));
    }
    rounds_[request.lane]->start(request, exponent_[layer], options_.clock());
    flush();
    return {};
  }

  Expected<RoundTimes> finish(int lane, std::span<float> y) override {
    if (lane < 0 || lane >= wire::kLanesMax || !rounds_[lane]->in_flight()) {
      return fail(ErrorCode::kInternal, fmt::format("no round was started on lane {}", lane));
    }
    Instant active = options_.clock();
    while (!rounds_[lane]->finished()) {
      const bool came = intake();
      const Instant now = options_.clock();
      for (const auto& round : rounds_) round->tick(now);
      flush();
      if (came) active = now;
      if (came || rounds_[lane]->finished() || (spin_ && now - active < kSpin)) continue;
      agent::wait_any(transports_, time_to_wait(now));
    }
    return rounds_[lane]->finish(y, options_.clock());
  }

  FlockStats stats() const override {
    FlockStats s = stats_;
    for (const auto& round : rounds_) {
      const HostRoundCounts& c = round->counts();
      s.rounds += c.rounds;
      s.repeats += c.repeats;
      s.nacks_sent += c.nacks_sent;
      s.nacks_received += c.nacks_received;
      s.soft_timeouts += c.soft_timeouts;
      s.frames_out += c.frames_out;
      s.frames_duplicate += c.duplicate;
      s.frames_malformed += c.malformed;
    }
    return s;
  }

private:
  // Everything that has come, on every port. True when anything had.
  bool intake() {
    std::array<agent::IncomingFrame, HostRound::kBurst> burst;
    bool came = false;
    for (const auto& transport : transports_) {
      for (int i = 0; i < kIntakeBurstsMax; ++i) {
        const std::size_t count = transport->receive(burst);
        if (count == 0) break;
        came = true;
        const Instant now = options_.clock();
        for (const agent::IncomingFrame& frame : std::span(burst).first(count)) feed(frame, now);
        transport->release(std::span(burst).first(count));
      }
    }
    return came;
  }

  void feed(const agent::IncomingFrame& incoming, Instant now) {
    ++stats_.frames_in;
    const auto frame = wire::decode_frame(incoming.bytes);
    if (!frame) {
      const bool damaged = frame.error() == wire::Fault::Short || frame.error() == wire::Fault::Corrupt;
      ++(damaged                                   ? stats_.frames_corrupt
         : frame.error() == wire::Fault::Malformed ? stats_.frames_malformed
                                                   : stats_.frames_foreign);
      return;
    }
    const wire::Header& h = frame->header;
    const bool to_host = h.kind != wire::Kind::Request && h.kind != wire::Kind::ReplyNack;
    // A duck's frames come from that duck's address: two ducks that believe in one number must not be mistaken for each other.
    if (h.session_tag != options_.session_tag || !to_host || h.duck >= options_.ducks.size() ||
        incoming.from != options_.ducks[h.duck].data) {
      ++stats_.frames_foreign;
      return;
    }
    rounds_[h.lane]->feed(*frame, now);
  }

  void flush() {
    for (std::size_t port = 0; port < transports_.size(); ++port) {
      for (const auto& round : rounds_) {
        while (round->in_flight() && round->has_frames()) {
          const auto frames = round->frames(static_cast<int>(port));
          const std::size_t taken = frames.empty() ? 0 : transports_[port]->send(frames);
          round->sent(static_cast<int>(port), taken, options_.clock());
          if (taken == 0) break;
        }
      }
    }
  }

  Duration time_to_wait(Instant now) const {
    Duration wait = kWaitMax;
    for (const auto& round : rounds_) {
      if (round->in_flight() && round->has_frames()) wait = std::min(wait, kBlockedWait);
      if (const Instant deadline = round->deadline(); deadline != Instant::max()) wait = std::min<Duration>(wait, deadline - now);
    }
    return std::max(wait, Duration::zero());
  }

  FlockFfnOptions options_;
  std::vector<std::unique_ptr<agent::Transport>> transports_;
  int hidden_;
  int tokens_max_;
  std::vector<std::vector<std::int16_t>> exponent_; // [layer][block]
  std::array<std::unique_ptr<HostRound>, wire::kLanesMax> rounds_;
  bool spin_ = false;
  FlockStats stats_; // what the rounds do not count
};

} // namespace

std::unique_ptr<FlockFfn> make_flock_ffn(const FlockFfnOptions& options, const weights::Manifest& manifest,
                                         [[maybe_unused]] const weights::ModelConfig& config,
                                         std::vector<std::unique_ptr<agent::Transport>> transports) {
  assert(manifest.hidden == config.hidden && !options.ducks.empty() && !transports.empty());
  assert(std::all_of(options.ducks.begin(), options.ducks.end(), [&](const FlockDuck& d) {
    return d.port_index >= 0 && d.port_index < static_cast<int>(transports.size());
  }));
  return std::make_unique<NetworkFfn>(options, manifest, std::move(transports));
}

} // namespace ductl::engine
