#include "tests/support/in_process_flock.hpp"

#include "agent/client/fill.hpp"
#include "agent/expert_server.hpp"
#include "agent/kernels/select.hpp"
#include "agent/store/slice_store.hpp"
#include "agent/transport/udp_transport.hpp"
#include "weights/pack.hpp"
#include "weights/placement.hpp"
#include "weights/stored_format.hpp"

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace ductl::test {

namespace {

constexpr std::uint32_t kLoopback = 0x7f000001;
constexpr std::uint64_t kSessionTag = 0x5eed'f10c'0000'0001;

template <class T> T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().text());
  return std::move(*value);
}
void must(const Expected<void>& value) {
  if (!value) throw std::runtime_error(value.error().text());
}

struct Duck {
  std::unique_ptr<agent::SliceStore> store = agent::make_slice_store();
  std::unique_ptr<agent::UdpTransport> transport;
  std::unique_ptr<agent::ExpertServer> server;
  std::thread thread;

  void stop() {
    if (!thread.joinable()) return;
    server->stop();
    thread.join();
  }
};

struct AlignedBuffer {
  explicit AlignedBuffer(std::size_t size)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(64, size)), &std::free), span{bytes.get(), size} {}
  std::unique_ptr<std::byte, void (*)(void*)> bytes;
  std::span<std::byte> span;
};

void fill(const weights::Checkpoint& checkpoint, const weights::Manifest& manifest, const weights::Placement& placement,
          std::vector<Duck>& ducks) {
  AlignedBuffer buffer(manifest.layout.bytes);
  for (std::size_t layer = 0; layer < placement.owner.size(); ++layer) {
    for (std::size_t expert = 0; expert < placement.owner[layer].size(); ++expert) {
      const auto weights = must(weights::expert_weights(checkpoint, static_cast<int>(layer), static_cast<int>(expert)));
      const auto prepared = must(weights::prepare_expert(weights, manifest.format));
      const auto& owners = placement.owner[layer][expert];
      for (std::size_t index = 0; index < owners.size(); ++index) {
        must(weights::pack_slice(prepared, static_cast<int>(index), buffer.span));
        const weights::SliceId id{static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(expert),
                                  static_cast<std::uint16_t>(index)};
        must(ducks[owners[index]].store->put(id, buffer.span, manifest.layers[layer].digest[expert][index]));
      }
    }
  }
}

} // namespace

struct InProcessFlock::Impl {
  weights::Manifest manifest;
  weights::Placement placement;
  std::vector<Duck> ducks;
  std::unique_ptr<engine::FlockFfn> ffn;
};

InProcessFlock::InProcessFlock(const weights::Checkpoint& checkpoint, const InProcessFlockOptions& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->manifest = must(weights::make_manifest(checkpoint, must(weights::choose_format(checkpoint, options.format)), 1));
  std::vector<weights::PlacementDuck> names;
  for (int i = 0; i < options.ducks; ++i) names.push_back({.name = "duck" + std::to_string(i)});
  impl_->placement = must(weights::place_slices(checkpoint.config(), impl_->manifest.model_id, names, nullptr));
  impl_->ducks.resize(options.ducks);
  for (Duck& duck : impl_->ducks) must(duck.store->set_model(agent::store_model(impl_->manifest)));
  fill(checkpoint, impl_->manifest, impl_->placement, impl_->ducks);

  engine::FlockFfnOptions flock;
  flock.session_tag = kSessionTag;
  flock.epoch = impl_->placement.epoch;
  flock.bf16_hidden = options.bf16_hidden;
  flock.compact_reply = options.compact_reply;
  for (int i = 0; i < options.ducks; ++i) {
    Duck& duck = impl_->ducks[i];
    must(duck.store->activate(impl_->placement.epoch, impl_->placement.slices_of(i)));
    duck.transport = must(agent::open_udp_transport({.bind = {kLoopback, 0}}));
    duck.server =
        std::make_unique<agent::ExpertServer>(*duck.transport, *duck.store, *agent::select_kernels().value(), options.threads);
    duck.server->set_session({.tag = kSessionTag,
                              .epoch = impl_->placement.epoch,
                              .duck = static_cast<std::uint16_t>(i),
                              .bf16_hidden = options.bf16_hidden,
                              .compact_reply = options.compact_reply});
    duck.thread = std::thread([&server = *duck.server] { server.run(); });
    flock.ducks.push_back({.name = names[i].name, .port_index = 0, .data = duck.transport->local()});
  }
  std::vector<std::unique_ptr<agent::Transport>> transports;
  transports.push_back(must(agent::open_udp_transport({.bind = {kLoopback, 0}})));
  impl_->ffn = engine::make_flock_ffn(flock, impl_->manifest, checkpoint.config(), std::move(transports));
}

InProcessFlock::~InProcessFlock() {
  for (Duck& duck : impl_->ducks) duck.stop();
}

engine::FlockFfn& InProcessFlock::ffn() { return *impl_->ffn; }
const weights::Manifest& InProcessFlock::manifest() const { return impl_->manifest; }
void InProcessFlock::kill(int duck) { impl_->ducks[duck].stop(); }

} // namespace ductl::test
