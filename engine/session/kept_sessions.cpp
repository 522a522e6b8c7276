#include "engine/session/kept_sessions.hpp"

#include <algorithm>
#include <cassert>

namespace ductl::engine {

int Session::common_prefix(std::span<const int> prompt) const {
  const auto [mine, theirs] = std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end());
  return static_cast<int>(mine - tokens_.begin());
}

int Session::rewind_to(std::span<const int> prompt, bool drafts) {
  assert(!prompt.empty());
  const int common = common_prefix(prompt);
  int kept = std::min(common, static_cast<int>(prompt.size()) - 1);
  if (drafts) kept = std::min({kept, std::max(common - 1, 0), cache_->draft_length()});
  cache_->truncate(kept);
  follow_cache();
  return kept;
}

void Session::ran(std::span<const int> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  assert(cache_->length() == static_cast<int>(tokens_.size()));
}

void Session::follow_cache() {
  const auto length = static_cast<std::size_t>(cache_->length());
  assert(length <= tokens_.size());
  tokens_.resize(length);
}

KeptSessions::KeptSessions(int sessions_max, MakeCache make_cache)
    : sessions_max_(sessions_max), make_cache_(std::move(make_cache)) {
  assert(sessions_max_ >= 1);
}

Expected<Session*> KeptSessions::choose(std::span<const int> prompt) {
  std::size_t best = 0;
  int best_common = -1;
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    const int common = sessions_[i]->common_prefix(prompt);
    if (common < best_common) continue;
    best = i;
    best_common = common;
  }
  const bool useful = best_common > 0 && 2 * static_cast<std::size_t>(best_common) >= sessions_[best]->tokens().size();
  if (useful) return use(best);
  if (count() < sessions_max_) {
    auto cache = make_cache_();
    if (cache) {
      sessions_.push_back(std::make_unique<Session>(std::move(*cache)));
      return sessions_.back().get();
    }
    if (sessions_.empty()) return tl::unexpected(cache.error());
    sessions_max_ = count(); // no memory for more: go on with those that there are
  }
  return use(0);
}

Session* KeptSessions::use(std::size_t index) {
  std::rotate(sessions_.begin() + static_cast<std::ptrdiff_t>(index), sessions_.begin() + static_cast<std::ptrdiff_t>(index) + 1,
              sessions_.end());
  return sessions_.back().get();
}

} // namespace ductl::engine
