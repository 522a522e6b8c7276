#include "engine/server/api_state.hpp"

namespace ductl::engine {

void ApiState::set_stage(std::string stage) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
}

std::string ApiState::stage() const {
  const std::lock_guard lock(mutex_);
  return stage_;
}

bool ApiState::enter(int places) {
  const std::lock_guard lock(mutex_);
  if (counts_.running >= places) {
    ++counts_.refused;
    return false;
  }
  ++counts_.running;
  return true;
}

void ApiState::leave(Outcome outcome, const GenerationStats* stats) {
  const std::lock_guard lock(mutex_);
  --counts_.running;
  ++(outcome == Outcome::Answered ? counts_.answered : outcome == Outcome::Failed ? counts_.failed : counts_.cancelled);
  if (stats != nullptr) {
    last_ = *stats;
    last_->tokens.clear(); // may be long, and only its own request asked for it
  }
}

ApiState::Counts ApiState::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::optional<GenerationStats> ApiState::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

} // namespace ductl::engine
