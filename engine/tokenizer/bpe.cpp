#include "engine/tokenizer/bpe.hpp"

#include <algorithm>
#include <bit>
#include <queue>

namespace ductl::engine {
namespace {

constexpr std::uint64_t kFree = ~std::uint64_t{0};
constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
constexpr std::size_t kShortMax = 40; // up to here scanning beats a heap

std::uint64_t pair_of(int left, int right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}
std::uint64_t hash(std::uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15u;
  return pair ^ (pair >> 29);
}

} // namespace

Bpe::Bpe(const std::array<int, 256>& byte_ids, const std::vector<Merge>& merges) : byte_ids_(byte_ids) {
  slots_.resize(std::bit_ceil(2 * merges.size() + 2), Slot{kFree, kNoRank, -1});
  mask_ = slots_.size() - 1;
  for (const Merge& merge : merges) {
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::uint64_t at = hash(pair) & mask_;
    while (slots_[at].pair != kFree && slots_[at].pair != pair) at = (at + 1) & mask_;
    slots_[at] = {pair, merge.rank, merge.product};
  }
}

const Bpe::Slot* Bpe::find(int left, int right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::uint64_t at = hash(pair) & mask_;; at = (at + 1) & mask_) {
    if (slots_[at].pair == pair) return &slots_[at];
    if (slots_[at].pair == kFree) return nullptr;
  }
}

std::uint32_t Bpe::rank_of(int left, int right) const {
  const Slot* slot = find(left, right);
  return slot == nullptr ? kNoRank : slot->rank;
}

void Bpe::encode(std::string_view piece, std::vector<int>& out) const {
  const std::size_t begin = out.size();
  for (const char byte : piece) {
    const int id = byte_ids_[static_cast<std::uint8_t>(byte)];
    if (id >= 0) out.push_back(id);
  }
  if (out.size() - begin < 2) return;
  out.size() - begin <= kShortMax ? merge_short(out, begin) : merge_long(out, begin);
}

void Bpe::merge_short(std::vector<int>& out, std::size_t begin) const {
  int* ids = out.data() + begin;
  std::size_t count = out.size() - begin;
  std::array<std::uint32_t, kShortMax> ranks; // of the pair that begins here
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(ids[i], ids[i + 1]);
  while (count > 1) {
    const auto best = static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.begin() + (count - 1)) - ranks.begin());
    if (ranks[best] == kNoRank) break;
    ids[best] = find(ids[best], ids[best + 1])->product;
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(ranks.begin() + (best + 1), ranks.begin() + (count - 1), ranks.begin() + best);
    --count;
    if (best + 1 < count) ranks[best] = rank_of(ids[best], ids[best + 1]);
    if (best > 0) ranks[best - 1] = rank_of(ids[best - 1], ids[best]);
  }
  out.resize(begin + count);
}

void Bpe::merge_long(std::vector<int>& out, std::size_t begin) const {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Symbol {
    int id; // -1: swallowed by its left neighbour
    std::uint32_t previous, next;
  };
  struct Candidate { // a merge of the symbol at `at` with its next one; out of date when their rank has changed
    std::uint32_t rank, at;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const auto count = static_cast<std::uint32_t>(out.size() - begin);
  std::vector<Symbol> symbols(count);
  for (std::uint32_t i = 0; i < count; ++i) symbols[i] = {out[begin + i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};

  std::vector<Candidate> storage;
  storage.reserve(count);
  std::priority_queue queue(std::greater<>{}, std::move(storage));
  const auto offer = [&](std::uint32_t at) {
    if (at == kNone || symbols[at].next == kNone) return;
    const std::uint32_t rank = rank_of(symbols[at].id, symbols[symbols[at].next].id);
    if (rank != kNoRank) queue.push({rank, at});
  };
  for (std::uint32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.at];
    if (left.id < 0 || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    const Slot* merge = find(left.id, right.id);
    if (merge == nullptr || merge->rank != best.rank) continue;
    left.id = merge->product;
    left.next = right.next;
    right.id = -1;
    if (left.next != kNone) symbols[left.next].previous = best.at;
    offer(left.previous);
    offer(best.at);
  }
  out.resize(begin);
  for (std::uint32_t i = 0; i != kNone; i = symbols[i].next) out.push_back(symbols[i].id);
}

} // namespace ductl::engine
