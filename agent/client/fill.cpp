#include "agent/client/fill.hpp"

#include "agent/client/slice_frames.hpp"
#include "weights/pack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <optional>

namespace ductl::agent {

namespace {

constexpr std::size_t kBodyBytes = 16u << 20; // enough to hide a round trip, small enough to show progress and to hold two

using weights::HeldSlice;
using weights::SliceId;

std::vector<HeldSlice> wanted_slices(const weights::Manifest& manifest, std::span<const SliceId> ids) {
  std::vector<HeldSlice> out;
  out.reserve(ids.size());
  for (const SliceId& id : ids) out.push_back({id, manifest.layers.at(id.layer).digest.at(id.expert).at(id.index)});
  return out;
}

std::span<const HeldSlice> of_layer(std::span<const HeldSlice> sorted, std::size_t layer) {
  const auto less = [](const HeldSlice& slice, std::size_t value) { return slice.id.layer < value; };
  const auto begin = std::lower_bound(sorted.begin(), sorted.end(), layer, less);
  const auto end = std::lower_bound(begin, sorted.end(), layer + 1, less);
  return {begin, end};
}

// Both sorted by id: what to send (missing or of another digest) and what to drop.
void compare(std::span<const HeldSlice> wanted, std::span<const HeldSlice> held, FillPlan& plan) {
  std::size_t w = 0, h = 0;
  while (w < wanted.size() || h < held.size()) {
    if (h == held.size() || (w < wanted.size() && wanted[w].id < held[h].id)) {
      plan.send.push_back(wanted[w++].id);
    } else if (w == wanted.size() || held[h].id < wanted[w].id) {
      plan.drop.push_back(held[h++].id);
    } else {
      if (wanted[w].digest != held[h].digest) plan.send.push_back(wanted[w].id);
      ++w, ++h;
    }
  }
}

} // namespace

Expected<FillPlan> plan_fill(ControlClient& client, const Hello& hello, const weights::Manifest& manifest,
                             const weights::Placement& placement, int duck) {
  FillPlan plan;
  plan.duck = placement.ducks.at(static_cast<std::size_t>(duck));
  const std::vector<SliceId> ids = placement.slices_of(duck);
  plan.set_model = hello.model_id != manifest.model_id;
  if (plan.set_model) {
    plan.send = ids;
  } else {
    const std::vector<HeldSlice> wanted = wanted_slices(manifest, ids);
    const auto digests = client.layer_digests();
    if (!digests) return tl::unexpected(digests.error());
    for (std::size_t layer = 0; layer < std::max(digests->size(), manifest.layers.size()); ++layer) {
      const auto here = of_layer(wanted, layer);
      if (layer < digests->size() && (*digests)[layer] == weights::combined_digest(here)) continue;
      std::vector<HeldSlice> held;
      if (layer < digests->size()) {
        auto listed = client.list(static_cast<int>(layer));
        if (!listed) return tl::unexpected(listed.error());
        held = std::move(*listed);
      }
      compare(here, held, plan);
    }
  }
  plan.send_bytes = plan.send.size() * manifest.layout.bytes;
  plan.activate = plan.set_model || !plan.send.empty() || hello.epoch != placement.epoch || hello.slices_active != ids.size();
  return plan;
}

namespace {

// One body: its slices in one buffer, and what they are.
struct Body {
  std::vector<std::byte> bytes;
  std::vector<OutgoingSlice> slices;
};

class Packer {
public:
  Packer(const weights::Checkpoint& checkpoint, const weights::Manifest& manifest, std::span<const SliceId> ids)
      : checkpoint_(checkpoint), manifest_(manifest), ids_(ids) {}

  [[nodiscard]] bool done() const { return next_ == ids_.size(); }

  Expected<Body> next_body() {
    const std::size_t slice_bytes = manifest_.layout.bytes;
    const std::size_t count =
        std::min(ids_.size() - next_, std::clamp<std::size_t>(kBodyBytes / slice_bytes, 1, kSlicesPerBodyMax));
    Body body;
    body.bytes.resize(count * slice_bytes);
    for (std::size_t i = 0; i < count; ++i, ++next_) {
      const SliceId id = ids_[next_];
      const std::span<std::byte> out(body.bytes.data() + i * slice_bytes, slice_bytes);
      if (auto packed = pack(id, out); !packed) return tl::unexpected(packed.error());
      body.slices.push_back({id, manifest_.layers.at(id.layer).digest.at(id.expert).at(id.index), out});
    }
    return body;
  }

private:
  Expected<void> pack(SliceId id, std::span<std::byte> out) {
    if (!prepared_ || layer_ != id.layer || expert_ != id.expert) { // ids are sorted: once an expert
      const auto expert = weights::expert_weights(checkpoint_, id.layer, id.expert);
      if (!expert) return tl::unexpected(expert.error());
      auto prepared = weights::prepare_expert(*expert, manifest_.format);
      if (!prepared) return tl::unexpected(prepared.error());
      prepared_ = std::move(*prepared);
      layer_ = id.layer;
      expert_ = id.expert;
    }
    return weights::pack_slice(*prepared_, id.index, out);
  }

  const weights::Checkpoint& checkpoint_;
  const weights::Manifest& manifest_;
  std::span<const SliceId> ids_;
  std::size_t next_ = 0;
  std::optional<weights::PreparedExpert> prepared_;
  std::uint16_t layer_ = 0, expert_ = 0;
};

// The next body is packed while this one is on its way.
Expected<void> send_slices(ControlClient& client, Packer& packer, FillProgress& progress,
                           const std::function<void(const FillProgress&)>& report, const std::function<bool()>& stop) {
  Expected<Body> body = packer.next_body();
  while (body) {
    if (stop && stop()) return fail(ErrorCode::kCancelled, "interrupted", {}, "the same command goes on where this one stopped");
    std::future<Expected<Body>> next;
    if (!packer.done()) next = std::async(std::launch::async, [&packer] { return packer.next_body(); });
    const auto sent = client.put(body->slices);
    if (sent) {
      progress.bytes_sent += body->bytes.size();
      progress.slices_sent += static_cast<int>(body->slices.size());
      if (report) report(progress);
    }
    if (!next.valid()) return sent;
    body = next.get();
    if (!sent) return sent;
  }
  return tl::unexpected(body.error());
}

} // namespace

Expected<void> fill_duck(ControlClient& client, const FillPlan& plan, const weights::Checkpoint& checkpoint,
                         const weights::Manifest& manifest, const weights::Placement& placement, int duck,
                         const std::function<void(const FillProgress&)>& progress, const std::function<bool()>& stop) {
  FillProgress done;
  done.bytes_total = plan.send_bytes;
  done.slices_total = static_cast<int>(plan.send.size());
  if (plan.set_model) {
    if (auto set = client.set_model(store_model(manifest)); !set) return set;
  }
  if (!plan.send.empty()) {
    Packer packer(checkpoint, manifest, plan.send);
    if (auto sent = send_slices(client, packer, done, progress, stop); !sent) return sent;
  }
  if (plan.activate) {
    if (auto active = client.activate(placement.epoch, placement.slices_of(duck)); !active) return active;
  }
  // Last: until the new epoch is active, rounds of the old one may still use these.
  if (!plan.drop.empty()) return client.drop(plan.drop);
  return {};
}

StoreModel store_model(const weights::Manifest& manifest) {
  StoreModel model;
  model.model_id = manifest.model_id;
  model.hidden = manifest.hidden;
  model.format = manifest.format;
  for (const weights::LayerManifest& layer : manifest.layers) {
    model.exponent.push_back(layer.exponent);
    model.experts.push_back(static_cast<int>(layer.digest.size()));
  }
  return model;
}

} // namespace ductl::agent
