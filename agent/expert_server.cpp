#include "agent/expert_server.hpp"

#include "agent/crew.hpp"
#include "agent/expert_compute.hpp"
#include "agent/wire/duck_round.hpp"

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <spdlog/spdlog.h>

namespace ductl::agent {
namespace {

constexpr Duration kIdleWait = std::chrono::seconds(1);         // wake() and frames end it early
constexpr Duration kBlockedWait = std::chrono::milliseconds(1); // the transport did not take all of a burst
constexpr int kIntakeBurstsMax = 64;                            // of one intake, so that a flood cannot starve the work

} // namespace

struct ExpertServer::Impl {
  Impl(Transport& transport_in, SliceStore& store_in, const ExpertKernels& kernels, const ThreadPlan& plan)
      : transport(transport_in), store(store_in), own_core(plan.own_cores), compute(kernels, wire::kTokensMax, plan) {}

  void run() {
    if (own_core) pin_this_thread(0);
    for (int idle_turn = 0; !stopping.load(std::memory_order_acquire); ++idle_turn) {
      adopt_session();
      if (intake()) idle_turn = 0;
      flush();
      if (const auto lane = round.next_ready()) {
        serve(*lane);
        idle_turn = 0;
      } else if (round.has_frames() || !own_core || !spin_turn(idle_turn)) {
        transport.wait(round.has_frames() ? kBlockedWait : kIdleWait);
      }
    }
  }

  // A new session, or a model of another size under the old one, starts the rounds afresh. Cheap when nothing has changed.
  void adopt_session() {
    const auto index = store.active();
    const int hidden = index ? index->hidden : 0;
    const bool is_new = session_changed.exchange(false, std::memory_order_acq_rel);
    if (!is_new && hidden == round.session().hidden) return;
    DataSession session;
    {
      const std::lock_guard lock(session_mutex);
      session = wanted_session;
    }
    round.begin_session({.tag = session.tag,
                         .epoch = session.epoch,
                         .duck = session.duck,
                         .bf16_hidden = session.bf16_hidden,
                         .compact_reply = session.compact_reply,
                         .hidden = hidden,
                         .tokens_max = wire::kTokensMax,
                         .mtu = transport.mtu()});
    if (session.tag == 0) return;
    spdlog::info("data plane: session {:016x}, epoch {}, duck {}, hidden {} ({}), {} replies", session.tag, session.epoch,
                 session.duck, hidden, session.bf16_hidden ? "bf16" : "f32", session.compact_reply ? "compact" : "exact");
  }

  // Whether anything had come. While a round computes no session is adopted, as that may replace the buffers which it writes
  // into: frames of a new one are strangers until the round has been given up.
  bool intake(bool computing = false) {
    std::array<IncomingFrame, wire::DuckRound::kBurst> burst;
    for (int i = 0; i < kIntakeBurstsMax; ++i) {
      const std::size_t count = transport.receive(burst);
      if (count == 0) return i > 0;
      if (!computing && session_changed.load(std::memory_order_acquire)) adopt_session();
      const Instant now = Clock::now();
      for (const IncomingFrame& frame : std::span(burst).first(count)) round.feed(frame.from, frame.bytes, now);
      transport.release(std::span(burst).first(count));
      if (count < burst.size()) return true;
    }
    return true;
  }

  void flush() {
    while (true) {
      const auto frames = round.frames();
      const std::size_t taken = frames.empty() ? 0 : transport.send(frames);
      round.sent(taken);
      if (taken == 0) break;
    }
    publish();
  }

  void serve(int lane) {
    const wire::ReadyRequest request = round.take(lane);
    const auto refusal = answer(request);
    if (refusal) round.refuse(lane, request.round, *refusal);
    flush();
  }

  // Computes and completes the round; or says why it will not.
  std::optional<wire::RefusalCode> answer(const wire::ReadyRequest& request) {
    const auto index = store.active(); // held until the end: the slices stay
    if (!index || index->epoch != round.session().epoch || index->hidden != round.session().hidden)
      return wire::RefusalCode::StaleEpoch;
    if (static_cast<std::size_t>(request.layer) >= index->layers.size()) return wire::RefusalCode::UnknownLayer;
    const ActiveLayer& layer = index->layers[request.layer];
    if (layer.first.empty()) return wire::RefusalCode::UnknownLayer;
    const auto view = wire::RequestView::parse(request.message);
    if (!view || view->shape().tokens > request.reply->tokens_max()) return wire::RefusalCode::Malformed;
    if (view->shape().hidden != index->hidden || view->shape().bf16 != round.session().bf16_hidden)
      return wire::RefusalCode::WrongHidden;
    compute.reserve(index->hidden, layer);
    if (!compute.gather(*view, layer)) return wire::RefusalCode::Malformed;

    const Instant start = Clock::now();
    request.reply->clear(view->shape().tokens);
    const int slices = compute.run(*view, *index, request.layer, request.rung, *request.reply, &Clock::now, [&](Instant) {
      if (stopping.load(std::memory_order_relaxed) || session_changed.load(std::memory_order_acquire)) return false;
      intake(true);
      flush();
      return round.is_current(request.lane, request.round);
    });
    if (slices < 0) return std::nullopt;
    const Instant end = Clock::now();
    const auto spent_ns = static_cast<std::uint64_t>(Duration(end - start).count());
    request.reply->finish(spent_ns, static_cast<std::uint32_t>(slices));
    round.complete(request.lane, request.round, end);
    stats.rounds.fetch_add(1, std::memory_order_relaxed);
    stats.slices.fetch_add(static_cast<std::uint64_t>(slices), std::memory_order_relaxed);
    stats.compute_ns.fetch_add(spent_ns, std::memory_order_relaxed);
    return std::nullopt;
  }

  void publish() {
    const wire::DuckRoundCounts& c = round.counts();
    const auto put = [](std::atomic<std::uint64_t>& to, std::uint64_t value) { to.store(value, std::memory_order_relaxed); };
    put(stats.frames_in, c.frames_in);
    put(stats.frames_out, c.frames_out);
    put(stats.frames_dropped, c.malformed + c.stale + c.duplicate);
    put(stats.frames_corrupt, c.corrupt);
    put(stats.frames_foreign, c.foreign);
    put(stats.nacks_sent, c.nacks_sent);
    put(stats.nacks_received, c.nacks_received);
    put(stats.refusals, c.refusals);
  }

  Transport& transport;
  SliceStore& store;
  const bool own_core;
  ExpertCompute compute;
  wire::DuckRound round;
  ExpertServerStats stats;
  std::atomic<bool> stopping{false}, session_changed{false};
  std::mutex session_mutex;
  DataSession wanted_session; // guarded by session_mutex
};

ExpertServer::ExpertServer(Transport& transport, SliceStore& store, const ExpertKernels& kernels, const ThreadPlan& plan)
    : impl_(std::make_unique<Impl>(transport, store, kernels, plan)) {}
ExpertServer::~ExpertServer() = default;

void ExpertServer::run() { impl_->run(); }

void ExpertServer::stop() {
  impl_->stopping.store(true, std::memory_order_release);
  impl_->transport.wake();
}

void ExpertServer::set_session(const DataSession& session) {
  {
    const std::lock_guard lock(impl_->session_mutex);
    impl_->wanted_session = session;
  }
  impl_->session_changed.store(true, std::memory_order_release);
  impl_->transport.wake();
}

const ExpertServerStats& ExpertServer::stats() const { return impl_->stats; }

} // namespace ductl::agent
