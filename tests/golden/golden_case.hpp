// A golden case as make_golden.py wrote it, and the engine run on it.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "engine/moe/ffn.hpp"
#include "engine/moe/router.hpp"
#include "inventory/inventory.hpp"
#include "weights/checkpoint.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ductl::test {

struct GoldenPrompt {
  std::vector<int> ids;
  std::vector<int> positions;
  std::vector<std::vector<float>> logits; // [positions][vocab]
  bool stepwise = false;
  bool near_tie = false; // a choice in it is so close that bf16 hidden states may flip it
};

struct GoldenCase {
  std::unique_ptr<weights::Checkpoint> checkpoint;
  std::vector<GoldenPrompt> prompts;
  std::vector<GoldenPrompt> drafts, fp8_keys; // deepseek_v32: what the MTP layer's rows foresee; logits with e4m3 index keys
};

[[nodiscard]] std::vector<std::string> golden_case_names();
[[nodiscard]] GoldenCase load_golden_case(const std::string& name);

// Logits of every position, the prompt cut into chunks of `chunk` tokens (the whole prompt where FFN and backend take it at
// once).
[[nodiscard]] std::vector<std::vector<float>> run_engine(const weights::Checkpoint& checkpoint, engine::Ffn& ffn,
                                                         const std::vector<int>& ids, int chunk, int threads = 2,
                                                         inventory::IndexKeys index_keys = inventory::IndexKeys::F32);

// What the MTP layer foresees behind every token but the last, model and MTP layer in chunks of `chunk` tokens.
[[nodiscard]] std::vector<std::vector<float>> run_drafts(const weights::Checkpoint& checkpoint, engine::Ffn& ffn,
                                                         const std::vector<int>& ids, int chunk);

struct Deviation {
  double worst = 0;     // max over positions of (max |difference| / max |reference|)
  int greedy_wrong = 0; // positions whose best token differs although the reference's best two are further apart than `gap`
};
[[nodiscard]] Deviation compare(const std::vector<std::vector<float>>& engine, const GoldenPrompt& golden, double gap);

} // namespace ductl::test
