#include "tests/moe/support/simulated_duck.hpp"

#include <cassert>

namespace ductl::testing {

SimulatedDuck::SimulatedDuck(LossyNetwork& network, agent::Endpoint local, const wire::DuckSession& session,
                             const TinyModel& model, int ducks)
    : network_(network),
      local_(local),
      store_(model, session.duck, ducks, session.epoch),
      compute_(tiny_kernels(), wire::kTokensMax) {
  round_.begin_session(session);
  for (const agent::ActiveLayer& layer : store_.active()->layers) compute_.reserve(model.hidden, layer);
  network.attach(local, [this](agent::Endpoint from, std::span<const std::byte> frame) { hear(from, frame); });
}

void SimulatedDuck::hear(agent::Endpoint from, std::span<const std::byte> frame) {
  if (!alive_ || frame.size() > heard_bytes_max_) return;
  round_.feed(from, frame, LossyNetwork::now());
  speak();
  work();
}

void SimulatedDuck::speak() {
  while (alive_) {
    const auto frames = round_.frames();
    if (frames.empty()) return;
    for (const agent::OutgoingFrame& frame : frames) {
      std::vector<std::byte> bytes(frame.head.begin(), frame.head.end());
      bytes.insert(bytes.end(), frame.body.begin(), frame.body.end());
      network_.send(local_, frame.to, std::move(bytes));
    }
    round_.sent(frames.size());
  }
}

void SimulatedDuck::work() {
  const auto lane = round_.next_ready();
  if (computing_ || !lane) return;
  const wire::ReadyRequest request = round_.take(*lane);
  const auto view = wire::RequestView::parse(request.message);
  const auto index = store_.active();
  if (!view || static_cast<std::size_t>(request.layer) >= index->layers.size() ||
      !compute_.gather(*view, index->layers[request.layer])) {
    round_.refuse(request.lane, request.round, wire::RefusalCode::Malformed);
    speak();
    return;
  }
  if (!computes_) return;
  request.reply->clear(view->shape().tokens);
  const int slices =
      compute_.run(*view, *index, request.layer, request.rung, *request.reply, &LossyNetwork::now, [](Instant) { return true; });
  computing_ = true;
  const auto took = std::chrono::microseconds(10 + network_.random()() % 400);
  network_.at(took, [this, request, slices, took] {
    computing_ = false;
    if (round_.is_current(request.lane, request.round)) {
      request.reply->finish(static_cast<std::uint64_t>(Duration(took).count()), static_cast<std::uint32_t>(slices));
      round_.complete(request.lane, request.round, LossyNetwork::now());
    }
    speak();
    work();
  });
}

} // namespace ductl::testing
