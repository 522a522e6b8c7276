// Sequences whose KV caches are kept between requests, and which of them a new prompt goes on from.
//
// A session's tokens are exactly those whose keys and values lie in its cache: whoever runs tokens through the model tells
// the session so, whoever fails leaves both as they were. One thread at a time.
#pragma once

#include "engine/attention/attention_backend.hpp"

#include <functional>
#include <vector>

namespace ductl::engine {

class Session {
public:
  explicit Session(std::unique_ptr<KvCache> cache) : cache_(std::move(cache)) {}
  [[nodiscard]] KvCache& cache() { return *cache_; }
  [[nodiscard]] const std::vector<int>& tokens() const { return tokens_; }
  [[nodiscard]] int common_prefix(std::span<const int> prompt) const;
  // Rolls back to the longest useful prefix of `prompt` and returns its length. At least the prompt's last token is left to
  // run, since its logits are wanted. With drafts the MTP layer keeps as many rows: the last common token is run again, since
  // its row belongs to the token behind it.
  int rewind_to(std::span<const int> prompt, bool drafts = false);
  void ran(std::span<const int> tokens); // they are in the cache now
  // A failed run may have left the cache shorter than it was (never longer): tokens follow it.
  void follow_cache();

private:
  std::unique_ptr<KvCache> cache_;
  std::vector<int> tokens_;
};

using MakeCache = std::function<Expected<std::unique_ptr<KvCache>>()>;

class KeptSessions {
public:
  // Caches are made when they are first needed. sessions_max >= 1.
  KeptSessions(int sessions_max, MakeCache make_cache);
  // The session that shares the most with the prompt when at least half of what it keeps stays useful; else a new one while
  // there is room (and memory); else the one that was not used for longest.
  [[nodiscard]] Expected<Session*> choose(std::span<const int> prompt);
  [[nodiscard]] int count() const { return static_cast<int>(sessions_.size()); }

private:
  Session* use(std::size_t index); // moves it to the end: used last

  int sessions_max_;
  MakeCache make_cache_;
  std::vector<std::unique_ptr<Session>> sessions_; // least recently used first
};

} // namespace ductl::engine
