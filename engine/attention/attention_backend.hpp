// The seam to whatever computes everything that is not an FFN: embedding, norms, attention with its KV cache, router
// scores, final norm and head. The CPU backend is the reference; a GPU's must agree within a stated tolerance.
//
// Asynchronous, so that lanes overlap: launch() starts one layer's attention half for a lane's tokens, ready() polls,
// take() hands out what the FFN needs, absorb() adds the FFN's sum to the residual. Order for a batch:
//   begin, for each layer: launch, (ready), take, absorb; then hidden, logits.
// A model with an MTP layer (which predicts one token further) runs it as a batch of its own, of one layer: begin_draft,
// launch(the layer behind the last), take, absorb; then draft_logits.
// Bits of a token's result never depend on the other tokens of its batch, on chunking or on threads.
// One sequence per KvCache; a lane works on one sequence at a time. Calls come from one thread.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace ductl::engine {

// A sequence's cache of every layer; positions 0..length-1 are valid, in the MTP layer 0..draft_length-1. Made by the backend,
// sized for the whole context.
class KvCache {
public:
  virtual ~KvCache() = default;
  [[nodiscard]] virtual int length() const = 0;
  [[nodiscard]] virtual int draft_length() const = 0; // <= length()
  [[nodiscard]] virtual int capacity() const = 0;
  virtual void truncate(int length) = 0; // rollback, of the MTP layer as well; length <= length()
  virtual void truncate_drafts(int length) = 0;
};

struct AttentionOutput {
  std::span<const float> x;      // [tokens * hidden] normed input of the FFN
  std::span<const float> scores; // [tokens * experts] router logits (float); empty in dense layers
};

class AttentionBackend {
public:
  virtual ~AttentionBackend() = default;
  [[nodiscard]] virtual int lanes() const = 0;
  [[nodiscard]] virtual bool drafts() const = 0;    // there is an MTP layer
  [[nodiscard]] virtual int tokens_max() const = 0; // of one batch
  [[nodiscard]] virtual Expected<std::unique_ptr<KvCache>> make_cache(int capacity) = 0;

  // Tokens at positions cache.length() .. + tokens-1. The cache grows by them when the last layer has been launched.
  virtual void begin(int lane, KvCache& cache, std::span<const int> tokens) = 0;
  virtual void launch(int lane, int layer) = 0;
  [[nodiscard]] virtual bool ready(int lane) = 0;
  virtual AttentionOutput take(int lane) = 0;                    // waits if not ready; valid until the next launch of this lane
  virtual void absorb(int lane, std::span<const float> sum) = 0; // [tokens * hidden]
  // Final norm and head for the batch's tokens first..first+count-1 -> out[count * vocab].
  virtual void logits(int lane, int first, int count, std::span<float> out) = 0;
  // The same tokens' hidden states behind the final norm -> out[count * hidden]: what the MTP layer goes on from.
  virtual void hidden(int lane, int first, int count, std::span<float> out) = 0;

  // Rows cache.draft_length() .. of the MTP layer: row i joins the hidden state of position i (already in the cache) with the
  // token at i + 1. The cache's draft_length grows by them when the layer has been launched.
  virtual void begin_draft(int lane, KvCache& cache, std::span<const int> next_tokens, std::span<const float> hidden) = 0;
  // What the batch's row predicts for the position two behind it -> out[vocab].
  virtual void draft_logits(int lane, int row, std::span<float> out) = 0;
};

} // namespace ductl::engine
